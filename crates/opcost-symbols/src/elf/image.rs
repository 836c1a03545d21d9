//! Reads the headers of an ELF file, and checks them before anything relies on them.

use super::is_elf;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable};
use object::{LittleEndian, ReadRef, SectionIndex};

pub(super) type Header = FileHeader64<LittleEndian>;
pub(super) type Section = elf::SectionHeader64<LittleEndian>;
pub(super) const LE: LittleEndian = LittleEndian;

/// Why the functions of a file cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ElfError {
    /// The file does not start like an ELF file.
    #[error("it is not an ELF file; name the program itself rather than a script that starts it")]
    NotElf,
    /// The file is for another machine.
    #[error("it is for another machine ({found}); it must be for 64-bit x86 or ARM")]
    Machine {
        /// The file's class, byte order and machine number.
        found: String,
    },
    /// The file is an object file or a core dump.
    #[error("it is no program and no shared library (ELF type {kind}); link it first")]
    Kind {
        /// The file's `e_type`.
        kind: u16,
    },
    /// The file ends before the parts that its headers name.
    #[error(
        "it was cut short: its headers need {needs_bytes} bytes, it has {has_bytes}; copy it again"
    )]
    Truncated {
        /// The size that the headers need.
        needs_bytes: u64,
        /// The file's size.
        has_bytes: u64,
    },
    /// A part of the file that was to be read later is not there.
    #[error("the rest of it cannot be read ({what}); it may have changed meanwhile")]
    Unread {
        /// The system's error.
        what: String,
    },
    /// The headers contradict themselves.
    #[error("its ELF headers are broken ({what}); build or copy it again")]
    Malformed {
        /// The reader's error.
        what: String,
    },
}

pub(super) fn malformed(what: object::read::Error) -> ElfError {
    ElfError::Malformed { what: what.to_string() }
}

/// A piece of code, in the file and in memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Code {
    /// The first file offset, bytes.
    pub(super) start: u64,
    /// The file offset behind the last byte.
    pub(super) end: u64,
    /// The virtual address of the first byte.
    pub(super) address: u64,
}

impl Code {
    /// Clips a range of addresses to this piece, as file offsets; `None` if they do not meet.
    pub(super) fn offsets(&self, address: u64, bytes: u64) -> Option<(u64, u64)> {
        let behind = self.address.checked_add(self.end - self.start)?;
        let from = address.max(self.address);
        let to = address.saturating_add(bytes).min(behind);
        let offset = |address: u64| self.start + (address - self.address);
        (from < to).then(|| (offset(from), offset(to)))
    }
}

/// Returns the range of `bytes` bytes of code from a virtual address on, as file offsets.
pub(super) fn offsets(code: &[Code], address: u64, bytes: u64) -> Option<(u64, u64)> {
    code.iter().find_map(|piece| piece.offsets(address, bytes))
}

/// Checks that a file is as long as its headers need.
fn within(data: &[u8], needs_bytes: u64) -> Result<(), ElfError> {
    let has_bytes = data.len() as u64;
    if needs_bytes > has_bytes {
        return Err(ElfError::Truncated { needs_bytes, has_bytes });
    }
    Ok(())
}

/// A file whose headers were read.
pub(super) struct Image<'d> {
    pub(super) data: &'d [u8],
    header: &'d Header,
    pub(super) sections: SectionTable<'d, Header>,
}

impl<'d> Image<'d> {
    /// Whether the code is x86's.
    pub(super) fn is_x86(&self) -> bool {
        self.header.e_machine(LE) == elf::EM_X86_64
    }

    /// The address at which the program begins.
    pub(super) fn entry(&self) -> u64 {
        self.header.e_entry(LE)
    }

    /// Reads the header of a file for a machine that opcost knows, without the parts that the header leads to.
    pub(super) fn header(data: &'d [u8]) -> Result<&'d Header, ElfError> {
        if !is_elf(data) {
            return Err(ElfError::NotElf);
        }
        within(data, size_of::<Header>() as u64)?;
        let header: &Header = data.read_at(0).map_err(|()| ElfError::NotElf)?;
        let is_known = [elf::EM_X86_64, elf::EM_AARCH64].contains(&header.e_machine(LE));
        if !(header.is_class_64() && header.is_little_endian() && is_known) {
            let bits = if header.is_class_64() { 64 } else { 32 };
            let order = if header.is_big_endian() { "big-endian" } else { "little-endian" };
            // Both classes have the field at this place, but in the file's own byte order.
            let machine = [data[18], data[19]];
            let number = if header.is_big_endian() {
                u16::from_be_bytes(machine)
            } else {
                u16::from_le_bytes(machine)
            };
            let found = format!("{bits}-bit, {order}, ELF machine {number}");
            return Err(ElfError::Machine { found });
        }
        Ok(header)
    }

    /// Reads the headers of a program, a shared library, or a debug file of either.
    pub(super) fn parse(data: &'d [u8]) -> Result<Self, ElfError> {
        let header = Image::header(data)?;
        let kind = header.e_type(LE);
        if kind != elf::ET_EXEC && kind != elf::ET_DYN {
            return Err(ElfError::Kind { kind: kind.0 });
        }
        let ends = |offset: u64, count: u16, size: u16| {
            offset.saturating_add(u64::from(count) * u64::from(size))
        };
        within(data, ends(header.e_phoff(LE), header.e_phnum(LE), header.e_phentsize(LE)))?;
        within(data, ends(header.e_shoff(LE), header.e_shnum(LE), header.e_shentsize(LE)))?;
        let header = Header::parse(data).map_err(malformed)?;
        let sections = header.sections(LE, data).map_err(malformed)?;
        Ok(Image { data, header, sections })
    }

    /// The lowest virtual address of a loaded segment.
    pub(super) fn base(&self) -> Result<u64, ElfError> {
        let segments = self.header.program_headers(LE, self.data).map_err(malformed)?;
        let loaded = segments.iter().filter(|segment| segment.p_type(LE) == elf::PT_LOAD);
        Ok(loaded.map(|segment| segment.p_vaddr(LE)).min().unwrap_or(0))
    }

    /// The executable segments by file offset, disjoint.
    pub(super) fn code(&self) -> Result<Vec<Code>, ElfError> {
        let segments = self.header.program_headers(LE, self.data).map_err(malformed)?;
        let has_bytes = self.data.len() as u64;
        let mut code = Vec::new();
        for segment in segments.iter().filter(|segment| segment.p_type(LE) == elf::PT_LOAD) {
            let (start, bytes) = segment.file_range(LE);
            let end = start.saturating_add(bytes);
            if end > has_bytes {
                return Err(ElfError::Truncated { needs_bytes: end, has_bytes });
            }
            if segment.p_flags(LE).contains(elf::PF_X) && start < end {
                code.push(Code { start, end, address: segment.p_vaddr(LE) });
            }
        }
        code.sort_by_key(|piece| piece.start);
        // If two segments map the same bytes, the first one names them.
        let mut done = 0;
        code.retain_mut(|piece| {
            let skip = done.max(piece.start) - piece.start;
            piece.address = piece.address.saturating_add(skip);
            piece.start += skip;
            done = done.max(piece.end);
            piece.start < piece.end
        });
        Ok(code)
    }

    /// The section with the names of the sections.
    pub(super) fn section_names(&self) -> Option<&'d Section> {
        let index = self.header.shstrndx(LE, self.data).ok()?;
        self.sections.section(SectionIndex(index as usize)).ok()
    }

    /// The sections with code, and their names.
    pub(super) fn code_sections(&self) -> impl Iterator<Item = (&'d Section, &'d [u8])> + '_ {
        self.sections
            .iter()
            .filter(|section| section.sh_flags(LE).contains(elf::SHF_EXECINSTR))
            .map(|section| (section, self.sections.section_name(LE, section).unwrap_or_default()))
    }
}
