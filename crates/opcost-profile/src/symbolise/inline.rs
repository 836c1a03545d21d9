//! Finds functions that were inlined into others, by debug information.

use addr2line::{FrameIter, LookupContinuation, LookupResult};
use gimli::{AttributeValue, EndianSlice, LittleEndian, SectionId, UnitRef, UnitType};
use object::Object;
use opcost_symbols::debug_files::{
    DEBUG_SECTIONS, DebugFiles, Sections, Split, slices, split_unit,
};
use opcost_symbols::demangle::printable;
use opcost_symbols::elf::{CodeAt, Excerpt};
use opcost_symbols::section::contents;
use opcost_sys::budget::{Budget, Exceeded};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::iter;
use std::sync::Arc;

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
    /// A part of the debug information is in a file that is not here or is of another build: split units (`-gsplit-dwarf`) or a
    /// supplement (dwz).
    Elsewhere,
}

type Slice<'s> = EndianSlice<'s, LittleEndian>;
pub(super) type Dwarf<'s> = gimli::Dwarf<Slice<'s>>;

/// Calls `each` with the units in which addresses are looked up.
///
/// Entries are read only there: to read all takes longer than the lookup. `addresses`: ascending.
fn for_asked(
    dwarf: &Dwarf<'_>,
    addresses: &[u64],
    mut each: impl FnMut(UnitRef<'_, Slice<'_>>) -> Result<(), WithoutInlined>,
) -> Result<(), WithoutInlined> {
    let unreadable = |_| WithoutInlined::Unreadable;
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().map_err(unreadable)? {
        // Each level takes a byte for its beginning. The unit that stays of a split one is as small.
        let is_small = header.length_including_self() <= NESTING_MAX;
        let is_asked = match header.type_() {
            UnitType::Skeleton(_) => true,
            UnitType::Compilation => !is_small || header.version() < 5,
            _ => false,
        };
        if !is_asked {
            continue;
        }
        // The library passes over such units as well.
        let Ok(unit) = dwarf.unit(header) else { continue };
        let unit = unit.unit_ref(dwarf);
        if may_have(unit, addresses).unwrap_or(true) {
            each(unit)?;
        }
    }
    Ok(())
}

/// Checks that the entries of a unit are not nested too deep for looking up addresses.
fn check_nesting(unit: UnitRef<'_, Slice<'_>>) -> Result<(), WithoutInlined> {
    match is_too_deep(unit) {
        Ok(false) => Ok(()),
        Ok(true) => Err(WithoutInlined::TooDeep),
        Err(_) => Err(WithoutInlined::Unreadable),
    }
}

/// Whether addr2line looks for one of these addresses in a unit.
///
/// Source: addr2line's `ResUnits::parse`, without `.debug_aranges`. Where an attribute stands twice, the last one counts there.
pub(super) fn may_have(
    unit: UnitRef<'_, Slice<'_>>,
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
fn is_too_deep(unit: UnitRef<'_, Slice<'_>>) -> Result<bool, gimli::Error> {
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

/// Places in code to look up.
#[derive(Clone, Copy)]
pub(super) enum Places<'a> {
    /// By file offset.
    Offsets(&'a [u64]),
    /// By address as linked, ascending.
    Addresses(&'a [u64]),
}

/// The sections of a file's debug information, uncompressed.
pub(super) struct DebugSections<'d> {
    code: CodeAt,
    sections: HashMap<SectionId, Cow<'d, [u8]>>,
    supplement: Option<Sections>,
    split: Split,
    is_whole: bool,
    /// Whether a part is in a file that is not here.
    is_elsewhere: bool,
}

impl<'d> DebugSections<'d> {
    /// Reads the debug information of a file, or of the debug file split off from it, with the files
    /// that belong to it; `None` if there is none, or none that can be read.
    ///
    /// `places`: those that will be looked up.
    pub(super) fn read(
        file: &'d Excerpt,
        debug: Option<&'d Excerpt>,
        places: Places<'_>,
        debug_files: &DebugFiles,
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
        let mut read = DebugSections {
            code,
            sections: HashMap::new(),
            supplement: None,
            split: Split::default(),
            is_whole: excerpt.is_whole(),
            is_elsewhere: false,
        };
        for id in DEBUG_SECTIONS {
            let Some(section) = object.section_by_name(id.name()).filter(|_| read.is_whole) else {
                continue;
            };
            match contents(&section, &budget) {
                Ok(contents) => drop(read.sections.insert(*id, contents)),
                Err(error) => read.is_whole = Exceeded::of(&error).is_none(),
            }
        }
        match debug_files.supplement(excerpt.path(), excerpt, DEBUG_SECTIONS, &budget) {
            Ok(supplement) => read.supplement = supplement,
            Err(_) => read.is_elsewhere = true,
        }
        let files = iter::once(file).chain(debug).map(Excerpt::path);
        let (addresses, mut wanted) = (read.addresses(places), Vec::new());
        // What is wrong with the units is found again, and reported, when addresses are looked up.
        let _ = read.dwarf().and_then(|dwarf| {
            for_asked(&dwarf, &addresses, |unit| {
                wanted.extend(split_unit(unit));
                Ok(())
            })
        });
        read.split = Split::read(files, wanted, &budget);
        read.is_elsewhere |= read.split.is_missing;
        Some(read)
    }

    /// The addresses of places, ascending.
    fn addresses(&self, places: Places<'_>) -> Vec<u64> {
        let offsets = match places {
            Places::Offsets(offsets) => offsets,
            Places::Addresses(addresses) => return addresses.to_vec(),
        };
        let address = |offset: &u64| self.code.address(*offset);
        let mut addresses: Vec<u64> = offsets.iter().filter_map(address).collect();
        addresses.sort_unstable();
        addresses
    }

    /// The debug information.
    pub(super) fn dwarf(&self) -> Result<Dwarf<'_>, WithoutInlined> {
        if !self.is_whole {
            return Err(WithoutInlined::TooLarge);
        }
        let unreadable = |_| WithoutInlined::Unreadable;
        let mut dwarf = Dwarf::load(slices(&self.sections)).map_err(unreadable)?;
        if let Some(supplement) = &self.supplement {
            dwarf.load_sup(slices(supplement)).map_err(unreadable)?;
        }
        Ok(dwarf)
    }

    /// Prepares looking up functions and lines at these places, for which the sections were read.
    ///
    /// # Errors
    /// The reason why there will be none.
    pub(super) fn inlined(&self, places: Places<'_>) -> Result<Inlined<'_>, WithoutInlined> {
        let dwarf = self.dwarf()?;
        let package = self.split.package();
        let mut split = HashMap::new();
        for_asked(&dwarf, &self.addresses(places), |unit| {
            check_nesting(unit)?;
            let Some(id) = unit.dwo_id else { return Ok(()) };
            let found = match self.split.units.get(&id.0) {
                Some(sections) => Dwarf::load(slices(sections)).ok().map(|mut unit| {
                    unit.make_dwo(&dwarf);
                    unit
                }),
                None => package.as_ref().and_then(|package| package.find_cu(id, &dwarf).ok()?),
            };
            if let Some(found) = found {
                let mut headers = found.units();
                while let Some(header) = headers.next().map_err(|_| WithoutInlined::Unreadable)? {
                    let unit = found.unit(header).map_err(|_| WithoutInlined::Unreadable)?;
                    check_nesting(unit.unit_ref(&found))?;
                }
                split.insert(id.0, Arc::new(found));
            }
            Ok(())
        })?;
        let context = addr2line::Context::from_dwarf(dwarf);
        let context = context.map_err(|_| WithoutInlined::Unreadable)?;
        let missing = self.is_elsewhere.then_some(WithoutInlined::Elsewhere);
        Ok(Inlined { code: &self.code, context, split, missing: Cell::new(missing) })
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
    context: addr2line::Context<Slice<'s>>,
    /// Split units by their identifiers.
    split: HashMap<u64, Arc<Dwarf<'s>>>,
    missing: Cell<Option<WithoutInlined>>,
}

impl<'s> Inlined<'s> {
    /// Returns why functions that were looked up are missing.
    pub(super) fn missing(&self) -> Option<WithoutInlined> {
        self.missing.get()
    }

    /// Finds the functions at an address as linked, and loads the split unit that has them.
    fn frames(&self, address: u64) -> Result<FrameIter<'_, Slice<'s>>, gimli::Error> {
        let mut found = self.context.find_frames(address);
        loop {
            match found {
                LookupResult::Output(frames) => return frames,
                LookupResult::Load { load, continuation } => {
                    found = continuation.resume(self.split.get(&load.dwo_id.0).cloned());
                }
            }
        }
    }

    /// Calls `each` with the function and the line of each function at an address as linked, the innermost first; false
    /// if debug information contradicts itself there.
    pub(super) fn each_line(
        &self,
        address: u64,
        mut each: impl FnMut(Option<&'s [u8]>, Option<&str>, Option<u32>),
    ) -> bool {
        let Ok(mut frames) = self.frames(address) else {
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
        let Ok(mut frames) = self.frames(address) else {
            self.missing.set(Some(WithoutInlined::Unreadable));
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
                    self.missing.set(Some(WithoutInlined::Unreadable));
                    return Vec::new();
                }
            }
        }
        functions.reverse();
        functions
    }
}

#[cfg(test)]
#[path = "inline_tests.rs"]
mod tests;
