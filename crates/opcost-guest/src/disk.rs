//! The guest's disk: a RAM disk with a file system, set up before the job.
//!
//! ```text
//! modules → device → contents → mount
//! ```

use crate::log;
use opcost_record::disk::{self, DEVICE, GuestDisk, GuestModule, MOUNT_POINT};
use opcost_record::message::MessageError;
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

/// The wait after loading a module. The kernel frees a module's start-up memory later, after an RCU
/// grace period (kernel/module/main.c, do_free_init), and the next module's place depends on that
/// memory. An idle emulated machine skips the time.
const SETTLED_AFTER: Duration = Duration::from_millis(200);

/// Mount options that are flags of mount(2), not options of the file system.
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
    /// A file of the disk's description or contents cannot be read.
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: io::Error },
    /// The description of the disk is malformed.
    #[error(transparent)]
    Description(#[from] MessageError),
    /// The disk's contents are incomplete.
    #[error(transparent)]
    Contents(#[from] disk::CutShort),
    /// The kernel refuses a module.
    #[error("the kernel does not load the module {path}: {source}{said}")]
    Module { path: String, source: io::Error, said: String },
    /// The kernel has no RAM disk.
    #[error(
        "this kernel has no {DEVICE} for a disk: {0}; it needs CONFIG_BLK_DEV_RAM \
         (kernels/disk.config adds what disks need)"
    )]
    Device(io::Error),
    /// The RAM disk has the wrong size.
    #[error(
        "{DEVICE} has {found_kib} KiB and not the {wanted_kib} asked for: take brd.rd_size and \
         ramdisk_size out of --boot"
    )]
    Size {
        /// Size of the device, KiB.
        found_kib: u64,
        /// Size asked for, KiB.
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
    /// The kernel does not mount the disk.
    #[error("the kernel does not mount {file_system} with the options '{options}': {source}{said}")]
    Mount { file_system: String, options: String, source: io::Error, said: String },
}

/// Sets up the disk, if the guest is to have one. Returns whether modules were loaded for it.
pub(crate) fn set_up() -> Result<bool, DiskError> {
    let description = match fs::read(disk::PATH) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        description => description.map_err(read(disk::PATH))?,
    };
    let disk = GuestDisk::decode(&description)?;
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
    // Write-back must be over before the job is measured.
    device.sync_all().map_err(DiskError::Write)?;
    drop(device);
    mount_it(&disk)?;
    Ok(!disk.modules.is_empty())
}

fn read(path: &str) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_string();
    move |source| DiskError::Read { path, source }
}

/// Loads a module and waits until the kernel has freed its start-up memory.
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
            said: words.printed(),
        }),
        // For example, the processor lacks the feature that the module is for.
        _ => Ok(()),
    }
}

fn mount_it(disk: &GuestDisk) -> Result<(), DiskError> {
    let words = Words::listen();
    let (flags, data) = split(&disk.options);
    // This fails if the folder exists already, as it should.
    let _ = fs::create_dir(MOUNT_POINT);
    let data = CString::new(data).unwrap_or_default();
    match mount(DEVICE, MOUNT_POINT, &*disk.file_system, flags, &*data) {
        Ok(()) => Ok(()),
        Err(Errno::NODEV) => Err(DiskError::FileSystem(disk.file_system.clone())),
        Err(error) => Err(DiskError::Mount {
            file_system: disk.file_system.clone(),
            options: disk.options.clone(),
            source: error.into(),
            said: words.printed(),
        }),
    }
}

/// Splits mount options as mount(2) takes them: flags, and options for the file system.
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

/// The kernel's messages from a moment on.
struct Words {
    before: usize,
}

impl Words {
    fn listen() -> Words {
        Words { before: log::lines().map_or(0, |lines| lines.len()) }
    }

    /// The last messages since then, as the end of an error.
    fn printed(&self) -> String {
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
