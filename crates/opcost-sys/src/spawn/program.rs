//! The search for the file that a command's first word names.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The search path without PATH, as in the C library (`execvp(3)`).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The folders of the search path that an error shows.
const FOLDERS_SHOWN: usize = 3;

/// The reason why a program cannot be executed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FindError {
    /// No such file exists.
    #[error("cannot find '{}'{}", .name.display(), searched(.path_env))]
    NotFound {
        /// The given name.
        name: OsString,
        /// The searched path; `None` for a name with a slash.
        path_env: Option<OsString>,
    },
    /// The file may not be executed.
    #[error("'{}' is not executable; give it the permission (chmod +x) or run it through its interpreter", .0.display())]
    NotExecutable(PathBuf),
    /// The file is a directory.
    #[error("'{}' is a directory; name a program in it", .0.display())]
    IsDirectory(PathBuf),
}

fn searched(path_env: &Option<OsString>) -> String {
    match path_env {
        Some(path) => format!(" in PATH ({}); give its full path", in_short(path)),
        None => "; there is no such file".to_string(),
    }
}

/// The folders of a search path; of many the first, and how many more there are.
fn in_short(path: &OsStr) -> String {
    let text = path.to_string_lossy();
    let mut folders = text.splitn(FOLDERS_SHOWN + 1, ':');
    let shown: Vec<&str> = folders.by_ref().take(FOLDERS_SHOWN).collect();
    match folders.next() {
        None => shown.join(":"),
        Some(rest) => match rest.split(':').count() {
            1 => text.to_string(),
            more => format!("{} and {more} more folders", shown.join(":")),
        },
    }
}

/// Finds the file to execute for a command's first word, as `execvp(3)` does.
///
/// A name with a slash is used unchanged. Other names are looked up in the directories of `path_env` (`/bin:/usr/bin` if absent);
/// an empty directory means `cwd`. `cwd` is the directory in which the command will run: relative names are looked up from it, and
/// a relative result must be executed from it.
///
/// # Errors
/// [`FindError`]. If several directories hold an unusable file of that name and none a usable one, the error is about the first.
pub fn find_program(
    name: &OsStr,
    path_env: Option<&OsStr>,
    cwd: &Path,
) -> Result<PathBuf, FindError> {
    let not_found = |path_env: Option<&OsStr>| FindError::NotFound {
        name: name.to_os_string(),
        path_env: path_env.map(OsStr::to_os_string),
    };
    if name.as_bytes().contains(&b'/') {
        let program = PathBuf::from(name);
        return match usable(&program, cwd) {
            Some(Ok(())) => Ok(program),
            Some(Err(error)) => Err(error),
            None => Err(not_found(None)),
        };
    }
    let path_env = path_env.unwrap_or(OsStr::new(DEFAULT_PATH));
    let mut unusable = None;
    // An empty name would match the directories themselves.
    if !name.is_empty() {
        for directory in path_env.as_bytes().split(|byte| *byte == b':') {
            let directory = if directory.is_empty() { b"." } else { directory };
            let program = Path::new(OsStr::from_bytes(directory)).join(name);
            match usable(&program, cwd) {
                Some(Ok(())) => return Ok(program),
                Some(Err(error)) => unusable = unusable.or(Some(error)),
                None => {}
            }
        }
    }
    Err(unusable.unwrap_or_else(|| not_found(Some(path_env))))
}

/// Checks whether a file can be executed; `None` if it does not exist.
fn usable(program: &Path, cwd: &Path) -> Option<Result<(), FindError>> {
    let file = cwd.join(program);
    let kind = file.metadata().ok()?;
    if kind.is_dir() {
        return Some(Err(FindError::IsDirectory(program.to_path_buf())));
    }
    let c_file = CString::new(file.as_os_str().as_bytes()).ok()?;
    let (mode, flags) = (libc::X_OK, libc::AT_EACCESS);
    // SAFETY: reads one C string.
    let allowed = unsafe { libc::faccessat(libc::AT_FDCWD, c_file.as_ptr(), mode, flags) } == 0;
    if kind.is_file() && allowed {
        Some(Ok(()))
    } else {
        Some(Err(FindError::NotExecutable(program.to_path_buf())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// Makes directories `a` (a plain file `tool`, a directory `sub`) and `b` (an executable `tool`).
    fn directories() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/sub")).unwrap();
        fs::create_dir(root.path().join("b")).unwrap();
        fs::write(root.path().join("a/tool"), "#!/bin/sh\n").unwrap();
        let tool = root.path().join("b/tool");
        fs::write(&tool, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        root
    }

    fn find(name: &str, path: Option<&str>, cwd: &Path) -> Result<PathBuf, FindError> {
        find_program(OsStr::new(name), path.map(OsStr::new), cwd)
    }

    #[test]
    fn the_first_usable_file_is_taken() {
        let root = directories();
        let cwd = root.path();
        assert_eq!(find("tool", Some("a:b"), cwd).unwrap(), Path::new("b/tool"));
        assert_eq!(find("tool", Some("none::b"), &cwd.join("b")).unwrap(), Path::new("./tool"));
        assert_eq!(find("./b/tool", Some("a"), cwd).unwrap(), Path::new("./b/tool"));
        let full = cwd.join("b/tool");
        assert_eq!(find(full.to_str().unwrap(), None, Path::new("/")).unwrap(), full);
        assert!(find("sh", None, Path::new("/")).unwrap().ends_with("bin/sh"));
    }

    #[test]
    fn errors_tell_what_was_found() {
        let root = directories();
        let cwd = root.path();
        let not_executable = FindError::NotExecutable("a/tool".into());
        assert_eq!(find("tool", Some("a"), cwd).unwrap_err(), not_executable);
        assert_eq!(find("a/tool", None, cwd).unwrap_err(), not_executable);
        assert_eq!(
            find("sub", Some("b:a"), cwd).unwrap_err(),
            FindError::IsDirectory("a/sub".into())
        );
        assert_eq!(find("./a", None, cwd).unwrap_err(), FindError::IsDirectory("./a".into()));
        let missing = find("none", Some("a:b"), cwd).unwrap_err();
        assert_eq!(missing.to_string(), "cannot find 'none' in PATH (a:b); give its full path");
        let path_of = |path: &str| {
            let text = find("none", Some(path), cwd).unwrap_err().to_string();
            text.split(['(', ')']).nth(1).unwrap_or_default().to_string()
        };
        assert_eq!(path_of("a:b:c:d"), "a:b:c:d");
        assert_eq!(path_of("a:b:c:d:e"), "a:b:c and 2 more folders");
        let missing = find("./none", Some("a:b"), cwd).unwrap_err();
        assert_eq!(missing.to_string(), "cannot find './none'; there is no such file");
        assert!(matches!(find("", Some("a"), cwd), Err(FindError::NotFound { .. })));
        assert!(matches!(find("b/tool/x", None, cwd), Err(FindError::NotFound { .. })));
        assert!(matches!(find("a\0b", Some("a"), cwd), Err(FindError::NotFound { .. })));
    }
}
