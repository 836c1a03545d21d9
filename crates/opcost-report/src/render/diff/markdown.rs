//! The difference for a pull request.

use super::{Shown, calls, evidence};
use crate::render::Style;
use crate::render::functions::{LIST_WIDTH, LISTED_NAME_WIDTH, behind, callers};
use crate::render::markdown::escape;
use crate::render::page::Page;
use opcost_analysis::comparison::recorded_profiles::Difference;
use std::fmt::Write as _;

/// The difference as Markdown; `limit`: functions shown one by one.
pub fn markdown(difference: &Difference, limit: usize, style: &Style) -> String {
    let shown = Shown::of(difference, limit);
    // The page shortens names; lines have no limit.
    let mut page = Page::new(style);
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
        let from = callers(&mut page, &row.callers, shown.decimals, LIST_WIDTH);
        let below = shown.callees(&mut page, row, LIST_WIDTH);
        let name = page.name(&row.symbol, &behind(row), LISTED_NAME_WIDTH);
        let calls = calls(row).map(|calls| format!(", {calls}")).unwrap_or_default();
        let matched = if row.by_name_only { ", matched by name only" } else { "" };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            escape(&name),
            shown.cost(row.own.value_baseline),
            shown.cost(row.own.value),
            shown.change(row.own.change),
            shown.share(row.own.change),
            escape(&format!("{age}{}{calls}{matched}", evidence(row, shown.sampled()))),
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
            shown.cost(rest.baseline),
            shown.cost(rest.value),
            shown.change(rest.change),
            shown.share(rest.change),
        );
    }
    let total = &difference.functions.total;
    let _ = writeln!(
        text,
        "| **total** | {} | {} | {} | {} | | | | |",
        shown.cost(total.value_baseline),
        shown.cost(total.value),
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
