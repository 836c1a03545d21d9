//! Finds the code in an arm64 image that the kernel replaces when it boots on a CPU with certain features or faults.
//!
//! The image has a table with an entry for each such place (`struct alt_instr` in Linux, arch/arm64/include/asm/alternative.h). No
//! symbol of the file leads to the table, and the kernel frees it after its boot. The table is the longest run of bytes that can be
//! entries: in Debian's kernels 6.1 and 6.12 it has all entries, and no other run is longer than a few.

use super::error::{KERNEL, KernelError};
use opcost_record::Architecture;
use opcost_record::symbols::Alternative;
use std::path::Path;

/// An entry: the distances of the code and of its replacement from their fields, the feature, and both lengths.
const ENTRY_BYTES: usize = 12;
/// Instructions and entries lie at multiples of this.
const WORD_BYTES: usize = 4;
/// A kernel with fewer entries is none that opcost knows.
const ENTRIES_MIN: usize = 64;
/// Numbers of features are below this, beside the bit for code that a function of the kernel makes.
const FEATURES_MAX: u16 = 0x400;
const MADE_BY_FUNCTION: u16 = 0x8000;

/// The place of `text_offset` in the image's header, and the least offset that QEMU takes as it is (hw/arm/boot.c,
/// `load_aarch64_image`).
const TEXT_OFFSET: usize = 8;
const LOAD_OFFSET_MIN: u64 = 0x1000;
const LOAD_ALIGNMENT: u64 = 2 << 20;
/// The start of memory on QEMU's machine `virt` (hw/arm/virt.c, `base_memmap`).
const MEMORY: u64 = 0x4000_0000;

/// Reads the code that a kernel may replace, at its addresses in the guest's memory; empty if the kernel's image is compressed.
///
/// # Errors
/// The image cannot be read.
pub fn alternatives(
    image: &Path,
    architecture: Architecture,
) -> Result<Vec<Alternative>, KernelError> {
    match architecture {
        Architecture::X86_64 => Ok(Vec::new()),
        Architecture::Aarch64 => std::fs::read(image)
            .map(|bytes| in_image(&bytes))
            .map_err(KernelError::input(KERNEL, image)),
    }
}

fn in_image(image: &[u8]) -> Vec<Alternative> {
    let Some(offset) = image.get(TEXT_OFFSET..TEXT_OFFSET + 8) else { return Vec::new() };
    let offset = u64::from_le_bytes(offset.try_into().unwrap_or_default());
    let aligned = if offset < LOAD_OFFSET_MIN { LOAD_ALIGNMENT } else { 0 };
    let loaded = MEMORY.wrapping_add(offset).wrapping_add(aligned);
    let entries = longest(image).map(|place| entry(image, place));
    entries
        .flatten()
        .map(|code| Alternative {
            address: loaded.wrapping_add(code.start as u64),
            code: image[code].to_vec(),
        })
        .collect()
}

/// The places of the table's entries.
fn longest(image: &[u8]) -> impl Iterator<Item = usize> {
    let (mut table, mut at) = (0..0, 0);
    while at + ENTRY_BYTES <= image.len() {
        let mut end = at;
        while entry(image, end).is_some() {
            end += ENTRY_BYTES;
        }
        if end - at > table.len() {
            table = at..end;
        }
        at = end.max(at + WORD_BYTES);
    }
    let known = table.len() >= ENTRIES_MIN * ENTRY_BYTES;
    known.then(|| table.step_by(ENTRY_BYTES)).into_iter().flatten()
}

/// The code of the entry at a place of the image, as offsets in the image; `None` if the bytes cannot be an entry.
fn entry(image: &[u8], at: usize) -> Option<std::ops::Range<usize>> {
    let entry: [u8; ENTRY_BYTES] = image.get(at..at + ENTRY_BYTES)?.try_into().ok()?;
    let [.., feature_low, feature_high, length, replacement] = entry;
    let (length, replacement) = (usize::from(length), usize::from(replacement));
    let whole = length > 0 && length.is_multiple_of(WORD_BYTES);
    if !(whole && (replacement == length || replacement == 0)) {
        return None;
    }
    let feature = u16::from_le_bytes([feature_low, feature_high]);
    let made = feature & MADE_BY_FUNCTION != 0;
    if feature & !MADE_BY_FUNCTION >= FEATURES_MAX || (replacement == 0 && !made && feature == 0) {
        return None;
    }
    let place = |field: usize| {
        let distance = i32::from_le_bytes(entry[field..field + 4].try_into().ok()?);
        let place = (at + field).checked_add_signed(isize::try_from(distance).ok()?)?;
        (place.is_multiple_of(WORD_BYTES) && place + length <= image.len()).then_some(place)
    };
    place(4)?;
    place(0).map(|start| start..start + length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: usize = 0x4000;

    /// An image with a table of `entries` entries for two words each; the code of entry n is at 8 n.
    fn image(entries: usize, text_offset: u64) -> Vec<u8> {
        let mut image: Vec<u8> = (0..0x8000_u32).map(|at| (at / 4) as u8 | 0x80).collect();
        image[TEXT_OFFSET..TEXT_OFFSET + 8].copy_from_slice(&text_offset.to_le_bytes());
        for number in 0..entries {
            let at = TABLE + number * ENTRY_BYTES;
            let distance =
                |to: usize, field: usize| (to as i32 - (at + field) as i32).to_le_bytes();
            let entry = [
                &distance(number * 8, 0)[..],
                &distance(0x3000, 4),
                &(number as u16 % 60).to_le_bytes(),
                &[8, 8],
            ];
            image[at..at + ENTRY_BYTES].copy_from_slice(&entry.concat());
        }
        image
    }

    #[test]
    fn all_code_of_a_table_is_found_where_the_kernel_is_loaded() {
        let made = image(100, 0);
        let found = in_image(&made);
        assert_eq!(found.len(), 100);
        for (number, one) in found.iter().enumerate() {
            assert_eq!(one.address, 0x4020_0000 + number as u64 * 8);
            assert_eq!(one.code, made[number * 8..][..8]);
        }
        assert_eq!(in_image(&image(100, 0x8_0000))[1].address, 0x4008_0008);
    }

    #[test]
    fn an_image_without_a_table_has_none() {
        assert!(in_image(&[]).is_empty());
        assert!(in_image(&image(0, 0)).is_empty());
        assert!(in_image(&image(ENTRIES_MIN - 1, 0)).is_empty());
        let mut beyond = image(100, 0);
        beyond.truncate(0x3000);
        assert!(in_image(&beyond).is_empty(), "the table is cut off");
        let missing = alternatives(Path::new("/none"), Architecture::Aarch64).unwrap_err();
        assert!(missing.to_string().contains("/none"), "{missing}");
        assert_eq!(alternatives(Path::new("/none"), Architecture::X86_64).unwrap(), []);
    }

    proptest! {
        #[test]
        fn no_table_makes_it_panic(noise in proptest::collection::vec(any::<u8>(), 0x200), at in 0usize..0x600) {
            let mut image = image(100, 0);
            image[TABLE + at..][..noise.len()].copy_from_slice(&noise);
            let all = in_image(&image);
            prop_assert!(all.iter().all(|one| !one.code.is_empty()));
        }
    }
}
