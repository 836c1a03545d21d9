//! Tests of two variants whose runs were not randomised: for imported figures by what is known of them, and for the runs of two
//! recordings.

use super::analysis::floor_of;
use super::imported::t_text;
use super::{Change, Figures, Layouts, Row, Verdict};
use opcost_model::plan::judged::SideMetrics;
use opcost_model::plan::{ImportedFigures, ImportedMetric};
use opcost_record::Unit;
use opcost_stats::welch::{Group, Welch, welch};
use opcost_stats::{Block, Budget, Paired, multiple, power, rank_sum, summary};

/// The test that the figures of two variants allow.
pub(super) enum Test {
    /// Differences of blocks.
    Blocks(Paired),
    /// Repeatable counts of the same seeds and layouts on both sides, each layout one block.
    Layouts { paired: Paired, identical: bool, floor: Option<f64> },
    /// Single runs, as logarithms if all are above 0.
    Ranks { baseline: Vec<f64>, variant: Vec<f64>, logarithms: bool },
    /// Means with their spread.
    Welch(Welch),
    /// Counts that are the same in every run of a side.
    Exact { identical: bool },
    /// No test, with the reason.
    None(&'static str),
    /// A side has no figure.
    Absent,
}

impl Test {
    pub(super) fn of(
        metric: &ImportedMetric,
        baseline: Option<&ImportedFigures>,
        variant: Option<&ImportedFigures>,
    ) -> Test {
        let (Some(baseline), Some(variant)) = (baseline, variant) else { return Test::Absent };
        if let (Ok(one), Ok(two)) = (group(baseline), group(variant))
            && one.n >= 2
            && two.n >= 2
            && one.sd == 0.0
            && two.sd == 0.0
        {
            let counted = metric.unit == Unit::Count && metric.unit_written.is_none();
            return match one.mean == two.mean {
                true => Test::Exact { identical: true },
                false if counted => Test::Exact { identical: false },
                false => Test::None("no spread at all"),
            };
        }
        if let (
            ImportedFigures::Runs { values: one, blocks: first },
            ImportedFigures::Runs { values: two, blocks: second },
        ) = (baseline, variant)
        {
            if one.len() == 1 && two.len() == 1 {
                return Test::None("one figure a side");
            }
            if first.len() == one.len() && second.len() == two.len() {
                let blocks = blocks([(one, first), (two, second)]);
                return Paired::new(&blocks).map_or(Test::None("no common block"), Test::Blocks);
            }
            return ranks(one, two);
        }
        match (group(baseline), group(variant)) {
            (Ok(one), Ok(two)) => {
                welch(one, two).map_or(Test::None("one figure a side"), Test::Welch)
            }
            (Err(why), _) | (_, Err(why)) => Test::None(why),
        }
    }

    /// The test of the runs of two recordings.
    pub(super) fn of_runs([one, two]: [Option<&Figures>; 2]) -> Test {
        let (Some(one), Some(two)) = (one, two) else { return Test::Absent };
        if one.multiplexed + two.multiplexed > 0 {
            return Test::None("multiplexed, so not a full count");
        }
        let alike = |side: &Figures| side.n >= 2 && side.min == side.max;
        if alike(one) && alike(two) {
            return Test::Exact { identical: one.min == two.min };
        }
        ranks(&one.values, &two.values)
    }

    /// The test of the runs of two recordings on the emulated machine whose counts repeat; `pairs`: the places in the two lists of
    /// runs with the same seed and layout.
    pub(super) fn of_layouts(sides: [Option<&Figures>; 2], pairs: &[(usize, usize)]) -> Test {
        let by_runs = Test::of_runs(sides);
        let (Test::Ranks { .. }, [Some(one), Some(two)]) = (&by_runs, sides) else {
            return by_runs;
        };
        let blocks: Option<Vec<Block<'static>>> = pairs
            .iter()
            .map(|(first, second)| {
                let (baseline, variant) = (*one.values.get(*first)?, *two.values.get(*second)?);
                Some(Block { baseline: vec![baseline].into(), variant: vec![variant].into() })
            })
            .collect();
        // A run without the figure would shift the places of later runs.
        let complete = [one, two].iter().all(|side| side.values.len() == pairs.len());
        let Some(blocks) = blocks.filter(|_| complete) else { return by_runs };
        let Ok(paired) = Paired::new(&blocks) else { return by_runs };
        let identical = blocks.iter().all(|block| block.baseline == block.variant);
        let floor = floor_of([&one.values, &two.values], &paired);
        Test::Layouts { paired, identical, floor }
    }

    /// The p-value, and the smallest p-value that this number of figures allows.
    pub(super) fn p(&self) -> Option<(f64, f64)> {
        match self {
            Test::Blocks(paired) | Test::Layouts { paired, identical: false, .. } => {
                Some((paired.p(), paired.p_floor()))
            }
            Test::Ranks { baseline, variant, .. } => Some((
                rank_sum::p(baseline, variant),
                rank_sum::p_floor(baseline.len(), variant.len()),
            )),
            Test::Welch(welch) => Some((welch.p, 0.0)),
            // Counts that are the same in every layout cannot raise a false alarm.
            Test::Layouts { .. } | Test::Exact { .. } | Test::None(_) | Test::Absent => None,
        }
    }
}

/// The rank-sum test of single runs.
fn ranks(one: &[f64], two: &[f64]) -> Test {
    let logarithms = one.iter().chain(two).all(|value| *value > 0.0);
    let scaled = |values: &[f64]| -> Vec<f64> {
        values.iter().map(|value| if logarithms { value.ln() } else { *value }).collect()
    };
    Test::Ranks { baseline: scaled(one), variant: scaled(two), logarithms }
}

/// Mean, spread and number of figures; the error says why they are missing.
pub(super) fn group(figures: &ImportedFigures) -> Result<Group, &'static str> {
    match figures {
        ImportedFigures::Runs { values, .. } => {
            let mean = summary::mean(values).ok_or("no figure")?;
            let sd = summary::sd(values).ok_or("one figure a side")?;
            Ok(Group { mean, sd, n: values.len() as u64 })
        }
        ImportedFigures::Mean { n: Some(1), .. } => Err("one figure a side"),
        ImportedFigures::Mean { sd: None, .. } => Err("no spread given"),
        ImportedFigures::Mean { n: None, .. } => Err("runs not given"),
        ImportedFigures::Mean { mean, sd: Some(sd), n: Some(n) } => {
            Ok(Group { mean: *mean, sd: *sd, n: *n })
        }
    }
}

/// Groups the runs by the blocks that the file names.
fn blocks(sides: [(&Vec<f64>, &Vec<u32>); 2]) -> Vec<Block<'static>> {
    let mut names: Vec<u32> = sides.iter().flat_map(|(_, blocks)| blocks.iter().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let of = |side: usize, name: u32| -> Vec<f64> {
        let (values, blocks) = sides[side];
        values.iter().zip(blocks).filter(|(_, block)| **block == name).map(|(v, _)| *v).collect()
    };
    names
        .into_iter()
        .map(|name| Block { baseline: of(0, name).into(), variant: of(1, name).into() })
        .collect()
}

/// Gives every change its corrected p value, interval and verdict within the error budget of the report.
///
/// `side_metrics`: the metrics that share a planned level; `None` if somebody chose them all.
pub(super) fn judge(rows: &mut [Row], tests: &[Vec<Test>], side_metrics: Option<&SideMetrics>) {
    let budget = Budget::default();
    for family in multiple::Family::ALL {
        let is_side = |row: &Row| {
            family == multiple::Family::Rest
                && side_metrics.is_some_and(|metrics| metrics.contains(&row.key))
        };
        let members: Vec<(bool, &mut Change, &Test, (f64, f64))> = rows
            .iter_mut()
            .zip(tests.iter())
            .filter(|(row, _)| super::analysis::family_of(row) == Some(family))
            .flat_map(|(row, tests)| {
                let side = is_side(row);
                row.changes.iter_mut().zip(tests).map(move |(change, test)| (side, change, test))
            })
            .filter_map(|(side, change, test)| Some((side, change, test, test.p()?)))
            .collect();
        let sides: Vec<bool> = members.iter().map(|(side, ..)| *side).collect();
        let weights =
            side_metrics.map_or_else(|| vec![1.0; sides.len()], |metrics| metrics.weights(&sides));
        let p: Vec<f64> = members
            .iter()
            .zip(&weights)
            .map(|((.., (p, _)), weight)| (p / weight).min(1.0))
            .collect();
        let alpha = family.decision_level(&p, budget.level(family));
        let adjusted = family.adjust(&p);
        for (((_, change, test, p), adjusted), weight) in
            members.into_iter().zip(adjusted).zip(weights)
        {
            let adjusted = (adjusted * budget.total() / budget.level(family)).min(1.0);
            decide(change, test, p, alpha * weight, adjusted);
        }
    }
    for (row, tests) in rows.iter_mut().zip(tests) {
        row.exact =
            !tests.is_empty() && tests.iter().all(|test| matches!(test, Test::Exact { .. }));
        for (change, test) in row.changes.iter_mut().zip(tests) {
            match test {
                Test::Exact { identical: true } => {
                    change.identical = true;
                    change.verdict = Verdict::Unchanged;
                    change.reason = "the same in every run".into();
                }
                Test::Exact { identical: false } => {
                    change.verdict = Verdict::Changed;
                    change.reason = "exact: each side the same in every run".into();
                }
                Test::Layouts { paired, identical, floor } => {
                    let layouts = Layouts::of(paired);
                    (change.layouts, change.n_pairs) = (Some(layouts), layouts.count);
                    change.relevance_floor_ratio = *floor;
                    change.relevance_floor_layouts =
                        if floor.is_some() { layouts.count } else { 0 };
                    if *identical {
                        change.identical = true;
                        (change.change_ratio, change.ratio_of_medians) = (Some(0.0), Some(0.0));
                        change.verdict = Verdict::Unchanged;
                        change.reason = format!("same, {}", layouts.words());
                    } else if change.verdict == Verdict::Inconclusive {
                        change.verdict = Verdict::FewLayouts;
                        change.p_adjusted = None;
                        change.reason = format!("exact, {}", layouts.words());
                    }
                    change.note_floor();
                }
                Test::None(why) => change.reason = (*why).to_string(),
                Test::Absent => {
                    change.verdict = Verdict::Unavailable;
                    change.reason = "not given for every variant".into();
                }
                _ => {}
            }
        }
    }
}

/// `p`: the p-value and its smallest possible value; `alpha`: the level that decides for the whole family and gives the interval
/// its level.
fn decide(change: &mut Change, test: &Test, (p, floor): (f64, f64), alpha: f64, adjusted: f64) {
    let level = 1.0 - alpha;
    let (estimate, ci, mde) = match test {
        Test::Blocks(paired) | Test::Layouts { paired, .. } => {
            (paired.change_ratio(), paired.interval_ratio(level), paired.detectable_ratio(alpha, 0))
        }
        Test::Ranks { baseline, variant, logarithms } => {
            let center = summary::median(baseline).filter(|center| *center != 0.0);
            let ratio = |shift: f64| match logarithms {
                true => Some(shift.exp_m1()),
                false => center.map(|center| shift / center),
            };
            let interval = rank_sum::interval(baseline, variant, level);
            (
                rank_sum::estimate(baseline, variant).and_then(ratio),
                interval.and_then(|(low, high)| Some((ratio(low)?, ratio(high)?))),
                rank_sum::detectable_shift(baseline, variant, alpha).and_then(ratio).map(f64::abs),
            )
        }
        Test::Welch(welch) => {
            change.reason = format!("Welch's t {}", t_text(welch.t));
            (welch.change_ratio(), welch.interval_ratio(level), welch.detectable_ratio(alpha))
        }
        Test::Exact { .. } | Test::None(_) | Test::Absent => return,
    };
    if let Test::Blocks(paired) = test {
        change.n_pairs = paired.n_pairs();
    }
    change.change_ratio = estimate;
    change.ci_level = level;
    change.ci = ci;
    change.p_adjusted = Some(adjusted);
    change.verdict = if p <= alpha {
        Verdict::Changed
    } else if floor > alpha {
        change.reason = match test {
            Test::Ranks { .. } => format!("needs {} runs each", rank_sum::runs_min(alpha)),
            _ => format!("needs {} blocks", power::blocks_min(alpha, 1)),
        };
        Verdict::Inconclusive
    } else {
        change.mde_ratio = mde;
        Verdict::Unchanged
    };
}
