//! The difference for people.

use super::super::Style;
use super::super::functions::{BY_NAME_ONLY, callers, mark, name};
use super::super::page::{BOLD, DIM, GREEN, PLAIN, Page, RED, YELLOW, fit};
use super::{Shown, calls, cost, evidence};
use crate::comparison::difference::Difference;
use crate::comparison::{FunctionRow, Verdict};
use unicode_width::UnicodeWidthStr;

/// Columns of a figure.
const FIGURE_WIDTH: usize = 11;
/// Columns of a share.
const SHARE_WIDTH: usize = 10;
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
    let taken = 2 + 3 * FIGURE_WIDTH + SHARE_WIDTH + MARK_WIDTH;
    let name_width = page.width.saturating_sub(taken).clamp(16, 60);
    let table = Table { shown: &shown, name_width };
    let [baseline, variant] = difference.sides.each_ref().map(|side| side.name.as_str());
    let head = table.cells("function", [baseline, variant, "change", "share"], "");
    let head = page.paint(BOLD, &head);
    page.line(&head);
    for (at, row) in shown.rows.iter().enumerate() {
        table.row(&mut page, row, at < shown.leading);
    }
    for rest in &shown.rest {
        let figures = [
            cost(rest.baseline),
            cost(rest.value),
            shown.change(rest.change),
            shown.share(rest.change),
        ];
        let line = table.cells(&rest.name, figures.each_ref().map(String::as_str), "");
        page.line(&line);
    }
    let total = &difference.functions.total;
    let figures = [
        cost(total.value_baseline),
        cost(total.value),
        shown.change(total.change),
        shown.share(total.change),
    ];
    let line = table.cells("total", figures.each_ref().map(String::as_str), "");
    let line = page.paint(BOLD, &line);
    page.line(&line);
    notes(&mut page, &shown);
    page.into_text()
}

/// The widths of the columns.
struct Table<'a> {
    shown: &'a Shown<'a>,
    name_width: usize,
}

impl Table<'_> {
    fn cells(&self, name: &str, figures: [&str; 4], mark: &str) -> String {
        let [baseline, variant, change, share] = figures;
        let figure = |text: &str| format!(" {}", fit(text, FIGURE_WIDTH - 1, true));
        format!(
            "  {}{}{}{}{} {mark}",
            fit(name, self.name_width, false),
            figure(baseline),
            figure(variant),
            figure(change),
            fit(share, SHARE_WIDTH, true)
        )
    }

    fn row(&self, page: &mut Page, row: &FunctionRow, explained: bool) {
        let mut name = name(row);
        // A long name stands on a line of its own.
        if name.width() > self.name_width {
            page.line(&format!("  {}", fit(&name, (page.width - 2).min(name.width()), false)));
            name.clear();
        }
        let figures = [
            cost(row.own.value_baseline),
            cost(row.own.value),
            self.shown.change(row.own.change),
            self.shown.share(row.own.change),
        ];
        let line = self.cells(&name, figures.each_ref().map(String::as_str), &mark(row));
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
        let facts: Vec<String> = [Some(evidence(row)), calls(row)].into_iter().flatten().collect();
        let facts = facts.join(", ");
        let from = callers(&row.callers, self.shown.decimals, room);
        if facts.width() + 1 + from.width() <= room {
            let line = page.paint(DIM, &format!("      {facts} {from}"));
            page.line(&line);
        } else {
            page.wrap(DIM, "      ", &facts);
            let line = page.paint(DIM, &format!("     {from}"));
            page.line(&line);
        }
        let below = self.shown.callees(row, room);
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
