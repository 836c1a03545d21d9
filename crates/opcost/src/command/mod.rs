//! Commands, one file each.

pub mod completions;
pub mod man;
