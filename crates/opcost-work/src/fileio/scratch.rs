//! The file: made in a directory, unlinked as soon as it is open, checked at the end.

use super::content::{Blocks, Buffer, Pattern};
use crate::error::WorkError;
use crate::random::fold;
use crate::task;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// A file that disappears with the process, however the process ends.
#[derive(Debug)]
pub(super) struct ScratchFile {
    file: File,
    dir: String,
}

impl ScratchFile {
    /// Makes an empty file in `dir`, whose file system must have `needed_bytes` free.
    ///
    /// # Errors
    /// [`WorkError::Setup`]: no file can be made in `dir`; [`WorkError::Room`]: too little space.
    pub(super) fn create(dir: &str, needed_bytes: u64) -> Result<ScratchFile, WorkError> {
        // Threads of one process each have a file of their own.
        let (dir_name, process) = (dir.trim_end_matches('/'), std::process::id());
        let path = format!("{dir_name}/.opcost-fileio-{process}-{}", task::current());
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true).mode(0o600);
        let refused = |source: io::Error| WorkError::Setup {
            what: format!("make a file in {dir}"),
            advice: advice(&source),
            source,
        };
        let file = options.open(&path).map_err(refused)?;
        fs::remove_file(&path).map_err(|source| WorkError::Setup {
            what: format!("remove the name {path}"),
            source,
            advice: "remove it yourself, and name another directory with 'dir'",
        })?;
        if let Some(free_bytes) = free_bytes(dir).filter(|free| *free < needed_bytes) {
            return Err(WorkError::Room { dir: dir.into(), needed_bytes, free_bytes });
        }
        Ok(ScratchFile { file, dir: dir.into() })
    }

    /// The descriptor's number, as system calls take it.
    pub(super) fn number(&self) -> usize {
        self.file.as_raw_fd() as usize
    }

    #[cfg(test)]
    pub(super) fn handle(&self) -> &File {
        &self.file
    }

    /// Sets `O_DIRECT`, and checks by trial that a block can be written and read.
    ///
    /// # Errors
    /// [`WorkError::Setup`]: the file system does not support this, or not with blocks of this size.
    pub(super) fn go_past_the_cache(&self, block: &Buffer) -> Result<(), WorkError> {
        let fd = self.file.as_raw_fd();
        // SAFETY: the descriptor is open; both commands take and return plain numbers.
        let set = unsafe {
            let flags = libc::fcntl(fd, libc::F_GETFL);
            libc::fcntl(fd, libc::F_SETFL, flags | libc::O_DIRECT)
        };
        if set != 0 {
            return Err(WorkError::setup(
                format_args!("use O_DIRECT in {}", self.dir),
                "this file system has none (tmpfs before Linux 6.6): use direct=off, or name \
                 another directory with 'dir'",
            ));
        }
        // SAFETY: nothing else refers to the buffer's memory.
        let bytes = unsafe { block.as_slice() };
        let tried = self.file.write_all_at(bytes, 0).and_then(|()| {
            // SAFETY: the reference above is no longer used.
            self.file.read_exact_at(unsafe { block.as_mut_slice() }, 0)
        });
        tried.map_err(|source| WorkError::Setup {
            what: format!("move a block of {} bytes with O_DIRECT in {}", block.len(), self.dir),
            advice: match source.raw_os_error() {
                Some(libc::EINVAL) => {
                    "it is no multiple of what the device moves: use block=4096 or a multiple of it"
                }
                _ => advice(&source),
            },
            source,
        })
    }

    /// Fills the file with exactly these blocks, and waits until the device has them.
    ///
    /// # Errors
    /// [`WorkError::Setup`].
    pub(super) fn write_all(
        &self,
        blocks: &Blocks,
        pattern: &Pattern,
        buffer: &Buffer,
    ) -> Result<(), WorkError> {
        let write = || -> io::Result<()> {
            self.file.set_len(0)?;
            buffer.set(pattern);
            for index in 0..blocks.len {
                buffer.set_stamp(blocks.stamp(index));
                // SAFETY: nothing else refers to the buffer's memory.
                let block = unsafe { buffer.as_slice() };
                self.file.write_all_at(block, index * buffer.len() as u64)?;
            }
            self.file.sync_all()
        };
        write().map_err(|source| self.problem("write the file", source))
    }

    /// Reads the whole file and compares it; returns a 32-bit checksum of its contents.
    ///
    /// # Errors
    /// [`WorkError::Setup`]: the file cannot be read; [`WorkError::File`]: the file differs.
    pub(super) fn verify(
        &self,
        blocks: &Blocks,
        pattern: &Pattern,
        buffer: &Buffer,
    ) -> Result<u64, WorkError> {
        let unreadable = |source| self.problem("read the file back", source);
        let found_bytes = self.file.metadata().map_err(unreadable)?.len();
        let expected_bytes = blocks.len * buffer.len() as u64;
        let wrong = |what: String| WorkError::File { dir: self.dir.clone(), what };
        if found_bytes != expected_bytes {
            return Err(wrong(format!("has {found_bytes} bytes instead of {expected_bytes}")));
        }
        let mut checksum = 0;
        let mut expected = pattern.bytes.clone();
        for index in 0..blocks.len {
            let offset = index * buffer.len() as u64;
            // SAFETY: nothing else refers to the buffer's memory.
            let found = unsafe { buffer.as_mut_slice() };
            self.file.read_exact_at(found, offset).map_err(unreadable)?;
            let stamp = blocks.stamp(index).to_le_bytes();
            expected[..stamp.len()].copy_from_slice(&stamp);
            if *found != expected[..] {
                return Err(wrong(format!("differs in block {index} from what was written")));
            }
            for word in found.chunks_exact(8) {
                let word = word.first_chunk().expect("the chunks are that long");
                checksum = fold(checksum, u64::from_le_bytes(*word));
            }
        }
        Ok(checksum >> 32)
    }

    fn problem(&self, what: &str, source: io::Error) -> WorkError {
        let advice = advice(&source);
        WorkError::Setup { what: format!("{what} in {}", self.dir), source, advice }
    }
}

/// Returns the advice for an error in a directory.
fn advice(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::ENOENT) => "make the directory, or name another with 'dir'",
        Some(libc::ENOTDIR) => "name a directory with 'dir', not a file",
        Some(libc::EROFS) => "its file system is read-only: name another directory with 'dir'",
        Some(libc::EACCES | libc::EPERM) => "name a directory with 'dir' that you may write to",
        Some(libc::ENOSPC | libc::EDQUOT) => {
            "it is full: make room, or name another directory with 'dir'"
        }
        _ => "name another directory with 'dir'",
    }
}

/// Returns the bytes that an ordinary user may still write to the directory's file system; `None` if the file system sets no limit
/// (ramfs) or does not report it.
fn free_bytes(dir: &str) -> Option<u64> {
    let path = CString::new(dir).ok()?;
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: a path that ends with 0, and room for the answer.
    let result = unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) };
    if result != 0 {
        return None;
    }
    // SAFETY: the call succeeded and therefore filled the structure.
    let found = unsafe { found.assume_init() };
    (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}
