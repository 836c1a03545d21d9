//! From a recording to a comparison.

use super::ledger;
use super::{
    Change, Comparison, Figures, InvariantRow, Row, TwinRow, VariantSummary, Verdict, Warning,
    conclusion,
};
use crate::plan::{Plan, WorkPlan};
use crate::store::Recording;
use opcost_record::{Family, MetricId, MetricKey, Outcome, Record, TWIN, Unit, WORK};
use opcost_stats::{Block, Budget, Exactness, Paired, Total, exact, multiple, power, summary};
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// Analyses a recording.
///
/// The result depends on nothing else; what a reader should know beside it comes as warnings.
pub fn compare(recording: &Recording) -> (Comparison, Vec<Warning>) {
    let plan = &recording.plan;
    let finished: Vec<Vec<&Record>> =
        (0..plan.variants.len()).map(|variant| finished_runs(recording, variant)).collect();
    let invariants = invariants(&finished);
    let (ledger, mut warnings) = ledger::examine(recording, &finished, &invariants);
    let refusal =
        ledger.iter().find(|entry| entry.severity == super::Severity::Refuse && !entry.waived);
    let mut rows = rows(recording, &finished);
    judge(&mut rows, plan, refusal.map(|entry| entry.rule.as_str()));
    if plan.pairs < plan.fewest_pairs {
        warnings.push(Warning::TooFewPairs { pairs: plan.pairs, fewest: plan.fewest_pairs });
    }
    warnings.extend(short_runs(plan, &rows));
    let mut comparison = Comparison {
        recording: recording.id.clone(),
        experiment: plan.experiment.clone(),
        question: plan.question.clone(),
        heading: heading(plan, &finished),
        variants: variants(recording, &finished),
        comparisons: plan.comparisons(),
        twin: twin(recording, &finished, &rows),
        rows,
        unavailable: plan.unavailable.clone(),
        invariants,
        ledger,
        conclusions: Vec::new(),
    };
    comparison.conclusions = conclusion::conclusions(&comparison);
    (comparison, warnings)
}

/// The runs of a variant that count: finished, and no warm-up.
fn finished_runs(recording: &Recording, variant: usize) -> Vec<&Record> {
    recording
        .records
        .iter()
        .filter(|record| usize::from(record.variant) == variant && record.block.is_some())
        .filter(|record| record.outcome == Outcome::Finished)
        .collect()
}

fn heading(plan: &Plan, finished: &[Vec<&Record>]) -> Vec<String> {
    let mut parts = Vec::new();
    match &plan.variants[0].work {
        WorkPlan::Workload { name, .. } => parts.push(name.clone()),
        WorkPlan::Command { .. } => parts.push("commands".into()),
    }
    if let Some(ops) = finished.iter().flatten().find_map(|record| record.ops) {
        parts.push(format!("{} ops a run", conclusion::grouped(ops)));
    }
    parts.push("this host".into());
    parts.push(format!("{} pairs", plan.pairs));
    parts.push(format!("primary: {}", plan.primary.label()));
    parts
}

fn variants(recording: &Recording, finished: &[Vec<&Record>]) -> Vec<VariantSummary> {
    let plan = &recording.plan;
    let summary = |(index, variant): (usize, &crate::plan::VariantPlan)| {
        let runs: Vec<&Record> = recording
            .records
            .iter()
            .filter(|record| usize::from(record.variant) == index && record.block.is_some())
            .collect();
        VariantSummary {
            name: variant.name.clone(),
            work: variant.work.describe(),
            runs_finished: finished[index].len(),
            runs_failed: runs.len() - finished[index].len(),
            ops: finished[index].first().and_then(|record| record.ops),
            exit_codes: runs.iter().map(|record| record.exit_code).collect(),
        }
    };
    plan.variants.iter().enumerate().map(summary).collect()
}

/// Every invariant with the values seen in each variant.
fn invariants(finished: &[Vec<&Record>]) -> Vec<InvariantRow> {
    let mut rows: Vec<InvariantRow> = Vec::new();
    for (variant, records) in finished.iter().enumerate() {
        for invariant in records.iter().flat_map(|record| &record.invariants) {
            let known = rows.iter().position(|row| row.name == invariant.name);
            let at = known.unwrap_or_else(|| {
                rows.push(InvariantRow {
                    name: invariant.name.clone(),
                    values: vec![Vec::new(); finished.len()],
                    holds: true,
                });
                rows.len() - 1
            });
            let values = &mut rows[at].values[variant];
            if !values.contains(&invariant.value) {
                values.push(invariant.value.clone());
            }
        }
    }
    for row in &mut rows {
        let ran = row.values.iter().zip(finished).filter(|(_, records)| !records.is_empty());
        let mut values = ran.map(|(values, _)| values);
        let first = values.next().cloned().unwrap_or_default();
        row.holds = first.len() == 1 && values.all(|other| *other == first);
    }
    rows
}

/// One metric's figures in one run.
struct Figure {
    block: u32,
    total: Total,
    multiplexed: bool,
}

impl Figure {
    fn of(record: &Record, metric: MetricId, key: &MetricKey) -> Option<Figure> {
        let sample = record.sample(metric)?;
        let per_op = key.row().per_op;
        let ops =
            record.ops.filter(|_| per_op).and_then(NonZeroU64::new).unwrap_or(NonZeroU64::MIN);
        Some(Figure {
            block: record.block?,
            total: Total { value: sample.value, ops },
            multiplexed: sample.time.is_some_and(|time| time.multiplexed()),
        })
    }
}

/// The rows without verdicts, the primary metric first, then in the order of the table of metrics.
fn rows(recording: &Recording, finished: &[Vec<&Record>]) -> Vec<Row> {
    let keys = recording.dictionary.keys();
    let mut rows: Vec<Row> = keys
        .iter()
        .enumerate()
        .filter(|(_, key)| key.region == WORK && key.row().family != Family::Control)
        .map(|(metric, key)| row(recording, finished, metric as MetricId, key))
        .collect();
    let place = |key: &MetricKey| {
        let listed = opcost_record::METRICS.iter().position(|row| row.name == key.name);
        (listed.unwrap_or(usize::MAX), key.clone())
    };
    rows.sort_by_key(|row| (!row.primary, place(&row.key)));
    rows
}

fn row(recording: &Recording, finished: &[Vec<&Record>], metric: MetricId, key: &MetricKey) -> Row {
    let plan = &recording.plan;
    let described = key.row();
    let figures: Vec<Vec<Figure>> = finished
        .iter()
        .map(|records| {
            records.iter().filter_map(|record| Figure::of(record, metric, key)).collect()
        })
        .collect();
    let twice = recording.dictionary.keys().iter().any(|other| {
        other.region == key.region && other.label() == key.label() && other.source != key.source
    });
    let comparisons = plan.comparisons();
    Row {
        key: key.clone(),
        label: if twice { format!("{} ({})", key.label(), key.source) } else { key.label() },
        primary: *key == plan.primary,
        unit: described.unit,
        kind: described.kind,
        better: described.better,
        family: described.family,
        per_op: described.per_op && finished.iter().flatten().any(|record| record.ops.is_some()),
        exact: figures.iter().all(|side| is_exact(side)),
        values: figures.iter().map(|side| summarise(side)).collect(),
        changes: comparisons
            .iter()
            .map(|&(baseline, variant)| change(plan, &figures[baseline], &figures[variant]))
            .collect(),
    }
}

fn is_exact(side: &[Figure]) -> bool {
    let totals: Vec<Total> = side.iter().map(|figure| figure.total).collect();
    exact::exact(&totals, &totals) != Exactness::Varies
}

fn summarise(side: &[Figure]) -> Option<Figures> {
    let values: Vec<f64> = side.iter().map(|figure| figure.total.per_op()).collect();
    let spread = summary::Spread::of(&values)?;
    Some(Figures {
        median: spread.median,
        mean: spread.mean,
        sd: spread.sd,
        min: spread.min,
        max: spread.max,
        n: values.len(),
        multiplexed: side.iter().filter(|figure| figure.multiplexed).count(),
        values,
    })
}

/// The change of one metric with everything but p values, intervals and the verdict, which need
/// all the other metrics.
fn change(plan: &Plan, baseline: &[Figure], variant: &[Figure]) -> Change {
    let multiplexed = baseline.iter().chain(variant).filter(|figure| figure.multiplexed).count();
    let mut change = Change {
        ratio_of_medians: None,
        change_ratio: None,
        ci: None,
        ci_level: 0.0,
        p_adjusted: None,
        mde_ratio: None,
        mde_difference: None,
        n_pairs: 0,
        verdict: Verdict::Inconclusive,
        reason: String::new(),
        paired: None,
        identical: false,
    };
    if baseline.is_empty() || variant.is_empty() {
        change.verdict = Verdict::Unavailable;
        change.reason = "no finished run has it".into();
        return change;
    }
    if multiplexed > 0 {
        change.verdict = Verdict::NotComparable;
        change.reason = format!(
            "multiplexed in {multiplexed} of {} runs, so not a full count; count fewer events at once",
            baseline.len() + variant.len()
        );
    }
    let mut blocks = vec![Block::default(); plan.blocks.len()];
    for figure in baseline {
        blocks[figure.block as usize].baseline.push(figure.total.per_op());
    }
    for figure in variant {
        blocks[figure.block as usize].variant.push(figure.total.per_op());
    }
    let median = |side: &[Figure]| {
        let values: Vec<f64> = side.iter().map(|figure| figure.total.per_op()).collect();
        summary::median(&values).unwrap_or(0.0)
    };
    let (one, two) = (median(baseline), median(variant));
    change.ratio_of_medians = (one != 0.0).then(|| two / one - 1.0).or((one == two).then_some(0.0));
    match Paired::new(&blocks) {
        Err(error) => {
            change.verdict = Verdict::Unavailable;
            change.reason = error.to_string();
        }
        Ok(paired) => {
            change.n_pairs = paired.n_pairs();
            change.change_ratio = paired.change_ratio();
            let totals =
                |side: &[Figure]| side.iter().map(|figure| figure.total).collect::<Vec<_>>();
            let exactness = exact::exact(&totals(baseline), &totals(variant));
            if exactness != Exactness::Varies {
                change.change_ratio = exactness.change_ratio();
                change.ratio_of_medians = exactness.change_ratio();
                change.identical = exactness.change_ratio() == Some(0.0);
            }
            change.paired = Some(paired);
        }
    }
    change
}

/// Gives every change its corrected p value, interval and verdict.
fn judge(rows: &mut [Row], plan: &Plan, refused_by: Option<&str>) {
    let budget = Budget::default();
    for family in multiple::Family::ALL {
        let mut members: Vec<(bool, &mut Change)> = rows
            .iter_mut()
            .filter(|row| family_of(row) == Some(family))
            .flat_map(|row| {
                let exact = row.exact;
                row.changes.iter_mut().map(move |change| (exact, change))
            })
            // What is the same integer in every run on both sides cannot raise a false alarm.
            .filter(|(_, change)| change.paired.is_some() && !change.identical)
            .filter(|(_, change)| change.verdict != Verdict::NotComparable)
            .collect();
        let p: Vec<f64> = members
            .iter()
            .map(|(_, change)| change.paired.as_ref().map_or(1.0, Paired::p))
            .collect();
        let adjusted = family.adjust(&p);
        let tests = members.len();
        let alpha = budget.level_of_smallest(family, tests);
        let fewest_pairs = 2 * power::blocks_min(budget.level(family), tests);
        for ((exact, change), adjusted) in members.iter_mut().zip(adjusted) {
            // On the scale of the whole report's error rate, whatever the family's share of it.
            let adjusted = (adjusted * budget.total() / budget.level(family)).min(1.0);
            decide(change, *exact, adjusted, alpha, fewest_pairs, plan.seed, budget.total());
        }
    }
    for row in rows {
        for change in &mut row.changes {
            if change.identical && change.verdict == Verdict::Inconclusive {
                change.verdict = Verdict::Unchanged;
                change.reason = "the same in every run".into();
            }
            if let Some(rule) = refused_by
                && change.verdict != Verdict::Unavailable
            {
                change.verdict = Verdict::NotComparable;
                change.reason = format!("refused by the ledger: {rule}");
                (change.ci, change.p_adjusted, change.mde_ratio) = (None, None, None);
            }
        }
    }
}

fn family_of(row: &Row) -> Option<multiple::Family> {
    match (row.primary, row.family) {
        (true, _) => Some(multiple::Family::Primary),
        (_, Family::Headline) => Some(multiple::Family::Headline),
        (_, Family::Rest) => Some(multiple::Family::Rest),
        (_, Family::Control) => None,
    }
}

fn decide(
    change: &mut Change,
    exact: bool,
    adjusted: f64,
    alpha: f64,
    fewest_pairs: u32,
    seed: u64,
    rate: f64,
) {
    let Some(paired) = &change.paired else { return };
    let reachable = paired.p_floor() <= alpha;
    change.ci_level = 1.0 - alpha;
    if !exact {
        change.p_adjusted = Some(adjusted);
        change.ci = paired.interval_ratio(1.0 - alpha);
    }
    change.verdict = if adjusted <= rate {
        if exact {
            change.reason = "the same in every run of a variant".into();
        }
        Verdict::Changed
    } else if !reachable {
        change.reason = format!("needs {fewest_pairs} pairs");
        Verdict::Inconclusive
    } else {
        change.mde_ratio = paired.detectable_ratio(alpha, seed);
        if change.mde_ratio.is_none() {
            change.mde_difference = paired.detectable_shift(alpha, seed);
        }
        Verdict::Unchanged
    }

}

fn twin(recording: &Recording, finished: &[Vec<&Record>], rows: &[Row]) -> Vec<TwinRow> {
    let mut twins = Vec::new();
    for (row, key) in rows
        .iter()
        .filter(|row| row.per_op)
        .map(|row| (row, MetricKey { region: TWIN.into(), ..row.key.clone() }))
    {
        let Some(metric) = recording.dictionary.id(&key) else { continue };
        let median = |records: &Vec<&Record>| {
            let values: Vec<f64> = records
                .iter()
                .filter_map(|record| Figure::of(record, metric, &key))
                .filter(|figure| !figure.multiplexed)
                .map(|figure| figure.total.per_op())
                .collect();
            summary::median(&values)
        };
        twins.push(TwinRow {
            label: row.label.clone(),
            unit: row.unit,
            values: finished.iter().map(median).collect(),
        });
    }
    twins
}

/// Commands that end so soon that their start is most of what was measured.
fn short_runs(plan: &Plan, rows: &[Row]) -> Vec<Warning> {
    const SHORT_NS: f64 = 5e6;
    let command = matches!(plan.variants[0].work, WorkPlan::Command { .. });
    let wall = rows.iter().find(|row| row.key.name == "wall" && row.unit == Unit::Ns);
    let Some(wall) = wall.filter(|_| command) else { return Vec::new() };
    let medians: BTreeMap<&str, f64> = plan
        .variants
        .iter()
        .zip(&wall.values)
        .filter_map(|(variant, figures)| Some((variant.name.as_str(), figures.as_ref()?.median)))
        .collect();
    medians
        .into_iter()
        .filter(|(_, median)| *median < SHORT_NS)
        .map(|(name, median)| Warning::ShortRuns {
            variant: name.to_string(),
            wall_ns: median as u64,
        })
        .collect()
}
