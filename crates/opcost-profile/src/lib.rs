//! Names functions by address: from the events that a sampling profiler produces, and from what other
//! profilers wrote.
//!
//! The data flows one way: [`event`]s → [`session`] (addresses become places in files, samples become a
//! [`tree`] of calls) → [`symbolise`] (places become functions).
//!
//! This crate reads no clock and no counter, and handles samples of every origin alike. [`ring`] reads
//! live [`event`]s from the kernel's buffers and [`merge`] sorts them by time; [`unwind`] finds the
//! callers in copied stacks.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod annotate;
pub mod code_costs;
pub mod distortion;
pub mod event;
mod kernel_code;
pub mod losses;
pub mod merge;
pub mod parallel;
pub mod read;
pub mod ring;
pub mod session;
pub mod space;
pub mod symbolise;
pub mod table;
pub mod tree;
pub mod unwind;

#[cfg(test)]
#[path = "../../../patchpoint/tests/skip.rs"]
mod skip;
