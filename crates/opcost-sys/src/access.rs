//! Whether a file may be written, without opening it: opening a pipe waits for its reader.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Checks whether this process may write a file, or make files in a folder.
///
/// # Errors
/// The system's reason: permissions, a file system that is read-only, or no such file.
pub fn may_write(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let (mode, flags) = (libc::W_OK, libc::AT_EACCESS);
    // SAFETY: reads one C string.
    match unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), mode, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        assert!(may_write(folder.path()).is_ok());
        assert!(may_write(Path::new("/dev/null")).is_ok());
        // Not even root can write here.
        let refused = may_write(Path::new("/proc/version_signature_none")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
    }
}
