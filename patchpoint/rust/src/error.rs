//! Errors of changes of keys and sites.

use std::ffi::c_int;
use std::fmt;
use std::io;

/// The reason why a change was refused; every site and key is as it was before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// `EBUSY`: a site holds a breakpoint, or a thread blocks SIGTRAP, or a branch that has users would become false.
    Busy,
    /// `EILSEQ`: a site holds bytes that are neither the compiler's nor patchpoint's.
    ForeignBytes,
    /// `EDEADLK`: the thread is in the middle of another change, or looks at sites.
    Nested,
    /// `EPERM`: the process is a child of `vfork` or of a raw `clone`.
    BorrowedMemory,
    /// `ENOMEM`: no memory for the list of changes or sites.
    NoMemory,
    /// `EFAULT`: an operation is no code, or the memory of a key or a site is gone.
    NotThere,
    /// `ENOTSUP`: patched sites would have to change, and no writer or no membarrier is left.
    NoWriter,
    /// `ENOENT`: no alternative fits the processor.
    NoAlternative,
    /// `EINVAL`: no key, or a key of another version of the library; or a switch has no such way.
    NotAKey,
    /// `ERANGE`: the branch has no user that could be removed, or no room for another one.
    Users,
    /// Another error number of the library.
    Other(i32),
}

impl Error {
    /// Converts the C library's result: 0 or more is a success.
    pub(crate) fn check(result: c_int) -> Result<c_int, Error> {
        // Linux's numbers (include/uapi/asm-generic/errno.h), which x86-64 and arm64 share.
        Err(match -result {
            ..=0 => return Ok(result),
            1 => Error::BorrowedMemory,
            2 => Error::NoAlternative,
            12 => Error::NoMemory,
            14 => Error::NotThere,
            16 => Error::Busy,
            22 => Error::NotAKey,
            34 => Error::Users,
            35 => Error::Nested,
            84 => Error::ForeignBytes,
            95 => Error::NoWriter,
            other => Error::Other(other),
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Error::Busy => {
                "a site holds a breakpoint, or a thread blocks SIGTRAP, or a branch has users; remove the \
                 debugger's breakpoints and uprobes on sites, unblock SIGTRAP, and let each user call dec"
            }
            Error::ForeignBytes => {
                "a site holds bytes that are not patchpoint's; something else patches this code, \
                 and has to leave sites alone"
            }
            Error::Nested => {
                "this thread is in the middle of another change; do not change keys from a signal \
                 handler"
            }
            Error::BorrowedMemory => {
                "this process shares its parent's memory (vfork, or a raw clone); change keys in \
                 the parent, or use fork"
            }
            Error::NoMemory => "no memory for the list of changes",
            Error::NotThere => {
                "an operation is no code, or the memory of a key or a site is gone; change keys only \
                 while the object that has them, and the function, are loaded"
            }
            Error::NoWriter => {
                "sites are patched, and there is no way left to write code or to synchronise \
                 threads; change keys before the seccomp filter or the threads"
            }
            Error::NoAlternative => {
                "no alternative fits this processor; add one that needs nothing"
            }
            Error::NotAKey => {
                "what was to be set is no key of this version of patchpoint, or a switch has no such way"
            }
            Error::Users => {
                "the branch has no user to remove; call dec once for each inc that succeeded"
            }
            Error::Other(errno) => {
                return write!(f, "cannot patch code: {}", io::Error::from_raw_os_error(*errno));
            }
        };
        write!(f, "cannot patch code: {text}")
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_the_library_has_a_name() {
        for (errno, error) in [
            (16, Error::Busy),
            (84, Error::ForeignBytes),
            (35, Error::Nested),
            (1, Error::BorrowedMemory),
            (12, Error::NoMemory),
            (14, Error::NotThere),
            (95, Error::NoWriter),
            (2, Error::NoAlternative),
            (22, Error::NotAKey),
            (34, Error::Users),
            (77, Error::Other(77)),
        ] {
            assert_eq!(Error::check(-errno), Err(error));
            assert!(error.to_string().starts_with("cannot patch code: "));
        }
        assert_eq!(Error::check(3), Ok(3));
    }
}
