//! How a task ended.

/// How a task ended, as `waitpid` tells it; nothing where nobody can tell any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Ending(Option<libc::c_int>);

impl Ending {
    /// Nothing is known.
    pub(super) fn unknown() -> Self {
        Ending(None)
    }

    /// By a wait status of the kernel.
    pub(super) fn of_wait_status(status: libc::c_int) -> Self {
        Ending(Some(status))
    }

    /// With an exit status, as a wait status holds it (`wait(2)`: bits 8 to 15).
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

    /// How it ended, unless it was known to be well.
    pub(super) fn failure(self) -> Option<String> {
        (self.0.unwrap_or(0) != 0).then(|| self.how())
    }
}
