//! Names single places of a file; of millions of symbols, only those at the places are shown.

use super::excerpt::Readable;
use super::image::{Code, ElfError, Image, LE, malformed, offsets};
use super::source::Sources;
use super::{Name, go_table, linkage, table, unwind};
use crate::keyed::{KeyedMap, KeyedSet};
use crate::span::Span;
use object::elf;
use object::read::elf::{SectionHeader, Sym};
use object::{LittleEndian, SectionIndex};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A function at a byte of code.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Named {
    /// The function's symbol, or a name in brackets if it has none.
    pub symbol: String,
    /// Tells functions of the same name apart, as in [`Function`](opcost_record::Function).
    pub source: Option<String>,
    /// The function's mangled name, as in [`Function`](opcost_record::Function).
    pub mangled: Option<Box<str>>,
    /// The function's length in bytes, if known.
    pub bytes: Option<u64>,
    /// The offset in the file where the function begins, if known.
    pub start: Option<u64>,
}

/// The functions at places of a file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Lookup<'n> {
    /// The functions; neighbouring places may have the same.
    pub functions: Vec<Named>,
    /// The index of each place's function; `None` for a place outside the executable segments.
    pub places: Vec<Option<u32>>,
    /// For each symbol asked for, the sources that tell its functions apart.
    pub sources: KeyedMap<&'n [u8], Vec<Option<String>>>,
}

/// Finds the functions at `offsets` of a file, the same functions as [`read`](super::read).
///
/// `file`: the file's contents, or as much of them as is needed; `debug`: the contents of the debug
/// file split off from it; `offsets`: ascending, so that each name is shown once; `symbols`: symbols
/// whose sources are wanted.
///
/// # Errors
/// [`ElfError`], as [`read`](super::read).
pub fn names<'n, 'd>(
    file: impl Into<Readable<'d>>,
    debug: Option<&'d [u8]>,
    offsets: &[u64],
    symbols: &KeyedSet<&'n [u8]>,
) -> Result<Lookup<'n>, ElfError> {
    let file = file.into();
    let image = Image::parse(file.symbols())?;
    let code = image.code()?;
    let debug = debug.map(Image::parse).transpose()?;
    let table = table::Functions::read(&image, debug.as_ref(), &code)?;
    let mut found = table.at(offsets);
    // These parts of the file are read only if symbols leave gaps.
    if found.contains(&None) {
        let image = Image::parse(file.linkage()?)?;
        fill(&mut found, offsets, &go_table::functions(&image, &code));
        if found.contains(&None) {
            fill(&mut found, offsets, &linkage::entries(&image, &code)?);
        }
    }
    if found.contains(&None) {
        let image = Image::parse(file.unwind()?)?;
        fill(&mut found, offsets, &unwind::functions(&image, &code));
    }
    let is_code = |offset: &u64| code.iter().any(|piece| (piece.start..piece.end).contains(offset));
    let bearers = |is_wanted: &dyn Fn(&[u8]) -> bool| table.bearers(is_wanted);
    let sources = Sources { bearers: &bearers, files: &table.files, code: &code };
    let mut lookup = Lookup { sources: sources.of_symbols(symbols), ..Lookup::default() };
    let mut names: Vec<Name> = Vec::new();
    let mut last = None;
    for (offset, found) in offsets.iter().zip(found) {
        let known = found.is_some() || is_code(offset);
        if known && last != Some(found) {
            let bytes = found.map(|span| span.end - span.start);
            let start = found.map(|span| span.start);
            let (symbol, mangled) = (String::new(), None);
            lookup.functions.push(Named { symbol, source: None, mangled, bytes, start });
            names.push(found.map_or(Name::Text, |span| span.name));
            last = Some(found);
        }
        // Functions number no more than places, which are counted in 32 bits.
        lookup.places.push(known.then(|| lookup.functions.len() as u32 - 1));
    }
    let shown = sources.shown(&names);
    for ((named, name), (symbol, source)) in lookup.functions.iter_mut().zip(&names).zip(shown) {
        named.mangled = name.mangled(&symbol);
        (named.symbol, named.source) = (symbol, source);
    }
    Ok(lookup)
}

/// Gives places without a name the names of `spans`.
fn fill<'d>(found: &mut [Option<Span<Name<'d>>>], offsets: &[u64], spans: &[Span<Name<'d>>]) {
    for (found, offset) in found.iter_mut().zip(offsets).filter(|(found, _)| found.is_none()) {
        let at = spans.partition_point(|span| span.end <= *offset);
        *found = spans.get(at).filter(|span| span.start <= *offset).copied();
    }
}

/// The addresses of a file's code before it is moved, as in debug information.
#[derive(Clone, Debug)]
pub struct CodeAt {
    code: Vec<Code>,
    /// The address of the file's start in memory.
    base: u64,
}

impl CodeAt {
    /// Reads the addresses of the file's code.
    ///
    /// # Errors
    /// [`ElfError`], as [`read`](super::read).
    pub fn read(file: &[u8]) -> Result<CodeAt, ElfError> {
        let image = Image::parse(file)?;
        Ok(CodeAt { code: image.code()?, base: image.base()? })
    }

    /// Returns the virtual address of a file offset, if code is there.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let piece = self.code.iter().find(|piece| (piece.start..piece.end).contains(&offset))?;
        piece.address.checked_add(offset - piece.start)
    }

    /// Returns the file offset of a virtual address, if code is there.
    pub fn offset(&self, address: u64) -> Option<u64> {
        offsets(&self.code, address, 1).map(|(offset, _)| offset)
    }

    /// Returns the virtual address of a place that counts from the file's start in memory, if code is there.
    pub fn in_memory(&self, place: u64) -> Option<u64> {
        let address = self.base.checked_add(place)?;
        self.offset(address).map(|_| address)
    }
}

/// Returns the file offsets of addresses that count from the file's start in memory; `None` where no
/// code is.
///
/// # Errors
/// [`ElfError`], as [`read`](super::read).
pub fn offsets_of(file: &[u8], addresses: &[u64]) -> Result<Vec<Option<u64>>, ElfError> {
    let image = Image::parse(file)?;
    let (code, base) = (image.code()?, image.base()?);
    let offset = |address: &u64| {
        let (offset, _) = offsets(&code, base.checked_add(*address)?, 1)?;
        Some(offset)
    };
    Ok(addresses.iter().map(offset).collect())
}

/// Returns the address of a symbol as linked, if a file has one of that name alone.
pub fn address_of(file: &[u8], symbol: &str) -> Option<u64> {
    let image = Image::parse(file).ok()?;
    let table = image.sections.symbols(LE, image.data, elf::SHT_SYMTAB).ok()?;
    let bears = |one: &&elf::Sym64<LittleEndian>| {
        one.st_shndx(LE) != elf::SHN_UNDEF
            && table.symbol_name(LE, one).is_ok_and(|name| name == symbol.as_bytes())
    };
    let mut found = table.iter().filter(bears).map(|one| one.st_value(LE));
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// Lists the symbols of a kernel's code as `System.map` does: a line `address type name` each.
///
/// # Errors
/// [`ElfError`], as [`read`](super::read).
pub fn function_list(file: &[u8]) -> Result<String, ElfError> {
    let image = Image::parse(file)?;
    let table = image.sections.symbols(LE, image.data, elf::SHT_SYMTAB).map_err(malformed)?;
    let mut list = String::new();
    for symbol in table.iter() {
        let section = SectionIndex(usize::from(symbol.st_shndx(LE).0));
        let section = image.sections.section(section);
        let name = table.symbol_name(LE, symbol).ok().and_then(|name| str::from_utf8(name).ok());
        let is_word = |name: &&str| !name.is_empty() && !name.contains(char::is_whitespace);
        if section.is_ok_and(|section| section.sh_flags(LE).contains(elf::SHF_EXECINSTR))
            && let Some(name) = name.filter(is_word)
        {
            let kind = if symbol.st_bind() == elf::STB_LOCAL { 't' } else { 'T' };
            list.push_str(&format!("{:016x} {kind} {name}\n", symbol.st_value(LE)));
        }
    }
    Ok(list)
}

/// Returns the name and the checksum of the debug file that a file refers to (`.gnu_debuglink`).
///
/// # Errors
/// [`ElfError`], as [`read`](super::read).
pub fn debug_link(file: &[u8]) -> Result<Option<(OsString, u32)>, ElfError> {
    let image = Image::parse(file)?;
    let Some((_, section)) = image.sections.section_by_name(LE, b".gnu_debuglink") else {
        return Ok(None);
    };
    let Ok(data) = section.data(LE, image.data) else { return Ok(None) };
    // The name with its zero is filled up to four bytes; the debug file's checksum follows.
    let Some(bytes) = data.iter().position(|byte| *byte == 0) else { return Ok(None) };
    let name = PathBuf::from(OsString::from_vec(data[..bytes].to_vec()));
    let at = bytes / 4 * 4 + 4;
    let checksum =
        data.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
    Ok(name.file_name().map(OsString::from).zip(checksum))
}

/// The sections that name further files with debug information.
pub(super) const LINKS: [&[u8]; 3] = [b".gnu_debuglink", b".gnu_debugaltlink", b".debug_sup"];

/// Returns the name and the build id of the supplement that a file's debug information refers to, as dwz
/// makes it (`.gnu_debugaltlink`; DWARF 5, 7.3.6: `.debug_sup`); `None` if the file refers to none.
pub fn supplement_link(file: &[u8]) -> Option<(&[u8], &[u8])> {
    let image = Image::parse(file).ok()?;
    let section = |name| {
        let (_, section) = image.sections.section_by_name(LE, name)?;
        section.data(LE, image.data).ok()
    };
    match section(b".gnu_debugaltlink") {
        Some(data) => name_and_rest(data),
        None => supplement(section(b".debug_sup")?, 0),
    }
}

/// Returns the name and the checksum that `.debug_sup` has; `is_supplement`: 1 in the supplement itself, else 0.
pub fn supplement(section: &[u8], is_supplement: u8) -> Option<(&[u8], &[u8])> {
    let (name, rest) = name_and_rest(section.strip_prefix(&[5, 0, is_supplement])?)?;
    let (bytes, checksum) = rest.split_first()?;
    Some((name, checksum.get(..usize::from(*bytes))?))
}

/// Splits a text that ends with zero from what follows.
fn name_and_rest(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let bytes = data.iter().position(|byte| *byte == 0)?;
    Some((&data[..bytes], &data[bytes + 1..]))
}
