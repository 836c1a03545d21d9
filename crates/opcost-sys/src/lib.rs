//! The Linux edge: all requests to the kernel that have no safe wrapper elsewhere.
//!
//! The laboratory's unsafe code lives in this crate and in `opcost-work`; callers see safe functions and typed errors only.

pub mod access;
pub mod affinity;
pub mod allocator;
pub mod budget;
pub mod capability;
pub mod clock;
pub mod deferred;
pub mod devices;
pub mod entropy;
pub mod errno;
pub mod file_size;
pub mod foreign_file;
pub mod interrupt;
pub mod loopback;
pub mod marker;
pub mod orphans;
pub mod perf;
pub mod personality;
pub mod port;
pub mod presence;
pub mod processes;
pub mod ptrace;
pub mod rusage;
pub mod scheduling;
pub mod seccomp;
pub mod session;
pub mod spawn;
mod syscall;
pub mod user;
pub mod xdg;

#[cfg(test)]
#[path = "../../../patchpoint/tests/skip.rs"]
mod skip;
