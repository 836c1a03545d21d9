//! Reads an ELF file: its sections, and its symbols by section.

use super::cover::{Owned, Placed, cover};
use super::error::ContentsError;
use super::inventory::{Inventory, Names, SectionSize, SymbolSize};
use super::totals::Class;
use object::read::elf::{FileHeader, SectionHeader};
use object::{
    Architecture, Endianness, File, Object, ObjectSection, ObjectSymbol, Section, SectionFlags,
    SectionIndex, SymbolFlags, SymbolKind, elf,
};
use opcost_symbols::demangle::printable;
use opcost_symbols::elf::{Excerpt, is_elf};
use std::collections::HashMap;

/// More bytes and more sections than any file has; the sum of all sizes still fits into 64 bits.
const SECTION_BYTES_MAX: u64 = 1 << 40;
const SECTIONS_MAX: usize = 1 << 22;

/// Reads an ELF file whose headers were checked.
pub(super) fn parse(bytes: &[u8]) -> Result<File<'_>, ContentsError> {
    if !is_elf(bytes) {
        // The marks of a bzImage and of an Image (Linux, Documentation/arch/x86/boot.rst, Documentation/arch/arm64/booting.rst).
        let has =
            |at: usize, mark: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(mark));
        if has(0x202, b"HdrS") || has(0x38, b"ARM\x64") {
            return Err(ContentsError::KernelImage);
        }
        return Err(ContentsError::Foreign);
    }
    match bytes.get(4) {
        Some(class) if *class == elf::ELFCLASS32.0 => {
            check::<elf::FileHeader32<Endianness>>(bytes)?
        }
        _ => check::<elf::FileHeader64<Endianness>>(bytes)?,
    }
    Ok(File::parse(bytes)?)
}

/// Checks that the file is as long as its headers need.
fn check<H: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Result<(), ContentsError> {
    let has_bytes = bytes.len() as u64;
    let within = |needs_bytes: u64| match needs_bytes {
        needs if needs <= has_bytes => Ok(()),
        needs_bytes => Err(ContentsError::Truncated { needs_bytes, has_bytes }),
    };
    within(size_of::<H>() as u64)?;
    let header = H::parse(bytes)?;
    let endian = header.endian()?;
    let kind = header.e_type(endian);
    if ![elf::ET_EXEC, elf::ET_DYN, elf::ET_REL].contains(&kind) {
        return Err(ContentsError::Kind { kind: kind.0 });
    }
    let table: u64 = header.e_shoff(endian).into();
    if table == 0 {
        return Err(ContentsError::NoSections);
    }
    let entries = u64::from(header.e_shnum(endian)) * u64::from(header.e_shentsize(endian));
    within(table.saturating_add(entries))?;
    for section in header.sections(endian, bytes)?.iter() {
        if let Some((start, size)) = section.file_range(endian) {
            within(start.saturating_add(size))?;
        }
    }
    Ok(())
}

/// Takes the inventory of an ELF file; `member`: the file's name in an archive; `debug`: the debug file split off from it.
pub(super) fn read<'d>(
    bytes: &'d [u8],
    member: Option<&'d [u8]>,
    debug: Option<&'d Excerpt>,
) -> Result<Inventory<'d>, ContentsError> {
    let file = parse(bytes)?;
    let mut inventory = Inventory { machine: machine(&file, bytes), ..Inventory::default() };
    let mut places: HashMap<usize, SectionFacts> = HashMap::new();
    let mut by_name: HashMap<(String, Class), usize> = HashMap::new();
    let tls_address = tls_address(&file);
    for (section, class) in sections(&file)? {
        let size = section.size();
        let name = String::from_utf8_lossy(section.name_bytes()?).into_owned();
        let fresh = inventory.sections.len();
        let index = *by_name.entry((name.clone(), class)).or_insert(fresh);
        if index == fresh {
            inventory.sections.push(SectionSize { name, class, bytes: 0, unnamed_bytes: 0 });
        }
        inventory.sections[index].bytes += size;
        inventory.sections[index].unnamed_bytes += size;
        let code = is_code(&section);
        let loaded = class != Class::NotLoaded;
        places.insert(
            section.index().0,
            SectionFacts { index, address: section.address(), size, code, loaded },
        );
    }
    let debug = debug.filter(|_| file.symbol_table().is_none()).and_then(|debug| {
        let object = File::parse(&**debug).ok()?;
        object.symbol_table().is_some().then_some((object, debug))
    });
    let (placed, names, cut) = match &debug {
        Some((with_symbols, debug)) => {
            let path = printable(&debug.path().to_string_lossy());
            inventory.notes.push(format!("its symbols are in {path}"));
            symbols(with_symbols, &same_sections(&file, with_symbols), &places, tls_address)
        }
        None => {
            let own = file.sections().map(|section| (section.index().0, section.index().0));
            symbols(&file, &own.collect(), &places, tls_address)
        }
    };
    inventory.names = names;
    for Owned { symbols, bytes, estimated, section } in
        cover(&placed, |section| places[&section].size)
    {
        let SectionFacts { index, code, .. } = places[&section];
        let [shown, rest @ ..] = symbols.as_slice() else { continue };
        inventory.sections[index].unnamed_bytes -= bytes;
        inventory.symbols.push(SymbolSize {
            name: shown.name,
            aliases: rest.iter().map(|symbol| symbol.name).collect(),
            file: shown.file,
            member,
            local: shown.local,
            code,
            section: index,
            place: (section, shown.start),
            bytes,
            estimated,
        });
    }
    if cut > 0 {
        inventory.notes.push(format!(
            "{cut} symbols reach beyond their sections; only what is inside is counted"
        ));
    }
    Ok(inventory)
}

/// Returns the sections that count, with their class.
pub(super) fn sections<'d, 'f>(
    file: &'f File<'d>,
) -> Result<Vec<(Section<'d, 'f>, Class)>, ContentsError> {
    let mut sections = Vec::new();
    for section in file.sections() {
        let SectionFlags::Elf { sh_type, sh_flags } = section.flags() else { continue };
        let size = section.size();
        // Sections for the linker alone are not part of the program (bfd/elf.c makes none of them).
        if size == 0 || is_bookkeeping(sh_type, sh_flags) {
            continue;
        }
        if size > SECTION_BYTES_MAX {
            let what = format!("a section of {size} bytes");
            return Err(ContentsError::Malformed { what });
        }
        sections.push((section, Class::of(sh_type, sh_flags)));
    }
    // A file can name so many sections of the largest size that their sum would not fit.
    if sections.len() > SECTIONS_MAX {
        let what = format!("{} sections", sections.len());
        return Err(ContentsError::Malformed { what });
    }
    Ok(sections)
}

/// Whether a section has code.
pub(super) fn is_code(section: &Section<'_, '_>) -> bool {
    has_flag(section, elf::SHF_EXECINSTR)
}

/// Whether a section has a flag.
pub(super) fn has_flag(section: &Section<'_, '_>, flag: elf::SectionFlags) -> bool {
    matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(flag))
}

/// The facts about a section that its symbols need.
#[derive(Clone, Copy)]
struct SectionFacts {
    /// The section's index in the inventory.
    index: usize,
    address: u64,
    size: u64,
    code: bool,
    loaded: bool,
}

/// The sections of a file by the numbers that they have in its debug file.
fn same_sections(file: &File<'_>, debug: &File<'_>) -> HashMap<usize, usize> {
    let key = |section: &Section<'_, '_>| {
        let name = section.name_bytes().map(<[u8]>::to_vec).unwrap_or_default();
        (name, section.address(), section.size())
    };
    let own: HashMap<_, _> = file.sections().map(|one| (key(&one), one.index().0)).collect();
    let found = debug.sections().filter_map(|one| Some((one.index().0, *own.get(&key(&one))?)));
    found.collect()
}

/// Returns the symbols in sections, the kind of table, and the number that leave their section.
///
/// `numbers`: the sections of the measured file by those of `file`, which has the symbols.
fn symbols<'d>(
    file: &File<'d>,
    numbers: &HashMap<usize, usize>,
    places: &HashMap<usize, SectionFacts>,
    tls_address: u64,
) -> (Vec<Placed<'d>>, Names, usize) {
    let relative = file.kind() == object::ObjectKind::Relocatable;
    // An odd address means that the code is Thumb (ELF for the ARM architecture, 5.5.3).
    let thumb = file.architecture() == Architecture::Arm;
    let mut placed = Vec::new();
    let (mut source, mut cut) = (None, 0);
    let full = file.symbol_table().is_some();
    let table: Box<dyn Iterator<Item = object::Symbol<'d, '_>>> =
        if full { Box::new(file.symbols()) } else { Box::new(file.dynamic_symbols()) };
    for symbol in table {
        let kind = symbol.kind();
        if kind == SymbolKind::File {
            source = symbol.name_bytes().ok().filter(|name| !name.is_empty());
            continue;
        }
        let number = symbol.section_index().and_then(|SectionIndex(index)| numbers.get(&index));
        let Some(&section) = number else { continue };
        let Some(place) = places.get(&section).filter(|place| place.loaded) else { continue };
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
        let Ok(name) = symbol.name_bytes() else { continue };
        if name.is_empty() || kind == SymbolKind::Section {
            continue;
        }
        let base = match kind {
            _ if relative => 0,
            SymbolKind::Tls => place.address.wrapping_sub(tls_address),
            _ => place.address,
        };
        let mut start = symbol.address().wrapping_sub(base);
        if thumb && kind == SymbolKind::Text {
            start &= !1;
        }
        let size = symbol.size();
        if start >= place.size {
            cut += usize::from(size > 0);
            continue;
        }
        let end = start.saturating_add(size).min(place.size);
        cut += usize::from(size > place.size - start);
        let local = symbol.is_local();
        let typed = st_info.st_type() != elf::STT_NOTYPE;
        // A place in code without a size is a function if it has a type or others can see it.
        let label = place.code && (typed && kind == SymbolKind::Text || !typed && !local);
        if end > start || label || typed {
            let file = source.filter(|_| local);
            placed.push(Placed { section, start, end, name, file, local, typed, label });
        }
    }
    let names = match (full, placed.is_empty()) {
        (true, _) => Names::Full,
        (false, false) => Names::Exported,
        (false, true) => Names::None,
    };
    (placed, names, cut)
}

/// Returns the start of the thread-local template, symbols' origin (ELF for TLS, section 3).
fn tls_address(file: &File<'_>) -> u64 {
    let sections = file.sections().filter(|section| has_flag(section, elf::SHF_TLS));
    sections.map(|section| section.address()).min().unwrap_or(0)
}

/// Whether a section only tells the linker how to read other sections.
fn is_bookkeeping(sh_type: elf::SectionType, sh_flags: elf::SectionFlags) -> bool {
    let tables = [
        elf::SHT_NULL,
        elf::SHT_SYMTAB,
        elf::SHT_STRTAB,
        elf::SHT_RELA,
        elf::SHT_REL,
        elf::SHT_SYMTAB_SHNDX,
        elf::SHT_GROUP,
    ];
    tables.contains(&sh_type) && !sh_flags.contains(elf::SHF_ALLOC)
}

/// Returns the common name of the machine of a file's code.
fn machine(file: &File<'_>, bytes: &[u8]) -> String {
    let name = match file.architecture() {
        Architecture::X86_64 => "x86-64".to_owned(),
        Architecture::I386 => "i386".to_owned(),
        Architecture::Aarch64 => "AArch64".to_owned(),
        Architecture::Unknown => {
            // e_machine is at the same place in both classes.
            let number = bytes.get(18..20).map_or([0; 2], |bytes| [bytes[0], bytes[1]]);
            let big = file.endianness() == Endianness::Big;
            let number = if big { u16::from_be_bytes(number) } else { u16::from_le_bytes(number) };
            format!("ELF machine {number}")
        }
        other => format!("{other:?}"),
    };
    let bits = if file.is_64() { 64 } else { 32 };
    match file.endianness() {
        Endianness::Little => format!("{name} ({bits}-bit)"),
        Endianness::Big => format!("{name} ({bits}-bit, big-endian)"),
    }
}
