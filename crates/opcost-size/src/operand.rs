//! Names the operands of instructions: other functions, data, text, places in the function itself.

use super::code::CodeError;
use super::object_file::{self, has_flag};
use iced_x86::{ConstantOffsets, Instruction, OpKind, Register};
use object::read::elf::ProgramHeader;
use object::{
    Architecture, Endianness, File, Object, ObjectKind, ObjectSection, ObjectSymbol,
    ObjectSymbolTable, RelocationTarget, Section, SymbolKind, elf,
};
use opcost_symbols::demangle::{demangle, printable};
use opcost_symbols::elf::ProgramSymbols;
use opcost_symbols::{alias, elf as program};
use std::collections::HashMap;
use std::ops::Range;

/// The most characters shown of a text in read-only data, and the fewest that make a text.
const TEXT_SHOWN: usize = 24;
const TEXT_MIN: usize = 3;

/// The meanings of a linked file's addresses. To read them takes as long as the file has symbols, so they serve all of its functions.
#[derive(Debug)]
pub struct CodeNames {
    /// Symbols by address, with their size.
    symbols: Vec<(u64, u64, String)>,
    /// Entries of linkage tables, by file offset.
    linkage: ProgramSymbols,
    /// The least address in memory, apart from sections at 0; smaller numbers are not addresses.
    lowest: u64,
    /// The names in slots of the global offset table.
    slots: HashMap<u64, String>,
    /// The addresses of data that nothing can change once the program runs.
    constant: Vec<Range<u64>>,
}

impl CodeNames {
    /// Reads a file; `symbols`: the debug file with the symbols of a stripped file. An object file has no such names, since each of its
    /// sections has its own addresses.
    ///
    /// # Errors
    /// [`CodeError`].
    pub fn read(bytes: &[u8], symbols: Option<&[u8]>) -> Result<CodeNames, CodeError> {
        let file = object_file::parse(bytes)?;
        let named = symbols.and_then(|symbols| File::parse(symbols).ok());
        Ok(CodeNames::of(&file, named.as_ref().unwrap_or(&file), bytes))
    }

    /// `named`: the file with the symbols, which is the file itself unless it was stripped; `bytes`: the file's contents.
    pub(super) fn of(file: &File<'_>, named: &File<'_>, bytes: &[u8]) -> CodeNames {
        let lowest = lowest(file);
        if file.kind() == ObjectKind::Relocatable {
            let (symbols, linkage) = (Vec::new(), ProgramSymbols::default());
            return CodeNames {
                symbols,
                linkage,
                lowest,
                slots: HashMap::new(),
                constant: Vec::new(),
            };
        }
        CodeNames {
            symbols: symbols(named),
            // If the linkage tables cannot be read, their entries are shown by their section.
            linkage: program::read(bytes, None, "").unwrap_or_default(),
            lowest,
            slots: slots(file),
            constant: constant(file, named),
        }
    }
}

/// The meanings of a file's addresses, seen from one function.
pub(super) struct Names<'d, 'f> {
    file: &'f File<'d>,
    function: Range<u64>,
    /// In an object file: the target of each relocated place in the function's section.
    relocated: HashMap<u64, OperandTarget>,
    of_file: &'f CodeNames,
}

/// The target of a relocation.
enum OperandTarget {
    Named(String),
    /// The address of a place in the function itself.
    Here(u64),
}

impl<'d, 'f> Names<'d, 'f> {
    /// Collects the names that `function` of `section` may need.
    pub(super) fn of(
        file: &'f File<'d>,
        of_file: &'f CodeNames,
        section: &Section<'d, 'f>,
        function: Range<u64>,
    ) -> Names<'d, 'f> {
        let relocated = match file.kind() {
            ObjectKind::Relocatable => relocated(file, section, &function),
            _ => HashMap::new(),
        };
        Names { file, function, relocated, of_file }
    }

    /// Returns the offset in the function that an instruction branches to.
    pub(super) fn target(
        &self,
        instruction: &Instruction,
        constants: &ConstantOffsets,
    ) -> Option<u64> {
        if !is_branch(instruction) {
            return None;
        }
        let address = match self.relocation(instruction, constants.immediate_offset()) {
            Some(OperandTarget::Here(address)) => *address,
            Some(OperandTarget::Named(_)) => return None,
            None => instruction.near_branch_target(),
        };
        self.function.contains(&address).then(|| address - self.function.start)
    }

    /// Returns the offset in the function that a branch of another machine leads to; `to`: its address, unless a relocation says
    /// otherwise.
    pub(super) fn branch(&self, at: u64, to: u64) -> Option<u64> {
        let address = match self.relocated.get(&at) {
            Some(OperandTarget::Here(address)) => *address,
            Some(OperandTarget::Named(_)) => return None,
            None => to,
        };
        self.function.contains(&address).then(|| address - self.function.start)
    }

    /// Names the target of the relocation of an instruction.
    pub(super) fn relocated_at(&self, at: u64) -> Option<String> {
        self.relocated.get(&at).map(|place| self.show(place))
    }

    /// Names the address of a memory operand.
    pub(super) fn displacement(
        &self,
        instruction: &Instruction,
        constants: &ConstantOffsets,
    ) -> Option<String> {
        if !constants.has_displacement() {
            return None;
        }
        if let Some(place) = self.relocation(instruction, constants.displacement_offset()) {
            return Some(self.show(place));
        }
        if instruction.is_ip_rel_memory_operand() {
            return self.named(instruction.ip_rel_memory_address());
        }
        let address = instruction.memory_displacement64();
        // The kernel's per-CPU data counts from 0 and is reached only through %gs.
        if instruction.segment_prefix() == Register::GS {
            return self.named(address);
        }
        self.absolute(address, constants.displacement_size())
    }

    /// Names the target of a branch, or an immediate that is an address.
    pub(super) fn immediate(
        &self,
        instruction: &Instruction,
        constants: &ConstantOffsets,
    ) -> Option<String> {
        if !constants.has_immediate() {
            return None;
        }
        if let Some(target) = self.target(instruction, constants) {
            return Some(format!("+{target:#x}"));
        }
        if let Some(place) = self.relocation(instruction, constants.immediate_offset()) {
            return Some(self.show(place));
        }
        if is_branch(instruction) {
            return self.named(instruction.near_branch_target());
        }
        let wide = (0..instruction.op_count()).find(|operand| {
            matches!(
                instruction.op_kind(*operand),
                OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64
            )
        })?;
        self.absolute(instruction.immediate(wide), constants.immediate_size())
    }

    /// Whether an instruction uses memory at a fixed address that nothing can change once the program runs.
    pub(super) fn is_constant(&self, instruction: &Instruction) -> bool {
        let address = instruction.ip_rel_memory_address();
        instruction.is_ip_rel_memory_operand()
            && !self.of_file.slots.contains_key(&address)
            && self.of_file.constant.iter().any(|range| range.contains(&address))
    }

    fn relocation(&self, instruction: &Instruction, constant: usize) -> Option<&OperandTarget> {
        self.relocated.get(&(instruction.ip() + constant as u64))
    }

    fn show(&self, place: &OperandTarget) -> String {
        match place {
            OperandTarget::Named(name) => name.clone(),
            OperandTarget::Here(address) => format!("+{:#x}", address - self.function.start),
        }
    }

    /// Names a number that is an address: in a program linked to a fixed address, inside a section.
    fn absolute(&self, number: u64, bytes: usize) -> Option<String> {
        let fixed = self.file.kind() == ObjectKind::Executable;
        let address = fixed && bytes >= 4 && number >= self.of_file.lowest;
        if address { self.named(number) } else { None }
    }

    /// Names an address of a linked file; `None` if nothing is there.
    pub(super) fn named(&self, address: u64) -> Option<String> {
        if self.function.contains(&address) {
            return Some(format!("+{:#x}", address - self.function.start));
        }
        if let Some(slot) = self.of_file.slots.get(&address) {
            return Some(slot.clone());
        }
        let before = self.of_file.symbols.partition_point(|(start, ..)| *start <= address);
        if let Some((start, bytes, name)) =
            before.checked_sub(1).map(|index| &self.of_file.symbols[index])
            && (address == *start || address - start < *bytes)
        {
            return Some(match address - start {
                0 => name.clone(),
                offset => format!("{name}+{offset:#x}"),
            });
        }
        let section = self.file.sections().find(|section| {
            is_loaded(section)
                && (section.address()..section.address() + section.size()).contains(&address)
        })?;
        let offset = section.file_range().map(|(start, _)| start + (address - section.address()));
        let part = offset.and_then(|offset| {
            self.of_file.linkage.parts.iter().find(|part| (part.start..part.end).contains(&offset))
        });
        if let Some(part) = part.filter(|part| part.function.symbol.ends_with("@plt")) {
            return Some(part.function.symbol.clone());
        }
        Some(content(&section, address - section.address()))
    }
}

fn is_branch(instruction: &Instruction) -> bool {
    let near = [OpKind::NearBranch16, OpKind::NearBranch32, OpKind::NearBranch64];
    instruction.op_count() > 0 && near.contains(&instruction.op0_kind())
}

fn is_loaded(section: &Section<'_, '_>) -> bool {
    has_flag(section, elf::SHF_ALLOC)
}

fn readable(name: &[u8]) -> String {
    demangle(&String::from_utf8_lossy(name))
}

/// Returns the least address of a section that is not at the beginning of all addresses.
fn lowest(file: &File<'_>) -> u64 {
    let loaded = file.sections().filter(is_loaded);
    // Sections in the first megabyte count from somewhere else (mmap_min_addr; the kernel's per-CPU
    // data).
    let addresses = loaded.map(|section| section.address()).filter(|address| *address >= 1 << 20);
    addresses.min().unwrap_or(u64::MAX)
}

/// Returns the addresses of a linked file's data that are never writable while the program runs: those of segments without write
/// permission, and those that the loader makes read-only (`PT_GNU_RELRO`). The kernel makes its own read-only before it starts
/// the first program, between two symbols (Linux, `mark_rodata_ro`).
fn constant(file: &File<'_>, named: &File<'_>) -> Vec<Range<u64>> {
    let File::Elf64(elf) = file else { return Vec::new() };
    let of_kernel = |name: &[u8]| {
        let mut all = named.symbols();
        Some(all.find(|symbol| symbol.name_bytes() == Ok(name))?.address())
    };
    if let Some((start, end)) = of_kernel(b"__start_rodata").zip(of_kernel(b"__end_rodata")) {
        let read_only = start..end;
        return vec![read_only];
    }
    let range = |header: &elf::ProgramHeader64<Endianness>| {
        let start = header.p_vaddr(elf.endian());
        start..start.saturating_add(header.p_memsz(elf.endian()))
    };
    let is_fixed = |header: &&elf::ProgramHeader64<Endianness>| match header.p_type(elf.endian()) {
        elf::PT_LOAD => !header.p_flags(elf.endian()).contains(elf::PF_W),
        other => other == elf::PT_GNU_RELRO,
    };
    elf.elf_program_headers().iter().filter(is_fixed).map(range).collect()
}

/// Describes an offset of a section without a symbol: by the text there, or the section's name. The
/// offset itself is left out, since it shifts with everything before it.
fn content(section: &Section<'_, '_>, offset: u64) -> String {
    let name = section
        .name_bytes()
        .map_or_else(|_| "?".into(), |name| printable(&String::from_utf8_lossy(name)));
    let constant = !has_flag(section, elf::SHF_WRITE) && !has_flag(section, elf::SHF_EXECINSTR);
    let data = section.data().ok().filter(|_| constant);
    let here = data.zip(usize::try_from(offset).ok()).and_then(|(data, offset)| data.get(offset..));
    let text = here.and_then(|here| here.split(|byte| *byte == 0).next());
    let readable = |text: &&[u8]| {
        text.len() >= TEXT_MIN
            && text.iter().all(|byte| matches!(byte, b'\t' | b'\n' | 0x20..=0x7e))
    };
    match text.filter(readable) {
        Some(text) => {
            let shown = String::from_utf8_lossy(&text[..text.len().min(TEXT_SHOWN)]);
            let more = if text.len() > TEXT_SHOWN { "…" } else { "" };
            format!("\"{}{more}\"", printable(&shown))
        }
        None => format!("[{name}]"),
    }
}

/// Returns the targets of a section's relocations, by address.
fn relocated(
    file: &File<'_>,
    section: &Section<'_, '_>,
    function: &Range<u64>,
) -> HashMap<u64, OperandTarget> {
    let mut places = HashMap::new();
    let functions = placed(file);
    for (offset, relocation) in section.relocations() {
        let RelocationTarget::Symbol(index) = relocation.target() else { continue };
        let Ok(symbol) = file.symbol_by_index(index) else { continue };
        // On x86 an addend that counts from the instruction's end has the field's size taken off.
        let relative = file.architecture() == Architecture::X86_64
            && matches!(
                relocation.kind(),
                object::RelocationKind::Relative
                    | object::RelocationKind::PltRelative
                    | object::RelocationKind::GotRelative
            );
        let addend = relocation.addend().wrapping_add(if relative { 4 } else { 0 });
        let address = symbol.address().wrapping_add_signed(addend);
        let name = symbol.name_bytes().unwrap_or_default();
        // A label of the assembler's own (.LC0) stands for its place.
        let place = if symbol.kind() == SymbolKind::Section || name.starts_with(b".L") {
            let Some(target) = symbol.section_index() else { continue };
            match by_place(&functions, target.0, address) {
                _ if target == section.index() && function.contains(&address) => {
                    OperandTarget::Here(address)
                }
                Some(name) => OperandTarget::Named(name),
                None => match file.section_by_index(target) {
                    Ok(target) => OperandTarget::Named(content(&target, address)),
                    Err(_) => continue,
                },
            }
        } else if symbol.section_index() == Some(section.index()) && function.contains(&address) {
            OperandTarget::Here(address)
        } else {
            OperandTarget::Named(with_offset(&readable(name), addend))
        };
        places.insert(section.address().wrapping_add(offset), place);
    }
    places
}

/// Adds an offset to a name.
fn with_offset(name: &str, offset: i64) -> String {
    match offset {
        0 => name.to_owned(),
        ahead if ahead > 0 => format!("{name}+{ahead:#x}"),
        behind => format!("{name}-{:#x}", behind.unsigned_abs()),
    }
}

/// Functions and data of an object file by section and place, with their size.
type Placed<'d> = Vec<(usize, u64, u64, &'d [u8])>;

fn placed<'d>(file: &File<'d>) -> Placed<'d> {
    let typed = file
        .symbols()
        .filter(|symbol| matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data));
    let mut placed: Placed<'d> = typed
        .filter_map(|symbol| {
            Some((
                symbol.section_index()?.0,
                symbol.address(),
                symbol.size(),
                symbol.name_bytes().ok()?,
            ))
        })
        .collect();
    placed.sort_unstable();
    placed
}

/// Names a place of an object file's section.
fn by_place(placed: &Placed<'_>, section: usize, place: u64) -> Option<String> {
    let behind = placed.partition_point(|(other, start, ..)| (*other, *start) <= (section, place));
    let (found, start, bytes, name) = placed[behind.checked_sub(1)?];
    let inside = found == section && (place == start || place - start < bytes);
    inside.then(|| with_offset(&readable(name), (place - start) as i64))
}

/// Returns the symbols of a linked file by address.
fn symbols(file: &File<'_>) -> Vec<(u64, u64, String)> {
    let named = |symbol: &object::Symbol<'_, '_>| match symbol.kind() {
        SymbolKind::Text | SymbolKind::Data => true,
        // A symbol of assembler without a type counts if other objects can see it.
        SymbolKind::Unknown => !symbol.is_local(),
        _ => false,
    };
    let all = file.symbols().chain(file.dynamic_symbols());
    let placed = all.filter(|symbol| named(symbol) && symbol.section_index().is_some());
    let mut symbols: Vec<(u64, u64, &str, bool)> = placed
        .filter_map(|symbol| {
            let name =
                symbol.name().ok().filter(|name| !name.is_empty() && !alias::is_mark(name))?;
            Some((symbol.address(), symbol.size(), name, symbol.is_local()))
        })
        .collect();
    // The longest of several symbols at one address is kept, or else the one to show.
    symbols.sort_by(|one, two| {
        let rank = |symbol: &(u64, u64, &str, bool)| alias::rank(symbol.2, symbol.3);
        (one.0, two.1).cmp(&(two.0, one.1)).then_with(|| rank(one).cmp(&rank(two)))
    });
    symbols.dedup_by_key(|symbol| symbol.0);
    symbols.into_iter().map(|(start, bytes, name, _)| (start, bytes, demangle(name))).collect()
}

/// Returns the names of the functions and data in slots of the global offset table.
fn slots(file: &File<'_>) -> HashMap<u64, String> {
    let (Some(relocations), Some(table)) =
        (file.dynamic_relocations(), file.dynamic_symbol_table())
    else {
        return HashMap::new();
    };
    let name = |relocation: &object::Relocation| match relocation.target() {
        RelocationTarget::Symbol(index) => {
            let symbol = table.symbol_by_index(index).ok()?;
            Some(format!("{}@got", readable(symbol.name_bytes().ok()?)))
        }
        _ => None,
    };
    relocations.filter_map(|(address, relocation)| Some((address, name(&relocation)?))).collect()
}
