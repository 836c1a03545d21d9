//! Checks kernel images and reads their release (Linux, Documentation/arch/x86/boot.rst, Documentation/arch/arm64/booting.rst).

use super::error::{KERNEL, KernelError};
use opcost_record::Architecture;
use opcost_record::printable::hexadecimal;
use sha2::{Digest, Sha256};
use std::path::Path;

/// Facts about an image file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Image {
    /// The architecture of the guests that boot it.
    architecture: Architecture,
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

/// Advice for other files.
const ITSELF: &str = "the image itself (arch/x86/boot/bzImage, arch/arm64/boot/Image)";

/// The mark of an arm64 `Image`, and its place.
const ARM64_MARK: (usize, &[u8]) = (0x38, b"ARM\x64");
/// The place of its flags, which are little-endian: bit 0 for big-endian kernels, bits 1 and 2 for the size of pages.
const ARM64_FLAGS: usize = 0x18;

/// Reads and checks an image for guests of an architecture.
pub(super) fn read_for(path: &Path, wanted: Architecture) -> Result<Image, KernelError> {
    match read(path)? {
        image if image.architecture == wanted => Ok(image),
        image => Err(not_an_image(
            path,
            &format!(
                "it is a kernel for {0}, and the machine is {wanted}; give --architecture {0}, or a kernel for {wanted}",
                image.architecture
            ),
        )),
    }
}

fn not_an_image(path: &Path, found: &str) -> KernelError {
    KernelError::NotAnImage { path: path.to_path_buf(), found: found.to_string() }
}

/// Reads and checks an image.
pub(super) fn read(path: &Path) -> Result<Image, KernelError> {
    if path.is_dir() {
        return Err(not_an_image(path, &format!("it is a folder; give {ITSELF} in it")));
    }
    let bytes = std::fs::read(path).map_err(KernelError::input(KERNEL, path))?;
    let Some(architecture) = architecture_of(&bytes) else {
        let found = found_instead(&bytes);
        return Err(not_an_image(path, &format!("{found}; give {ITSELF}")));
    };
    let release = match architecture {
        Architecture::X86_64 => {
            let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            if word(VERSION) >= PROTOCOL_WITH_XLOADFLAGS && word(XLOADFLAGS) & XLF_KERNEL_64 == 0 {
                let found = "it is a 32-bit kernel; the machine's programs are 64-bit";
                return Err(not_an_image(path, found));
            }
            release_by_header(&bytes)
        }
        Architecture::Aarch64 => {
            if let Some(found) = unsuitable_by_flags(bytes[ARM64_FLAGS]) {
                return Err(not_an_image(path, &found));
            }
            release_by_banner(&bytes)
        }
    };
    Ok(Image { architecture, release, digest: digest(&bytes), bytes: bytes.len() as u64 })
}

/// The architecture of a kernel in the form for boot loaders; `None` if the file is something else.
pub fn architecture_of(bytes: &[u8]) -> Option<Architecture> {
    let has =
        |(at, mark): (usize, &[u8])| bytes.get(at..).is_some_and(|rest| rest.starts_with(mark));
    if bytes.len() >= HEADER_END && has((BOOT_FLAG, &[0x55, 0xaa])) && has((HEADER, b"HdrS")) {
        Some(Architecture::X86_64)
    } else {
        has(ARM64_MARK).then_some(Architecture::Aarch64)
    }
}

/// Why the guests' machine does not boot an arm64 kernel with these flags.
fn unsuitable_by_flags(flags: u8) -> Option<String> {
    if flags & 1 != 0 {
        let found = "it is a big-endian kernel, and guests are little-endian; build it without CONFIG_CPU_BIG_ENDIAN";
        return Some(found.into());
    }
    let kib = match flags >> 1 & 3 {
        2 => 16,
        3 => 64,
        _ => return None,
    };
    Some(format!(
        "its pages have {kib} KiB, and opcost's counts are proved for pages of 4 KiB alone; build it with \
         CONFIG_ARM64_4K_PAGES=y, or give debian:cloud"
    ))
}

/// SHA-256, hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Describes a file that is no image.
fn found_instead(bytes: &[u8]) -> &'static str {
    let begins = |magic: &[u8]| bytes.starts_with(magic);
    let text = bytes.iter().take(512).all(|byte| matches!(byte, b'\t'..=b'\r' | 0x20..=0x7e));
    if bytes.is_empty() {
        "it is empty"
    } else if begins(b"\x7fELF") {
        "it is an ELF file, such as vmlinux, whose build folder can be given, too"
    } else if begins(b"\x1f\x8b") {
        "it is a gzip file"
    } else if begins(b"\xfd7zXZ\0") {
        "it is an xz file"
    } else if begins(b"\x28\xb5\x2f\xfd") {
        "it is a zstd file"
    } else if bytes.get(4..8) == Some(b"zimg") {
        "it is compressed for EFI (CONFIG_EFI_ZBOOT)"
    } else if begins(b"!<arch>\n") {
        "it is an archive, such as a Debian package, whose boot/vmlinuz file is an image; --kernel debian:cloud fetches one"
    } else if text {
        "it is a text file"
    } else {
        "it has no image's marks: neither the boot sector's and HdrS (x86-64) nor ARM\\x64 (arm64)"
    }
}

/// The release in a bzImage: the first word of the version text.
fn release_by_header(bytes: &[u8]) -> Option<String> {
    let offset =
        usize::from(u16::from_le_bytes([bytes[KERNEL_VERSION], bytes[KERNEL_VERSION + 1]]));
    // For old loaders, 0 sectors mean 4.
    let sectors = if bytes[SETUP_SECTS] == 0 { 4 } else { usize::from(bytes[SETUP_SECTS]) };
    if offset == 0 || offset >= SECTOR_BYTES * sectors {
        return None;
    }
    first_word(bytes.get(SECTOR_BYTES + offset..)?)
}

/// The release in an image that is not compressed: the word after "Linux version", which the kernel prints (init/version.c).
fn release_by_banner(bytes: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b"Linux version ";
    let mut places = memchr::memmem::find_iter(bytes, BANNER);
    places.find_map(|at| {
        let word = first_word(&bytes[at + BANNER.len()..])?;
        word.starts_with(|c: char| c.is_ascii_digit()).then_some(word)
    })
}

/// The bytes up to a blank, if they can be a release.
fn first_word(text: &[u8]) -> Option<String> {
    let word = text.iter().take(100).position(|byte| matches!(byte, b' ' | 0))?;
    let word = std::str::from_utf8(&text[..word]).ok()?;
    (!word.is_empty()).then(|| word.to_string())
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

    /// A file with the header of an arm64 `Image` and a release.
    pub(crate) fn made_for_arm64(release: &str) -> Vec<u8> {
        let mut bytes = vec![0; 0x1000];
        bytes[ARM64_MARK.0..][..4].copy_from_slice(ARM64_MARK.1);
        let text = format!("Linux version %s (%s)\0Linux version {release} (someone@somewhere)\0");
        bytes[0x800..][..text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    fn read_bytes(bytes: &[u8]) -> Result<Image, String> {
        read_bytes_for(bytes, Architecture::X86_64)
    }

    fn read_bytes_for(bytes: &[u8], architecture: Architecture) -> Result<Image, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        read_for(file.path(), architecture).map_err(|error| {
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
        let arm = made_for_arm64("6.1");
        let cases: [(&[u8], &str); 11] = [
            (b"", "empty"),
            (b"\x7fELF\x02", "whose build folder"),
            (b"\x1f\x8b\x08", "gzip"),
            (b"\xfd7zXZ\0", "xz file"),
            (b"\x28\xb5\x2f\xfd", "zstd"),
            (b"!<arch>\ndebian", "debian:cloud"),
            (
                &arm,
                "for arm64, and the machine is x86-64; give --architecture arm64, or a kernel for x86-64",
            ),
            (b"CONFIG_SMP=y\n", "text file; give the image itself (arch/x86/boot/bzImage"),
            (b"MZ\0\0zimg\0", "EFI"),
            (&no_flag, "no image's marks"),
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

    #[test]
    fn kernels_of_arm64_that_the_machine_does_not_boot_are_refused_by_their_flags() {
        let refusal = |flags: u8| {
            let mut bytes = made_for_arm64("6.1");
            bytes[ARM64_FLAGS] = flags;
            read_bytes_for(&bytes, Architecture::Aarch64).err().unwrap_or_default()
        };
        // The third bit allows the kernel any place in memory.
        assert_eq!([0, 0b10, 0b1010].map(refusal), ["", "", ""]);
        for (flags, why) in [
            (0b1, "big-endian"),
            (0b1011, "big-endian"),
            (0b1100, "its pages have 16 KiB"),
            (0b1110, "its pages have 64 KiB"),
        ] {
            let said = refusal(flags);
            assert!(said.contains(why), "{flags:b}: {said}");
        }
    }

    #[test]
    fn an_image_of_arm64_says_its_release() {
        let read = |bytes: &[u8]| read_bytes_for(bytes, Architecture::Aarch64);
        let release = |bytes: &[u8]| read(bytes).unwrap().release;
        let mut bytes = made_for_arm64("6.1.0-9-cloud-arm64");
        assert_eq!(release(&bytes).as_deref(), Some("6.1.0-9-cloud-arm64"));
        bytes[0x830..].fill(b'x');
        assert_eq!(release(&bytes), None);
        assert_eq!(release(&bytes[..0x3c]), None);
        let error = read(&made("6.1")).unwrap_err();
        assert!(error.contains("a kernel for x86-64, and the machine is arm64"), "{error}");
        let error = read(b"\x1f\x8b\x08").unwrap_err();
        assert!(error.contains("gzip file; give the image itself"), "{error}");
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
            if architecture_of(&bytes) == Some(Architecture::X86_64) {
                let _ = release_by_header(&bytes);
            }
            let _ = release_by_banner(&bytes);
        }
    }
}
