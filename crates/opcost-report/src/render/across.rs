//! Two variants of two recordings, metric by metric, for people and for programs.

use super::json::metric;
use super::metrics;
use opcost_analysis::comparison::two_recordings::RecordingsComparison;
use opcost_page::document::{Document, MailHead, Mark};
use serde_json::{Value, json};

/// The first part of the report of `opcost diff` on two recordings; `all`: whether its table has every metric.
pub fn document(across: &RecordingsComparison, all: bool) -> Document {
    let comparison = &across.comparison;
    let mut document = Document::titled(comparison.heading.join(" · "));
    document.mail = Some(MailHead {
        subject: comparison.conclusions.first().cloned().unwrap_or_default(),
        ..MailHead::default()
    });
    for variant in &comparison.variants {
        let runs = format!("{}: {}, {} runs", variant.name, variant.work, variant.runs_finished);
        document.say(Mark::None, runs);
    }
    document.gap();
    metrics::add(&mut document, comparison, 0, all);
    metrics::footnotes(&mut document, comparison);
    document.gap();
    for conclusion in &comparison.conclusions {
        document.say(Mark::Conclusion, conclusion);
    }
    for line in &comparison.guests {
        document.say(Mark::Item(0), line);
    }
    for note in &across.notes {
        document.say(Mark::Doubt, note);
    }
    document
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
