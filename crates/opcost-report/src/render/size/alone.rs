//! The sizes of one file, as a document and as JSON.

use super::json::names_word;
use opcost_base::number::grouped;
use opcost_page::document::{Cell, Column, Document, Mark, Row as Line, Table};
use opcost_size::{Class, FileSizes, Names, SectionSize, SizedSymbol};
use serde_json::{Value, json as value};

/// Version of the document.
const SCHEMA: u32 = 1;
/// A row: the name, bytes, their share of the loaded bytes unless there is none, and a remark.
fn line(sizes: &FileSizes, name: Cell, bytes: u64, remark: String) -> Line {
    // Bytes that are not loaded have no share.
    let of_total = remark != Class::NotLoaded.word();
    let share = if of_total { share(sizes, bytes) } else { String::new() };
    Line::of(vec![name, Cell::figure(grouped(bytes)), Cell::figure(share), Cell::text(remark)])
}

fn loaded_lines(sizes: &FileSizes) -> Vec<Line> {
    let row = |name: &str, bytes| line(sizes, Cell::text(name), bytes, String::new());
    let classes = Class::LOADED.iter().map(|class| row(class.word(), sizes.totals.of(*class)));
    let total = Line { strong: true, ..row("total", sizes.totals.sum()) };
    classes.chain([total]).collect()
}

fn section_lines(sizes: &FileSizes) -> Vec<Line> {
    let mut sections: Vec<_> = sizes.sections.iter().collect();
    sections.sort_by_key(|section| u64::MAX - section.bytes);
    let row = |section: &SectionSize| {
        line(sizes, Cell::text(&section.name), section.bytes, section.class.word().into())
    };
    sections.into_iter().map(row).collect()
}

/// The largest symbols, the sum of the others, and the bytes without a name.
fn symbol_lines(sizes: &FileSizes, limit: usize) -> Vec<Line> {
    let (shown, others) = sizes.symbols.split_at(limit.min(sizes.symbols.len()));
    let row = |symbol: &SizedSymbol| {
        let behind = symbol.origin.as_ref().map_or(String::new(), |origin| format!(" ({origin})"));
        let remark = match symbol.estimated {
            true => format!("{}, estimated", symbol.section),
            false => symbol.section.clone(),
        };
        line(sizes, Cell::Name(symbol.name.clone(), behind), symbol.bytes, remark)
    };
    let mut lines: Vec<Line> = shown.iter().map(row).collect();
    let mut rest = |name: String, bytes: u64| {
        let row = || line(sizes, Cell::text(name), bytes, String::new());
        lines.extend((bytes > 0).then(row));
    };
    rest(super::others(others.len(), "symbol"), others.iter().map(|symbol| symbol.bytes).sum());
    // Shares are of the loaded bytes; debug information belongs to no symbol.
    let loaded = sizes.sections.iter().filter(|section| section.class != Class::NotLoaded);
    rest("[unnamed]".into(), loaded.map(|section| section.unnamed_bytes).sum());
    lines
}

/// A part of the loaded bytes: `12.3 %`.
fn share(sizes: &FileSizes, bytes: u64) -> String {
    match sizes.totals.sum() {
        0 => "–".into(),
        total => format!("{:.1} %", 100.0 * bytes as f64 / total as f64),
    }
}

/// The note on a file that lacks names.
fn names_note(sizes: &FileSizes) -> Option<&'static str> {
    match sizes.names {
        Names::Full => None,
        Names::Exported => {
            Some("it has the names that dynamic linking needs only (stripped): the rest is unnamed")
        }
        Names::None => Some("it has no names (stripped)"),
    }
}

/// The report of `opcost size FILE`; `limit`: symbols shown one by one.
pub fn alone_document(sizes: &FileSizes, limit: usize) -> Document {
    let mut document = Document::titled(format!("size · {} · {}", sizes.machine, sizes.name));
    document.say(Mark::Item(0), format!("{} bytes in the file", grouped(sizes.file_bytes)));
    document.gap();
    document.table(table(loaded_lines(sizes)));
    document.section("by section");
    document.table(table(section_lines(sizes)));
    if sizes.names != Names::None {
        document.section("by symbol");
        document.table(table(symbol_lines(sizes, limit)));
    }
    document.gap();
    let notes = names_note(sizes).into_iter().chain(sizes.notes.iter().map(String::as_str));
    notes.for_each(|note| document.say(Mark::Doubt, note));
    document
}

fn table(rows: Vec<Line>) -> Table {
    let columns =
        vec![Column::fixed(""), Column::fixed("bytes"), Column::fixed("share"), Column::note("")];
    Table { caption: None, columns, rows }
}

/// The sizes of one file, for programs: every section, every symbol.
pub fn alone_json(sizes: &FileSizes) -> Value {
    value!({
        "schema": SCHEMA,
        "name": sizes.name,
        "machine": sizes.machine,
        "file_bytes": sizes.file_bytes,
        "text_bytes": sizes.totals.text_bytes,
        "data_bytes": sizes.totals.data_bytes,
        "bss_bytes": sizes.totals.bss_bytes,
        "total_bytes": sizes.totals.sum(),
        "names": names_word(sizes.names),
        "sections": sizes.sections.iter().map(|section| value!({
            "section": section.name,
            "class": section.class,
            "bytes": section.bytes,
            "unnamed_bytes": section.unnamed_bytes,
        })).collect::<Vec<_>>(),
        "symbols": sizes.symbols.iter().map(|symbol| value!({
            "name": symbol.name,
            "symbol": symbol.symbol,
            "origin": symbol.origin,
            "section": symbol.section,
            "bytes": symbol.bytes,
            "estimated": symbol.estimated,
            "aliases": symbol.aliases,
        })).collect::<Vec<_>>(),
        "notes": sizes.notes,
    })
}
