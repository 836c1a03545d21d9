//! The parts of a file: bytes by section and by symbol, each byte once.

use super::totals::{Class, Totals};
use std::collections::HashMap;

/// The parts of a file; for an archive, the parts of all its members.
#[derive(Clone, Debug, Default)]
pub struct Inventory<'d> {
    /// The machine of the file's code: `x86-64`, `AArch64, big-endian`.
    pub machine: String,
    /// The sections by name and class, in the order of the file.
    pub sections: Vec<SectionSize>,
    /// The symbols that own the sections' bytes, as far as bytes have names.
    pub symbols: Vec<SymbolSize<'d>>,
    /// The kind of symbol table that the file has.
    pub names: Names,
    /// Remarks on how the file was read.
    pub notes: Vec<String>,
}

/// All sections of one name and class.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SectionSize {
    /// The sections' name.
    pub name: String,
    /// The class of the sections.
    pub class: Class,
    /// The sections' bytes.
    pub bytes: u64,
    /// The bytes that belong to no symbol: padding, string literals, code without a name.
    pub unnamed_bytes: u64,
}

/// Symbols that share an address, with the bytes that they own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SymbolSize<'d> {
    /// The name to show, as in the symbol table.
    pub name: &'d [u8],
    /// The other names of the same address: aliases, and functions that the linker folded.
    pub aliases: Vec<&'d [u8]>,
    /// The source file of a local symbol, if the symbol table tells it.
    pub file: Option<&'d [u8]>,
    /// The archive's member.
    pub member: Option<&'d [u8]>,
    /// Whether other objects cannot see the symbol.
    pub local: bool,
    /// Whether the symbol is in a section of code.
    pub code: bool,
    /// Index of the symbol's section in [`Inventory::sections`].
    pub section: usize,
    /// The number of the symbol's section in the file, and the first byte's offset in the section.
    pub place: (usize, u64),
    /// The symbol's own bytes; a symbol nested in it owns its bytes itself.
    pub bytes: u64,
    /// Whether the symbol has no size (assembler), and `bytes` is the gap to the next symbol.
    pub estimated: bool,
}

/// The kind of symbol table that a file has.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Names {
    /// No names: the file was stripped.
    #[default]
    None,
    /// Only the names that dynamic linking needs.
    Exported,
    /// A full symbol table.
    Full,
}

impl<'d> Inventory<'d> {
    /// Returns the bytes by class, as size(1) counts them.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for section in &self.sections {
            totals.add(section.class, section.bytes);
        }
        totals
    }

    /// Adds the parts of another object of the same archive.
    ///
    /// `places`: the indices of the sections so far; extended by the new sections.
    pub(super) fn append(&mut self, other: Inventory<'d>, places: &mut Places) {
        let mut moved = Vec::with_capacity(other.sections.len());
        for section in other.sections {
            let fresh = self.sections.len();
            let place = *places.entry((section.name.clone(), section.class)).or_insert(fresh);
            moved.push(place);
            match self.sections.get_mut(place) {
                Some(known) => {
                    known.bytes += section.bytes;
                    known.unnamed_bytes += section.unnamed_bytes;
                }
                None => self.sections.push(section),
            }
        }
        let symbols = other.symbols.into_iter();
        self.symbols
            .extend(symbols.map(|symbol| SymbolSize { section: moved[symbol.section], ..symbol }));
        self.names = self.names.max(other.names);
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

/// The index of each section by name and class.
pub(super) type Places = HashMap<(String, Class), usize>;
