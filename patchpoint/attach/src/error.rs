//! Errors of looking at or changing a process.

use crate::registry::FormatError;
use crate::stop::StopError;
use std::io;

/// Why a process cannot be looked at or changed. It continues unchanged unless the text says otherwise.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum AttachError {
    /// There is no such process.
    #[error(
        "there is no process {pid}; give the number of a running program (pgrep -a NAME lists them)"
    )]
    NoProcess { pid: i32 },
    /// The process was there when it was opened, and has ended since.
    #[error("process {pid} has ended")]
    Ended { pid: i32 },
    /// The process executes another program since it was opened.
    #[error(
        "process {pid} executes another program now ({name}), and what it was is gone; begin again with \
         what it is"
    )]
    OtherProgram { pid: i32, name: String },
    /// The kernel does not let this user read or write the process's memory.
    #[error(
        "no right to {what} process {pid}: {why}; nothing was changed in it; run as its user or as \
         root, and where /proc/sys/kernel/yama/ptrace_scope is not 0, as root"
    )]
    Denied { pid: i32, what: &'static str, why: io::Error },
    /// The process has no registry.
    #[error(
        "process {pid} ({name}) does not use patchpoint: no program or library in it has a note of its \
         registry; link it with libpatchpoint (docs/patchpoint.md)"
    )]
    NotUsed { pid: i32, name: String },
    /// The process is a 32-bit program.
    #[error("process {pid} ({name}) is a 32-bit program; patchpoint patches 64-bit ones only")]
    Elf32 { pid: i32, name: String },
    /// The process's registry cannot be understood.
    #[error("cannot read the sites of process {pid}: {why}")]
    Format { pid: i32, why: FormatError },
    /// The process's threads cannot be stopped.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// The change cannot be made.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The process was in the middle of something at every attempt.
    #[error(
        "process {pid} was not at rest in {attempts} attempts over {waited_ms} ms: {why}; nothing was \
         changed; try again when it changes its keys less often"
    )]
    Busy {
        pid: i32,
        why: String,
        attempts: u32,
        /// Time spent on attempts, milliseconds.
        waited_ms: u64,
    },
    /// The bytes to be changed are not the expected ones.
    #[error(
        "process {pid} holds {found} at {address:#x} where {expected} was expected: the program, a \
         debugger or another tool changed it; it is left as it is"
    )]
    Changed {
        pid: i32,
        address: u64,
        /// The expected bytes, in hexadecimal.
        expected: String,
        found: String,
    },
    /// Shared objects with sites were opened or closed meanwhile.
    #[error(
        "process {pid} opened or closed a shared object with sites meanwhile; begin again to include \
         or leave out its sites"
    )]
    OtherObjects { pid: i32 },
    /// A write failed; the earlier writes of the change were undone.
    #[error(
        "cannot write {address:#x} of process {pid}: {why}; everything is as it was before; kernels \
         may forbid it (proc_mem.force_override=never)"
    )]
    Write { pid: i32, address: u64, why: io::Error },
    /// The guardian, which would restore the process, is not running.
    #[error("the guardian, which restores the process if opcost dies, {what}; nothing was changed")]
    Guardian { what: String },
}

/// Why a change cannot be made; nothing was written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ChangeError {
    /// The key has the value already.
    #[error("'{key}' is {value} already, so there would be nothing to compare; give another value")]
    Same { key: String, value: String },
    /// Two of the values are equal.
    #[error("--to {value} is given twice for '{key}'; give each value once")]
    Twice { key: String, value: String },
    /// The key and a function with variants change together.
    #[error(
        "'{key}' and a function that is compiled for each combination of its keys change together, which only the \
         program's own library can do; let the program change the key"
    )]
    Bound { key: String },
    /// A site holds a breakpoint.
    #[error(
        "the site of '{key}' at {address:#x} holds a breakpoint of a debugger or a probe; remove it first"
    )]
    Breakpoint { key: String, address: u64 },
    /// A site holds bytes that the library's rules do not explain.
    #[error(
        "the site of '{key}' at {address:#x} holds {now}, which is neither what it was compiled to nor \
         what the key's value makes of it; another tool changed it"
    )]
    Foreign {
        key: String,
        address: u64,
        /// The bytes that the site holds, in hexadecimal.
        now: String,
    },
    /// The sites can only be written through a second mapping.
    #[error(
        "the program writes the sites of '{key}' through a memfd, because its own /proc is of no use to \
         it; opcost attach cannot write such code"
    )]
    Memfd { key: String },
}
