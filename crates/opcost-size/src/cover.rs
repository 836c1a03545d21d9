//! Finds the owner of each byte of a section, by symbols that may share, nest and overlap.
//!
//! **A symbol's size is the bytes that it owns, not its size in the symbol table.** Where symbols nest, each byte goes to the
//! innermost symbol, so the rows of `opcost size` add up exactly.

use opcost_symbols::alias;
use opcost_symbols::span::{Span, unnest};

/// A symbol within its section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<'d> {
    /// The number of the symbol's section in the file.
    pub(super) section: usize,
    /// The first byte, counted from the start of the section.
    pub(super) start: u64,
    /// The byte behind the last one; `start` if the symbol table gives no size.
    pub(super) end: u64,
    pub(super) name: &'d [u8],
    pub(super) file: Option<&'d [u8]>,
    pub(super) local: bool,
    /// Whether the symbol table gives a type. An alias has one; a mere label has none.
    pub(super) typed: bool,
    /// Whether the symbol counts as a function although it has no size.
    pub(super) label: bool,
}

/// The symbols at one address, with the bytes that they own.
#[derive(Debug)]
pub(super) struct Owned<'d> {
    /// The symbols; the one to show comes first.
    pub(super) symbols: Vec<Placed<'d>>,
    pub(super) section: usize,
    pub(super) bytes: u64,
    pub(super) estimated: bool,
}

/// Gives each byte to the symbols that start last before it and reach it; others have no owner.
///
/// `section_bytes`: returns the size of a section. A function without a size (assembler) reaches to
/// the next symbol or the section's end, unless it is inside another function.
pub(super) fn cover<'d>(
    placed: &[Placed<'d>],
    section_bytes: impl Fn(usize) -> u64,
) -> Vec<Owned<'d>> {
    let mut sorted: Vec<Placed<'d>> = placed.to_vec();
    sorted.sort_by_key(|symbol| (symbol.section, symbol.start));
    let mut owned = Vec::with_capacity(sorted.len());
    for section in sorted.chunk_by(|one, other| one.section == other.section) {
        let index = section[0].section;
        cover_section(section, index, section_bytes(index), &mut owned);
    }
    owned
}

fn cover_section<'d>(
    symbols: &[Placed<'d>],
    section: usize,
    section_bytes: u64,
    owned: &mut Vec<Owned<'d>>,
) {
    let first = owned.len();
    let mut spans: Vec<Span<usize>> = Vec::new();
    let mut reach = 0;
    let mut rest = symbols;
    while let Some(&Placed { start, .. }) = rest.first() {
        let (here, behind) = rest.split_at(rest.partition_point(|symbol| symbol.start == start));
        rest = behind;
        let sized = here.iter().map(|symbol| symbol.end).max().unwrap_or(start);
        let estimated = sized == start;
        let takes = |symbol: &&Placed<'d>| {
            let mark = || alias::is_mark(&String::from_utf8_lossy(symbol.name));
            if estimated { symbol.label && !mark() } else { symbol.end > start || symbol.typed }
        };
        let mut names: Vec<Placed<'d>> = here.iter().filter(takes).copied().collect();
        // A label inside a function is not a function.
        if names.is_empty() || estimated && start < reach {
            continue;
        }
        let next = behind.first().map_or(section_bytes, |next| next.start);
        let end = if estimated { next } else { sized };
        if names.len() > 1 {
            names.sort_by_cached_key(|symbol| {
                alias::rank(&String::from_utf8_lossy(symbol.name), symbol.local)
            });
            names.dedup_by_key(|symbol| symbol.name);
        }
        spans.push(Span { start, end, name: owned.len() });
        owned.push(Owned { symbols: names, section, bytes: 0, estimated });
        reach = reach.max(end);
    }
    for Span { start, end, name } in unnest(&spans) {
        owned[name].bytes += end - start;
    }
    debug_assert!(owned[first..].iter().map(|owner| owner.bytes).sum::<u64>() <= section_bytes);
}
