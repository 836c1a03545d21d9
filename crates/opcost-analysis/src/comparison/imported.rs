//! The comparison of imported figures.
//!
//! The order in which others made their runs is unknown, so there are no blocks whose labels could be swapped. The tests here take
//! the runs as exchangeable: the rank-sum test for single runs, Welch's test for means with their spread. Both tests would call a
//! drift of the machine a change, and every verdict says so. Figures without spread get no verdict.

use super::claims::{ClaimRow, claims};
use super::conclusion::detectable;
use super::two_sample::{self, Test, group};
use super::{Change, Comparison, Figures, Row, Severity, VariantSummary, Verdict, Warning, ledger};
use opcost_base::number::percent;
use opcost_model::plan::{
    ImportPlan, ImportSource, ImportedFigures, ImportedMetric, Omission, Plan,
};
use opcost_model::recording::Recording;
use opcost_record::Kind;
use opcost_stats::summary;
use opcost_stats::welch::welch;
use serde::Serialize;

/// The facts that a reader of imported figures must know beside the comparison.
#[derive(Clone, Debug, Serialize)]
pub struct ImportSummary {
    /// The files.
    pub sources: Vec<ImportSource>,
    /// Whether every figure is a mean; the table then shows means instead of medians.
    pub means: bool,
    /// Welch's t of each metric that has two means with spread: heading, comparison, t.
    pub welch: Vec<WelchRow>,
    /// Contents of the files that were not taken over.
    pub omitted: Vec<Omission>,
    /// Published claims, recomputed.
    pub claims: Vec<ClaimRow>,
}

/// Welch's t of one metric and one comparison.
#[derive(Clone, Debug, Serialize)]
pub struct WelchRow {
    /// The metric's heading.
    pub label: String,
    /// Index of the comparison.
    pub comparison: usize,
    /// The difference of the means over its standard error.
    pub t: f64,
    /// Degrees of freedom.
    pub freedom: f64,
}

/// Analyses imported figures.
pub(super) fn compare(recording: &Recording, import: &ImportPlan) -> (Comparison, Vec<Warning>) {
    let plan = &recording.plan;
    let (ledger, warnings) = ledger::examine(recording, &[], &[], &Default::default());
    let refusal = ledger.iter().find(|entry| entry.severity == Severity::Refuse && !entry.waived);
    let pairs = plan.comparisons();
    let mut rows: Vec<Row> = import.metrics.iter().map(|metric| row(plan, metric)).collect();
    let tests = import.metrics.iter().map(|metric| {
        let sides = |side: usize| metric.figures[side].as_ref();
        pairs.iter().map(|&(one, two)| Test::of(metric, sides(one), sides(two))).collect()
    });
    let tests: Vec<Vec<Test>> = tests.collect();
    match refusal {
        Some(entry) => {
            let reason = format!("refused by the ledger: {}", entry.rule);
            super::analysis::refuse(&mut rows, &reason);
        }
        None => two_sample::judge(&mut rows, &tests),
    }
    let welch = welch_rows(import, &rows, &pairs);
    let claims = claims(import, plan, &rows, &welch);
    // The primary metric comes first, the others in the order of the file.
    rows.sort_by_key(|row| !row.primary);
    let runs_of = |figures: &ImportedFigures| match figures {
        ImportedFigures::Runs { values, .. } => values.len(),
        ImportedFigures::Mean { n, .. } => n.map_or(0, |n| n as usize),
    };
    let runs = |variant: usize| {
        let figures = import.metrics.iter().filter_map(|metric| metric.figures[variant].as_ref());
        figures.map(runs_of).max().unwrap_or(0)
    };
    let variants = plan.variants.iter().enumerate().map(|(index, variant)| VariantSummary {
        name: variant.name.clone(),
        work: variant.work.describe(),
        runs_finished: runs(index),
        runs_failed: 0,
        ops: None,
        totals: Vec::new(),
        exit_codes: Vec::new(),
    });
    let mut comparison = Comparison {
        recording: recording.id.clone(),
        experiment: plan.experiment.clone(),
        question: plan.question.clone(),
        heading: heading(plan, import),
        variants: variants.collect(),
        comparisons: pairs,
        functions: Vec::new(),
        cycles: Vec::new(),
        cycle_costs: None,
        kernel_commits: Vec::new(),
        function_costs: None,
        guests: Vec::new(),
        differences: Vec::new(),
        twin: Vec::new(),
        rows,
        unavailable: Vec::new(),
        per_megabyte: None,
        invariants: Vec::new(),
        ledger,
        stopped: None,
        pairs_for_all: None,
        observations: Vec::new(),
        sizes: Vec::new(),
        imported: None,
        conclusions: Vec::new(),
    };
    comparison.conclusions = conclusions(&comparison);
    let means = import.metrics.iter().flat_map(|metric| metric.figures.iter().flatten());
    comparison.imported = Some(ImportSummary {
        sources: import.sources.clone(),
        means: means.clone().all(|figures| matches!(figures, ImportedFigures::Mean { .. })),
        welch,
        omitted: import.omitted.clone(),
        claims,
    });
    (comparison, warnings)
}

/// "imported · lmbench lat_mmap · 2 variants · primary: wall", in parts.
fn heading(plan: &Plan, import: &ImportPlan) -> Vec<String> {
    let mut parts = vec![plan.experiment.clone(), "imported figures".to_string()];
    let primary = import.metrics.iter().find(|metric| metric.key == plan.primary);
    parts.push(format!("primary: {}", primary.map_or(plan.primary.label(), ImportedMetric::label)));
    parts
}

fn row(plan: &Plan, metric: &ImportedMetric) -> Row {
    let values: Vec<Option<Figures>> =
        metric.figures.iter().map(|figures| figures.as_ref().and_then(summarise)).collect();
    let centers = |side: usize| values[side].as_ref().map(Figures::center);
    let changes = plan.comparisons().into_iter().map(|(one, two)| {
        let ratio = match (centers(one), centers(two)) {
            (Some(one), Some(two)) if one != 0.0 => Some(two / one - 1.0),
            _ => None,
        };
        let (ratio_of_medians, change_ratio) = (ratio, ratio);
        Change { ratio_of_medians, change_ratio, unordered: true, ..Change::default() }
    });
    Row {
        key: metric.key.clone(),
        label: metric.label(),
        primary: metric.key == plan.primary,
        unit: metric.unit,
        kind: Kind::Counted,
        better: metric.better,
        family: metric.family,
        per_op: metric.per_op,
        exact: false,
        accuracy: None,
        changes: changes.collect(),
        values,
    }
}

pub(super) fn summarise(figures: &ImportedFigures) -> Option<Figures> {
    match figures {
        ImportedFigures::Runs { values, .. } => {
            let spread = summary::Spread::of(values)?;
            Some(Figures {
                median: Some(spread.median),
                mean: spread.mean,
                sd: spread.sd,
                min: Some(spread.min),
                max: Some(spread.max),
                n: values.len(),
                multiplexed: 0,
                values: values.clone(),
                interval: None,
            })
        }
        ImportedFigures::Mean { mean, sd, n } => Some(Figures {
            median: None,
            mean: *mean,
            sd: *sd,
            min: None,
            max: None,
            n: n.map_or(0, |n| n as usize),
            multiplexed: 0,
            values: Vec::new(),
            interval: None,
        }),
    }
}

/// Welch's t with three digits.
pub fn t_text(t: f64) -> String {
    let sign = if t < 0.0 { "−" } else { "" };
    let size = t.abs();
    if size < 10.0 { format!("{sign}{size:.2}") } else { format!("{sign}{size:.1}") }
}

/// Welch's t of every metric with spread on both sides, whichever test gives the verdict.
fn welch_rows(import: &ImportPlan, rows: &[Row], pairs: &[(usize, usize)]) -> Vec<WelchRow> {
    let mut found = Vec::new();
    for (metric, row) in import.metrics.iter().zip(rows) {
        for (comparison, &(one, two)) in pairs.iter().enumerate() {
            let of = |side: usize| metric.figures[side].as_ref().and_then(|f| group(f).ok());
            if let Some(welch) = of(one).zip(of(two)).and_then(|(one, two)| welch(one, two)) {
                let (label, t, freedom) = (row.label.clone(), welch.t, welch.freedom);
                found.push(WelchRow { label, comparison, t, freedom });
            }
        }
    }
    found
}

/// The note on every verdict about imported figures.
const CAVEAT: &str =
    "from imported figures; the order of runs is unknown, so drift cannot be excluded";

fn conclusions(comparison: &Comparison) -> Vec<String> {
    let Some(row) = comparison.rows.iter().find(|row| row.primary) else { return Vec::new() };
    let names = |variant: usize| &comparison.variants[variant].name;
    let sentence = |(index, &(one, two)): (usize, &(usize, usize))| {
        let change = &row.changes[index];
        let amount = change.change_ratio.map_or_else(|| "changed".into(), percent);
        let what = match change.verdict {
            Verdict::Changed => match change.ci {
                Some((low, high)) => format!(
                    "{} {amount}, differs ({} … {} at {} % confidence)",
                    row.label,
                    percent(low),
                    percent(high),
                    (change.ci_level * 1e6).round() / 1e4
                ),
                None => format!("{} {amount}, differs", row.label),
            },
            Verdict::Unchanged => match detectable(row, change) {
                Some(mde) if !change.identical => {
                    format!("no change in {} shown; {mde} or more would have been", row.label)
                }
                _ => format!("no change in {}: the same in every run", row.label),
            },
            Verdict::Inconclusive | Verdict::FewLayouts => {
                format!("{} {amount}, cannot be told: {}", row.label, change.reason)
            }
            Verdict::NotComparable => format!("{} not comparable: {}", row.label, change.reason),
            Verdict::Unavailable => format!("{} not available: {}", row.label, change.reason),
        };
        format!("{} against {}: {what}; {CAVEAT}", names(two), names(one))
    };
    comparison.comparisons.iter().enumerate().map(sentence).collect()
}
