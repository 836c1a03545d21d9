//! The regions that every workload counts by themselves.

/// The region of a workload's operations; for a command, its whole life.
pub const WORK: &str = "work";

/// The region of the empty twin: the same loop without the operation.
pub const TWIN: &str = "twin";
