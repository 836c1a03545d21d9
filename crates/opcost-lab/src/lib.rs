//! From an experiment to records: defaults, machines, runs.

#![forbid(unsafe_code)]

pub mod calibration;
pub mod hook;
pub mod inputs;
pub mod kernel_commits;
pub mod load;
pub mod machine;
pub mod patch_sites;
pub mod progress;
pub mod recorded_code;
pub mod recording;
pub mod resolve;
pub mod run;
pub mod shipped;
pub mod stopping;
pub mod work_process;

#[cfg(test)]
#[path = "../../../patchpoint/tests/skip.rs"]
mod skip;
#[cfg(test)]
mod tests;
