//! Reads only the parts of an ELF file that names need; code and data stay on disk.

use super::image::{ElfError, Header, Image, LE, Section};
use super::{go_table, linkage, lookup::LINKS};
use gimli::SectionId;
use object::SectionIndex;
use object::elf;
use object::read::elf::{FileHeader, SectionHeader};
use opcost_sys::budget::Exceeded;
use opcost_sys::foreign_file;
use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::iter;
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file that is zeros wherever it was not read.
///
/// An excerpt is as long as the file, but only its read parts take memory. The parts that only code
/// without a symbol needs are read on first use.
#[derive(Debug)]
pub struct Excerpt {
    path: PathBuf,
    file: File,
    symbols: Vec<u8>,
    limit_bytes: u64,
    /// Whether the debug information that was asked for is there.
    is_whole: bool,
    linkage: OnceCell<Vec<u8>>,
    unwind: OnceCell<Vec<u8>>,
}

impl Deref for Excerpt {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.symbols
    }
}

impl Excerpt {
    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the debug information that was asked for was read; it is left out if it takes more than the budget.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The linkage tables and Go's table, with everything that they refer to.
    fn linkage(&self) -> Result<&[u8], ElfError> {
        self.later(&self.linkage, |image, section| {
            let name = image.sections.section_name(LE, section).unwrap_or_default();
            let relocations =
                || image.sections.iter().filter(|one| one.sh_type(LE) == elf::SHT_RELA);
            let linked =
                |one: &Section| image.sections.section(SectionIndex(one.sh_link(LE) as usize)).ok();
            linkage::is_linkage(name)
                || go_table::is_table(name)
                || section.sh_type(LE) == elf::SHT_RELA
                || relocations().filter_map(linked).any(|symbols| {
                    let strings = linked(symbols);
                    std::ptr::eq(symbols, section)
                        || strings.is_some_and(|one| std::ptr::eq(one, section))
                })
        })
    }

    /// The unwind information.
    fn unwind(&self) -> Result<&[u8], ElfError> {
        self.later(&self.unwind, |image, section| {
            image.sections.section_name(LE, section).unwrap_or_default() == b".eh_frame"
        })
    }

    fn later<'e>(
        &self,
        cell: &'e OnceCell<Vec<u8>>,
        wanted: impl Fn(&Image<'_>, &'_ Section) -> bool,
    ) -> Result<&'e [u8], ElfError> {
        if let Some(known) = cell.get() {
            return Ok(known);
        }
        let read = || {
            let mut data = headers(&self.file)?;
            // The sections' names lead to the wanted sections.
            let names = ranges(&data, |image, section| {
                image.section_names().is_some_and(|names| std::ptr::eq(names, section))
            });
            let mut room = Room::new(self.limit_bytes);
            read(&self.file, &mut data, names, &mut room)?;
            let ranges = ranges(&data, wanted);
            read(&self.file, &mut data, ranges, &mut room)?;
            Ok(data)
        };
        let data =
            read().map_err(|error: io::Error| ElfError::Unread { what: error.to_string() })?;
        Ok(cell.get_or_init(|| data))
    }
}

/// A file as a whole or in excerpts.
#[derive(Clone, Copy)]
pub enum Readable<'d> {
    /// The whole file.
    Whole(&'d [u8]),
    /// The parts that were asked for.
    Excerpt(&'d Excerpt),
}

impl<'d> Readable<'d> {
    /// Returns the file with its symbol tables.
    pub fn symbols(self) -> &'d [u8] {
        match self {
            Readable::Whole(file) => file,
            Readable::Excerpt(excerpt) => &excerpt.symbols,
        }
    }

    /// Returns the file with its linkage tables and Go's table.
    pub(super) fn linkage(self) -> Result<&'d [u8], ElfError> {
        match self {
            Readable::Whole(file) => Ok(file),
            Readable::Excerpt(excerpt) => excerpt.linkage(),
        }
    }

    /// Returns the file with its unwind information.
    pub(super) fn unwind(self) -> Result<&'d [u8], ElfError> {
        match self {
            Readable::Whole(file) => Ok(file),
            Readable::Excerpt(excerpt) => excerpt.unwind(),
        }
    }
}

impl<'d> From<&'d [u8]> for Readable<'d> {
    fn from(file: &'d [u8]) -> Self {
        Readable::Whole(file)
    }
}

impl<'d> From<&'d Vec<u8>> for Readable<'d> {
    fn from(file: &'d Vec<u8>) -> Self {
        Readable::Whole(file)
    }
}

impl<'d> From<&'d Excerpt> for Readable<'d> {
    fn from(excerpt: &'d Excerpt) -> Self {
        Readable::Excerpt(excerpt)
    }
}

/// The bytes that may still be read of a file.
struct Room {
    limit_bytes: u64,
    left_bytes: u64,
}

impl Room {
    fn new(limit_bytes: u64) -> Room {
        Room { limit_bytes, left_bytes: limit_bytes }
    }

    fn take(&mut self, bytes: u64) -> Result<(), Exceeded> {
        let taken_bytes = self.limit_bytes - self.left_bytes;
        let left = self.left_bytes.checked_sub(bytes);
        self.left_bytes = left.ok_or(Exceeded::Memory {
            limit_bytes: self.limit_bytes,
            held_bytes: taken_bytes.saturating_add(bytes),
            taken_bytes,
        })?;
        Ok(())
    }
}

/// The most bytes read of a program, library or debug file: more than any has that a program maps as a whole.
pub const WHOLE_BYTES_MAX: u64 = 1 << 30;
/// The longest file of which parts are read. Zeros that nobody reads take no memory.
const FILE_BYTES_MAX: u64 = 16 << 30;

/// Reads the parts of a file that [`names`](super::names), [`build_id`](super::build_id()),
/// [`soname`](super::soname()) and the links to debug files look at.
///
/// `path`: a file of any kind; `sections`: debug information that is wanted as well; `limit_bytes`: the most bytes to
/// read of the file.
///
/// # Errors
/// The system's error for the file; [`opcost_sys::budget::Exceeded`] for its symbol tables.
pub fn excerpt(path: &Path, sections: &[SectionId], limit_bytes: u64) -> io::Result<Excerpt> {
    let file = foreign_file::open(path, FILE_BYTES_MAX)?;
    let mut data = headers(&file)?;
    // Sections with a type of their own; the names of the other sections are among them.
    let typed = ranges(&data, |_, section| {
        [
            elf::SHT_SYMTAB,
            elf::SHT_DYNSYM,
            elf::SHT_DYNAMIC,
            elf::SHT_STRTAB,
            elf::SHT_SYMTAB_SHNDX,
            elf::SHT_NOTE,
        ]
        .contains(&section.sh_type(LE))
    });
    let mut room = Room::new(limit_bytes);
    read(&file, &mut data, typed, &mut room)?;
    let links = ranges(&data, |image, section| {
        LINKS.contains(&image.sections.section_name(LE, section).unwrap_or_default())
    });
    read(&file, &mut data, links, &mut room)?;
    let debug = ranges(&data, |image, section| {
        let name = image.sections.section_name(LE, section).unwrap_or_default();
        sections.iter().any(|id| is_debug(name, *id))
    });
    let is_whole = match read(&file, &mut data, debug, &mut room) {
        Err(error) if Exceeded::of(&error).is_some() => false,
        read => read.map(|()| true)?,
    };
    let (linkage, unwind) = (OnceCell::new(), OnceCell::new());
    let path = path.to_path_buf();
    Ok(Excerpt { path, file, symbols: data, limit_bytes, is_whole, linkage, unwind })
}

/// Reads a file's headers, and makes zeros of the rest.
fn headers(file: &File) -> io::Result<Vec<u8>> {
    let bytes = usize::try_from(file.metadata()?.len()).map_err(|_| ErrorKind::FileTooLarge)?;
    // Allocating zeros without memory ends the program; failing to reserve memory is an error.
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| ErrorKind::OutOfMemory)?;
    let mut data = vec![0; bytes];
    let mut room = Room::new(WHOLE_BYTES_MAX);
    read(file, &mut data, iter::once(0..size_of::<Header>() as u64).collect(), &mut room)?;
    if let Some(tables) = tables(&data) {
        read(file, &mut data, tables, &mut room)?;
    }
    Ok(data)
}

/// Whether a section is `id`, possibly in the older compressed form with a name in `.z`.
fn is_debug(name: &[u8], id: SectionId) -> bool {
    let plain = id.name().as_bytes();
    name == plain || name.strip_prefix(b".z").is_some_and(|rest| rest == &plain[1..])
}

/// Returns the places of the segments' and sections' headers; the whole file if the file's header does
/// not tell their number, and `None` for a file that is not to be read any further.
fn tables(data: &[u8]) -> Option<Vec<Range<u64>>> {
    // This checks the header itself before the header leads anywhere.
    let header = Image::header(data).ok()?;
    let (segments, sections) = (header.e_phnum(LE), header.e_shnum(LE));
    if segments == elf::PN_XNUM || sections == 0 {
        return Some(iter::once(0..data.len() as u64).collect());
    }
    let table = |start: u64, count: u16, size: u16| {
        start..start.saturating_add(u64::from(count) * u64::from(size))
    };
    Some(vec![
        table(header.e_phoff(LE), segments, header.e_phentsize(LE)),
        table(header.e_shoff(LE), sections, header.e_shentsize(LE)),
    ])
}

/// Returns the places of the wanted sections; empty for a file whose headers are broken.
fn ranges(data: &[u8], wanted: impl Fn(&Image<'_>, &Section) -> bool) -> Vec<Range<u64>> {
    let Ok(image) = Image::parse(data) else { return Vec::new() };
    let wanted = image.sections.iter().filter(|section| wanted(&image, section));
    let range = wanted.filter_map(|section| section.file_range(LE));
    range.map(|(start, bytes)| start..start.saturating_add(bytes)).collect()
}

/// Reads ranges up to the file's end, each byte once however the ranges overlap.
fn read(
    file: &File,
    data: &mut [u8],
    mut ranges: Vec<Range<u64>>,
    room: &mut Room,
) -> io::Result<()> {
    ranges.sort_by_key(|range| range.start);
    let mut done = 0;
    for range in ranges {
        let start = range.start.max(done);
        let end = range.end.min(data.len() as u64);
        if start < end {
            room.take(end - start)?;
            // The end is within the data, whose length is a usize.
            file.read_exact_at(&mut data[start as usize..end as usize], start)?;
            done = end;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{build_id, debug_link, has_symbol_table, names};
    use super::*;
    use opcost_sys::budget::LIMIT_BYTES;
    use std::fs;

    /// Asserts that an excerpt gives every answer that the whole file gives.
    fn assert_says_the_same(path: &Path) {
        let whole = fs::read(path).unwrap();
        let part = excerpt(path, &[], LIMIT_BYTES).unwrap();
        assert_eq!(part.len(), whole.len());
        assert_eq!(build_id(&part), build_id(&whole));
        assert_eq!(has_symbol_table(&part), has_symbol_table(&whole));
        assert_eq!(debug_link(&part), debug_link(&whole));
        let offsets: Vec<u64> = (0..whole.len() as u64).step_by(61).collect();
        let names = |file: Readable<'_>| names(file, None, &offsets, &Default::default());
        assert_eq!(names((&part).into()), names((&whole).into()));
    }

    #[test]
    fn an_excerpt_names_what_the_file_names() {
        let recorded =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../opcost-profile/tests/data/busy");
        for path in [&recorded, Path::new("/proc/self/exe"), Path::new("/bin/sh")] {
            assert_says_the_same(path);
        }
        let bytes = fs::read(&recorded).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut");
        for kept in [0, 3, 40, 64, 100, 1000, bytes.len() / 2, bytes.len() - 1] {
            fs::write(&path, &bytes[..kept]).unwrap();
            assert_says_the_same(&path);
        }
        fs::write(
            &path,
            "#!/bin/sh\necho no program, but longer than a header of sixty-four bytes",
        )
        .unwrap();
        assert_says_the_same(&path);
    }

    #[test]
    fn any_byte_of_the_headers_may_be_wrong() {
        let whole = fs::read(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../opcost-profile/tests/data/busy"),
        )
        .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wrong");
        for at in 0..64 {
            for wrong in [0, 1, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = wrong;
                fs::write(&path, &bytes).unwrap();
                assert_says_the_same(&path);
            }
        }
    }

    #[test]
    fn code_is_left_out_and_wanted_debug_information_is_not() {
        let exe = Path::new("/proc/self/exe");
        let whole = fs::read(exe).unwrap();
        let at = |id: SectionId| {
            let image = Image::parse(&whole).unwrap();
            let (_, section) = image.sections.section_by_name(LE, id.name().as_bytes())?;
            let (start, bytes) = section.file_range(LE)?;
            Some(start as usize..(start + bytes) as usize)
        };
        let code = Image::parse(&whole).unwrap().sections.section_by_name(LE, b".text").unwrap().1;
        let start = code.sh_offset(LE) as usize;
        let Some(lines) = at(SectionId::DebugLine) else {
            crate::skip::skip!("the test itself was built without debug information");
            return;
        };
        let (without, with) = (
            excerpt(exe, &[], LIMIT_BYTES).unwrap(),
            excerpt(exe, &[SectionId::DebugLine], LIMIT_BYTES).unwrap(),
        );
        assert!(with[start..start + 64].iter().all(|byte| *byte == 0));
        assert!(without[lines.clone()].iter().all(|byte| *byte == 0));
        assert_eq!(with[lines.clone()], whole[lines]);
    }

    #[test]
    fn what_gaps_need_is_read_when_they_are_met() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../opcost-profile/tests/data/busy");
        let (whole, part) = (fs::read(&path).unwrap(), excerpt(&path, &[], LIMIT_BYTES).unwrap());
        let image = Image::parse(&whole).unwrap();
        let range = |name: &[u8]| {
            let (start, bytes) =
                image.sections.section_by_name(LE, name).unwrap().1.file_range(LE).unwrap();
            start as usize..(start + bytes) as usize
        };
        for (name, later) in [(&b".eh_frame"[..], part.unwind()), (b".rela.plt", part.linkage())] {
            let section = range(name);
            assert!(part[section.clone()].iter().all(|byte| *byte == 0));
            assert_eq!(later.unwrap()[section.clone()], whole[section]);
        }
        // The unwind information comes without the symbols, which were read before.
        assert!(part.unwind().unwrap()[range(b".symtab")].iter().all(|byte| *byte == 0));
    }
}
