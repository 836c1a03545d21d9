//! Carry-over between the runs of this computer: whether a run costs more behind one variant than behind the other.
//!
//! What a variant leaves behind (dirty pages, a cold cache, a hot CPU) the next run pays, which usually is its rival's. The
//! primary metric, the elapsed time and the CPU time are tested first, at [`CARRY_OVER_RATE`] together (Holm). Where any shows a
//! carry-over, each further metric of that comparison is tested at the same rate. Without a carry-over no further metric is
//! tested, so the rate of the report stays the same.
//!
//! A carry-over changes the verdict to undecided and never to real. The change shown is that of the runs behind their own variant.
//!
//! A carry-over that the test does not find can still make a change, even of the wrong sign. A real change therefore has to survive
//! it: if at most [`LEFT_MIN`] of the change is left when each variant runs behind itself, by the estimate from all runs, the
//! verdict is undecided. This finds nothing, so it has no error rate; it costs some of the changes that are barely found.
//! On the emulated machine every run begins in the same state, and the runs of two recordings and of other tools have no order.

use super::columns::{Columns, WALL};
use super::{
    FunctionComparison, FunctionVerdict, LedgerEntry, OBSERVATION_RATE, Row, Severity, Verdict,
    analysis::family_of,
};
use opcost_base::number::{grouped, percent};
use opcost_model::plan::{MachineKind, Plan};
use opcost_model::recording::Recording;
use opcost_record::{MetricId, MetricKey, Outcome, Record, WORK};
use opcost_stats::carry_over::{LEFT_MIN, Run, Runs};
use opcost_stats::multiple::holm;
use opcost_stats::schedule::MIRRORED_PAIRS_MIN;
use opcost_stats::{Scale, Total, rank, summary};
use serde::Serialize;
use std::collections::BTreeSet;
use std::num::NonZeroU64;

/// The name of the ledger's rule.
pub const RULE: &str = "carry-over";

/// The probability that a report on runs that leave nothing behind has a carry-over: half of [`OBSERVATION_RATE`]. It is the rate of
/// the primary metric, so a carry-over that makes a change real is about as visible as the change.
pub const CARRY_OVER_RATE: f64 = 0.025;

/// The times that are tested whatever the primary metric is.
const TIMES: [&str; 2] = [WALL, "task-clock"];

/// The confidence level of the change of runs behind their own variant.
const BEHIND_OWN_LEVEL: f64 = 0.95;

/// The most comparisons with a carry-over that the ledger describes.
const FOUND_MAX: usize = 3;

/// The fewest runs of each variant behind their own that show a change.
const BEHIND_OWN_MIN: usize = 3;

/// One test for carry-over, or a metric in which it was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CarryOver {
    /// Index of the comparison.
    #[serde(skip)]
    pub comparison: usize,
    /// The metric.
    #[serde(skip)]
    pub key: MetricKey,
    /// Label of the metric.
    pub metric: String,
    /// Name of the baseline.
    pub baseline: String,
    /// Name of the variant.
    pub variant: String,
    /// The number of blocks that show what a run finds behind either variant.
    pub blocks: usize,
    /// The cost behind the baseline over the cost behind the variant − 1; `None` if it has no ratio.
    pub change_ratio: Option<f64>,
    /// The p-value, corrected for everything that was tested, on the scale of [`OBSERVATION_RATE`].
    pub p_adjusted: f64,
    /// Whether there is a carry-over.
    pub found: bool,
    /// The estimated change if each variant ran behind itself, where it withholds the verdict.
    pub alone_ratio: Option<f64>,
    /// The change of the runs behind their own variant; `None` if there are too few.
    pub behind_own: Option<BehindOwn>,
}

/// The change of runs that are directly behind a run of their own variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BehindOwn {
    /// variant/baseline − 1.
    pub change_ratio: f64,
    /// Lower end of its interval.
    pub ci_low: Option<f64>,
    /// Upper end.
    pub ci_high: Option<f64>,
    /// Confidence level of the interval.
    pub ci_level: f64,
    /// Runs of the baseline.
    pub runs_baseline: usize,
    /// Runs of the variant.
    pub runs_variant: usize,
}

/// The tests of a recording.
pub(super) struct Tests {
    /// The tests of the first metrics, then metrics in which a carry-over was found besides.
    pub(super) made: Vec<CarryOver>,
    /// Why nothing was tested, if nothing was.
    untested: Option<String>,
}

/// Whether runs of a plan follow each other on this computer and are compared.
pub(super) fn applies(plan: &Plan) -> bool {
    plan.machine() == MachineKind::Host && plan.variants.len() > 1
}

/// Tests a recording; `None` where the test has no meaning.
pub(super) fn examine(recording: &Recording, columns: &Columns) -> Option<Tests> {
    let plan = &recording.plan;
    if !applies(plan) || plan.block.is_some() {
        return None;
    }
    let keys = recording.dictionary.keys();
    let metrics = || (0..).zip(keys).filter(|(_, key)| key.region == WORK);
    let is_first = |key: &MetricKey| *key == plan.primary || TIMES.contains(&key.name.as_str());
    let comparisons = recording.comparisons();
    // A recording may have thousands of comparisons: its runs are read once a metric.
    let tests = |id: MetricId, key: &MetricKey, chosen: &dyn Fn(usize) -> bool| {
        let of_metric = |runs: Runs| {
            let is_whole = |(one, two): (usize, usize)| {
                let values = &columns.by_metric[usize::from(id)];
                [one, two].iter().all(|side| !values[*side].values.is_empty())
            };
            let sides = comparisons.iter().copied().enumerate();
            let whole = sides.filter(|(index, sides)| chosen(*index) && is_whole(*sides));
            whole.map(|(index, sides)| self::of_metric(plan, key, index, sides, &runs)).collect()
        };
        let counted = !columns.multiplexed(usize::from(id));
        let runs = counted.then(|| runs(recording, id)).flatten();
        runs.map_or_else(Vec::new, of_metric)
    };
    let mut made: Vec<(CarryOver, f64)> = Vec::new();
    for (id, key) in metrics().filter(|(_, key)| is_first(key)) {
        made.extend(tests(id, key, &|_| true));
    }
    let needed = blocks_min(CARRY_OVER_RATE / made.len().max(1) as f64);
    if made.iter().all(|(test, _)| test.blocks < needed) {
        let blocks = made.iter().map(|(test, _)| test.blocks).max().unwrap_or(0);
        return Some(Tests {
            made: Vec::new(),
            untested: Some(too_few(recording, blocks, needed)),
        });
    }
    let p: Vec<f64> = made.iter().map(|(_, p)| *p).collect();
    for ((test, _), adjusted) in made.iter_mut().zip(holm(&p)) {
        test.judge(adjusted);
    }
    let found: BTreeSet<usize> =
        made.iter().filter(|(test, _)| test.found).map(|(test, _)| test.comparison).collect();
    if !found.is_empty() {
        for (id, key) in metrics().filter(|(_, key)| !is_first(key)) {
            for (mut further, p) in tests(id, key, &|index| found.contains(&index)) {
                further.judge(p);
                made.extend(further.found.then_some((further, p)));
            }
        }
    }
    Some(Tests { made: made.into_iter().map(|(test, _)| test).collect(), untested: None })
}

impl CarryOver {
    fn judge(&mut self, adjusted: f64) {
        self.found = adjusted <= CARRY_OVER_RATE;
        self.p_adjusted = (adjusted * OBSERVATION_RATE / CARRY_OVER_RATE).min(1.0);
    }
}

/// The fewest blocks with which a test can reach `level`.
fn blocks_min(level: f64) -> usize {
    (1..).find(|blocks| rank::p_floor(*blocks) <= level).unwrap_or(usize::MAX)
}

fn too_few(recording: &Recording, blocks: usize, needed: usize) -> String {
    let pairs = grouped(recording.pairs_made().into());
    match recording.plan.variants.len() {
        // The first pair is behind no other.
        2 => format!("{pairs} pairs cannot show it, {} can", needed + 1),
        _ => format!(
            "{pairs} runs of each variant show it in {blocks} orders, and {needed} are needed"
        ),
    }
}

/// The runs of a recording in the order of running, with a metric's figures; `None` if no run has the metric.
fn runs(recording: &Recording, metric: MetricId) -> Option<Runs> {
    let plan = &recording.plan;
    let per_op = recording.dictionary.key(metric)?.row().per_op;
    let figure = |record: &Record| {
        let sample = record.sample(metric).filter(|_| record.outcome == Outcome::Finished)?;
        let ops = record.ops.filter(|_| per_op).and_then(NonZeroU64::new);
        Some(Total { value: sample.value, ops: ops.unwrap_or(NonZeroU64::MIN) }.per_op())
    };
    let mut records = recording.records.iter().peekable();
    let mut runs: Vec<Run> = Vec::with_capacity(recording.records.len());
    let mut computer = None;
    for slot in plan.slots() {
        let Some(record) = records.next_if(|record| record.slot == slot.slot) else { continue };
        // Another computer's runs begin with warm-up runs, which were not gathered.
        let own = plan.computers().and(slot.block).map(|block| plan.unit_of(block));
        if own != computer {
            let variant = usize::from(slot.variant);
            runs.push(Run { variant, block: None, is_compared: false, value: None });
            computer = own;
        }
        runs.push(Run {
            variant: usize::from(slot.variant),
            block: slot.block,
            is_compared: slot.compared_in().is_some(),
            value: figure(record),
        });
    }
    let mut known = runs.iter().filter_map(|run| run.value).peekable();
    known.peek()?;
    let scale = if known.all(|value| value > 0.0) { Scale::LogRatio } else { Scale::Difference };
    Some(Runs::of(runs, scale))
}

/// A shift on the scale of the contrasts as a ratio − 1; `None` if it has none.
fn ratio(runs: &Runs, baseline: usize, shift: f64) -> Option<f64> {
    match runs.scale() {
        Scale::LogRatio => Some(shift.exp_m1()),
        Scale::Difference => {
            let median = summary::median(&runs.values(baseline)).filter(|median| *median != 0.0);
            median.map(|median| shift / median)
        }
    }
}

/// The test of one metric and one comparison, not judged yet, with its p-value.
fn of_metric(
    plan: &Plan,
    key: &MetricKey,
    comparison: usize,
    (one, two): (usize, usize),
    runs: &Runs,
) -> (CarryOver, f64) {
    let ratio = |shift: f64| ratio(runs, one, shift);
    let carried = runs.carry_over(one, two);
    let own = runs.behind_own(one, two, BEHIND_OWN_LEVEL);
    let own = own.filter(|own| own.runs.iter().all(|runs| *runs >= BEHIND_OWN_MIN));
    let behind_own = own.and_then(|own| {
        let end = |end: fn((f64, f64)) -> f64| own.interval.map(end).and_then(ratio);
        Some(BehindOwn {
            change_ratio: ratio(own.estimate)?,
            ci_low: end(|(low, _)| low),
            ci_high: end(|(_, high)| high),
            ci_level: BEHIND_OWN_LEVEL,
            runs_baseline: own.runs[0],
            runs_variant: own.runs[1],
        })
    });
    let test = CarryOver {
        comparison,
        key: key.clone(),
        metric: key.label(),
        baseline: plan.variants[one].name.clone(),
        variant: plan.variants[two].name.clone(),
        blocks: carried.blocks(),
        change_ratio: carried.estimate().and_then(ratio),
        p_adjusted: 1.0,
        found: false,
        alone_ratio: None,
        behind_own,
    };
    (test, carried.p())
}

impl Tests {
    /// What the ledger says: a severity with its text, or why nothing is known.
    pub(super) fn finding(&self) -> Result<(Severity, String), String> {
        if let Some(why) = &self.untested {
            return Err(why.clone());
        }
        // One metric says it for the comparison.
        let mut compared = BTreeSet::new();
        let found = self.made.iter().filter(|test| test.found);
        let found = found.filter(|test| compared.insert(test.comparison));
        let mut found: Vec<String> = found.map(CarryOver::describe).collect();
        if found.len() > FOUND_MAX + 1 {
            let more = found.len() - FOUND_MAX;
            found.truncate(FOUND_MAX);
            found.push(format!("the same is found in {} more comparisons", grouped(more as u64)));
        }
        if found.is_empty() {
            let blocks = self.made.iter().map(|test| test.blocks).min().unwrap_or(0);
            let text = format!(
                "no run was found to cost more behind one variant than behind another ({blocks} blocks)"
            );
            return Ok((Severity::Fine, text));
        }
        Ok((
            Severity::Doubtful,
            format!(
                "{}; so what one variant leaves behind is charged to the other. Remove it before each run \
                 (--prepare sync writes dirty pages), or leave out the first run behind another variant (--block 2)",
                found.join("; ")
            ),
        ))
    }

    /// Marks the real changes of which at most [`LEFT_MIN`] is left if each variant runs behind itself.
    pub(super) fn doubt(&mut self, recording: &Recording, rows: &[Row]) {
        let (plan, compared) = (&recording.plan, recording.comparisons());
        let found: BTreeSet<(usize, MetricKey)> =
            self.made.iter().filter(|test| test.found).map(CarryOver::place).collect();
        for row in rows.iter().filter(|row| family_of(row).is_some()) {
            let real = row
                .changes
                .iter()
                .enumerate()
                .filter(|(_, change)| change.verdict == Verdict::Changed);
            let mut real =
                real.filter(|(index, _)| !found.contains(&(*index, row.key.clone()))).peekable();
            // A recording may have thousands of comparisons: its runs are read once a metric.
            let id = real.peek().and_then(|_| recording.dictionary.id(&row.key));
            let Some(runs) = id.and_then(|id| runs(recording, id)) else { continue };
            let alone_runs = runs.alone();
            for (index, change) in real {
                let (one, two) = compared[index];
                let Some(measured) =
                    change.paired.as_ref().filter(|paired| paired.scale() == runs.scale())
                else {
                    continue;
                };
                let measured = measured.estimate();
                let Some(alone) = alone_runs.change(one, two, measured) else { continue };
                if alone * measured.signum() > LEFT_MIN * measured.abs() {
                    continue;
                }
                let known =
                    self.made.iter().position(|test| test.place() == (index, row.key.clone()));
                let at = known.unwrap_or_else(|| {
                    self.made.push(of_metric(plan, &row.key, index, (one, two), &runs).0);
                    self.made.len() - 1
                });
                self.made[at].alone_ratio = ratio(&runs, one, alone);
            }
        }
    }

    /// Adds to the ledger the real changes that a carry-over may have made.
    pub(super) fn say(&self, ledger: &mut [LedgerEntry], recording: &Recording, rows: &[Row]) {
        let entry = ledger.iter_mut().find(|entry| entry.rule == RULE);
        let doubts = self.made.iter().filter(|test| test.alone_ratio.is_some());
        let mut texts: Vec<String> = doubts.map(|test| test.describe_doubt(rows)).collect();
        let Some(entry) = entry.filter(|_| !texts.is_empty()) else { return };
        if texts.len() > FOUND_MAX + 1 {
            let more = texts.len() - FOUND_MAX;
            texts.truncate(FOUND_MAX);
            texts.push(format!("the same holds for {} more changes", grouped(more as u64)));
        }
        let more = (2 * recording.pairs_made()).max(MIRRORED_PAIRS_MIN);
        let doubt = format!(
            "{}; so what one variant leaves behind may have made the change: {more} pairs tell it better (-n {more}), and \
             --block 2 leaves out the first run behind another variant",
            texts.join("; ")
        );
        entry.detail = match entry.severity {
            Severity::Fine => doubt,
            _ => format!("{}; {doubt}", entry.detail),
        };
        (entry.severity, entry.known) = (Severity::Doubtful, true);
        entry.waived = recording.plan.allow.iter().any(|name| name == RULE);
    }

    /// Withholds the verdict on metrics with a carry-over, and shows the change of runs behind their own variant. Where a
    /// carry-over may have made the change, the change stands without a verdict.
    pub(super) fn withhold(&self, rows: &mut [Row]) {
        for test in self.made.iter().filter(|test| test.withholds()) {
            let row = rows.iter_mut().find(|row| row.key == test.key && family_of(row).is_some());
            let Some(change) = row.map(|row| &mut row.changes[test.comparison]) else { continue };
            if matches!(change.verdict, Verdict::NotComparable | Verdict::Unavailable) {
                continue;
            }
            change.verdict = Verdict::Inconclusive;
            if test.found {
                change.change_ratio = test.behind_own.as_ref().map(|own| own.change_ratio);
            }
            change.reason = test.reason();
            (change.ci, change.p_adjusted, change.pairs_needed) = (None, None, None);
            (change.mde_ratio, change.mde_difference) = (None, None);
            (change.difference, change.difference_ci) = (None, None);
        }
    }

    /// Withholds the verdict on the functions of comparisons with a carry-over.
    pub(super) fn withhold_functions(
        &self,
        functions: &mut [FunctionComparison],
        compared: &[(usize, usize)],
    ) {
        let found = self.made.iter().filter(|test| test.withholds());
        let found: BTreeSet<_> = found.map(|test| compared[test.comparison]).collect();
        let of_sides = functions.iter_mut().filter(|of| found.contains(&(of.baseline, of.variant)));
        for row in of_sides.flat_map(|of| &mut of.rows) {
            row.verdict = FunctionVerdict::Inconclusive;
            row.reason = RULE.into();
            (row.ci, row.p_adjusted) = (None, None);
        }
    }
}

impl CarryOver {
    /// The comparison and the metric.
    fn place(&self) -> (usize, MetricKey) {
        (self.comparison, self.key.clone())
    }

    fn withholds(&self) -> bool {
        self.found || self.alone_ratio.is_some()
    }

    fn reason(&self) -> String {
        match (self.alone_ratio, &self.behind_own) {
            (Some(alone), _) if !self.found => {
                format!("carry-over not excluded; {} behind itself", percent(alone))
            }
            (_, Some(_)) => "carry-over; of runs behind their own variant".into(),
            (_, None) => "carry-over; too few runs behind their own variant".into(),
        }
    }

    /// `'B' against 'A': wall +9.71 % as the runs took turns, but about −4.20 % if each runs behind itself`.
    fn describe_doubt(&self, rows: &[Row]) -> String {
        let CarryOver { metric, baseline, variant, .. } = self;
        let row = rows.iter().find(|row| row.key == self.key && family_of(row).is_some());
        let measured = row.and_then(|row| row.changes[self.comparison].change_ratio);
        let words = |ratio: Option<f64>| ratio.map_or_else(|| "another".into(), percent);
        format!(
            "'{variant}' against '{baseline}': {metric} {} as the runs took turns, but about {} if each runs behind itself",
            words(measured),
            words(self.alone_ratio)
        )
    }

    /// `a run behind 'A' costs +18.9 % wall against one behind 'B' (22 blocks)`, with the change of runs behind their own.
    fn describe(&self) -> String {
        let CarryOver { metric, baseline, variant, blocks, .. } = self;
        let amount = self.change_ratio.map_or_else(|| "another".into(), percent);
        let carried = format!(
            "a run behind '{baseline}' costs {amount} {metric} against one behind '{variant}' ({blocks} blocks)"
        );
        let Some(own) = &self.behind_own else {
            return format!(
                "{carried}, and too few runs were behind their own variant to show a change"
            );
        };
        let ends = own.ci_low.zip(own.ci_high);
        let ends = ends.map_or(String::new(), |(low, high)| {
            format!(
                "{} … {} at {} % confidence, ",
                percent(low),
                percent(high),
                own.ci_level * 100.0
            )
        });
        format!(
            "{carried}; behind their own variant the change is {} ({ends}{} and {} runs)",
            percent(own.change_ratio),
            own.runs_baseline,
            own.runs_variant
        )
    }
}
