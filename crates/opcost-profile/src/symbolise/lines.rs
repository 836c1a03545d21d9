//! Finds the source lines of code, by debug information.

use super::Sources;
use super::file::debug_file;
use super::inline::{DebugSections, Dwarf, Places, WithoutInlined, may_have};
use gimli::{EndianSlice, LittleEndian, UnitRef};
use opcost_symbols::debug_files::DEBUG_SECTIONS;
use opcost_symbols::demangle::demangle;
use opcost_symbols::elf;
use std::collections::HashMap;
use std::path::Path;

/// A function at an instruction, and the line that the instruction is from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LineAt {
    /// The function's name as its author wrote it.
    pub function: Option<String>,
    /// Index into [`CodeLines::files`].
    pub file: Option<u32>,
    /// The line, from 1; in a function into which others were inlined, the line of the call.
    pub line: Option<u32>,
}

/// A source file that debug information names.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SourceFile {
    /// The path when the program was compiled.
    pub path: String,
    /// The MD5 of the contents then, if the line table has it (DWARF 5, 6.2.4.1).
    pub md5: Option<[u8; 16]>,
    /// The lines that declare functions, and the functions' names there, if debug information has them.
    pub declared: Vec<(u32, String)>,
}

/// The source lines of instructions.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CodeLines {
    /// The functions at each instruction, outermost first; empty if debug information has none there.
    pub places: Vec<Vec<LineAt>>,
    /// The source files.
    pub files: Vec<SourceFile>,
    /// Why lines are missing: `None` with no lines means that there is no debug information.
    pub without: Option<WithoutInlined>,
}

/// Finds the source lines of instructions.
///
/// `path`: the program or library with the code; `addresses`: the instructions' as linked, ascending; `sources`: where debug
/// files are.
pub fn lines(path: &Path, addresses: &[u64], sources: &Sources) -> CodeLines {
    let mut found = CodeLines { places: vec![Vec::new(); addresses.len()], ..CodeLines::default() };
    let Ok(file) = elf::excerpt(path, DEBUG_SECTIONS, sources.limit_bytes) else { return found };
    let debug = debug_file(path, &file, DEBUG_SECTIONS, sources);
    let (places, files) = (Places::Addresses(addresses), &sources.debug_files);
    let sections = DebugSections::read(&file, debug.as_ref(), places, files, sources.limit_bytes);
    let Some(sections) = sections else { return found };
    let inlined = match sections.inlined() {
        Ok(inlined) => inlined,
        Err(why) => return CodeLines { without: Some(why), ..found },
    };
    let mut numbers: HashMap<String, u32> = HashMap::new();
    let mut functions: HashMap<&[u8], String> = HashMap::new();
    for (address, place) in addresses.iter().zip(&mut found.places) {
        let readable = inlined.each_line(*address, |function, file, line| {
            let function = function.filter(|name| !name.is_empty()).map(|name| {
                let shown = || demangle(&String::from_utf8_lossy(name));
                functions.entry(name).or_insert_with(shown).clone()
            });
            let file = file.map(|path| {
                // Files number no more than lines, which are counted in 32 bits.
                let next = numbers.len() as u32;
                *numbers.entry(path.to_string()).or_insert(next)
            });
            place.push(LineAt { function, file, line: line.filter(|line| *line > 0) });
        });
        if !readable {
            place.clear();
            found.without = Some(WithoutInlined::Unreadable);
        }
        place.reverse();
    }
    // Hashes and declarations are further checks: without them the file's time is looked at.
    let dwarf = sections.dwarf().ok();
    let hashes = dwarf.as_ref().and_then(|dwarf| hashes(dwarf, addresses).ok());
    let declared = dwarf.as_ref().and_then(|dwarf| declared(dwarf, addresses, &functions).ok());
    let (mut hashes, mut declared) = (hashes.unwrap_or_default(), declared.unwrap_or_default());
    found.files = vec![SourceFile::default(); numbers.len()];
    for (path, number) in numbers {
        let md5 = hashes.remove(&path).flatten();
        let declared = declared.remove(&path).unwrap_or_default();
        found.files[number as usize] = SourceFile { path, md5, declared };
    }
    found
}

/// The lines that declare functions, by source file. `functions`: by the names that linkers know.
fn declared(
    dwarf: &Dwarf<'_>,
    addresses: &[u64],
    functions: &HashMap<&[u8], String>,
) -> Result<HashMap<String, Vec<(u32, String)>>, gimli::Error> {
    let mut found: HashMap<String, Vec<(u32, String)>> = HashMap::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        if !may_have(dwarf, header, addresses) {
            continue;
        }
        let Ok(unit) = dwarf.unit(header) else { continue };
        let unit = unit.unit_ref(dwarf);
        let Some(program) = unit.line_program.as_ref() else { continue };
        let mut entries = unit.entries_raw(None)?;
        while !entries.is_empty() {
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            if abbreviation.tag() != gimli::DW_TAG_subprogram {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let (mut name, mut linkage, mut file, mut line) = (None, None, None, None);
            for specification in abbreviation.attributes() {
                let attribute = entries.read_attribute(*specification)?;
                match attribute.name() {
                    gimli::DW_AT_name => name = unit.attr_string(attribute.value()).ok(),
                    gimli::DW_AT_linkage_name => linkage = unit.attr_string(attribute.value()).ok(),
                    gimli::DW_AT_decl_file => file = file_index(attribute.value()),
                    gimli::DW_AT_decl_line => line = attribute.udata_value(),
                    _ => {}
                }
            }
            let (Some(name), Some(file), Some(line)) = (name, file, line) else { continue };
            if !functions.contains_key(linkage.unwrap_or(name).slice()) {
                continue;
            }
            let lines = program.header();
            let path = lines.file(file).map(|file| path_of(unit, lines, file));
            if let (Some(Ok(path)), Ok(line)) = (path, u32::try_from(line)) {
                let of_file = found.entry(path).or_default();
                let name = name.to_string_lossy().into_owned();
                if !of_file.contains(&(line, name.clone())) {
                    of_file.push((line, name));
                }
            }
        }
    }
    Ok(found)
}

fn file_index(value: gimli::AttributeValue<Bytes<'_>>) -> Option<u64> {
    match value {
        gimli::AttributeValue::FileIndex(index) => Some(index),
        value => value.udata_value(),
    }
}

/// The MD5 of each source file of the units with one of these addresses; `None` for a file that several units know by different
/// contents.
fn hashes(
    dwarf: &Dwarf<'_>,
    addresses: &[u64],
) -> Result<HashMap<String, Option<[u8; 16]>>, gimli::Error> {
    let mut found: HashMap<String, Option<[u8; 16]>> = HashMap::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        if !may_have(dwarf, header, addresses) {
            continue;
        }
        let Ok(unit) = dwarf.unit(header) else { continue };
        let unit = unit.unit_ref(dwarf);
        let Some(program) = unit.line_program.as_ref() else { continue };
        let lines = program.header();
        if !lines.file_has_md5() {
            continue;
        }
        for file in lines.file_names() {
            let Ok(path) = path_of(unit, lines, file) else { continue };
            let md5 = Some(*file.md5()).filter(|md5| *md5 != [0; 16]);
            let known = found.entry(path).or_insert(md5);
            *known = known.filter(|known| Some(*known) == md5);
        }
    }
    Ok(found)
}

type Bytes<'s> = EndianSlice<'s, LittleEndian>;

/// The path of a source file, spelled as addr2line spells it (`render_file`).
fn path_of<'s>(
    unit: UnitRef<'_, Bytes<'s>>,
    lines: &gimli::LineProgramHeader<Bytes<'s>>,
    file: &gimli::FileEntry<Bytes<'s>>,
) -> Result<String, gimli::Error> {
    let folder = unit.comp_dir.map(|folder| folder.to_string_lossy().into_owned());
    let mut path = folder.unwrap_or_default();
    let mut push = |part: &str| {
        if part.starts_with('/') {
            path.clear();
        } else if !path.is_empty() && !path.ends_with('/') {
            path.push('/');
        }
        path.push_str(part);
    };
    if file.directory_index() != 0
        && let Some(folder) = file.directory(lines)
    {
        push(&unit.attr_string(folder)?.to_string_lossy());
    }
    push(&unit.attr_string(file.path_name())?.to_string_lossy());
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotate::{SourceState, source_text};
    use crate::symbolise::KernelSource;
    use opcost_sys::budget::LIMIT_BYTES;
    use std::fs;
    use std::process::Command;

    fn sources() -> Sources {
        Sources {
            kernel: KernelSource::Nothing,
            debug_files: "/nonexistent".into(),
            build_id_cache: None,
            inlined: true,
            limit_bytes: LIMIT_BYTES,
        }
    }

    /// The addresses that `objdump -d` has for a program, and the lines that `addr2line` has for them, outermost first.
    fn expected(program: &Path) -> Option<Vec<(u64, Vec<u32>)>> {
        let ran = |command: &mut Command| {
            let output = command.output().ok().filter(|output| output.status.success())?;
            String::from_utf8(output.stdout).ok()
        };
        let listed = ran(Command::new("objdump").arg("-d").arg(program))?;
        let address = |line: &str| u64::from_str_radix(line.trim().split_once(":\t")?.0, 16).ok();
        let addresses: Vec<u64> = listed.lines().filter_map(address).collect();
        let mut asked = Command::new("addr2line");
        asked.arg("-a").arg("-i").arg("-e").arg(program);
        asked.args(addresses.iter().map(|address| format!("{address:#x}")));
        let mut found: Vec<(u64, Vec<u32>)> = Vec::new();
        for line in ran(&mut asked)?.lines() {
            match line.strip_prefix("0x") {
                Some(address) => {
                    found.push((u64::from_str_radix(address, 16).unwrap(), Vec::new()));
                }
                None => {
                    let number = line.rsplit(':').next().and_then(|end| end.split(' ').next());
                    let number = number.and_then(|number| number.parse().ok());
                    let place = found.last_mut()?;
                    place.1.splice(..0, number.filter(|number| *number > 0));
                }
            }
        }
        Some(found)
    }

    #[test]
    fn lines_are_those_that_binutils_have() {
        let busy = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/busy");
        let Some(expected) = expected(&busy) else { return crate::skip::skip!("no binutils") };
        let addresses: Vec<u64> = expected.iter().map(|(address, _)| *address).collect();
        let found = lines(&busy, &addresses, &sources());
        let mut known = 0;
        for ((address, expected), place) in expected.iter().zip(&found.places) {
            let numbers: Vec<u32> = place.iter().filter_map(|at| at.line).collect();
            assert_eq!(&numbers, expected, "{address:#x}");
            known += usize::from(!numbers.is_empty());
        }
        assert!(known > 40 && found.places.iter().any(|place| place.len() > 1), "{known}");
        assert!(
            found.files.iter().any(|file| file.path == "/opt/work/busy.c"),
            "{:?}",
            found.files
        );
    }

    #[test]
    fn damaged_debug_information_gives_fewer_lines() {
        let busy = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/busy")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged");
        let addresses: Vec<u64> = (0x1000..0x1400).step_by(3).collect();
        // The sections of debug information begin at 0x3057.
        for at in (0x3057..busy.len()).step_by(7) {
            let mut bytes = busy.clone();
            bytes[at] ^= 0xff;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(lines(&path, &addresses, &sources()).places.len(), addresses.len());
            fs::write(&path, &busy[..at]).unwrap();
            assert_eq!(lines(&path, &addresses, &sources()).places.len(), addresses.len());
        }
        assert_eq!(lines(&folder.path().join("none"), &[1], &sources()).places, [vec![]]);
    }

    #[test]
    fn a_line_tables_hash_tells_whether_the_source_was_compiled() {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("hashed.c"), folder.path().join("hashed"));
        fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let compiled =
            Command::new("clang").args(["-gdwarf-5", "-o"]).arg(&program).arg(&source).status();
        let Some(all) = compiled.is_ok_and(|status| status.success()).then(|| expected(&program))
        else {
            return crate::skip::skip!("no clang");
        };
        let Some(all) = all else { return crate::skip::skip!("no binutils") };
        let addresses: Vec<u64> = all
            .iter()
            .filter(|(_, lines)| !lines.is_empty())
            .map(|(address, _)| *address)
            .collect();
        let found = lines(&program, &addresses, &sources());
        let file = found.files.iter().find(|file| Path::new(&file.path) == source).unwrap();
        assert!(file.md5.is_some(), "{found:?}");
        // The time of the file is no matter then.
        assert_eq!(source_text(file, &[], None).state, SourceState::Checked);
        fs::write(&source, "int main(void) { return 1; }\n").unwrap();
        assert_eq!(source_text(file, &[], None).state, SourceState::Changed);
    }
}
