//! One file by itself: its bytes by section and by symbol, the largest first.

use super::difference::{Measured, readable};
use super::inventory::{Names, SectionSize};
use super::totals::Totals;
use opcost_profile::symbols::demangle::printable;

/// The sizes of one file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileSizes {
    /// What the user calls it.
    pub name: String,
    /// The machine that its code is for.
    pub machine: String,
    /// The file's own bytes.
    pub file_bytes: u64,
    /// Bytes by class.
    pub totals: Totals,
    /// Which names it has.
    pub names: Names,
    /// Its sections that have bytes, in the order of the file.
    pub sections: Vec<SectionSize>,
    /// Its symbols that have bytes, the largest first.
    pub symbols: Vec<SizedSymbol>,
    /// What to know of how it was read.
    pub notes: Vec<String>,
}

/// A symbol and the bytes that are its own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SizedSymbol {
    /// Its name, readable.
    pub name: String,
    /// As in the symbol table.
    pub symbol: String,
    /// Its source file or its archive's member, where that is known.
    pub origin: Option<String>,
    /// Its section.
    pub section: String,
    /// Its bytes.
    pub bytes: u64,
    /// Whether the symbol table gives no size, so that it is the gap to the next one.
    pub estimated: bool,
    /// The other names of the same address.
    pub aliases: Vec<String>,
}

/// What a file is made of.
pub fn sizes(file: &Measured<'_>) -> FileSizes {
    let inventory = &file.inventory;
    let plain = |name: &[u8]| printable(&String::from_utf8_lossy(name));
    let symbols = inventory.symbols.iter().filter(|symbol| symbol.bytes > 0);
    let mut symbols: Vec<SizedSymbol> = symbols
        .map(|symbol| SizedSymbol {
            name: readable(symbol.name),
            symbol: plain(symbol.name),
            origin: symbol.file.or(symbol.member).map(plain),
            section: inventory.sections[symbol.section].name.clone(),
            bytes: symbol.bytes,
            estimated: symbol.estimated,
            aliases: symbol.aliases.iter().map(|name| readable(name)).collect(),
        })
        .collect();
    symbols.sort_by(|one, two| two.bytes.cmp(&one.bytes).then_with(|| one.name.cmp(&two.name)));
    FileSizes {
        name: file.name.clone(),
        machine: inventory.machine.clone(),
        file_bytes: file.bytes.len() as u64,
        totals: inventory.totals(),
        names: inventory.names,
        sections: inventory.sections.iter().filter(|section| section.bytes > 0).cloned().collect(),
        symbols,
        notes: inventory.notes.clone(),
    }
}
