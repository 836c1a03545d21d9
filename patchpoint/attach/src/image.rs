//! Finds ELF notes of a program or shared object in a process's memory (elf(5)).
//!
//! It reads no files: they may be gone, replaced, or in another container.

use crate::memory::{Fields, Memory};

/// The name of patchpoint's notes, its final 0 included.
const NAME: &[u8] = b"patchpoint\0";
/// The type of the note that leads to the registry (`struct patchpoint_registry`, patchpoint.h).
const REGISTRY_NOTE: u32 = 2;
/// More segments than any linker makes.
const SEGMENTS_MAX: usize = 512;
const NOTES_BYTES_MAX: u64 = 1 << 20;

/// The kind of image that is mapped at an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Image {
    /// It is no ELF image.
    NotElf,
    /// It is a 32-bit image.
    Elf32,
    /// It has no note of a registry.
    WithoutRegistry,
    /// It has the note of a registry.
    Registry {
        /// The address in memory.
        address: u64,
        /// The registry's format by the note (`PATCHPOINT_FORMAT` of the library).
        format: u32,
    },
}

/// Looks for the registry's note in the image that is mapped at `start`.
///
/// An unreadable note counts as absent, since many mapped files are no programs.
pub fn look(memory: &impl Memory, start: u64) -> Image {
    let Some(header) = memory.array::<64>(start).ok().filter(|header| header[..4] == *b"\x7fELF")
    else {
        return Image::NotElf;
    };
    // EI_CLASS: 1 is 32-bit, 2 is 64-bit; EI_DATA: 1 is little-endian.
    match (header[4], header[5]) {
        (1, _) => return Image::Elf32,
        (2, 1) => {}
        _ => return Image::NotElf,
    }
    let note = note(memory, start, &header, NAME, REGISTRY_NOTE);
    let Some((address, contents)) = note.filter(|(_, contents)| contents.len() >= 8) else {
        return Image::WithoutRegistry;
    };
    let fields = Fields(&contents);
    Image::Registry { address: fields.target(address, 4), format: fields.u32(0) }
}

/// The build ID of the 64-bit ELF image that is mapped at `start`, if it has one.
pub fn build_id(memory: &impl Memory, start: u64) -> Option<Vec<u8>> {
    let header =
        memory.array::<64>(start).ok().filter(|header| header[..6] == *b"\x7fELF\x02\x01")?;
    note(memory, start, &header, b"GNU\0", NT_GNU_BUILD_ID).map(|(_, id)| id)
}

const NT_GNU_BUILD_ID: u32 = 3;
const SEGMENT_SIZE: usize = 56;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;

/// The first note of that name and type: the address of its contents, and the contents.
fn note(
    memory: &impl Memory,
    start: u64,
    header: &[u8; 64],
    name: &[u8],
    kind: u32,
) -> Option<(u64, Vec<u8>)> {
    let table = start.wrapping_add(Fields(header).u64(32));
    let count = usize::from(u16::from_le_bytes([header[56], header[57]])).min(SEGMENTS_MAX);
    let segments = memory.bytes(table, count * SEGMENT_SIZE).ok()?;
    let segments: Vec<Fields<'_>> = segments.chunks(SEGMENT_SIZE).map(Fields).collect();
    // The lowest segment's page is mapped at `start`; their distance is the bias of all addresses.
    let loaded = segments.iter().filter(|segment| segment.u32(0) == PT_LOAD);
    let lowest = loaded.map(|segment| segment.u64(16) & !4095).min()?;
    let bias = start.wrapping_sub(lowest);
    let notes = segments.iter().filter(|segment| segment.u32(0) == PT_NOTE);
    notes
        .map(|segment| (bias.wrapping_add(segment.u64(16)), segment.u64(40)))
        .find_map(|(address, length)| note_in(memory, address, length, name, kind))
}

/// Does the same as [`note`] for the notes of one segment.
fn note_in(
    memory: &impl Memory,
    address: u64,
    length: u64,
    name: &[u8],
    kind: u32,
) -> Option<(u64, Vec<u8>)> {
    let bytes = memory.bytes(address, length.min(NOTES_BYTES_MAX) as usize).ok()?;
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + 12) {
        let fields = Fields(head);
        let [name_size, size] = [0, 4].map(|at| fields.u32(at) as usize);
        // Both parts are padded to 4 bytes.
        let contents = at + 12 + name_size.next_multiple_of(4);
        if bytes.get(at + 12..at + 12 + name_size)? == name && fields.u32(8) == kind {
            let found = bytes.get(contents..contents + size)?;
            return Some((address.wrapping_add(contents as u64), found.to_vec()));
        }
        at = contents + size.next_multiple_of(4);
    }
    None
}
