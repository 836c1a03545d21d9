//! The changes between two profiles, by function and by immediate caller: where a change comes from.
//!
//! [`summed`] computes the difference for any two groups of profiled runs: the blocks of one recording, the runs of two recordings,
//! or files. [`judge`] judges the functions of runs that opcost made, `profile_files` those of files.
//!
//! A figure is a mean per operation: first over the runs of each block, then over the blocks that have runs of both variants.
//! Because figures are means, the functions and the cost charged to no function add up to the change of the metric.
//!
//! A change that is the same in every layout is exact and needs no test ([`exact_difference`]). The signed-rank test over the
//! blocks' plain differences judges any other change. Functions are tested only if a metric of the same comparison changed, so a
//! report on two equal variants has no more false alarms than its metrics have. Benjamini and
//! Hochberg's method controls the share of false positives among the functions, at the level of the family "rest". A function whose
//! blocks differ by less than [`SHARE_MIN`] of the metric on average is not tested. This rule looks at the size of the differences,
//! never at their signs, so the test of the other functions stays exact.
//!
//! Two recordings share no block, but on the emulated machine they may share layouts ([`FunctionTest`]).
//!
//! A function's change is exact if at least two layouts were run with profiles and one of two rules holds in each of them:
//!
//! * each side spent the same instructions in the function's own code, for the same number of operations;
//! * both sides called the function equally often, and each call cost the variant the same number of instructions more or less.
//!
//! Nothing is estimated, so no test is needed and no error rate is spent; the number of layouts says how often it was seen. The rest
//! of the total's change differs from layout to layout: ticks, deferred work, and what seeds and memory's layout move.

use super::{Layouts, Row, Verdict};
use opcost_attribution::function_costs::{
    AttributedRun, Attribution, FunctionId, SAMPLED_UNIT, SampledBy, profiled_metric,
};
use opcost_attribution::matching::{Matching, ModulePair};
use opcost_attribution::split::{Split, split};
use opcost_base::number::{figure, grouped};
use opcost_model::plan::Plan;
use opcost_model::recording::Recording;
use opcost_record::Unit;
use opcost_record::metric::MODEL_CYCLES;
use opcost_stats::multiple::Family;
use opcost_stats::{Budget, power, rank, rank_sum, summary};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Symbol of the row for the cost that no function is charged with.
pub const UNATTRIBUTED: &str = "[unattributed]";
/// Symbol that stands for an unknown caller.
pub const NO_CALLER: &str = "[no caller]";

/// Functions whose blocks differ by less than this share of the metric are not tested.
const SHARE_MIN: f64 = 1e-4;
/// The rows shown first cover this share of all that changed.
const SHARE_SHOWN: f64 = 0.95;

/// A figure of two variants, in the metric's unit, per operation where operations are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sides {
    /// The figure of the baseline.
    pub value_baseline: f64,
    /// The figure of the variant.
    pub value: f64,
    /// `value` − `value_baseline`.
    pub change: f64,
}

/// The functions of one comparison.
#[derive(Clone, Debug)]
pub struct FunctionComparison {
    /// Index of the baseline.
    pub baseline: usize,
    /// Index of the variant.
    pub variant: usize,
    /// Whether the figures are per operation; else they are per run.
    pub per_op: bool,
    /// Whether the figures are modelled cycles.
    pub modelled: bool,
    /// The samples from which the figures are estimated; `None` if every instruction was counted.
    pub sampled: Option<SampledBy>,
    /// The metric's total, as it was counted.
    pub total: Sides,
    /// The verdict on the metric.
    pub verdict: FunctionVerdict,
    /// The layouts in which the metric's counts were compared exactly; `None` if the counts do not repeat.
    pub layouts: Option<Layouts>,
    /// The layouts in which profiles of both sides were compared; `None` for samples, estimates and files.
    pub profiled_layouts: Option<usize>,
    /// The functions, the largest changes first.
    pub rows: Vec<FunctionRow>,
    /// The cost that no function is charged with: `total` less all rows.
    pub unattributed: Sides,
    /// Files of both sides that were matched although their paths differ.
    pub modules: Vec<ModulePair>,
    /// A file of each side that has no counterpart and a large share of the changes.
    pub unmatched: Option<[String; 2]>,
}

/// The verdict on the change of a function, or of all functions together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionVerdict {
    /// The change is real.
    Changed,
    /// One file a side, and the two files differ by more than sampling explains.
    Differs,
    /// No change was found.
    Unchanged,
    /// The difference is exact in the layouts that were run, but these are too few for a verdict.
    #[serde(rename = "inconclusive")]
    FewLayouts,
    /// The figures are modelled, and no run shows a model's error. Scripts see `inconclusive`.
    #[serde(rename = "inconclusive")]
    Estimated,
    /// The runs cannot tell.
    #[default]
    Inconclusive,
    /// The runs were not comparable.
    NotComparable,
}

impl FunctionVerdict {
    /// Whether a change or a difference was found.
    pub fn is_found(self) -> bool {
        matches!(self, FunctionVerdict::Changed | FunctionVerdict::Differs)
    }
}

impl From<Verdict> for FunctionVerdict {
    /// The verdict on a metric. A profile implies that its metric was counted, so the metric is not unavailable.
    fn from(verdict: Verdict) -> FunctionVerdict {
        match verdict {
            Verdict::Changed => FunctionVerdict::Changed,
            Verdict::Unchanged => FunctionVerdict::Unchanged,
            Verdict::FewLayouts => FunctionVerdict::FewLayouts,
            Verdict::Inconclusive => FunctionVerdict::Inconclusive,
            Verdict::NotComparable | Verdict::Unavailable => FunctionVerdict::NotComparable,
        }
    }
}

/// Facts about a function that only profiles in files have.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FileFigures {
    /// The function's own cost, unscaled, in all files of a side.
    pub cost: [u64; 2],
    /// The function's samples in all files of a side, if there are samples.
    pub samples: Option<[u64; 2]>,
    /// The number of files a side that could decide, if the given files cannot.
    pub files_needed: Option<usize>,
}

/// One function, or all of them.
#[derive(Clone, Debug, Default)]
pub struct FunctionRow {
    /// The symbol, without the suffixes that compilers append to parts and copies.
    pub symbol: String,
    /// The file that contains the function, or `[kernel]`; the variant's file if both sides have one.
    pub module: String,
    /// The baseline's file, if it differs from the variant's.
    pub module_baseline: Option<String>,
    /// Distinguishes the function from other local functions of the same name: a source file, or else its place.
    pub source: Option<String>,
    /// Whether only the name says that the function is the same on both sides: the compiler gave it another symbol, or several
    /// functions of the name were taken together.
    pub by_name_only: bool,
    /// Cost of its own instructions, callees left out.
    pub own: Sides,
    /// Calls on both sides.
    pub calls: Sides,
    /// Whether no run of the baseline spent anything in the function.
    pub appeared: bool,
    /// Whether no run of the variant spent anything in the function.
    pub vanished: bool,
    /// Whether every run of each variant gave the same integer.
    pub exact: bool,
    /// The difference if it is the same in every layout; `None` for other figures.
    pub exact_difference: Option<ExactDifference>,
    /// Interval of the change by the signed-rank test, at `ci_level`; `None` for exact figures,
    /// functions that were not tested, and too few blocks.
    pub ci: Option<(f64, f64)>,
    /// Confidence level of the interval, corrected for the number of functions tested.
    pub ci_level: f64,
    /// p value corrected for the number of functions tested; `None` for exact figures and untested functions.
    pub p_adjusted: Option<f64>,
    /// The verdict on the change.
    pub verdict: FunctionVerdict,
    /// The reason in a few words; empty if the verdict says everything.
    pub reason: String,
    /// The function's own cost by immediate caller, the largest changes first.
    pub callers: Vec<CallerRow>,
    /// Additional figures of profiles in files; `None` for recordings.
    pub in_files: Option<FileFigures>,
    /// For modelled cycles: the cycles of each cause, then the memory cycles that waited far away.
    pub parts: Option<Vec<Sides>>,
    /// The means of each block of the baseline and of the variant. For two recordings, each run's figure; for files, each file's.
    pub(super) observations: [Vec<f64>; 2],
    /// The function's number in the matching.
    pub(super) id: FunctionId,
}

/// The part of a function's own cost that belongs to the calls of one caller.
#[derive(Clone, Debug, PartialEq)]
pub struct CallerRow {
    /// The caller's symbol, or [`NO_CALLER`].
    pub symbol: String,
    /// The caller's module; empty for [`NO_CALLER`].
    pub module: String,
    /// The function's own cost when this caller called it.
    pub own: Sides,
    /// The calls by this caller.
    pub calls: Sides,
}

impl FunctionRow {
    /// The parts of the change: more or fewer calls, and dearer or cheaper calls. `None` if a side has cost and no calls, as
    /// samples have.
    pub fn split(&self) -> Option<Split> {
        let [own, calls] = [self.own, self.calls].map(|of| [of.value_baseline, of.value]);
        split(own, calls)
    }

    /// Whether another row shows the same function of the same matching.
    pub(super) fn is(&self, other: &FunctionRow) -> bool {
        let of = |row: &FunctionRow| (row.symbol.clone(), row.module.clone(), row.source.clone());
        of(self) == of(other)
    }
}

impl FunctionComparison {
    /// The unit of the figures: `instructions`.
    pub fn unit(&self) -> &'static str {
        match (self.modelled, &self.sampled) {
            (true, _) => MODEL_CYCLES,
            (_, Some(_)) => SAMPLED_UNIT,
            _ => "instructions",
        }
    }

    /// Marks the figures as estimated from samples: equal numbers of samples in two runs do not mean that the runs did exactly the
    /// same.
    pub(super) fn mark_sampled(&mut self, by: SampledBy) {
        self.sampled = Some(by);
        self.forget_exact();
        self.rows.iter_mut().for_each(|row| row.exact = false);
    }

    /// The rows that cover most of the changes, at most `most`; then the number of the other changed rows, and their sum.
    pub fn leading(&self, most: usize) -> (&[FunctionRow], usize, Sides) {
        let changed = self.rows.iter().take_while(|row| row.own.change != 0.0).count();
        let all = self.changed_in_all();
        let mut covered = 0.0;
        let mut enough = 0;
        while enough < changed.min(most) && covered < SHARE_SHOWN * all {
            covered += self.rows[enough].own.change.abs();
            enough += 1;
        }
        let others = &self.rows[enough..changed];
        let sum = |side: fn(&Sides) -> f64| others.iter().map(|row| side(&row.own)).sum();
        let sums = Sides {
            value_baseline: sum(|own| own.value_baseline),
            value: sum(|own| own.value),
            change: sum(|own| own.change),
        };
        (&self.rows[..enough], others.len(), sums)
    }

    /// The rows in three groups: the first `most` changed rows, the other changed rows, and the unchanged rows.
    pub fn shown(&self, most: usize) -> [&[FunctionRow]; 3] {
        let changed = self.rows.partition_point(|row| row.own.change != 0.0);
        let (shown, rest) = self.rows.split_at(most.min(changed));
        let (others, unchanged) = rest.split_at(changed - shown.len());
        [shown, others, unchanged]
    }

    /// The sum of all changes, increases and decreases alike, including the cost charged to no function.
    fn changed_in_all(&self) -> f64 {
        let rows: f64 = self.rows.iter().map(|row| row.own.change.abs()).sum();
        rows + self.unattributed.change.abs()
    }

    /// The share of all changes, increases and decreases alike, that the first `named` functions account for; `None` if nothing
    /// changed.
    pub fn covered(&self, named: usize) -> Option<f64> {
        let all = self.changed_in_all();
        let named: f64 = self.rows.iter().take(named).map(|row| row.own.change.abs()).sum();
        (all > 0.0).then(|| named / all)
    }

    /// Whether there is a shift to explain: the metric may have changed, or a function changed.
    pub fn shifted(&self) -> bool {
        let functions = self.rows.iter().any(|row| row.verdict == FunctionVerdict::Changed);
        functions || (self.verdict != FunctionVerdict::Unchanged && self.total.change != 0.0)
    }
}

/// The functions of every comparison for which there are profiles.
///
/// `rows` must have their verdicts; `refused` is the ledger's reason if it refuses the runs.
pub(super) fn functions(
    recording: &Recording,
    rows: &[Row],
    refused: Option<&str>,
) -> Vec<FunctionComparison> {
    let attribution = Attribution::of(recording);
    let metric = profiled_metric(recording);
    let total_row = rows.iter().find(|row| row.key == metric);
    let comparisons = recording.comparisons();
    let made = comparisons.into_iter().enumerate().filter_map(|(index, (baseline, variant))| {
        if recording.plan.apart((baseline, variant)).is_some() {
            return None;
        }
        let mut made = compare_attributed(&attribution, baseline, variant)?;
        let verdict = total_row.map(|row| row.changes[index].verdict.into());
        made.verdict = verdict.unwrap_or_default();
        made.layouts = total_row.and_then(|row| row.changes[index].layouts);
        made.per_op = total_row.is_some_and(|row| row.per_op);
        if let Some(by) = SampledBy::of(recording, &[baseline, variant]) {
            made.mark_sampled(by);
        }
        let verdicts = rows.iter().map(|row| row.changes[index].verdict);
        let changed = verdicts
            .into_iter()
            .any(|verdict| matches!(verdict, Verdict::Changed | Verdict::FewLayouts));
        Some((changed, made))
    });
    let mut made: Vec<(bool, FunctionComparison)> = made.collect();
    match refused {
        Some(reason) => {
            for row in made.iter_mut().flat_map(|(_, made)| &mut made.rows) {
                row.verdict = FunctionVerdict::NotComparable;
                row.reason = reason.to_string();
            }
        }
        None => {
            judge(&mut made, FunctionTest::Units(&recording.plan));
        }
    }
    made.into_iter().map(|(_, made)| made).collect()
}

/// A function while its runs are added up.
struct Sum {
    own: [f64; 2],
    calls: [f64; 2],
    /// The mean of each observation, by side.
    observations: [Vec<f64>; 2],
    /// Own cost and calls by caller, by side.
    callers: BTreeMap<Option<FunctionId>, [[f64; 2]; 2]>,
    /// Cost and operations of the first run, by side.
    first: [Option<(u64, u64)>; 2],
    /// Runs that have the function, by side.
    runs: [usize; 2],
    varies: bool,
}

impl Sum {
    fn over(observations: [usize; 2]) -> Sum {
        Sum {
            own: [0.0; 2],
            calls: [0.0; 2],
            observations: observations.map(|count| vec![0.0; count]),
            callers: BTreeMap::new(),
            first: [None; 2],
            runs: [0; 2],
            varies: false,
        }
    }

    /// Whether every run of each variant cost the same integer; `runs`: the number of runs of each side.
    fn exact(&self, runs: [usize; 2]) -> bool {
        let same = |side: usize| runs[side] >= 2 && [0, runs[side]].contains(&self.runs[side]);
        !self.varies && same(0) && same(1)
    }
}

impl Sides {
    pub(super) fn of([value_baseline, value]: [f64; 2]) -> Sides {
        let difference = value - value_baseline;
        // Adding the same figures in another order can differ by this much; one instruction is always more.
        let rounding = 1e-13 * value_baseline.abs().max(value.abs());
        let change = if difference.abs() <= rounding { 0.0 } else { difference };
        Sides { value_baseline, value, change }
    }
}

/// The runs of a side by observation: one block each, or one run each.
pub(super) type Observations<'a> = Vec<Vec<&'a AttributedRun>>;

/// Two variants by function, without verdicts; `None` if no block has runs of both.
pub(super) fn compare_attributed(
    attribution: &Attribution,
    baseline: usize,
    variant: usize,
) -> Option<FunctionComparison> {
    let mut by_unit: BTreeMap<u32, [Vec<&AttributedRun>; 2]> = BTreeMap::new();
    for (side, of) in [baseline, variant].into_iter().enumerate() {
        for run in attribution.of_side(of) {
            by_unit.entry(run.unit).or_default()[side].push(run);
        }
    }
    by_unit.retain(|_, sides| sides.iter().all(|runs| !runs.is_empty()));
    if by_unit.is_empty() {
        return None;
    }
    let blocks: (Observations<'_>, Observations<'_>) =
        by_unit.into_values().map(|[one, two]| (one, two)).unzip();
    Some(FunctionComparison {
        baseline,
        variant,
        ..summed(&attribution.matching, [baseline, variant], [blocks.0, blocks.1])
    })
}

/// The functions of two sides without verdicts, as means over each side's observations.
///
/// `pair`: the sides' numbers in the matching.
pub(super) fn summed(
    matching: &Matching,
    pair: [usize; 2],
    sides: [Observations<'_>; 2],
) -> FunctionComparison {
    let counts = sides.each_ref().map(Vec::len);
    let (mut total, mut unattributed, mut runs_by_side) = ([0.0; 2], [0.0; 2], [0; 2]);
    let mut sums: BTreeMap<FunctionId, Sum> = BTreeMap::new();
    for (side, observations) in sides.iter().enumerate() {
        let count = counts[side] as f64;
        for (at, runs) in observations.iter().enumerate() {
            runs_by_side[side] += runs.len();
            for run in runs {
                // The weight of one unit of this run in the observation's mean.
                let share = runs.len() as f64 * run.ops as f64;
                total[side] += run.total as f64 / share / count;
                // Integers are subtracted, so the rest is exactly 0 if every instruction is attributed.
                let rest = i128::from(run.total) - i128::from(run.attributed);
                unattributed[side] += rest as f64 / share / count;
                for (function, cost) in &run.costs {
                    let sum = sums.entry(*function).or_insert_with(|| Sum::over(counts));
                    sum.own[side] += cost.own as f64 / share / count;
                    sum.calls[side] += cost.calls as f64 / share / count;
                    sum.observations[side][at] += cost.own as f64 / share;
                    let integers = (cost.own, run.ops);
                    sum.varies |= *sum.first[side].get_or_insert(integers) != integers;
                    sum.runs[side] += usize::from(cost.own > 0);
                    for (caller, edge) in &cost.callers {
                        let [own, calls] = sum.callers.entry(*caller).or_default();
                        own[side] += edge.own as f64 / share / count;
                        calls[side] += edge.calls as f64 / share / count;
                    }
                }
            }
        }
    }
    let mut rows: Vec<FunctionRow> = sums
        .into_iter()
        .filter(|(_, sum)| sum.own != [0.0; 2])
        .map(|(function, sum)| FunctionRow {
            exact_difference: exact_difference(function, &sides),
            ..row(matching, pair, function, sum, runs_by_side)
        })
        .collect();
    let changes: Vec<(FunctionId, f64)> = rows.iter().map(|row| (row.id, row.own.change)).collect();
    let unmatched = matching.unmatched(pair, &changes);
    rows.sort_by(|one, two| {
        let by_change = two.own.change.abs().total_cmp(&one.own.change.abs());
        by_change.then_with(|| (&one.symbol, &one.module).cmp(&(&two.symbol, &two.module)))
    });
    FunctionComparison {
        baseline: 0,
        variant: 0,
        per_op: false,
        modelled: false,
        sampled: None,
        total: Sides::of(total),
        verdict: FunctionVerdict::Inconclusive,
        layouts: None,
        profiled_layouts: Some(counts[0].min(counts[1])),
        rows,
        unattributed: Sides::of(unattributed),
        modules: matching.pairs(pair),
        unmatched,
    }
}

fn row(
    matching: &Matching,
    pair: [usize; 2],
    function: FunctionId,
    sum: Sum,
    runs: [usize; 2],
) -> FunctionRow {
    let module = |function, side: usize| matching.module(function, pair[side]);
    let either = |function| module(function, 1).or(module(function, 0)).unwrap_or_default();
    let exact = sum.exact(runs);
    let mut callers: Vec<CallerRow> = sum
        .callers
        .into_iter()
        .filter(|(_, [own, _])| *own != [0.0; 2])
        .map(|(caller, [own, calls])| CallerRow {
            symbol: caller.map_or(NO_CALLER, |caller| matching.symbol(caller)).to_string(),
            module: caller.map_or("", either).to_string(),
            own: Sides::of(own),
            calls: Sides::of(calls),
        })
        .collect();
    callers.sort_by(|one, two| two.own.change.abs().total_cmp(&one.own.change.abs()));
    let baseline = module(function, 0).filter(|path| *path != either(function));
    FunctionRow {
        symbol: matching.symbol(function).to_string(),
        module: either(function).to_string(),
        module_baseline: baseline.map(str::to_string),
        source: matching.functions()[function as usize].source.clone(),
        by_name_only: matching.by_name_only(function, pair),
        own: Sides::of(sum.own),
        calls: Sides::of(sum.calls),
        appeared: sum.own[0] == 0.0,
        vanished: sum.own[1] == 0.0,
        exact,
        callers,
        observations: sum.observations,
        id: function,
        ..FunctionRow::default()
    }
}

/// Gives every function its verdict; each comparison comes with whether any of its metrics changed.
pub(super) fn judge(made: &mut [(bool, FunctionComparison)], design: FunctionTest<'_>) {
    let budget = Budget::default();
    let level = budget.level(Family::Rest);
    let mut tested: Vec<&mut FunctionRow> = Vec::new();
    for (changed, comparison) in made {
        let metric = (comparison.total.value_baseline + comparison.total.value) / 2.0;
        // Layouts too few for any test to decide.
        let few = comparison.layouts.filter(|layouts| rank::p_floor(layouts.count) > level);
        for row in &mut comparison.rows {
            let size = design.size(&row.observations);
            if size == 0.0 {
                row.verdict = FunctionVerdict::Unchanged;
                row.reason = design.same().into();
            } else if let Some(exact) = row.exact_difference {
                row.verdict = FunctionVerdict::Changed;
                row.reason = format!("exact: alike in each of {} layouts", exact.layouts);
            } else if !*changed {
                row.reason = "no metric is known to have changed".into();
            } else if let Some(layouts) = few.filter(|_| !row.exact) {
                row.verdict = FunctionVerdict::FewLayouts;
                row.reason = format!("exact, {}", layouts.words());
            } else if size < SHARE_MIN * metric {
                row.reason = "too small to be judged".into();
            } else if row.exact {
                // Counts that neither seed nor padding changes need no test.
                row.verdict = FunctionVerdict::Changed;
                row.reason = "exact: each side the same in every run".into();
            } else {
                tested.push(row);
            }
        }
    }
    let p: Vec<f64> = tested.iter().map(|row| design.p(&row.observations)).collect();
    let adjusted = Family::Rest.adjust(&p);
    let tests = tested.len();
    let decisive = Family::Rest.decision_level(&p, level);
    for ((row, p), adjusted) in tested.into_iter().zip(p).zip(adjusted) {
        // On the scale of the whole report's error rate, like the p values of metrics.
        let adjusted = (adjusted * budget.total() / level).min(1.0);
        row.ci_level = 1.0 - decisive;
        if !row.exact {
            row.p_adjusted = Some(adjusted);
            row.ci = design.interval(&row.observations, 1.0 - decisive);
        }
        if p <= decisive {
            row.verdict = FunctionVerdict::Changed;
        } else if design.p_floor(&row.observations) > decisive {
            row.reason = design.needs(level, tests);
        } else {
            row.verdict = FunctionVerdict::Unchanged;
        }
    }
}

/// The kind of the observations of a function.
#[derive(Clone, Copy)]
pub(super) enum FunctionTest<'a> {
    /// Means of the same units of a plan on both sides: the signed-rank test of their differences.
    Units(&'a Plan),
    /// Runs of two recordings, paired by layout: the signed-rank test.
    Layouts,
    /// Runs of two recordings: the rank-sum test.
    Runs,
}

impl FunctionTest<'_> {
    /// Describes two sides that differ in no observation.
    pub(super) fn same(self) -> &'static str {
        match self {
            FunctionTest::Units(_) => "the same in every block",
            FunctionTest::Layouts => "the same in every layout",
            FunctionTest::Runs => "the same in every run",
        }
    }

    /// The average distance of the observations, whichever side is higher. This distance does not depend on the labels that the
    /// test exchanges.
    pub(super) fn size(self, observations: &[Vec<f64>; 2]) -> f64 {
        let sizes: Vec<f64> = match self {
            FunctionTest::Units(_) | FunctionTest::Layouts => {
                differences(observations).iter().map(|d| d.abs()).collect()
            }
            FunctionTest::Runs => {
                let all = observations.concat();
                // The computed mean of equal figures may differ from them by rounding, so it is not computed.
                if all.iter().all(|value| *value == all[0]) {
                    return 0.0;
                }
                let mean = summary::mean(&all).unwrap_or(0.0);
                // Each of two levels is half their distance from the middle, hence the factor 2.
                all.iter().map(|value| 2.0 * (value - mean).abs()).collect()
            }
        };
        summary::mean(&sizes).unwrap_or(0.0)
    }

    /// The two-sided p-value.
    pub(super) fn p(self, observations: &[Vec<f64>; 2]) -> f64 {
        match self {
            FunctionTest::Units(_) | FunctionTest::Layouts => rank::p(&differences(observations)),
            FunctionTest::Runs => rank_sum::p(&observations[0], &observations[1]),
        }
    }

    /// The smallest p that this many observations can give.
    pub(super) fn p_floor(self, observations: &[Vec<f64>; 2]) -> f64 {
        match self {
            FunctionTest::Units(_) | FunctionTest::Layouts => rank::p_floor(observations[0].len()),
            FunctionTest::Runs => rank_sum::p_floor(observations[0].len(), observations[1].len()),
        }
    }

    /// The interval of the change at a confidence level; `None` if there are too few observations.
    pub(super) fn interval(self, observations: &[Vec<f64>; 2], level: f64) -> Option<(f64, f64)> {
        match self {
            FunctionTest::Units(_) | FunctionTest::Layouts => {
                rank::interval(&differences(observations), level)
            }
            FunctionTest::Runs => rank_sum::interval(&observations[0], &observations[1], level),
        }
    }

    /// The number of pairs, layouts or runs that would reach `level` in `tests` tests, as text.
    pub(super) fn needs(self, level: f64, tests: usize) -> String {
        match self {
            FunctionTest::Units(plan) => {
                format!("needs {} pairs", plan.pairs_of_units(power::blocks_min(level, tests)))
            }
            FunctionTest::Layouts => format!("needs {} layouts", power::blocks_min(level, tests)),
            FunctionTest::Runs => {
                let runs = rank_sum::runs_min(level / tests.max(1) as f64);
                format!("needs {runs} runs of each")
            }
        }
    }
}

fn differences([one, two]: &[Vec<f64>; 2]) -> Vec<f64> {
    one.iter().zip(two).map(|(one, two)| two - one).collect()
}

/// Functions that a sentence names, at most.
const NAMED_MAX: usize = 3;

/// Bytes of a function's name in a sentence; longer names are shortened.
const NAME_LENGTH_MAX: usize = 48;

/// A difference that is the same in every layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExactDifference {
    /// The layouts in which it was seen.
    pub layouts: usize,
    /// The change of the cost of one call; `None` if the number of calls changed, or no call was seen.
    pub per_call: Option<f64>,
}

/// The part of a total's change that is the same in every layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExactPart {
    /// The functions whose change is exact.
    pub functions: usize,
    /// The sum of their changes.
    pub change: f64,
    /// The rest of the total's change, which differs from layout to layout.
    pub rest: f64,
    /// The layouts in which profiles of both sides were compared.
    pub layouts: usize,
}

/// Own cost, calls and operations of a function in one layout.
type Counted = (u64, u64, u64);

/// The difference of a function between two sides, if it is the same in every layout; `sides`: the runs by layout.
pub(super) fn exact_difference(
    function: FunctionId,
    sides: &[Vec<Vec<&AttributedRun>>; 2],
) -> Option<ExactDifference> {
    let of_run = |run: &&AttributedRun| -> Counted {
        let cost = run.costs.get(&function);
        cost.map_or((0, 0, run.ops), |cost| (cost.own, cost.calls, run.ops))
    };
    // Runs of one layout repeat each other, or nothing is exact.
    let of_layout = |runs: &Vec<&AttributedRun>| {
        let mut runs = runs.iter().map(of_run);
        let first = runs.next()?;
        runs.all(|run| run == first).then_some(first)
    };
    let of_side = |side: &Vec<Vec<&AttributedRun>>| -> Option<Vec<Counted>> {
        side.iter().map(of_layout).collect()
    };
    let layouts = sides[0].len().min(sides[1].len());
    if layouts < 2 {
        return None;
    }
    let (one, two) = (of_side(&sides[0])?, of_side(&sides[1])?);
    let alike =
        |side: &[Counted]| side.iter().all(|(own, _, ops)| (*own, *ops) == (side[0].0, side[0].2));
    let per_call = per_call(&one, &two);
    let is_exact = alike(&one) && alike(&two) || per_call.is_some_and(|change| change != 0.0);
    is_exact.then_some(ExactDifference { layouts, per_call })
}

/// The change of the cost of one call, if both sides called the function equally often in every layout, and the change is the same in
/// every layout.
fn per_call(one: &[Counted], two: &[Counted]) -> Option<f64> {
    if one.len() != two.len() {
        return None;
    }
    let mut changes = one.iter().zip(two).map(|(before, after)| {
        let alike = (before.1, before.2) == (after.1, after.2) && before.1 > 0;
        alike.then(|| (i128::from(after.0) - i128::from(before.0), i128::from(before.1)))
    });
    let (change, calls) = changes.next()??;
    let same = |other: Option<(i128, i128)>| {
        other.is_some_and(|(other, of_calls)| other * calls == change * of_calls)
    };
    changes.all(same).then(|| change as f64 / calls as f64)
}

impl FunctionComparison {
    /// The functions that changed exactly, the largest changes first.
    pub fn exact_rows(&self) -> impl Iterator<Item = &FunctionRow> {
        let is_exact = |row: &&FunctionRow| {
            row.exact_difference.is_some() && row.verdict == FunctionVerdict::Changed
        };
        self.rows.iter().filter(is_exact)
    }

    /// The exact part of the total's change; `None` with profiles of fewer than two layouts, of samples, and for runs that were not
    /// comparable.
    pub fn exact_part(&self) -> Option<ExactPart> {
        let refused = self.rows.iter().any(|row| row.verdict == FunctionVerdict::NotComparable);
        let layouts = self.profiled_layouts.filter(|layouts| *layouts >= 2 && !refused)?;
        let change: f64 = self.exact_rows().map(|row| row.own.change).sum();
        let rest = self.total.change - change;
        // Sums of the same figures in another order differ by this much at most; one instruction is always more.
        let rounding = 1e-12 * (self.total.value.abs() + self.total.value_baseline.abs());
        let rest = if rest.abs() <= rounding { 0.0 } else { rest };
        Some(ExactPart { functions: self.exact_rows().count(), change, rest, layouts })
    }

    /// The function that varied most from layout to layout, by the size of its change.
    fn varies_most(&self) -> Option<&FunctionRow> {
        let varies = |row: &&FunctionRow| row.exact_difference.is_none() && row.own.change != 0.0;
        self.rows.iter().find(varies)
    }

    /// Leaves out what only counts of several layouts can say.
    pub(super) fn forget_exact(&mut self) {
        self.profiled_layouts = None;
        self.rows.iter_mut().for_each(|row| row.exact_difference = None);
    }

    fn unit_words(&self) -> String {
        format!("{}{}", self.unit(), if self.per_op { "/op" } else { "" })
    }
}

/// The exact change of a function in words: `do_mmap +7 a call`, `rw_check (new, 6 a call)`, `kmalloc +120/op (calls +2/op)`, and if
/// each call became dearer, too, `kmalloc +140/op (calls +2/op: +120, dearer: +20)`.
///
/// `own`, `calls`: own cost and calls of both sides; `per`: the divisor of these figures, `/op` or nothing.
pub fn exact_in_words(
    name: &str,
    own: [f64; 2],
    calls: [f64; 2],
    per_call: Option<f64>,
    per: &str,
) -> String {
    let a_call = |side: usize| match calls[side] > 0.0 {
        true => format!("{} a call", figure(own[side] / calls[side], Unit::Count)),
        false => format!("{}{per}", figure(own[side], Unit::Count)),
    };
    let change = signed(own[1] - own[0]);
    match per_call {
        _ if own[0] == 0.0 => format!("{name} (new, {})", a_call(1)),
        _ if own[1] == 0.0 => format!("{name} (gone, {} before)", a_call(0)),
        Some(change) => format!("{name} {} a call", signed(change)),
        None if calls[0] != calls[1] => {
            let parts = split(own, calls).filter(|parts| parts.from_price != 0.0);
            let parts = parts.map_or(String::new(), |Split { from_calls, from_price }| {
                let word = if from_price > 0.0 { "dearer" } else { "cheaper" };
                format!(": {}, {word}: {}", signed(from_calls), signed(from_price))
            });
            format!("{name} {change}{per} (calls {}{per}{parts})", signed(calls[1] - calls[0]))
        }
        None => format!("{name} {change}{per}"),
    }
}

fn signed(value: f64) -> String {
    let sign = if value < 0.0 { '−' } else { '+' };
    format!("{sign}{}", figure(value.abs(), Unit::Count))
}

/// A name for a sentence: a long one ends where its template arguments or its parameters begin.
fn short(symbol: &str) -> Cow<'_, str> {
    match symbol.find(['<', '(']).filter(|at| *at > 0 && symbol.len() > NAME_LENGTH_MAX) {
        Some(at) => format!("{}…", &symbol[..at]).into(),
        None => symbol.into(),
    }
}

/// The functions that changed exactly, by name; the rest as a number.
fn named(functions: &FunctionComparison) -> String {
    let per = if functions.per_op { "/op" } else { "" };
    let of_row = |row: &FunctionRow| {
        let [own, calls] = [row.own, row.calls].map(|sides| [sides.value_baseline, sides.value]);
        let per_call = row.exact_difference.and_then(|exact| exact.per_call);
        exact_in_words(&short(&row.symbol), own, calls, per_call, per)
    };
    let words = functions.exact_rows().take(NAMED_MAX).map(of_row);
    let mut words: Vec<String> = words.collect();
    let more = functions.exact_rows().count() - words.len();
    match more {
        0 => {}
        1 => words.push("1 more function".into()),
        _ => words.push(format!("{} more functions", grouped(more as u64))),
    }
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => String::new(),
    }
}

/// The exact changes as a clause of a conclusion: `do_mmap +7 a call in each of 5 layouts, nothing else deterministic changed`.
/// `None` if no function changed exactly.
pub(super) fn exact_clause(functions: &FunctionComparison) -> Option<String> {
    let part = functions.exact_part().filter(|part| part.functions > 0)?;
    let rest = match part.rest == 0.0 && functions.varies_most().is_none() {
        true => "nothing else changed",
        false => "nothing else deterministic changed",
    };
    Some(format!(
        "{} in each of {} layouts, {rest}",
        named(functions),
        grouped(part.layouts as u64)
    ))
}

/// How a total's change is divided into what is the same in every layout and what is not: a sentence below the functions. `None` if
/// nothing changed, or layouts are too few to say.
pub fn exact_division(functions: &FunctionComparison) -> Option<String> {
    let part = functions.exact_part()?;
    if part.functions == 0 && part.rest == 0.0 {
        return None;
    }
    let (unit, total) = (functions.unit_words(), signed(functions.total.change));
    let layouts = format!("each of {} layouts", grouped(part.layouts as u64));
    let most = functions.varies_most().map(|row| format!(", most in {}", short(&row.symbol)));
    let rest =
        format!("{} differs from layout to layout{}", signed(part.rest), most.unwrap_or_default());
    Some(match part.functions {
        0 => format!("Deterministic: no function changed alike in {layouts}; {rest}."),
        _ => {
            let sum = signed(part.change);
            let share = match part.rest == 0.0 {
                true => format!("all of the {total} {unit}"),
                false => format!("{sum} of the {total} {unit}"),
            };
            let rest = if part.rest == 0.0 { String::new() } else { format!("; {rest}") };
            format!("Deterministic: {share}, alike in {layouts} ({}){rest}.", named(functions))
        }
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A comparison of no functions.
    pub(in crate::comparison) fn empty() -> FunctionComparison {
        FunctionComparison {
            baseline: 0,
            variant: 1,
            per_op: false,
            modelled: false,
            sampled: None,
            total: Sides::default(),
            verdict: FunctionVerdict::Changed,
            layouts: None,
            profiled_layouts: None,
            rows: Vec::new(),
            unattributed: Sides::default(),
            modules: Vec::new(),
            unmatched: None,
        }
    }
}
