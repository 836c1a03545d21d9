//! Why a process could not be stopped.

use std::io;

/// Why a process could not be stopped. It runs on as before.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum StopError {
    /// The process is gone, or ended meanwhile.
    #[error("process {pid} has ended")]
    Gone { pid: i32 },
    /// Another program traces one of its threads.
    #[error(
        "thread {tid} of process {pid} is traced by process {tracer} already; end that debugger or \
         profiler, or let it detach"
    )]
    Traced { pid: i32, tid: i32, tracer: i32 },
    /// The kernel does not let this process trace that one.
    #[error(
        "no right to stop process {pid} (ptrace: {why}); run as its user or as root, and where \
         /proc/sys/kernel/yama/ptrace_scope is not 0, as root"
    )]
    Denied { pid: i32, why: io::Error },
    /// A thread does not stop, as one in an uninterruptible wait does not.
    #[error(
        "thread {tid} of process {pid} did not stop within {waited_ms} ms; it waits for something \
         that no signal interrupts (state D in ps), so try again later"
    )]
    TooSlow {
        pid: i32,
        tid: i32,
        /// How long was waited, milliseconds.
        waited_ms: u64,
    },
    /// Threads come faster than they can be stopped.
    #[error("process {pid} makes new threads faster than they can be stopped; try again later")]
    TooManyThreads { pid: i32 },
    /// Something else the kernel refuses.
    #[error("cannot {what} of process {pid}: {why}")]
    Kernel { pid: i32, what: &'static str, why: io::Error },
}
