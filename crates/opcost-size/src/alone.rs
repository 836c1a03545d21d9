//! The sizes of one file: its bytes by section and by symbol, the largest first.

use super::difference::{Measured, readable};
use super::inventory::{Names, SectionSize};
use super::totals::Totals;
use opcost_symbols::demangle::printable;

/// The sizes of one file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileSizes {
    /// The file, as the user named it.
    pub name: String,
    /// The machine of the file's code.
    pub machine: String,
    /// The file's own bytes.
    pub file_bytes: u64,
    /// Bytes by class.
    pub totals: Totals,
    /// The kind of symbol table that the file has.
    pub names: Names,
    /// The sections that have bytes, in the order of the file.
    pub sections: Vec<SectionSize>,
    /// The symbols that have bytes, the largest first.
    pub symbols: Vec<SizedSymbol>,
    /// Remarks on how the file was read.
    pub notes: Vec<String>,
}

/// A symbol with its own bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SizedSymbol {
    /// The readable name.
    pub name: String,
    /// The name in the symbol table.
    pub symbol: String,
    /// The symbol's source file or archive member, if known.
    pub origin: Option<String>,
    /// The symbol's section.
    pub section: String,
    /// The symbol's own bytes.
    pub bytes: u64,
    /// Whether the symbol table gives no size; `bytes` is then the gap to the next symbol.
    pub estimated: bool,
    /// The other names of the same address.
    pub aliases: Vec<String>,
}

/// Returns the sizes of a file's parts.
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
