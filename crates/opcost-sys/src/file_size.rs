//! Limits of the sizes of files (`getrlimit(2)`, RLIMIT_FSIZE).

use crate::interrupt;
use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;

/// The signal that ends a process whose file would exceed its limit.
pub const SIGNAL: i32 = libc::SIGXFSZ;

/// Makes a write beyond this process's limit an error (EFBIG) in place of a signal that ends the process.
///
/// Programs that this process executes have the signal's default action, since a handler is not inherited.
///
/// # Errors
/// The kernel refuses the handler.
pub fn report_as_error() -> io::Result<()> {
    extern "C" fn nothing(_signal: c_int) {}
    // SAFETY: all zeros is a valid sigaction: default action, empty mask, no flags.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = nothing as extern "C" fn(c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    interrupt::action(SIGNAL, Some(&action)).map(|_| ())
}

/// Limits the files that a process may write to `bytes`, unless its limit is lower.
///
/// # Errors
/// The process is gone, or is another user's.
pub fn limit(pid: i32, bytes: u64) -> io::Result<()> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one structure to `now`; null sets no limit.
    if unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, std::ptr::null(), &raw mut now) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let new = libc::rlimit { rlim_cur: now.rlim_cur.min(bytes), rlim_max: now.rlim_max };
    // SAFETY: the kernel reads one structure; null requests no old limit.
    match unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &raw const new, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn a_process_ends_at_its_limit_and_others_go_on() {
        report_as_error().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let script = "read go; head -c 100000 /dev/zero > big";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .current_dir(folder.path())
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        limit(child.id() as i32, 5000).unwrap();
        drop(child.stdin.take());
        // The shell hands on the end of `head` by 128 and the signal's number.
        let status = child.wait().unwrap();
        assert!(status.code() == Some(128 + SIGNAL) || status.signal() == Some(SIGNAL), "{status}");
        assert_eq!(folder.path().join("big").metadata().unwrap().len(), 5000);
        std::fs::write(folder.path().join("other"), vec![0; 10_000]).unwrap();
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert_eq!(limit(i32::MAX, 1).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
