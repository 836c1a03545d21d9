//! The one way to open a file that somebody else named or wrote.
//!
//! A name may lead to a pipe that nobody writes to, to a terminal, to a device that acts on being opened, or to a file that never
//! ends. A file is therefore found first and opened only if it is a regular file of an expected length.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Error, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Opens a regular file for reading.
///
/// `path`: the file, or a link to it; `bytes_max`: the longest file to open.
///
/// # Errors
/// The system's; [`ErrorKind::InvalidInput`] if it is no regular file, and [`ErrorKind::FileTooLarge`] if it is longer.
pub fn open(path: &Path, bytes_max: u64) -> io::Result<File> {
    // Such a descriptor opens nothing: it only finds the file (open(2), O_PATH).
    let found = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
    opened(&found, bytes_max)
}

/// Reads a regular file.
///
/// # Errors
/// As [`open`]; [`ErrorKind::FileTooLarge`] also if the file grows beyond `bytes_max` while it is read.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    contents(&mut open(path, bytes_max)?, bytes_max)
}

/// Reads a regular text file.
///
/// # Errors
/// As [`read`]; [`ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let text = String::from_utf8(read(path, bytes_max)?);
    text.map_err(|_| Error::new(ErrorKind::InvalidData, "it is no UTF-8 text"))
}

/// Reads a regular file that one of `owners` owns, below a root folder that every link on the way stays in: an absolute link of a
/// container leads to a file of the container.
///
/// `path`: relative to `root`.
///
/// # Errors
/// As [`read`]; [`ErrorKind::PermissionDenied`] if somebody else owns the file.
pub fn read_below(root: &Path, path: &Path, owners: &[u32], bytes_max: u64) -> io::Result<Vec<u8>> {
    let root = File::options().read(true).custom_flags(libc::O_PATH).open(root)?;
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: an all-zero `open_how` is valid, and the kernel requires its unused fields to be 0 (openat2(2)).
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS;
    // SAFETY: the descriptor is open, `path` ends with a NUL, and `how` has the size that is given.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            root.as_raw_fd(),
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    };
    let found = match descriptor {
        // SAFETY: the kernel just returned this descriptor, and nothing else has it.
        0.. => unsafe { File::from_raw_fd(descriptor as i32) },
        _ => return Err(Error::last_os_error()),
    };
    let owner = found.metadata()?.uid();
    if !owners.contains(&owner) {
        let why = format!("its owner is user {owner}");
        return Err(Error::new(ErrorKind::PermissionDenied, why));
    }
    contents(&mut opened(&found, bytes_max)?, bytes_max)
}

/// Makes a file in memory, for readers that want a path.
///
/// Returns the path, which leads to the file while it is open, and the file.
///
/// # Errors
/// The system's.
pub fn in_memory(bytes: &[u8]) -> io::Result<(PathBuf, File)> {
    // SAFETY: a C string and an integer.
    let descriptor = unsafe { libc::memfd_create(c"opcost".as_ptr(), libc::MFD_CLOEXEC) };
    let mut file = match descriptor {
        // SAFETY: the kernel just returned this descriptor, and nothing else has it.
        0.. => unsafe { File::from_raw_fd(descriptor) },
        _ => return Err(Error::last_os_error()),
    };
    file.write_all(bytes)?;
    Ok((format!("/proc/self/fd/{}", file.as_raw_fd()).into(), file))
}

/// Opens a file that was found.
fn opened(found: &File, bytes_max: u64) -> io::Result<File> {
    let known = found.metadata()?;
    let kind = known.file_type();
    if !kind.is_file() {
        let word = match () {
            () if kind.is_dir() => "a folder",
            () if kind.is_fifo() => "a pipe",
            () if kind.is_socket() => "a socket",
            () => "a device",
        };
        let error = if kind.is_dir() { ErrorKind::IsADirectory } else { ErrorKind::InvalidInput };
        return Err(Error::new(error, format!("it is no regular file, but {word}")));
    }
    if known.len() > bytes_max {
        return Err(too_large(bytes_max));
    }
    // The number of the descriptor leads to the file that was found, whatever is at its path by now (proc_pid_fd(5)).
    File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

/// Reads the rest of a file, up to a length.
fn contents(file: &mut File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(too_large(bytes_max)),
        false => Ok(bytes),
    }
}

fn too_large(bytes_max: u64) -> Error {
    let why =
        format!("it has more than {bytes_max} bytes, the most that opcost reads of such a file");
    Error::new(ErrorKind::FileTooLarge, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn kind<T>(result: io::Result<T>) -> ErrorKind {
        result.err().expect("an error").kind()
    }

    #[test]
    fn only_regular_files_of_a_bounded_length_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "12345").unwrap();
        symlink("file", at("link")).unwrap();
        assert_eq!(read(&at("link"), 5).unwrap(), b"12345");
        assert_eq!(kind(read(&at("file"), 4)), ErrorKind::FileTooLarge);
        assert_eq!(kind(read(&at("none"), 4)), ErrorKind::NotFound);
        assert_eq!(kind(open(folder.path(), 4)), ErrorKind::IsADirectory);
        let fifo = CString::new(at("fifo").as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends with a NUL.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        // To open a pipe that nobody writes to would wait for ever.
        assert_eq!(kind(open(&at("fifo"), 4)), ErrorKind::InvalidInput);
        symlink("/dev/zero", at("zero")).unwrap();
        let error = read(&at("zero"), u64::MAX).unwrap_err();
        assert!(error.to_string().contains("no regular file, but a device"), "{error}");
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert_eq!(kind(open(&at("socket"), 4)), ErrorKind::InvalidInput);
        // A file of the kernel's that claims no length and has more.
        assert_eq!(kind(read(Path::new("/proc/self/maps"), 10)), ErrorKind::FileTooLarge);
        fs::write(at("bytes"), [0xff]).unwrap();
        assert_eq!(kind(read_text(&at("bytes"), 9)), ErrorKind::InvalidData);
    }

    #[test]
    fn a_link_stays_below_the_root_and_a_stranger_s_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("tmp")).unwrap();
        fs::write(root.join("inner"), "inner").unwrap();
        fs::write(folder.path().join("outer"), "outer").unwrap();
        symlink("/inner", root.join("tmp/absolute")).unwrap();
        symlink("../../outer", root.join("tmp/upwards")).unwrap();
        let own = fs::metadata(&root).unwrap().uid();
        let below = |path: &str, owner| read_below(&root, Path::new(path), &[owner], 100);
        assert_eq!(below("tmp/absolute", own).unwrap(), b"inner");
        assert!(below("tmp/upwards", own).is_err());
        assert_eq!(kind(below("inner", own + 1)), ErrorKind::PermissionDenied);
    }
}
