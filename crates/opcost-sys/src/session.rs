//! Leaving the session of whoever started this process.

use std::io;

/// Makes this process the leader of a session of its own (`setsid(2)`), without a terminal: what a
/// terminal sends to the programs in it, or a shell to its job, no longer comes here.
///
/// # Errors
/// `PermissionDenied` if this process leads a process group already.
pub fn lead_new() -> io::Result<()> {
    // SAFETY: setsid takes nothing and touches no memory.
    if unsafe { libc::setsid() } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
