//! Checks kernel images and reads their release (Linux, Documentation/arch/x86/boot.rst).

use super::error::{KERNEL, KernelError};
use opcost_record::printable::hexadecimal;
use sha2::{Digest, Sha256};
use std::path::Path;

/// Facts about an image file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Image {
    /// The kernel's release, as `uname -r` shows it.
    pub(super) release: Option<String>,
    /// SHA-256 of the file, hexadecimal.
    pub(super) digest: String,
    /// Size of the file.
    pub(super) bytes: u64,
}

/// Offsets in the boot sector and the setup header, bytes (boot.rst, "The Real-Mode Kernel Header").
const SETUP_SECTS: usize = 0x1f1;
const BOOT_FLAG: usize = 0x1fe;
const HEADER: usize = 0x202;
const VERSION: usize = 0x206;
const KERNEL_VERSION: usize = 0x20e;
const XLOADFLAGS: usize = 0x236;
const HEADER_END: usize = 0x268;
/// `kernel_version` counts from the end of the boot sector.
const SECTOR_BYTES: usize = 0x200;
/// The protocol that introduced `xloadflags` (Linux 3.8).
const PROTOCOL_WITH_XLOADFLAGS: u16 = 0x020c;
const XLF_KERNEL_64: u16 = 1;

/// Reads and checks a bzImage.
pub(super) fn read(path: &Path) -> Result<Image, KernelError> {
    if path.is_dir() {
        return Err(not_an_image(path, "it is a folder; give the bzImage in it"));
    }
    let bytes = std::fs::read(path).map_err(KernelError::input(KERNEL, path))?;
    if let Some(found) = found_instead(&bytes) {
        return Err(not_an_image(path, found));
    }
    let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    if word(VERSION) >= PROTOCOL_WITH_XLOADFLAGS && word(XLOADFLAGS) & XLF_KERNEL_64 == 0 {
        return Err(not_an_image(path, "it is a 32-bit kernel; the machine's programs are 64-bit"));
    }
    Ok(Image { release: release(&bytes), digest: digest(&bytes), bytes: bytes.len() as u64 })
}

fn not_an_image(path: &Path, found: &str) -> KernelError {
    KernelError::NotAnImage { path: path.to_path_buf(), found: found.to_string() }
}

/// SHA-256, hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Describes the file if it is no bzImage.
fn found_instead(bytes: &[u8]) -> Option<&'static str> {
    if bytes.len() >= HEADER_END
        && bytes[BOOT_FLAG..][..2] == [0x55, 0xaa]
        && &bytes[HEADER..][..4] == b"HdrS"
    {
        return None;
    }
    let begins = |magic: &[u8]| bytes.starts_with(magic);
    let text = bytes.iter().take(512).all(|byte| matches!(byte, b'\t'..=b'\r' | 0x20..=0x7e));
    Some(if bytes.is_empty() {
        "it is empty"
    } else if begins(b"\x7fELF") {
        "it is an ELF file, such as vmlinux; give the bzImage (arch/x86/boot/bzImage) or the whole build folder"
    } else if begins(b"\x1f\x8b") {
        "it is a gzip file; give the bzImage itself"
    } else if begins(b"\xfd7zXZ\0") {
        "it is an xz file; give the bzImage itself"
    } else if begins(b"\x28\xb5\x2f\xfd") {
        "it is a zstd file; give the bzImage itself"
    } else if begins(b"!<arch>\n") {
        "it is an archive, such as a Debian package; give its boot/vmlinuz file, or --kernel debian:cloud"
    } else if bytes.get(0x38..0x3c) == Some(b"ARM\x64") {
        "it is a kernel for arm64; the machine is x86-64"
    } else if text {
        "it is a text file; give the bzImage"
    } else {
        "it has neither the boot sector's mark nor the header HdrS of a bzImage"
    })
}

/// The release: the first word of the version text.
fn release(bytes: &[u8]) -> Option<String> {
    let offset =
        usize::from(u16::from_le_bytes([bytes[KERNEL_VERSION], bytes[KERNEL_VERSION + 1]]));
    // For old loaders, 0 sectors mean 4.
    let sectors = if bytes[SETUP_SECTS] == 0 { 4 } else { usize::from(bytes[SETUP_SECTS]) };
    if offset == 0 || offset >= SECTOR_BYTES * sectors {
        return None;
    }
    let text = bytes.get(SECTOR_BYTES + offset..)?;
    let word = text.split(|byte| matches!(byte, b' ' | 0)).next()?;
    let word = std::str::from_utf8(word).ok()?;
    (!word.is_empty() && word.len() < 100).then(|| word.to_string())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file with the header of a bzImage and a release.
    pub(crate) fn made(release: &str) -> Vec<u8> {
        let mut bytes = vec![0; 0x1000];
        bytes[SETUP_SECTS] = 4;
        bytes[BOOT_FLAG..][..2].copy_from_slice(&[0x55, 0xaa]);
        bytes[HEADER..][..4].copy_from_slice(b"HdrS");
        bytes[VERSION..][..2].copy_from_slice(&0x020fu16.to_le_bytes());
        bytes[KERNEL_VERSION..][..2].copy_from_slice(&0x100u16.to_le_bytes());
        bytes[XLOADFLAGS] = 1;
        let text = format!("{release} (someone@somewhere) #1 SMP\0");
        bytes[SECTOR_BYTES + 0x100..][..text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    fn read_bytes(bytes: &[u8]) -> Result<Image, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        read(file.path()).map_err(|error| {
            assert!(error.to_string().contains(&*file.path().to_string_lossy()), "{error}");
            error.to_string()
        })
    }

    #[test]
    fn an_image_says_its_release() {
        let image = read_bytes(&made("6.1.192-test")).unwrap();
        assert_eq!(image.release.as_deref(), Some("6.1.192-test"));
        assert_eq!(image.bytes, 0x1000);
        assert_eq!(
            digest(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn an_image_without_version_is_still_one() {
        let mut bytes = made("6.1");
        bytes[KERNEL_VERSION..][..2].fill(0);
        assert_eq!(read_bytes(&bytes).unwrap().release, None);
        bytes[KERNEL_VERSION..][..2].fill(0xff);
        assert_eq!(read_bytes(&bytes).unwrap().release, None);
    }

    #[test]
    fn other_files_are_refused_as_what_they_are() {
        let mut no_flag = made("6.1");
        no_flag[BOOT_FLAG] = 0;
        let mut narrow = made("6.1");
        narrow[XLOADFLAGS] = 0;
        let mut arm = vec![0; 0x1000];
        arm[0x38..0x3c].copy_from_slice(b"ARM\x64");
        let cases: [(&[u8], &str); 10] = [
            (b"", "empty"),
            (b"\x7fELF\x02", "the whole build folder"),
            (b"\x1f\x8b\x08", "gzip"),
            (b"\xfd7zXZ\0", "xz file"),
            (b"\x28\xb5\x2f\xfd", "zstd"),
            (b"!<arch>\ndebian", "debian:cloud"),
            (&arm, "arm64"),
            (b"CONFIG_SMP=y\n", "text file"),
            (&no_flag, "boot sector's mark"),
            (&narrow, "32-bit"),
        ];
        for (bytes, expected) in cases {
            let error = read_bytes(bytes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        // The file ends in the middle of the header.
        assert!(read_bytes(&made("6.1")[..HEADER_END - 1]).is_err());
        assert!(read(Path::new("/")).unwrap_err().to_string().contains("folder"));
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(noise in proptest::collection::vec(any::<u8>(), 0x20), cut in 0usize..0x1000) {
            let mut bytes = made("6.1");
            bytes[KERNEL_VERSION] = noise[0];
            bytes[KERNEL_VERSION + 1] = noise[1];
            bytes[SETUP_SECTS] = noise[2];
            bytes[SECTOR_BYTES + 0x100..][..0x20].copy_from_slice(&noise);
            bytes.truncate(cut);
            if found_instead(&bytes).is_none() {
                let _ = release(&bytes);
            }
        }
    }
}
