//! Finds the functions into which others were inlined, by debug information (DWARF 5, 3.3.8).

use super::{archive, object_file};
use gimli::{
    AttributeValue, Dwarf, DwarfSections, EndianSlice, EntriesRaw, Reader, RelocateReader,
    RunTimeEndian, SectionId, Unit, UnitHeader, UnitOffset, constants,
};
use object::{File, Object, ObjectSection, RelocationMap};
use opcost_profile::symbols::demangle::demangle;
use opcost_profile::symbols::elf::is_elf;
use opcost_profile::symbols::section::{budget, contents};
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
pub(super) fn search(bytes: &[u8], wanted: &HashSet<&[u8]>) -> Inlined {
    let mut found = Inlined::default();
    if archive::is_archive(bytes) {
        for (_, member) in archive::members(bytes).unwrap_or_default() {
            if is_elf(member) {
                search_object(member, wanted, &mut found);
            }
        }
    } else {
        search_object(bytes, wanted, &mut found);
    }
    found
}

fn search_object(bytes: &[u8], wanted: &HashSet<&[u8]>, found: &mut Inlined) {
    let Ok(file) = object_file::parse(bytes) else { return };
    if file.section_by_name(".debug_info").is_none()
        && file.section_by_name(".zdebug_info").is_none()
    {
        return;
    }
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
    let dwarf = sections.borrow(|section| {
        RelocateReader::new(
            EndianSlice::new(&section.data, endian),
            Relocations(&section.relocations),
        )
    });
    let mut walk = Walk {
        dwarf: &dwarf,
        wanted,
        units: Vec::new(),
        names: HashMap::new(),
        refers: HashMap::new(),
        inlined: Vec::new(),
    };
    // Debug information behind an error is not used.
    let _ = walk.units();
    walk.resolve(found);
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

/// A pass over all units; entries are identified by their offset in the section.
struct Walk<'w, 'd> {
    dwarf: &'w Dwarf<Section<'d>>,
    wanted: &'w HashSet<&'w [u8]>,
    units: Vec<UnitHeader<Section<'d>>>,
    /// Entries of the wanted functions.
    names: HashMap<usize, Vec<u8>>,
    /// Entries that refer to another entry for further attributes.
    refers: HashMap<usize, usize>,
    /// Inlined calls: the inlined entry, and unit and entry of the function around it.
    inlined: Vec<(usize, usize, UnitOffset)>,
}

/// The attributes of a function that matter here.
#[derive(Default)]
struct Function<'d> {
    name: Option<Section<'d>>,
    linkage_name: Option<Section<'d>>,
    refers: Option<usize>,
}

impl<'d> Walk<'_, 'd> {
    fn units(&mut self) -> gimli::Result<()> {
        let mut headers = self.dwarf.units();
        while let Some(header) = headers.next()? {
            let unit = self.dwarf.unit(header.clone())?;
            self.units.push(header);
            self.unit(&unit)?;
        }
        Ok(())
    }

    fn unit(&mut self, unit: &Unit<Section<'d>>) -> gimli::Result<()> {
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
                    let function = self.function(unit, &mut entries, abbreviation)?;
                    open.push((depth, offset));
                    self.note(section_offset(unit, offset), function);
                }
                constants::DW_TAG_inlined_subroutine => {
                    let origin = self.function(unit, &mut entries, abbreviation)?.refers;
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
        entries: &mut EntriesRaw<'_, Section<'d>>,
        abbreviation: &gimli::Abbreviation,
    ) -> gimli::Result<Function<'d>> {
        let mut function = Function::default();
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            let value = attribute.value();
            match attribute.name() {
                constants::DW_AT_name => function.name = self.dwarf.attr_string(unit, value).ok(),
                constants::DW_AT_linkage_name | constants::DW_AT_MIPS_linkage_name => {
                    function.linkage_name = self.dwarf.attr_string(unit, value).ok();
                }
                constants::DW_AT_abstract_origin | constants::DW_AT_specification => {
                    function.refers = match value {
                        AttributeValue::UnitRef(offset) => Some(section_offset(unit, offset)),
                        AttributeValue::DebugInfoRef(offset) => Some(offset.0),
                        _ => None,
                    };
                }
                _ => {}
            }
        }
        Ok(function)
    }

    fn note(&mut self, offset: usize, function: Function<'d>) {
        if let Some(refers) = function.refers {
            self.refers.insert(offset, refers);
        }
        // A plain name is the symbol's name only if no other entry has a mangled one.
        let name = function.linkage_name.or(function.name.filter(|_| function.refers.is_none()));
        if let Some(name) = name.and_then(|name| name.to_slice().ok().map(Cow::into_owned))
            && self.wanted.contains(name.as_slice())
        {
            self.names.insert(offset, name);
        }
    }

    /// Finds the functions into which the wanted functions were inlined.
    fn resolve(&self, found: &mut Inlined) {
        let hits = self.inlined.iter().filter_map(|(origin, unit, outer)| {
            Some((self.follow(*origin, |offset| self.names.get(&offset))?, *unit, *outer))
        });
        let hits: HashSet<(&Vec<u8>, usize, UnitOffset)> = hits.collect();
        // Opened units are kept: opening one reads all its abbreviations, and functions share units.
        let mut opened: HashMap<usize, Option<Rc<Unit<Section<'d>>>>> = HashMap::new();
        let mut open = |index: usize| {
            let unit = || self.dwarf.unit(self.units.get(index)?.clone()).ok().map(Rc::new);
            opened.entry(index).or_insert_with(unit).clone()
        };
        for (name, index, outer) in hits {
            let Some(unit) = open(index) else { continue };
            let path = unit.name.as_ref().and_then(|name| Some(name.to_slice().ok()?.into_owned()));
            let source = path.map(|path| base_name(&path).to_vec()).unwrap_or_default();
            let mut look = |offset| self.name_at(offset, &mut open);
            if let Some(caller) = self.follow(section_offset(&unit, outer), &mut look) {
                found.places.entry(name.clone()).or_default().insert((source, caller));
            }
        }
    }

    /// Looks at an entry and those that it refers to, and returns the first result.
    fn follow<T>(&self, start: usize, mut look: impl FnMut(usize) -> Option<T>) -> Option<T> {
        let mut offset = start;
        for _ in 0..REFERENCES_MAX {
            if let Some(found) = look(offset) {
                return Some(found);
            }
            offset = *self.refers.get(&offset)?;
        }
        None
    }

    /// Returns the readable name of the function at an offset; `open`: returns a unit by its index.
    fn name_at(
        &self,
        offset: usize,
        open: &mut impl FnMut(usize) -> Option<Rc<Unit<Section<'d>>>>,
    ) -> Option<String> {
        let start = |header: &UnitHeader<Section<'d>>| {
            header.debug_info_offset().map_or(0, |offset| offset.0)
        };
        let index = self.units.partition_point(|header| start(header) <= offset).checked_sub(1)?;
        let unit = open(index)?;
        let within = UnitOffset(offset.checked_sub(start(&unit.header))?);
        let mut entries = unit.entries_raw(Some(within)).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        let function = self.function(&unit, &mut entries, abbreviation).ok()?;
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
