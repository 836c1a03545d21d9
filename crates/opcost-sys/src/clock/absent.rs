//! Architectures whose counter is not read here.

/// No ticks.
#[inline(always)]
pub(super) fn ticks() -> Option<u64> {
    None
}
