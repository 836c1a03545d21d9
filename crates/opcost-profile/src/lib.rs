//! From addresses to functions: symbols of kernels and programs, and the events that a sampling
//! profiler produces.
//!
//! The way is one line: [`event`]s → [`session`] (addresses become places in files, samples become a
//! [`tree`] of calls) → [`symbolise`] (places become functions).
//!
//! No clock and no counter is read here; where samples come from ([`event`]) does not matter to what is
//! made of them. Live ones are read from the kernel's [`ring`] buffers and put in order by [`merge`];
//! stacks that were copied instead of walked are unwound by [`unwind`].

#![forbid(unsafe_code)]

pub mod distortion;
pub mod event;
pub mod losses;
pub mod merge;
pub mod parallel;
pub mod read;
pub mod ring;
pub mod session;
pub mod space;
pub mod symbolise;
pub mod symbols;
pub mod table;
pub mod tree;
pub mod unwind;
