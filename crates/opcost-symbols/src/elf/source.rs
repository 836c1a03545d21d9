//! Tells functions of one name apart: by the source file of a local symbol, the hash in a symbol of
//! Rust, or else the address.

use super::image::Code;
use super::{Name, Symbol};
use crate::demangle::printable;
use crate::keyed::{KeyedMap, KeyedSet};
use crate::span::Span;
use std::collections::BTreeMap;

/// Whether a file that a symbol table names is a source file: compilers give the parts into which they
/// cut a program names of their own, which change with each build.
fn is_source(file: &[u8]) -> bool {
    let has = |part: &[u8]| file.windows(part.len()).any(|window| window == part);
    // `.ltrans` is of GCC's link-time optimisation, `-cgu.` of Rust's codegen units.
    !(file.is_empty() || file[0] == b'<' || has(b".ltrans") || has(b"-cgu."))
}

/// Returns the hash at the end of a symbol of Rust's older mangling.
fn rust_hash(name: &[u8]) -> Option<&[u8]> {
    let end = name.iter().position(|byte| *byte == b'.').unwrap_or(name.len());
    let stem = name[..end].strip_suffix(b"E")?;
    let (before, hash) = stem.split_at_checked(stem.len().checked_sub(19)?)?;
    let is_hash = before.starts_with(b"_ZN")
        && hash.starts_with(b"17h")
        && hash[3..].iter().all(u8::is_ascii_hexdigit);
    is_hash.then(|| &hash[2..])
}

/// Finds the functions of a file whose name is wanted.
pub(super) type Bearers<'s, 'd> = dyn Fn(&dyn Fn(&[u8]) -> bool) -> Vec<Symbol<'d>> + 's;

/// The facts about a file that tell its functions apart.
pub(super) struct Sources<'s, 'd> {
    /// Finds the functions of the file that have a wanted name.
    pub(super) bearers: &'s Bearers<'s, 'd>,
    /// The source files, by the number that symbols have.
    pub(super) files: &'s [&'d [u8]],
    /// The file's pieces of code.
    pub(super) code: &'s [Code],
}

impl<'d> Sources<'_, 'd> {
    /// Returns the hash or source file of a symbol, as far as the symbol itself tells.
    fn candidate(&self, symbol: &Symbol<'d>) -> Option<&'d [u8]> {
        let file = symbol.file.and_then(|file| self.files.get(file.get() as usize - 1)).copied();
        rust_hash(symbol.name).or(file.filter(|file| is_source(file)))
    }

    /// Returns the address that tells a symbol from others of its name.
    fn address(&self, symbol: &Symbol<'d>) -> Option<String> {
        let holds = |piece: &&Code| (piece.start..piece.end).contains(&symbol.start);
        let piece = self.code.iter().find(holds)?;
        Some(format!("{:#x}", piece.address.saturating_add(symbol.start - piece.start)))
    }

    /// Tells each of `asked` from the other functions of its name in the file; the result for a
    /// function does not depend on the others asked for.
    fn of(&self, asked: &[Symbol<'d>]) -> Vec<Option<String>> {
        // A symbol with a hash needs no look at others.
        let asks = |symbol: &&Symbol<'d>| symbol.local && rust_hash(symbol.name).is_none();
        let names: KeyedSet<&[u8]> = asked.iter().filter(asks).map(|one| one.name).collect();
        let mut bearers: KeyedMap<(&[u8], Option<&[u8]>), u64> = KeyedMap::default();
        let mut shared: KeyedSet<(&[u8], Option<&[u8]>)> = KeyedSet::default();
        for symbol in self.symbols(&names) {
            let key = (symbol.name, self.candidate(&symbol));
            if *bearers.entry(key).or_insert(symbol.start) != symbol.start {
                shared.insert(key);
            }
        }
        let source = |symbol: &Symbol<'d>| {
            let candidate = self.candidate(symbol);
            if symbol.local && shared.contains(&(symbol.name, candidate)) {
                return self.address(symbol);
            }
            candidate.map(|text| printable(&String::from_utf8_lossy(text)))
        };
        asked.iter().map(source).collect()
    }

    /// Returns the symbols of the file that have one of these names.
    fn symbols<'n>(&self, names: &KeyedSet<&'n [u8]>) -> Vec<Symbol<'d>> {
        if names.is_empty() {
            return Vec::new();
        }
        // Nearly all of a million names differ in length from the few names asked for.
        let lengths = names.iter().fold(0u128, |lengths, name| lengths | 1 << (name.len() % 128));
        (self.bearers)(&|name| lengths >> (name.len() % 128) & 1 != 0 && names.contains(name))
    }

    /// Tells the functions of the file apart that have one of these symbols; by symbol.
    pub(super) fn of_symbols<'n>(
        &self,
        symbols: &KeyedSet<&'n [u8]>,
    ) -> KeyedMap<&'n [u8], Vec<Option<String>>> {
        // A function with others nested in it comes in several pieces.
        let found: BTreeMap<u64, Symbol<'d>> =
            self.symbols(symbols).into_iter().map(|symbol| (symbol.start, symbol)).collect();
        let found: Vec<Symbol<'d>> = found.into_values().collect();
        let mut by_symbol: KeyedMap<&'n [u8], Vec<Option<String>>> = KeyedMap::default();
        for (symbol, source) in found.iter().zip(self.of(&found)) {
            if let Some(name) = symbols.get(symbol.name) {
                by_symbol.entry(*name).or_default().push(source);
            }
        }
        by_symbol
    }

    /// Returns the names as shown, each with the source that tells it from others shown alike.
    ///
    /// `names`: the names asked for, none twice.
    pub(super) fn shown(&self, names: &[Name<'d>]) -> Vec<(String, Option<String>)> {
        let asked: Vec<Symbol<'_>> = names.iter().filter_map(symbol).collect();
        let mut sources = self.of(&asked).into_iter();
        let mut shown: Vec<(String, Option<String>)> = names
            .iter()
            .map(|name| (name.show(), symbol(name).and_then(|_| sources.next().flatten())))
            .collect();
        // Different symbols of Rust can have the same readable name.
        let mut first: KeyedMap<&(String, Option<String>), u64> = KeyedMap::default();
        let mut alike: KeyedSet<(String, Option<String>)> = KeyedSet::default();
        let local = |name: &Name<'d>| symbol(name).filter(|symbol| symbol.local);
        for (shown, name) in shown.iter().zip(names) {
            let Some(symbol) = local(name) else { continue };
            if *first.entry(shown).or_insert(symbol.start) != symbol.start {
                alike.insert(shown.clone());
            }
        }
        for (shown, name) in shown.iter_mut().zip(names) {
            if let Some(symbol) = local(name)
                && alike.contains(shown)
            {
                shown.1 = self.address(&symbol);
            }
        }
        shown
    }
}

/// Returns the functions among these spans whose name is wanted.
pub(super) fn bearers_among<'d>(
    spans: &[Span<Name<'d>>],
    is_wanted: &dyn Fn(&[u8]) -> bool,
) -> Vec<Symbol<'d>> {
    let all = spans.iter().filter_map(|span| symbol(&span.name));
    all.filter(|symbol| is_wanted(symbol.name)).collect()
}

fn symbol<'d>(name: &Name<'d>) -> Option<Symbol<'d>> {
    match name {
        Name::Symbol(symbol) => Some(*symbol),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    #[test]
    fn files_tell_functions_apart_and_addresses_where_these_do_not() {
        let files: [&[u8]; 4] = [b"a.c", b"b.c", b"/tmp/cc1.ltrans0.ltrans.o", b"x.1a2b-cgu.0"];
        let local = |name: &'static str, file: u32, start: u64| Symbol {
            name: name.as_bytes(),
            start,
            file: NonZeroU32::new(file),
            local: true,
        };
        let all = [
            local("f", 1, 1),
            local("f", 2, 2),
            local("g", 1, 3),
            local("g", 1, 4),
            local("h", 0, 5),
            local("h", 3, 6),
            local("_ZN1a1b17h0123456789abcdefE.llvm.7", 4, 7),
            local("i", 0, 8),
            Symbol { local: false, file: None, ..local("j", 0, 9) },
        ];
        let span = |symbol: &Symbol<'static>| Span {
            start: symbol.start,
            end: symbol.start + 1,
            name: Name::Symbol(*symbol),
        };
        let spans: Vec<Span<Name<'_>>> = all.iter().map(span).collect();
        let code = [Code { start: 0, end: 10, address: 0x1000 }];
        let bearers = |is_wanted: &dyn Fn(&[u8]) -> bool| bearers_among(&spans, is_wanted);
        let sources = Sources { bearers: &bearers, files: &files, code: &code };
        let found = |asked: &[Symbol<'static>]| -> Vec<String> {
            sources.of(asked).into_iter().map(Option::unwrap_or_default).collect()
        };
        let expected =
            ["a.c", "b.c", "0x1003", "0x1004", "0x1005", "0x1006", "h0123456789abcdef", "", ""];
        assert_eq!(found(&all), expected);
        for (one, expected) in all.iter().zip(expected) {
            assert_eq!(found(&[*one]), [expected]);
        }
    }
}
