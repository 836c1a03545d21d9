//! Finds the files to which a program's symbols and debug information were moved.
//!
//! | file | what leads to it | what shows that it belongs |
//! |---|---|---|
//! | debug file (`strip`, `objcopy --only-keep-debug`) | the build id, `.gnu_debuglink`; debuginfod | the build id, else the link's checksum |
//! | supplement (`dwz -m`) | `.gnu_debugaltlink`, `.debug_sup`, the build id; debuginfod | the build id |
//! | units (`-gsplit-dwarf`): `.dwo`, or all in one `.dwp` | the units that stayed | the units' identifiers |
//!
//! A file that does not belong, or cannot be read, is not used.

use super::debuginfod::Debuginfod;
use super::elf::{self, ElfError, Excerpt};
use super::section::contents;
use gimli::{DwarfPackage, EndianSlice, LittleEndian, SectionId, UnitRef};
use object::{Object, ObjectSection};
use opcost_record::printable::hexadecimal;
use opcost_sys::budget::Budget;
use opcost_sys::foreign_file;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The folder of distributions' debug files.
pub const DEBUG_FILES: &str = "/usr/lib/debug";

/// The sections of debug information that describe inlined functions.
pub const DEBUG_SECTIONS: &[SectionId] = &[
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

/// The sections that a package of split units has besides. A unit's parts of all sections must be there.
const PACKAGE_SECTIONS: &[SectionId] = &[
    SectionId::DebugCuIndex,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugTuIndex,
];

/// Sections of debug information, uncompressed.
pub type Sections = HashMap<SectionId, Vec<u8>>;

/// The places of debug files.
#[derive(Clone, Debug)]
pub struct DebugFiles {
    /// The folder with `.build-id/xx/yyyy.debug`.
    folder: PathBuf,
    debuginfod: Option<Debuginfod>,
}

impl From<PathBuf> for DebugFiles {
    fn from(folder: PathBuf) -> DebugFiles {
        DebugFiles { folder, debuginfod: None }
    }
}

impl From<&Path> for DebugFiles {
    fn from(folder: &Path) -> DebugFiles {
        DebugFiles::from(folder.to_path_buf())
    }
}

impl From<&str> for DebugFiles {
    fn from(folder: &str) -> DebugFiles {
        DebugFiles::from(PathBuf::from(folder))
    }
}

impl DebugFiles {
    /// The places of this computer: [`DEBUG_FILES`], and what the environment names for debuginfod.
    ///
    /// `announce`: reports what servers are asked for; `None`: servers are never asked.
    pub fn of_environment(announce: Option<fn(&str)>) -> DebugFiles {
        let debuginfod = Some(Debuginfod::of_environment(announce));
        DebugFiles { folder: DEBUG_FILES.into(), debuginfod }
    }

    /// The folder of distributions' debug files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the parts that names need of the debug file split off from a program or library, if it
    /// exists.
    ///
    /// The file is looked for by build id, then by the name in the program's `.gnu_debuglink`: beside
    /// the program, in `.debug` there, and under the folder of debug files in the same path (GDB manual,
    /// "Debugging Information in Separate Files"), then with debuginfod. Its build id must be the
    /// program's; without one, its checksum must be the link's. `sections`, `limit_bytes`: as for
    /// [`excerpt`](elf::excerpt).
    ///
    /// # Errors
    /// [`ElfError`] if `file` cannot be read.
    pub fn split_off(
        &self,
        path: &Path,
        file: &[u8],
        sections: &[SectionId],
        limit_bytes: u64,
    ) -> Result<Option<Excerpt>, ElfError> {
        let id = elf::build_id(file)?;
        let of_build = |path: &Path| {
            let debug = elf::excerpt(path, sections, limit_bytes).ok()?;
            (elf::build_id(&debug) == Ok(id)).then_some(debug)
        };
        if let Some(path) = id.and_then(|id| by_build_id(&self.folder, id))
            && let Some(found) = of_build(&path.with_extension("debug"))
        {
            return Ok(Some(found));
        }
        let fetched = || self.debuginfod.as_ref()?.find(id?, path, of_build);
        let Some((name, checksum)) = elf::debug_link(file)? else { return Ok(fetched()) };
        let folder = path.parent().unwrap_or(Path::new("/"));
        let below = self.folder.join(folder.strip_prefix("/").unwrap_or(folder));
        let belongs = |path: &Path| {
            if id.is_some() {
                return of_build(path);
            }
            // The checksum is that of the whole file.
            let debug = elf::excerpt(path, sections, limit_bytes).ok()?;
            let whole = || foreign_file::read(path, elf::WHOLE_BYTES_MAX).ok();
            let same = elf::is_elf(&debug) && crc32fast::hash(&whole()?) == checksum;
            same.then_some(debug)
        };
        let places = [folder.to_owned(), folder.join(".debug"), below];
        // If the file was not stripped after all, its link may lead back to it.
        let mut candidates =
            places.iter().map(|place| place.join(&name)).filter(|found| found != path);
        Ok(candidates.find_map(|found| belongs(&found)).or_else(fetched))
    }

    /// Reads the supplement of a file with debug information, which several files share.
    ///
    /// `path`: where `file` is; `sections`: those wanted. The name is relative to the file's folder
    /// (dwz(1)).
    ///
    /// # Errors
    /// `file` names a supplement that is not here.
    pub fn supplement(
        &self,
        path: &Path,
        file: &[u8],
        sections: &[SectionId],
        budget: &Budget,
    ) -> Result<Option<Sections>, Missing> {
        let Some((name, id)) = elf::supplement_link(file) else { return Ok(None) };
        let name = Path::new(OsStr::from_bytes(name));
        let beside = path.parent().unwrap_or(Path::new("/")).join(name);
        let below = name.file_name().map(|name| self.folder.join(".dwz").join(name));
        let of_build = by_build_id(&self.folder, id).map(|path| path.with_extension("debug"));
        let read = |path: &Path| {
            let file = read_within(path, budget).ok()?;
            let object = object::File::parse(&*file).ok()?;
            let own = object.section_by_name(".debug_sup").and_then(|own| own.data().ok());
            let checksum = own.and_then(|own| elf::supplement(own, 1)).map(|(_, id)| id);
            (object.build_id() == Ok(Some(id)) || checksum == Some(id))
                .then(|| unpacked(&object, sections, |id| Some(id.name()), budget).ok())
                .flatten()
        };
        let local = [Some(beside), below, of_build].into_iter().flatten();
        let found = local.into_iter().find_map(|path| read(&path));
        let found = found.or_else(|| self.debuginfod.as_ref()?.find(id, path, read));
        found.map(Some).ok_or(Missing)
    }
}

/// A file with debug information is not here, or of another build.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Missing;

/// The files beside a program that have parts of its symbols or debug information.
#[derive(Debug, Default)]
pub struct Moved {
    /// The debug file.
    pub debug: Option<Excerpt>,
    /// The supplement.
    pub supplement: Option<Sections>,
    /// The split units.
    pub split: Split,
    /// Whether a file that belongs to the program is not here or of another build.
    pub is_missing: bool,
}

impl DebugFiles {
    /// Reads all files that belong to a program, where it lacks symbols or debug information itself.
    ///
    /// A file of another kind has none.
    pub fn moved(&self, path: &Path, file: &[u8], limit_bytes: u64) -> Moved {
        let mut moved = Moved::default();
        let Ok(has_table) = elf::has_symbol_table(file) else { return moved };
        if !has_table || !elf::has_debug_information(file) {
            let found = self.split_off(path, file, DEBUG_SECTIONS, limit_bytes);
            moved.debug = found.ok().flatten();
        }
        let (at, with_information) = match &moved.debug {
            Some(debug) if !elf::has_debug_information(file) => (debug.path(), &**debug),
            _ => (path, file),
        };
        let budget = Budget::new(limit_bytes.saturating_mul(2), file.len() as u64);
        match self.supplement(at, with_information, DEBUG_SECTIONS, &budget) {
            Ok(supplement) => moved.supplement = supplement,
            Err(Missing) => moved.is_missing = true,
        }
        let wanted = split_units_of(with_information, &budget).unwrap_or_default();
        let files = iter::once(path).chain(moved.debug.as_ref().map(Excerpt::path));
        moved.split = Split::read(files, wanted, &budget);
        moved.is_missing |= moved.split.is_missing;
        moved
    }
}

/// Finds the units of a file that were split; `None` if they cannot be read.
fn split_units_of(file: &[u8], budget: &Budget) -> Option<Vec<SplitUnit>> {
    let object = object::File::parse(file).ok()?;
    // The addresses of split units are there; honest files without it have none.
    object.section_by_name(SectionId::DebugAddr.name())?;
    let sections = unpacked(&object, DEBUG_SECTIONS, |id| Some(id.name()), budget).ok()?;
    let dwarf = Dwarf::load(slices(&sections)).ok()?;
    let (mut headers, mut wanted) = (dwarf.units(), Vec::new());
    while let Some(header) = headers.next().ok()? {
        let unit = dwarf.unit(header).ok()?;
        wanted.extend(split_unit(unit.unit_ref(&dwarf)));
    }
    Some(wanted)
}

type Slice<'s> = EndianSlice<'s, LittleEndian>;
type Dwarf<'s> = gimli::Dwarf<Slice<'s>>;

/// Returns a function that gives sections by their identifier; those that there are not are empty.
pub fn slices<'s, B: AsRef<[u8]>>(
    sections: &'s HashMap<SectionId, B>,
) -> impl Fn(SectionId) -> Result<Slice<'s>, gimli::Error> {
    |id| {
        let bytes = sections.get(&id).map_or(&[][..], AsRef::as_ref);
        Ok(EndianSlice::new(bytes, LittleEndian))
    }
}

/// A unit of which only the addresses stayed.
pub struct SplitUnit {
    id: u64,
    /// Where the compiler ran.
    folder: Vec<u8>,
    /// The file to which the unit was moved.
    name: Vec<u8>,
}

/// Returns where a unit was moved to; `None` if it is whole.
pub fn split_unit(unit: UnitRef<'_, Slice<'_>>) -> Option<SplitUnit> {
    let name = unit.attr_string(unit.dwo_name().ok()??).ok()?.to_vec();
    let folder = unit.comp_dir.map_or(Vec::new(), |folder| folder.to_vec());
    Some(SplitUnit { id: unit.dwo_id?.0, folder, name })
}

/// Units that the compiler wrote to files of their own.
#[derive(Debug, Default)]
pub struct Split {
    /// All units of the program, packed.
    pub package: Option<Sections>,
    /// The units that are not packed, by their identifiers.
    pub units: HashMap<u64, Sections>,
    /// Whether a unit is not here or of another build.
    pub is_missing: bool,
}

impl Split {
    /// Reads these units. A package is looked for beside `files`, the program and its debug file, and a
    /// unit where the compiler wrote it, and beside `files`.
    pub fn read<'p>(
        files: impl Iterator<Item = &'p Path> + Clone,
        wanted: Vec<SplitUnit>,
        budget: &Budget,
    ) -> Split {
        let mut split = Split::default();
        if wanted.is_empty() {
            return split;
        }
        let sections = [DEBUG_SECTIONS, PACKAGE_SECTIONS].concat();
        let packages = files.clone().flat_map(|file| {
            let whole = OsString::from_iter([file.as_os_str(), ".dwp".as_ref()]);
            [PathBuf::from(whole), file.with_extension("dwp")]
        });
        let found = packages.filter_map(|path| split_sections(&path, &sections, budget).ok());
        split.package = { found }.next();
        for SplitUnit { id, folder, name } in wanted {
            if split.is_packed(id) || split.units.contains_key(&id) {
                continue;
            }
            let name = Path::new(OsStr::from_bytes(&name));
            let written = Path::new(OsStr::from_bytes(&folder)).join(name);
            let beside = files.clone().flat_map(|file| {
                let folder = file.parent().unwrap_or(Path::new("/"));
                [folder.join(name), folder.join(name.file_name().unwrap_or_default())]
            });
            let places = iter::once(written).chain(beside);
            let found =
                places.filter_map(|path| split_sections(&path, DEBUG_SECTIONS, budget).ok());
            let mut found = found.filter(|sections| identifier(sections) == Some(id));
            match found.next() {
                Some(sections) => drop(split.units.insert(id, sections)),
                None => split.is_missing = true,
            }
        }
        split
    }

    /// The package with its index.
    pub fn package(&self) -> Option<DwarfPackage<Slice<'_>>> {
        DwarfPackage::load(slices(self.package.as_ref()?), EndianSlice::new(&[], LittleEndian)).ok()
    }

    fn is_packed(&self, id: u64) -> bool {
        let package = self.package();
        package.is_some_and(|package| package.cu_index.find(id).is_some())
    }
}

/// The identifier of the split unit that a file has.
fn identifier(sections: &Sections) -> Option<u64> {
    let mut dwarf = Dwarf::load(slices(sections)).ok()?;
    dwarf.make_dwo(&Dwarf::default());
    let mut headers = dwarf.units();
    // Units of types come before.
    while let Some(header) = headers.next().ok()? {
        if let Some(id) = dwarf.unit(header).ok()?.dwo_id {
            return Some(id.0);
        }
    }
    None
}

/// Reads the sections of a file with split units, `.dwo` or `.dwp`, whose names end with `.dwo`.
fn split_sections(path: &Path, sections: &[SectionId], budget: &Budget) -> io::Result<Sections> {
    let file = read_within(path, budget)?;
    let damaged = |error: object::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let object = object::File::parse(&*file).map_err(damaged)?;
    unpacked(&object, sections, |id| id.dwo_name(), budget)
}

/// Reads a file if the budget has room for it.
fn read_within(path: &Path, budget: &Budget) -> io::Result<Vec<u8>> {
    budget.room(fs::metadata(path)?.len())?;
    foreign_file::read(path, elf::WHOLE_BYTES_MAX)
}

/// Unpacks the sections that a file has of these.
fn unpacked(
    object: &object::File<'_>,
    sections: &[SectionId],
    name: impl Fn(&SectionId) -> Option<&'static str>,
    budget: &Budget,
) -> io::Result<Sections> {
    let found = sections.iter().filter_map(|id| Some((*id, object.section_by_name(name(id)?)?)));
    found
        .map(|(id, section)| {
            budget.room(section.size())?;
            Ok((id, contents(&section, budget)?.into_owned()))
        })
        .collect()
}

/// Returns `FOLDER/.build-id/ab/cdef…`, as distributions and perf name files by build id; `None` for
/// an identifier of less than two bytes.
pub fn by_build_id(folder: &Path, id: &[u8]) -> Option<PathBuf> {
    let hex = hexadecimal(id);
    let (first, rest) = hex.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    Some(folder.join(".build-id").join(first).join(rest))
}
