//! Exit statuses, which other people's scripts rely on, and errors that carry one.
//!
//! **Libraries know no exit status.** Their errors are typed; `crates/opcost-base/src/exit.rs` says which error of
//! `opcost-kernel` and `opcost-size` leads to which status.

use opcost_kernel::disk::DiskError;
use opcost_kernel::{KERNEL, KernelError};
use opcost_record::printable::printable_lines;
use opcost_size::SizeError;
use std::fmt;

/// The exit status of the process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Done = 0,
    /// With `--fail-on regression`: the primary metric is significantly worse.
    Regression = 1,
    /// The arguments or the experiment file are wrong.
    Usage = 2,
    /// The runs are not comparable; no verdict is given.
    NotComparable = 3,
    /// The work failed: a command, a workload, a hook.
    WorkFailed = 4,
    /// A tool or something of the environment is missing or broken.
    Missing = 5,
    /// With `bisect --checkout`: the commit cannot be tested (git-bisect(1)).
    Untestable = 125,
    /// With `bisect --checkout`: git's search must end (git-bisect(1)).
    Abort = 128,
    /// Interrupted by a signal.
    Interrupted = 130,
}

/// An error with the exit status it leads to.
#[derive(Debug)]
pub struct StatusError {
    /// The status.
    pub status: Status,
    error: anyhow::Error,
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_words(&self.error))
    }
}

impl std::error::Error for StatusError {}

/// Gives an error its exit status.
pub trait WithStatus<T> {
    /// Wraps the error; the innermost status given wins.
    fn status(self, status: Status) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> WithStatus<T> for Result<T, E> {
    fn status(self, status: Status) -> anyhow::Result<T> {
        self.map_err(|error| {
            let error = error.into();
            if status_of(&error).is_some() {
                return error;
            }
            StatusError { status, error }.into()
        })
    }
}

/// An error that determines its exit status.
pub trait HasStatus: std::error::Error + Send + Sync + Sized + 'static {
    /// The exit status that this error leads to.
    fn status(&self) -> Status;

    /// The error with its status.
    fn carried(self) -> anyhow::Error {
        let status = self.status();
        carry(status, self)
    }
}

/// An error with the status that it leads to.
pub fn carry(status: Status, error: impl Into<anyhow::Error>) -> anyhow::Error {
    StatusError { status, error: error.into() }.into()
}

impl HasStatus for KernelError {
    fn status(&self) -> Status {
        match self {
            // The same status as for a command whose program does not exist.
            KernelError::NotBuilt { .. } | KernelError::Input { what: KERNEL, .. } => {
                Status::WorkFailed
            }
            KernelError::Usage(_)
            | KernelError::Ambiguous { .. }
            | KernelError::Input { .. }
            | KernelError::NotAnImage { .. }
            | KernelError::Options(_) => Status::Usage,
            KernelError::Step { .. } => Status::WorkFailed,
            KernelError::File { .. }
            | KernelError::Tools { .. }
            | KernelError::NoSource(_)
            | KernelError::NoModule { .. }
            | KernelError::Debian(_) => Status::Missing,
            KernelError::Interrupted => Status::Interrupted,
        }
    }
}

impl HasStatus for DiskError {
    fn status(&self) -> Status {
        match self {
            DiskError::Spec { .. }
            | DiskError::Memory { .. }
            | DiskError::Kernel { .. }
            | DiskError::Modules { .. } => Status::Usage,
            DiskError::Tool | DiskError::Make { .. } => Status::Missing,
        }
    }
}

impl HasStatus for SizeError {
    fn status(&self) -> Status {
        match self {
            SizeError::Machines { .. } => Status::NotComparable,
            SizeError::Contents { .. } | SizeError::Function { .. } => Status::Usage,
        }
    }
}

/// An error with its causes. A cause that an outer message already contains is left out, and no
/// character moves a terminal's cursor.
pub fn in_words(error: &anyhow::Error) -> String {
    let mut causes = error.chain().map(ToString::to_string);
    let mut words = causes.next().unwrap_or_default();
    for cause in causes.filter(|cause| !cause.is_empty()) {
        if !words.contains(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    printable_lines(&words)
}

/// The status an error carries.
pub fn status_of(error: &anyhow::Error) -> Option<Status> {
    error.chain().find_map(|cause| cause.downcast_ref::<StatusError>()).map(|error| error.status)
}

/// The first cause that is an `E`, also within errors that carry a status.
pub fn cause<E: std::error::Error + Send + Sync + 'static>(error: &anyhow::Error) -> Option<&E> {
    error.chain().find_map(|link| {
        let carried = || cause(&link.downcast_ref::<StatusError>()?.error);
        link.downcast_ref::<E>().or_else(carried)
    })
}

/// An error with a status, from a message.
pub fn fail(status: Status, message: impl fmt::Display) -> anyhow::Error {
    StatusError { status, error: anyhow::anyhow!("{message}") }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn the_innermost_status_wins_and_context_keeps_it() {
        let error = Err::<(), _>(fail(Status::WorkFailed, "gzip: not found"))
            .context("variant 2")
            .status(Status::Missing)
            .unwrap_err();
        assert_eq!(status_of(&error), Some(Status::WorkFailed));
        assert_eq!(format!("{error:#}"), "variant 2: gzip: not found");
        assert_eq!(status_of(&anyhow::anyhow!("plain")), None);
    }

    #[test]
    fn a_cause_is_said_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read '{path}': {source}")]
        struct Unreadable {
            path: &'static str,
            source: std::io::Error,
        }
        let unreadable =
            || Unreadable { path: "a\x1b[2J", source: std::io::ErrorKind::NotFound.into() };
        let said = "variant 1: cannot read 'a\\u{1b}[2J': entity not found";
        let error = Err::<(), _>(unreadable()).context("variant 1").status(Status::Missing);
        assert_eq!(in_words(&error.unwrap_err()), said);
        let error = Err::<(), _>(unreadable()).status(Status::Missing).context("variant 1");
        assert_eq!(in_words(&error.unwrap_err()), said);
    }
}
