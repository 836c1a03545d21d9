//! Finds the functions into which others were inlined, by debug information (DWARF 5, 3.3.8).

use super::{archive, object_file};
use gimli::{
    AttributeValue, Dwarf, DwarfPackage, DwarfSections, EndianSlice, EntriesRaw, Reader,
    RelocateReader, RunTimeEndian, SectionId, Unit, UnitHeader, UnitOffset, constants,
};
use object::{File, Object, ObjectSection, RelocationMap};
use opcost_symbols::debug_files::{Moved, Sections};
use opcost_symbols::demangle::demangle;
use opcost_symbols::elf::is_elf;
use opcost_symbols::section::{budget, contents};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// The most references from entry to entry that are followed; honest ones take three.
const REFERENCES_MAX: usize = 8;

/// The places where functions were inlined.
#[derive(Debug, Default)]
pub(super) struct Inlined {
    /// Whether the file has any debug information.
    pub(super) debug_information: bool,
    /// By symbol: the functions it was inlined into, each with its source file's base name.
    places: HashMap<Vec<u8>, BTreeSet<(Vec<u8>, String)>>,
}

impl Inlined {
    /// Returns the functions that `symbol` was inlined into. `file`: the source file of a local
    /// symbol; other files' inlined copies count only if one file alone has any.
    pub(super) fn into(&self, symbol: &[u8], file: Option<&[u8]>) -> Vec<String> {
        let Some(places) = self.places.get(symbol) else { return Vec::new() };
        let sources: BTreeSet<&[u8]> = places.iter().map(|(source, _)| source.as_slice()).collect();
        let own = |source: &[u8]| match file.map(base_name) {
            Some(file) if sources.contains(file) => file == source,
            Some(_) => sources.len() == 1,
            None => true,
        };
        let callers: BTreeSet<&String> =
            places.iter().filter(|(source, _)| own(source)).map(|(_, caller)| caller).collect();
        callers.into_iter().cloned().collect()
    }
}

/// Looks for the `wanted` symbols among the inlined functions of a program, object or archive.
///
/// Broken debug information counts up to its first fault.
///
/// `moved`: files to which its debug information was moved.
pub(super) fn search(bytes: &[u8], moved: Option<&Moved>, wanted: &HashSet<&[u8]>) -> Inlined {
    let mut found = Inlined::default();
    if archive::is_archive(bytes) {
        for (_, member) in archive::members(bytes).unwrap_or_default() {
            if is_elf(member) {
                search_object(member, None, wanted, &mut found);
            }
        }
    } else {
        search_object(bytes, moved, wanted, &mut found);
    }
    found
}

fn search_object(
    bytes: &[u8],
    moved: Option<&Moved>,
    wanted: &HashSet<&[u8]>,
    found: &mut Inlined,
) {
    let debug = moved.and_then(|moved| moved.debug.as_ref()).map(|debug| &**debug);
    let has_information = |bytes| {
        let file = object_file::parse(bytes).or_else(|_| File::parse(bytes)).ok()?;
        let mut names = [".debug_info", ".zdebug_info"].iter();
        names.any(|name| file.section_by_name(name).is_some()).then_some((file, bytes))
    };
    let own = has_information(bytes).or_else(|| has_information(debug?));
    let Some((file, bytes)) = own else { return };
    found.debug_information = true;
    let budget = budget(bytes);
    let load = |id: SectionId| -> Result<Loaded<'_>, std::convert::Infallible> {
        let section = file.section_by_name(id.name());
        let loaded = section.map(|section| {
            Loaded::new(&file, &section, contents(&section, &budget).unwrap_or_default())
        });
        Ok(loaded.unwrap_or_default())
    };
    let Ok(sections) = DwarfSections::load(load);
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut dwarf = sections.borrow(|section| {
        RelocateReader::new(
            EndianSlice::new(&section.data, endian),
            Relocations(&section.relocations),
        )
    });
    let none = RelocationMap::default();
    let apart = |sections| apart(sections, &none, endian);
    if let Some(supplement) = moved.and_then(|moved| apart(moved.supplement.as_ref()?)) {
        dwarf.set_sup(supplement);
    }
    Walk::over(&dwarf, wanted, found);
    let Some(moved) = moved else { return };
    for unit in moved.split.units.values() {
        if let Some(mut unit) = apart(unit) {
            unit.make_dwo(&dwarf);
            Walk::over(&unit, wanted, found);
        }
    }
    let empty = RelocateReader::new(EndianSlice::new(&[], endian), Relocations(&none));
    let package = moved
        .split
        .package
        .as_ref()
        .map(|package| DwarfPackage::load(unrelocated(package, &none, endian), empty));
    if let Some(Ok(package)) = package {
        for index in 1..=package.cu_index.unit_count() {
            if let Ok(unit) = package.cu_sections(index, &dwarf) {
                Walk::over(&unit, wanted, found);
            }
        }
    }
}

/// Reads the debug information of a file without relocations.
fn apart<'s>(
    sections: &'s Sections,
    none: &'s RelocationMap,
    endian: RunTimeEndian,
) -> Option<Dwarf<Section<'s>>> {
    Dwarf::load(unrelocated(sections, none, endian)).ok()
}

/// Returns a function that gives sections without relocations by their identifier; those that there are not are empty.
fn unrelocated<'s>(
    sections: &'s Sections,
    none: &'s RelocationMap,
    endian: RunTimeEndian,
) -> impl Fn(SectionId) -> Result<Section<'s>, gimli::Error> {
    move |id| {
        let bytes = sections.get(&id).map_or(&[][..], |bytes| bytes);
        Ok(RelocateReader::new(EndianSlice::new(bytes, endian), Relocations(none)))
    }
}

/// A section of debug information, with its relocations in an object file.
#[derive(Default)]
struct Loaded<'d> {
    data: Cow<'d, [u8]>,
    relocations: RelocationMap,
}

impl<'d> Loaded<'d> {
    fn new(file: &File<'d>, section: &impl ObjectSection<'d>, data: Cow<'d, [u8]>) -> Loaded<'d> {
        let mut relocations = RelocationMap::default();
        for (offset, relocation) in section.relocations() {
            // Relocations of thread-local variables are refused here, and not needed.
            let _ = relocations.add(file, offset, relocation);
        }
        Loaded { data, relocations }
    }
}

#[derive(Clone, Copy, Debug)]
struct Relocations<'r>(&'r RelocationMap);

impl gimli::Relocate for Relocations<'_> {
    fn relocate_address(&self, offset: usize, value: u64) -> gimli::Result<u64> {
        Ok(self.0.relocate(offset as u64, value))
    }

    fn relocate_offset(&self, offset: usize, value: usize) -> gimli::Result<usize> {
        Ok(self.0.relocate(offset as u64, value as u64) as usize)
    }
}

type Section<'d> = RelocateReader<EndianSlice<'d, RunTimeEndian>, Relocations<'d>>;

/// An entry, or a unit by its first byte: whether it is in the supplement, and its offset in the section.
type EntryKey = (bool, usize);

/// A pass over all units, those of the supplement last.
struct Walk<'w, 'd> {
    dwarf: &'w Dwarf<Section<'d>>,
    wanted: &'w HashSet<&'w [u8]>,
    units: Vec<(bool, UnitHeader<Section<'d>>)>,
    /// Entries of the wanted functions.
    names: HashMap<EntryKey, Vec<u8>>,
    /// Entries that refer to another entry for further attributes.
    refers: HashMap<EntryKey, EntryKey>,
    /// Inlined calls: the inlined entry, and unit and entry of the function around it.
    inlined: Vec<(EntryKey, usize, UnitOffset)>,
}

/// The attributes of a function that matter here.
#[derive(Default)]
struct Function<'d> {
    name: Option<Section<'d>>,
    linkage_name: Option<Section<'d>>,
    refers: Option<EntryKey>,
}

impl<'w, 'd> Walk<'w, 'd> {
    /// Adds the places where wanted functions were inlined.
    fn over(dwarf: &'w Dwarf<Section<'d>>, wanted: &'w HashSet<&'w [u8]>, found: &mut Inlined) {
        let mut walk = Walk {
            dwarf,
            wanted,
            units: Vec::new(),
            names: HashMap::new(),
            refers: HashMap::new(),
            inlined: Vec::new(),
        };
        // Debug information behind an error is not used.
        let _ = walk.units(false).and_then(|()| walk.units(true));
        walk.resolve(found);
    }

    /// The file itself, or its supplement.
    fn dwarf(&self, in_supplement: bool) -> Option<&'w Dwarf<Section<'d>>> {
        if in_supplement { self.dwarf.sup() } else { Some(self.dwarf) }
    }

    fn units(&mut self, in_supplement: bool) -> gimli::Result<()> {
        let Some(dwarf) = self.dwarf(in_supplement) else { return Ok(()) };
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            let unit = dwarf.unit(header.clone())?;
            self.units.push((in_supplement, header));
            self.unit(&unit, in_supplement)?;
        }
        Ok(())
    }

    fn unit(&mut self, unit: &Unit<Section<'d>>, in_supplement: bool) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(None)?;
        let mut open: Vec<(isize, UnitOffset)> = Vec::new();
        while !entries.is_empty() {
            let (depth, offset) = (entries.next_depth(), entries.next_offset());
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            while open.last().is_some_and(|(outer, _)| *outer >= depth) {
                open.pop();
            }
            match abbreviation.tag() {
                constants::DW_TAG_subprogram => {
                    let function =
                        self.function(unit, in_supplement, &mut entries, abbreviation)?;
                    open.push((depth, offset));
                    self.note((in_supplement, section_offset(unit, offset)), function);
                }
                constants::DW_TAG_inlined_subroutine => {
                    let inlined = self.function(unit, in_supplement, &mut entries, abbreviation)?;
                    let origin = inlined.refers;
                    if let (Some(origin), Some((_, outer))) = (origin, open.last()) {
                        self.inlined.push((origin, self.units.len() - 1, *outer));
                    }
                }
                _ => entries.skip_attributes(abbreviation.attributes())?,
            }
        }
        Ok(())
    }

    fn function(
        &self,
        unit: &Unit<Section<'d>>,
        in_supplement: bool,
        entries: &mut EntriesRaw<'_, Section<'d>>,
        abbreviation: &gimli::Abbreviation,
    ) -> gimli::Result<Function<'d>> {
        let mut function = Function::default();
        let Some(dwarf) = self.dwarf(in_supplement) else { return Ok(function) };
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            let value = attribute.value();
            match attribute.name() {
                constants::DW_AT_name => function.name = dwarf.attr_string(unit, value).ok(),
                constants::DW_AT_linkage_name | constants::DW_AT_MIPS_linkage_name => {
                    function.linkage_name = dwarf.attr_string(unit, value).ok();
                }
                constants::DW_AT_abstract_origin | constants::DW_AT_specification => {
                    function.refers = match value {
                        AttributeValue::UnitRef(offset) => {
                            Some((in_supplement, section_offset(unit, offset)))
                        }
                        AttributeValue::DebugInfoRef(offset) => Some((in_supplement, offset.0)),
                        AttributeValue::DebugInfoRefSup(offset) => Some((true, offset.0)),
                        _ => None,
                    };
                }
                _ => {}
            }
        }
        Ok(function)
    }

    fn note(&mut self, place: EntryKey, function: Function<'d>) {
        if let Some(refers) = function.refers {
            self.refers.insert(place, refers);
        }
        // A plain name is the symbol's name only if no other entry has a mangled one.
        let name = function.linkage_name.or(function.name.filter(|_| function.refers.is_none()));
        if let Some(name) = name.and_then(|name| name.to_slice().ok().map(Cow::into_owned))
            && self.wanted.contains(name.as_slice())
        {
            self.names.insert(place, name);
        }
    }

    /// Finds the functions into which the wanted functions were inlined.
    fn resolve(&self, found: &mut Inlined) {
        let hits = self.inlined.iter().filter_map(|(origin, unit, outer)| {
            Some((self.follow(*origin, |place| self.names.get(&place))?, *unit, *outer))
        });
        let hits: HashSet<(&Vec<u8>, usize, UnitOffset)> = hits.collect();
        // Opened units are kept: opening one reads all its abbreviations, and functions share units.
        let mut opened: HashMap<usize, Option<Rc<Unit<Section<'d>>>>> = HashMap::new();
        let mut open = |index: usize| {
            let unit = || {
                let (in_supplement, header) = self.units.get(index)?;
                self.dwarf(*in_supplement)?.unit(header.clone()).ok().map(Rc::new)
            };
            opened.entry(index).or_insert_with(unit).clone()
        };
        for (name, index, outer) in hits {
            let Some(unit) = open(index) else { continue };
            let path = unit.name.as_ref().and_then(|name| Some(name.to_slice().ok()?.into_owned()));
            let source = path.map(|path| base_name(&path).to_vec()).unwrap_or_default();
            let mut look = |place| self.name_at(place, &mut open);
            let in_supplement = self.units.get(index).is_some_and(|(found, _)| *found);
            let outer = (in_supplement, section_offset(&unit, outer));
            if let Some(caller) = self.follow(outer, &mut look) {
                found.places.entry(name.clone()).or_default().insert((source, caller));
            }
        }
    }

    /// Looks at an entry and those that it refers to, and returns the first result.
    fn follow<T>(&self, start: EntryKey, mut look: impl FnMut(EntryKey) -> Option<T>) -> Option<T> {
        let mut place = start;
        for _ in 0..REFERENCES_MAX {
            if let Some(found) = look(place) {
                return Some(found);
            }
            place = *self.refers.get(&place)?;
        }
        None
    }

    /// Returns the readable name of the function at a place; `open`: returns a unit by its index.
    fn name_at(
        &self,
        place: EntryKey,
        open: &mut impl FnMut(usize) -> Option<Rc<Unit<Section<'d>>>>,
    ) -> Option<String> {
        let start = |header: &UnitHeader<Section<'d>>| {
            header.debug_info_offset().map_or(0, |offset| offset.0)
        };
        let before = |(in_supplement, header): &(bool, _)| (*in_supplement, start(header)) <= place;
        let index = self.units.partition_point(before).checked_sub(1)?;
        let unit = open(index)?;
        let within = UnitOffset(place.1.checked_sub(start(&unit.header))?);
        let mut entries = unit.entries_raw(Some(within)).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        let function = self.function(&unit, place.0, &mut entries, abbreviation).ok()?;
        let name = function.linkage_name.or(function.name)?;
        Some(demangle(&name.to_string_lossy().ok()?))
    }
}

/// Returns the offset in the section of a unit's entry.
fn section_offset(unit: &Unit<Section<'_>>, offset: UnitOffset) -> usize {
    let start = unit.header.debug_info_offset().map_or(0, |start| start.0);
    start.saturating_add(offset.0)
}

/// Returns a path without its folders, as the symbol table names source files.
fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}
