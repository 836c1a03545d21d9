//! Limit on the depth of stacks.

/// The most frames that are read of a stack; the innermost are kept. Showing a call tree of any depth
/// would need a stack of any depth. perf records 127 by default, Python allows 1,000.
pub(super) const FRAMES_MAX: usize = 1024;
