//! Readers of metrics, and the sampler, of this computer.

#![forbid(unsafe_code)]

pub mod sampling;
pub mod source;

#[cfg(test)]
#[path = "../../../patchpoint/tests/skip.rs"]
mod skip;
