//! Experiments, settings, plans and recordings.

#![forbid(unsafe_code)]

pub mod experiment;
pub mod guest_settings;
pub mod plan;
pub mod recording;
pub mod validation;
