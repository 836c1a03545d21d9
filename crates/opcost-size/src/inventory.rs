//! What a file is made of: bytes by section and by symbol, nothing twice, nothing left out.

use super::totals::{Class, Totals};
use std::collections::HashMap;

/// The parts of one file; of an archive, those of all its members.
#[derive(Clone, Debug, Default)]
pub struct Inventory<'d> {
    /// The machine that its code is for: `x86-64`, `AArch64, big-endian`.
    pub machine: String,
    /// Its sections by name and class, in the order of the file.
    pub sections: Vec<SectionSize>,
    /// What each section's bytes belong to, as far as there are names.
    pub symbols: Vec<SymbolSize<'d>>,
    /// Which names it has.
    pub names: Names,
    /// What the reader should know of how it was read.
    pub notes: Vec<String>,
}

/// All sections of one name and class.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SectionSize {
    /// Its name.
    pub name: String,
    /// What it counts as.
    pub class: Class,
    /// Its bytes.
    pub bytes: u64,
    /// Those of them that belong to no symbol: padding, string literals, what has no name.
    pub unnamed_bytes: u64,
}

/// Symbols that share an address, and the bytes that are theirs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SymbolSize<'d> {
    /// The name to show, as in the symbol table.
    pub name: &'d [u8],
    /// The other names of the same address: aliases, and functions that the linker folded.
    pub aliases: Vec<&'d [u8]>,
    /// The source file, of a local symbol where the symbol table says so.
    pub file: Option<&'d [u8]>,
    /// The archive's member.
    pub member: Option<&'d [u8]>,
    /// Whether it cannot be seen from other objects.
    pub local: bool,
    /// Whether it is in a section of code.
    pub code: bool,
    /// Index of its section in [`Inventory::sections`].
    pub section: usize,
    /// Number of its section in the file, and its first byte, counted from the section's.
    pub place: (usize, u64),
    /// Bytes that are its own: what is nested in it belongs to the inner symbol.
    pub bytes: u64,
    /// Whether the symbol table gives no size (assembler), so that it is the gap to the next one.
    pub estimated: bool,
}

/// Which names a file has.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Names {
    /// None: it was stripped.
    #[default]
    None,
    /// Only those that dynamic linking needs.
    Exported,
    /// A full symbol table.
    Full,
}

impl<'d> Inventory<'d> {
    /// Bytes by class, as size(1) counts them.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for section in &self.sections {
            totals.add(section.class, section.bytes);
        }
        totals
    }

    /// Adds the parts of another object of the same archive.
    ///
    /// `places`: where the sections so far are, which grows with them.
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

/// Index of each section by name and class.
pub(super) type Places = HashMap<(String, Class), usize>;
