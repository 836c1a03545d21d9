//! Ratios of two metrics: cycles per instruction and rates of misses, each variant's from its own
//! counts; and the cost of moving a megabyte, for work that reports how many bytes it moved.

use super::{Comparison, Row, Verdict};
use opcost_model::recording::Recording;
use opcost_record::metric::EMULATOR;
use opcost_record::{Domain, Kind, Record, WORK};
use opcost_work::{BYTES_READ, BYTES_WRITTEN};
use serde::Serialize;

/// The known ratios: name, numerator, denominator.
///
/// Only counted metrics qualify: an estimate of cycles gives no CPI.
const RATIOS: [(&str, &str, &str); 3] = [
    ("CPI", "cycles", "instructions"),
    ("cache miss rate", "cache-misses", "cache-references"),
    ("branch miss rate", "branch-misses", "branches"),
];

/// One ratio over all variants.
#[derive(Clone, Debug, PartialEq)]
pub struct RatioRow {
    /// The name with the domain, such as `CPI:k`.
    pub label: String,
    /// The quotient of each variant's medians, or why there is none.
    pub values: Result<Vec<f64>, String>,
}

/// The ratios that a comparison's counts give, and why others are missing.
///
/// A ratio is given for each domain in which both of its metrics were counted in full. The result has at least one row for each
/// known ratio.
pub fn ratios(comparison: &Comparison) -> Vec<RatioRow> {
    let mut rows = Vec::new();
    for (name, numerator, denominator) in RATIOS {
        let found = rows.len();
        // A region that the program marks has only one metric, so it has no ratio.
        let of_work = || comparison.rows.iter().filter(|row| !row.key.is_of_program_region());
        for above in of_work().filter(|row| row.key.name == numerator) {
            let below = of_work()
                .find(|row| row.key.name == denominator && row.key.domain == above.key.domain);
            let Some(below) = below else { continue };
            if let Some(values) = divide(above, below) {
                let label = format!("{name}{}", above.key.domain.suffix());
                rows.push(RatioRow { label, values: Ok(values) });
            }
        }
        if rows.len() == found {
            let mut missing: Vec<String> = [numerator, denominator]
                .into_iter()
                .filter_map(|metric| why_not(comparison, metric))
                .collect();
            missing.dedup();
            if missing.is_empty() {
                missing.push(format!("no {denominator} of the same domain, or 0 of them"));
            }
            let reason = missing.join("; ");
            rows.push(RatioRow { label: name.into(), values: Err(reason) });
        }
    }
    rows
}

/// The quotient of each variant's medians; `None` unless all of them were counted.
fn divide(above: &Row, below: &Row) -> Option<Vec<f64>> {
    if [above, below].iter().any(|row| row.kind != Kind::Counted || row.per_op != above.per_op) {
        return None;
    }
    let pairs = above.values.iter().zip(&below.values);
    pairs
        .map(|(above, below)| {
            let (above, below) = (above.as_ref()?, below.as_ref()?);
            let whole = above.multiplexed == 0 && below.multiplexed == 0;
            (whole && below.center() != 0.0).then(|| above.center() / below.center())
        })
        .collect()
}

/// Why a metric cannot be part of a ratio; `None` if it can.
fn why_not(comparison: &Comparison, metric: &str) -> Option<String> {
    let rows: Vec<&Row> = comparison.rows.iter().filter(|row| row.key.name == metric).collect();
    if rows.iter().any(|row| row.values.iter().flatten().any(|figures| figures.multiplexed > 0)) {
        return Some(format!("{metric} shared a counter and were not counted in full"));
    }
    if !rows.is_empty()
        && rows.iter().flat_map(|row| &row.changes).all(|it| it.verdict != Verdict::Unavailable)
    {
        return None;
    }
    if comparison.rows.iter().any(|row| row.key.source == EMULATOR) {
        return Some("an emulated CPU has no such counters, and estimates are no counts".into());
    }
    let refused = comparison
        .missing()
        .into_iter()
        .find(|(labels, _)| labels.iter().any(|label| label.split(':').next() == Some(metric)));
    Some(match refused {
        Some((_, reason)) => format!("{metric} were not counted: {reason}"),
        None => format!("{metric} were not counted"),
    })
}

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
