//! How good modelled cycles are: kernels measured on a real core and modelled, and what the pairs of both say.
//!
//! `statistics` is pure. `truth` makes one figure of several runs of opcost-gauge. `kept` keeps what a validation found, so that
//! later estimates cite it.

pub mod kept;
pub mod statistics;
pub mod truth;

pub use statistics::{Case, Report, report};
