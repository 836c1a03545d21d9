//! opcost: runs variants of the same fixed work, interleaved, reads every metric there is, and says
//! which shifts are real.
//!
//! The flow has one type per arrow: arguments or TOML ([`experiment`]) → [`plan`] → [`run`] →
//! records → [`store`] → [`comparison`] → bytes ([`render`]). ARCHITECTURE.md has the map.

#![forbid(unsafe_code)]

pub mod cli;
pub mod command;
pub mod cure;
pub mod first_screen;
