//! The files of a guest that its initramfs cannot hold: the list from which `/init` writes them before the job.
//!
//! Their contents are the memory of a PCI device, QEMU's `ivshmem-plain`, which no instruction of the guest changes. An initramfs is in
//! the guest's memory twice while the kernel unpacks it, and below 2 GiB. `/init` writes these files into the same file system as the
//! kernel writes the initramfs, so work finds the same files at the same cost. The initramfs has them all, empty, for their names,
//! places and permissions.

use crate::message::{Contents, Format, message, path};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The format.
static FORMAT: Format = Format {
    letter: b'i',
    name: "the list of large files",
    peer: "guest",
    empty: "the list of large files is empty",
    cut_short: "",
    bytes_max: 64 << 20,
    deflated: false,
};

/// The path of the list in a guest that has such files.
pub const PATH: &str = "/opcost/large-files";

/// Vendor and device of the PCI device (docs/specs/ivshmem-spec), as sysfs has them.
pub const DEVICE: [&str; 2] = ["0x1af4", "0x1110"];

/// The device's resource that is its memory.
pub const RESOURCE: u32 = 2;

/// The multiple of bytes at which each file begins.
pub const ALIGNED_BYTES: u64 = 4096;

/// The list of files.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FileImage {
    /// The size of the device's memory, bytes, a power of two.
    pub bytes: u64,
    /// SHA-256 of the files' contents in their order, hexadecimal, so that lists of different files differ.
    pub sha256: String,
    /// The files.
    pub files: Vec<ImageFile>,
}

/// One file.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ImageFile {
    /// The path in the guest, absolute.
    #[serde(with = "path")]
    pub path: PathBuf,
    /// Where its contents begin, bytes.
    pub offset: u64,
    /// The length, bytes.
    pub length: u64,
    /// The modification time, seconds since 1970.
    pub changed_s: u32,
}

impl Contents for FileImage {
    fn check(&self) -> Result<(), &'static str> {
        if !self.bytes.is_power_of_two() {
            return Err("its size is no power of two");
        }
        let is_inside = |file: &ImageFile| {
            file.offset.checked_add(file.length).is_some_and(|end| end <= self.bytes)
        };
        match self.files.iter().all(is_inside) {
            true => Ok(()),
            false => Err("a file ends behind its end"),
        }
    }
}

message!(FileImage, FORMAT);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::message::tests::check_message;

    pub(crate) fn sample() -> FileImage {
        let file = |path: &str, offset, length| ImageFile {
            path: path.into(),
            offset,
            length,
            changed_s: 1_577_836_800,
        };
        FileImage {
            bytes: 16384,
            sha256: "ab12".into(),
            files: vec![file("/data/one", 0, 5000), file("/data/two", 8192, 8192)],
        }
    }

    #[test]
    fn a_list_is_read_whole_or_not_at_all() {
        check_message(&FORMAT, &sample());
        let fault = |change: fn(&mut FileImage)| {
            let mut list = sample();
            change(&mut list);
            FileImage::decode(&list.encode()).unwrap_err().to_string()
        };
        assert!(fault(|list| list.bytes = 16000).ends_with("its size is no power of two"));
        let ends = "contradicts itself: a file ends behind its end";
        assert!(fault(|list| list.files[1].length = 8193).ends_with(ends));
        assert!(fault(|list| list.files[1].offset = u64::MAX).ends_with(ends));
    }
}
