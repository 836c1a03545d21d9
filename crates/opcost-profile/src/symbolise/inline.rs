//! Finds functions that were inlined into others, by debug information.

use crate::symbols::demangle::printable;
use crate::symbols::elf::CodeAt;
use crate::symbols::section::contents;
use gimli::{EndianSlice, LittleEndian, SectionId};
use object::Object;
use std::borrow::Cow;
use std::collections::HashMap;

/// The sections of debug information that describe inlined functions.
pub(super) const DEBUG_SECTIONS: &[SectionId] = &[
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
];

/// The deepest nesting of entries that is looked at. Compilers nest inlined functions and blocks some dozens deep; the library that
/// finds inlined functions descends by calls, and each level takes about a kilobyte of the thread's stack.
const NESTING_MAX: usize = 256;

/// Whether entries of debug information are nested deeper than a limit; `None` if they cannot be read.
fn is_nested_deeper(
    dwarf: &gimli::Dwarf<EndianSlice<'_, LittleEndian>>,
    limit: usize,
) -> Option<bool> {
    let mut units = dwarf.units();
    while let Some(header) = units.next().ok()? {
        // Each level takes a byte for its beginning.
        if header.length_including_self() <= limit {
            continue;
        }
        let abbreviations = dwarf.abbreviations(&header).ok()?;
        let mut entries = header.entries_raw(&abbreviations, None).ok()?;
        while !entries.is_empty() {
            if entries.next_depth() > limit as isize {
                return Some(true);
            }
            if let Some(abbreviation) = entries.read_abbreviation().ok()? {
                entries.skip_attributes(abbreviation.attributes()).ok()?;
            }
        }
    }
    Some(false)
}

/// The sections of a file's debug information, uncompressed.
pub(super) struct DebugSections<'d> {
    code: CodeAt,
    sections: HashMap<SectionId, Cow<'d, [u8]>>,
}

impl<'d> DebugSections<'d> {
    /// Reads the debug information of a file, or of the debug file split off from it; `None` if
    /// there is none, or none that can be read.
    pub(super) fn read(file: &'d [u8], debug: Option<&'d [u8]>) -> Option<DebugSections<'d>> {
        let code = CodeAt::read(file).ok()?;
        let has = |data: &'d [u8]| {
            let object = object::File::parse(data).ok()?;
            object.section_by_name(SectionId::DebugInfo.name()).is_some().then_some(object)
        };
        let object = has(file).or_else(|| debug.and_then(has))?;
        let section = |id: SectionId| {
            let section = object.section_by_name(id.name())?;
            Some((id, contents(&section)?))
        };
        let sections = DEBUG_SECTIONS.iter().copied().filter_map(section).collect();
        Some(DebugSections { code, sections })
    }

    /// Prepares looking functions up in the sections.
    pub(super) fn inlined(&self) -> Option<Inlined<'_>> {
        let section = |id: SectionId| -> Result<_, gimli::Error> {
            let bytes = self.sections.get(&id).map_or(&[][..], |bytes| bytes);
            Ok(EndianSlice::new(bytes, LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(section).ok()?;
        if is_nested_deeper(&dwarf, NESTING_MAX)? {
            return None;
        }
        let context = addr2line::Context::from_dwarf(dwarf).ok()?;
        Some(Inlined { code: &self.code, context })
    }
}

/// A function at a place in code.
pub(super) struct InlinedAt<'s> {
    /// The function's symbol, if it has one.
    pub(super) name: Option<&'s [u8]>,
    /// The source file of the function's code there.
    pub(super) file: Option<String>,
}

/// Looks up the functions at a place in code.
pub(super) struct Inlined<'s> {
    code: &'s CodeAt,
    context: addr2line::Context<EndianSlice<'s, LittleEndian>>,
}

impl<'s> Inlined<'s> {
    /// Returns the functions at a file offset with their symbols' names, outermost first; empty if
    /// debug information has none there.
    pub(super) fn functions(&self, offset: u64) -> Vec<InlinedAt<'s>> {
        let Some(address) = self.code.address(offset) else { return Vec::new() };
        // Debug information in further files (`-gsplit-dwarf`) is not read.
        let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() else {
            return Vec::new();
        };
        let mut functions = Vec::new();
        loop {
            match frames.next() {
                Ok(Some(frame)) => {
                    let name = frame.function.map(|function| function.name.slice());
                    let name = name.filter(|name| !name.is_empty());
                    let file = frame.location.and_then(|location| location.file);
                    let file = file.and_then(|file| file.rsplit('/').next()).map(printable);
                    functions.push(InlinedAt { name, file });
                }
                Ok(None) => break,
                // Contradictory debug information is not used.
                Err(_) => return Vec::new(),
            }
        }
        functions.reverse();
        functions
    }
}
