//! Rows that complement or contradict the primary metric: the best row of the other kind (counts beside time, or time beside
//! counts), and other times that contradict a time.
//!
//! Most arguments about a hot path are about more instructions that cost no time, or about more time without more instructions.
//! Time and counts are therefore judged separately. A program also has several times: a CPU can be busy for longer without anybody
//! waiting for longer.

use super::conclusion::detectable;
use super::{Change, Comparison, Row, Verdict};
use opcost_base::number::percent;
use opcost_record::{Kind, Unit};

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
