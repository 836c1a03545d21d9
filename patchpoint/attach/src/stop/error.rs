//! The errors of stopping a process.

use std::io;

/// The reason why a process could not be stopped. The process runs on as before.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum StopError {
    /// The process does not exist, or ended meanwhile.
    #[error("process {pid} has ended")]
    Gone { pid: i32 },
    /// Another program traces a thread of the process.
    #[error(
        "thread {tid} of process {pid} is traced by process {tracer} already; end that debugger or \
         profiler, or let it detach"
    )]
    Traced { pid: i32, tid: i32, tracer: i32 },
    /// The kernel does not let this process trace the other one.
    #[error(
        "no right to stop process {pid} (ptrace: {why}); run as its user or as root, and where \
         /proc/sys/kernel/yama/ptrace_scope is not 0, as root"
    )]
    Denied { pid: i32, why: io::Error },
    /// A thread does not stop, for example in an uninterruptible wait.
    #[error(
        "thread {tid} of process {pid} did not stop within {waited_ms} ms; it waits for something \
         that no signal interrupts (state D in ps), so try again later"
    )]
    TooSlow {
        pid: i32,
        tid: i32,
        /// The time waited, milliseconds.
        waited_ms: u64,
    },
    /// Threads appear faster than they can be stopped.
    #[error("process {pid} makes new threads faster than they can be stopped; try again later")]
    TooManyThreads { pid: i32 },
    /// The kernel refused another operation.
    #[error("cannot {what} of process {pid}: {why}")]
    Kernel { pid: i32, what: &'static str, why: io::Error },
}
