//! Why a workload gave no result.

use std::error::Error;
use std::fmt::Display;
use std::io;

/// Why a workload gave no result; no figure of such a run is to be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum WorkError {
    /// Something the work needs could not be set up.
    #[error("cannot {what}: {source}; {advice}")]
    Setup { what: String, source: io::Error, advice: &'static str },
    /// The mappings asked for exceed the kernel's limit for one process.
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
        /// Which operation, counted from 1.
        op: u64,
        ops: u64,
        /// What it returned, as the kernel's register value.
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
        /// What one more call returned after the work, as the kernel's register value.
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
        /// Bytes the file will have.
        needed_bytes: u64,
        /// Bytes the file system has left.
        free_bytes: u64,
    },
    /// A block that was read is not what had been written.
    #[error(
        "operation {op} of {ops}: block {block} of the file reads {found:#x}, expected \
         {expected:#x}; the file system or its device loses data: do not trust it"
    )]
    Contents {
        /// Which operation, counted from 1.
        op: u64,
        ops: u64,
        /// The block, counted from 0.
        block: u64,
        found: u64,
        expected: u64,
    },
    /// After the work the file is not what was written.
    #[error("the file in {dir} {what}; the file system or its device loses data: do not trust it")]
    File { dir: String, what: String },
    /// Bytes came back other than they were sent.
    #[error("one of {ops} calls of {call} gave other bytes than were written")]
    WrongBytes { call: &'static str, ops: u64 },
    /// The twin and the work went through different operations, so that the loop's own cost is
    /// unknown.
    #[error(
        "the twin executed operations with hash {twin:016x}, the work {work:016x}; this is a \
         mistake in the workload: please report it"
    )]
    Twin { twin: u64, work: u64 },
    /// The CPU lacks what a code path needs.
    #[error(
        "path={path} needs the CPU feature {feature}, which this CPU lacks or its operating system \
         does not save; choose another path (opcost list workloads)"
    )]
    Feature { path: &'static str, feature: &'static str },
    /// There is no code path of that name.
    #[error("there is no path '{path}'; there are: {}", known.replace('|', ", "))]
    NoPath {
        path: String,
        /// The names there are, with `|` between them.
        known: &'static str,
    },
    /// The workload has no code paths that could be exchanged.
    #[error(
        "this workload has no code paths that can be exchanged while it runs; leave --in-process \
         out, so that each variant has processes of its own"
    )]
    NotExchangeable,
    /// Several tasks do the work, and code is exchanged in a process that works itself.
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
        /// Bytes the work needs.
        needed: u64,
        /// Bytes there are.
        available: u64,
    },
    /// A copy was not exact.
    #[error(
        "path={path} did not copy {bytes} bytes exactly, or wrote beyond them: its figures mean \
         nothing; this is a mistake in the routine: please report it"
    )]
    Copied {
        path: &'static str,
        /// Bytes that were to be copied.
        bytes: usize,
    },
    /// Code could not be patched for a code path.
    #[error("cannot take path={path}: {source}")]
    Patch { path: String, source: patchpoint::Error },
    /// Sites of a code path would be as they were compiled.
    #[error(
        "path={path} needs patched code, which cannot be had here: {reason}; choose a path that is \
         not patched, if the workload has one (opcost list workloads)"
    )]
    Unpatched { path: String, reason: String },
    /// A code path did not do what it is for.
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
    /// What was written through a mapping is not in the file.
    #[error(
        "the mapped file has {found:#04x} at byte {at}, expected {expected:#04x}: what went through \
         the mapping did not reach the file"
    )]
    MappedContent { at: u64, found: u64, expected: u64 },
    /// What was read through a mapping is not what the file has.
    #[error(
        "the bytes read through the mapping add up to {found}, those of the file to {expected}"
    )]
    MappedSum {
        /// Sum of the bytes read.
        found: u64,
        /// Sum of the file's bytes, as often as they were read.
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
    /// The compiler's driver does not say what it starts, or that is not there.
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
        /// Which task, counted from 1.
        index: usize,
        tasks: usize,
        detail: String,
    },
    /// One of several tasks ended without a word.
    #[error("{kind} {index} of {tasks} ended before its work was done: {how}")]
    WorkerDied {
        kind: &'static str,
        /// Which task, counted from 1.
        index: usize,
        tasks: usize,
        /// Its exit status or the signal that ended it.
        how: String,
    },
    /// Both processes and threads were asked for.
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
    /// More tasks than CPUs they may run on.
    #[error(
        "{tasks} tasks on {cpus} CPU{} would wait for each other's turns; lower 'procs' or \
         'threads', give the work more CPUs, or allow it with oversubscribe=on",
        if *cpus == 1 { "" } else { "s" }
    )]
    Oversubscribed { tasks: usize, cpus: usize },
    /// Tasks that had to do the same work did different work.
    #[error(
        "task 1 and task {index} did not do the same work: {name} is {first} and {other}; this is \
         a mistake in the workload: please report it"
    )]
    TasksDiffer {
        name: String,
        /// Which task differs from the first, counted from 1.
        index: usize,
        first: String,
        other: String,
    },
}

impl WorkError {
    /// The error for a library call that just failed; reads `errno` before it writes the text.
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
        // Each C library has words of its own for an errno.
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
