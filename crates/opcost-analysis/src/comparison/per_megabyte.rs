//! The cost of moving a megabyte, for work that reports how many bytes it moved.

use opcost_model::recording::Recording;
use opcost_record::{Domain, Record, WORK};
use opcost_work::{BYTES_READ, BYTES_WRITTEN};
use serde::Serialize;

const MEGABYTE: f64 = 1e6;

/// CPU time of each variant for each 1,000,000 bytes read and written, nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PerMegabyte {
    /// The CPU time of the work itself, user and kernel.
    pub own_ns: Vec<Option<f64>>,
    /// The CPU time of the whole machine while the runs were made, in the ticks of `/proc/stat`. It includes the start of each run
    /// and its empty twin.
    pub machine_ns: Vec<Option<f64>>,
}

/// The cost over all finished runs; `None` if the work moves no bytes or no time was measured.
pub(super) fn per_megabyte(
    recording: &Recording,
    finished: &[Vec<&Record>],
) -> Option<PerMegabyte> {
    let keys = recording.dictionary.keys();
    let sum = |records: &[&Record], name: &str, region: Option<&str>| -> Option<f64> {
        let samples = records.iter().flat_map(|record| &record.samples);
        let of = |metric: u16| {
            let key = &keys[usize::from(metric)];
            key.name == name
                && key.domain == Domain::All
                && region.is_none_or(|region| key.region == region)
        };
        samples
            .filter(|sample| of(sample.metric))
            .map(|sample| sample.value as f64)
            .reduce(|a, b| a + b)
    };
    let per_megabyte = |time: &dyn Fn(&[&Record]) -> Option<f64>| -> Vec<Option<f64>> {
        let of = |records: &Vec<&Record>| {
            let bytes = moved_bytes(records).filter(|bytes| *bytes > 0)?;
            Some(time(records)? / (bytes as f64 / MEGABYTE))
        };
        finished.iter().map(of).collect()
    };
    let own_ns = per_megabyte(&|records| {
        let of = |name| sum(records, name, Some(WORK));
        of("task-clock").or_else(|| Some(of("user-time")? + of("system-time")?))
    });
    let machine_ns = per_megabyte(&|records| sum(records, "machine-busy", None));
    let known = own_ns.iter().chain(&machine_ns).any(Option::is_some);
    known.then_some(PerMegabyte { own_ns, machine_ns })
}

/// The bytes that a variant's runs read and wrote; `None` if no run reports them.
fn moved_bytes(records: &[&Record]) -> Option<u64> {
    let invariants = records.iter().flat_map(|record| &record.invariants);
    let moved = invariants
        .filter(|invariant| [BYTES_READ, BYTES_WRITTEN].contains(&invariant.name.as_str()));
    moved.filter_map(|invariant| invariant.value.parse().ok()).reduce(u64::saturating_add)
}
