//! The user for whom this process acts (`credentials(7)`).

/// Returns the number of the effective user.
pub fn effective() -> u32 {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}
