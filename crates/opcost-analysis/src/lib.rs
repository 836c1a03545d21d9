//! From recordings to verdicts: comparison, ledger, attribution, history; pure.

#![forbid(unsafe_code)]

pub mod comparison;
pub mod history;
pub mod selftest;

pub use opcost_attribution::{annotation, calls, patch_sites, split};
