//! Names of the error numbers that perf events and transcripts deal in (`errno(3)`).

macro_rules! named {
    ($($name:ident)*) => {
        &[$((libc::$name, stringify!($name))),*]
    };
}

/// Error numbers with their names. Of numbers with two names (EAGAIN, EWOULDBLOCK) the first
/// listed is written.
const NAMES: &[(i32, &str)] = named! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT EBUSY
    EEXIST ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY ENOSPC EROFS EPIPE ERANGE
    EDEADLK ENAMETOOLONG ENOSYS ELOOP ENODATA ETIME EOVERFLOW ELIBBAD EOPNOTSUPP ETIMEDOUT EALREADY
    ESTALE ECANCELED
};

/// The name of an error number, if it is one of those listed.
pub(crate) fn name(errno: i32) -> Option<&'static str> {
    let (_, name) = NAMES.iter().find(|(number, _)| *number == errno)?;
    Some(name)
}

/// The error number of a name, if it is one of those listed.
pub(crate) fn number(name: &str) -> Option<i32> {
    let (number, _) = NAMES.iter().find(|(_, listed)| *listed == name)?;
    Some(*number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_answer_each_other() {
        for (errno, text) in NAMES {
            assert_eq!(name(*errno), Some(*text));
            assert_eq!(number(text), Some(*errno));
        }
        assert_eq!(name(2), Some("ENOENT"));
        assert_eq!(name(0), None);
        assert_eq!(number("ENOPE"), None);
    }
}
