//! Finds functions by unwind information in files whose symbols were stripped (Linux Standard Base 5.0,
//! Core, 10.6: `.eh_frame`).

use super::super::span::{Span, unnest};
use super::Name;
use super::excerpt::Readable;
use super::image::{Code, ElfError, Image, LE, offsets};
use gimli::{BaseAddresses, CieOrFde, EhFrame, EhFrameOffset, LittleEndian, UnwindSection};
use object::read::elf::SectionHeader;
use std::collections::HashMap;

/// Returns functions by file offset, ascending, disjoint.
///
/// If the section cannot be read further, its functions end there; later code stays without a name.
pub(super) fn functions<'d>(image: &Image<'d>, code: &[Code]) -> Vec<Span<Name<'d>>> {
    let mut spans = Vec::new();
    if let Some((frames, bases)) = eh_frame(image) {
        // An error ends the walk, as described above.
        let _ = walk(&frames, &bases, |function| {
            let address = function.initial_address();
            if let Some((start, end)) = offsets(code, address, function.len()) {
                spans.push(Span { start, end, name: Name::At(address) });
            }
        });
    }
    // The longer one of two functions with the same start is kept, so that no byte is lost.
    spans.sort_by_key(|span| (span.start, u64::MAX - span.end));
    spans.dedup_by_key(|span| span.start);
    unnest(&spans)
}

/// The number of the stack pointer (System V ABI, AMD64 supplement, figure 3.36).
const STACK_POINTER: gimli::Register = gimli::Register(7);

/// Tells for each of these file offsets whether its code keeps no frame pointer of its own: its return
/// address is found by the stack pointer, and a chain of frame pointers begins with its caller's
/// caller.
///
/// `places`: ascending. Code without unwind information counts as keeping a frame pointer.
///
/// # Errors
/// [`ElfError`], as [`read`](super::read).
pub fn without_frame<'d>(
    file: impl Into<Readable<'d>>,
    places: &[u64],
) -> Result<Vec<bool>, ElfError> {
    let image = Image::parse(file.into().unwind()?)?;
    let code = image.code()?;
    let mut without = vec![false; places.len()];
    // On other machines the registers have other numbers.
    if let Some((frames, bases)) = eh_frame(&image).filter(|_| image.is_x86()) {
        let mut context = gimli::UnwindContext::new();
        // Unreadable unwind information counts as missing.
        let _ = walk(&frames, &bases, |function| {
            let range = offsets(&code, function.initial_address(), function.len());
            let Some((start, end)) = range else { return };
            let first = places.partition_point(|place| *place < start);
            let asked = first..places.partition_point(|place| *place < end);
            if asked.is_empty() {
                return;
            }
            let Ok(mut rows) = function.rows(&frames, &bases, &mut context) else { return };
            while let Ok(Some(row)) = rows.next_row() {
                let bytes = row.end_address().saturating_sub(row.start_address());
                let (Some((start, end)), gimli::CfaRule::RegisterAndOffset { register, .. }) =
                    (offsets(&code, row.start_address(), bytes), row.cfa())
                else {
                    continue;
                };
                for place in asked.clone().filter(|place| (start..end).contains(&places[*place])) {
                    without[place] = *register == STACK_POINTER;
                }
            }
        });
    }
    Ok(without)
}

/// Returns the unwind information of a file and its address in memory; `None` if it has none.
fn eh_frame<'d>(image: &Image<'d>) -> Option<(Frames<'d>, BaseAddresses)> {
    let (_, section) = image.sections.section_by_name(LE, b".eh_frame")?;
    let data = section.data(LE, image.data).ok()?;
    let bases = BaseAddresses::default().set_eh_frame(section.sh_addr(LE));
    Some((EhFrame::new(data, LittleEndian), bases))
}

type Frames<'d> = EhFrame<gimli::EndianSlice<'d, LittleEndian>>;
type Function<'d> = gimli::FrameDescriptionEntry<gimli::EndianSlice<'d, LittleEndian>>;

/// Calls `take` with each function.
fn walk<'d>(
    frames: &Frames<'d>,
    bases: &BaseAddresses,
    mut take: impl FnMut(&Function<'d>),
) -> gimli::Result<()> {
    let mut entries = frames.entries(bases);
    // Thousands of functions share a few common entries.
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
        take(&function);
    }
    Ok(())
}
