//! The kernel's performance events (`perf_event_open(2)`).
//!
//! Counters are opened on the process to be measured and inherited by its children. For a command
//! they start at exec; for a region the workload process switches them on and off. Each is read
//! by itself while it is off, with its enabled and running times.

mod counters;
pub mod syntax;
pub mod sysfs;

use super::{Scope, Source, SourceContext};
pub use counters::{Counters, attr};

/// The source's name.
pub const NAME: &str = "perf_event";

/// What is counted when `-e` is not given: four software events, and six hardware events that fit
/// the counters of common CPUs without multiplexing (Intel: two of them fixed, four general with
/// SMT on; AMD: six general).
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

pub(super) fn make(context: &SourceContext<'_>) -> Box<dyn Source> {
    Box::new(Counters::new(
        context.kernel.clone(),
        context.events.to_vec(),
        context.scope == Scope::Command,
    ))
}
