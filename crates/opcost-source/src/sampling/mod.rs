//! Sampled profiles of this computer: running programs are interrupted many times a second and inspected.
//!
//! ```text
//! SamplingPlan → Recorder (the kernel's events, open) → Intake (what they wrote) → Recorded
//! ```
//!
//! `opcost_profile` interprets samples; this module decides which processes are sampled, and when.

pub mod existing;
mod intake;
mod recorder;

pub use intake::Intake;
pub use recorder::{Collecting, Granted, Recorder};

use crate::source::perf_event;
use anyhow::Result;
use clap::{Args, ValueEnum};
use opcost_base::exit::{Status, fail};
use opcost_base::number::grouped;
use opcost_profile::symbolise::{KernelSource, Sources};
use opcost_record::{Domain, MetricKey};
use opcost_symbols::debug_files::DebugFiles;
use opcost_sys::budget::LIMIT_BYTES;
use opcost_sys::perf::{GenericEvent, STACK_BYTES_MAX, generic_event};
use serde::{Deserialize, Serialize};

/// Default number of samples per second. At 1000, every fourth or tenth sample would fall on the same point of the kernel's timer
/// tick.
pub const FREQUENCY_HZ: u64 = 997;
/// The largest number of samples per second.
const FREQUENCY_HZ_MAX: u64 = 1_000_000;
/// Default number of bytes copied from a user's stack with each sample, for unwinding.
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

/// The settings of sampling, every default resolved.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SamplingPlan {
    /// Samples per second of each busy CPU.
    pub frequency_hz: u64,
    /// How callers are found.
    pub call_graph: CallGraph,
    /// Bytes copied from the user's stack with each sample, if stacks are unwound.
    #[serde(default = "user_stack_bytes")]
    pub user_stack_bytes: u32,
}

/// The value for recordings without this field.
fn user_stack_bytes() -> u32 {
    USER_STACK_BYTES
}

/// How to sample, as the commands that look at what runs take it.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct SamplingArgs {
    /// Samples a second on each busy CPU [default: 997]
    #[arg(long, short = 'F', value_name = "HZ", help_heading = "Sampling")]
    pub frequency: Option<u64>,

    /// How the callers of a sampled function are found [default: fp]
    #[arg(long, value_name = "HOW", help_heading = "Sampling")]
    pub call_graph: Option<CallGraph>,

    /// Bytes of the stack that the kernel copies with each sample for --call-graph dwarf, 8 to
    /// 65528. More bytes find more callers, and cost more [default: 8192]
    #[arg(long, value_name = "BYTES", help_heading = "Sampling")]
    pub stack_bytes: Option<u32>,
}

impl SamplingArgs {
    /// Resolves the arguments into a plan.
    ///
    /// # Errors
    /// A frequency outside the limits, or a size that the kernel does not copy.
    pub fn plan(self) -> Result<SamplingPlan> {
        SamplingPlan::new(self.frequency, self.call_graph, self.stack_bytes)
    }
}

impl SamplingPlan {
    /// Fills in the defaults.
    ///
    /// # Errors
    /// A frequency outside the limits, or a size that the kernel does not copy.
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

    /// Bytes copied from the stack with each sample; `None` if stacks are not unwound.
    pub fn copied_bytes(self) -> Option<u32> {
        (self.call_graph == CallGraph::Dwarf).then_some(self.user_stack_bytes)
    }

    /// The plan in words, for headings: `sampled at 997 Hz`.
    pub fn describe(&self) -> String {
        let how = match self.call_graph {
            CallGraph::Fp => "",
            CallGraph::Dwarf => ", stacks unwound",
            CallGraph::None => ", without callers",
        };
        format!("sampled at {} Hz{how}", self.frequency_hz)
    }
}

/// Generic events by `perf`'s names, in order of preference; the first that the machine has is used.
fn events(names: &[&str]) -> Vec<GenericEvent> {
    names.iter().filter_map(|name| generic_event(name)).collect()
}

/// The sources of names for samples taken on this computer.
pub fn sources() -> Sources {
    Sources {
        kernel: KernelSource::Running,
        // Nothing may ask the network between runs.
        debug_files: DebugFiles::of_environment(None),
        build_id_cache: None,
        inlined: false,
        limit_bytes: LIMIT_BYTES,
    }
}

/// The metric whose value the samples of a process's clock add up to.
pub fn metric() -> MetricKey {
    MetricKey::new("task-clock", Domain::All, perf_event::NAME)
}

/// The events that explain the time of processes on a CPU.
pub fn process_clock() -> Vec<GenericEvent> {
    events(&["task-clock"])
}

/// The events for profiles that no total has to match: cycles, if the CPU counts them.
pub fn cycles_or_clock() -> Vec<GenericEvent> {
    events(&["cycles", "cpu-clock"])
}
