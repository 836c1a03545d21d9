//! The errors of workloads.

use std::error::Error;
use std::fmt::Display;
use std::io;

/// The reason why a workload gave no result; figures of such a run must not be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum WorkError {
    /// A resource of the work could not be set up.
    #[error("cannot {what}: {source}; {advice}")]
    Setup { what: String, source: io::Error, advice: &'static str },
    /// The requested mappings exceed the kernel's limit for one process.
    #[error(
        "neighbours={neighbours} and slots={slots} need {needed} mappings with those the process \
         has, but vm.max_map_count is {limit}; lower 'neighbours', or raise the limit with \
         'sysctl -w vm.max_map_count={needed}'"
    )]
    MapCount {
        /// The parameter `neighbours`.
        neighbours: u64,
        /// The parameter `slots`.
        slots: u64,
        needed: u64,
        /// The value of `vm.max_map_count`.
        limit: u64,
    },
    /// One system call of the counted work failed; the work stopped there.
    #[error("operation {op} of {ops}: {call} {}", outcome(*returned, *expected))]
    Call {
        call: &'static str,
        /// The number of the operation, from 1.
        op: u64,
        ops: u64,
        /// The result, as the kernel's register value.
        returned: usize,
        expected: usize,
    },
    /// At least one of many equal system calls did not give the known result.
    #[error(
        "at least one of {ops} calls of {call} went wrong; called once more it {}",
        outcome(*again, *expected)
    )]
    NullCall {
        call: &'static str,
        ops: u64,
        /// The result of one more call after the work, as the kernel's register value.
        again: usize,
        expected: usize,
    },
    /// The file system has too little room for the file.
    #[error(
        "{dir} has room for {free_bytes} bytes and the file needs {needed_bytes}; lower 'mib', make \
         room, or name another directory with 'dir'"
    )]
    Room {
        dir: String,
        /// The size of the file in bytes.
        needed_bytes: u64,
        /// The free bytes of the file system.
        free_bytes: u64,
    },
    /// A block that was read differs from what was written.
    #[error(
        "operation {op} of {ops}: block {block} of the file reads {found:#x}, expected \
         {expected:#x}; the file system or its device loses data: do not trust it"
    )]
    Contents {
        /// The number of the operation, from 1.
        op: u64,
        ops: u64,
        /// The block, counted from 0.
        block: u64,
        found: u64,
        expected: u64,
    },
    /// After the work, the file differs from what was written.
    #[error("the file in {dir} {what}; the file system or its device loses data: do not trust it")]
    File { dir: String, what: String },
    /// The bytes that came back differ from the bytes sent.
    #[error("one of {ops} calls of {call} gave other bytes than were written")]
    WrongBytes { call: &'static str, ops: u64 },
    /// The twin and the work went through different operations, so the loop's own cost is unknown.
    #[error(
        "the twin executed operations with hash {twin:016x}, the work {work:016x}; this is a \
         mistake in the workload: please report it"
    )]
    Twin { twin: u64, work: u64 },
    /// The CPU lacks a feature that a code path needs.
    #[error(
        "path={path} needs the CPU feature {feature}, which this CPU lacks or its operating system \
         does not save; choose another path (opcost list workloads)"
    )]
    Feature { path: &'static str, feature: &'static str },
    /// No code path has this name.
    #[error("there is no path '{path}'; there are: {}", known.replace('|', ", "))]
    NoPath {
        path: String,
        /// The existing names, separated by `|`.
        known: &'static str,
    },
    /// The workload has no code paths to exchange.
    #[error(
        "this workload has no code paths that can be exchanged while it runs; leave --in-process \
         out, so that each variant has processes of its own"
    )]
    NotExchangeable,
    /// Several tasks do the work, but code can only be exchanged in a process that does the work itself.
    #[error(
        "code paths are exchanged in one process that works itself; use procs=1, threads=0 and \
         scale=off"
    )]
    ExchangeInTeam,
    /// There is less memory than the work needs.
    #[error(
        "source and destination need {needed} bytes of memory, {available} are available; copy less \
         at a time ('size'), or free memory"
    )]
    Memory {
        /// The bytes that the work needs.
        needed: u64,
        /// The available bytes.
        available: u64,
    },
    /// A copy was not exact.
    #[error(
        "path={path} did not copy {bytes} bytes exactly, or wrote beyond them: its figures mean \
         nothing; this is a mistake in the routine: please report it"
    )]
    Copied {
        path: &'static str,
        /// The bytes to be copied.
        bytes: usize,
    },
    /// Code could not be patched for a code path.
    #[error("cannot take path={path}: {source}")]
    Patch { path: String, source: patchpoint::Error },
    /// Sites of a code path would stay unpatched.
    #[error(
        "path={path} needs patched code, which cannot be had here: {reason}; choose a path that is \
         not patched, if the workload has one (opcost list workloads)"
    )]
    Unpatched { path: String, reason: String },
    /// A code path gave a wrong result.
    #[error(
        "path={path} gave {found:#x} where {expected:#x} is right: its figures mean nothing; this is \
         a mistake in the workload: please report it"
    )]
    Wrong { path: String, found: u64, expected: u64 },
    /// A lock let two tasks in at the same time.
    #[error(
        "the lock '{lock}' counted {counted} acquisitions where there were {expected}: two tasks \
         had it at the same time; this is a mistake in the lock: please report it"
    )]
    Unprotected { lock: &'static str, counted: u64, expected: u64 },
    /// The file lacks bytes that were written through a mapping.
    #[error(
        "the mapped file has {found:#04x} at byte {at}, expected {expected:#04x}: what went through \
         the mapping did not reach the file"
    )]
    MappedContent { at: u64, found: u64, expected: u64 },
    /// Bytes read through a mapping differ from the file's bytes.
    #[error(
        "the bytes read through the mapping add up to {found}, those of the file to {expected}"
    )]
    MappedSum {
        /// Sum of the bytes read.
        found: u64,
        /// Sum of the file's bytes, times the number of reads.
        expected: u64,
    },
    /// There is no compiler.
    #[error(
        "no C compiler '{name}': {why}; install one (Debian: apt install gcc) or name another with cc="
    )]
    NoCompiler {
        /// The parameter `cc`.
        name: String,
        why: String,
    },
    /// The compiler's driver does not name the programs that it starts, or one of them is missing.
    #[error(
        "the compiler {compiler} cannot be packed: {why}; install all of it (Debian: apt install \
         gcc), or name gcc or clang with cc="
    )]
    CompilerPrograms { compiler: String, why: String },
    /// The compiler refused a source file, or died.
    #[error("{compiler} {how} on {file}: {said}")]
    Compiler { compiler: String, file: String, how: String, said: String },
    /// Two builds of the same sources made different objects.
    #[error(
        "the objects of the last build differ from the first's (hash {last:016x}, {first:016x}): \
         this compiler does not make the same objects of the same sources; name another with cc="
    )]
    OtherObjects { first: u64, last: u64 },
    /// The seccomp filter could not be installed.
    #[error("cannot set the condition seccomp={mode}: {source}; use seccomp=off")]
    Seccomp { mode: String, source: Box<dyn Error + Send + Sync> },
    /// One of several tasks reported an error.
    #[error("{kind} {index} of {tasks}: {detail}")]
    Worker {
        kind: &'static str,
        /// The number of the task, from 1.
        index: usize,
        tasks: usize,
        detail: String,
    },
    /// One of several tasks ended without a report.
    #[error("{kind} {index} of {tasks} ended before its work was done: {how}")]
    WorkerDied {
        kind: &'static str,
        /// The number of the task, from 1.
        index: usize,
        tasks: usize,
        /// The task's exit status, or the signal that ended the task.
        how: String,
    },
    /// Both processes and threads were requested.
    #[error(
        "procs={procs} and threads={threads}: the tasks are either processes or threads; leave \
         procs at 1, or threads at 0"
    )]
    TwoKindsOfTasks {
        /// The parameter `procs`.
        procs: u64,
        /// The parameter `threads`.
        threads: u64,
    },
    /// There are more tasks than CPUs that they may use.
    #[error(
        "{tasks} tasks on {cpus} CPU{} would wait for each other's turns; lower 'procs' or \
         'threads', give the work more CPUs, or allow it with oversubscribe=on",
        if *cpus == 1 { "" } else { "s" }
    )]
    Oversubscribed { tasks: usize, cpus: usize },
    /// Tasks that must do the same work did different work.
    #[error(
        "task 1 and task {index} did not do the same work: {name} is {first} and {other}; this is \
         a mistake in the workload: please report it"
    )]
    TasksDiffer {
        name: String,
        /// The number of the task that differs from the first, from 1.
        index: usize,
        first: String,
        other: String,
    },
}

impl WorkError {
    /// Returns the error for a library call that just failed; reads `errno` before writing the text.
    pub(crate) fn setup(what: impl Display, advice: &'static str) -> Self {
        let source = io::Error::last_os_error();
        WorkError::Setup { what: what.to_string(), source, advice }
    }
}

fn outcome(returned: usize, expected: usize) -> String {
    // Linux returns -4095..=-1 for errors (include/linux/err.h, MAX_ERRNO).
    match returned.wrapping_neg() {
        errno @ 1..=4095 => format!("failed: {}", io::Error::from_raw_os_error(errno as i32)),
        _ if returned == expected => format!("returned {returned:#x}, as it has to"),
        _ => format!("returned {returned:#x}, expected {expected:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_is_named_with_its_number_and_errno() {
        let error = WorkError::Call {
            call: "munmap",
            op: 17,
            ops: 100,
            returned: (-libc::ENOMEM as isize) as usize,
            expected: 0,
        };
        // Each C library has its own words for an errno.
        let enomem = io::Error::from_raw_os_error(libc::ENOMEM);
        assert_eq!(error.to_string(), format!("operation 17 of 100: munmap failed: {enomem}"));
        let error = WorkError::NullCall { call: "getppid", ops: 5, again: 0x10, expected: 0x20 };
        assert_eq!(
            error.to_string(),
            "at least one of 5 calls of getppid went wrong; \
             called once more it returned 0x10, expected 0x20"
        );
    }
}
