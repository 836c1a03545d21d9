//! The difference for people.

use super::{Shown, calls, evidence};
use crate::comparison::difference::Difference;
use crate::comparison::{FunctionRow, Verdict};
use crate::render::Style;
use crate::render::functions::{BY_NAME_ONLY, behind, callers, mark};
use crate::render::page::{BOLD, DIM, GREEN, PLAIN, Page, RED, YELLOW, align, column, fit};
use unicode_width::UnicodeWidthStr;

/// Columns of a figure, at least.
const FIGURE_WIDTH_MIN: usize = 11;
/// Columns of a share, at least.
const SHARE_WIDTH_MIN: usize = 10;
/// Columns behind the figures, for `gone ?`.
const MARK_WIDTH: usize = 7;

/// The page that `opcost diff` prints; `limit`: functions shown one by one.
pub fn text(difference: &Difference, limit: usize, style: &Style) -> String {
    let shown = Shown::of(difference, limit);
    let mut page = Page::new(style);
    page.wrap(BOLD, "", &shown.heading());
    page.wrap(PLAIN, "  ", &shown.total());
    for sentence in shown.provenance() {
        page.wrap(DIM, "  ", &sentence);
    }
    page.line("");
    let [baseline, variant] = difference.sides.each_ref().map(|side| side.name.as_str());
    let figures = |row: &FunctionRow| {
        [
            shown.cost(row.own.value_baseline),
            shown.cost(row.own.value),
            shown.change(row.own.change),
            shown.share(row.own.change),
        ]
    };
    let rows: Vec<[String; 4]> = shown.rows.iter().map(figures).collect();
    let rest = shown.rest.iter().map(|rest| {
        let figures = [
            shown.cost(rest.baseline),
            shown.cost(rest.value),
            shown.change(rest.change),
            shown.share(rest.change),
        ];
        (rest.name.as_str(), figures)
    });
    let total = &difference.functions.total;
    let total = [
        shown.cost(total.value_baseline),
        shown.cost(total.value),
        shown.change(total.change),
        shown.share(total.change),
    ];
    let rest: Vec<(&str, [String; 4])> = rest.chain([("total", total)]).collect();
    let all = || rows.iter().chain(rest.iter().map(|(_, figures)| figures));
    let width = |at: usize, least| column(all().map(|figures| figures[at].as_str()), least);
    let widths = [
        width(0, FIGURE_WIDTH_MIN),
        width(1, FIGURE_WIDTH_MIN),
        width(2, FIGURE_WIDTH_MIN),
        width(3, SHARE_WIDTH_MIN),
    ];
    let taken = 2 + widths.iter().sum::<usize>() + MARK_WIDTH;
    let name_width = page.width.saturating_sub(taken).clamp(16, 60);
    let table = Table { shown: &shown, name_width, widths };
    // Names that do not fit are letters there, and stand above the table.
    let long = [baseline, variant].iter().zip(widths).any(|(name, width)| name.width() >= width);
    if long {
        page.wrap(PLAIN, "  ", &format!("A: {baseline}"));
        page.wrap(PLAIN, "  ", &format!("B: {variant}"));
    }
    let names = if long { ["A", "B"] } else { [baseline, variant] };
    let head = ["change", "share"].map(str::to_string);
    let head = [names[0].to_string(), names[1].to_string()].into_iter().chain(head);
    let head: Vec<String> = head.collect();
    let head = table.cells("function", &head, "");
    let head = page.paint(BOLD, &head);
    page.line(&head);
    for (at, (row, figures)) in shown.rows.iter().zip(&rows).enumerate() {
        table.row(&mut page, row, figures, at < shown.leading);
    }
    for (at, (name, figures)) in rest.iter().enumerate() {
        let line = table.cells(name, figures, "");
        let style = if at + 1 == rest.len() { BOLD } else { PLAIN };
        let line = page.paint(style, &line);
        page.line(&line);
    }
    notes(&mut page, &shown);
    page.into_text()
}

/// The widths of the columns.
struct Table<'a> {
    shown: &'a Shown<'a>,
    name_width: usize,
    widths: [usize; 4],
}

impl Table<'_> {
    fn cells(&self, name: &str, figures: &[String], mark: &str) -> String {
        let figures = figures.iter().zip(self.widths);
        let figures: String = figures.map(|(figure, width)| align(figure, width)).collect();
        format!("  {}{figures} {mark}", fit(name, self.name_width))
    }

    fn row(&self, page: &mut Page, row: &FunctionRow, figures: &[String; 4], explained: bool) {
        let width = match row.symbol.width() + behind(row).width() {
            short if short <= self.name_width => self.name_width,
            _ => page.width - 2,
        };
        let mut name = page.name(&row.symbol, &behind(row), width);
        // A long name stands on a line of its own.
        if name.width() > self.name_width {
            page.line(&format!("  {name}"));
            name.clear();
        }
        let line = self.cells(&name, figures, &mark(row));
        let color = match (row.verdict, row.own.change > 0.0) {
            (Verdict::Changed, true) => RED,
            (Verdict::Changed, false) => GREEN,
            _ => PLAIN,
        };
        let line = page.paint(color, &line);
        page.line(&line);
        if !explained {
            return;
        }
        let room = page.width - 5;
        let facts: Vec<String> =
            [Some(evidence(row, self.shown.sampled())), calls(row)].into_iter().flatten().collect();
        let facts = facts.join(", ");
        let from = callers(page, &row.callers, self.shown.decimals, room);
        if facts.width() + 1 + from.width() <= room {
            let line = page.paint(DIM, &format!("      {facts} {from}"));
            page.line(&line);
        } else {
            page.wrap(DIM, "      ", &facts);
            let line = page.paint(DIM, &format!("     {from}"));
            page.line(&line);
        }
        let below = self.shown.callees(page, row, room);
        if !below.is_empty() {
            let line = page.paint(DIM, &format!("     {below}"));
            page.line(&line);
        }
    }
}

/// What the marks mean, and what casts doubt.
fn notes(page: &mut Page, shown: &Shown<'_>) {
    if shown.leading > 0 || !shown.difference.notes.is_empty() {
        page.line("");
    }
    let unsure = shown.rows.iter().any(|row| row.verdict != Verdict::Changed);
    if unsure {
        page.wrap(DIM, "  ", "?: not shown to be real; --json says why of each");
    }
    if shown.rows.iter().any(|row| row.by_name_only) {
        page.wrap(DIM, "  ", BY_NAME_ONLY);
    }
    page.note_shortened("  ");
    for note in shown.matching_notes() {
        page.wrap(DIM, "  ", &note);
    }
    if let Some(covered) = shown.covered(shown.rows.len()) {
        page.wrap(PLAIN, "  ", &covered);
    }
    if shown.leading > 0 {
        let said = "← called from, → calls: with the changes of own cost there; --function NAME \
                    shows both sides";
        page.wrap(DIM, "  ", said);
    }
    if let Some(by) = &shown.difference.functions.sampled {
        page.wrap(DIM, "  ", &format!("estimated from {}", by.describe()));
    }
    for note in &shown.difference.notes {
        page.wrap(YELLOW, "! ", note);
    }
}
