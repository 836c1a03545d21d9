//! Invariants: their notation, and the merging of those of several tasks.

use crate::error::WorkError;
use crate::figure::merge_figures;
use opcost_record::{Invariant, Report};

/// The name of the hash over the executed operations, 16 hexadecimal digits.
pub const OP_STREAM_HASH: &str = "op-stream-hash";

/// The name of the measured number of page faults of the work, minor and major.
pub const PAGE_FAULTS: &str = "page-faults";

/// The name of the number of page faults that the workload predicts for itself.
pub const PAGE_FAULTS_EXPECTED: &str = "page-faults-expected";

/// The name of the number of bytes that the work wrote to files.
pub const BYTES_WRITTEN: &str = "bytes-written";

/// The name of the number of bytes that the work read from files.
pub const BYTES_READ: &str = "bytes-read";

pub(crate) fn count(name: impl Into<String>, value: u64) -> Invariant {
    Invariant { name: name.into(), value: value.to_string() }
}

pub(crate) fn hash(value: u64) -> Invariant {
    Invariant { name: OP_STREAM_HASH.into(), value: format!("{value:016x}") }
}

/// Merges the reports of several tasks, in the order of their indices. Operations are added. Each task does the same work, so the
/// invariants are one task's. A count in which tasks still differ becomes a range, which equals no other run's value.
///
/// # Errors
/// [`WorkError::TasksDiffer`]: the tasks went through different operations or report different values.
pub(crate) fn merge(reports: &[Report]) -> Result<Report, WorkError> {
    let mut merged = Report {
        ops: Some(reports.iter().filter_map(|report| report.ops).sum()),
        readings: merge_figures(reports),
        ..Report::default()
    };
    let Some((first, others)) = reports.split_first() else {
        return Ok(merged);
    };
    for (place, invariant) in first.invariants.iter().enumerate() {
        let mut numbers = vec![invariant.value.parse::<u64>()];
        for (index, report) in others.iter().enumerate() {
            let other = match report.invariants.get(place) {
                Some(other) if other.name == invariant.name => other.value.as_str(),
                _ => "missing",
            };
            numbers.push(other.parse());
            let may_differ = invariant.name == PAGE_FAULTS && numbers.iter().all(Result::is_ok);
            if other != invariant.value && !may_differ {
                return Err(WorkError::TasksDiffer {
                    name: invariant.name.clone(),
                    index: index + 2,
                    first: invariant.value.clone(),
                    other: other.into(),
                });
            }
        }
        let numbers = || numbers.iter().flatten();
        let value = match (numbers().min(), numbers().max()) {
            (Some(least), Some(most)) if least != most => format!("{least}..={most}"),
            _ => invariant.value.clone(),
        };
        merged.invariants.push(Invariant { name: invariant.name.clone(), value });
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(ops: u64, hashed: u64, faults: u64) -> Report {
        Report {
            ops: Some(ops),
            readings: vec![],
            invariants: vec![hash(hashed), count(PAGE_FAULTS, faults)],
        }
    }

    #[test]
    fn operations_are_added_and_invariants_are_one_tasks() {
        let merged = merge(&[report(5, 1, 10), report(5, 1, 10)]).unwrap();
        assert_eq!(merged.ops, Some(10));
        assert_eq!(merged.invariants, report(5, 1, 10).invariants);
    }

    #[test]
    fn page_faults_that_differ_are_a_range() {
        let merged = merge(&[report(5, 1, 10), report(5, 1, 12), report(5, 1, 9)]).unwrap();
        assert_eq!(merged.invariants[1].value, "9..=12");
    }

    #[test]
    fn work_that_differs_is_named() {
        let said = |reports: &[Report]| merge(reports).unwrap_err().to_string();
        assert_eq!(
            said(&[report(5, 1, 1), report(5, 1, 1), report(5, 2, 1)]),
            "task 1 and task 3 did not do the same work: op-stream-hash is 0000000000000001 and \
             0000000000000002; this is a mistake in the workload: please report it"
        );
        let mut short = report(1, 1, 1);
        short.invariants.pop();
        assert!(said(&[report(1, 1, 1), short]).contains("page-faults is 1 and missing"));
    }
}
