//! Names of the error numbers of perf events (`errno(3)`).

macro_rules! named {
    ($($name:ident)*) => {
        &[$((libc::$name, stringify!($name))),*]
    };
}

/// Error numbers with their names. A number with two names (EAGAIN, EWOULDBLOCK) is written with the first listed name.
const NAMES: &[(i32, &str)] = named! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT EBUSY
    EEXIST ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY ENOSPC EROFS EPIPE ERANGE
    EDEADLK ENAMETOOLONG ENOSYS ELOOP ENODATA ETIME EOVERFLOW ELIBBAD EOPNOTSUPP ETIMEDOUT EALREADY
    ESTALE ECANCELED
};

/// Returns the name of a listed error number.
pub fn name(errno: i32) -> Option<&'static str> {
    let (_, name) = NAMES.iter().find(|(number, _)| *number == errno)?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_numbers_have_their_names() {
        for (errno, text) in NAMES {
            assert_eq!(name(*errno), Some(*text));
        }
        assert_eq!(name(2), Some("ENOENT"));
        assert_eq!(name(0), None);
    }
}
