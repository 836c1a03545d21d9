//! The difference in size for programs.

use opcost_size::{Names, SectionRow, SizeDifference, SizeSide, SymbolRow};
use serde_json::{Value, json as value};

/// Version of the document.
const SCHEMA: u32 = 1;

/// The document that `opcost size --json` prints: every section, every symbol that differs.
pub fn json(difference: &SizeDifference) -> Value {
    value!({
        "schema": SCHEMA,
        "machine": difference.machine,
        "identical": difference.identical,
        "baseline": side(&difference.sides[0]),
        "variant": side(&difference.sides[1]),
        "change_bytes": difference.change(),
        "sections": difference.sections.iter().map(section).collect::<Vec<_>>(),
        "symbols": difference.symbols.iter().map(|row| symbol(difference, row)).collect::<Vec<_>>(),
        "symbols_unchanged": difference.symbols_unchanged,
        "notes": difference.notes,
    })
}

fn side(side: &SizeSide) -> Value {
    value!({
        "name": side.name,
        "file_bytes": side.file_bytes,
        "text_bytes": side.totals.text_bytes,
        "data_bytes": side.totals.data_bytes,
        "bss_bytes": side.totals.bss_bytes,
        "total_bytes": side.totals.sum(),
        "names": names_word(side.names),
    })
}

/// The word for the names that a file has.
pub(super) fn names_word(names: Names) -> &'static str {
    match names {
        Names::Full => "full",
        Names::Exported => "exported",
        Names::None => "none",
    }
}

fn section(row: &SectionRow) -> Value {
    value!({
        "section": row.name,
        "class": row.class,
        "bytes_baseline": row.bytes[0],
        "bytes": row.bytes[1],
        "change": row.change(),
        "unnamed_bytes_baseline": row.unnamed_bytes[0],
        "unnamed_bytes": row.unnamed_bytes[1],
        "unnamed_change": row.unnamed_change(),
    })
}

fn symbol(difference: &SizeDifference, row: &SymbolRow) -> Value {
    let section = |side: usize| row.sections[side].map(|index| &difference.sections[index].name);
    value!({
        "name": row.name,
        "symbol": row.symbol,
        "origin": row.origin,
        "local": row.local,
        "section_baseline": section(0),
        "section": section(1),
        "bytes_baseline": row.bytes[0],
        "bytes": row.bytes[1],
        "change": row.change(),
        "estimated": row.estimated.contains(&true),
        "aliases_baseline": row.aliases[0],
        "aliases": row.aliases[1],
        "inlined_into": row.inlined_into,
        "folded_onto": row.folded_onto,
        "part_of": row.part_of.as_ref().map(|(function, _)| function),
        "part_of_change": row.part_of.as_ref().map(|(_, change)| change),
    })
}
