//! Finds functions that were inlined into others, by debug information.

use addr2line::{FrameIter, LookupContinuation, LookupResult};
use gimli::{
    Abbreviations, AttributeValue, DebugAbbrev, DebugAbbrevOffset, EndianSlice, LittleEndian,
    Reader, Section, SectionId, Unit, UnitHeader, UnitOffset, UnitRef, UnitType,
};
use object::Object;
use opcost_symbols::debug_files::{
    DEBUG_SECTIONS, DebugFiles, Sections, Split, SplitUnit, slices, split_unit,
};
use opcost_symbols::demangle::printable;
use opcost_symbols::elf::{CodeAt, Excerpt};
use opcost_symbols::section::contents;
use opcost_sys::budget::{Budget, Exceeded};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::iter;
use std::ops::Range;
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

/// The units of debug information in which addresses are looked up.
#[derive(Default)]
struct Asked {
    /// Their places in `.debug_info`.
    units: Vec<Range<usize>>,
    /// Where parts of them were moved to.
    split: Vec<SplitUnit>,
    /// Whether their entries refer to other units.
    refer: bool,
}

impl Asked {
    /// Finds the units with one of these addresses, ascending.
    ///
    /// # Errors
    /// The entries of a unit are nested too deep for looking up addresses, or debug information contradicts itself.
    fn find(dwarf: &Dwarf<'_>, addresses: &[u64]) -> Result<Asked, WithoutInlined> {
        let mut asked = Asked::default();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next().map_err(|_| WithoutInlined::Unreadable)? {
            let Some(place) = header.debug_info_offset() else { continue };
            let is_looked_up = match header.type_() {
                UnitType::Compilation | UnitType::Skeleton(_) => may_have(dwarf, header, addresses),
                UnitType::SplitCompilation(_) => true,
                UnitType::Partial | UnitType::Type { .. } | UnitType::SplitType { .. } => false,
            };
            // The library passes over units that cannot be read as well.
            let unit = is_looked_up.then(|| dwarf.unit(header).ok()).flatten();
            if let Some(unit) = unit {
                let unit = unit.unit_ref(dwarf);
                let facts = facts(unit).map_err(|_| WithoutInlined::Unreadable)?;
                if facts.is_too_deep {
                    return Err(WithoutInlined::TooDeep);
                }
                asked.refer |= facts.refers;
                asked.split.extend(split_unit(unit));
                asked.units.push(place.0..place.0 + header.length_including_self());
            }
        }
        Ok(asked)
    }
}

/// Whether addresses are looked up in a unit, so far as its first entry tells.
///
/// Each unit may have kinds of entries of its own; to read them all takes longer than everything else.
pub(super) fn may_have(
    dwarf: &Dwarf<'_>,
    header: UnitHeader<Slice<'_>>,
    addresses: &[u64],
) -> bool {
    let unit = match first_kind(dwarf, &header) {
        Ok(Some(kind)) => Unit::new_with_abbreviations(dwarf, header, Arc::new(kind)),
        _ => dwarf.unit(header),
    };
    // The library passes over such units as well.
    unit.is_ok_and(|unit| has_any(unit.unit_ref(dwarf), addresses).unwrap_or(true))
}

/// Reads the kind of a unit's first entry, which stands at or near the start of the unit's kinds; `None` if it is not there.
///
/// Source: DWARF 5, 7.5.3.
fn first_kind(
    dwarf: &Dwarf<'_>,
    header: &UnitHeader<Slice<'_>>,
) -> Result<Option<Abbreviations>, gimli::Error> {
    const KINDS_MAX: usize = 8;
    let wanted = header.range_from(UnitOffset(header.header_size())..)?.read_uleb128()?;
    let mut table = *dwarf.debug_abbrev.reader();
    table.skip(header.debug_abbrev_offset().0)?;
    for _ in 0..KINDS_MAX {
        let start = table;
        let code = table.read_uleb128()?;
        if code == 0 {
            break;
        }
        table.read_uleb128()?;
        table.read_u8()?;
        loop {
            let (name, form) = (table.read_uleb128()?, table.read_uleb128()?);
            if form == u64::from(gimli::DW_FORM_implicit_const.0) {
                table.read_sleb128()?;
            }
            if (name, form) == (0, 0) {
                break;
            }
        }
        if code == wanted {
            let mut kind = start.slice()[..start.len() - table.len()].to_vec();
            kind.push(0);
            let kinds = DebugAbbrev::new(&kind, LittleEndian);
            return kinds.abbreviations(DebugAbbrevOffset(0)).map(Some);
        }
    }
    Ok(None)
}

/// Whether addr2line looks for one of these addresses in a unit.
///
/// Source: addr2line's `ResUnits::parse`, without `.debug_aranges`. Where an attribute stands twice, the last one counts there.
fn has_any(unit: UnitRef<'_, Slice<'_>>, addresses: &[u64]) -> Result<bool, gimli::Error> {
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

/// What the entries of a unit tell about looking up addresses.
#[derive(Default)]
struct Facts {
    /// Whether they are nested deeper than [`NESTING_MAX`].
    is_too_deep: bool,
    /// Whether they refer to entries of other units.
    refers: bool,
}

fn facts(unit: UnitRef<'_, Slice<'_>>) -> Result<Facts, gimli::Error> {
    /// The kinds of entries that are remembered.
    const KINDS_MAX: u64 = 1 << 12;
    let mut facts = Facts::default();
    let mut known: Vec<bool> = Vec::new();
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        if entries.next_depth() > NESTING_MAX as isize {
            facts.is_too_deep = true;
            return Ok(facts);
        }
        let Some(kind) = entries.read_abbreviation()? else { continue };
        let at = kind.code().min(KINDS_MAX) as usize;
        if !known.get(at).is_some_and(|known| *known) {
            let mut forms = kind.attributes().iter().map(|attribute| attribute.form());
            // An indirect form stands in the entry itself.
            let refer = [gimli::DW_FORM_ref_addr, gimli::DW_FORM_indirect];
            facts.refers |= forms.any(|form| refer.contains(&form));
            if at < KINDS_MAX as usize {
                known.resize(known.len().max(at + 1), false);
                known[at] = true;
            }
        }
        entries.skip_attributes(kind.attributes())?;
    }
    Ok(facts)
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
    /// Why nothing is looked up.
    refused: Option<WithoutInlined>,
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
            refused: None,
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
        let addresses = read.addresses(places);
        match read.dwarf().and_then(|dwarf| Asked::find(&dwarf, &addresses)) {
            Ok(asked) => {
                read.keep(&asked, &budget);
                read.split = Split::read(files, asked.split, &budget);
                read.is_elsewhere |= read.split.is_missing;
            }
            Err(why) => read.refused = Some(why),
        }
        Some(read)
    }

    /// Leaves out the units in which nothing is looked up, if no other unit needs them: the library reads every unit there is.
    fn keep(&mut self, asked: &Asked, budget: &Budget) {
        let bytes: usize = asked.units.iter().map(Range::len).sum();
        let Some(info) = self.sections.get(&SectionId::DebugInfo) else { return };
        if !asked.refer && bytes < info.len() && budget.room(bytes as u64).is_ok() {
            let units = asked.units.iter().filter_map(|place| info.get(place.clone()));
            let kept = units.collect::<Vec<&[u8]>>().concat();
            self.sections.insert(SectionId::DebugInfo, Cow::Owned(kept));
        }
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

    /// Prepares looking up functions and lines at the places for which the sections were read.
    ///
    /// # Errors
    /// The reason why there will be none.
    pub(super) fn inlined(&self) -> Result<Inlined<'_>, WithoutInlined> {
        if let Some(why) = self.refused {
            return Err(why);
        }
        let dwarf = self.dwarf()?;
        let split = self.split_units(&dwarf)?;
        let context = addr2line::Context::from_dwarf(dwarf);
        let context = context.map_err(|_| WithoutInlined::Unreadable)?;
        let missing = self.is_elsewhere.then_some(WithoutInlined::Elsewhere);
        Ok(Inlined { code: &self.code, context, split, missing: Cell::new(missing) })
    }

    /// The split units by their identifiers, each checked as the others were.
    fn split_units<'s>(
        &'s self,
        dwarf: &Dwarf<'s>,
    ) -> Result<HashMap<u64, Arc<Dwarf<'s>>>, WithoutInlined> {
        let unreadable = |_| WithoutInlined::Unreadable;
        let (package, mut split) = (self.split.package(), HashMap::new());
        if package.is_none() && self.split.units.is_empty() {
            return Ok(split);
        }
        let mut headers = dwarf.units();
        while let Some(header) = headers.next().map_err(unreadable)? {
            let Ok(unit) = dwarf.unit(header) else { continue };
            let Some(id) = unit.dwo_id else { continue };
            let found = match self.split.units.get(&id.0) {
                Some(sections) => Dwarf::load(slices(sections)).ok().map(|mut unit| {
                    unit.make_dwo(dwarf);
                    unit
                }),
                None => package.as_ref().and_then(|package| package.find_cu(id, dwarf).ok()?),
            };
            let Some(found) = found else { continue };
            let mut headers = found.units();
            while let Some(header) = headers.next().map_err(unreadable)? {
                let unit = found.unit(header).map_err(unreadable)?;
                if facts(unit.unit_ref(&found)).map_err(unreadable)?.is_too_deep {
                    return Err(WithoutInlined::TooDeep);
                }
            }
            split.insert(id.0, Arc::new(found));
        }
        Ok(split)
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
