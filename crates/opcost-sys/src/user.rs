//! The user for whom this process acts (`credentials(7)`).

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns the number of the effective user.
pub fn effective() -> u32 {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Somebody else who chooses a file's contents.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Author {
    /// Another user owns the file, or the link to it.
    User(u32),
    /// Everybody may write the file.
    Everybody,
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Author::User(number) => write!(f, "belongs to the user with the number {number}"),
            Author::Everybody => f.write_str("may be written by everybody"),
        }
    }
}

/// Finds who, beside this user and root, chooses a file's contents; `None` if nobody else does.
///
/// # Errors
/// The system's, if the file cannot be looked up.
pub fn other_author(path: &Path) -> io::Result<Option<Author>> {
    let (link, file) = (fs::symlink_metadata(path)?, fs::metadata(path)?);
    let other = [&link, &file].into_iter().map(MetadataExt::uid);
    let other = other.into_iter().find(|owner| *owner != 0 && *owner != effective());
    let everybody = file.mode() & 0o002 != 0;
    Ok(other.map(Author::User).or(everybody.then_some(Author::Everybody)))
}
