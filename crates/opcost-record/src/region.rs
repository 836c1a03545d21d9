//! The regions that are counted by themselves.

/// The region every workload counts: its operations, and for a command its whole life.
pub const WORK: &str = "work";

/// The region of the empty twin: the same loop with the operation left out.
pub const TWIN: &str = "twin";
