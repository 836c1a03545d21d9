//! A document in Markdown, for a pull request.

use crate::document::{Block, Cell, Document, Mark, Paragraph, Row, Span, Table, Tone, unified};
use crate::page::Page;
use crate::plot;
use crate::style::Style;
use crate::writer::text::{BARS_MAX, sparkline};
use opcost_record::printable::{Output, printable, safe};
use std::fmt::Write as _;

/// Maximum width of a function's name, and of a list of names, in columns: lines have no limit of their own.
const NAME_WIDTH_MAX: usize = 80;
const LIST_WIDTH_MAX: usize = 120;
/// Width of a plot, in columns.
const PLOT_COLUMNS: usize = 76;

/// Renders a document in Markdown; the style says whether names are shown whole.
pub fn markdown(document: &Document, style: &Style) -> String {
    parts(document, style).concat()
}

/// The document as pieces that can be left out from the end: everything outside of folds, then each fold.
pub fn parts(document: &Document, style: &Style) -> Vec<String> {
    let (folds, others): (Vec<&Block>, Vec<&Block>) =
        document.blocks.iter().partition(|block| matches!(block, Block::Fold(..)));
    let mut writer = Writer { text: String::new(), page: Page::new(&plain(style)), in_list: false };
    document.answer.iter().for_each(|said| writer.paragraph(said));
    others.into_iter().for_each(|block| writer.block(block));
    let mut pieces = vec![std::mem::take(&mut writer.text)];
    for fold in folds {
        writer.block(fold);
        pieces.push(std::mem::take(&mut writer.text));
    }
    pieces
}

/// Markdown is UTF-8 and has no colour.
fn plain(style: &Style) -> Style {
    Style { color: false, ascii: false, ..*style }
}

struct Writer {
    text: String,
    /// Shortens names.
    page: Page,
    /// Whether the last line is an item of a list.
    in_list: bool,
}

/// Makes a text safe within a line of Markdown.
fn shown(text: &str) -> String {
    safe(text, Output::Markdown)
}

fn code(text: &str) -> String {
    format!("`{}`", safe(text, Output::MarkdownCode).replace('|', "\\|"))
}

impl Writer {
    /// Begins a block: an empty line above it.
    fn begin(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.in_list = false;
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Title(title) => {
                self.begin();
                let _ = writeln!(self.text, "**{}**", shown(title));
            }
            Block::Section(None) => self.in_list = false,
            Block::Section(Some(heading)) => {
                self.begin();
                let heading = heading.trim_end_matches(':');
                let _ = writeln!(self.text, "**{}**", shown(heading));
            }
            Block::Paragraph(said) => self.paragraph(said),
            Block::Table(table) => self.table(table),
            Block::Code(code) => self.code(code.language, &code.lines),
            Block::Sides(lines) => {
                let lines = unified(lines).into_iter().map(|(mark, line)| format!("{mark} {line}"));
                self.code("diff", &lines.collect::<Vec<_>>());
            }
            Block::Figure(values) => {
                if let Some(bars) = sparkline(values, BARS_MAX) {
                    self.begin();
                    let _ = writeln!(self.text, "{bars}");
                }
            }
            Block::Plot(plot) => {
                let lines = plot::lines(plot, PLOT_COLUMNS);
                self.code("", &lines);
            }
            Block::Fold(summary, blocks) => {
                let summary = safe(summary, Output::MarkdownHtml);
                let _ = writeln!(self.text, "\n<details><summary>{summary}</summary>");
                self.in_list = false;
                blocks.iter().for_each(|block| self.block(block));
                self.text.push_str("\n</details>\n");
                self.in_list = false;
            }
        }
    }

    fn paragraph(&mut self, said: &Paragraph) {
        let words = said.text.iter().map(|span| match span {
            Span::Words(text) => shown(text),
            Span::Code(text) => format!("`{}`", safe(text, Output::MarkdownCode)),
        });
        let words: String = words.collect();
        let words = match said.mark {
            Mark::Conclusion => format!("**{words}**"),
            _ => words,
        };
        let item = match said.mark {
            Mark::None => None,
            Mark::Item(depth) => Some(depth),
            _ => Some(0),
        };
        match item {
            None => {
                self.begin();
                let _ = writeln!(self.text, "{words}");
            }
            Some(depth) => {
                if !self.in_list {
                    self.begin();
                    self.in_list = true;
                }
                let _ = writeln!(self.text, "{}- {words}", "  ".repeat(depth));
            }
        }
    }

    fn code(&mut self, language: &str, lines: &[String]) {
        self.begin();
        let _ = writeln!(self.text, "```{language}");
        for line in lines {
            // A line break within a line would begin another line.
            let line = safe(&printable(line), Output::MarkdownFence);
            let _ = writeln!(self.text, "{line}");
        }
        self.text.push_str("```\n");
    }

    fn table(&mut self, table: &Table) {
        let columns = super::table::with_content(table);
        self.begin();
        let heads = columns.iter().map(|at| shown(table.columns[*at].head.text()));
        let _ = writeln!(self.text, "| {} |", heads.collect::<Vec<_>>().join(" | "));
        let rules = columns
            .iter()
            .map(|at| if super::table::is_right(table, *at) { "---:" } else { ":---" });
        let _ = writeln!(self.text, "|{}|", rules.collect::<Vec<_>>().join("|"));
        for row in &table.rows {
            let cells: Vec<String> =
                columns.iter().map(|at| self.cell(row, &row.cells[*at], *at == 0)).collect();
            let _ = writeln!(self.text, "| {} |", cells.join(" | "));
        }
    }

    fn cell(&mut self, row: &Row, cell: &Cell, first: bool) -> String {
        let text = match cell {
            Cell::Empty => String::new(),
            Cell::Text(text) | Cell::Brief(text) | Cell::Figure(text) | Cell::File(text) => {
                shown(text)
            }
            Cell::Spread(value, spread) => shown(format!("{value} {spread}").trim_end()),
            Cell::Name(name, behind) => shown(&self.page.name(name, behind, NAME_WIDTH_MAX)),
            Cell::Source(text) if text.is_empty() => String::new(),
            Cell::Code(text) | Cell::Source(text) => code(text),
            Cell::Inlined(before, name, behind) => {
                let name = self.page.bare(name, NAME_WIDTH_MAX);
                code(&format!("{before}{name}{behind}"))
            }
            Cell::Chain(part, names) => {
                let names = names.iter().map(|name| self.page.name(name, "", NAME_WIDTH_MAX));
                shown(&std::iter::once(part.clone()).chain(names).collect::<Vec<_>>().join(" ← "))
            }
            Cell::List(_, names) => {
                let list = self.page.list("", names, LIST_WIDTH_MAX);
                shown(list.trim_start())
            }
            Cell::Verdict(verdict) => {
                let word = shown(&verdict.word);
                let sign = if verdict.sign.is_empty() {
                    String::new()
                } else {
                    format!("{} ", verdict.sign)
                };
                match verdict.tone {
                    Tone::Worse | Tone::Better | Tone::Strong if !word.is_empty() => {
                        format!("{sign}**{word}**")
                    }
                    _ => format!("{sign}{word}"),
                }
            }
        };
        match first {
            true if row.strong && !text.is_empty() => format!("**{text}**"),
            // Markdown has no indent in cells.
            true if row.depth > 0 => format!("{}{text}", "– ".repeat(row.depth)),
            _ => text,
        }
    }
}
