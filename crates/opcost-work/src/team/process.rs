//! One forked process with its handle and its end.

use super::ending::Ending;
use crate::error::WorkError;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// A child process; dropping the value kills the process, unless it was waited for.
pub(super) struct Process {
    pid: libc::pid_t,
    handle: OwnedFd,
    ending: Option<Ending>,
}

impl Process {
    /// Forks. The child runs `life` and exits with the returned status, without the parent's destructors and exit handlers. The
    /// child is killed when the forking thread ends.
    pub(super) fn fork(life: impl FnOnce() -> i32) -> Result<Self, WorkError> {
        const ADVICE: &str = "use fewer processes ('procs'), or raise the limit (ulimit -u)";
        // SAFETY: getpid cannot fail.
        let parent = unsafe { libc::getpid() };
        // SAFETY: the child only runs `life` and ends. A caller with other threads relies on the C library to keep its allocator
        // usable across a fork; this crate's callers have none.
        match unsafe { libc::fork() } {
            -1 => Err(WorkError::setup("fork a process for the work", ADVICE)),
            0 => {
                // SAFETY: plain numbers only; _exit does not return.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    // The parent may have ended before this setting.
                    if libc::getppid() != parent {
                        libc::_exit(1);
                    }
                    libc::_exit(life());
                }
            }
            pid => Self::adopt(pid),
        }
    }

    fn adopt(pid: libc::pid_t) -> Result<Self, WorkError> {
        // SAFETY: plain numbers; the process is a child that was not waited for.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            let error = WorkError::setup(
                "open a handle of a process (pidfd_open)",
                "it needs Linux 5.3; use procs=1",
            );
            // SAFETY: plain numbers; the process is a child that was not waited for, and it waits for its step.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            end_of(pid);
            return Err(error);
        }
        // SAFETY: the descriptor was just made and nothing else owns it.
        let handle = unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) };
        Ok(Process { pid, handle, ending: None })
    }

    /// The descriptor that becomes readable when the process ends.
    pub(super) fn handle_fd(&self) -> libc::c_int {
        self.handle.as_raw_fd()
    }

    /// Waits for the end of the process.
    pub(super) fn wait(&mut self) -> Ending {
        *self.ending.get_or_insert_with(|| end_of(self.pid))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ending.is_none() {
            // By handle: if SIGCHLD is ignored, the pid may by now belong to another process.
            // SAFETY: a valid handle, no signal information, no flags.
            unsafe {
                libc::syscall(
                    libc::SYS_pidfd_send_signal,
                    self.handle_fd(),
                    libc::SIGKILL,
                    ptr::null::<libc::siginfo_t>(),
                    0,
                )
            };
            end_of(self.pid);
        }
    }
}

fn end_of(pid: libc::pid_t) -> Ending {
    let mut status = 0;
    loop {
        // SAFETY: `status` is writable.
        if unsafe { libc::waitpid(pid, &mut status, 0) } == pid {
            return Ending::of_wait_status(status);
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Ending::unknown();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_once_and_remembered() {
        let mut process = Process::fork(|| 7).unwrap();
        let ending = process.wait();
        assert_eq!(ending.how(), "exit status 7");
        assert_eq!(ending.failure().unwrap(), "exit status 7");
        assert_eq!(process.wait(), ending);
        assert_eq!(Process::fork(|| 0).unwrap().wait().failure(), None);
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let process = Process::fork(|| {
            loop {
                // SAFETY: pause has no arguments.
                unsafe { libc::pause() };
            }
        })
        .unwrap();
        let pid = process.pid;
        drop(process);
        // SAFETY: signal 0 only checks.
        assert_eq!(unsafe { libc::kill(pid, 0) }, -1);
    }
}
