//! The report of a comparison as a document: the tables, where changes come from, the answer, and the doubts.

use super::{View, alone, functions, imported, metrics, ranking, size};
use opcost_analysis::comparison::{Comparison, LedgerEntry, Severity, carry_over};
use opcost_base::listing::few;
use opcost_base::number::figures;
use opcost_model::recording::MachineState;
use opcost_page::document::{Document, Mark};
use opcost_record::Unit;

/// The report; the view's style says whether tables have every metric.
pub(super) fn document(view: &View<'_>) -> Document {
    let comparison = view.comparison;
    let mut document = Document::titled(comparison.heading.join(" · "));
    // A command can be longer than a page; it stands whole in the legend of a table.
    document.quoted = comparison.variants.iter().map(|variant| variant.name.clone()).collect();
    if let Some(question) = &comparison.question {
        document.say(Mark::None, question);
    }
    if let Some(import) = &comparison.imported {
        imported::sources(&mut document, import);
    }
    if comparison.comparisons.is_empty() {
        document.gap();
        match comparison.imported {
            Some(_) => imported::alone(&mut document, comparison),
            None => alone::figures(&mut document, comparison),
        }
    }
    let ranking = comparison.ranking.as_ref();
    if let Some(ranking) = ranking {
        document.gap();
        ranking::add(&mut document, comparison, ranking, view.style.all);
    }
    // Many comparisons are shown one by one only if they are asked for.
    let each = ranking.is_none() || view.style.all;
    if each {
        for index in 0..comparison.comparisons.len() {
            document.gap();
            metrics::add(&mut document, comparison, index, view.style.all);
        }
        per_megabyte(&mut document, comparison);
        metrics::footnotes(&mut document, comparison);
    }
    metrics::missing(&mut document, view);
    if let Some(import) = &comparison.imported {
        imported::footnotes(&mut document, comparison, import);
        imported::claims(&mut document, import);
    }
    if each {
        document.append(origin(comparison));
    }
    document.gap();
    for conclusion in comparison.answers(each) {
        document.say(Mark::Conclusion, conclusion);
    }
    ledger(&mut document, comparison);
    for line in &comparison.guests {
        document.say(Mark::Item(0), line);
    }
    if let Some(provenance) = view.recording.plan.provenance() {
        document.say(Mark::Item(0), provenance);
    }
    if let Some(words) = view.recording.machine.first().and_then(MachineState::emulated_words) {
        document.say(Mark::Item(0), words);
    }
    if let Some(stopped) = &comparison.stopped {
        document.say(Mark::Item(0), stopped);
    }
    for observation in comparison.observed() {
        document.say(Mark::Observation, observation);
    }
    for warning in view.warnings {
        document.say(Mark::Doubt, warning.to_string());
    }
    if !each {
        document.say(Mark::Note, ranking::rest(comparison));
    }
    document.say(Mark::Note, format!("recording {0} · opcost show {0}", comparison.recording));
    document
}

/// Where costs and changes come from: functions and their callers, kernel options, sizes.
pub(super) fn origin(comparison: &Comparison) -> Document {
    let mut document = Document::default();
    alone::functions(&mut document, comparison);
    for &(baseline, variant) in &comparison.comparisons {
        let sides = [baseline, variant];
        functions::add(&mut document, comparison, sides);
        functions::differences(&mut document, comparison, sides);
        size::rows(&mut document, comparison, sides);
    }
    comparison.steps.iter().for_each(|found| opcost_steps::add(&mut document, found));
    document
}

/// Adds the cost of moving a megabyte: `CPU time per MB moved: off 774.1 µs, on 802.0 µs`.
fn per_megabyte(document: &mut Document, comparison: &Comparison) {
    let Some(per) = &comparison.per_megabyte else { return };
    let whose = [
        ("CPU time per MB moved", &per.own_ns),
        ("of the whole machine, from ticks, with the start of each run", &per.machine_ns),
    ];
    for (what, values) in whose {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let mut texts = figures(&known, Unit::Ns).into_iter();
        let of = |(name, value): (&str, &Option<f64>)| {
            let text = value.and_then(|_| texts.next());
            format!("{name} {}", text.unwrap_or_else(|| "not known".into()))
        };
        let names = comparison.variants.iter().map(|variant| variant.name.as_str());
        let said: Vec<String> = names.zip(values).map(of).collect();
        document.say(Mark::None, format!("{what}: {}", said.join(", ")));
    }
}

/// Adds the ledger: a line for each problem, one line for the rules and invariants that hold, and failed runs.
fn ledger(document: &mut Document, comparison: &Comparison) {
    let entries = &comparison.ledger;
    for entry in entries.iter().filter(|entry| entry.severity != Severity::Fine) {
        // A refusal that is not waived is the conclusion already.
        if entry.severity == Severity::Refuse && !entry.waived {
            continue;
        }
        let waived = if entry.waived { "waived" } else { "doubtful" };
        document.say(Mark::Doubt, format!("{waived} ({}): {}", entry.rule, entry.detail));
    }
    let (known, unknown): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.known);
    let fine = known.iter().filter(|entry| entry.severity == Severity::Fine).count();
    let mut text = format!("comparable by {fine} of {} rules", known.len());
    if !unknown.is_empty() {
        // What makes a rule unknown that any recording could answer is the reader's choice.
        let name = |entry: &&LedgerEntry| match entry.rule.as_str() {
            carry_over::RULE => {
                format!("{} ({})", entry.rule, entry.detail.trim_start_matches("not known: "))
            }
            rule => rule.to_string(),
        };
        let names: Vec<String> = unknown.iter().map(name).collect();
        text.push_str(&format!("; not known: {}", names.join(", ")));
    }
    let held: Vec<&str> =
        comparison.invariants.iter().filter(|row| row.holds).map(|row| row.name.as_str()).collect();
    if !held.is_empty() {
        text.push_str(&format!("; the same in every run: {}", held.join(", ")));
    }
    document.say(Mark::Item(0), text);
    let failed = comparison.variants.iter().filter_map(|variant| match &variant.failure {
        Some(how) => Some(format!("'{}', {how}", variant.name)),
        None if variant.runs_failed > 0 => {
            Some(format!("{} runs of '{}'", variant.runs_failed, variant.name))
        }
        None => None,
    });
    let failed: Vec<String> = failed.collect();
    if !failed.is_empty() {
        document.say(Mark::Doubt, format!("failed: {}", few(&failed)));
    }
}
