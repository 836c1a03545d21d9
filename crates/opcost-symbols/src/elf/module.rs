//! Lays a module of the kernel out in memory. Its file is an object file: its sections have no addresses, and the places that refer
//! to one another are filled when the kernel loads it (System V ABI, "Relocation").

use super::image::{ElfError, Header, Image, LE, Section, malformed};
use object::elf::{self, RelocationType, SymbolInfo};
use object::read::elf::{FileHeader, Rela, SectionHeader, Sym};

/// The address of the first section.
const BASE: u64 = 0x1_0000;
/// The greatest alignment of a section that is kept.
const ALIGN_MAX: u64 = 1 << 21;
/// The bytes that each function of the kernel or of another module gets behind the module, so that calls of it have its name.
const OUTSIDE_BYTES: u64 = 16;
/// Where fields stand in the structures of ELF files.
const SHDR_ADDRESS: usize = 16;
const SYM_INFO: usize = 4;
const SYM_SECTION: usize = 6;
const SYM_VALUE: usize = 8;
const EHDR_TYPE: usize = 16;
const EHDR_PHOFF: usize = 32;
const EHDR_PHENTSIZE: usize = 54;
const PHDR_BYTES: u16 = 56;

/// Returns a module as a program: each section has an address, and references lead to them.
///
/// `file`: the contents of the module's file. Another kind of file is returned as it is.
///
/// # Errors
/// [`ElfError`]: no ELF file, for another machine, cut short, or it contradicts itself.
pub fn linked(file: Vec<u8>) -> Result<Vec<u8>, ElfError> {
    let header = Image::header(&file)?;
    if header.e_type(LE) != elf::ET_REL {
        return Ok(file);
    }
    let header = Header::parse(&*file).map_err(malformed)?;
    let sections = header.sections(LE, &*file).map_err(malformed)?;
    let broken = || ElfError::Malformed { what: "a module's sections do not fit".into() };
    let mut next = BASE;
    let mut addresses = vec![0; sections.len()];
    for (section, address) in sections.iter().zip(&mut addresses) {
        if section.sh_flags(LE).contains(elf::SHF_ALLOC) {
            let align = section.sh_addralign(LE).clamp(1, ALIGN_MAX);
            *address = next.checked_next_multiple_of(align).ok_or_else(broken)?;
            next = address.checked_add(section.sh_size(LE)).ok_or_else(broken)?;
        }
    }
    let is_code = |section: &&Section| {
        section.sh_flags(LE).contains(elf::SHF_ALLOC | elf::SHF_EXECINSTR)
            && section.sh_type(LE) == elf::SHT_PROGBITS
            && section.sh_size(LE) > 0
    };
    let code_at = sections.iter().position(|section| is_code(&section));
    let mut out = Written(file.clone());
    let place = |section: usize| {
        header.e_shoff(LE) as usize + section * usize::from(header.e_shentsize(LE))
    };
    for (at, address) in addresses.iter().enumerate().filter(|(_, address)| **address > 0) {
        out.put(place(at) + SHDR_ADDRESS, &address.to_le_bytes());
    }
    let mut values = Vec::new();
    let table = sections.symbols(LE, &*file, elf::SHT_SYMTAB).map_err(malformed)?;
    let table_at = sections.section(table.section()).map_or(0, |table| table.sh_offset(LE));
    for (at, symbol) in table.iter().enumerate() {
        let place = table_at as usize + at * size_of_val(symbol);
        let section = symbol.st_shndx(LE);
        let mut value = symbol.st_value(LE);
        if section == elf::SHN_UNDEF && symbol.st_name(LE) != 0 {
            value = next;
            next = next.saturating_add(OUTSIDE_BYTES);
            if let Some(code) = code_at.and_then(|code| u16::try_from(code).ok()) {
                let info = SymbolInfo::new(elf::STB_GLOBAL, elf::STT_FUNC);
                out.put(place + SYM_INFO, &[info.0]);
                out.put(place + SYM_SECTION, &code.to_le_bytes());
            }
        } else if let Some(address) = addresses.get(usize::from(section.0)) {
            value = value.wrapping_add(*address);
        }
        out.put(place + SYM_VALUE, &value.to_le_bytes());
        values.push(value);
    }
    let is_x86 = header.e_machine(LE) == elf::EM_X86_64;
    for section in sections.iter() {
        let Some((relocations, _)) = section.rela(LE, &*file).map_err(malformed)? else { continue };
        let at = section.sh_info(LE) as usize;
        let Some(target) = sections.iter().nth(at) else { continue };
        let is_packed = target.sh_flags(LE).contains(elf::SHF_COMPRESSED);
        if is_packed || target.sh_type(LE) == elf::SHT_NOBITS {
            continue;
        }
        for relocation in relocations {
            let offset = relocation.r_offset(LE);
            let symbol = relocation.r_sym(LE, false) as usize;
            let value = values.get(symbol).copied().unwrap_or(0);
            let value = value.wrapping_add_signed(relocation.r_addend(LE));
            let distance = value.wrapping_sub(addresses[at].wrapping_add(offset));
            let Some(place) = target.sh_offset(LE).checked_add(offset) else { continue };
            let kind = relocation.r_type(LE, false);
            if offset < target.sh_size(LE) {
                out.fill(place as usize, is_x86, kind, value, distance);
            }
        }
    }
    let mut program = Vec::new();
    for (section, address) in sections.iter().zip(&addresses).filter(|(one, _)| is_code(one)) {
        let (offset, bytes) = (section.sh_offset(LE), section.sh_size(LE));
        program.extend(elf::PT_LOAD.0.to_le_bytes());
        program.extend((elf::PF_R | elf::PF_X).0.to_le_bytes());
        for word in [offset, *address, *address, bytes, bytes, 1] {
            program.extend(word.to_le_bytes());
        }
    }
    let segments = (program.len() / usize::from(PHDR_BYTES)) as u16;
    out.0.resize(out.0.len().next_multiple_of(8), 0);
    let program_at = out.0.len() as u64;
    out.0.extend(program);
    out.put(EHDR_TYPE, &elf::ET_DYN.0.to_le_bytes());
    out.put(EHDR_PHOFF, &program_at.to_le_bytes());
    out.put(EHDR_PHENTSIZE, &PHDR_BYTES.to_le_bytes());
    out.put(EHDR_PHENTSIZE + 2, &segments.to_le_bytes());
    Ok(out.0)
}

/// Bytes that are written to; what lies behind the last one is left out.
struct Written(Vec<u8>);

impl Written {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at.checked_add(bytes.len());
        if let Some(place) = end.and_then(|end| self.0.get_mut(at..end)) {
            place.copy_from_slice(bytes);
        }
    }

    /// Fills a place that refers to a symbol.
    ///
    /// `value`: the symbol's address with what is added; `distance`: from the place to there. References of other kinds stay as
    /// they are.
    fn fill(&mut self, at: usize, is_x86: bool, kind: RelocationType, value: u64, distance: u64) {
        let short = |value: u64| (value as u32).to_le_bytes();
        match (is_x86, kind) {
            (true, elf::R_X86_64_64) | (false, elf::R_AARCH64_ABS64) => {
                self.put(at, &value.to_le_bytes());
            }
            (true, elf::R_X86_64_PC64) | (false, elf::R_AARCH64_PREL64) => {
                self.put(at, &distance.to_le_bytes());
            }
            (true, elf::R_X86_64_32 | elf::R_X86_64_32S) | (false, elf::R_AARCH64_ABS32) => {
                self.put(at, &short(value));
            }
            (true, elf::R_X86_64_PC32 | elf::R_X86_64_PLT32) | (false, elf::R_AARCH64_PREL32) => {
                self.put(at, &short(distance));
            }
            (false, elf::R_AARCH64_CALL26 | elf::R_AARCH64_JUMP26) => {
                let Some(word) = self.0.get(at..).and_then(|rest| rest.first_chunk()) else {
                    return;
                };
                let branch = u32::from_le_bytes(*word) & 0xfc00_0000;
                self.put(at, &(branch | (distance >> 2) as u32 & 0x03ff_ffff).to_le_bytes());
            }
            _ => {}
        }
    }
}
