//! A document as a part of a page of HTML. The page's style sheet has the classes.

use crate::document::{
    Block, Cell, Code, ColumnPlace, Document, Head, Mark, Paragraph, Row, Span, Table, Tone,
    unified,
};
use crate::names::{bare, shorten};
use crate::plot;
use crate::writer::text::{BARS_MAX, sparkline};
use maud::{Markup, PreEscaped, html};
use opcost_record::printable::{Output, safe};
use unicode_width::UnicodeWidthStr;

/// Maximum width of a function's name, in columns; its title has the whole name.
const NAME_WIDTH_MAX: usize = 80;
/// Width of a plot of text, in columns.
const PLOT_COLUMNS: usize = 76;

/// Renders a document as elements, without the page around them.
pub fn html(document: &Document) -> Markup {
    let answer: Vec<Block> = document.answer.iter().cloned().map(Block::Paragraph).collect();
    html! { (blocks(&answer)) (blocks(&document.blocks)) }
}

/// Makes a text safe in an element or an attribute.
fn shown(text: &str) -> PreEscaped<String> {
    PreEscaped(safe(text, Output::Xml))
}

fn blocks(parts: &[Block]) -> Markup {
    let mut markup = Vec::new();
    let mut at = 0;
    while at < parts.len() {
        // Items that follow one another are one list.
        let items = parts[at..].iter().take_while(|block| is_item(block)).count();
        if items > 0 {
            let items = &parts[at..at + items];
            markup.push(html! {
                ul class="notes" {
                    @for block in items { @if let Block::Paragraph(said) = block { li class=(class(said.tone)) { (words(said)) } } }
                }
            });
            at += items.len();
        } else if let [Block::Section(Some(heading)), Block::Table(of), ..] = &parts[at..]
            && of.caption.is_none()
        {
            // The heading is the table's name.
            let caption = Some(heading.trim_end_matches(':').to_string());
            markup.push(table(&Table { caption, ..of.clone() }));
            at += 2;
        } else {
            markup.push(block(&parts[at]));
            at += 1;
        }
    }
    html! { @for part in markup { (part) } }
}

fn is_item(block: &Block) -> bool {
    matches!(block, Block::Paragraph(said) if !matches!(said.mark, Mark::None | Mark::Conclusion))
}

fn block(block: &Block) -> Markup {
    html! {
        @match block {
            Block::Title(title) => h1 { (shown(title)) },
            Block::Section(None) => {},
            Block::Section(Some(heading)) => h3 { (shown(heading.trim_end_matches(':'))) },
            Block::Paragraph(said) => p class=(class(said.tone)) {
                @if said.mark == Mark::Conclusion { strong { (words(said)) } } @else { (words(said)) }
            },
            Block::Table(of) => (table(of)),
            Block::Code(code) => (self::code(code)),
            Block::Sides(lines) => pre {
                @for (mark, line) in unified(lines) { (mark) " " (shown(line)) "\n" }
            },
            Block::Figure(values) => {
                @if let Some(bars) = sparkline(values, BARS_MAX) { p class="bars" { (bars) } }
            },
            Block::Plot(of) => (code(&Code { language: "", lines: plot::lines(of, PLOT_COLUMNS) })),
            Block::Fold(summary, parts) => details { summary { (shown(summary)) } (blocks(parts)) },
        }
    }
}

fn words(said: &Paragraph) -> Markup {
    html! {
        @for span in &said.text {
            @match span {
                Span::Words(text) => (sentence(text)),
                Span::Code(text) => code { (shown(text)) },
            }
        }
    }
}

/// A sentence whose options are not broken across lines: browsers break behind hyphens.
pub fn sentence(text: &str) -> Markup {
    let is_option = |word: &str| word.trim_start_matches('(').starts_with("--");
    html! {
        @for (number, word) in text.split(' ').enumerate() {
            @if number > 0 { " " }
            @if is_option(word) { span class="whole" { (shown(word)) } } @else { (shown(word)) }
        }
    }
}

fn code(code: &Code) -> Markup {
    html! { pre { (shown(&code.lines.join("\n"))) } }
}

/// A table; on a narrow screen each row becomes a block with a label before each cell.
pub fn table(table: &Table) -> Markup {
    let mut columns = super::table::with_content(table);
    let note = note_below(table, &columns);
    columns.retain(|at| note.is_none_or(|(_, note)| note != *at));
    let number = |at: usize| super::table::is_right(table, at);
    let is_listing =
        table.rows.iter().flat_map(|row| &row.cells).any(|cell| matches!(cell, Cell::Source(_)));
    html! {
        table class=(if is_listing { "stacks listing" } else { "stacks" }) {
            @if let Some(caption) = &table.caption { caption { (shown(caption)) } }
            thead {
                tr {
                    @for at in &columns {
                        @let head = &table.columns[*at].head;
                        @let class = match (number(*at), head) { (true, Head::Name(_)) => Some("name number"), (true, Head::Word(_)) => Some("number"), _ => None };
                        th scope="col" class=[class] { (shown(head.text())) }
                    }
                }
            }
            tbody { @for row in &table.rows { (self::row(table, &columns, note, row)) } }
        }
    }
}

/// A column of verdicts, and the column behind it whose notes stand below the verdicts, which leaves room to figures.
fn note_below(table: &Table, columns: &[usize]) -> Option<(usize, usize)> {
    let is_verdict =
        |at: usize| table.rows.iter().any(|row| matches!(row.cells[at], Cell::Verdict(_)));
    let pair = columns
        .windows(2)
        .find(|pair| table.columns[pair[1]].place == ColumnPlace::Note && is_verdict(pair[0]));
    pair.map(|pair| (pair[0], pair[1]))
}

fn row(table: &Table, columns: &[usize], note: Option<(usize, usize)>, row: &Row) -> Markup {
    html! {
        tr class=[row.strong.then_some("primary")] {
            @for (number, at) in columns.iter().enumerate() {
                @let cell = &row.cells[*at];
                @if number == 0 {
                    th scope="row" class=[(row.depth > 0).then_some("part")] { (self::cell(cell)) }
                } @else {
                    @let label = table.columns[*at].head.text();
                    @let tone = match cell { Cell::Verdict(verdict) => class(verdict.tone), _ if is_change(table, *at) => class(row.tone), _ => "" };
                    @let class = match cell {
                        Cell::Verdict(_) => format!("word {tone}"),
                        _ if super::table::is_right(table, *at) => format!("number {tone}"),
                        _ => tone.to_string(),
                    };
                    @let note = note.filter(|(verdict, _)| verdict == at).map(|(_, note)| &row.cells[note]);
                    @let class = class.trim();
                    td class=[Some(class).filter(|class| !class.is_empty())] data-label=[Some(label).filter(|label| !label.is_empty()).map(shown)] {
                        (self::cell(cell))
                        @if let Some(note) = note.filter(|note| !note.is_empty()) { " " small { (self::cell(note)) } }
                    }
                }
            }
        }
    }
}

/// Whether a column has changes, which the row's tone is about.
fn is_change(table: &Table, at: usize) -> bool {
    table.columns[at].place == ColumnPlace::Fixed && table.columns[at].head.text() == "change"
}

fn cell(cell: &Cell) -> Markup {
    html! {
        @match cell {
            Cell::Empty => {},
            Cell::Text(text) => (sentence(text)),
            Cell::Brief(text) | Cell::Figure(text) | Cell::File(text) => (shown(text)),
            Cell::Spread(value, spread) => {
                (shown(value))
                @if !spread.is_empty() { " " small { (shown(spread)) } }
            },
            Cell::Name(name, behind) => (self::name(name, behind)),
            Cell::Code(text) => code { (shown(text)) },
            Cell::Source(text) => code class="source" { (shown(text)) },
            Cell::Inlined(before, name, behind) => code class="source" {
                (shown(before))
                @match bare(name, NAME_WIDTH_MAX) {
                    short if short == *name => (shown(name)),
                    short => span title=(shown(name)) { (shown(&short)) },
                }
                (shown(behind))
            },
            Cell::Verdict(verdict) => {
                @if !verdict.sign.is_empty() { span aria-hidden="true" { (verdict.sign) " " } }
                (shown(&verdict.word))
            },
            Cell::Chain(part, names) => {
                (shown(part))
                @for name in names { " ← " (self::name(name, "")) }
            },
            Cell::List(_, names) => {
                @for (at, (name, remark)) in names.iter().enumerate() {
                    @if at > 0 { ", " }
                    (self::name(name, ""))
                    @if !remark.is_empty() { " " (shown(remark)) }
                }
            },
        }
    }
}

fn name(name: &str, behind: &str) -> Markup {
    let whole = format!("{name}{behind}");
    html! {
        @if whole.width() > NAME_WIDTH_MAX {
            span title=(shown(&whole)) { (shown(&shorten(name, NAME_WIDTH_MAX.saturating_sub(behind.width())))) (shown(behind)) }
        } @else { (shown(&whole)) }
    }
}

/// The class of a tone.
pub fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Quiet => "same",
        Tone::Strong => "shift",
        Tone::Worse => "worse",
        Tone::Better => "better",
        Tone::Unsure => "unsure",
    }
}
