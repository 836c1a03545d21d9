//! The difference for a pull request.

use super::super::functions::{callers, name};
use super::super::markdown::escape;
use super::{Shown, calls, cost, evidence};
use crate::comparison::difference::Difference;
use std::fmt::Write as _;

/// Columns of a list of callers or callees.
const LIST_WIDTH: usize = 120;

/// The difference as Markdown; `limit`: functions shown one by one.
pub fn markdown(difference: &Difference, limit: usize) -> String {
    let shown = Shown::of(difference, limit);
    let mut text = format!("**{}**\n\n{}\n\n", escape(&shown.heading()), escape(&shown.total()));
    for sentence in shown.provenance() {
        let _ = writeln!(text, "- {}", escape(&sentence));
    }
    let [baseline, variant] = difference.sides.each_ref().map(|side| escape(&side.name));
    let _ = writeln!(
        text,
        "\n| function | {baseline} | {variant} | change | share | how sure | called from | calls | in |"
    );
    text.push_str("|:---|---:|---:|---:|---:|:---|:---|:---|:---|\n");
    for row in shown.rows {
        let age = match (row.appeared, row.vanished) {
            (true, _) => "new, ",
            (_, true) => "gone, ",
            _ => "",
        };
        let from = callers(&row.callers, shown.decimals, LIST_WIDTH);
        let below = shown.callees(row, LIST_WIDTH);
        let calls = calls(row).map(|calls| format!(", {calls}")).unwrap_or_default();
        let matched = if row.by_name_only { ", matched by name only" } else { "" };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            escape(&name(row)),
            cost(row.own.value_baseline),
            cost(row.own.value),
            shown.change(row.own.change),
            shown.share(row.own.change),
            escape(&format!("{age}{}{calls}{matched}", evidence(row))),
            escape(from.trim_start_matches(" ← ")),
            escape(below.trim_start_matches(" → ")),
            escape(&difference.owners.owner(row)),
        );
    }
    for rest in &shown.rest {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | | | | |",
            escape(&rest.name),
            cost(rest.baseline),
            cost(rest.value),
            shown.change(rest.change),
            shown.share(rest.change),
        );
    }
    let total = &difference.functions.total;
    let _ = writeln!(
        text,
        "| **total** | {} | {} | {} | {} | | | | |",
        cost(total.value_baseline),
        cost(total.value),
        shown.change(total.change),
        shown.share(total.change),
    );
    let unknown = difference.owners.unknown(shown.rows);
    let covered = shown.covered(shown.rows.len());
    let matching = shown.matching_notes();
    let notes = covered.iter().chain(&matching).chain(&difference.notes).chain(&unknown);
    let notes: Vec<&String> = notes.collect();
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "- {}", escape(note));
    }
    text
}
