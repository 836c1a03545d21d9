//! Finds functions that were inlined into others, by debug information.

use crate::symbols::demangle::printable;
use crate::symbols::elf::{CodeAt, Excerpt};
use crate::symbols::section::contents;
use gimli::{AttributeValue, EndianSlice, LittleEndian, SectionId, UnitRef, UnitType};
use object::Object;
use opcost_sys::budget::{Budget, Exceeded};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;

/// The sections of debug information that describe inlined functions.
pub(super) const DEBUG_SECTIONS: &[SectionId] = &[
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
];

/// The deepest nesting of entries that is descended into. Compilers nest inlined functions and blocks some dozens deep; the library that
/// finds inlined functions descends by calls, and each level takes about a kilobyte of the thread's stack.
const NESTING_MAX: usize = 256;

/// Why functions that were inlined into others have no rows.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum WithoutInlined {
    /// The debug information is nested deeper than opcost descends.
    TooDeep,
    /// The debug information contradicts itself or is of an unknown kind.
    Unreadable,
    /// The debug information takes more than the budget of reading.
    TooLarge,
}

pub(super) type Dwarf<'s> = gimli::Dwarf<EndianSlice<'s, LittleEndian>>;

/// Checks that entries of debug information are not nested too deep for looking up addresses.
///
/// Only units that the lookup descends into are read: to read all takes longer than the lookup. `addresses`: ascending.
fn check_nesting(dwarf: &Dwarf<'_>, addresses: &[u64]) -> Result<(), WithoutInlined> {
    let check = || -> Result<bool, gimli::Error> {
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            // Each level takes a byte for its beginning.
            let is_small = header.length_including_self() <= NESTING_MAX;
            let is_compiled =
                matches!(header.type_(), UnitType::Compilation | UnitType::Skeleton(_));
            if is_small || !is_compiled {
                continue;
            }
            // The library passes over such units as well.
            let Ok(unit) = dwarf.unit(header) else { continue };
            let unit = unit.unit_ref(dwarf);
            if may_have(unit, addresses).unwrap_or(true) && is_too_deep(unit)? {
                return Ok(true);
            }
        }
        Ok(false)
    };
    match check() {
        Ok(false) => Ok(()),
        Ok(true) => Err(WithoutInlined::TooDeep),
        Err(_) => Err(WithoutInlined::Unreadable),
    }
}

/// Whether addr2line looks for one of these addresses in a unit.
///
/// Source: addr2line's `ResUnits::parse`, without `.debug_aranges`. Where an attribute stands twice, the last one counts there.
pub(super) fn may_have(
    unit: UnitRef<'_, EndianSlice<'_, LittleEndian>>,
    addresses: &[u64],
) -> Result<bool, gimli::Error> {
    let mut entries = unit.entries_raw(None)?;
    let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(true) };
    let (mut low, mut high, mut bytes, mut list) = (None, None, None, None);
    for specification in abbreviation.attributes() {
        let attribute = entries.read_attribute(*specification)?;
        match (attribute.name(), attribute.value()) {
            (gimli::DW_AT_low_pc, value) => low = unit.attr_address(value)?.or(low),
            (gimli::DW_AT_high_pc, AttributeValue::Udata(value)) => bytes = Some(value),
            (gimli::DW_AT_high_pc, value) => high = unit.attr_address(value)?.or(high),
            (gimli::DW_AT_ranges, value) => list = unit.attr_ranges_offset(value)?,
            _ => {}
        }
    }
    let mut ranges = Vec::new();
    if let Some(offset) = list {
        let mut list = unit.ranges(offset)?;
        while let Some(range) = list.next()? {
            ranges.push((range.begin, range.end));
        }
    } else if let Some(begin) = low
        && let Some(end) = high.or(bytes.map(|bytes| begin.wrapping_add(bytes)))
    {
        ranges.push((begin, end));
    }
    ranges.retain(|(begin, end)| begin < end);
    let is_asked = |(begin, end): &(u64, u64)| {
        let next = addresses.partition_point(|address| address < begin);
        addresses.get(next).is_some_and(|address| address < end)
    };
    // A unit without ranges has the ranges of its lines there.
    Ok(ranges.is_empty() || ranges.iter().any(is_asked))
}

/// Whether entries of a unit are nested deeper than [`NESTING_MAX`].
fn is_too_deep(unit: UnitRef<'_, EndianSlice<'_, LittleEndian>>) -> Result<bool, gimli::Error> {
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        if entries.next_depth() > NESTING_MAX as isize {
            return Ok(true);
        }
        if let Some(abbreviation) = entries.read_abbreviation()? {
            entries.skip_attributes(abbreviation.attributes())?;
        }
    }
    Ok(false)
}

/// The sections of a file's debug information, uncompressed.
pub(super) struct DebugSections<'d> {
    code: CodeAt,
    sections: HashMap<SectionId, Cow<'d, [u8]>>,
    is_whole: bool,
}

impl<'d> DebugSections<'d> {
    /// Reads the debug information of a file, or of the debug file split off from it; `None` if
    /// there is none, or none that can be read.
    pub(super) fn read(
        file: &'d Excerpt,
        debug: Option<&'d Excerpt>,
        limit_bytes: u64,
    ) -> Option<DebugSections<'d>> {
        let code = CodeAt::read(file).ok()?;
        let has = |excerpt: &'d Excerpt| {
            let object = object::File::parse(&**excerpt).ok()?;
            let section = object.section_by_name(SectionId::DebugInfo.name());
            section.is_some().then_some((object, excerpt))
        };
        let (object, excerpt) = has(file).or_else(|| debug.and_then(has))?;
        // The process also holds what it read before.
        let budget = Budget::new(limit_bytes.saturating_mul(2), excerpt.len() as u64);
        let mut debug =
            DebugSections { code, sections: HashMap::new(), is_whole: excerpt.is_whole() };
        for id in DEBUG_SECTIONS {
            let Some(section) = object.section_by_name(id.name()).filter(|_| debug.is_whole) else {
                continue;
            };
            match contents(&section, &budget) {
                Ok(contents) => drop(debug.sections.insert(*id, contents)),
                Err(error) => debug.is_whole = Exceeded::of(&error).is_none(),
            }
        }
        Some(debug)
    }

    /// Prepares looking up functions at these file offsets.
    ///
    /// # Errors
    /// The reason why there will be no inlined functions.
    pub(super) fn inlined(&self, offsets: &[u64]) -> Result<Inlined<'_>, WithoutInlined> {
        let address = |offset: &u64| self.code.address(*offset);
        let mut addresses: Vec<u64> = offsets.iter().filter_map(address).collect();
        addresses.sort_unstable();
        self.inlined_at(&addresses)
    }

    /// The debug information.
    pub(super) fn dwarf(&self) -> Result<Dwarf<'_>, WithoutInlined> {
        if !self.is_whole {
            return Err(WithoutInlined::TooLarge);
        }
        let section = |id: SectionId| -> Result<_, gimli::Error> {
            let bytes = self.sections.get(&id).map_or(&[][..], |bytes| bytes);
            Ok(EndianSlice::new(bytes, LittleEndian))
        };
        Dwarf::load(section).map_err(|_| WithoutInlined::Unreadable)
    }

    /// Prepares looking up functions and lines at these addresses as linked, which are ascending.
    ///
    /// # Errors
    /// The reason why there will be none.
    pub(super) fn inlined_at(&self, addresses: &[u64]) -> Result<Inlined<'_>, WithoutInlined> {
        let dwarf = self.dwarf()?;
        check_nesting(&dwarf, addresses)?;
        let context = addr2line::Context::from_dwarf(dwarf);
        let context = context.map_err(|_| WithoutInlined::Unreadable)?;
        Ok(Inlined { code: &self.code, context, is_contradictory: Cell::new(false) })
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
    is_contradictory: Cell<bool>,
}

impl<'s> Inlined<'s> {
    /// Returns why functions that were looked up are missing.
    pub(super) fn missing(&self) -> Option<WithoutInlined> {
        self.is_contradictory.get().then_some(WithoutInlined::Unreadable)
    }

    /// Calls `each` with the function and the line of each function at an address as linked, the innermost first; false
    /// if debug information contradicts itself there.
    pub(super) fn each_line(
        &self,
        address: u64,
        mut each: impl FnMut(Option<&'s [u8]>, Option<&str>, Option<u32>),
    ) -> bool {
        let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() else {
            return false;
        };
        loop {
            match frames.next() {
                Ok(Some(frame)) => {
                    let name = frame.function.map(|function| function.name.slice());
                    let at = frame.location.as_ref();
                    each(name, at.and_then(|at| at.file), at.and_then(|at| at.line));
                }
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Returns the functions at a file offset with their symbols' names, outermost first; empty if
    /// debug information has none there.
    pub(super) fn functions(&self, offset: u64) -> Vec<InlinedAt<'s>> {
        let Some(address) = self.code.address(offset) else { return Vec::new() };
        // Debug information in further files (`-gsplit-dwarf`) is not read.
        let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() else {
            self.is_contradictory.set(true);
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
                Err(_) => {
                    self.is_contradictory.set(true);
                    return Vec::new();
                }
            }
        }
        functions.reverse();
        functions
    }
}
