//! The difference for people.

use super::{Shown, calls, evidence};
use crate::render::Style;
use crate::render::function_table::{self, FunctionTable};
use crate::render::functions::{callers, mark};
use crate::render::page::{BOLD, DIM, PLAIN, Page, YELLOW, column};
use opcost_analysis::comparison::recorded_profiles::Difference;
use opcost_analysis::comparison::{FunctionRow, FunctionVerdict};
use unicode_width::UnicodeWidthStr;

/// Minimum width of a figure, in columns.
const FIGURE_WIDTH_MIN: usize = 11;
/// Minimum width of a share, in columns.
const SHARE_WIDTH_MIN: usize = 10;
/// Width of the mark behind the figures, in columns: `gone ?`.
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
    let table = FunctionTable { name_width, widths: widths.to_vec(), gap: " " };
    table.heading(&mut page, [baseline, variant], &["change", "share"]);
    for (at, (row, figures)) in shown.rows.iter().zip(&rows).enumerate() {
        table.row(&mut page, row, figures, &mark(row));
        if at < shown.leading {
            explain(&mut page, &shown, row);
        }
    }
    for (at, (name, figures)) in rest.iter().enumerate() {
        let style = if at + 1 == rest.len() { BOLD } else { PLAIN };
        table.sums(&mut page, style, name, figures);
    }
    notes(&mut page, &shown);
    page.into_text()
}

/// How sure a row's change is, and the function's callers and callees.
fn explain(page: &mut Page, shown: &Shown<'_>, row: &FunctionRow) {
    let room = page.width - 5;
    let facts: Vec<String> =
        [Some(evidence(row, shown.sampled())), calls(row)].into_iter().flatten().collect();
    let facts = facts.join(", ");
    let from = callers(page, &row.callers, shown.decimals, room);
    if facts.width() + 1 + from.width() <= room {
        let line = page.paint(DIM, &format!("      {facts} {from}"));
        page.line(&line);
    } else {
        page.wrap(DIM, "      ", &facts);
        let line = page.paint(DIM, &format!("     {from}"));
        page.line(&line);
    }
    let below = shown.callees(page, row, room);
    if !below.is_empty() {
        let line = page.paint(DIM, &format!("     {below}"));
        page.line(&line);
    }
}

/// The meaning of the marks, and the doubts about the figures.
fn notes(page: &mut Page, shown: &Shown<'_>) {
    if shown.leading > 0 || !shown.difference.notes.is_empty() {
        page.line("");
    }
    let unsure = shown
        .rows
        .iter()
        .any(|row| !matches!(row.verdict, FunctionVerdict::Changed | FunctionVerdict::FewLayouts));
    if unsure {
        page.wrap(DIM, "  ", "?: not shown to be real; --json says why of each");
    }
    let sides = shown.difference.sides.each_ref().map(|side| side.name.as_str());
    function_table::matching(page, "  ", &shown.difference.functions, shown.rows, sides);
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
