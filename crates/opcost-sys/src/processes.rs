//! All processes of a machine, for its first process.

use std::io;

/// Sends a signal to all processes but this one; processes that end meanwhile are no error.
///
/// # Errors
/// This is not the first process of a machine or container (`kill(2)` would reach processes of others), or no process may be reached.
pub fn signal_all(signal: i32) -> io::Result<()> {
    if std::process::id() != 1 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // SAFETY: kill takes integers only.
    match unsafe { libc::kill(-1, signal) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // There is no other process.
            error if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            error => Err(error),
        },
    }
}

/// Collects children that have ended, whichever they are. Returns whether any are left.
pub fn reap() -> bool {
    loop {
        // SAFETY: the status is not asked for, and the other arguments are integers.
        match unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } {
            0 => return true,
            child if child < 0 => return false,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_others_are_not_reached() {
        let refused = signal_all(libc::SIGTERM).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
}
