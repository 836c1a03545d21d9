//! From recordings to verdicts: comparison, ledger, attribution, history; pure.

#![forbid(unsafe_code)]

pub mod annotation;
pub mod comparison;
pub mod history;
pub mod patch_sites;
pub mod selftest;
