//! The answer in words, with rows that complement or contradict the primary metric, and why a recording has no more runs.
//!
//! [`other_kind`] is the best row of the other kind (counts beside time, or time beside counts), [`other_times`] contradict a time.
//!
//! Most arguments about a hot path are about more instructions that cost no time, or about more time without more instructions.
//! Time and counts are therefore judged separately. A program also has several times: a CPU can be busy for longer without anybody
//! waiting for longer.

use super::analysis::is_alone;
use super::{
    Change, Comparison, FunctionComparison, ModelAccuracy, Row, Severity, Verdict, cycles,
    function_changes, one_variant,
};
use opcost_base::number::{digits, figure, grouped, magnitude, percent, scale};
use opcost_model::plan::Plan;
use opcost_model::recording::{Recording, State};
use opcost_record::{Kind, Unit};
use std::collections::HashMap;

/// One sentence for each comparison: the primary metric, then the best metric of the other kind (time beside counts or counts
/// beside time), then other times that disagree.
pub(super) fn conclusions(comparison: &Comparison) -> Vec<String> {
    let refusals: Vec<&str> = comparison
        .ledger
        .iter()
        .filter(|entry| entry.severity == Severity::Refuse && !entry.waived)
        .map(|entry| entry.detail.as_str())
        .collect();
    if !refusals.is_empty() {
        return vec![format!("not comparable: {}", refusals.join("; "))];
    }
    let Some(row) = comparison.rows.iter().find(|row| row.primary) else {
        return vec!["no finished run has the primary metric".into()];
    };
    if comparison.comparisons.is_empty() {
        return one_variant::conclusion(comparison).into_iter().collect();
    }
    let functions: HashMap<(usize, usize), &FunctionComparison> = comparison
        .functions
        .iter()
        .map(|functions| ((functions.baseline, functions.variant), functions))
        .collect();
    comparison
        .comparisons
        .iter()
        .enumerate()
        .map(|(index, (baseline, variant))| {
            let names = format!(
                "{} against {}",
                comparison.variants[*variant].name, comparison.variants[*baseline].name
            );
            let others = [
                exact_changes(functions.get(&(*baseline, *variant)).copied(), &row.changes[index]),
                other_kind(comparison, row, index),
                other_times(comparison, row, index),
                cycles::beside(&comparison.rows, index),
            ];
            let others = others.into_iter().flatten().map(|clause| format!("; {clause}"));
            format!("{names}: {}{}", sentence(row, index), others.collect::<String>())
        })
        .collect()
}

/// The functions that changed exactly, if the primary metric alone does not answer: no change of it was found, or layouts move it as
/// far.
fn exact_changes(functions: Option<&FunctionComparison>, change: &Change) -> Option<String> {
    if change.verdict == Verdict::Changed && change.below_floor().is_none() {
        return None;
    }
    functions.and_then(function_changes::exact_clause)
}

fn sentence(row: &Row, index: usize) -> String {
    let change = &row.changes[index];
    let label = &row.label;
    let amount = change.change_ratio.map_or_else(|| "changed".into(), percent);
    match change.verdict {
        Verdict::Changed | Verdict::FewLayouts if change.estimated => {
            let error = row.accuracy.as_ref().map(ModelAccuracy::error_in_words);
            let error = error.unwrap_or_else(|| "of unknown error".into());
            format!("{label} {amount}, {} ({error})", change.found())
        }
        Verdict::Changed => {
            let real = match change.ci {
                Some((low, high)) => format!(
                    "{label} {amount}, {} ({} … {}{} at {:.4} % confidence)",
                    change.found(),
                    percent(low),
                    percent(high),
                    absolute(row, change).map_or(String::new(), |words| format!(", {words}")),
                    Trim(change.ci_level * 100.0)
                ),
                None => match in_layouts(change).filter(|_| !row.exact) {
                    Some(layouts) => format!("{label} {amount}, {}{layouts}", change.found()),
                    None => {
                        let difference = absolute(row, change);
                        let difference =
                            difference.map_or(String::new(), |words| format!(" ({words})"));
                        format!("{label} {amount}, {} and exact{difference}", change.found())
                    }
                },
            };
            match change.floor_words().filter(|_| change.below_floor().is_some()) {
                Some(floor) => format!("{real}, but layouts alone shift it by up to {floor}"),
                None => real,
            }
        }
        Verdict::Unchanged => match detectable(row, change) {
            Some(mde) if !change.identical => {
                format!("no change in {label} found; {mde} or more would have been")
            }
            _ => format!("no change in {label}: {}", same(row, change)),
        },
        Verdict::FewLayouts => {
            let layouts = in_layouts(change).unwrap_or_default();
            let floor = change.floor_words().map(|floor| {
                let but = if change.below_floor().is_some() { ", but" } else { ";" };
                format!("{but} layouts alone shift it by up to {floor}")
            });
            format!("{label} {amount}, exact{layouts}{}", floor.unwrap_or_default())
        }
        Verdict::Inconclusive if change.change_ratio.is_none() => {
            format!("{label} inconclusive: {}", change.reason)
        }
        Verdict::Inconclusive => format!("{label} {amount}, inconclusive: {}", change.reason),
        Verdict::NotComparable => format!("{label} not comparable: {}", change.reason),
        Verdict::Unavailable => format!("{label} not available: {}", change.reason),
    }
}

/// The interval of the change in the unit of the figures, `+1.11 … +1.31 ms/op`, or the change itself if it has none.
pub(super) fn absolute(row: &Row, change: &Change) -> Option<String> {
    let ends = match (change.difference_ci, change.ci) {
        (Some((low, high)), _) => vec![low, high],
        // A change with an interval has none in this unit only if the blocks' differences are too unequal.
        (None, Some(_)) => return None,
        (None, None) => vec![change.difference?],
    };
    let (unit, symbol) = scale(&ends, row.unit);
    let signed = |value: &f64| {
        let sign = if *value > 0.0 { "+" } else { "" };
        format!("{sign}{}", digits(value / unit))
    };
    let per = if row.per_op { "/op" } else { "" };
    let texts: Vec<String> = ends.iter().map(signed).collect();
    Some(format!("{}{symbol}{per}", texts.join(" … ")))
}

/// `, one layout`, ` (+1.01 % … +1.03 % in 5 layouts)`, or ` (in each of 5 layouts)` if the two ends look alike. Only for a
/// difference that was counted.
pub(super) fn in_layouts(change: &Change) -> Option<String> {
    let layouts = change.layouts?;
    Some(match layouts.range {
        Some((least, most)) if layouts.count > 1 => match [least, most].map(percent) {
            [least, most] if least == most => format!(" (in each of {})", layouts.words()),
            [least, most] => format!(" ({least} … {most} in {})", layouts.words()),
        },
        _ => format!(", {}", layouts.words()),
    })
}

/// Describes two sides whose counts are the same, for instructions as `the same to the instruction`.
fn same(row: &Row, change: &Change) -> String {
    let what = match row.key.name.as_str() {
        "instructions" if row.kind == Kind::Counted && change.layouts.is_some() => {
            "the same to the instruction"
        }
        _ if change.layouts.is_some() && !row.exact => "the same count",
        _ => "the same in every run",
    };
    match change.layouts {
        Some(layouts) if layouts.count == 1 => format!("{what}, one layout"),
        Some(layouts) if !row.exact => format!("{what}, in each of {}", layouts.words()),
        _ => what.into(),
    }
}

/// The smallest change that would have been found: a percentage, or a figure if the baseline is 0.
pub fn detectable(row: &Row, change: &Change) -> Option<String> {
    let ratio = change.mde_ratio.map(magnitude);
    ratio.or_else(|| change.mde_difference.map(|difference| figure(difference, row.unit)))
}

/// A number without trailing zeros.
pub(super) struct Trim(pub(super) f64);

impl std::fmt::Display for Trim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:.*}", f.precision().unwrap_or(2), self.0);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The aspect of a metric that can be compared with the other aspect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Aspect {
    /// The time the work took.
    Time,
    /// The amount of work done.
    Work,
}

/// Names of times, the most usual first; the last two are parts of a time.
const TIMES: [&str; 6] = ["wall", "task-clock", "cycles", "tsc", "user-time", "system-time"];
const PARTS: [&str; 2] = ["user-time", "system-time"];

/// Names of counts of work, the most informative first.
const WORK_COUNTS: [&str; 3] = ["instructions", "branches", "system-calls"];

/// Counts that, if exact, show that the work was the same; used only if those above are missing.
const EXACT_COUNTS: [&str; 2] = ["page-faults", "minor-faults"];

/// The clause about the best row of the other kind, which follows the sentence about the primary row; `None` if no such row was
/// judged.
pub(super) fn other_kind(comparison: &Comparison, primary: &Row, index: usize) -> Option<String> {
    let aspect = aspect(primary)?;
    let other = best(comparison, primary, aspect, index)?;
    Some(clause(primary, other, index, aspect))
}

/// The other times that changed although the primary time did not, or that changed the other way, with a proposal to use the first
/// of them. `None` if the primary metric is no time, or no other time contradicts it.
pub(super) fn other_times(comparison: &Comparison, primary: &Row, index: usize) -> Option<String> {
    if aspect(primary) != Some(Aspect::Time) {
        return None;
    }
    let first = &primary.changes[index];
    let primary_changed = first.verdict == Verdict::Changed;
    let contradicts = |row: &&Row| {
        let change = &row.changes[index];
        let same_way = direction(change) == direction(first);
        !row.primary
            && aspect(row) == Some(Aspect::Time)
            && change.verdict == Verdict::Changed
            // A part of a time may change the other way than the whole; this is no contradiction.
            && !(primary_changed && (same_way || PARTS.contains(&row.key.name.as_str())))
    };
    let mut rows: Vec<&Row> = comparison.rows.iter().filter(contradicts).collect();
    let place = |row: &&Row| TIMES.iter().position(|name| *name == row.key.name);
    rows.sort_by_key(|row| place(row).unwrap_or(TIMES.len()));
    let best = rows.first()?;
    let named: Vec<String> = rows
        .iter()
        .map(|row| {
            let ratio = row.changes[index].change_ratio;
            format!("{} {}", row.label, ratio.map_or_else(|| "changed".into(), percent))
        })
        .collect();
    let named = named.join(", ");
    let (proposed, found) = (best.key.label(), best.changes[index].found());
    Some(match primary_changed {
        true => format!("yet {named}, {found}"),
        false => {
            format!("yet {named}, {found}: run again with --primary {proposed} to let it decide")
        }
    })
}

fn aspect(row: &Row) -> Option<Aspect> {
    match row.unit {
        // A region is a part of the work and may change the other way than the whole.
        _ if row.key.is_of_program_region() => None,
        Unit::Ns | Unit::Ticks => Some(Aspect::Time),
        // An estimate of cycles is computed from counts and cannot stand for time.
        Unit::Count if row.kind != Kind::Counted => None,
        Unit::Count if row.key.name.ends_with("cycles") => Some(Aspect::Time),
        Unit::Count => Some(Aspect::Work),
        Unit::Bytes => None,
    }
}

/// The first row of the other kind that was judged, in the order of the names above; among times, a changed time comes before an
/// unchanged one.
fn best<'a>(
    comparison: &'a Comparison,
    primary: &Row,
    aspect: Aspect,
    index: usize,
) -> Option<&'a Row> {
    let judged = |row: &&Row| {
        let verdict = row.changes[index].verdict;
        matches!(verdict, Verdict::Changed | Verdict::Unchanged)
            && !row.primary
            && !row.key.is_of_program_region()
    };
    let named = |name: &&str| {
        // Prefer the same mode: kernel time and the kernel's instructions.
        let rows = || comparison.rows.iter().filter(|row| row.key.name == **name).filter(judged);
        rows().find(|row| row.key.domain == primary.key.domain).or_else(|| rows().next())
    };
    let changed = |row: &&Row| row.changes[index].verdict == Verdict::Changed;
    match aspect {
        Aspect::Work => {
            let times = || TIMES.iter().filter_map(&named);
            times().find(changed).or_else(|| times().next())
        }
        Aspect::Time => WORK_COUNTS
            .iter()
            .find_map(named)
            .or_else(|| EXACT_COUNTS.iter().find_map(named).filter(|row| row.exact && !zero(row))),
    }
}

/// Whether nothing was counted in any run.
fn zero(row: &Row) -> bool {
    row.values.iter().flatten().all(|figures| figures.max == Some(0.0))
}

fn clause(primary: &Row, other: &Row, index: usize, aspect: Aspect) -> String {
    let (first, second) = (&primary.changes[index], &other.changes[index]);
    let label = &other.label;
    let primary_changed = first.verdict == Verdict::Changed;
    if second.verdict == Verdict::Unchanged {
        return match detectable(other, second).filter(|_| !second.identical) {
            None => format!("{label} the same in every run"),
            Some(mde) if first.verdict == Verdict::Unchanged => {
                format!("nor in {label}, {mde} would have been")
            }
            Some(mde) => format!("no change in {label} found, {mde} would have been"),
        };
    }
    let amount = second.change_ratio.map_or_else(|| "changed".into(), percent);
    let found = second.found();
    match (direction(first), direction(second)) {
        (Some(one), Some(two)) if primary_changed && one != two => {
            let work = if aspect == Aspect::Work { primary } else { other };
            let more_work = if aspect == Aspect::Work { one } else { two };
            let [work_word, time_word] =
                if more_work { ["more", "less"] } else { ["fewer", "more"] };
            format!(
                "yet {label} {amount}, {found}: {work_word} {} in {time_word} time",
                work.key.name.replace('-', " ")
            )
        }
        _ if primary_changed => format!("{label} {amount}, {found} as well"),
        _ if first.verdict == Verdict::Unchanged => format!("yet {label} {amount}, {found}"),
        _ => format!("{label} {amount}, {found}"),
    }
}

/// Whether a change is an increase; `None` if it has no ratio.
fn direction(change: &Change) -> Option<bool> {
    change.change_ratio.map(|ratio| ratio > 0.0)
}

/// The factor on the number of runs that halves the smallest change found: that change shrinks with the square root of the number
/// of runs.
const MORE: u64 = 4;

/// Why the recording stopped before all runs were made, in words.
///
/// `pairs_for_all`: the pairs with which every metric gets its interval.
pub(super) fn stopped(
    recording: &Recording,
    rows: &[Row],
    pairs_for_all: Option<u32>,
) -> Option<String> {
    let Plan { stop, primary, .. } = &recording.plan;
    let pairs = grouped(recording.pairs_made().into());
    let what = if is_alone(&recording.plan) { "runs" } else { "pairs" };
    let same = rows.iter().flat_map(|row| &row.changes).all(|change| change.identical);
    match recording.state {
        State::StoppedWidth => {
            let width = magnitude(stop.width_ratio?);
            let primary = primary.label();
            Some(format!(
                "stopped after {pairs} {what}: the interval of {primary} is within {width}"
            ))
        }
        State::StoppedSettled if same => {
            Some(format!("stopped after {pairs} pairs: both sides counted the same"))
        }
        State::StoppedSettled if all_apart(&recording.plan) => Some(format!(
            "stopped after {pairs} pairs: the counts repeat, and no variants are compared"
        )),
        State::StoppedSettled => {
            let interval = pairs_for_all
                .map(|pairs| format!("; for the interval of every metric: --pairs {pairs}"));
            Some(format!(
                "stopped after {pairs} pairs: exact counts settle {}{}",
                primary.label(),
                interval.unwrap_or_default()
            ))
        }
        State::StoppedBudget => {
            let budget = figure(stop.budget_ms? as f64 * 1e6, Unit::Ns);
            let more = more(recording, rows).unwrap_or_default();
            Some(format!("stopped after {pairs} {what}: {budget} are spent{more}"))
        }
        // The whole default plan was made before the budget was spent.
        State::Finished if stop.budget_ms.is_some() && stop.width_ratio.is_none() => {
            Some(format!("all {pairs} {what} are made{}", more(recording, rows)?))
        }
        _ => None,
    }
}

/// Whether all variants stand beside each other.
fn all_apart(plan: &Plan) -> bool {
    plan.comparisons().into_iter().all(|sides| plan.apart(sides).is_some())
}

/// The primary metric's change that four times the runs would find, with the option that makes them.
fn more(recording: &Recording, rows: &[Row]) -> Option<String> {
    let plan = &recording.plan;
    let row = rows.iter().find(|row| row.primary)?;
    let pairs = recording.pairs_made();
    // If the fewest blocks allowed already took longer than the budget, more runs are requested by number.
    let stopped = recording.state == State::StoppedBudget;
    let more = match stopped && pairs > plan.pairs_of_blocks(plan.stop.blocks_min) {
        true => {
            let seconds = (MORE * plan.stop.budget_ms?).div_ceil(1_000);
            format!("--budget {seconds}s")
        }
        false => format!("-n {}", MORE * u64::from(pairs)),
    };
    let open = row.changes.iter().filter(|change| change.verdict == Verdict::Unchanged);
    let open = open.filter(|change| !change.identical);
    let least =
        open.filter_map(|change| half(row, change)).max_by(|one, two| one.0.total_cmp(&two.0));
    if let Some((_, least)) = least {
        let label = row.label.as_str();
        return Some(format!("; {more} would find about {least} of {label}"));
    }
    let has_interval = row.changes.iter().any(|change| change.ci.is_some());
    has_interval.then(|| format!("; {more} would about halve the interval of {}", row.label))
}

/// Half the smallest change that would have been found, as a number for comparing and as text.
fn half(row: &Row, change: &Change) -> Option<(f64, String)> {
    detectable(row, change)?;
    let halved = Change {
        mde_ratio: change.mde_ratio.map(|ratio| ratio / 2.0),
        mde_difference: change.mde_difference.map(|difference| difference / 2.0),
        ..change.clone()
    };
    let order = halved.mde_ratio.or(halved.mde_difference)?;
    Some((order, detectable(row, &halved)?))
}
