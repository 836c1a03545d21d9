//! A guest's disk: the description from which `/init` sets it up before the job, and the contents
//! without empty blocks.
//!
//! The disk is the first of the kernel's RAM disks, so that no device of the host adds to its cost
//! (Documentation/admin-guide/blockdev/ramdisk.rst).

use crate::message::{Contents, Format, message};
use serde::{Deserialize, Serialize};
use std::io::{self, Read};

/// The format of the description.
static FORMAT: Format = Format {
    letter: b'd',
    name: "the disk's description",
    peer: "guest",
    empty: "the disk's description is empty",
    cut_short: "",
    bytes_max: 1 << 20,
    deflated: false,
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
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
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
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct GuestModule {
    /// The file in the guest.
    pub path: String,
    /// The module's parameters, separated by spaces.
    pub parameters: String,
    /// Whether the disk needs the module; if not, the processor may lack what the module needs.
    pub needed: bool,
}

impl Contents for GuestDisk {}

message!(GuestDisk, FORMAT);

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
pub(crate) mod tests {
    use super::*;
    use crate::message::tests::check_message;
    use proptest::prelude::*;

    pub(crate) fn sample() -> GuestDisk {
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
    fn a_description_is_read_whole_or_not_at_all() {
        check_message(&FORMAT, &sample());
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
    }

    #[test]
    fn contents_that_end_within_a_block_are_an_error() {
        assert!(pack(&[1u8; 100][..]).is_err());
        assert!(pack(&[][..]).unwrap().is_empty());
    }
}
