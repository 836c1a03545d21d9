//! The guest's disk: a RAM disk with a file system, made ready before the job.
//!
//! ```text
//! modules → device → contents → mount
//! ```

use crate::log;
use opcost_record::disk::{self, DEVICE, GuestDisk, GuestModule, MOUNT_POINT};
use opcost_record::framing::TextError;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::system::finit_module;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Lines of the kernel's log that an error shows.
const LINES_SHOWN: usize = 5;

/// The kernel frees what a module needed only to start later, when RCU has been waited for
/// (kernel/module/main.c, do_free_init); where the next one goes depends on whether that is done. A
/// machine that has nothing to do skips the time.
const SETTLED_AFTER: Duration = Duration::from_millis(200);

/// Mount options that are flags of mount(2) and none of the file system's.
const FLAGS: [(&str, MountFlags); 6] = [
    ("dirsync", MountFlags::DIRSYNC),
    ("lazytime", MountFlags::LAZYTIME),
    ("noatime", MountFlags::NOATIME),
    ("nodiratime", MountFlags::NODIRATIME),
    ("strictatime", MountFlags::STRICTATIME),
    ("sync", MountFlags::SYNCHRONOUS),
];

/// Why the guest has no disk.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    /// What to set up cannot be read.
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: io::Error },
    /// What to set up is not understood.
    #[error(transparent)]
    Description(#[from] TextError),
    /// Its contents are not whole.
    #[error(transparent)]
    Contents(#[from] disk::CutShort),
    /// A module is refused.
    #[error("the kernel does not load the module {path}: {source}{said}")]
    Module { path: String, source: io::Error, said: String },
    /// The kernel has no RAM disk.
    #[error(
        "this kernel has no {DEVICE} for a disk: {0}; it needs CONFIG_BLK_DEV_RAM \
         (kernels/disk.config adds what disks need)"
    )]
    Device(io::Error),
    /// The RAM disk is of another size.
    #[error(
        "{DEVICE} has {found_kib} KiB and not the {wanted_kib} asked for: take brd.rd_size and \
         ramdisk_size out of --boot"
    )]
    Size {
        /// What it has, KiB.
        found_kib: u64,
        /// What it should have, KiB.
        wanted_kib: u64,
    },
    /// The contents cannot be written.
    #[error("cannot write the disk: {0}; give the machine more memory (--memory-mib)")]
    Write(io::Error),
    /// The kernel has no such file system.
    #[error(
        "this kernel has no file system {0}; it needs CONFIG_EXT4_FS (kernels/disk.config adds \
         what disks need)"
    )]
    FileSystem(String),
    /// The kernel does not mount it.
    #[error("the kernel does not mount {file_system} with the options '{options}': {source}{said}")]
    Mount { file_system: String, options: String, source: io::Error, said: String },
}

/// Sets up the disk, if the guest is to have one. Result: whether modules were loaded for it.
pub(crate) fn set_up() -> Result<bool, DiskError> {
    let text = match fs::read_to_string(disk::PATH) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        text => text.map_err(read(disk::PATH))?,
    };
    let disk = GuestDisk::parse(&text)?;
    disk.modules.iter().try_for_each(load)?;
    let contents = fs::read(disk::IMAGE_PATH).map_err(read(disk::IMAGE_PATH))?;
    let mut device = File::options().write(true).open(DEVICE).map_err(DiskError::Device)?;
    let found_kib = device.seek(SeekFrom::End(0)).map_err(DiskError::Device)? >> 10;
    if found_kib != disk.size_kib {
        return Err(DiskError::Size { found_kib, wanted_kib: disk.size_kib });
    }
    for (at, block) in disk::blocks(&contents)? {
        device.write_all_at(block, at).map_err(DiskError::Write)?;
    }
    // Nothing of this is to be written back while the job is measured.
    device.sync_all().map_err(DiskError::Write)?;
    drop(device);
    mount_it(&disk)?;
    Ok(!disk.modules.is_empty())
}

fn read(path: &str) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_string();
    move |source| DiskError::Read { path, source }
}

/// Loads a module and waits until the kernel has done with it.
fn load(wanted: &GuestModule) -> Result<(), DiskError> {
    let words = Words::listen();
    let file = File::open(&wanted.path).map_err(read(&wanted.path))?;
    let parameters = CString::new(wanted.parameters.as_str()).unwrap_or_default();
    let loaded = finit_module(file, &parameters, 0);
    std::thread::sleep(SETTLED_AFTER);
    match loaded {
        Err(error) if wanted.needed => Err(DiskError::Module {
            path: wanted.path.clone(),
            source: error.into(),
            said: words.said(),
        }),
        // The processor lacks what it is for, say.
        _ => Ok(()),
    }
}

fn mount_it(disk: &GuestDisk) -> Result<(), DiskError> {
    let words = Words::listen();
    let (flags, data) = split(&disk.options);
    // It fails if the folder is there, as it should be.
    let _ = fs::create_dir(MOUNT_POINT);
    let data = CString::new(data).unwrap_or_default();
    match mount(DEVICE, MOUNT_POINT, &*disk.file_system, flags, &*data) {
        Ok(()) => Ok(()),
        Err(Errno::NODEV) => Err(DiskError::FileSystem(disk.file_system.clone())),
        Err(error) => Err(DiskError::Mount {
            file_system: disk.file_system.clone(),
            options: disk.options.clone(),
            source: error.into(),
            said: words.said(),
        }),
    }
}

/// Mount options as mount(2) takes them: flags, and what is left for the file system.
fn split(options: &str) -> (MountFlags, String) {
    let mut flags = MountFlags::empty();
    let mut rest = Vec::new();
    for option in options.split(',') {
        match FLAGS.iter().find(|(name, _)| *name == option) {
            Some((_, flag)) => flags |= *flag,
            None => rest.push(option),
        }
    }
    (flags, rest.join(","))
}

/// What the kernel says from a moment on.
struct Words {
    before: usize,
}

impl Words {
    fn listen() -> Words {
        Words { before: log::lines().map_or(0, |lines| lines.len()) }
    }

    /// The last lines since then, as the end of an error.
    fn said(&self) -> String {
        let lines = log::lines().unwrap_or_default();
        let lines = lines.get(self.before..).unwrap_or_default();
        match &lines[lines.len().saturating_sub(LINES_SHOWN)..] {
            [] => String::new(),
            last => format!("; the kernel says: {}", last.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_told_from_the_file_systems_own_options() {
        let (flags, data) = split("data=journal,noatime,commit=1,sync");
        assert_eq!(flags, MountFlags::NOATIME | MountFlags::SYNCHRONOUS);
        assert_eq!(data, "data=journal,commit=1");
        assert_eq!(split(""), (MountFlags::empty(), String::new()));
        assert_eq!(split("noatime"), (MountFlags::NOATIME, String::new()));
    }
}
