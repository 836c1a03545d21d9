//! opcost: runs variants of the same fixed work, interleaved, reads every metric there is, and says
//! which shifts are real.
//!
//! The flow has one type per arrow: arguments or TOML ([`experiment`]) → [`plan`] → [`run`] →
//! records → [`store`] → [`comparison`] → bytes ([`render`]). ARCHITECTURE.md has the map.

#![forbid(unsafe_code)]

pub mod calibration;
pub mod cli;
pub mod command;
pub mod comparison;
pub mod exit;
pub mod experiment;
pub mod failure;
pub mod gate;
pub mod gather;
pub mod history;
pub mod hook;
pub mod import;
mod json;
pub mod machine;
pub mod message;
pub mod number;
pub(crate) mod os_text;
pub(crate) mod phases;
pub mod plan;
pub mod progress;
pub mod recording;
pub mod render;
pub mod resolve;
pub mod run;
pub mod sampling;
mod scratch;
pub(crate) mod shipped;
pub mod source;
pub mod stopping;
pub mod store;
pub mod time;
pub mod validation;
pub mod work_process;
