//! The errors of modelled cycles, from kernels that are both measured on a real core and modelled.
//!
//! `statistics` is pure. `truth` combines several runs of opcost-gauge into one figure for each kernel. `kept` stores a
//! validation's result, which later estimates cite.

pub mod kept;
pub mod statistics;
pub mod truth;

pub use statistics::{Case, Report, report};
