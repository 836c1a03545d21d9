//! Readers of other tools' results.

#![forbid(unsafe_code)]

pub mod import;
