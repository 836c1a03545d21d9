//! Why a recording has no more runs, and what more runs would find.

use super::analysis::is_alone;
use super::conclusion::detectable;
use super::{Change, Row, Verdict};
use opcost_base::number::{figure, grouped, magnitude};
use opcost_model::plan::Plan;
use opcost_model::recording::{Recording, State};
use opcost_record::Unit;

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
