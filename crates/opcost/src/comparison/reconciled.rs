//! Counts and time in one sentence: what the best row of the other kind says beside the primary
//! metric.
//!
//! More instructions that cost no time, and time without more instructions, are what most
//! arguments about a hot path are about; neither figure answers for the other.

use super::conclusion::{detectable, percent};
use super::{Change, Comparison, Row, Verdict};
use opcost_record::{Kind, Unit};

/// What a metric is about, as far as one can stand beside the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Aspect {
    /// How long it took.
    Time,
    /// How much was done.
    Work,
}

/// Names of times, the one that people mean first.
const TIMES: [&str; 4] = ["wall", "task-clock", "cycles", "tsc"];

/// Names of counts of work, the one that says most first.
const WORK_COUNTS: [&str; 3] = ["instructions", "branches", "system-calls"];

/// Counts that, where they are exact, say that the same was done: for want of the above.
const EXACT_COUNTS: [&str; 2] = ["page-faults", "minor-faults"];

/// What the best row of the other kind says of this comparison, to stand behind the sentence
/// about the primary row; `None` if there is none that can say anything.
pub(super) fn other_kind(comparison: &Comparison, primary: &Row, index: usize) -> Option<String> {
    let aspect = aspect(primary)?;
    let other = best(comparison, primary, aspect, index)?;
    Some(clause(primary, other, index, aspect))
}

fn aspect(row: &Row) -> Option<Aspect> {
    match row.unit {
        Unit::Ns | Unit::Ticks => Some(Aspect::Time),
        // An estimate of cycles is made of counts, and no time that answers for them.
        Unit::Count if row.kind != Kind::Counted => None,
        Unit::Count if row.key.name.ends_with("cycles") => Some(Aspect::Time),
        Unit::Count => Some(Aspect::Work),
        Unit::Bytes => None,
    }
}

/// The first row of the other kind that was judged, in the order of the names above.
fn best<'a>(
    comparison: &'a Comparison,
    primary: &Row,
    aspect: Aspect,
    index: usize,
) -> Option<&'a Row> {
    let judged = |row: &&Row| {
        let verdict = row.changes[index].verdict;
        matches!(verdict, Verdict::Changed | Verdict::Unchanged) && !row.primary
    };
    let named = |name: &&str| {
        // Of the same mode, if there is one: kernel time and the kernel's instructions.
        let rows = || comparison.rows.iter().filter(|row| row.key.name == **name).filter(judged);
        rows().find(|row| row.key.domain == primary.key.domain).or_else(|| rows().next())
    };
    match aspect {
        Aspect::Work => TIMES.iter().find_map(&named),
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
    match (direction(first), direction(second)) {
        (Some(one), Some(two)) if primary_changed && one != two => {
            let work = if aspect == Aspect::Work { primary } else { other };
            let more_work = if aspect == Aspect::Work { one } else { two };
            let [work_word, time_word] =
                if more_work { ["more", "less"] } else { ["fewer", "more"] };
            format!(
                "yet {label} {amount}, real: {work_word} {} in {time_word} time",
                work.key.name.replace('-', " ")
            )
        }
        _ if primary_changed => format!("{label} {amount}, real as well"),
        _ if first.verdict == Verdict::Unchanged => format!("yet {label} {amount}, real"),
        _ => format!("{label} {amount}, real"),
    }
}

/// Whether a change is an increase; `None` where it has no ratio.
fn direction(change: &Change) -> Option<bool> {
    change.change_ratio.map(|ratio| ratio > 0.0)
}
