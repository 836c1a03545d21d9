//! The kernel's performance events (`perf_event_open(2)`).
//!
//! Counters are opened on the measured process, and its children inherit them. For a command they start at exec; for a region the
//! workload process switches them on and off. Each counter is read individually while it is off, with its enabled and running
//! times. A count is never scaled, however short its time on the hardware. A counter that was never on the hardware gives no
//! reading.

mod cache;
mod counters;
#[cfg(test)]
mod fixture;
pub mod syntax;
pub mod sysfs;

use super::{Scope, Source, SourceContext};
pub use counters::{Counters, attr};
use opcost_sys::perf::{GenericEvent, generic_event};

/// The source's name.
pub const NAME: &str = "perf_event";

/// The events counted without `-e`: four software events, and six hardware events that fit the counters of common CPUs without
/// multiplexing (Intel: two fixed counters, and four general ones with SMT on; AMD: six general ones).
pub const DEFAULT_EVENTS: [&str; 10] = [
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "cycles",
    "instructions:u",
    "instructions:k",
    "branches",
    "branch-misses",
    "cache-misses",
];

/// Whether an event is one of the kernel's two clocks, which ignore domains: `task-clock:u` and `task-clock:k` both count all time
/// (kernel/events/core.c, task_clock_event_update).
fn is_clock(kind: u32, config: u64) -> bool {
    let clocks = ["cpu-clock", "task-clock"].map(generic_event);
    clocks.contains(&Some(GenericEvent { kind, config }))
}

pub(super) fn make(context: &SourceContext<'_>) -> Box<dyn Source> {
    Box::new(Counters::new(
        context.kernel.clone(),
        context.events.to_vec(),
        context.scope == Scope::Command,
    ))
}
