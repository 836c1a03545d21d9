//! Finds the instructions that a program changes while it runs: its sites of patchpoint.

use super::image::{Code, Image, LE, offsets};
use object::read::elf::SectionHeader;

/// The section of the sites, and the size of its records (patchpoint.h, `struct patchpoint_site`).
const SECTION: &[u8] = b"patchpoint_sites";
const RECORD_BYTES: usize = 16;
/// The offset in a record of the instruction's length.
const LENGTH_AT: usize = 13;

/// Returns the range of file offsets of every site, ascending, disjoint; the end is exclusive.
///
/// Records that lead out of the code are left out, and so are all records of an object file, which is
/// not linked yet.
pub(super) fn ranges(image: &Image<'_>, code: &[Code]) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let named = image.sections.iter().filter(|section| {
        image.sections.section_name(LE, section).is_ok_and(|name| name == SECTION)
    });
    for section in named {
        let Ok(bytes) = section.data(LE, image.data) else { continue };
        let records = bytes.chunks_exact(RECORD_BYTES);
        let addresses = (section.sh_addr(LE)..).step_by(RECORD_BYTES);
        ranges.extend(records.zip(addresses).filter_map(|(record, address)| {
            // The field counts from its own address.
            let code_at = i32::from_le_bytes(record[..4].try_into().ok()?);
            let start = address.wrapping_add_signed(code_at.into());
            offsets(code, start, record[LENGTH_AT].into())
        }));
    }
    ranges.sort_unstable();
    ranges.dedup_by(|later, earlier| {
        let overlap = later.0 < earlier.1;
        if overlap {
            earlier.1 = earlier.1.max(later.1);
        }
        overlap
    });
    ranges
}
