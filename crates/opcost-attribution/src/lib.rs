//! The function and the instruction that each cost of a profile belongs to, and the same function on several sides; pure.

#![forbid(unsafe_code)]

pub mod address_costs;
pub mod address_runs;
pub mod annotation;
pub mod calls;
pub mod function_costs;
pub mod matching;
pub mod patch_sites;
pub mod split;
