//! The metrics by name: one row each, used by the store, every output format and the help text.
//!
//! To add a metric, add a row to [`METRICS`]; a source then reports readings under that name.
//! An event without a row (a raw code, an event named by sysfs) is counted all the same and described
//! by [`MetricRow::for_unlisted_event`].

use crate::event::Event;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The side of the system call boundary that a metric counts.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Domain {
    /// User and kernel together.
    All,
    /// User mode only (`:u`).
    User,
    /// Kernel mode only (`:k`).
    Kernel,
}

impl Domain {
    /// Every domain, with the word used in files and the suffix used after an event's name.
    pub const NAMES: [(Domain, &'static str, &'static str); 3] =
        [(Domain::All, "all", ""), (Domain::User, "user", ":u"), (Domain::Kernel, "kernel", ":k")];

    /// The word used in files: `all`, `user` or `kernel`.
    pub fn word(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// The suffix of the metric's name in tables: nothing, `:u` or `:k`.
    pub fn suffix(self) -> &'static str {
        Self::NAMES[self as usize].2
    }

    /// Returns the domain with this [`word`](Self::word).
    pub fn from_word(word: &str) -> Option<Domain> {
        Self::NAMES.iter().find(|(_, name, _)| *name == word).map(|(domain, _, _)| *domain)
    }
}

/// The unit of a metric's raw integers.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// Ticks of the time stamp counter.
    Ticks,
    /// Things counted: instructions, faults, switches.
    Count,
}

impl Unit {
    /// The unit as JSON and benchfmt write it; a count is named by its metric, so its unit is "1".
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::Bytes => "bytes",
            Unit::Ticks => "ticks",
            Unit::Count => "1",
        }
    }
}

/// The direction of change that is an improvement.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better: time, instructions, misses.
    Lower,
    /// More is better: throughput.
    Higher,
    /// Neither direction is good or bad by itself.
    Neither,
}

/// How a figure came about; reports name every kind except `Counted` beside the number.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Every occurrence was counted.
    Counted,
    /// Extrapolated from samples.
    Sampled,
    /// The result of a model (caches, branch predictor).
    Modelled,
}

/// The part of a report's error budget that a metric draws on.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// A figure that people decide by; corrected by Holm's method.
    Headline,
    /// Shown and judged, with false discoveries controlled (Benjamini-Hochberg).
    Rest,
    /// A condition of the run (steal time, load): recorded for the ledger, never judged.
    Control,
}

/// A metric: the meaning of its integers.
#[derive(Clone, Debug)]
pub struct MetricRow {
    /// The name used everywhere: tables, `-e`, `--primary`, JSON, CSV.
    pub name: &'static str,
    /// Other names that users know for the same event.
    pub aliases: &'static [&'static str],
    /// The source that counts the metric.
    pub source: &'static str,
    /// The unit of the raw integer.
    pub unit: Unit,
    /// The direction that is an improvement.
    pub better: Better,
    /// Counted, sampled, modelled or estimated.
    pub kind: Kind,
    /// The family for the error budget.
    pub family: Family,
    /// Whether the figure grows with the number of operations (peak memory does not).
    pub per_op: bool,
    /// One line for `opcost list events`.
    pub help: &'static str,
}

impl MetricRow {
    /// Returns the row that describes a perf event without a row of its own.
    pub fn for_unlisted_event() -> &'static MetricRow {
        static ROW: MetricRow = MetricRow {
            name: "event",
            aliases: &[],
            source: "perf_event",
            unit: Unit::Count,
            better: Better::Neither,
            kind: Kind::Counted,
            family: Family::Rest,
            per_op: true,
            help: "an event given by code or named by the kernel's sysfs",
        };
        &ROW
    }

    /// Finds a metric by its name or one of its aliases.
    pub fn find(name: &str) -> Option<&'static MetricRow> {
        METRICS.iter().find(|row| row.name == name || row.aliases.contains(&name))
    }

    /// Returns the row for a name, or the row for unlisted events.
    pub fn describe(name: &str) -> &'static MetricRow {
        static OF_CALLS: MetricRow = row(
            "calls",
            &[],
            EMULATOR,
            Unit::Count,
            Family::Rest,
            "times that a function was entered (--count calls:FUNCTION)",
        );
        if name.starts_with(CALLS) {
            return &OF_CALLS;
        }
        Self::find(name)
            .or_else(|| Event::find(name).map(|event| &event.metric))
            .unwrap_or_else(Self::for_unlisted_event)
    }
}

const fn row(
    name: &'static str,
    aliases: &'static [&'static str],
    source: &'static str,
    unit: Unit,
    family: Family,
    help: &'static str,
) -> MetricRow {
    MetricRow {
        name,
        aliases,
        source,
        unit,
        better: Better::Lower,
        kind: Kind::Counted,
        family,
        per_op: true,
        help,
    }
}

/// A row for an exact event of the emulated machine.
pub(crate) const fn event_row(name: &'static str, unit: Unit, help: &'static str) -> MetricRow {
    row(name, &[], EMULATOR, unit, Family::Rest, help)
}

const fn modelled(name: &'static str, kind: Kind, help: &'static str) -> MetricRow {
    MetricRow { kind, ..row(name, &[], EMULATOR, Unit::Count, Family::Rest, help) }
}

/// A row for the instructions of one of a guest's several CPUs.
const fn of_cpu(name: &'static str, help: &'static str) -> MetricRow {
    row(name, &[], EMULATOR, Unit::Count, Family::Rest, help)
}

/// A row for a footprint over all operations, which does not grow with their number.
const fn in_region(name: &'static str, help: &'static str) -> MetricRow {
    MetricRow { per_op: false, ..row(name, &[], EMULATOR, Unit::Count, Family::Rest, help) }
}

/// A row for a condition of the run, for the ledger's rules.
const fn condition(name: &'static str, unit: Unit, help: &'static str) -> MetricRow {
    MetricRow { per_op: false, ..row(name, &[], "conditions", unit, Family::Control, help) }
}

/// The metric of the times that a program entered a region of its own.
pub const ENTRIES: &str = "region-entries";
/// The metric of the operations that a program performed in a region of its own.
pub const OPERATIONS: &str = "region-ops";

/// A row for a program's statement about a region of its own.
const fn of_region(name: &'static str, help: &'static str) -> MetricRow {
    MetricRow { per_op: false, ..row(name, &[], "regions", Unit::Count, Family::Control, help) }
}

/// A row for a fact about a sampled profile beside its costs.
const fn sampled(name: &'static str, help: &'static str) -> MetricRow {
    MetricRow { per_op: false, ..row(name, &[], "sampling", Unit::Count, Family::Control, help) }
}

const PERF: &str = "perf_event";
/// The source of all counts of the emulator's plugin.
pub const EMULATOR: &str = "emulator";
/// The metric of the kernel's instructions that a program asked for.
pub const SYNCHRONOUS: &str = "instructions-synchronous";
/// The metric of the kernel's instructions in softirqs, RCU's callbacks and the kernel's threads.
pub const DEFERRED: &str = "instructions-deferred";
/// The metric of the kernel's instructions in the timer's interrupts, without the softirqs that they start.
pub const TICK: &str = "instructions-tick";
/// The metric of deferred instructions that a region left behind.
pub const DEFERRED_AFTER: &str = "instructions-deferred-after";
/// The metrics of the lines and pages that operations touch, summed over the operations.
pub const FOOTPRINT: [&str; 4] = ["data-lines", "data-pages", "code-lines", "code-pages"];
/// The metrics of the lines and pages that the whole work touches.
pub const FOOTPRINT_REGION: [&str; 4] =
    ["data-lines-region", "data-pages-region", "code-lines-region", "code-pages-region"];
/// The beginning of the metrics of a function's calls, before the function's name.
pub const CALLS: &str = "calls:";
/// The metric of modelled cycles, the sum of its parts.
pub const MODEL_CYCLES: &str = "model-cycles";

/// The misses of the modelled caches.
pub const MODEL_CACHE_MISSES: [&str; 3] =
    ["model-L1-icache-misses", "model-L1-dcache-misses", "model-LLC-misses"];

/// The parts of [`MODEL_CYCLES`], by what a cycle was spent on or waited for.
pub const CYCLE_PARTS: [&str; 5] = [
    "model-cycles-issue",
    "model-cycles-dependencies",
    "model-cycles-branches",
    "model-cycles-frontend",
    "model-cycles-memory",
];
/// The metric of the memory part's cycles that waited for the last-level cache or memory.
pub const CYCLES_FAR: &str = "model-cycles-far";
/// The metric of instructions that the model of a core does not know.
pub const CYCLES_UNKNOWN: &str = "model-unknown-instructions";
/// The metric of the slices of instructions whose cycles were modelled, if not all were.
pub const CYCLES_SLICES: &str = "model-slices";
/// The metric of the standard error of [`MODEL_CYCLES`] that comes from modelling slices.
pub const CYCLES_ERROR: &str = "model-cycles-standard-error";
/// The most instructions that each modelled instruction may stand for.
pub const ONE_IN_MAX: u16 = 1_000;
/// The source of the figures that a workload reports of its own work.
pub const WORKLOAD: &str = "workload";

/// A row for a figure that a workload reports, the same for any number of operations.
const fn reported(name: &'static str, unit: Unit, better: Better, help: &'static str) -> MetricRow {
    MetricRow { better, per_op: false, ..row(name, &[], WORKLOAD, unit, Family::Rest, help) }
}

/// A row for a fact about modelled slices beside their cycles.
const fn of_slices(name: &'static str, help: &'static str) -> MetricRow {
    let better = Better::Neither;
    MetricRow {
        better,
        per_op: false,
        family: Family::Control,
        ..modelled(name, Kind::Modelled, help)
    }
}

/// Every metric with a name of its own, in the order in which tables show them.
#[rustfmt::skip] // one row a line
pub static METRICS: &[MetricRow] = &[
    row("wall", &["elapsed", "time", "duration_time"], "clock", Unit::Ns, Family::Headline, "elapsed time (CLOCK_MONOTONIC)"),
    row("instructions", &["inst_retired"], PERF, Unit::Count, Family::Headline, "instructions retired"),
    row(SYNCHRONOUS, &[], EMULATOR, Unit::Count, Family::Headline, "instructions retired in the kernel for what a program asked for: system calls, faults, signals"),
    row(DEFERRED, &[], EMULATOR, Unit::Count, Family::Rest, "instructions retired in the kernel by softirqs, RCU callbacks and the kernel's threads"),
    row(TICK, &[], EMULATOR, Unit::Count, Family::Rest, "instructions retired in the kernel by the timer's interrupts, without the softirqs that they start"),
    row(DEFERRED_AFTER, &[], EMULATOR, Unit::Count, Family::Rest, "instructions of deferred work that the region left behind and that ran after it, less the cost of waiting for it"),
    row("cycles", &["cpu-cycles"], PERF, Unit::Count, Family::Headline, "core clock cycles"),
    row("task-clock", &[], PERF, Unit::Ns, Family::Headline, "time on a CPU, user and kernel"),
    row("user-time", &["user", "user_time"], "rusage", Unit::Ns, Family::Headline, "user CPU time (getrusage, wait4); in part estimated from ticks by the kernel"),
    row("system-time", &["system", "sys", "system_time"], "rusage", Unit::Ns, Family::Headline, "system CPU time (getrusage, wait4); in part estimated from ticks by the kernel"),
    row("branches", &["branch-instructions"], PERF, Unit::Count, Family::Headline, "branch instructions retired"),
    row("branch-misses", &[], PERF, Unit::Count, Family::Headline, "mispredicted branches"),
    row("cache-references", &[], PERF, Unit::Count, Family::Rest, "last-level cache accesses (what the CPU maps this event to)"),
    row("cache-misses", &[], PERF, Unit::Count, Family::Headline, "last-level cache misses (what the CPU maps this event to)"),
    row("page-faults", &["faults"], PERF, Unit::Count, Family::Rest, "page faults, minor and major"),
    row("minor-faults", &[], "rusage", Unit::Count, Family::Rest, "page faults served without I/O"),
    row("major-faults", &[], "rusage", Unit::Count, Family::Rest, "page faults that waited for I/O"),
    row("context-switches", &["cs"], PERF, Unit::Count, Family::Rest, "context switches"),
    row("cpu-migrations", &["migrations"], PERF, Unit::Count, Family::Rest, "moves to another CPU"),
    row("voluntary-switches", &[], "rusage", Unit::Count, Family::Rest, "context switches because the task waited"),
    row("involuntary-switches", &[], "rusage", Unit::Count, Family::Rest, "context switches because another task ran"),
    row("storage-reads", &[], "rusage", Unit::Bytes, Family::Rest, "bytes fetched from storage, which no cache of the kernel had"),
    row("storage-writes", &[], "rusage", Unit::Bytes, Family::Rest, "bytes that the kernel has to write to storage: written anew in its page cache"),
    MetricRow { per_op: false, ..row("peak-rss", &["rss_bytes_max"], "rusage", Unit::Bytes, Family::Rest, "largest resident set of any one process") },
    row("tsc", &[], "tsc", Unit::Ticks, Family::Rest, "ticks of the time stamp counter: constant rate, not core cycles"),
    row("cpu-clock", &[], PERF, Unit::Ns, Family::Rest, "time of the CPU's high-resolution timer while the task ran"),
    row("alignment-faults", &[], PERF, Unit::Count, Family::Rest, "unaligned accesses the kernel had to fix"),
    row("emulation-faults", &[], PERF, Unit::Count, Family::Rest, "instructions the kernel had to emulate"),
    row("cgroup-switches", &[], PERF, Unit::Count, Family::Rest, "switches to a task of another cgroup"),
    row("bpf-output", &[], PERF, Unit::Count, Family::Rest, "events written by BPF programs"),
    row("ref-cycles", &[], PERF, Unit::Count, Family::Rest, "cycles at the reference frequency"),
    row("bus-cycles", &[], PERF, Unit::Count, Family::Rest, "bus cycles"),
    row("stalled-cycles-frontend", &["idle-cycles-frontend"], PERF, Unit::Count, Family::Rest, "cycles in which no instruction was issued"),
    row("stalled-cycles-backend", &["idle-cycles-backend"], PERF, Unit::Count, Family::Rest, "cycles in which no instruction retired"),
    row("L1-dcache-loads", &[], PERF, Unit::Count, Family::Rest, "level 1 data cache loads"),
    row("L1-dcache-load-misses", &[], PERF, Unit::Count, Family::Rest, "level 1 data cache load misses"),
    row("L1-dcache-stores", &[], PERF, Unit::Count, Family::Rest, "level 1 data cache stores"),
    row("L1-icache-load-misses", &[], PERF, Unit::Count, Family::Rest, "level 1 instruction cache misses"),
    row("LLC-loads", &[], PERF, Unit::Count, Family::Rest, "last-level cache loads"),
    row("LLC-load-misses", &[], PERF, Unit::Count, Family::Rest, "last-level cache load misses"),
    row("LLC-stores", &[], PERF, Unit::Count, Family::Rest, "last-level cache stores"),
    row("LLC-store-misses", &[], PERF, Unit::Count, Family::Rest, "last-level cache store misses"),
    row("dTLB-loads", &[], PERF, Unit::Count, Family::Rest, "data TLB loads"),
    row("dTLB-load-misses", &[], PERF, Unit::Count, Family::Rest, "data TLB load misses"),
    row("iTLB-load-misses", &[], PERF, Unit::Count, Family::Rest, "instruction TLB misses"),
    row("branch-loads", &[], PERF, Unit::Count, Family::Rest, "branch prediction unit look-ups"),
    row("branch-load-misses", &[], PERF, Unit::Count, Family::Rest, "branch prediction unit misses"),
    row("node-loads", &[], PERF, Unit::Count, Family::Rest, "loads from the local memory node"),
    row("node-load-misses", &[], PERF, Unit::Count, Family::Rest, "loads from a remote memory node"),
    row("string-iterations", &[], EMULATOR, Unit::Count, Family::Rest, "iterations of repeated string instructions (rep movs, rep stos, …), which hardware counts as one instruction"),
    row("conditional-branches", &[], EMULATOR, Unit::Count, Family::Rest, "conditional branches retired"),
    row("conditional-branches-taken", &[], EMULATOR, Unit::Count, Family::Rest, "conditional branches retired that were taken"),
    row("loads", &[], EMULATOR, Unit::Count, Family::Rest, "memory operands read by retired instructions; of a string instruction, one for each iteration"),
    row("stores", &[], EMULATOR, Unit::Count, Family::Rest, "memory operands written by retired instructions; of a string instruction, one for each iteration"),
    row("system-calls", &[], EMULATOR, Unit::Count, Family::Rest, "system calls entered"),
    row(FOOTPRINT[0], &[], EMULATOR, Unit::Count, Family::Rest, "different cache lines (64 bytes) of data that an operation touches (--count footprint)"),
    row(FOOTPRINT[1], &[], EMULATOR, Unit::Count, Family::Rest, "different pages (4 KiB) of data that an operation touches (--count footprint)"),
    row(FOOTPRINT[2], &[], EMULATOR, Unit::Count, Family::Rest, "different cache lines of code that an operation executes (--count footprint)"),
    row(FOOTPRINT[3], &[], EMULATOR, Unit::Count, Family::Rest, "different pages of code that an operation executes (--count footprint)"),
    in_region(FOOTPRINT_REGION[0], "different cache lines of data that all operations together touch (--count footprint)"),
    in_region(FOOTPRINT_REGION[1], "different pages of data that all operations together touch (--count footprint)"),
    in_region(FOOTPRINT_REGION[2], "different cache lines of code that all operations together execute (--count footprint)"),
    in_region(FOOTPRINT_REGION[3], "different pages of code that all operations together execute (--count footprint)"),
    row("interrupts", &[], EMULATOR, Unit::Count, Family::Rest, "interrupts taken"),
    row("pauses", &[], EMULATOR, Unit::Count, Family::Rest, "pause instructions, by which a CPU waits for another in a loop; each ends the CPU's turn (several CPUs)"),
    row("halts", &[], EMULATOR, Unit::Count, Family::Rest, "hlt instructions, by which an idle CPU waits for an interrupt (several CPUs)"),
    MetricRow { better: Better::Neither, ..row("cpu-turns", &[], EMULATOR, Unit::Count, Family::Rest, "times that the emulator went on with another CPU (several CPUs)") },
    of_cpu("instructions-cpu0", "instructions retired on CPU 0 (several CPUs)"),
    of_cpu("instructions-cpu1", "instructions retired on CPU 1 (several CPUs)"),
    of_cpu("instructions-cpu2", "instructions retired on CPU 2 (several CPUs)"),
    of_cpu("instructions-cpu3", "instructions retired on CPU 3 (several CPUs)"),
    of_cpu("instructions-cpu4", "instructions retired on CPU 4 (several CPUs)"),
    of_cpu("instructions-cpu5", "instructions retired on CPU 5 (several CPUs)"),
    of_cpu("instructions-cpu6", "instructions retired on CPU 6 (several CPUs)"),
    of_cpu("instructions-cpu7", "instructions retired on CPU 7 (several CPUs)"),
    row("instruction-starts", &[], EMULATOR, Unit::Count, Family::Control, "instructions begun by the emulator: with string iterations, and with those that faulted"),
    MetricRow { family: Family::Headline, ..modelled(MODEL_CYCLES, Kind::Modelled, "core cycles of the modelled core, of an estimate's accuracy; the parts below add up to them (--cycles)") },
    modelled(CYCLE_PARTS[0], Kind::Modelled, "modelled cycles in which instructions waited for ports, or for the width of the core"),
    modelled(CYCLE_PARTS[1], Kind::Modelled, "modelled cycles in which instructions waited for results of others"),
    modelled(CYCLE_PARTS[2], Kind::Modelled, "modelled cycles lost to mispredicted branches"),
    modelled(CYCLE_PARTS[3], Kind::Modelled, "modelled cycles in which no instructions were fetched or decoded in time"),
    modelled(CYCLE_PARTS[4], Kind::Modelled, "modelled cycles in which instructions waited for caches, address translation or memory"),
    modelled(CYCLES_FAR, Kind::Modelled, "of model-cycles-memory, those that waited for the last-level cache or memory, where the model is weakest"),
    modelled(CYCLES_UNKNOWN, Kind::Modelled, "executed instructions that the model of a core does not know and takes for simple ones"),
    of_slices(CYCLES_SLICES, "slices of instructions whose cycles were modelled, behind the first ten million instructions (--cycles-one-in)"),
    of_slices(CYCLES_ERROR, "standard error of model-cycles that comes from modelling slices (--cycles-one-in)"),
    modelled("model-branch-misses", Kind::Modelled, "branches that the model of a predictor mispredicts"),
    modelled("model-L1-icache-misses", Kind::Modelled, "misses of the model of a level 1 instruction cache"),
    modelled("model-L1-dcache-misses", Kind::Modelled, "misses of the model of a level 1 data cache"),
    modelled("model-LLC-misses", Kind::Modelled, "misses of the model of a last-level cache"),
    row("estimated-cycles", &[], EMULATOR, Unit::Count, Family::Control, "a formula of earlier versions, which is shown no longer; model-cycles (--cycles) has taken its place"),
    reported("task-time-min", Unit::Ns, Better::Lower, "elapsed time of the fastest of several tasks (scale=on)"),
    reported("task-time-max", Unit::Ns, Better::Lower, "elapsed time of the slowest of several tasks (scale=on)"),
    reported("task-fairness-ppm", Unit::Count, Better::Higher, "time of the fastest task over that of the slowest, in millionths: 1,000,000 is fair (scale=on)"),
    MetricRow { per_op: true, ..reported("lock-handovers", Unit::Count, Better::Neither, "acquisitions by another task than the one before") },
    reported("lock-run-max", Unit::Count, Better::Lower, "the most acquisitions by one task in a row"),
    row("steal", &[], "procfs", Unit::Ns, Family::Control, "time the hypervisor gave to others, all CPUs, during the run"),
    row("machine-busy", &[], "procfs", Unit::Ns, Family::Control, "CPU time of everything on the machine during the run, the run itself included"),
    condition("run-window", Unit::Ns, "time over which a run's conditions are read: from before its process is made to after it ended"),
    condition("machine-runnable", Unit::Count, "tasks that could run when the run was begun, opcost included (/proc/loadavg)"),
    condition("other-recordings", Unit::Count, "recordings that this user's other processes made when the run was begun"),
    condition("cpu-pressure", Unit::Ns, "time in which some task waited for a CPU (cpu.pressure of opcost's control group, else /proc/pressure/cpu)"),
    condition("memory-pressure", Unit::Ns, "time in which some task waited for memory (/proc/pressure/memory)"),
    condition("memory-pressure-full", Unit::Ns, "time in which all tasks waited for memory"),
    condition("io-pressure", Unit::Ns, "time in which some task waited for a disk (/proc/pressure/io)"),
    condition("io-pressure-full", Unit::Ns, "time in which all tasks waited for a disk"),
    condition("thermal-throttles", Unit::Count, "times a CPU that may run the work was slowed down because of heat"),
    condition("quota-stall", Unit::Ns, "time in which a CPU quota stopped the control group that the work runs in (cpu.stat)"),
    condition("sibling-busy", Unit::Ns, "CPU time of the threads that share a core with the one the run is pinned to"),
    condition("cpu-frequency-khz", Unit::Count, "clock of the fastest CPU that may run the work when the run had ended, kHz"),
    condition("processes-left", Unit::Count, "processes that a run left behind, alive when it had ended"),
    condition("processes-unended", Unit::Count, "of the processes that a run left behind, those that opcost could not end"),
    of_region(ENTRIES, "times that the program entered its region (--regions)"),
    of_region(OPERATIONS, "operations that the program says it performed in its region (--regions)"),
    condition("temperature-millidegrees", Unit::Count, "hottest thermal zone when the run had ended, thousandths of a degree Celsius"),
    sampled("profile-samples", "samples of the run's profile"),
    sampled("profile-lost", "samples and other events that the profiler had no room for"),
    sampled("profile-throttles", "times that the kernel stopped sampling because samples came too fast"),
    sampled("profile-stacks-cut", "samples whose outer callers are missing: longer than what is kept"),
    sampled("profile-unmapped", "samples at addresses where nothing is known to be mapped"),
];

/// The identity of a figure: name, domain, source and region.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct MetricKey {
    /// Name in [`METRICS`], or the text of an unlisted event.
    pub name: String,
    /// The domain.
    pub domain: Domain,
    /// The source: `perf_event`, `clock`, `rusage`, …
    pub source: String,
    /// The region counted: [`WORK`](crate::WORK), [`TWIN`](crate::TWIN), or one that a program marked.
    pub region: String,
}

impl MetricKey {
    /// Makes a key over the work region.
    pub fn new(name: &str, domain: Domain, source: &str) -> Self {
        MetricKey {
            name: name.to_string(),
            domain,
            source: source.to_string(),
            region: crate::WORK.to_string(),
        }
    }

    /// Returns the row that describes the metric.
    pub fn row(&self) -> &'static MetricRow {
        MetricRow::describe(&self.name)
    }

    /// Whether the program itself marked and named the region.
    pub fn is_of_program_region(&self) -> bool {
        ![crate::WORK, crate::TWIN].contains(&self.region.as_str())
    }

    /// Returns the name with its domain, as `-e` takes it and tables show it: `instructions:k`. The
    /// name of a region that the program marked comes first: `parse/instructions`.
    pub fn label(&self) -> String {
        match self.is_of_program_region() {
            true => format!("{}/{}{}", self.region, self.name, self.domain.suffix()),
            false => format!("{}{}", self.name, self.domain.suffix()),
        }
    }
}

impl fmt::Display for MetricKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_and_aliases_are_unique() {
        let mut seen = HashSet::new();
        for row in METRICS {
            for name in std::iter::once(&row.name).chain(row.aliases) {
                assert!(seen.insert(*name), "{name} stands twice");
                assert!(!name.contains(char::is_whitespace));
            }
        }
    }

    #[test]
    fn domain_words_round_trip() {
        for (domain, word, _) in Domain::NAMES {
            assert_eq!(Domain::from_word(word), Some(domain));
            assert_eq!(domain.word(), word);
        }
        assert_eq!(Domain::from_word("guest"), None);
    }

    #[test]
    fn an_unlisted_event_is_described() {
        assert_eq!(MetricRow::describe("r01c2").name, "event");
        assert_eq!(MetricRow::describe("cs").name, "context-switches");
        assert_eq!(MetricRow::describe("calls:do_mmap").better, Better::Lower);
    }
}
