//! Commits of a repository, built and counted: `opcost gate`, `series` and `bisect`.

#![forbid(unsafe_code)]

pub mod bisect;
pub mod gate;
mod trees;
