//! Leaving the session of the process that started this one.

use std::io;

/// Makes this process the leader of a new session without a terminal (`setsid(2)`). Signals that a terminal sends to its programs,
/// or a shell to its job, no longer reach this process.
///
/// # Errors
/// `PermissionDenied` if this process already leads a process group.
pub fn lead_new() -> io::Result<()> {
    // SAFETY: setsid takes nothing and touches no memory.
    if unsafe { libc::setsid() } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
