//! The comparison of imported figures, and of the claims published with them.
//!
//! The order in which others made their runs is unknown, so there are no blocks whose labels could be swapped. The tests here take
//! the runs as exchangeable: the rank-sum test for single runs, Welch's test for means with their spread. Both tests would call a
//! drift of the machine a change, and every verdict says so. Figures without spread get no verdict.
//!
//! Claims are recomputed: [`ClaimRow`] says whether each follows from the figures published with it, and whether these figures show
//! a change.

use super::conclusion::detectable;
use super::unpaired::{Test, group};
use super::{
    Change, Comparison, Figures, Row, Severity, VariantSummary, Verdict, Warning, ledger, unpaired,
};
use opcost_base::number::percent;
use opcost_model::plan::{
    Claim, Formula, ImportPlan, ImportSource, ImportedFigures, ImportedMetric, Omission, Plan,
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
    let (ledger, warnings) = ledger::examine(recording, &[], &[], &Default::default(), None);
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
        None => unpaired::judge(&mut rows, &tests, None),
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
        failure: None,
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
        patch_sites: Vec::new(),
        steps: Vec::new(),
        function_costs: Vec::new(),
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
        carry_over: Vec::new(),
        sizes: Vec::new(),
        imported: None,
        conclusions: Vec::new(),
        ranking: None,
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

/// One published claim and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimRow {
    /// The metric.
    pub metric: String,
    /// The variant.
    pub variant: String,
    /// The figure as published.
    pub published: String,
    /// The figure recomputed; `None` if the published figures do not give it.
    pub recomputed: Option<f64>,
    /// Whether the claim holds.
    pub outcome: ClaimOutcome,
    /// The reason in words.
    pub reason: String,
}

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimOutcome {
    /// The claim follows from the figures, and the figures show a change. A formula only has to follow.
    Holds,
    /// The claim follows, but the figures are no evidence of a change.
    NotShown,
    /// The claim follows, but the figures cannot tell whether there is a change.
    CannotTell,
    /// The figures give another result.
    DoesNotFollow,
}

impl ClaimOutcome {
    /// The outcome in a word or three.
    pub fn words(self) -> &'static str {
        match self {
            ClaimOutcome::Holds => "holds",
            ClaimOutcome::NotShown => "not shown",
            ClaimOutcome::CannotTell => "cannot be told",
            ClaimOutcome::DoesNotFollow => "does not follow",
        }
    }
}

/// Recomputes every claim and formula.
pub(super) fn claims(
    import: &ImportPlan,
    plan: &Plan,
    rows: &[Row],
    welch: &[WelchRow],
) -> Vec<ClaimRow> {
    let table = ClaimedTable { import, plan, rows, welch };
    let changes = import.claims.iter().map(|claim| table.change(claim));
    let formulas = import.formulas.iter().flat_map(|formula| table.formula(formula));
    changes.chain(formulas).collect()
}

struct ClaimedTable<'a> {
    import: &'a ImportPlan,
    plan: &'a Plan,
    rows: &'a [Row],
    welch: &'a [WelchRow],
}

impl ClaimedTable<'_> {
    /// Index of a metric by the name that the file gives it.
    fn metric(&self, name: &str) -> Option<usize> {
        let wanted = opcost_record::MetricRow::find(name).map_or(name, |row| row.name);
        self.import.metrics.iter().position(|metric| metric.key.label() == wanted)
    }

    /// The figure of a metric and a variant in the file's unit.
    fn written(&self, metric: usize, variant: usize) -> Option<f64> {
        let figures = self.rows[metric].values[variant].as_ref()?;
        Some(figures.center() / self.import.metrics[metric].factor)
    }

    /// How far rounding may have shifted a figure, as a share of the figure.
    fn rounding(&self, metric: usize, variant: usize) -> f64 {
        let metric_plan = &self.import.metrics[metric];
        self.written(metric, variant)
            .filter(|value| *value != 0.0)
            .map_or(0.0, |value| 0.5 * metric_plan.resolution / metric_plan.factor / value.abs())
    }

    fn change(&self, claim: &Claim) -> ClaimRow {
        let published =
            format!("{} %", format!("{:+.*}", claim.decimals, claim.percent).replace('-', "−"));
        let mut made = ClaimRow {
            metric: claim.metric.clone(),
            variant: claim.variant.clone(),
            published,
            recomputed: None,
            outcome: ClaimOutcome::DoesNotFollow,
            reason: "the table has no figures for it".into(),
        };
        let variant = self.plan.variants.iter().position(|variant| variant.name == claim.variant);
        let comparison = variant
            .and_then(|variant| self.plan.comparisons().iter().position(|pair| pair.1 == variant));
        let (Some(metric), Some(variant), Some(comparison)) =
            (self.metric(&claim.metric), variant, comparison)
        else {
            return made;
        };
        let change = &self.rows[metric].changes[comparison];
        let (baseline, _) = self.plan.comparisons()[comparison];
        let centers = [baseline, variant]
            .map(|side| self.rows[metric].values[side].as_ref().map(Figures::center));
        let [Some(one), Some(two)] = centers else { return made };
        if one == 0.0 {
            return made;
        }
        let ratio = two / one - 1.0;
        made.recomputed = Some(ratio);
        let last = 0.1f64.powi(claim.decimals as i32);
        let rounding = self.rounding(metric, baseline) + self.rounding(metric, variant);
        let allowed = last + 100.0 * rounding * (1.0 + ratio);
        // The factor allows for the last bit of a difference of two decimal numbers.
        if (100.0 * ratio - claim.percent).abs() > allowed * (1.0 + 1e-9) {
            made.reason = format!("the figures give {}", percent(ratio));
            return made;
        }
        let label = &self.rows[metric].label;
        let t = self.welch.iter().find(|row| row.label == *label && row.comparison == comparison);
        let t = t.map_or(String::new(), |row| format!("Welch's t {}", t_text(row.t)));
        (made.outcome, made.reason) = match change.verdict {
            Verdict::Changed => (ClaimOutcome::Holds, t),
            Verdict::Unchanged => {
                let would = change.mde_ratio.map(|mde| {
                    format!("{} or more would have been found", opcost_base::number::magnitude(mde))
                });
                let parts = [Some(t).filter(|t| !t.is_empty()), would];
                (ClaimOutcome::NotShown, parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
            }
            _ => {
                let t = if t.is_empty() { t } else { format!(" ({t})") };
                (ClaimOutcome::CannotTell, format!("{}{t}", change.reason))
            }
        };
        made
    }

    /// Compares each variant's figure with the result of the formula.
    fn formula(&self, formula: &Formula) -> Vec<ClaimRow> {
        let mut found = Vec::new();
        for (variant, plan) in self.plan.variants.iter().enumerate() {
            let Some(metric) = self.metric(&formula.metric) else { continue };
            let Some(value) = self.written(metric, variant) else { continue };
            let Some((result, rounding)) = self.evaluate(formula, variant) else { continue };
            let resolution =
                self.import.metrics[metric].resolution / self.import.metrics[metric].factor;
            let allowed = resolution + rounding * result.abs();
            let follows = (result - value).abs() <= allowed * (1.0 + 1e-9);
            let decimals = (-resolution.log10()).round().max(0.0) as usize;
            found.push(ClaimRow {
                metric: formula.metric.clone(),
                variant: plan.name.clone(),
                published: format!("{value:.decimals$}"),
                recomputed: Some(result),
                outcome: if follows { ClaimOutcome::Holds } else { ClaimOutcome::DoesNotFollow },
                reason: if follows {
                    format!("follows from {}", in_words(formula))
                } else {
                    format!("{} gives {result:.*}", in_words(formula), decimals)
                },
            });
        }
        found
    }

    /// The result of a formula, and the share by which rounding may have shifted it.
    fn evaluate(&self, formula: &Formula, variant: usize) -> Option<(f64, f64)> {
        let mut result = formula.factor;
        let mut rounding = 0.0;
        for (names, under) in [(&formula.over, false), (&formula.under, true)] {
            for name in names {
                let metric = self.metric(name)?;
                let value =
                    self.written(metric, variant).filter(|value| !under || *value != 0.0)?;
                result = if under { result / value } else { result * value };
                rounding += self.rounding(metric, variant);
            }
        }
        Some((result, rounding))
    }
}

/// The formula without its constant, which only converts units.
fn in_words(formula: &Formula) -> String {
    let over = formula.over.join(" · ");
    if formula.under.is_empty() { over } else { format!("{over} / {}", formula.under.join(" / ")) }
}
