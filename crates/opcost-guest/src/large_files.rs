//! Writes the files that the initramfs could not hold, before the job.

use opcost_record::file_image::{FileImage, ImageFile, PATH};
use opcost_record::message::MessageError;
use opcost_sys::devices::FileMemory;
use rustix::fs::{Timespec, Timestamps, futimens};
use rustix::mount::{MountFlags, mount_remount};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The bytes that one system call writes.
const PIECE_BYTES: usize = 1 << 20;

/// The share of memory that files may fill, where the kernel has a tmpfs for the initramfs; its own limit is a half (tmpfs(5)).
const SHARE: &std::ffi::CStr = c"size=95%";

/// Why the files cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LargeFilesError {
    /// The list cannot be read.
    #[error("cannot read {PATH}: {0}")]
    Read(io::Error),
    /// The list is malformed.
    #[error(transparent)]
    List(#[from] MessageError),
    /// The device's memory cannot be read.
    #[error(
        "cannot read the memory of the device with the guest's large files: {0}; the kernel needs CONFIG_PCI and CONFIG_SYSFS"
    )]
    Device(io::Error),
    /// A file cannot be written.
    #[error("cannot write '{}' in the guest: {source}; give the machine more memory (--memory-mib)", .path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Writes the files, if the guest has such a list.
pub(crate) fn write() -> Result<(), LargeFilesError> {
    let list = match fs::read(PATH) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        list => FileImage::decode(&list.map_err(LargeFilesError::Read)?)?,
    };
    // Fails where the kernel has no tmpfs; then there is no limit.
    let _ = mount_remount("/", MountFlags::empty(), SHARE);
    let memory = FileMemory::open(list.bytes).map_err(LargeFilesError::Device)?;
    list.files.iter().try_for_each(|file| {
        let path = file.path.clone();
        write_one(Path::new("/"), file, &memory)
            .map_err(|source| LargeFilesError::Write { path, source })
    })
}

/// Fills a file that exists, and is empty, below `root`.
fn write_one(root: &Path, file: &ImageFile, memory: &[u8]) -> io::Result<()> {
    let contents = usize::try_from(file.offset).ok().zip(usize::try_from(file.length).ok());
    let contents = contents.and_then(|(start, length)| memory.get(start..)?.get(..length));
    let contents = contents.ok_or(io::ErrorKind::InvalidData)?;
    let path = root.join(file.path.strip_prefix("/").map_err(io::Error::other)?);
    let mut to = File::options().write(true).open(path)?;
    contents.chunks(PIECE_BYTES).try_for_each(|piece| to.write_all(piece))?;
    let time = Timespec { tv_sec: file.changed_s.into(), tv_nsec: 0 };
    Ok(futimens(&to, &Timestamps { last_access: time, last_modification: time })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_file_gets_its_part_of_the_memory_and_its_time() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("data"), "").unwrap();
        let memory: Vec<u8> = (0..3_000_000_u32).map(|at| at as u8).collect();
        let file = |path: &str, offset, length| ImageFile {
            path: path.into(),
            offset,
            length,
            changed_s: 1_577_836_800,
        };
        write_one(root.path(), &file("/data", 4096, 2_500_000), &memory).unwrap();
        let written = root.path().join("data");
        assert!(fs::read(&written).unwrap() == memory[4096..2_504_096]);
        assert_eq!(fs::metadata(&written).unwrap().mtime(), 1_577_836_800);
        assert!(write_one(root.path(), &file("/data", 4096, 3_000_000), &memory).is_err());
        assert!(write_one(root.path(), &file("/none", 0, 1), &memory).is_err());
    }
}
