//! Functions that unwind information tells of, in files whose symbols were stripped
//! (Linux Standard Base 5.0, Core, 10.6: `.eh_frame`).

use super::super::span::{Span, unnest};
use super::Name;
use super::image::{Code, Image, LE, offsets};
use gimli::{BaseAddresses, CieOrFde, EhFrame, EhFrameOffset, LittleEndian, UnwindSection};
use object::read::elf::SectionHeader;
use std::collections::HashMap;

/// Functions by file offset, ascending, disjoint.
///
/// Where the section cannot be read further, its functions end: their code has no name then, which
/// is what it shows.
pub(super) fn functions<'d>(image: &Image<'d>, code: &[Code]) -> Vec<Span<Name<'d>>> {
    let mut spans = Vec::new();
    if let Some((_, section)) = image.sections.section_by_name(LE, b".eh_frame")
        && let Ok(data) = section.data(LE, image.data)
    {
        let bases = BaseAddresses::default().set_eh_frame(section.sh_addr(LE));
        // An error ends the walk, as said above.
        let _ = walk(&EhFrame::new(data, LittleEndian), &bases, |address, bytes| {
            if let Some((start, end)) = offsets(code, address, bytes) {
                spans.push(Span { start, end, name: Name::At(address) });
            }
        });
    }
    // Of two that start alike the longer one, so that no byte is lost.
    spans.sort_by_key(|span| (span.start, u64::MAX - span.end));
    spans.dedup_by_key(|span| span.start);
    unnest(&spans)
}

/// Calls `take` with the address and size in bytes of each function.
fn walk(
    frames: &EhFrame<gimli::EndianSlice<LittleEndian>>,
    bases: &BaseAddresses,
    mut take: impl FnMut(u64, u64),
) -> gimli::Result<()> {
    let mut entries = frames.entries(bases);
    // Thousands of functions share a few common parts.
    let mut commons = HashMap::new();
    while let Some(entry) = entries.next()? {
        let CieOrFde::Fde(partial) = entry else { continue };
        let function =
            partial.parse(|_, bases, offset: EhFrameOffset| match commons.get(&offset.0) {
                Some(common) => Ok(gimli::CommonInformationEntry::clone(common)),
                None => {
                    let common = frames.cie_from_offset(bases, offset)?;
                    commons.insert(offset.0, common.clone());
                    Ok(common)
                }
            })?;
        take(function.initial_address(), function.len());
    }
    Ok(())
}
