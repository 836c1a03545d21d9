//! Functions that were inlined into others, as debug information tells.

use crate::symbols::demangle::printable;
use crate::symbols::elf::CodeAt;
use crate::symbols::section::contents;
use gimli::{EndianSlice, LittleEndian, SectionId};
use object::Object;
use std::borrow::Cow;
use std::collections::HashMap;

/// The debug information that tells of inlined functions.
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

/// Sections with debug information of one file, uncompressed.
pub(super) struct DebugSections<'d> {
    code: CodeAt,
    sections: HashMap<SectionId, Cow<'d, [u8]>>,
}

impl<'d> DebugSections<'d> {
    /// Reads the debug information of a file, or of the debug file that was split off it; `None`
    /// where there is none, or none to read.
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

    /// What looks functions up in them.
    pub(super) fn inlined(&self) -> Option<Inlined<'_>> {
        let section = |id: SectionId| -> Result<_, gimli::Error> {
            let bytes = self.sections.get(&id).map_or(&[][..], |bytes| bytes);
            Ok(EndianSlice::new(bytes, LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(section).ok()?;
        let context = addr2line::Context::from_dwarf(dwarf).ok()?;
        Some(Inlined { code: &self.code, context })
    }
}

/// A function that a place in code belongs to.
pub(super) struct InlinedAt<'s> {
    /// Its symbol, if it has one.
    pub(super) name: Option<&'s [u8]>,
    /// The source file of its code there.
    pub(super) file: Option<String>,
}

/// Looks up which functions a place in code belongs to.
pub(super) struct Inlined<'s> {
    code: &'s CodeAt,
    context: addr2line::Context<EndianSlice<'s, LittleEndian>>,
}

impl<'s> Inlined<'s> {
    /// The functions at a file offset as their symbols are, outermost first, nothing where debug
    /// information says nothing.
    pub(super) fn functions(&self, offset: u64) -> Vec<InlinedAt<'s>> {
        let Some(address) = self.code.address(offset) else { return Vec::new() };
        // Parts that were split off into yet other files (`-gsplit-dwarf`) are not read.
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
                // What contradicts itself tells nothing.
                Err(_) => return Vec::new(),
            }
        }
        functions.reverse();
        functions
    }
}
