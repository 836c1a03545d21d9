//! Tests of plans, and of shards that are gathered, that need resolved plans.

mod executed;
mod gather;
mod origin;
mod repetition;
mod shard;
