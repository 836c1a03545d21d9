//! The end of a task.

/// The end of a task, as `waitpid` reports it; `None` if the status is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Ending(Option<libc::c_int>);

impl Ending {
    /// Returns an unknown end.
    pub(super) fn unknown() -> Self {
        Ending(None)
    }

    /// Makes an end from a wait status of the kernel.
    pub(super) fn of_wait_status(status: libc::c_int) -> Self {
        Ending(Some(status))
    }

    /// Makes an end with an exit status, in the form of a wait status (`wait(2)`: bits 8 to 15).
    pub(super) fn exited(status: i32) -> Self {
        Ending(Some((status & 0xff) << 8))
    }

    pub(super) fn how(self) -> String {
        match self.0 {
            None => "nothing is known of its end, since SIGCHLD is ignored".into(),
            Some(status) if libc::WIFSIGNALED(status) => {
                format!("killed by signal {}", libc::WTERMSIG(status))
            }
            Some(status) => format!("exit status {}", libc::WEXITSTATUS(status)),
        }
    }

    /// Returns how the task ended, unless the end is known to be good or is unknown.
    pub(super) fn failure(self) -> Option<String> {
        (self.0.unwrap_or(0) != 0).then(|| self.how())
    }
}
