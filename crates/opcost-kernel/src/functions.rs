//! Finds the source file of each function of a kernel: a build puts objects where their sources are.

use super::error::KernelError;
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

/// Folders of objects that do not belong to the kernel: programs of the build, and the image's own loader.
const NOT_KERNEL: [&str; 6] =
    ["scripts", "tools", "usr", "arch/arm64/boot", "arch/x86/boot", "arch/x86/realmode"];

/// Writes the functions of all objects below `objects` whose source file is in `source`. Each line
/// has a symbol, a tab, and the path within the source.
pub(super) fn write(objects: &Path, source: &Path, to: &Path) -> Result<(), KernelError> {
    let mut lines: BTreeSet<String> = BTreeSet::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let here = objects.join(&folder);
        for entry in fs::read_dir(&here).map_err(KernelError::file("read", &here))?.flatten() {
            let Some(name) = entry.file_name().to_str().map(str::to_string) else { continue };
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !NOT_KERNEL.contains(&path.as_str()) {
                    folders.push(path);
                }
                continue;
            }
            let Some(stem) = path.strip_suffix(".o") else { continue };
            let sources = [".c", ".S"].map(|ending| format!("{stem}{ending}"));
            // Objects linked from several others have no source file of their own.
            let Some(of) = sources.iter().find(|name| source.join(name).is_file()) else {
                continue;
            };
            let Ok(bytes) = fs::read(entry.path()) else { continue };
            // Files that are no objects have no functions.
            let Ok(object) = object::File::parse(&*bytes) else { continue };
            let functions = object.symbols().filter(|symbol| {
                symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() > 0
            });
            lines.extend(
                functions.filter_map(|symbol| Some(format!("{}\t{of}\n", symbol.name().ok()?))),
            );
        }
    }
    let text: String = lines.into_iter().collect();
    fs::write(to, text).map_err(KernelError::file("write", to))
}

/// Reads the file that [`write()`] made.
pub(super) fn read(path: &Path) -> Option<HashMap<String, Vec<String>>> {
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    for line in fs::read_to_string(path).ok()?.lines() {
        let (symbol, file) = line.split_once('\t')?;
        found.entry(symbol.into()).or_default().push(file.into());
    }
    Some(found)
}
