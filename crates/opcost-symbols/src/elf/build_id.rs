//! Reads the build id that a program shares with the debug file split off from it.

use super::image::{Image, LE};
use object::elf::{ELF_NOTE_GNU, NT_GNU_BUILD_ID};
use object::read::elf::SectionHeader;

/// Returns the build id of a file, if it has a readable one.
pub(super) fn find<'d>(image: &Image<'d>) -> Option<&'d [u8]> {
    for section in image.sections.iter() {
        let Ok(Some(mut notes)) = section.notes(LE, image.data) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == ELF_NOTE_GNU && note.n_type(LE) == NT_GNU_BUILD_ID {
                return Some(note.desc());
            }
        }
    }
    None
}
