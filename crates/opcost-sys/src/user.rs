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

/// The names by which this computer knows the user: the account, and the variables that a login sets.
pub fn names() -> Vec<String> {
    let variables = ["USER", "LOGNAME", "SUDO_USER"].map(std::env::var);
    let home = std::env::home_dir().and_then(|home| home.file_name()?.to_str().map(str::to_string));
    let number = effective().to_string();
    // NAME:PASSWORD:UID:… (passwd(5))
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let fields = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut own = fields.filter(|fields| fields.get(2) == Some(&number.as_str()));
    let account = own.next().map(|fields| fields[0].to_string());
    variables.into_iter().flatten().chain(home).chain(account).collect()
}

/// The name of this computer (`gethostname(2)`), if it has one.
pub fn host() -> Vec<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Some(name.trim().to_string()).filter(|name| !name.is_empty()).into_iter().collect()
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
