//! The table for a mail or a pull request.

use super::text::heading;
use super::{View, alone, functions, imported, size, text as page_text};
use anyhow::Result;
use opcost_analysis::comparison::conclusion::detectable;
use opcost_analysis::comparison::{Change, Figures, Row, Severity, Verdict};
use opcost_base::number::{figures, percent};
use opcost_model::recording::MachineState;
use opcost_record::printable::{Output, safe};
use std::fmt::Write as _;

pub(super) fn render(view: &View<'_>) -> Result<String> {
    let comparison = view.comparison;
    let mut text = format!("**{}**\n", escape(&comparison.heading.join(" · ")));
    if let Some(question) = &comparison.question {
        let _ = writeln!(text, "\n{}", escape(question));
    }
    for (index, &(baseline, variant)) in comparison.comparisons.iter().enumerate() {
        let names = [baseline, variant].map(|side| escape(&comparison.variants[side].name));
        let _ = writeln!(
            text,
            "\n| metric | {} | {} | change | interval | verdict |",
            names[0], names[1]
        );
        text.push_str("|:---|---:|---:|---:|---:|:---|\n");
        for row in &comparison.rows {
            let change = &row.changes[index];
            let medians: Vec<f64> = [baseline, variant]
                .iter()
                .filter_map(|side| row.values[*side].as_ref())
                .map(Figures::center)
                .collect();
            let mut shown = figures(&medians, row.unit).into_iter();
            let mut side = |side: usize| match &row.values[side] {
                Some(_) => shown.next().unwrap_or_default(),
                None => "–".into(),
            };
            let (one, two) = (side(baseline), side(variant));
            let interval = change.ci.map_or("–".into(), |(low, high)| {
                format!("{} … {}", percent(low), percent(high))
            });
            let ratio = change.change_ratio.map_or("–".into(), percent);
            let _ = writeln!(
                text,
                "| {} | {one} | {two} | {ratio} | {interval} | {} |",
                escape(&heading(row)),
                match verdict(row, change) {
                    word if word == REAL => format!("**{word}**"),
                    words => escape(&words),
                }
            );
        }
        functions::markdown(&mut text, comparison, [baseline, variant], escape, view.style);
        for (heading, lines) in functions::differences(comparison, [baseline, variant]) {
            let _ = writeln!(text, "\n{}\n", escape(&heading));
            for line in lines {
                let _ = writeln!(text, "- {}", escape(&line));
            }
        }
        size::rows_markdown(&mut text, comparison, [baseline, variant], escape);
    }
    if comparison.comparisons.is_empty() && comparison.imported.is_none() {
        alone::markdown(&mut text, comparison, escape);
    }
    text.push('\n');
    for conclusion in &comparison.conclusions {
        let _ = writeln!(text, "- {}", escape(conclusion));
    }
    if let Some(note) = page_text::accuracy_note(comparison) {
        let _ = writeln!(text, "- {}", escape(&note));
    }
    if let Some(import) = &comparison.imported {
        for source in &import.sources {
            let _ = writeln!(text, "- {}", escape(&imported::describe(source)));
        }
        for (_, claims) in imported::sentences(import) {
            let _ = writeln!(text, "- published: {}", escape(&claims));
        }
        for omitted in imported::omitted(import) {
            let _ = writeln!(text, "- not taken over: {}", escape(&omitted));
        }
    }
    for entry in comparison.ledger.iter().filter(|entry| entry.severity != Severity::Fine) {
        let waived = if entry.waived { ", waived" } else { "" };
        let _ = writeln!(text, "- {} ({}{waived})", escape(&entry.detail), entry.rule);
    }
    for observation in comparison.stopped.iter().cloned().chain(comparison.observed()) {
        let _ = writeln!(text, "- {}", escape(&observation));
    }
    for line in &comparison.guests {
        let _ = writeln!(text, "- {}", escape(line));
    }
    if let Some(provenance) = view.recording.plan.provenance() {
        let _ = writeln!(text, "- {}", escape(&provenance));
    }
    if let Some(words) = view.recording.machine.first().and_then(MachineState::emulated_words) {
        let _ = writeln!(text, "- {}", escape(&words));
    }
    for (labels, reason) in comparison.missing() {
        let _ =
            writeln!(text, "- not counted: {} ({})", escape(&labels.join(", ")), escape(&reason));
    }
    for warning in view.warnings {
        let _ = writeln!(text, "- {}", escape(&warning.to_string()));
    }
    let _ = writeln!(text, "\nopcost recording {}", comparison.recording);
    Ok(text)
}

/// The word for a change that is real and not exact.
const REAL: &str = "real";

/// The verdict in words.
pub(super) fn verdict(row: &Row, change: &Change) -> String {
    match change.verdict {
        Verdict::Changed | Verdict::FewLayouts if change.estimated => change.found().into(),
        Verdict::Changed if change.below_floor().is_some() => change.reason.clone(),
        Verdict::Changed if change.unordered => "differs".into(),
        Verdict::Changed if row.exact => "real, exact".into(),
        Verdict::Changed => REAL.into(),
        Verdict::FewLayouts => change.reason.clone(),
        Verdict::Unchanged if change.identical && change.layouts.is_some() => change.reason.clone(),
        Verdict::Unchanged if change.identical => "same in every run".into(),
        Verdict::Unchanged => match detectable(row, change) {
            Some(mde) => format!("no change found; {mde} would have been"),
            None => "no change found".into(),
        },
        Verdict::Inconclusive => format!("inconclusive: {}", change.reason),
        Verdict::NotComparable => format!("not comparable: {}", change.reason),
        Verdict::Unavailable => format!("not available: {}", change.reason),
    }
}

/// Makes a text safe within a line of Markdown.
pub(super) fn escape(text: &str) -> String {
    safe(text, Output::Markdown)
}
