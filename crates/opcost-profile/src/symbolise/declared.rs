//! Finds where a function begins in its source, by debug information.

use gimli::{EndianSlice, LittleEndian, SectionId};
use object::{Object, ObjectSymbol, SymbolKind};
use opcost_symbols::debug_files::DEBUG_SECTIONS;
use opcost_symbols::demangle::{demangle, printable};
use opcost_symbols::section::{budget, contents};
use std::borrow::Cow;
use std::collections::HashMap;

/// The place in the source where a function begins.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Declared {
    /// The path of the source file, as the compiler got it.
    pub file: String,
    /// The line.
    pub line: u32,
}

/// Returns the place in the source where a function of a program begins; `None` if the program does not
/// tell, or has several functions of this name.
///
/// `file`: the program's contents; `symbol`: the function's symbol, demangled if it is mangled.
pub fn declared(file: &[u8], symbol: &str) -> Option<Declared> {
    let object = object::File::parse(file).ok()?;
    let is_it = |name: &str| name == symbol || demangle(name) == symbol;
    let found =
        object.symbols().filter(|one| one.kind() == SymbolKind::Text && one.is_definition());
    let mut found = found.filter(|one| one.name().is_ok_and(is_it)).map(|one| one.address());
    let address = found.next()?;
    if found.any(|other| other != address) {
        return None;
    }
    let budget = budget(file);
    let section =
        |id: SectionId| Some((id, contents(&object.section_by_name(id.name())?, &budget).ok()?));
    let sections: HashMap<SectionId, Cow<'_, [u8]>> =
        DEBUG_SECTIONS.iter().copied().filter_map(section).collect();
    let section = |id: SectionId| -> Result<_, gimli::Error> {
        let bytes = sections.get(&id).map_or(&[][..], |bytes| bytes);
        Ok(EndianSlice::new(bytes, LittleEndian))
    };
    let context = addr2line::Context::from_dwarf(gimli::Dwarf::load(section).ok()?).ok()?;
    let location = context.find_location(address).ok()??;
    Some(Declared { file: printable(location.file?), line: location.line? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_function_s_line_is_what_the_compiler_says() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("work.c");
        std::fs::write(
            &source,
            "int one(int a)\n{\n\treturn a + 1;\n}\n\nint main(void)\n{\n\treturn one(-1);\n}\n",
        )
        .unwrap();
        let program = folder.path().join("work");
        let build = |options: &[&str]| {
            let cc = Command::new("cc").args(options).arg("-o").arg(&program).arg(&source).status();
            cc.is_ok_and(|status| status.success()).then(|| std::fs::read(&program).unwrap())
        };
        let (Some(with), Some(without)) = (build(&["-g"]), build(&[])) else {
            crate::skip::skip!("there is no C compiler here");
            return;
        };
        let file = source.to_str().unwrap().to_string();
        let one = declared(&with, "one").unwrap();
        assert_eq!((one.file, one.line), (file.clone(), 2), "where its code begins");
        assert_eq!(declared(&with, "main").map(|main| main.line), Some(7));
        assert_eq!(declared(&with, "two"), None);
        assert_eq!(declared(&without, "one"), None);
        assert_eq!(declared(b"no program", "one"), None);
    }
}
