//! The reasons why the kernel refused to open a counter, and their remedies.

use super::constants::{
    KIND_BREAKPOINT, KIND_HARDWARE, KIND_HW_CACHE, KIND_RAW, KIND_SOFTWARE, KIND_TRACEPOINT,
    generic_name,
};
use super::{EventAttr, has_cpu_pmu, perf_event_paranoid};
use crate::errno;
use std::fmt;
use std::fs;
use std::path::Path;

/// Facts about the machine and this process's rights that an explanation needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OpenContext {
    /// The level of `kernel.perf_event_paranoid`, if it could be read.
    pub perf_event_paranoid: Option<i32>,
    /// Whether this process has CAP_PERFMON or CAP_SYS_ADMIN.
    pub privileged: bool,
    /// Whether the kernel has a driver for the CPU's counters.
    pub has_cpu_pmu: bool,
    /// Whether this is a virtual machine.
    pub in_vm: bool,
}

impl OpenContext {
    /// Detects the context of this process from procfs and sysfs, mounted at the given places.
    ///
    /// Unreadable facts count as absent: no rights, no driver, no virtual machine.
    pub fn detect(proc_root: &Path, sysfs_root: &Path) -> Self {
        OpenContext {
            perf_event_paranoid: perf_event_paranoid(proc_root),
            privileged: privileged(proc_root),
            has_cpu_pmu: has_cpu_pmu(sysfs_root),
            in_vm: in_vm(proc_root, sysfs_root),
        }
    }
}

/// CAP_SYS_ADMIN and CAP_PERFMON, bits 21 and 38 of `<linux/capability.h>`; perfmon_capable() of
/// include/linux/capability.h takes either.
const CAPABILITIES: u64 = 1 << 21 | 1 << 38;

fn privileged(proc_root: &Path) -> bool {
    let status = fs::read_to_string(proc_root.join("self/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & CAPABILITIES != 0)
}

fn in_vm(proc_root: &Path, sysfs_root: &Path) -> bool {
    // x86 shows CPUID's hypervisor bit as a flag; Arm guests have a device tree node; Xen has a file in sysfs.
    let cpuinfo = fs::read_to_string(proc_root.join("cpuinfo")).unwrap_or_default();
    let flagged = cpuinfo
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"));
    flagged
        || proc_root.join("device-tree/hypervisor").exists()
        || sysfs_root.join("hypervisor/type").exists()
}

/// The reason why an event is unavailable and the next step for the user; one line each.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The reason.
    pub reason: String,
    /// The next step.
    pub remedy: String,
}

impl Refusal {
    fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Refusal { reason: reason.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unavailable: {}; {}", self.reason, self.remedy)
    }
}

/// Explains an error of [`PerfKernel::open`](super::PerfKernel::open).
///
/// `errno`: the kernel's error number; `attr`: the requested event; `context`: the machine and the rights. The result is text for
/// people; it never stands for a count.
///
/// Source: `perf_event_open(2)`, ERRORS; kernel/events/core.c (perf_event_open, perf_allow_kernel).
pub fn explain(errno: i32, attr: &EventAttr, context: &OpenContext) -> Refusal {
    match errno {
        libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO
            if uses_cpu_pmu(attr) && !context.has_cpu_pmu =>
        {
            no_cpu_pmu(context)
        }
        libc::ENOENT | libc::ENXIO => unknown_event(attr),
        libc::EOPNOTSUPP => Refusal::new(
            format!("the PMU cannot count {} in this way", described(attr)),
            "choose another event, or ask for fewer modifiers",
        ),
        libc::ENODEV => Refusal::new(
            format!("this CPU lacks what {} needs", described(attr)),
            "choose an event that `perf list` shows on this machine",
        ),
        libc::EINVAL => invalid(attr),
        libc::EACCES | libc::EPERM => forbidden(errno, attr, context),
        libc::EBUSY => Refusal::new(
            "another user has the PMU, or the counter it needs, to itself",
            "stop other profilers, or turn the NMI watchdog off (sysctl kernel.nmi_watchdog=0)",
        ),
        libc::ENOSPC => Refusal::new(
            "no counter or breakpoint register is left for this event",
            "count fewer events in one group",
        ),
        libc::EMFILE => Refusal::new(
            "this process has as many open files as it may, and each counter is one",
            "raise the limit (ulimit -n) or count fewer events",
        ),
        libc::ENFILE => Refusal::new(
            "the system has as many open files as it may, and each counter is one",
            "raise the limit (sysctl fs.file-max) or count fewer events",
        ),
        libc::ENOSYS => Refusal::new(
            "perf_event_open is not there: the kernel was built without perf events, or a \
             container's seccomp filter hides it",
            "allow perf_event_open in the container's seccomp profile, or boot a kernel with \
             CONFIG_PERF_EVENTS",
        ),
        libc::E2BIG => Refusal::new(
            "the kernel is too old for this event: it does not know a field that the event needs",
            if attr.config3 != 0 {
                "config3 needs Linux 6.3; leave it out or use a newer kernel"
            } else {
                "use a newer kernel, or an event without config1 and config2"
            },
        ),
        libc::ESRCH => Refusal::new(
            "the process to count had already ended",
            "check that the command starts at all",
        ),
        libc::ENOMEM => Refusal::new(
            "the kernel had no memory for another counter",
            "free memory or count fewer events",
        ),
        other => Refusal::new(
            format!("perf_event_open failed for {}: {}", described(attr), error_name(other)),
            "see ERRORS in perf_event_open(2)",
        ),
    }
}

fn error_name(number: i32) -> String {
    match errno::name(number) {
        Some(name) => name.to_string(),
        None => format!("error {number}"),
    }
}

/// Whether the CPU's own counters count the event. Later kernels put a PMU's number in the upper half of the config of the first
/// two kinds; that does not change the answer.
fn uses_cpu_pmu(attr: &EventAttr) -> bool {
    matches!(attr.kind, KIND_HARDWARE | KIND_HW_CACHE | KIND_RAW)
}

fn described(attr: &EventAttr) -> String {
    let config = attr.config;
    if let Some(name) = generic_name(attr.kind, config) {
        return format!("'{name}'");
    }
    match attr.kind {
        KIND_HARDWARE => format!("hardware event {config:#x}"),
        KIND_SOFTWARE => format!("software event {config}"),
        KIND_TRACEPOINT => format!("tracepoint {config}"),
        KIND_HW_CACHE => format!("cache event {config:#x}"),
        KIND_RAW => format!("raw event {config:#x}"),
        KIND_BREAKPOINT => "a breakpoint".to_string(),
        kind => format!("event {config:#x} of PMU {kind}"),
    }
}

fn no_cpu_pmu(context: &OpenContext) -> Refusal {
    if context.in_vm {
        Refusal::new(
            "no hardware counters here: this virtual machine was given no PMU",
            "give it one in the hypervisor (QEMU with KVM: -cpu host,pmu=on), or count software \
             events",
        )
    } else {
        Refusal::new(
            "no hardware counters here: the kernel has no driver for this CPU's PMU",
            "look for 'PMU' in the kernel's log (dmesg), or count software events",
        )
    }
}

fn unknown_event(attr: &EventAttr) -> Refusal {
    let event = described(attr);
    match attr.kind {
        KIND_SOFTWARE => Refusal::new(
            format!("this kernel does not know {event}"),
            "use a newer kernel, or an event that `perf list sw` shows",
        ),
        KIND_TRACEPOINT => Refusal::new(
            format!("this kernel has no {event}"),
            "read the number again from tracefs (events/*/*/id); it changes from boot to boot",
        ),
        KIND_BREAKPOINT => {
            Refusal::new("this machine has no hardware breakpoints", "count another event")
        }
        kind if kind > KIND_BREAKPOINT => Refusal::new(
            format!("no PMU has the number {kind}, or it does not count {event}"),
            "check type and format in /sys/bus/event_source/devices; its module may not be loaded",
        ),
        _ => Refusal::new(
            format!("this CPU's PMU does not count {event}"),
            "choose an event that `perf list` shows on this machine",
        ),
    }
}

fn invalid(attr: &EventAttr) -> Refusal {
    let event = described(attr);
    if attr.pinned {
        return Refusal::new(
            format!(
                "the kernel rejects {event}: its code is invalid, its group does not fit the \
                     hardware, or it is pinned without leading its group"
            ),
            "pin only the first event of a group, and count fewer events in one group",
        );
    }
    Refusal::new(
        format!(
            "the kernel rejects {event}: its code or a modifier is invalid, or its group does \
                 not fit the hardware"
        ),
        "check the code, drop modifiers, or count fewer events in one group",
    )
}

/// The meaning of perf_event_paranoid: at 2 an unprivileged process may count the user mode of its own processes, at 1 also the
/// kernel on their behalf, at 0 also whole CPUs. The levels 3 (Debian) and 4 (Ubuntu) are the distributions' own and allow nothing.
fn forbidden(errno: i32, attr: &EventAttr, context: &OpenContext) -> Refusal {
    let needed = if attr.exclude_kernel { 2 } else { 1 };
    if context.privileged {
        return Refusal::new(
            format!(
                "the kernel forbids {} though this process has CAP_PERFMON: a seccomp filter, a \
                 security module or kernel lockdown stands before it, or the PMU cannot leave out \
                 a domain",
                described(attr)
            ),
            "allow perf_event_open in the container's seccomp profile, or drop :u, :k and :h",
        );
    }
    match context.perf_event_paranoid {
        None => Refusal::new(
            format!(
                "perf events are forbidden here ({}), and perf_event_paranoid cannot be read",
                error_name(errno)
            ),
            "run as root or with CAP_PERFMON; in a container, allow perf_event_open",
        ),
        Some(level) if level > 2 => Refusal::new(
            format!(
                "perf_event_paranoid is {level}: this distribution lets unprivileged users count \
                 nothing"
            ),
            format!(
                "set it to {needed} (sysctl kernel.perf_event_paranoid={needed}), or grant \
                     CAP_PERFMON"
            ),
        ),
        Some(level) if level > needed => Refusal::new(
            format!(
                "perf_event_paranoid is {level}: unprivileged users may count user mode only, and \
                 counting the kernel needs {needed} or lower"
            ),
            format!(
                "count user mode only (:u), set it to {needed} (sysctl \
                     kernel.perf_event_paranoid={needed}), or grant CAP_PERFMON"
            ),
        ),
        Some(level) => Refusal::new(
            format!(
                "perf_event_paranoid is {level}, which allows this for one's own processes: the \
                 process is another user's or set-user-ID, the whole CPU was asked for (needs 0), \
                 or a container's filter forbids it"
            ),
            "count your own processes, run as root, or grant CAP_PERFMON",
        ),
    }
}

#[cfg(test)]
#[path = "refusal_tests.rs"]
mod tests;
