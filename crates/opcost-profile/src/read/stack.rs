//! How deep a stack in a file may be.

/// Frames of a stack that are read, the innermost: a call tree of any depth would need a stack of any
/// depth to be shown. perf records 127 unless told otherwise, Python allows 1,000.
pub(super) const FRAMES_MAX: usize = 1024;
