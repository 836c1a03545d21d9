//! The built-in workloads: known, seeded numbers of operations whose cost is counted.
//!
//! The same code runs on the host and as part of a guest's `/init`. One run is one call of [`measure()`]: prepare, set the
//! conditions, warm up, run the empty *twin* between [`Meter::start`] and [`Meter::stop`], run the work in the same way, report the
//! invariants.
//!
//! The caller uses a fresh process for each run (a seccomp filter cannot be removed), opens its counters before [`measure()`] and
//! with inheritance ([`measure()`] forks processes), and keeps other threads quiet. Inside a counted region this crate does not write
//! output, allocate, take a lock that is not the work, or read a clock unless `scale=on` asks for it. The crate checks the result
//! of every operation, and leaves no process and no mapping behind.
//!
//! To add a workload, write one file with a type that implements [`Work`] and add one row to
//! [`WORKLOADS`].

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the workloads reserve gigabytes of addresses and need a 64-bit target");

mod build;
mod copy;
mod error;
mod figure;
mod fileio;
mod futex;
mod gate;
#[cfg(target_arch = "x86_64")]
mod immediate;
mod invariant;
mod lock;
mod mapfile;
mod marker;
mod measure;
mod mmap;
mod params;
mod patched;
mod pipe;
mod pvops;
mod random;
mod residency;
mod spec;
mod syscall;
mod task;
mod team;
mod unrolled;
mod walk;
mod work;
mod workloads;

#[cfg(test)]
mod in_child;
#[cfg(test)]
#[path = "../../../patchpoint/tests/skip.rs"]
mod skip;

pub use error::WorkError;
pub use invariant::{BYTES_READ, BYTES_WRITTEN, OP_STREAM_HASH, PAGE_FAULTS, PAGE_FAULTS_EXPECTED};
pub use marker::Markers;
pub use measure::{Measured, measure, measure_paths};
pub use params::{ParamError, ParamSpec, Params};
pub use random::Random;
pub use spec::{Prepare, Programs, WorkloadSpec, forks};
pub use work::{Meter, PATH, Work};
pub use workloads::WORKLOADS;
