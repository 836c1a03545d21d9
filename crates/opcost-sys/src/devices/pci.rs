//! Devices that sysfs lists (Documentation/PCI/sysfs-pci.rst).

use opcost_record::file_image::{DEVICE, RESOURCE};
use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null_mut};

const DEVICES: &str = "/sys/bus/pci/devices";

/// The folder of a PCI device in sysfs, switched on.
pub(super) fn device([vendor, device]: [&str; 2]) -> io::Result<PathBuf> {
    let is = |path: PathBuf, name: &str, wanted: &str| {
        fs::read_to_string(path.join(name)).is_ok_and(|text| text.trim() == wanted)
    };
    let folders = fs::read_dir(DEVICES)?.flatten().map(|entry| entry.path());
    let mut folders = folders
        .filter(|path| is(path.clone(), "vendor", vendor) && is(path.clone(), "device", device));
    let none =
        || io::Error::new(io::ErrorKind::NotFound, format!("no PCI device {vendor}:{device}"));
    let folder = folders.next().ok_or_else(none)?;
    match fs::write(folder.join("enable"), "1") {
        // A driver has the device, and has switched it on (drivers/pci/pci-sysfs.c, enable_store).
        Err(error) if error.kind() != io::ErrorKind::ResourceBusy => Err(error),
        _ => Ok(folder),
    }
}

/// The memory of the device with a guest's large files, which nothing changes while the guest writes them.
#[derive(Debug)]
pub struct FileMemory {
    start: NonNull<u8>,
    bytes: usize,
}

impl FileMemory {
    /// Finds the device and maps its memory, of this size in bytes.
    ///
    /// # Errors
    /// There is no such device, the kernel gave its memory no address, or a kernel without sysfs.
    pub fn open(bytes: u64) -> io::Result<FileMemory> {
        FileMemory::map(&resource(&device(DEVICE)?)?, bytes)
    }

    fn map(path: &Path, bytes: u64) -> io::Result<FileMemory> {
        let file = File::open(path)?;
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let length = file.metadata()?.len();
        if length < bytes as u64 {
            return Err(io::Error::other(format!(
                "it has {length} bytes, and the files need {bytes}"
            )));
        }
        let (access, fd) = (libc::PROT_READ, file.as_raw_fd());
        // SAFETY: the kernel chooses a free place for memory that is only read.
        let start = unsafe { libc::mmap(null_mut(), bytes, access, libc::MAP_SHARED, fd, 0) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => {
                Ok(FileMemory { start, bytes })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The file of a device's memory. Where memory may be mapped as such, it needs no access to be aligned (on arm64).
fn resource(folder: &Path) -> io::Result<PathBuf> {
    let places = [format!("resource{RESOURCE}_wc"), format!("resource{RESOURCE}")];
    let place = places.iter().map(|name| folder.join(name)).find(|path| path.exists());
    place.ok_or_else(|| io::Error::other("the kernel gave its memory no address"))
}

impl Deref for FileMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is mapped while this value exists, and nobody writes to it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for FileMemory {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped by this value, which nobody uses any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_devices_memory_is_read_and_what_is_too_small_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let none = resource(folder.path()).unwrap_err().to_string();
        assert_eq!(none, "the kernel gave its memory no address");
        for name in ["resource2", "resource2_wc"] {
            fs::write(folder.path().join(name), name).unwrap();
            assert_eq!(resource(folder.path()).unwrap(), folder.path().join(name));
        }
        let path = folder.path().join("resource2");
        assert_eq!(&*FileMemory::map(&path, 9).unwrap(), b"resource2");
        let small = FileMemory::map(&path, 16).unwrap_err().to_string();
        assert_eq!(small, "it has 9 bytes, and the files need 16");
    }
}
