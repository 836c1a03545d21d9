//! What tells functions of one name apart: the source file of a local symbol, the hash in a symbol
//! of Rust, else the address.

use super::{Name, Symbol};
use crate::symbols::demangle::printable;
use crate::symbols::span::Span;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// What of a symbol tells it from others of its name, as far as the symbol itself says.
fn candidate<'d>(symbol: &Symbol<'d>) -> Option<&'d [u8]> {
    rust_hash(symbol.name).or(symbol.file.filter(|_| symbol.local).filter(|file| is_source(file)))
}

/// Whether a file that a symbol table names is one that somebody wrote: compilers name the parts
/// into which they cut a program for themselves, anew in each build.
fn is_source(file: &[u8]) -> bool {
    let has = |part: &[u8]| file.windows(part.len()).any(|window| window == part);
    // Of GCC's link-time optimisation, of Rust's codegen units.
    !(file.is_empty() || file[0] == b'<' || has(b".ltrans") || has(b"-cgu."))
}

/// The hash at the end of a symbol of Rust's older mangling.
fn rust_hash(name: &[u8]) -> Option<&[u8]> {
    let end = name.iter().position(|byte| *byte == b'.').unwrap_or(name.len());
    let stem = name[..end].strip_suffix(b"E")?;
    let (before, hash) = stem.split_at_checked(stem.len().checked_sub(19)?)?;
    let is_hash = before.starts_with(b"_ZN")
        && hash.starts_with(b"17h")
        && hash[3..].iter().all(u8::is_ascii_hexdigit);
    is_hash.then(|| &hash[2..])
}

/// What tells each of `asked` from the other functions of its name in the file.
///
/// `all`: the functions of the whole file; the result is the same whichever of them are asked for,
/// but for what readable names have in common and symbols have not.
fn sources<'d>(all: impl Iterator<Item = Symbol<'d>>, asked: &[Symbol<'d>]) -> Vec<Option<String>> {
    let local = || asked.iter().filter(|symbol| symbol.local);
    let names: FxHashSet<&[u8]> = local().map(|symbol| symbol.name).collect();
    let mut bearers: FxHashMap<(&[u8], Option<&[u8]>), u64> = FxHashMap::default();
    let mut shared: FxHashSet<(&[u8], Option<&[u8]>)> = FxHashSet::default();
    if !names.is_empty() {
        for symbol in all.filter(|symbol| names.contains(symbol.name)) {
            let key = (symbol.name, candidate(&symbol));
            if *bearers.entry(key).or_insert(symbol.address) != symbol.address {
                shared.insert(key);
            }
        }
    }
    let source = |symbol: &Symbol<'d>| {
        let candidate = candidate(symbol);
        if symbol.local && shared.contains(&(symbol.name, candidate)) {
            return Some(address(symbol.address));
        }
        candidate.map(|text| printable(&String::from_utf8_lossy(text)))
    };
    asked.iter().map(source).collect()
}

/// An address as it tells a function from others.
fn address(address: u64) -> String {
    format!("{address:#x}")
}

/// What tells each function with one of these symbols from the others, by symbol.
pub(super) fn of_symbols<'d, 'n>(
    spans: &[Span<Name<'d>>],
    symbols: &FxHashSet<&'n [u8]>,
) -> FxHashMap<&'n [u8], Vec<Option<String>>> {
    let mut found: BTreeMap<u64, Symbol<'d>> = BTreeMap::new();
    if !symbols.is_empty() {
        let all = spans.iter().filter_map(|span| symbol(&span.name));
        let wanted = all.filter(|symbol| symbols.contains(symbol.name));
        found.extend(wanted.map(|symbol| (symbol.address, symbol)));
    }
    let found: Vec<Symbol<'d>> = found.into_values().collect();
    let mut by_symbol: FxHashMap<&'n [u8], Vec<Option<String>>> = FxHashMap::default();
    for (symbol, source) in found.iter().zip(sources(found.iter().copied(), &found)) {
        if let Some(name) = symbols.get(symbol.name) {
            by_symbol.entry(*name).or_default().push(source);
        }
    }
    by_symbol
}

fn symbol<'d>(name: &Name<'d>) -> Option<Symbol<'d>> {
    match name {
        Name::Symbol(symbol) => Some(*symbol),
        _ => None,
    }
}

/// Names as they are shown, each with what tells it from others of a file that are shown so.
///
/// `spans`: the functions of the whole file; `names`: those that are asked for, none twice.
pub(super) fn shown(spans: &[Span<Name<'_>>], names: &[Name<'_>]) -> Vec<(String, Option<String>)> {
    let asked: Vec<Symbol<'_>> = names.iter().filter_map(symbol).collect();
    let all = spans.iter().filter_map(|span| symbol(&span.name));
    let mut sources = sources(all, &asked).into_iter();
    let mut shown: Vec<(String, Option<String>)> = names
        .iter()
        .map(|name| (name.show(), symbol(name).and_then(|_| sources.next().flatten())))
        .collect();
    // Different symbols of Rust can be one name for people.
    let mut first: FxHashMap<&(String, Option<String>), u64> = FxHashMap::default();
    let mut alike: FxHashSet<(String, Option<String>)> = FxHashSet::default();
    for (shown, name) in shown.iter().zip(names) {
        let Some(symbol) = symbol(name).filter(|symbol| symbol.local) else { continue };
        if *first.entry(shown).or_insert(symbol.address) != symbol.address {
            alike.insert(shown.clone());
        }
    }
    for (shown, name) in shown.iter_mut().zip(names) {
        if let Some(symbol) = symbol(name).filter(|symbol| symbol.local)
            && alike.contains(shown)
        {
            shown.1 = Some(address(symbol.address));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &'static str, file: &'static str, address: u64) -> Symbol<'static> {
        let file = Some(file.as_bytes()).filter(|file| !file.is_empty());
        Symbol { name: name.as_bytes(), file, address, local: true }
    }

    #[test]
    fn files_tell_functions_apart_and_addresses_where_these_do_not() {
        let all = [
            symbol("f", "a.c", 1),
            symbol("f", "b.c", 2),
            symbol("g", "a.c", 3),
            symbol("g", "a.c", 4),
            symbol("h", "", 5),
            symbol("h", "/tmp/cc1.ltrans0.ltrans.o", 6),
            symbol("_ZN1a1b17h0123456789abcdefE.llvm.7", "x.1a2b-cgu.0", 7),
            symbol("i", "", 8),
            Symbol { local: false, ..symbol("j", "a.c", 9) },
        ];
        let found = |asked: &[Symbol<'static>]| -> Vec<String> {
            let sources = sources(all.iter().copied(), asked);
            sources.into_iter().map(Option::unwrap_or_default).collect()
        };
        let expected = ["a.c", "b.c", "0x3", "0x4", "0x5", "0x6", "h0123456789abcdef", "", ""];
        assert_eq!(found(&all), expected);
        for (one, expected) in all.iter().zip(expected) {
            assert_eq!(found(&[*one]), [expected]);
        }
    }
}
