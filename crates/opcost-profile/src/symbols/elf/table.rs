//! Functions of the symbol tables.

use super::super::alias;
use super::super::span::{Span, unnest};
use super::Name;
use super::Symbol as Named;
use super::image::{Code, ElfError, Header, Image, LE, malformed, offsets};
use object::elf;
use object::read::elf::{SectionHeader, Sym, SymbolTable};
use std::num::NonZeroU32;

/// A symbol in code.
struct Symbol<'d> {
    /// Where its size says that it ends, or its start if it has none.
    end: u64,
    /// An assembler's global label without type: a function if it is in no other.
    label: bool,
    named: Named<'d>,
}

/// Whether the file has a symbol table beside that for dynamic linking.
pub(super) fn is_present(image: &Image) -> bool {
    image.sections.iter().any(|section| section.sh_type(LE) == elf::SHT_SYMTAB)
}

/// The functions of the symbol tables.
pub(super) struct Functions<'d> {
    /// By file offset, ascending, disjoint.
    pub(super) spans: Vec<Span<Name<'d>>>,
    /// The source files that the tables name, as symbols count them, from 1.
    pub(super) files: Vec<&'d [u8]>,
}

/// Functions by file offset, ascending, disjoint.
///
/// `debug`: a file with the symbols that were stripped from `image`. A symbol without a size ends
/// where the next one begins, or its section does.
pub(super) fn functions<'d>(
    image: &Image<'d>,
    debug: Option<&Image<'d>>,
    code: &[Code],
) -> Result<Functions<'d>, ElfError> {
    let (mut symbols, mut files) = (Vec::new(), Vec::new());
    for image in [Some(image), debug].into_iter().flatten() {
        for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
            let table = image.sections.symbols(LE, image.data, kind).map_err(malformed)?;
            collect(&table, code, &mut symbols, &mut files);
        }
    }
    // By address, functions before labels; of what is alike its rank tells.
    symbols.sort_unstable_by_key(|symbol| (symbol.named.start, symbol.label));
    let sections: Vec<(u64, u64)> = image
        .code_sections()
        .filter_map(|(section, _)| offsets(code, section.sh_addr(LE), section.sh_size(LE)))
        .collect();
    let section_end = |offset: u64| {
        let within = |(start, end): &&(u64, u64)| *start <= offset && offset < *end;
        sections.iter().find(within).map(|(_, end)| *end)
    };
    let places: Vec<&[Symbol]> =
        symbols.chunk_by(|one, other| one.named.start == other.named.start).collect();
    let mut spans: Vec<Span<Name>> = Vec::with_capacity(places.len());
    // The end of the furthest function so far.
    let mut reach = 0;
    for (index, here) in places.iter().enumerate() {
        let label = here[0].label;
        let start = here[0].named.start;
        if label && start < reach {
            continue;
        }
        // Most places have one name, which needs no rank: there can be millions.
        let best = match here {
            [only] => Some(only),
            _ => here
                .iter()
                .filter(|symbol| symbol.label == label)
                .min_by_key(|symbol| alias::rank(&text(symbol.named.name), symbol.named.local)),
        };
        let Some(best) = best else { continue };
        let sized = here.iter().map(|symbol| symbol.end).max().unwrap_or(start);
        let end = if sized > start {
            sized
        } else {
            let next = places.get(index + 1).map(|next| next[0].named.start);
            let Some(end) = section_end(start) else { continue };
            next.map_or(end, |next| next.min(end))
        };
        reach = reach.max(end);
        spans.push(Span { start, end, name: Name::Symbol(best.named) });
    }
    Ok(Functions { spans: unnest(&spans), files })
}

fn text(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}

/// Takes the symbols of a table that are code.
fn collect<'d>(
    table: &SymbolTable<'d, Header>,
    code: &[Code],
    symbols: &mut Vec<Symbol<'d>>,
    files: &mut Vec<&'d [u8]>,
) {
    let mut file = None;
    for symbol in table.iter() {
        let kind = symbol.st_type();
        // What is behind it and local is from this file (System V ABI, chapter 4).
        if kind == elf::STT_FILE {
            files.push(table.symbol_name(LE, symbol).unwrap_or_default());
            file = u32::try_from(files.len()).ok().and_then(NonZeroU32::new);
            continue;
        }
        let function = kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC;
        let local = symbol.is_local();
        let label = kind == elf::STT_NOTYPE && !local;
        if !function && !label || symbol.is_undefined(LE) || symbol.is_absolute(LE) {
            continue;
        }
        let (address, bytes) = (symbol.st_value(LE), symbol.st_size(LE));
        let Some((start, end)) = offsets(code, address, bytes.max(1)) else { continue };
        let Ok(name) = table.symbol_name(LE, symbol) else { continue };
        // A symbol that begins before the code would name the code's first bytes at a wrong address.
        let begins = code.iter().any(|piece| piece.offsets(address, 1).is_some());
        if name.is_empty() || !begins {
            continue;
        }
        let end = if bytes == 0 { start } else { end };
        let named = Named { name, start, file: file.filter(|_| local), local };
        symbols.push(Symbol { end, label, named });
    }
}
