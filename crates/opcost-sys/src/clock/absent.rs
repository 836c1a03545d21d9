//! The absent counter of all other architectures.

/// Returns no ticks.
#[inline(always)]
pub(super) fn ticks() -> Option<u64> {
    None
}
