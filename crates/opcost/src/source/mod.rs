//! Sources: who reads the metrics, one file each and one row of [`SOURCES`].
//!
//! A source works in one or more *scopes*. Around a command it is started while the child is
//! held before exec and read after the child has ended. Around a region it is started and
//! stopped by the workload process itself. Attached to a running program it is started and stopped
//! while that goes on. Around any process it reads conditions of the machine before and after,
//! outside the timed window.

mod clock;
mod conditions;
pub mod perf_event;
mod procfs;
mod rusage;
pub mod sampling;
mod tsc;

use anyhow::Result;
use opcost_record::{METRICS, MetricKey, MetricRow, Reading};
use opcost_sys::perf::PerfKernel;
use opcost_sys::spawn::Exit;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// Where a source can read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// From outside, the life of a command from exec to exit.
    Command,
    /// From inside, a region of a workload.
    Region,
    /// From outside, a period of a program that runs already.
    Attached,
    /// From outside, the machine while any process runs.
    Surroundings,
}

/// A counter to open.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct EventPlan {
    /// The metric it gives.
    pub key: MetricKey,
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// `perf_event_attr.config1`.
    pub config1: u64,
    /// `perf_event_attr.config2`.
    pub config2: u64,
    /// Must always be on the hardware (`:D`).
    pub pinned: bool,
    /// Number of the group it is scheduled with, if any.
    pub group: Option<u32>,
}

/// What a source is told when it is made.
pub struct SourceContext<'a> {
    /// Where it will read.
    pub scope: Scope,
    /// Counters to open.
    pub events: &'a [EventPlan],
    /// Who answers perf events.
    pub kernel: Rc<dyn PerfKernel>,
    /// Whether other processes do the work ([`opcost_work::forks`]).
    pub team: bool,
    /// The CPU that the process is pinned to.
    pub cpu: Option<usize>,
    /// Whether somebody samples the process from outside.
    pub sampled: bool,
}

/// One source in use.
pub trait Source {
    /// Opens what it needs; `pid` is the held child, or 0 for this process.
    fn attach(&mut self, pid: i32) -> Result<()> {
        let _ = pid;
        Ok(())
    }

    /// Begins to count.
    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    /// Ends counting.
    fn stop(&mut self) -> Result<()> {
        Ok(())
    }

    /// Adds what its running sums are at this moment, always in the same order, for regions that the
    /// program marks; `None` of a counter that has no place on the hardware. It adds nothing if it
    /// cannot tell before the program ends.
    fn now(&self, sums: &mut Vec<Option<Reading>>) -> Result<()> {
        let _ = sums;
        Ok(())
    }

    /// Gives what was counted between the last start and stop; `exit` tells how a command ended.
    fn read(
        &mut self,
        region: &str,
        exit: Option<&Exit>,
        readings: &mut Vec<Reading>,
    ) -> Result<()>;
}

/// A source: its name as in [`METRICS`], where it can read, how it is made.
pub struct SourceRow {
    /// The name.
    pub name: &'static str,
    /// Where it can read.
    pub scopes: &'static [Scope],
    /// One line for the documentation.
    pub help: &'static str,
    /// Why a metric of this source may be absent from all runs, though the source was read.
    pub absent: fn(Scope) -> &'static str,
    make: fn(&SourceContext<'_>) -> Box<dyn Source>,
}

/// Every source, the outermost first: started in this order, stopped in reverse.
pub static SOURCES: &[SourceRow] = &[
    SourceRow {
        name: conditions::NAME,
        scopes: &[Scope::Surroundings],
        help: "what else went on, and how hot and fast the CPUs were (/proc/pressure, sysfs)",
        absent: |_| "the kernel does not say",
        make: conditions::make,
    },
    SourceRow {
        name: procfs::NAME,
        scopes: &[Scope::Surroundings],
        help: "time stolen by the hypervisor and used by everything on the machine (/proc/stat)",
        absent: |_| "/proc/stat could not be read",
        make: procfs::make,
    },
    SourceRow {
        name: sampling::NAME,
        scopes: &[Scope::Region],
        help: "what a sampled profile has and lacks (--profile)",
        absent: |_| "the runs were not sampled",
        make: sampling::make,
    },
    SourceRow {
        name: rusage::NAME,
        scopes: &[Scope::Command, Scope::Region],
        help: "CPU time, faults, switches and peak memory that the kernel charged (getrusage, wait4)",
        absent: rusage::absent,
        make: rusage::make,
    },
    SourceRow {
        name: clock::NAME,
        scopes: &[Scope::Command, Scope::Region, Scope::Attached],
        help: "elapsed time (CLOCK_MONOTONIC)",
        absent: |_| "no run finished",
        make: clock::make,
    },
    SourceRow {
        name: tsc::NAME,
        scopes: &[Scope::Region],
        help: "time stamp counter (x86 rdtsc, arm64 cntvct)",
        absent: |_| "no such counter, or CPUs that disagree",
        make: tsc::make,
    },
    SourceRow {
        name: perf_event::NAME,
        scopes: &[Scope::Command, Scope::Region, Scope::Attached],
        help: "the kernel's performance events, hardware and software (perf_event_open)",
        absent: |_| "never on the hardware while the work ran; count fewer events at once",
        make: perf_event::make,
    },
];

/// The sources for a scope, ready to be attached.
pub fn sources(context: &SourceContext<'_>) -> Vec<Box<dyn Source>> {
    SOURCES
        .iter()
        .filter(|row| row.scopes.contains(&context.scope))
        .map(|row| (row.make)(context))
        .collect()
}

/// Whether a metric can be read in a scope by a source that always reads all it has.
pub fn reads_always(row: &MetricRow, scope: Scope) -> bool {
    // Counters are opened where the plan says so, and samples are taken where it does.
    ![perf_event::NAME, sampling::NAME].contains(&row.source)
        && SOURCES.iter().any(|source| source.name == row.source && source.scopes.contains(&scope))
}

/// Why a metric may be absent from every run.
pub fn reason_absent(row: &MetricRow, scope: Scope) -> &'static str {
    SOURCES
        .iter()
        .find(|source| source.name == row.source)
        .map_or("not read", |source| (source.absent)(scope))
}

/// Whether `-e` accepts the metric's name.
pub fn is_selectable(row: &MetricRow) -> bool {
    METRICS.iter().any(|known| std::ptr::eq(known, row))
        && row.source != sampling::NAME
        && !SOURCES
            .iter()
            .any(|source| source.name == row.source && source.scopes == [Scope::Surroundings])
}
