//! The texts around imported figures: their sources, and the published claims.

use super::benchfmt::word;
use anyhow::{Context, Result};
use opcost_analysis::comparison::{
    ClaimOutcome, Comparison, Figures, ImportSummary, Row, Verdict, by_reason, t_text,
};
use opcost_base::number::figures;
use opcost_model::plan::{ImportSource, ImportedFigures};
use opcost_model::recording::Recording;
use opcost_page::document::{Cell, Column, Document, Mark, Row as Line, Table, Tone};
use opcost_record::printable::{Output, safe};

/// Adds the source files below the heading.
pub(super) fn sources(document: &mut Document, import: &ImportSummary) {
    import.sources.iter().for_each(|source| document.say(Mark::Item(0), describe(source)));
}

/// "imported from FILE (FORMAT): TOOL VERSION, DATE".
fn describe(source: &ImportSource) -> String {
    let tool = [&source.tool, &source.version].map(|part| part.clone().unwrap_or_default());
    let tool = tool.join(" ").trim().to_string();
    let known: Vec<String> = [Some(tool).filter(|tool| !tool.is_empty()), source.date.clone()]
        .into_iter()
        .flatten()
        .collect();
    let known = if known.is_empty() { String::new() } else { format!(": {}", known.join(", ")) };
    format!("imported from {} ({}){known}", source.file, source.format)
}

/// Adds the figures of variants that are compared with no other.
pub(super) fn alone(document: &mut Document, comparison: &Comparison) {
    let mut rows: Vec<Line> = Vec::new();
    for row in &comparison.rows {
        for (variant, values) in comparison.variants.iter().zip(&row.values) {
            let Some(values) = values else { continue };
            let runs = if values.n == 0 { "not known".into() } else { values.n.to_string() };
            let figure = figures(&[values.center()], row.unit).remove(0);
            rows.push(Line::of(vec![
                Cell::text(super::metrics::heading(row).trim_start()),
                Cell::Figure(figure),
                Cell::Figure(runs),
                Cell::text(&variant.name),
            ]));
        }
    }
    let columns = ["metric", "figure", "runs", "variant"].map(Column::fixed).to_vec();
    document.table(Table { caption: None, columns, rows });
}

/// Adds the meaning of the table's words, and Welch's t.
pub(super) fn footnotes(document: &mut Document, comparison: &Comparison, import: &ImportSummary) {
    if import.means {
        document.say(Mark::Note, "the figures are means");
    }
    let undecided =
        |change: &opcost_analysis::comparison::Change| change.verdict == Verdict::Inconclusive;
    if comparison.rows.iter().flat_map(|row| &row.changes).any(undecided) {
        let text = "undecided: without enough runs and their spread nothing says how far a figure may be off";
        document.say(Mark::Note, text);
    }
    for (index, &(_, variant)) in comparison.comparisons.iter().enumerate() {
        let of: Vec<String> = import
            .welch
            .iter()
            .filter(|row| row.comparison == index)
            .map(|row| format!("{} {}", row.label, t_text(row.t)))
            .collect();
        if !of.is_empty() {
            let which = match comparison.comparisons.len() {
                1 => String::new(),
                _ => format!(" of {}", comparison.variants[variant].name),
            };
            document.say(Mark::Note, format!("Welch's t{which}: {}", of.join(", ")));
        }
    }
    for omitted in omitted(import) {
        document.say(Mark::Note, format!("not taken over: {omitted}"));
    }
}

/// The parts that were not imported; parts with the same reason stand together.
fn omitted(import: &ImportSummary) -> Vec<String> {
    let pairs = import.omitted.iter().map(|left| (left.what.clone(), left.why.clone()));
    by_reason(pairs).into_iter().map(|(what, why)| format!("{}: {why}", what.join(", "))).collect()
}

/// Adds the published claims; claims with the same outcome and reason stand together.
pub(super) fn claims(document: &mut Document, import: &ImportSummary) {
    if import.claims.is_empty() {
        return;
    }
    document.section("published, and recomputed from the figures:");
    for (outcome, text) in sentences(import) {
        document.say_in(Mark::Item(0), tone(outcome), text);
    }
}

/// "✗ not shown: wall of slow +0.43 % (Welch's t 0.92)".
fn sentences(import: &ImportSummary) -> Vec<(ClaimOutcome, String)> {
    let mut groups: Vec<(ClaimOutcome, &str, Vec<String>)> = Vec::new();
    for claim in &import.claims {
        let what = format!("{} of {} {}", claim.metric, claim.variant, claim.published);
        let reason = claim.reason.as_str();
        match groups.iter_mut().find(|group| (group.0, group.1) == (claim.outcome, reason)) {
            Some((_, _, claims)) => claims.push(what),
            None => groups.push((claim.outcome, reason, vec![what])),
        }
    }
    let sentence = |(outcome, reason, claims): (ClaimOutcome, &str, Vec<String>)| {
        let mark = match outcome {
            ClaimOutcome::Holds => '✓',
            ClaimOutcome::NotShown | ClaimOutcome::DoesNotFollow => '✗',
            ClaimOutcome::CannotTell => '?',
        };
        let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        (outcome, format!("{mark} {}: {}{reason}", outcome.words(), claims.join(", ")))
    };
    groups.into_iter().map(sentence).collect()
}

fn tone(outcome: ClaimOutcome) -> Tone {
    match outcome {
        ClaimOutcome::Holds => Tone::Better,
        ClaimOutcome::CannotTell => Tone::Unsure,
        ClaimOutcome::NotShown | ClaimOutcome::DoesNotFollow => Tone::Worse,
    }
}

/// The figures as a CSV that can be imported again: samples, or a summary if any figure is a mean.
pub(super) fn csv(recording: &Recording, comparison: &Comparison) -> Result<String> {
    let metrics = recording.plan.imported().into_iter().flat_map(|import| &import.metrics);
    let means = comparison.imported.as_ref().is_some_and(|import| {
        import.means
            || comparison.rows.iter().flat_map(|row| row.values.iter().flatten()).any(is_mean)
    });
    let mut writer = csv::Writer::from_writer(Vec::new());
    let head: &[&str] = if means {
        &["variant", "metric", "mean", "sd", "n", "unit"]
    } else {
        &["variant", "metric", "value", "unit", "block"]
    };
    writer.write_record(head).context("figures to CSV")?;
    for metric in metrics {
        let Some(row) = comparison.rows.iter().find(|row| row.key == metric.key) else { continue };
        let unit = metric.unit_written.clone().unwrap_or_else(|| match metric.unit.symbol() {
            "1" => String::new(),
            symbol => symbol.to_string(),
        });
        let [name, unit] = [metric.key.label(), unit].map(|text| safe(&text, Output::CsvCell));
        for ((variant, values), figures) in
            recording.plan.variants.iter().zip(&row.values).zip(&metric.figures)
        {
            let (Some(values), Some(figures)) = (values, figures) else { continue };
            let variant = safe(&variant.name, Output::CsvCell);
            if means {
                // A single run is a mean of one.
                let alone = |value: &f64| [value.to_string(), String::new(), "1".to_string()];
                let rows = match is_mean(values) {
                    false => values.values.iter().map(alone).collect(),
                    true => {
                        let sd = values.sd.map_or(String::new(), |sd| sd.to_string());
                        let n = if values.n == 0 { String::new() } else { values.n.to_string() };
                        vec![[values.mean.to_string(), sd, n]]
                    }
                };
                for [mean, sd, n] in &rows {
                    writer
                        .write_record([&variant, &name, mean, sd, n, &unit])
                        .context("figures to CSV")?;
                }
                continue;
            }
            let ImportedFigures::Runs { blocks, .. } = figures else { continue };
            for (index, value) in values.values.iter().enumerate() {
                let block = blocks.get(index).map_or(String::new(), |block| block.to_string());
                writer
                    .write_record([&variant, &name, &value.to_string(), &unit, &block])
                    .context("figures to CSV")?;
            }
        }
    }
    String::from_utf8(writer.into_inner().context("figures to CSV")?).context("figures to CSV")
}

fn is_mean(figures: &Figures) -> bool {
    figures.values.is_empty()
}

/// Imported runs as Go benchmark lines, one figure each; a mean is not a run and has no line.
pub(super) fn benchfmt(recording: &Recording, name: &str) -> String {
    let mut text = String::new();
    let variants = super::benchfmt::variant_words(recording);
    let metrics = recording.plan.imported().into_iter().flat_map(|import| &import.metrics);
    for metric in metrics {
        let figure = |value: f64| match &metric.unit_written {
            // Go's own benchmarks have this unit.
            Some(unit) if (metric.key.name.as_str(), unit.as_str()) == ("throughput", "MB/s") => {
                format!("{value} {unit}")
            }
            Some(unit) => format!("{value} {}", word(&format!("{}-{unit}", metric.key.label()))),
            None => super::benchfmt::figure(&metric.key, metric.unit, value),
        };
        for (variant, figures) in variants.iter().zip(&metric.figures) {
            let Some(ImportedFigures::Runs { values, .. }) = figures else { continue };
            for value in values {
                text += &format!("Benchmark{name}/variant={variant} 1 {}\n", figure(*value));
            }
        }
    }
    text
}

/// The unit of an imported metric as its file wrote it, if that is no unit of opcost.
pub(super) fn unit_written<'a>(recording: &'a Recording, row: &Row) -> Option<&'a str> {
    let import = recording.plan.imported()?;
    let metric = import.metrics.iter().find(|metric| metric.key == row.key)?;
    metric.unit_written.as_deref()
}
