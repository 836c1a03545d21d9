//! The recordings that this user's processes make at the same time.
//!
//! Each process that makes one holds a lock on the byte of a file that has the process's number. Another process asks the kernel for
//! such locks with one call, and the kernel drops a lock with its process.

use crate::user;
use crate::xdg::{check_owner, make_private};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file of locks.
#[derive(Debug)]
pub struct Presence(File);

/// The folder that is this machine's and this user's: others may have the same home folder on another machine.
fn folder() -> PathBuf {
    let named = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match named.filter(|path| path.is_absolute()) {
        Some(path) => path.join("opcost"),
        None => Path::new("/tmp").join(format!("opcost-{}", user::effective())),
    }
}

impl Presence {
    /// Opens the file of this user on this machine.
    ///
    /// # Errors
    /// The file cannot be made, or its folder belongs to another user.
    pub fn open() -> io::Result<Presence> {
        Presence::in_folder(&folder())
    }

    fn in_folder(folder: &Path) -> io::Result<Presence> {
        make_private(folder)?;
        check_owner(folder, "XDG_RUNTIME_DIR").map_err(io::Error::other)?;
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(libc::O_NOFOLLOW).open(folder.join("recording")).map(Presence)
    }

    /// Lets other processes see that this one makes a recording, until the value is dropped.
    ///
    /// # Errors
    /// The file system has no locks.
    pub fn announce(&self) -> io::Result<()> {
        self.announce_as(std::process::id())
    }

    fn announce_as(&self, pid: u32) -> io::Result<()> {
        let lock = lock(libc::F_RDLCK, i64::from(pid), 1);
        // SAFETY: the kernel reads the structure.
        match unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The number of other processes that make a recording now.
    ///
    /// # Errors
    /// The file system has no locks.
    pub fn others(&self) -> io::Result<u64> {
        let own = i64::from(std::process::id());
        let (mut from, mut others) = (0, 0);
        loop {
            let mut found = lock(libc::F_WRLCK, from, 0);
            // SAFETY: the kernel reads and writes the structure.
            let asked =
                unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_OFD_GETLK, &raw mut found) };
            if asked != 0 {
                return Err(io::Error::last_os_error());
            }
            if found.l_type == libc::F_UNLCK as libc::c_short {
                return Ok(others);
            }
            // The kernel returns any lock of the range, which neighbours' locks may have become one with.
            others += (found.l_start..found.l_start + found.l_len.max(1))
                .filter(|pid| *pid != own)
                .count() as u64;
            from = found.l_start + found.l_len.max(1);
        }
    }
}

/// A request for locks of `length` bytes from `start`; a length of 0 reaches to the end.
fn lock(kind: libc::c_int, start: i64, length: i64) -> libc::flock {
    // SAFETY: zeros are a valid structure of integers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = start;
    lock.l_len = length;
    lock
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_seen_while_they_make_a_recording_and_this_process_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Presence::in_folder(&folder.path().join("run")).unwrap();
        let (ours, neighbour, far) = (open(), open(), open());
        ours.announce().unwrap();
        assert_eq!(ours.others().unwrap(), 0);
        neighbour.announce_as(std::process::id() + 1).unwrap();
        far.announce_as(7_000_000).unwrap();
        assert_eq!(ours.others().unwrap(), 2);
        assert_eq!(open().others().unwrap(), 2);
        drop(neighbour);
        assert_eq!(ours.others().unwrap(), 1);
    }
}
