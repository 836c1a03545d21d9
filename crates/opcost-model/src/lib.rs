//! Experiments, settings, plans and recordings.

#![forbid(unsafe_code)]

pub mod experiment;
pub mod plan;
pub mod recording;
pub mod validation;
