//! Reads the functions of a Go program whose symbols were stripped, from the table that Go's runtime
//! keeps for stack traces (`debug/gosym/pclntab.go` of the Go distribution).

use super::image::{Code, Image, LE, offsets};
use super::{Name, Symbol};
use crate::span::{Span, unnest};
use object::read::elf::SectionHeader;

/// The section's name, also if the section is moved at the program's start.
const SECTIONS: [&[u8]; 2] = [b".gopclntab", b".data.rel.ro.gopclntab"];
/// The table's first word since Go 1.2, 1.16, 1.18 and 1.20; the last two have one format here.
const MAGIC_1_2: u32 = 0xffff_fffb;
const MAGIC_1_16: u32 = 0xffff_fffa;
const MAGIC_1_18: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// The size of an address, and of the header before the numbers.
const WORD: usize = 8;

/// Whether the section holds the table.
pub(super) fn is_table(name: &[u8]) -> bool {
    SECTIONS.contains(&name)
}

/// Returns the functions by file offset, ascending, disjoint; empty if the table has another version
/// or contradicts itself.
pub(super) fn functions<'d>(image: &Image<'d>, code: &[Code]) -> Vec<Span<Name<'d>>> {
    let found = SECTIONS.iter().find_map(|name| image.sections.section_by_name(LE, name));
    let data = found.and_then(|(_, section)| section.data(LE, image.data).ok());
    let text = image.sections.section_by_name(LE, b".text").map(|(_, text)| text.sh_addr(LE));
    let functions = data.and_then(|data| GoTable::read(data)?.functions(text, image));
    let mut spans: Vec<Span<Name<'d>>> = Vec::new();
    for (address, end, name) in functions.unwrap_or_default() {
        if let Some((start, end)) = offsets(code, address, end - address) {
            let symbol = Symbol { name, start, file: None, local: false };
            spans.push(Span { start, end, name: Name::Symbol(symbol) });
        }
    }
    spans.sort_by_key(|span| span.start);
    spans.dedup_by_key(|span| span.start);
    unnest(&spans)
}

/// A table and the places of its parts.
struct GoTable<'d> {
    data: &'d [u8],
    functions: usize,
    /// Added to each address; `None` if the table holds whole addresses.
    text_start: Option<u64>,
    /// The functions' names, and the list of functions; descriptions count from the list's start.
    names: &'d [u8],
    list: &'d [u8],
}

impl<'d> GoTable<'d> {
    fn read(data: &'d [u8]) -> Option<GoTable<'d>> {
        let magic = u32_at(data, 0)?;
        // Two zeros, then the least size of an instruction and the size of an address.
        if data.get(4..6)? != [0, 0] || usize::from(*data.get(7)?) != WORD {
            return None;
        }
        let word = |index: usize| u64_at(data, 8 + index * WORD);
        let part = |index| data.get(usize::try_from(word(index)?).ok()?..);
        let functions = usize::try_from(word(0)?).ok()?;
        let (text_start, names, list) = match magic {
            MAGIC_1_2 => (None, data, data.get(8 + WORD..)?),
            MAGIC_1_16 => (None, part(2)?, part(6)?),
            magic if MAGIC_1_18.contains(&magic) => (Some(word(2)?), part(3)?, part(7)?),
            _ => return None,
        };
        Some(GoTable { data, functions, text_start, names, list })
    }

    /// Returns address, end and name of each function. `text`: the address of the program's code.
    fn functions(&self, text: Option<u64>, image: &Image) -> Option<Vec<(u64, u64, &'d [u8])>> {
        let start = match self.text_start {
            Some(0) => text?,
            Some(start) => start,
            None => 0,
        };
        let (field, relative) = if self.text_start.is_some() { (4, true) } else { (WORD, false) };
        let number = |at: usize| match relative {
            true => u32_at(self.list, at).map(u64::from),
            false => u64_at(self.list, at),
        };
        let address = |index: usize| number(index.checked_mul(2 * field)?)?.checked_add(start);
        // Offsets of descriptions count from here.
        let base = if self.names.len() == self.data.len() { self.data } else { self.list };
        // The file's length bounds the list. Behind the list's last function is that function's end.
        let mut found = Vec::new();
        for index in 0..self.functions.min(self.list.len() / (2 * field)) {
            let (address, end) = (address(index)?, address(index + 1)?);
            let at =
                usize::try_from(number(index * 2 * field + field)?).ok()?.checked_add(field)?;
            let name = usize::try_from(u32_at(base, at)?).ok()?;
            let name = self.names.get(name..)?;
            let name = &name[..name.iter().position(|byte| *byte == 0)?];
            if address < end && !name.is_empty() {
                found.push((address, end, name));
            }
        }
        // Newer tables do not tell where Go's code begins. If code of another language is in front
        // of it, the offsets are wrong, and the program's entry is not at Go's `_rt0_`.
        if self.text_start == Some(0) {
            let entry = image.entry();
            let first = found.iter().find(|(address, end, _)| (*address..*end).contains(&entry))?;
            if !first.2.starts_with(b"_rt0_") {
                return None;
            }
        }
        Some(found)
    }
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    data.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::super::{Named, names};
    use std::fs;
    use std::process::Command;

    /// Builds a Go program, linked with these flags; `None` if Go is not installed.
    fn built(flags: &[&str]) -> Option<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let source = "package main\nfunc main() { println(len(\"hello\")) }\n";
        fs::write(folder.path().join("main.go"), source).unwrap();
        let mut go = Command::new("go");
        go.args(["build", "-o", "prog"]).args(flags).arg("main.go").current_dir(folder.path());
        go.env("GOFLAGS", "").env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local");
        go.env("GOOS", "linux").env("GOARCH", "amd64");
        if !go.output().is_ok_and(|output| output.status.success()) {
            crate::skip::skip!("Go cannot build programs here");
            return None;
        }
        Some(fs::read(folder.path().join("prog")).unwrap())
    }

    /// Names the functions at some places of the file.
    fn at(file: &[u8]) -> Vec<Option<Named>> {
        let offsets: Vec<u64> = (0x1000..0x6_0000).step_by(97).collect();
        let found = names(file, None, &offsets, &Default::default()).unwrap();
        let named = |place: Option<u32>| place.map(|at| found.functions[at as usize].clone());
        found.places.into_iter().map(named).collect()
    }

    #[test]
    fn stripped_go_has_the_names_of_its_symbols() {
        let Some(whole) = built(&[]) else { return };
        let stripped = built(&["-ldflags=-s -w"]).unwrap();
        let (whole, found) = (at(&whole), at(&stripped));
        // The linker's symbols tell assembler functions from Go's wrappers around them.
        let plain = |named: &Named| named.symbol.trim_end_matches(".abi0").to_string();
        let symbol = |named: &Option<Named>| named.as_ref().map(plain);
        let differ = whole.iter().zip(&found).filter(|(one, two)| symbol(one) != symbol(two));
        assert_eq!(differ.collect::<Vec<_>>(), []);
        let runtime = found.iter().flatten().filter(|named| named.symbol.starts_with("runtime."));
        assert!(runtime.count() > 100);
        // Without symbols and table, nothing gets a name.
        let mut other = stripped;
        let magics = super::MAGIC_1_18.map(u32::to_le_bytes);
        let table = other.chunks_exact(8).position(|word| {
            magics.iter().any(|magic| word.starts_with(magic)) && word[4..] == [0, 0, 1, 8]
        });
        let table = table.unwrap() * 8;
        for byte in table..table + 72 {
            let kept = other[byte];
            other[byte] = kept ^ 0x55;
            // Whatever the broken table says, the reader must not fail; mostly it finds nothing.
            let _ = at(&other);
            other[byte] = kept;
        }
        other[table] = 0;
        assert!(at(&other).iter().flatten().all(|named| named.symbol.starts_with('[')));
    }
}
