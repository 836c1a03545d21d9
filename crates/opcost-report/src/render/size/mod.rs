//! Sizes, differences in size and in a function's code, as documents and as JSON.

mod alone;
mod code;
mod document;
mod figure;
mod json;
mod rows;

pub use alone::{alone_document, alone_json};
pub use code::{code_document, code_json};
pub use document::document;
use figure::{bytes, bytes_change, relative};
pub use json::json;
pub(in crate::render) use rows::{rows, rows_json};

use figure::signed;
use opcost_base::number::grouped;
use opcost_page::names::shorten;
use opcost_size::{Class, Names, Part, SectionRow, SizeDifference, SymbolRow};

/// Names listed within a sentence, at most, and the maximum width of each, in columns.
const NAMES_SHOWN: usize = 3;
const NAME_WIDTH_MAX: usize = 40;

/// The parts to show one by one, the number of the others, and the sum of their changes.
fn leading(difference: &SizeDifference, limit: usize) -> (Vec<Part<'_>>, usize, i64) {
    let mut parts = difference.parts();
    // A symbol that only moved to another section changes no size; the JSON has it.
    parts.retain(|part| part.change() != 0);
    let others = parts.split_off(limit.min(parts.len()));
    (parts, others.len(), others.iter().map(Part::change).sum())
}

/// The text behind a symbol's name: its file or member.
fn behind(row: &SymbolRow) -> String {
    row.origin.as_ref().map_or(String::new(), |origin| format!(" ({origin})"))
}

fn unnamed_name(row: &SectionRow) -> String {
    format!("[unnamed] {}", row.name)
}

/// The remark on a symbol: new, gone, inlined or part of another.
fn remark(difference: &SizeDifference, row: &SymbolRow) -> String {
    let mut words: Vec<String> = Vec::new();
    match row.bytes {
        [None, _] if !row.inlined_into.is_empty() => {
            words.push(format!("new: was inlined into {}", listed(&row.inlined_into)));
        }
        [_, None] if !row.inlined_into.is_empty() => {
            words.push(format!("gone: inlined into {}", listed(&row.inlined_into)));
        }
        [None, _] => words.push(match &row.folded_onto {
            Some(onto) => format!("new: was one with {}", short(onto)),
            None => "new".into(),
        }),
        [_, None] => words.push(match &row.folded_onto {
            Some(onto) => format!("gone: folded onto {}", short(onto)),
            None => "gone".into(),
        }),
        _ => {}
    }
    if let Some((function, change)) = &row.part_of {
        let together = match *change {
            // No other part of the function changed.
            own if own == row.change() => String::new(),
            change => format!(", together {}", signed(change)),
        };
        words.push(format!("part of {}{together}", short(function)));
    }
    if let [before, after] = &row.aliases
        && row.bytes.iter().all(Option::is_some)
        && before != after
    {
        let fresh: Vec<String> =
            after.iter().filter(|name| !before.contains(name)).cloned().collect();
        if !fresh.is_empty() {
            words.push(format!("also named {}", listed(&fresh)));
        }
    }
    if let [Some(before), Some(after)] = row.sections
        && before != after
    {
        let name = |index: usize| difference.sections[index].name.as_str();
        words.push(format!("moved from {} to {}", name(before), name(after)));
    }
    if row.estimated.contains(&true) {
        words.push("estimate: gap to the next symbol".into());
    }
    words.join("; ")
}

/// The first few names, and how many more there are.
fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_SHOWN).map(|name| short(name)).collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A name within a sentence, shortened: names of C++ can be longer than a page.
fn short(name: &str) -> String {
    shorten(name, NAME_WIDTH_MAX)
}

/// `1 other symbol`, `3 other symbols`.
fn others(count: usize, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} other {what}{ending}", grouped(count as u64))
}

/// The verdict on the whole difference, if there is nothing to list.
fn verdict(difference: &SizeDifference) -> Option<&'static str> {
    if difference.identical {
        return Some("identical: the two files are the same, byte by byte");
    }
    let moved = difference.symbols.iter().any(|row| row.change() != 0);
    let unnamed = difference.sections.iter().any(|row| row.change() != 0);
    (!moved && !unnamed).then_some(
        "no size differs; the files' contents do (opcost size --function F compares code)",
    )
}

/// Loaded sections whose size differs, the largest change first; then other sections whose size differs.
fn changed_sections(difference: &SizeDifference) -> (Vec<&SectionRow>, Vec<&SectionRow>) {
    let changed = difference.sections.iter().filter(|row| row.change() != 0);
    let (mut loaded, other): (Vec<_>, Vec<_>) =
        changed.partition(|row| row.class != Class::NotLoaded);
    loaded.sort_by_key(|row| std::cmp::Reverse(row.change().unsigned_abs()));
    (loaded, other)
}

/// Whether rows by symbol can be shown at all; otherwise a note says why not.
fn shows_symbols(difference: &SizeDifference) -> bool {
    difference.sides.iter().all(|side| side.names != Names::None)
}

/// `where the +112 bytes come from`, or other words if the changes cancel.
fn heading(difference: &SizeDifference) -> String {
    match difference.change() {
        0 => "what changed, though the sum is the same".into(),
        change => format!("where the {} bytes come from", signed(change)),
    }
}
