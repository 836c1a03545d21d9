//! The folders for a user's files (XDG Base Directory Specification).

use crate::user;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a folder of opcost's cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The environment names no folder.
    #[error("neither XDG_CACHE_HOME nor HOME says where opcost keeps its files; set one of them")]
    Nowhere,
    /// Another user could exchange the files: kernels, programs and states that opcost runs.
    #[error(
        "'{}' belongs to the user with the number {owner}, who could exchange what opcost runs from there; name a folder \
         of your own with {variable}",
        path.display()
    )]
    OtherOwner {
        /// The folder or file.
        path: PathBuf,
        /// The number of the user who owns it.
        owner: u32,
        /// The variable or option that names another.
        variable: &'static str,
    },
}

/// Returns the base folder that `variable` names, else `below` in the home folder; `None` if there is neither. A relative path in
/// the variable is ignored, as the specification demands.
pub fn base_folder(variable: &str, below: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(below)))
}

/// Returns opcost's folder for data that can be made again, which nobody else can read or write. If it cannot be made, whoever
/// writes there gets the system's error.
///
/// # Errors
/// The environment names no folder, or another user owns it.
pub fn cache_folder() -> Result<PathBuf, FolderError> {
    let variable = "XDG_CACHE_HOME";
    let folder = base_folder(variable, ".cache").ok_or(FolderError::Nowhere)?.join("opcost");
    let _ = make_private(&folder);
    check_owner(&folder, variable)?;
    Ok(folder)
}

/// Makes a folder with the folders above it, which nobody else can read or write; takes others' rights away from an old one of this
/// user's.
///
/// # Errors
/// The folder cannot be made.
pub fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::metadata(folder)?;
    if found.mode() & 0o077 != 0 && found.uid() == user::effective() {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Checks that a file or folder belongs to this user or to root; one that is missing passes.
///
/// `variable`: the variable or option by which the user names another.
///
/// # Errors
/// Another user owns it.
pub fn check_owner(path: &Path, variable: &'static str) -> Result<(), FolderError> {
    match fs::metadata(path).map(|found| found.uid()) {
        Ok(owner) if owner != 0 && owner != user::effective() => {
            Err(FolderError::OtherOwner { path: path.into(), owner, variable })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_become_private_and_others_are_refused() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("a/b");
        make_private(&folder).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&above.path().join("a"))), (0o700, 0o700));
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        make_private(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        check_owner(&folder, "XDG_CACHE_HOME").unwrap();
        check_owner(&folder.join("missing"), "XDG_CACHE_HOME").unwrap();
        if std::os::unix::fs::chown(&folder, Some(12_345), None).is_ok() {
            let error = check_owner(&folder, "XDG_CACHE_HOME").unwrap_err().to_string();
            assert!(error.contains("number 12345") && error.contains("XDG_CACHE_HOME"), "{error}");
        }
    }
}
