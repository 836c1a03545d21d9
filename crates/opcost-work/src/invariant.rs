//! Invariants: how they are written, and how those of several processes become one set.

use crate::error::WorkError;
use crate::random::fold;
use opcost_record::{Invariant, Report};

/// The invariant that is a hash over the executed operations, 16 hexadecimal digits.
pub const OP_STREAM_HASH: &str = "op-stream-hash";

/// The invariant that is the measured number of page faults of the work, minor and major.
pub const PAGE_FAULTS: &str = "page-faults";

/// The invariant that is the number of page faults the workload predicts for itself.
pub const PAGE_FAULTS_EXPECTED: &str = "page-faults-expected";

/// The invariant that is the number of bytes the work wrote to files.
pub const BYTES_WRITTEN: &str = "bytes-written";

/// The invariant that is the number of bytes the work read from files.
pub const BYTES_READ: &str = "bytes-read";

pub(crate) fn count(name: impl Into<String>, value: u64) -> Invariant {
    Invariant { name: name.into(), value: value.to_string() }
}

pub(crate) fn hash(value: u64) -> Invariant {
    Invariant { name: OP_STREAM_HASH.into(), value: format!("{value:016x}") }
}

/// Makes the reports of several processes, in the order of their indices, into one: operations and
/// counts are added, hashes are hashed.
///
/// # Errors
/// [`WorkError::Unmergeable`]: a value is not a number, or the processes report different things.
pub(crate) fn merge(reports: &[Report]) -> Result<Report, WorkError> {
    let mut merged = Report {
        ops: Some(reports.iter().filter_map(|report| report.ops).sum()),
        ..Report::default()
    };
    let Some(first) = reports.first() else {
        return Ok(merged);
    };
    for (place, Invariant { name, .. }) in first.invariants.iter().enumerate() {
        let refuse =
            |value: &str| WorkError::Unmergeable { name: name.clone(), value: value.to_string() };
        let mut total = 0u64;
        for report in reports {
            let value = match report.invariants.get(place) {
                Some(invariant) if invariant.name == *name => &invariant.value,
                _ => return Err(refuse("missing")),
            };
            let radix = if name == OP_STREAM_HASH { 16 } else { 10 };
            let number = u64::from_str_radix(value, radix).map_err(|_| refuse(value))?;
            total = match radix {
                16 => fold(total, number),
                _ => total.checked_add(number).ok_or_else(|| refuse(value))?,
            };
        }
        merged.invariants.push(match name.as_str() {
            OP_STREAM_HASH => hash(total),
            _ => count(name.clone(), total),
        });
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
    fn counts_are_added_and_hashes_keep_their_order() {
        let merged = merge(&[report(5, 1, 10), report(7, 2, 20)]).unwrap();
        assert_eq!(merged.ops, Some(12));
        assert_eq!(merged.invariants[1], count(PAGE_FAULTS, 30));
        let swapped = merge(&[report(7, 2, 20), report(5, 1, 10)]).unwrap();
        assert_ne!(merged.invariants[0], swapped.invariants[0]);
    }

    #[test]
    fn what_cannot_be_merged_is_named() {
        let mut odd = report(1, 1, 1);
        odd.invariants[1].value = "few".into();
        assert_eq!(
            merge(&[report(1, 1, 1), odd]).unwrap_err().to_string(),
            "cannot merge the invariant 'page-faults' of several processes: its value is 'few'"
        );
        let mut short = report(1, 1, 1);
        short.invariants.pop();
        assert_eq!(
            merge(&[report(1, 1, 1), short]).unwrap_err().to_string(),
            "cannot merge the invariant 'page-faults' of several processes: its value is 'missing'"
        );
    }
}
