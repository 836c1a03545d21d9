//! opcost: runs variants of the same fixed work, interleaved, reads every metric there is, and says
//! which shifts are real.
//!
//! This crate is the command line: parse, call, print. The flow is in the crates below; ARCHITECTURE.md has the map.

#![forbid(unsafe_code)]

pub mod cli;
pub mod command;
pub mod cure;
pub mod first_screen;
mod groups;
mod other_tools;
