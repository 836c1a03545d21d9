//! What commands share: their options, the recording that they make, what they print and export.

#![forbid(unsafe_code)]

pub mod chosen;
pub mod exports;
pub mod function_option;
pub mod globals;
pub mod output;
pub mod profile_exports;
pub mod record;
pub mod scan;
pub mod seconds;
pub mod shard;
pub mod share;
pub mod steps;
pub mod variant;
