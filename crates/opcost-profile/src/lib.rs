//! From addresses to functions: symbols of kernels and programs, and the events that a sampling
//! profiler produces.
//!
//! No clock and no counter is read here; where samples come from ([`event`]) does not matter to what is
//! made of them.

#![forbid(unsafe_code)]

pub mod event;
pub mod merge;
pub mod ring;
pub mod symbols;
