//! Finds by name the places of a Linux kernel that mean more than their cost: where it is entered, where tasks are exchanged, where
//! signals and programs begin.
//!
//! Functions in C have the same names in all architectures, except for those that `x86_64` and `aarch64` name.

mod aarch64;
mod x86_64;

use super::clone;
use opcost_record::symbols::{Landmark, LandmarkAt};
use std::collections::{BTreeMap, HashMap};

const CALLS: Option<&str> = Some("system-calls");
const FAULTS: Option<&str> = Some("page-faults");
const INTERRUPTS: Option<&str> = Some("interrupts");

type Row = (&'static str, Landmark, Option<&'static str>);

/// Functions in C. The compiler makes copies of them, and a link-time optimiser makes them local; every copy is a landmark.
///
/// Signal handlers are set up by functions of the same names in every kernel (`kernel/signal.c`), and so are tasks exchanged
/// (`kernel/sched/core.c`).
const FUNCTIONS: [Row; 15] = [
    (DELIVERED, Landmark::Signal, None),
    (SET_UP, Landmark::Signal, None),
    ("resched_curr", Landmark::Due, None),
    ("resched_curr_lazy", Landmark::Due, None),
    ("schedule", Landmark::Yield, None),
    ("preempt_schedule", Landmark::Yield, None),
    ("preempt_schedule_notrace", Landmark::Yield, None),
    ("preempt_schedule_irq", Landmark::Yield, None),
    ("preempt_schedule_common", Landmark::Yield, None),
    ("__schedule", Landmark::Schedule, None),
    ("task_work_run", Landmark::Resume, None),
    ("mem_cgroup_handle_over_high", Landmark::Resume, None),
    ("__mem_cgroup_handle_over_high", Landmark::Resume, None),
    ("blkcg_maybe_throttle_current", Landmark::Resume, None),
    ("__rseq_handle_notify_resume", Landmark::Resume, None),
];

/// The function that ends the delivery of a signal, and the function that calls it. GCC inlines the first into the second; LLVM's
/// link-time optimisation inlines the second into its caller and keeps both.
const DELIVERED: &str = "signal_delivered";
const SET_UP: &str = "signal_setup_done";

/// The address of a global kernel symbol and the address of the next symbol.
pub(super) type AddressRange = (u64, u64);

/// Finds the landmarks of a kernel, sorted by address. The names tell the architecture.
///
/// `places`: the kernel's own global text symbols by name; `texts`: all its text symbols.
pub(super) fn find<'t>(
    places: &HashMap<&str, AddressRange>,
    texts: impl Iterator<Item = (&'t str, u64)> + Clone,
) -> Vec<LandmarkAt> {
    let mut found = BTreeMap::new();
    let mut mark = |address: u64, landmark, metric: Option<&str>| {
        let metric = metric.map(str::to_owned);
        found.entry(address).or_insert(LandmarkAt { address, landmark, metric });
    };
    let own: &[Row] = if places.contains_key(aarch64::SWITCH) {
        aarch64::mark_entries(places, &mut mark);
        &aarch64::FUNCTIONS
    } else {
        x86_64::mark_entries(places, &mut mark);
        &x86_64::FUNCTIONS
    };
    let delivers = texts.clone().any(|(name, _)| is_entry_of(name, DELIVERED));
    for (name, address) in texts {
        let row = FUNCTIONS.iter().chain(own).find(|(function, ..)| is_entry_of(name, function));
        if let Some((_, landmark, metric)) = row.filter(|(name, ..)| !delivers || *name != SET_UP) {
            mark(address, *landmark, *metric);
        }
    }
    found.into_values().collect()
}

/// Whether a symbol is a function or a whole copy of it. Control enters its parts elsewhere.
fn is_entry_of(symbol: &str, function: &str) -> bool {
    let Some(appendix) = symbol.strip_prefix(function) else { return false };
    let is_part = || [".cold", ".part."].iter().any(|part| appendix.contains(part));
    appendix.is_empty() || clone::folded(symbol) == function && !is_part()
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::METRICS;

    #[test]
    fn every_row_is_once_and_counts_a_metric_that_there_is() {
        for own in [x86_64::rows(), aarch64::FUNCTIONS.to_vec()] {
            let rows = [&FUNCTIONS[..], &own].concat();
            for (place, (name, _, metric)) in rows.iter().enumerate() {
                assert!(rows[..place].iter().all(|(earlier, ..)| earlier != name), "{name}");
                let known = |metric: &&str| METRICS.iter().any(|row| row.name == *metric);
                assert!(metric.as_ref().is_none_or(known), "{name}");
            }
        }
    }
}
