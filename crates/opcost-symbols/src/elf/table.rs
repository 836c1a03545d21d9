//! Reads functions from the symbol tables.

use super::super::alias;
use super::super::span::{Nest, Span};
use super::Name;
use super::Symbol;
use super::image::{Code, ElfError, Header, Image, LE, malformed, offsets};
use object::elf;
use object::read::SymbolIndex;
use object::read::elf::{SectionHeader, Sym, SymbolTable};
use std::num::NonZeroU32;

/// Whether the file has a symbol table beside the table for dynamic linking.
pub(super) fn is_present(image: &Image) -> bool {
    image.sections.iter().any(|section| section.sh_type(LE) == elf::SHT_SYMTAB)
}

/// A symbol of code; small, because there can be millions. Everything else stays in the table.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
struct Entry {
    /// The symbol's offset in the file.
    start: u64,
    /// The symbol's number among the symbols of all tables, and [`LABEL`].
    number: u32,
}

/// Marks an assembler's global label without type; it is a function if no function contains it.
const LABEL: u32 = 1 << 31;

impl Entry {
    fn is_label(self) -> bool {
        self.number & LABEL != 0
    }
}

/// A symbol table.
struct FileSymbols<'d> {
    symbols: SymbolTable<'d, Header>,
    /// The number of the table's first symbol.
    first: u32,
    /// The source files named in the table: the place of the name, and the file's number.
    sources: Vec<(u32, NonZeroU32)>,
}

/// The functions of the symbol tables.
pub(super) struct Functions<'d> {
    tables: Vec<FileSymbols<'d>>,
    /// The symbols by address, functions before labels.
    entries: Vec<Entry>,
    /// The source files named in the tables; symbols number them from 1.
    pub(super) files: Vec<&'d [u8]>,
    code: Vec<Code>,
    /// The ranges of the file that hold code.
    sections: Vec<(u64, u64)>,
}

impl<'d> Functions<'d> {
    /// Reads the symbols.
    ///
    /// `debug`: a file with the symbols that were stripped from `image`. A symbol without a size ends
    /// where the next symbol or the end of its section is.
    pub(super) fn read(
        image: &Image<'d>,
        debug: Option<&Image<'d>>,
        code: &[Code],
    ) -> Result<Functions<'d>, ElfError> {
        let sections = image
            .code_sections()
            .filter_map(|(section, _)| offsets(code, section.sh_addr(LE), section.sh_size(LE)));
        let mut functions = Functions {
            tables: Vec::new(),
            entries: Vec::new(),
            files: Vec::new(),
            code: code.to_vec(),
            sections: sections.collect(),
        };
        for image in [Some(image), debug].into_iter().flatten() {
            for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
                functions.collect(image, kind)?;
            }
        }
        functions.entries.sort_unstable();
        Ok(functions)
    }

    /// Collects the symbols of a table that are code.
    fn collect(&mut self, image: &Image<'d>, kind: elf::SectionType) -> Result<(), ElfError> {
        let symbols = image.sections.symbols(LE, image.data, kind).map_err(malformed)?;
        let strings = image.sections.section(symbols.string_section());
        let strings = strings.ok().and_then(|section| section.data(LE, image.data).ok());
        let strings = strings.unwrap_or_default();
        // A name without a terminating zero does not count.
        let names_end = strings.iter().rposition(|byte| *byte == 0).unwrap_or(0);
        let names = &strings[..names_end];
        let first = self.tables.last().map_or(0, |last| last.first + last.symbols.len() as u32);
        let mut sources = Vec::new();
        for (at, symbol) in symbols.iter().enumerate() {
            // Memory ends before the numbers do, because a symbol has 24 bytes.
            let Some(number) = u32::try_from(at).ok().and_then(|at| first.checked_add(at)) else {
                break;
            };
            if number >= LABEL {
                break;
            }
            let kind = symbol.st_type();
            // Local symbols behind this one are from this file (System V ABI, chapter 4).
            if kind == elf::STT_FILE {
                self.files.push(symbols.symbol_name(LE, symbol).unwrap_or_default());
                let file = u32::try_from(self.files.len()).ok().and_then(NonZeroU32::new);
                sources.extend(file.map(|file| (at as u32, file)));
                continue;
            }
            let function = kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC;
            let label = kind == elf::STT_NOTYPE && !symbol.is_local();
            if !function && !label || symbol.is_undefined(LE) || symbol.is_absolute(LE) {
                continue;
            }
            // A symbol that begins before the code would put its name on the wrong bytes.
            let Some((start, _)) = offsets(&self.code, symbol.st_value(LE), 1) else { continue };
            let first_byte = names.get(symbol.st_name(LE) as usize);
            if first_byte.is_some_and(|byte| *byte != 0) {
                let number = if label { number | LABEL } else { number };
                self.entries.push(Entry { start, number });
            }
        }
        self.tables.push(FileSymbols { symbols, first, sources });
        Ok(())
    }

    /// Returns the table of a symbol, and the symbol's place in it.
    fn table(&self, entry: Entry) -> (&FileSymbols<'d>, u32) {
        let number = entry.number & !LABEL;
        let after = self.tables.partition_point(|table| table.first <= number);
        let table = &self.tables[after - 1];
        (table, number - table.first)
    }

    /// Returns the end of a symbol by its size, or its start if it has none.
    fn end(&self, entry: Entry) -> u64 {
        let (table, at) = self.table(entry);
        let symbol = &table.symbols.symbols()[at as usize];
        let holds = |piece: &&Code| (piece.start..piece.end).contains(&entry.start);
        let piece = self.code.iter().find(holds);
        let range = piece.and_then(|piece| piece.offsets(symbol.st_value(LE), symbol.st_size(LE)));
        range.map_or(entry.start, |(_, end)| end)
    }

    fn symbol(&self, entry: Entry) -> Symbol<'d> {
        let (table, at) = self.table(entry);
        let name = table.symbols.symbol(SymbolIndex(at as usize));
        let name = name.and_then(|symbol| table.symbols.symbol_name(LE, symbol));
        let local = table.symbols.symbols()[at as usize].is_local();
        let before = table.sources.partition_point(|(source, _)| *source < at);
        let file = before.checked_sub(1).map(|before| table.sources[before].1);
        let name = name.unwrap_or_default();
        Symbol { name, start: entry.start, file: file.filter(|_| local), local }
    }

    /// Returns the symbol to show among those at the place of this entry, the first of them.
    fn best(&self, at: usize) -> Symbol<'d> {
        let first = self.entries[at];
        let alike =
            |entry: &&Entry| entry.start == first.start && entry.is_label() == first.is_label();
        let mut here = self.entries[at..].iter().take_while(alike).map(|entry| self.symbol(*entry));
        let symbol = self.symbol(first);
        // Most places have one name, which needs no ranking.
        match here.nth(1) {
            None => symbol,
            Some(second) => std::iter::once(symbol)
                .chain(std::iter::once(second))
                .chain(here)
                .min_by_key(|symbol| alias::rank(&text(symbol.name), symbol.local))
                .unwrap_or(symbol),
        }
    }

    /// Calls `take` with each function by file offset, ascending, as its symbols tell: functions may
    /// nest. A function's name is the number of its first entry.
    fn each(&self, mut take: impl FnMut(Span<usize>)) {
        let section_end = |offset: u64| {
            let within = |(start, end): &&(u64, u64)| *start <= offset && offset < *end;
            self.sections.iter().find(within).map(|(_, end)| *end)
        };
        // The end of the furthest function so far, and the current entry.
        let (mut reach, mut at) = (0, 0);
        while let Some(&first) = self.entries.get(at) {
            let (start, name) = (first.start, at);
            let mut sized = start;
            while let Some(entry) = self.entries.get(at).filter(|entry| entry.start == start) {
                sized = sized.max(self.end(*entry));
                at += 1;
            }
            if first.is_label() && start < reach {
                continue;
            }
            let end = if sized > start {
                sized
            } else {
                let next = self.entries.get(at).map(|next| next.start);
                let Some(end) = section_end(start) else { continue };
                next.map_or(end, |next| next.min(end))
            };
            reach = reach.max(end);
            take(Span { start, end, name });
        }
    }

    /// Returns all functions by file offset, ascending, disjoint.
    pub(super) fn spans(&self) -> Vec<Span<Name<'d>>> {
        let (mut spans, mut nest) = (Vec::new(), Nest::default());
        let mut give = |piece: Span<usize>| {
            let Span { start, end, name } = piece;
            spans.push(Span { start, end, name: Name::Symbol(self.best(name)) });
        };
        self.each(|span| nest.add(span, &mut give));
        nest.finish(&mut give);
        spans
    }

    /// Returns the pieces of functions, as in [`spans`](Self::spans), that hold each of these places.
    ///
    /// `places`: ascending.
    pub(super) fn at(&self, places: &[u64]) -> Vec<Option<Span<Name<'d>>>> {
        let (mut found, mut nest) = (Vec::with_capacity(places.len()), Nest::default());
        let mut give = |piece: Span<usize>| {
            let Span { start, end, name } = piece;
            let left = &places[found.len()..];
            let before = left.iter().take_while(|place| **place < start).count();
            let within = left[before..].iter().take_while(|place| **place < end).count();
            found.resize(found.len() + before, None);
            if within > 0 {
                let name = Name::Symbol(self.best(name));
                found.resize(found.len() + within, Some(Span { start, end, name }));
            }
        };
        self.each(|span| nest.add(span, &mut give));
        nest.finish(&mut give);
        found.resize(places.len(), None);
        found
    }

    /// Returns the functions that have one of the wanted names.
    pub(super) fn bearers(&self, is_wanted: &dyn Fn(&[u8]) -> bool) -> Vec<Symbol<'d>> {
        let mut found = Vec::new();
        self.each(|span| {
            let symbol = self.best(span.name);
            if is_wanted(symbol.name) {
                found.push(symbol);
            }
        });
        found
    }
}

fn text(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}
