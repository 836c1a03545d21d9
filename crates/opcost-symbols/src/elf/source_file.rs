//! Finds the source file of functions, as far as a symbol table tells.
//!
//! A linker writes the local symbols of an object behind the name of the object's source file
//! (System V ABI, chapter 4, `STT_FILE`), and lays an object's code of one section together. A
//! local function is therefore from the file named before it. A global function is from the file of
//! its neighbours, if the local symbols before and behind it are of one object. The table does not
//! tell the file of other functions, and they are left out.

use super::image::{ElfError, Image, LE, malformed};
use object::elf;
use object::read::elf::{SectionHeader, Sym};
use std::collections::HashMap;

/// A local symbol in code.
struct Local<'d> {
    section: usize,
    address: u64,
    /// The object of the symbol, by its place in the table.
    object: usize,
    file: &'d str,
}

/// Returns the source file of each function for which the symbol table tells it; for several local
/// functions of one name all their files, sorted.
///
/// `file`: a program, a shared library or a kernel's vmlinux.
///
/// # Errors
/// [`ElfError`], as [`read`](super::read).
pub fn source_files(file: &[u8]) -> Result<HashMap<String, Vec<String>>, ElfError> {
    let image = Image::parse(file)?;
    let table = image.sections.symbols(LE, image.data, elf::SHT_SYMTAB).map_err(malformed)?;
    let is_code = |section: usize| {
        let found = image.sections.iter().nth(section);
        found.is_some_and(|found| found.sh_flags(LE).contains(elf::SHF_EXECINSTR))
    };
    let code: Vec<bool> = (0..image.sections.len()).map(is_code).collect();
    let (mut locals, mut globals) = (Vec::new(), Vec::new());
    let mut files: HashMap<String, Vec<String>> = HashMap::new();
    // Names that some function of unknown file has.
    let mut unsure = Vec::new();
    let (mut object, mut source) = (0, "");
    for symbol in table.iter() {
        let name = table.symbol_name(LE, symbol).ok();
        let Some(name) = name.and_then(|name| std::str::from_utf8(name).ok()) else { continue };
        if symbol.st_type() == elf::STT_FILE {
            (object, source) = (object + 1, name);
            continue;
        }
        let section = usize::from(symbol.st_shndx(LE).0);
        let named = [elf::STT_FUNC, elf::STT_NOTYPE].contains(&symbol.st_type());
        if !named || name.is_empty() || !code.get(section).is_some_and(|code| *code) {
            continue;
        }
        let address = symbol.st_value(LE);
        if !symbol.is_local() {
            globals.push((section, address, name));
        } else if source.is_empty() {
            unsure.push(name);
        } else {
            // Cold parts are apart from their object's other code.
            if !name.contains(".cold") {
                locals.push(Local { section, address, object, file: source });
            }
            let known = files.entry(name.to_owned()).or_default();
            if !known.iter().any(|file| file == source) {
                known.push(source.to_owned());
            }
        }
    }
    locals.sort_by_key(|local| (local.section, local.address));
    for (section, address, name) in globals {
        let behind =
            locals.partition_point(|local| (local.section, local.address) <= (section, address));
        let around =
            behind.checked_sub(1).and_then(|before| Some((&locals[before], locals.get(behind)?)));
        match around {
            Some((before, after))
                if before.object == after.object
                    && [before.section, after.section] == [section; 2] =>
            {
                files.entry(name.to_owned()).or_default().push(before.file.to_owned());
            }
            _ => unsure.push(name),
        }
    }
    for name in unsure {
        files.remove(name);
    }
    files.values_mut().for_each(|files| files.sort());
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    fn linked(sources: &[(&str, &str)]) -> Option<HashMap<String, Vec<String>>> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in sources {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let names = sources.iter().map(|(name, _)| name);
        let made = Command::new("cc")
            .args(["-O0", "-fno-toplevel-reorder", "-o", "program"])
            .args(names)
            .current_dir(folder.path())
            .status();
        if !made.is_ok_and(|status| status.success()) {
            crate::skip::skip!("no C compiler");
            return None;
        }
        let program = fs::read(folder.path().join("program")).unwrap();
        Some(source_files(&program).unwrap())
    }

    #[test]
    fn a_function_is_from_the_file_the_table_tells_or_from_none() {
        let one = "static int first(void) { return 1; }\n\
                   int between(void) { return first(); }\n\
                   static int same(void) { return between(); }\n\
                   int last(void) { return same(); }\n";
        let other = "int last(void);\n\
                     static int same(void) { return 2; }\n\
                     int main(void) { return last() + same(); }\n";
        let Some(files) = linked(&[("one.c", one), ("other.c", other)]) else { return };
        let of = |name: &str| files.get(name).map(|files| files.join(" "));
        assert_eq!(of("first").as_deref(), Some("one.c"));
        assert_eq!(of("between").as_deref(), Some("one.c"), "between two of that file");
        assert_eq!(of("same").as_deref(), Some("one.c other.c"), "two functions of one name");
        assert_eq!(of("last"), None, "before it one file, behind it another");
        assert_eq!(of("nothing"), None);
    }

    #[test]
    fn what_is_no_program_is_an_error() {
        assert_eq!(source_files(b"text").unwrap_err(), ElfError::NotElf);
    }
}
