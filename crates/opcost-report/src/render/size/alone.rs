//! The sizes of one file, for people and for programs.

use super::json::names_word;
use crate::render::Style;
use crate::render::escape;
use crate::render::page::{BOLD, DIM, PLAIN, Page, YELLOW, align, column, fit};
use opcost_base::number::grouped;
use opcost_size::{Class, FileSizes, Names, SizedSymbol};
use serde_json::{Value, json as value};
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

/// Version of the document.
const SCHEMA: u32 = 1;
/// Minimum and maximum width of a name, in columns.
const NAME_WIDTH_MIN: usize = 20;
const NAME_WIDTH_MAX: usize = 60;
/// Widths of a share and of the remark behind it, in columns.
const SHARE_WIDTH: usize = 9;
const BEHIND_WIDTH: usize = 20;

/// A line of a table: the name, a text that tells the name from others, bytes, and a remark.
struct Line {
    name: String,
    behind: String,
    bytes: u64,
    remark: String,
}

fn loaded_lines(sizes: &FileSizes) -> Vec<Line> {
    let line = |name: &str, bytes| Line {
        name: name.into(),
        behind: String::new(),
        bytes,
        remark: String::new(),
    };
    let classes = Class::LOADED.iter().map(|class| line(class.word(), sizes.totals.of(*class)));
    classes.chain([line("total", sizes.totals.sum())]).collect()
}

fn section_lines(sizes: &FileSizes) -> Vec<Line> {
    let mut sections: Vec<Line> = sizes
        .sections
        .iter()
        .map(|section| Line {
            name: section.name.clone(),
            behind: String::new(),
            bytes: section.bytes,
            remark: section.class.word().into(),
        })
        .collect();
    sections.sort_by_key(|line| u64::MAX - line.bytes);
    sections
}

/// The largest symbols, the sum of the others, and the bytes without a name.
fn symbol_lines(sizes: &FileSizes, limit: usize) -> Vec<Line> {
    let (shown, others) = sizes.symbols.split_at(limit.min(sizes.symbols.len()));
    let line = |symbol: &SizedSymbol| Line {
        name: symbol.name.clone(),
        behind: symbol.origin.as_ref().map_or(String::new(), |origin| format!(" ({origin})")),
        bytes: symbol.bytes,
        remark: match symbol.estimated {
            true => format!("{}, estimated", symbol.section),
            false => symbol.section.clone(),
        },
    };
    let mut lines: Vec<Line> = shown.iter().map(line).collect();
    let mut rest = |name: String, bytes: u64| {
        let (behind, remark) = (String::new(), String::new());
        lines.extend((bytes > 0).then_some(Line { name, behind, bytes, remark }));
    };
    let what = if others.len() == 1 { "other symbol" } else { "other symbols" };
    rest(
        format!("{} {what}", grouped(others.len() as u64)),
        others.iter().map(|symbol| symbol.bytes).sum(),
    );
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

/// The page that `opcost size FILE` prints; `limit`: symbols shown one by one.
pub fn alone_text(sizes: &FileSizes, limit: usize, style: &Style) -> String {
    let mut page = Page::new(style);
    page.wrap(BOLD, "", &format!("size · {} · {}", sizes.machine, sizes.name));
    let file = format!("{} bytes in the file", grouped(sizes.file_bytes));
    page.wrap(PLAIN, "  ", &file);
    table(&mut page, sizes, "", loaded_lines(sizes));
    table(&mut page, sizes, "by section", section_lines(sizes));
    if sizes.names != Names::None {
        table(&mut page, sizes, "by symbol", symbol_lines(sizes, limit));
    }
    page.note_shortened("  ");
    let notes = names_note(sizes).into_iter().chain(sizes.notes.iter().map(String::as_str));
    for note in notes {
        page.wrap(YELLOW, "! ", note);
    }
    page.into_text()
}

fn table(page: &mut Page, sizes: &FileSizes, heading: &str, lines: Vec<Line>) {
    page.line("");
    if !heading.is_empty() {
        page.wrap(BOLD, "  ", heading);
    }
    let figures: Vec<String> = lines.iter().map(|line| grouped(line.bytes)).collect();
    let figure_width = column(figures.iter().map(String::as_str), 11);
    let others = 2 + figure_width + SHARE_WIDTH + BEHIND_WIDTH;
    let name_width = page.width.saturating_sub(others).clamp(NAME_WIDTH_MIN, NAME_WIDTH_MAX);
    for (line, figure) in lines.iter().zip(figures) {
        let width = match line.name.width() + line.behind.width() {
            short if short <= name_width => name_width,
            _ => page.width - 2,
        };
        let mut name = page.name(&line.name, &line.behind, width);
        // A long name stands on a line of its own.
        if name.width() > name_width {
            page.line(&format!("  {name}"));
            name.clear();
        }
        // Bytes that are not loaded have no share.
        let of_total = line.remark != Class::NotLoaded.word();
        let share = if of_total { share(sizes, line.bytes) } else { String::new() };
        let remark = page.paint(DIM, &line.remark);
        let (figure, share) = (align(&figure, figure_width), align(&share, SHARE_WIDTH));
        page.line(&format!("  {}{figure}{share}  {remark}", fit(&name, name_width)));
    }
}

/// The sizes of one file, for a mail or a pull request.
pub fn alone_markdown(sizes: &FileSizes, limit: usize) -> String {
    let mut text = format!("**{}** ({}), bytes:\n", escape(&sizes.name), sizes.machine);
    let mut table = |head: &str, lines: Vec<Line>| {
        let _ = write!(text, "\n| {head} | bytes | share | |\n|:---|---:|---:|:---|\n");
        for line in lines {
            let name = escape(&format!("{}{}", line.name, line.behind));
            let share = match line.remark == Class::NotLoaded.word() {
                true => String::new(),
                false => share(sizes, line.bytes),
            };
            let bytes = grouped(line.bytes);
            let _ = writeln!(text, "| {name} | {bytes} | {share} | {} |", escape(&line.remark));
        }
    };
    table("class", loaded_lines(sizes));
    table("section", section_lines(sizes));
    if sizes.names != Names::None {
        table("symbol", symbol_lines(sizes, limit));
    }
    for note in names_note(sizes).into_iter().chain(sizes.notes.iter().map(String::as_str)) {
        let _ = writeln!(text, "\n{}.", escape(note));
    }
    text
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
