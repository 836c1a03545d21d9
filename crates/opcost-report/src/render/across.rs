//! Two variants of two recordings, metric by metric, for people and for programs.

use super::json::metric;
use super::page::{BOLD, PLAIN, Page, YELLOW};
use super::{Style, text};
use opcost_analysis::comparison::two_recordings::RecordingsComparison;
use serde_json::{Value, json};

/// The first part of the page that `opcost diff` prints for two recordings.
pub fn text(across: &RecordingsComparison, style: &Style) -> String {
    let comparison = &across.comparison;
    let mut page = Page::new(style);
    page.wrap(BOLD, "", &comparison.heading.join(" · "));
    for variant in &comparison.variants {
        page.wrap(
            PLAIN,
            "  ",
            &format!("{}: {}, {} runs", variant.name, variant.work, variant.runs_finished),
        );
    }
    page.line("");
    text::table(&mut page, comparison, 0);
    page.line("");
    for conclusion in &comparison.conclusions {
        page.wrap(BOLD, "→ ", conclusion);
    }
    for line in &comparison.guests {
        page.wrap(PLAIN, "  ", line);
    }
    for note in &across.notes {
        page.wrap(YELLOW, "! ", note);
    }
    page.into_text()
}

/// The document that `opcost diff --json` prints for two recordings without profiles.
pub fn json(across: &RecordingsComparison) -> Value {
    let comparison = &across.comparison;
    let names = (&comparison.variants[0].name, &comparison.variants[1].name);
    let metrics = comparison.rows.iter().map(|row| {
        let sides = [0, 1].map(|side| row.values[side].as_ref().map(|figures| figures.center()));
        metric(row, &row.changes[0], names, sides)
    });
    json!({
        "schema": 1,
        "baseline": names.0,
        "variant": names.1,
        "metrics": metrics.collect::<Vec<Value>>(),
        "conclusions": comparison.conclusions,
        "notes": across.notes,
    })
}
