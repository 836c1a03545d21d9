//! A guest's disk: the description from which `/init` sets it up before the job, and the contents
//! without empty blocks.
//!
//! ```text
//! opcost-disk 1
//! file-system ext4
//! options data=journal,noatime
//! size-kib 65536
//! module must /opcost/modules/0-brd.ko rd_nr=1 rd_size=65536
//! module may /opcost/modules/1-crc32c-intel.ko
//! ```
//!
//! The disk is the first of the kernel's RAM disks, so that no device of the host adds to its cost
//! (Documentation/admin-guide/blockdev/ramdisk.rst).

use crate::framing::{Fault, Format, TextError, number};
use std::io::{self, Read};

/// The format of the description; it has no last line.
pub static FORMAT: Format = Format {
    header: "opcost-disk 1",
    name: "the disk's description",
    peer: "guest",
    empty: "the disk's description is empty",
    cut_short: "",
    counted: false,
};

/// The path of the description in a guest that has a disk.
pub const PATH: &str = "/opcost/disk";

/// The path of the contents.
pub const IMAGE_PATH: &str = "/opcost/disk-image";

/// The disk's device.
pub const DEVICE: &str = "/dev/ram0";

/// The folder where the disk is mounted.
pub const MOUNT_POINT: &str = "/disk";

/// The size of a block of the contents, and of a block of the file system, bytes.
pub const BLOCK_BYTES: usize = 4096;

/// The size of the number in front of each block, least byte first.
const NUMBER_BYTES: usize = 8;

/// The description of a disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GuestDisk {
    /// The file system, as mount(2) names it.
    pub file_system: String,
    /// Mount options, separated by commas; empty for none.
    pub options: String,
    /// Size, KiB.
    pub size_kib: u64,
    /// The modules to load into the kernel first, in this order.
    pub modules: Vec<GuestModule>,
}

/// A module of the kernel.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GuestModule {
    /// The file in the guest, a path without spaces.
    pub path: String,
    /// The module's parameters, separated by spaces.
    pub parameters: String,
    /// Whether the disk needs the module; if not, the processor may lack what the module needs.
    pub needed: bool,
}

impl GuestDisk {
    /// Writes the description as text.
    pub fn format(&self) -> String {
        let mut lines = vec![
            format!("file-system {}", self.file_system),
            format!("options {}", self.options),
            format!("size-kib {}", self.size_kib),
        ];
        lines.extend(self.modules.iter().map(|module| {
            let need = if module.needed { "must" } else { "may" };
            format!("module {need} {} {}", module.path, module.parameters).trim_end().to_string()
        }));
        FORMAT.write(&lines)
    }

    /// Reads what [`format`](Self::format) wrote.
    ///
    /// # Errors
    /// [`TextError`] names the first fault.
    pub fn parse(text: &str) -> Result<GuestDisk, TextError> {
        let (mut file_system, mut options, mut size_kib) = (None, None, None);
        let mut modules = Vec::new();
        FORMAT.read(text, |line| {
            match line.split_once(' ').ok_or("an item has no value")? {
                ("file-system", name) => file_system = Some(name.to_string()),
                ("options", list) => options = Some(list.to_string()),
                ("size-kib", size) => size_kib = Some(number(size)?),
                ("module", module) => {
                    modules.push(GuestModule::parse(module).ok_or("not a module")?);
                }
                _ => return Err("unknown item"),
            }
            Ok(())
        })?;
        let missing = |what| FORMAT.error(Fault::Missing(what));
        Ok(GuestDisk {
            file_system: file_system.ok_or_else(|| missing("file-system"))?,
            options: options.ok_or_else(|| missing("options"))?,
            size_kib: size_kib.ok_or_else(|| missing("size-kib"))?,
            modules,
        })
    }
}

impl GuestModule {
    fn parse(text: &str) -> Option<GuestModule> {
        let mut words = text.splitn(3, ' ');
        let needed = match words.next()? {
            "must" => true,
            "may" => false,
            _ => return None,
        };
        let path = words.next().filter(|path| path.starts_with('/'))?.to_string();
        Some(GuestModule { path, parameters: words.next().unwrap_or_default().to_string(), needed })
    }
}

/// Reads a disk's contents and keeps the blocks that are not empty, each with its number.
///
/// # Errors
/// Reading fails, or the contents end within a block.
pub fn pack(mut image: impl Read) -> io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    let mut block = [0; BLOCK_BYTES];
    let mut number: u64 = 0;
    loop {
        match image.read_exact(&mut block[..1]) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(packed),
            read => read?,
        }
        image.read_exact(&mut block[1..])?;
        if block.iter().any(|byte| *byte != 0) {
            packed.extend_from_slice(&number.to_le_bytes());
            packed.extend_from_slice(&block);
        }
        number += 1;
    }
}

/// The contents of a disk end within a block.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the disk's contents were cut short after {0} bytes")]
pub struct CutShort(pub usize);

/// Returns the blocks that [`pack`] kept, each with its place on the disk in bytes.
///
/// # Errors
/// [`CutShort`].
pub fn blocks(packed: &[u8]) -> Result<impl Iterator<Item = (u64, &[u8])>, CutShort> {
    let pieces = packed.chunks_exact(NUMBER_BYTES + BLOCK_BYTES);
    if !pieces.remainder().is_empty() {
        return Err(CutShort(packed.len()));
    }
    Ok(pieces.filter_map(|piece| {
        let (number, block) = piece.split_first_chunk()?;
        Some((u64::from_le_bytes(*number).saturating_mul(BLOCK_BYTES as u64), block))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn disk() -> GuestDisk {
        let module = |path: &str, parameters: &str, needed| GuestModule {
            path: path.into(),
            parameters: parameters.into(),
            needed,
        };
        GuestDisk {
            file_system: "ext4".into(),
            options: "data=journal,noatime".into(),
            size_kib: 65536,
            modules: vec![
                module("/opcost/modules/0-brd.ko", "rd_nr=1 rd_size=65536", true),
                module("/opcost/modules/1-crc32c-intel.ko", "", false),
            ],
        }
    }

    #[test]
    fn the_text_is_the_one_documented() {
        let text = "opcost-disk 1\nfile-system ext4\noptions data=journal,noatime\nsize-kib 65536\n\
                    module must /opcost/modules/0-brd.ko rd_nr=1 rd_size=65536\n\
                    module may /opcost/modules/1-crc32c-intel.ko\n";
        assert_eq!(disk().format(), text);
        assert_eq!(GuestDisk::parse(text).unwrap(), disk());
        let plain = GuestDisk { options: String::new(), modules: vec![], ..disk() };
        assert_eq!(GuestDisk::parse(&plain.format()).unwrap(), plain);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fault = |lines: &str| {
            GuestDisk::parse(&format!("{}\n{lines}", FORMAT.header)).unwrap_err().to_string()
        };
        assert!(GuestDisk::parse("lunch").unwrap_err().to_string().contains("different versions"));
        assert_eq!(fault(""), "the disk's description has no file-system");
        assert_eq!(fault("file-system ext4\n"), "the disk's description has no options");
        assert_eq!(fault("file-system a\noptions \n"), "the disk's description has no size-kib");
        for (line, what) in [
            ("size-kib x", "not a number"),
            ("module will /a", "not a module"),
            ("module must a", "not a module"),
            ("module must", "not a module"),
            ("x y", "unknown item"),
            ("z", "an item has no value"),
        ] {
            let expected = format!("line 2 of the disk's description: {what}: '{line}'");
            assert_eq!(fault(&format!("{line}\n")), expected);
        }
    }

    proptest! {
        #[test]
        fn packed_blocks_make_the_same_disk(
            filled in prop::collection::btree_map(0..40usize, 1..=255u8, 0..10),
        ) {
            let mut image = vec![0; 40 * BLOCK_BYTES];
            for (number, byte) in &filled {
                image[number * BLOCK_BYTES + 7 * number] = *byte;
            }
            let packed = pack(image.as_slice()).unwrap();
            prop_assert_eq!(packed.len(), filled.len() * (NUMBER_BYTES + BLOCK_BYTES));
            let mut again = vec![0; image.len()];
            for (at, block) in blocks(&packed).unwrap() {
                again[at as usize..][..BLOCK_BYTES].copy_from_slice(block);
            }
            prop_assert!(again == image);
            for cut in 1..NUMBER_BYTES + BLOCK_BYTES {
                if let Some(rest) = packed.len().checked_sub(cut) {
                    prop_assert_eq!(blocks(&packed[..rest]).err(), Some(CutShort(rest)));
                }
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,80}", lines in "((module|options|size-kib) [ /a-z0-9]{0,9}\n){0,5}") {
            let _ = GuestDisk::parse(&text);
            let _ = GuestDisk::parse(&format!("{}\n{lines}", FORMAT.header));
        }
    }

    #[test]
    fn contents_that_end_within_a_block_are_an_error() {
        assert!(pack(&[1u8; 100][..]).is_err());
        assert!(pack(&[][..]).unwrap().is_empty());
    }
}
