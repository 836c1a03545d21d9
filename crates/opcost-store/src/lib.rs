//! The store of recordings, and shards that are gathered into one.

#![forbid(unsafe_code)]

pub mod gather;
pub mod store;
