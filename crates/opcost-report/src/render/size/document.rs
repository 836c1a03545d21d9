//! The difference in size as a document.

use super::{
    behind, bytes, bytes_change, changed_sections, heading, leading, others, relative, remark,
    shows_symbols, unnamed_name, verdict,
};
use opcost_page::document::{Cell, Column, Document, Mark, Row as Line, Table, Tone};
use opcost_size::{Class, Part, SectionRow, SizeDifference};

/// The report of `opcost size A B`; `limit`: sections, and symbols, shown one by one.
pub fn document(difference: &SizeDifference, limit: usize) -> Document {
    let [baseline, variant] = &difference.sides;
    let title = format!("size · {} · {} → {}", difference.machine, baseline.name, variant.name);
    let mut document = Document::titled(title);
    document.gap();
    let classes = Class::LOADED.iter().map(|class| {
        let sides = difference.sides.each_ref().map(|side| Some(side.totals.of(*class)));
        line(Cell::text(class.word()), sides, relative(sides))
    });
    let sides = difference.sides.each_ref().map(|side| Some(side.totals.sum()));
    let total = Line { strong: true, ..line(Cell::text("total"), sides, relative(sides)) };
    document.table(table(difference, classes.chain([total]).collect()));
    match verdict(difference) {
        Some(verdict) => {
            document.gap();
            document.say(Mark::Conclusion, verdict);
        }
        None => {
            sections(&mut document, difference, limit);
            if shows_symbols(difference) {
                parts(&mut document, difference, limit);
            }
        }
    }
    if !difference.notes.is_empty() {
        document.gap();
    }
    difference.notes.iter().for_each(|note| document.say(Mark::Doubt, note));
    document
}

fn table(difference: &SizeDifference, rows: Vec<Line>) -> Table {
    let [baseline, variant] = difference.sides.each_ref().map(|side| Column::named(&side.name));
    let columns =
        vec![Column::fixed(""), baseline, variant, Column::fixed("change"), Column::note("")];
    Table { caption: None, columns, rows }
}

fn line(name: Cell, sides: [Option<u64>; 2], remark: String) -> Line {
    let [before, after] = sides.map(|bytes| bytes.unwrap_or(0) as i64);
    let tone = match after - before {
        0 => Tone::Quiet,
        1.. => Tone::Worse,
        _ => Tone::Better,
    };
    let figures = [bytes(sides[0]), bytes(sides[1]), bytes_change(after - before)];
    let cells = [name].into_iter().chain(figures.map(Cell::figure));
    Line::toned(tone, cells.chain([Cell::text(remark)]).collect())
}

/// The rows that are not shown one by one.
fn rest(name: String, change: i64) -> Line {
    let figure = Cell::figure(bytes_change(change));
    Line::of(vec![Cell::text(name), Cell::Empty, Cell::Empty, figure, Cell::Empty])
}

/// Adds the sections whose size differs.
fn sections(document: &mut Document, difference: &SizeDifference, limit: usize) {
    let (loaded, other) = changed_sections(difference);
    if loaded.is_empty() && other.is_empty() {
        return;
    }
    document.section("by section");
    let (shown, hidden) = loaded.split_at(limit.min(loaded.len()));
    let section = |row: &&SectionRow| line(Cell::text(&row.name), row.bytes, relative(row.bytes));
    let mut rows: Vec<Line> = shown.iter().map(section).collect();
    if !hidden.is_empty() {
        let change = hidden.iter().map(|row| row.change()).sum();
        rows.push(rest(others(hidden.len(), "section"), change));
    }
    document.table(table(difference, rows));
    let name = |row: &&SectionRow| format!("{} {}", row.name, bytes_change(row.change()));
    let names: Vec<String> = other.iter().map(name).collect();
    if !names.is_empty() {
        document.say(Mark::Note, format!("not in memory: {}", names.join(", ")));
    }
}

/// Adds the changes symbol by symbol, and the sum of the rest.
fn parts(document: &mut Document, difference: &SizeDifference, limit: usize) {
    let (parts, more, change) = leading(difference, limit);
    if parts.is_empty() && more == 0 {
        return;
    }
    document.section(heading(difference));
    let row = |part: &Part<'_>| match part {
        Part::Symbol(row) => {
            let name = Cell::Name(row.name.clone(), behind(row));
            line(name, row.bytes, remark(difference, row))
        }
        Part::Unnamed(row) => line(Cell::text(unnamed_name(row)), row.unnamed_bytes, String::new()),
    };
    let mut rows: Vec<Line> = parts.iter().map(row).collect();
    if more > 0 {
        rows.push(rest(others(more, "row"), change));
    }
    document.table(table(difference, rows));
    if more > 0 {
        document.say(Mark::Note, "--limit N shows more of them, --json all");
    }
}
