//! The difference in size for people.

use super::{
    behind, bytes, bytes_change, changed_sections, heading, leading, others, relative, remark,
    shows_symbols, unnamed_name, verdict,
};
use crate::render::Style;
use crate::render::page::{BOLD, DIM, GREEN, PLAIN, Page, RED, YELLOW, align, fit};
use opcost_base::number::grouped;
use opcost_size::{Class, Part, SizeDifference};
use unicode_width::UnicodeWidthStr;

/// Minimum width of a number of bytes, in columns.
const BYTES_WIDTH_MIN: usize = 11;
/// Width of a change, in columns.
const CHANGE_WIDTH: usize = 12;
/// Minimum width of a name, in columns; otherwise a name has the room that other columns leave.
const NAME_WIDTH_MIN: usize = 20;

/// The page that `opcost size` prints; `limit`: rows of changed symbols shown one by one.
pub fn text(difference: &SizeDifference, limit: usize, style: &Style) -> String {
    let mut page = Page::new(style);
    let [baseline, variant] = &difference.sides;
    page.wrap(
        BOLD,
        "",
        &format!("size · {} · {} → {}", difference.machine, baseline.name, variant.name),
    );
    page.line("");
    let table = Table::new(difference, page.width);
    table.head(&mut page);
    for class in Class::LOADED {
        let sides = difference.sides.each_ref().map(|side| Some(side.totals.of(class)));
        table.row(&mut page, class.word(), sides, &relative(sides));
    }
    let sides = difference.sides.each_ref().map(|side| Some(side.totals.sum()));
    table.row(&mut page, "total", sides, &relative(sides));
    if let Some(verdict) = verdict(difference) {
        page.line("");
        page.wrap(BOLD, "→ ", verdict);
    } else {
        sections(&mut page, &table, difference, limit);
        if shows_symbols(difference) {
            parts(&mut page, &table, difference, limit);
        }
    }
    if !difference.notes.is_empty() {
        page.line("");
    }
    for note in &difference.notes {
        page.wrap(YELLOW, "! ", note);
    }
    page.into_text()
}

/// The widths of the columns.
struct Table<'a> {
    names: [&'a str; 2],
    name_width: usize,
    bytes_width: usize,
}

impl<'a> Table<'a> {
    fn new(difference: &'a SizeDifference, width: usize) -> Table<'a> {
        let names = difference.sides.each_ref().map(|side| side.name.as_str());
        let largest = difference.sides.iter().map(|side| grouped(side.totals.sum()).width());
        let bytes_width = largest.fold(BYTES_WIDTH_MIN, usize::max);
        // Behind the change stands a percentage or a remark.
        let others = 2 * (bytes_width + 1) + CHANGE_WIDTH + 14;
        let name_width = width.saturating_sub(2 + others).clamp(NAME_WIDTH_MIN, 60);
        Table { names, name_width, bytes_width }
    }

    /// Writes the names of the files, or A and B with a legend if a name is too long.
    fn head(&self, page: &mut Page) {
        let long = self.names.iter().any(|name| name.width() > self.bytes_width);
        let mut line = format!("  {}", " ".repeat(self.name_width));
        for (name, letter) in self.names.iter().zip(["A", "B"]) {
            line += &format!(" {}", align(if long { letter } else { name }, self.bytes_width));
            if long {
                page.wrap(PLAIN, "  ", &format!("{letter}: {name}"));
            }
        }
        line += &align("change", CHANGE_WIDTH);
        let line = page.paint(BOLD, &line);
        page.line(&line);
    }

    fn row(&self, page: &mut Page, name: &str, sides: [Option<u64>; 2], remark: &str) {
        self.row_of(page, [name, ""], sides, remark);
    }

    /// Writes a row with a name and the text behind it.
    fn row_of(
        &self,
        page: &mut Page,
        [name, behind]: [&str; 2],
        sides: [Option<u64>; 2],
        remark: &str,
    ) {
        let change = change(sides);
        let width = match name.width() + behind.width() {
            short if short <= self.name_width => self.name_width,
            _ => page.width - 2,
        };
        let mut name = page.name(name, behind, width);
        // A long name stands on a line of its own.
        if name.width() > self.name_width {
            page.line(&format!("  {name}"));
            name.clear();
        }
        let mut line = format!("  {}", fit(&name, self.name_width));
        for side in sides {
            line += &format!(" {}", align(&bytes(side), self.bytes_width));
        }
        let figure = align(&bytes_change(change), CHANGE_WIDTH);
        let color = match change {
            0 => DIM,
            1.. => RED,
            _ => GREEN,
        };
        let width = line.width() + figure.width();
        line += &page.paint(color, &figure);
        if remark.is_empty() || width + 2 + remark.width() <= page.width {
            page.line(&format!("{line}  {remark}"));
        } else {
            page.line(&line);
            page.wrap(DIM, "      ", remark);
        }
    }
}

fn change(sides: [Option<u64>; 2]) -> i64 {
    let [before, after] = sides.map(|bytes| bytes.unwrap_or(0) as i64);
    after - before
}

/// Sections whose size differs.
fn sections(page: &mut Page, table: &Table<'_>, difference: &SizeDifference, limit: usize) {
    let (loaded, other) = changed_sections(difference);
    if !loaded.is_empty() {
        page.line("");
        page.wrap(BOLD, "  ", "by section");
    }
    for row in loaded.iter().take(limit) {
        table.row(page, &row.name, row.bytes, &relative(row.bytes));
    }
    let rest = &loaded[limit.min(loaded.len())..];
    if !rest.is_empty() {
        let change: i64 = rest.iter().map(|row| row.change()).sum();
        rest_row(page, table, &others(rest.len(), "section"), change);
    }
    let names: Vec<String> =
        other.iter().map(|row| format!("{} {}", row.name, bytes_change(row.change()))).collect();
    if !names.is_empty() {
        page.wrap(DIM, "  ", &format!("not in memory: {}", names.join(", ")));
    }
}

/// Writes the changes symbol by symbol, and the sum of the rest.
fn parts(page: &mut Page, table: &Table<'_>, difference: &SizeDifference, limit: usize) {
    let (parts, more, change) = leading(difference, limit);
    if parts.is_empty() && more == 0 {
        return;
    }
    page.line("");
    page.wrap(BOLD, "  ", &heading(difference));
    for part in parts {
        match part {
            Part::Symbol(row) => {
                let behind = behind(row);
                table.row_of(page, [&row.name, &behind], row.bytes, &remark(difference, row));
            }
            Part::Unnamed(row) => table.row(page, &unnamed_name(row), row.unnamed_bytes, ""),
        }
    }
    if more > 0 {
        rest_row(page, table, &others(more, "row"), change);
        page.wrap(DIM, "  ", "--limit N shows more of them, --json all");
    }
    page.note_shortened("  ");
}

fn rest_row(page: &mut Page, table: &Table<'_>, name: &str, change: i64) {
    let blank = " ".repeat(2 * (table.bytes_width + 1));
    let figure = align(&bytes_change(change), CHANGE_WIDTH);
    page.line(&format!("  {}{blank}{figure}", fit(name, table.name_width)));
}
