//! The parts that all tables of functions share, whichever profiles they compare: columns, names
//! that do not fit, colours, and the notes below.

use super::functions::{BY_NAME_ONLY, behind, matching_notes};
use super::page::{BOLD, DIM, GREEN, PLAIN, Page, RED, align, fit};
use opcost_analysis::comparison::{FunctionComparison, FunctionRow, FunctionVerdict};
use unicode_width::UnicodeWidthStr;

/// The columns of a table of functions.
pub(super) struct FunctionTable {
    /// Width of a name, in columns.
    pub(super) name_width: usize,
    /// Width of each figure, in columns.
    pub(super) widths: Vec<usize>,
    /// The text between the figures and the mark.
    pub(super) gap: &'static str,
}

impl FunctionTable {
    fn cells(&self, name: &str, figures: &[String], mark: &str) -> String {
        let figures = figures.iter().zip(&self.widths);
        let figures: String = figures.map(|(figure, width)| align(figure, *width)).collect();
        format!("  {}{figures}{}{mark}", fit(name, self.name_width), self.gap)
    }

    /// Writes the names of both sides and of the other columns; a legend above explains letters.
    pub(super) fn heading(&self, page: &mut Page, sides: [&str; 2], others: &[&str]) {
        let names = side_names(page, PLAIN, "  ", sides, [self.widths[0], self.widths[1]]);
        let names = names.into_iter().chain(others.iter().copied());
        let names: Vec<String> = names.map(str::to_string).collect();
        self.sums(page, BOLD, "function", &names);
    }

    /// Writes a function's row; a long name stands on a line of its own.
    pub(super) fn row(&self, page: &mut Page, row: &FunctionRow, figures: &[String], mark: &str) {
        let behind = behind(row);
        let width = match row.symbol.width() + behind.width() {
            short if short <= self.name_width => self.name_width,
            _ => page.width - 2,
        };
        let mut name = page.name(&row.symbol, &behind, width);
        if name.width() > self.name_width {
            page.line(&format!("  {name}"));
            name.clear();
        }
        let line = page.paint(color(row), &self.cells(&name, figures, mark));
        page.line(&line);
    }

    /// Writes a row for several functions, or for all.
    pub(super) fn sums(
        &self,
        page: &mut Page,
        style: anstyle::Style,
        name: &str,
        figures: &[String],
    ) {
        let line = page.paint(style, &self.cells(name, figures, ""));
        page.line(&line);
    }
}

/// Returns the headings of both sides: their names, or letters if a name does not fit. A legend of
/// the letters is written above the table.
pub(super) fn side_names<'a>(
    page: &mut Page,
    style: anstyle::Style,
    indent: &str,
    sides: [&'a str; 2],
    widths: [usize; 2],
) -> [&'a str; 2] {
    if sides.iter().zip(widths).all(|(name, width)| name.width() < width) {
        return sides;
    }
    page.wrap(style, indent, &format!("A: {}", sides[0]));
    page.wrap(style, indent, &format!("B: {}", sides[1]));
    ["A", "B"]
}

/// The colour of a function's line.
pub(super) fn color(row: &FunctionRow) -> anstyle::Style {
    match (row.verdict, row.own.change > 0.0) {
        (FunctionVerdict::Changed, true) => RED,
        (FunctionVerdict::Changed, false) => GREEN,
        (FunctionVerdict::Differs, _) => BOLD,
        _ => PLAIN,
    }
}

/// Writes how functions and files were matched and that names are shortened, where the table does not show it.
pub(super) fn matching(
    page: &mut Page,
    indent: &str,
    functions: &FunctionComparison,
    rows: &[FunctionRow],
    sides: [&str; 2],
) {
    if rows.iter().any(|row| row.by_name_only) {
        page.wrap(DIM, indent, BY_NAME_ONLY);
    }
    page.note_shortened(indent);
    for note in matching_notes(&functions.modules, functions.unmatched.as_ref(), sides) {
        page.wrap(DIM, indent, &note);
    }
}
