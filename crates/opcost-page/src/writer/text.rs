//! A document for a terminal: painted, and wrapped to its width.

use super::table;
use crate::document::{Block, Code, Document, Mark, Paragraph, Sides, Span, Tone, unified};
use crate::names::cut;
use crate::page::{BOLD, DIM, GREEN, PLAIN, Page, RED, YELLOW, fit};
use crate::plot;
use crate::style::Style;
use std::collections::BTreeSet;
use std::ops::Bound;
use unicode_width::UnicodeWidthStr;

/// Maximum width of a quoted name within a sentence, in columns.
const QUOTED_WIDTH_MAX: usize = 60;
/// Bars from the smallest to the largest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Renders a document for a terminal.
pub fn text(document: &Document, style: &Style) -> String {
    let mut page = Page::new(style);
    write(&mut page, document);
    page.into_text()
}

/// Adds a document to a page. What stands below a title is indented.
pub(super) fn write(page: &mut Page, document: &Document) {
    let titled = document.blocks.iter().any(|block| matches!(block, Block::Title(_)));
    let indent = if titled || !document.answer.is_empty() { 2 } else { 0 };
    blocks(page, document, &document.blocks, indent);
    if !document.answer.is_empty() {
        page.line("");
    }
    document.answer.iter().for_each(|said| paragraph(page, document, said, indent));
}

fn blocks(page: &mut Page, document: &Document, parts: &[Block], first_indent: usize) {
    let mut indent = first_indent;
    for (at, block) in parts.iter().enumerate() {
        match block {
            Block::Title(title) => page.wrap(BOLD, "", title),
            Block::Section(heading) => {
                if at > 0 {
                    page.line("");
                }
                indent = first_indent;
                if let Some(heading) = heading {
                    page.wrap(BOLD, &" ".repeat(indent), &short(document, heading));
                    indent += 2;
                }
            }
            Block::Paragraph(said) => paragraph(page, document, said, indent),
            Block::Table(table) => table::write(page, table, indent),
            Block::Code(code) => self::code(page, code, indent),
            Block::Sides(lines) => sides(page, lines, indent),
            Block::Figure(values) => {
                if let Some(line) = sparkline(values, page.width.saturating_sub(indent)) {
                    page.line(&format!("{}{line}", " ".repeat(indent)));
                }
            }
            Block::Plot(plot) => {
                for line in plot::lines(plot, page.width.saturating_sub(indent)) {
                    let line = page.shown(&line);
                    page.line(&format!("{}{line}", " ".repeat(indent)));
                }
            }
            Block::Fold(summary, parts) => {
                page.line("");
                page.wrap(BOLD, &" ".repeat(first_indent), summary);
                blocks(page, document, parts, first_indent + 2);
            }
        }
    }
}

fn paragraph(page: &mut Page, document: &Document, said: &Paragraph, indent: usize) {
    let words = said.text.iter().map(|span| match span {
        Span::Words(text) | Span::Code(text) => short(document, text),
    });
    let gutter = " ".repeat(indent.saturating_sub(2));
    let mark = match said.mark {
        Mark::None | Mark::Note => " ".repeat(indent),
        Mark::Item(depth) => " ".repeat(indent + 2 * depth),
        Mark::Conclusion => format!("{gutter}→ "),
        Mark::Doubt => format!("{gutter}! "),
        Mark::Missing => format!("{gutter}– "),
        Mark::Observation => format!("{gutter}· "),
    };
    let whole = words.collect::<String>();
    // A command or a trailer that does not fit behind its words stands on a line of its own, to be copied.
    if let [before @ .., Span::Code(code)] = said.text.as_slice()
        && !before.is_empty()
        && mark.width() + whole.width() > page.width
    {
        let before = before.iter().map(|span| match span {
            Span::Words(text) | Span::Code(text) => short(document, text),
        });
        page.wrap(paint(said.tone), &mark, before.collect::<String>().trim_end());
        let code = page.shown(code);
        let code = page.paint(paint(said.tone), &code);
        page.line(&format!("{}{code}", " ".repeat(indent)));
        return;
    }
    page.wrap(paint(said.tone), &mark, &whole);
}

/// A sentence in which very long names are cut in the middle.
fn short(document: &Document, sentence: &str) -> String {
    let mut said = String::new();
    let mut rest = sentence;
    while let Some(first) = rest.chars().next() {
        match quoted_at(&document.quoted, rest) {
            Some(name) => {
                said += &cut(name, QUOTED_WIDTH_MAX);
                rest = &rest[name.len()..];
            }
            None => {
                said.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    said
}

/// The longest name with which a text begins, if the name is too wide for a sentence. A document of thousands of names has thousands
/// of sentences, so names are looked up in their order.
fn quoted_at<'a>(names: &'a BTreeSet<String>, text: &str) -> Option<&'a str> {
    let mut text = text;
    // No byte takes more than one column.
    while text.len() > QUOTED_WIDTH_MAX {
        let mut before = names.range::<str, _>((Bound::Unbounded, Bound::Included(text)));
        let name = before.next_back()?.as_str();
        let common = text.char_indices().zip(name.chars()).find(|((_, one), other)| one != other);
        match common {
            // Every name that the text begins with stands before this one, and ends where they differ or sooner.
            Some(((differs, _), _)) => text = &text[..differs],
            None => return Some(name).filter(|name| name.width() > QUOTED_WIDTH_MAX),
        }
    }
    None
}

fn code(page: &mut Page, code: &Code, indent: usize) {
    for line in &code.lines {
        let mark = line.chars().next().filter(|_| code.language == "diff");
        let color = difference(mark.unwrap_or(' '));
        let shown = page.shown(line);
        let lines = match code.language {
            "sh" => page.broken(&shown, indent),
            _ => vec![shown],
        };
        for line in lines {
            let line = page.paint(color, &line);
            page.line(&format!("{}{line}", " ".repeat(indent)));
        }
    }
}

/// From this width on, two codes stand side by side.
const SIDES_WIDTH_MIN: usize = 110;

fn sides(page: &mut Page, lines: &[Sides], indent: usize) {
    let begin = " ".repeat(indent);
    if page.width < SIDES_WIDTH_MIN {
        for (mark, line) in unified(lines) {
            let line = page.shown(&format!("{mark} {line}"));
            let line = page.paint(difference(mark), &line);
            page.line(&format!("{begin}{line}"));
        }
        return;
    }
    let width = (page.width - indent - 3) / 2;
    for Sides { first, second, is_same } in lines {
        let (mark, color) = match (is_same, first, second) {
            (true, ..) => (' ', PLAIN),
            (_, Some(_), Some(_)) => ('|', YELLOW),
            (_, Some(_), None) => ('<', GREEN),
            _ => ('>', RED),
        };
        let [left, right] =
            [first, second].map(|line| fit(line.as_deref().unwrap_or_default(), width));
        let line = page.paint(color, format!("{left} {mark} {right}").trim_end());
        page.line(&format!("{begin}{line}"));
    }
}

/// The colour of a line of a difference.
fn difference(mark: char) -> anstyle::Style {
    match mark {
        '+' => RED,
        '-' => GREEN,
        _ => PLAIN,
    }
}

/// The colour of a tone.
pub(super) fn paint(tone: Tone) -> anstyle::Style {
    match tone {
        Tone::Plain => PLAIN,
        Tone::Quiet => DIM,
        Tone::Strong => BOLD,
        Tone::Worse => RED,
        Tone::Better => GREEN,
        Tone::Unsure => YELLOW,
    }
}

/// The most bars of a figure in a page, which a screen shows in one line.
pub(super) const BARS_MAX: usize = 120;

/// The values as bars from the smallest to the largest; a dot for a missing value. `None` with fewer than two values.
///
/// If there are more than `width` values, each bar is the mean of neighbours.
pub fn sparkline(values: &[Option<f64>], width: usize) -> Option<String> {
    let bar_of = |values: &[Option<f64>]| {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let values: Vec<Option<f64>> =
        values.chunks(values.len().div_ceil(width.max(1)).max(1)).map(bar_of).collect();
    let known = || values.iter().flatten().copied();
    if known().count() < 2 {
        return None;
    }
    let (low, high) = (known().fold(f64::MAX, f64::min), known().fold(f64::MIN, f64::max));
    let bar = |value: &Option<f64>| match value {
        None => '·',
        Some(_) if high == low => BARS[3],
        Some(value) => BARS[((value - low) / (high - low) * 7.0).round() as usize],
    };
    Some(values.iter().map(bar).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn very_long_names_are_cut_in_sentences() {
        let long = |end: &str| format!("{} {end}", "x".repeat(QUOTED_WIDTH_MAX));
        let names = [long("1"), long("10"), long("11é"), "x".into(), "y".into()];
        let document = Document { quoted: names.into_iter().collect(), ..Document::default() };
        let cut = |name: &str| cut(&long(name), QUOTED_WIDTH_MAX);
        for name in ["1", "10", "11é"] {
            let shown = short(&document, &format!("ü {} against x: slower", long(name)));
            assert_eq!(shown, format!("ü {} against x: slower", cut(name)));
        }
        // The first is the beginning of this one, which is no name.
        assert_eq!(short(&document, &long("12")), cut("1") + "2");
        for other in [long("2"), "x".repeat(QUOTED_WIDTH_MAX), "x y".into(), String::new()] {
            assert_eq!(short(&document, &other), other);
        }
    }

    #[test]
    fn bars_span_the_values() {
        let values = [Some(1.0), None, Some(8.0), Some(4.5)];
        assert_eq!(sparkline(&values, 80).unwrap(), "▁·█▅");
        assert_eq!(sparkline(&values, 3).unwrap(), "▁█");
        let many: Vec<Option<f64>> = (0..8_000).map(|i| Some(f64::from(i / 4_000))).collect();
        assert_eq!(sparkline(&many, 8).unwrap(), "▁▁▁▁████");
        assert_eq!(sparkline(&[Some(2.0), Some(2.0)], 80).unwrap(), "▄▄");
        assert_eq!(sparkline(&[Some(2.0), None], 80), None);
    }
}
