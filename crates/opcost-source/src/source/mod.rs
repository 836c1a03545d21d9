//! Sources: the readers of metrics, one file and one row of [`SOURCES`] each.
//!
//! A source works in one or more *scopes*. For a command, a source is started while the child is held before exec, and read after
//! the child has ended. For a region, the workload process starts and stops the source itself. For a running program, the source is
//! started and stopped while the program continues. Around any process, a source reads conditions of the machine before and after
//! the process, outside the timed window.

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

/// The object that a source reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// The life of a command from exec to exit, read from outside.
    Command,
    /// A region of a workload, read from inside.
    Region,
    /// A period of a running program, read from outside.
    Attached,
    /// The machine while any process runs, read from outside.
    Surroundings,
}

/// A counter to open.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct EventPlan {
    /// The counter's metric.
    pub key: MetricKey,
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// `perf_event_attr.config1`.
    pub config1: u64,
    /// `perf_event_attr.config2`.
    pub config2: u64,
    /// Whether the counter must always be on the hardware (`:D`).
    pub pinned: bool,
    /// Number of the group with which the counter is scheduled, if any.
    pub group: Option<u32>,
}

/// The facts from which a source is created.
pub struct SourceContext<'a> {
    /// The scope in which the source will read.
    pub scope: Scope,
    /// Counters to open.
    pub events: &'a [EventPlan],
    /// The kernel that answers perf events, or a substitute.
    pub kernel: Rc<dyn PerfKernel>,
    /// Whether other processes do the work ([`opcost_work::forks`]).
    pub team: bool,
    /// The CPU to which the process is pinned.
    pub cpu: Option<usize>,
    /// Whether the process is sampled from outside.
    pub sampled: bool,
}

/// One source in use.
pub trait Source {
    /// Opens the source; `pid` is the held child, or 0 for this process.
    fn attach(&mut self, pid: i32) -> Result<()> {
        let _ = pid;
        Ok(())
    }

    /// Starts counting.
    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    /// Stops counting.
    fn stop(&mut self) -> Result<()> {
        Ok(())
    }

    /// Adds the current values of the source's running sums, always in the same order, for regions that the program marks. The
    /// value is `None` for a counter without a place on the hardware. A source whose sums are known only at the program's end adds
    /// nothing.
    fn now(&self, sums: &mut Vec<Option<Reading>>) -> Result<()> {
        let _ = sums;
        Ok(())
    }

    /// Adds the readings between the last start and stop; `exit` describes the end of a command.
    fn read(
        &mut self,
        region: &str,
        exit: Option<&Exit>,
        readings: &mut Vec<Reading>,
    ) -> Result<()>;
}

/// A source: its name as in [`METRICS`], its scopes and its constructor.
pub struct SourceRow {
    /// The name.
    pub name: &'static str,
    /// The scopes in which the source can read.
    pub scopes: &'static [Scope],
    /// One line for the documentation.
    pub help: &'static str,
    /// Why a metric of this source may be absent from all runs even though the source was read.
    pub absent: fn(Scope) -> &'static str,
    make: fn(&SourceContext<'_>) -> Box<dyn Source>,
}

/// Every source, the outermost first. Sources are started in this order and stopped in reverse.
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

/// The sources of a scope, ready to be attached.
pub fn sources(context: &SourceContext<'_>) -> Vec<Box<dyn Source>> {
    SOURCES
        .iter()
        .filter(|row| row.scopes.contains(&context.scope))
        .map(|row| (row.make)(context))
        .collect()
}

/// Whether a source that always reads all its metrics reads this metric in a scope.
pub fn reads_always(row: &MetricRow, scope: Scope) -> bool {
    // Counters are opened, and samples are taken, only if the plan says so.
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
