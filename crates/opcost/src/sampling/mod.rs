//! Sampled profiles of this computer: what runs is interrupted many times a second and looked at.
//!
//! ```text
//! SamplingPlan → Recorder (the kernel's events, open) → Intake (what they wrote) → Recorded
//! ```
//!
//! What a sample means is the business of `opcost_profile`; here is who is looked at, and when.

pub mod existing;
mod intake;
mod recorder;

pub use intake::Intake;
pub use recorder::{Collecting, Granted, Recorder};

use crate::exit::{Status, fail};
use crate::number::grouped;
use crate::source::perf_event;
use anyhow::Result;
use clap::{Args, ValueEnum};
use opcost_profile::symbolise::{KernelSource, Sources};
use opcost_profile::symbols::program::DEBUG_FILES;
use opcost_record::{Domain, MetricKey};
use opcost_sys::perf::{GenericEvent, STACK_BYTES_MAX, generic_event};
use serde::{Deserialize, Serialize};

/// Samples a second unless asked otherwise; not 1000, which would look at every fourth or tenth
/// tick of the kernel's own timer at the same point.
pub const FREQUENCY_HZ: u64 = 997;
/// The most samples a second that can be asked for.
const FREQUENCY_HZ_MAX: u64 = 1_000_000;
/// Bytes of a user's stack that are copied with each sample for unwinding, unless asked otherwise.
const USER_STACK_BYTES: u32 = 8192;

/// How the callers of what was interrupted are found.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum CallGraph {
    /// By frame pointers, which the kernel and some distributions' programs keep
    #[default]
    Fp,
    /// By unwind information, from a copy of the top of the stack: dearer, for any program
    Dwarf,
    /// Not at all
    None,
}

/// How to sample, every default resolved.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SamplingPlan {
    /// Samples a second, of each CPU that is busy.
    pub frequency_hz: u64,
    /// How callers are found.
    pub call_graph: CallGraph,
    /// Bytes of the user's stack that are copied with each sample, where stacks are unwound.
    #[serde(default = "user_stack_bytes")]
    pub user_stack_bytes: u32,
}

/// What recordings have that do not say.
fn user_stack_bytes() -> u32 {
    USER_STACK_BYTES
}

/// How to sample, as the commands that look at what runs take it.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct SamplingArgs {
    /// Samples a second, of each CPU that is busy [default: 997]
    #[arg(long, short = 'F', value_name = "HZ", help_heading = "Sampling")]
    pub frequency: Option<u64>,

    /// How the callers of what was interrupted are found [default: fp]
    #[arg(long, value_name = "HOW", help_heading = "Sampling")]
    pub call_graph: Option<CallGraph>,

    /// Bytes of the stack that are copied with each sample for --call-graph dwarf, 8 to 65528: more
    /// reach further out, and cost more [default: 8192]
    #[arg(long, value_name = "BYTES", help_heading = "Sampling")]
    pub stack_bytes: Option<u32>,
}

impl SamplingArgs {
    /// The plan.
    ///
    /// # Errors
    /// A frequency that no machine has; a size that the kernel does not copy.
    pub fn plan(self) -> Result<SamplingPlan> {
        SamplingPlan::new(self.frequency, self.call_graph, self.stack_bytes)
    }
}

impl SamplingPlan {
    /// Fills in the defaults.
    ///
    /// # Errors
    /// A frequency that no machine has; a size that the kernel does not copy.
    pub fn new(
        frequency_hz: Option<u64>,
        call_graph: Option<CallGraph>,
        stack_bytes: Option<u32>,
    ) -> Result<SamplingPlan> {
        let frequency_hz = frequency_hz.unwrap_or(FREQUENCY_HZ);
        if !(1..=FREQUENCY_HZ_MAX).contains(&frequency_hz) {
            return Err(fail(
                Status::Usage,
                format!("--frequency {frequency_hz}: give 1 to 1,000,000 samples a second"),
            ));
        }
        let call_graph = call_graph.unwrap_or_default();
        if let Some(bytes) = stack_bytes {
            let usage = |why: &str| fail(Status::Usage, format!("--stack-bytes {bytes}: {why}"));
            if call_graph != CallGraph::Dwarf {
                return Err(usage("only copied stacks have a size; add --call-graph dwarf"));
            }
            if !(8..=STACK_BYTES_MAX).contains(&bytes) || bytes % 8 != 0 {
                return Err(usage(&format!(
                    "the kernel copies 8 to {} bytes, a multiple of 8",
                    grouped(STACK_BYTES_MAX.into())
                )));
            }
        }
        let user_stack_bytes = stack_bytes.unwrap_or(USER_STACK_BYTES);
        Ok(SamplingPlan { frequency_hz, call_graph, user_stack_bytes })
    }

    /// Bytes of the stack that are copied with each sample; `None` where stacks are not unwound.
    pub fn copied_bytes(self) -> Option<u32> {
        (self.call_graph == CallGraph::Dwarf).then_some(self.user_stack_bytes)
    }

    /// The plan in words, for headings: `sampled 997 times a second`.
    pub fn describe(&self) -> String {
        let how = match self.call_graph {
            CallGraph::Fp => "",
            CallGraph::Dwarf => ", stacks unwound",
            CallGraph::None => ", without callers",
        };
        format!("sampled at {} Hz{how}", self.frequency_hz)
    }
}

/// Generic events by the names that `perf` knows; of each the first that the machine has is used.
fn events(names: &[&str]) -> Vec<GenericEvent> {
    names.iter().filter_map(|name| generic_event(name)).collect()
}

/// Where the names of what was sampled here come from.
pub fn sources() -> Sources {
    Sources {
        kernel: KernelSource::Running,
        debug_files: DEBUG_FILES.into(),
        build_id_cache: None,
        inlined: false,
    }
}

/// The metric that samples of a process's clock are parts of.
pub fn metric() -> MetricKey {
    MetricKey::new("task-clock", Domain::All, perf_event::NAME)
}

/// What to sample of processes whose time on a CPU is to be explained.
pub fn process_clock() -> Vec<GenericEvent> {
    events(&["task-clock"])
}

/// What to sample where nothing is to be added up: cycles, where the CPU counts them.
pub fn cycles_or_clock() -> Vec<GenericEvent> {
    events(&["cycles", "cpu-clock"])
}
