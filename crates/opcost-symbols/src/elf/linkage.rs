//! Reads procedure linkage tables: finds the function that each entry leads to (System V ABI, AMD64
//! supplement, 5.2; Intel's CET supplement for `.plt.sec`; ELF for the Arm 64-bit Architecture).

use super::super::span::Span;
use super::Name;
use super::image::{Code, ElfError, Header, Image, LE, malformed, offsets};
use object::elf;
use object::read::elf::{Rela, SectionHeader, SymbolTable};
use std::collections::HashMap;

/// The size of an entry in bytes, unless the section says 8, as `.plt.got` may.
const ENTRY_BYTES: u64 = 16;

/// The functions that the dynamic linker puts into slots of the global offset table.
#[derive(Default)]
struct Slots<'d> {
    /// Functions by the slot's virtual address.
    by_address: HashMap<u64, &'d [u8]>,
    /// Functions in the order of the relocations that are resolved at the first call.
    by_number: Vec<Option<&'d [u8]>>,
}

/// Returns the entries of all linkage tables by file offset, ascending, disjoint.
pub(super) fn entries<'d>(
    image: &Image<'d>,
    code: &[Code],
) -> Result<Vec<Span<Name<'d>>>, ElfError> {
    let mut slots = None;
    let mut spans: Vec<Span<Name>> = Vec::new();
    for (section, name) in image.code_sections() {
        let address = section.sh_addr(LE);
        let range = offsets(code, address, section.sh_size(LE));
        let (true, Some((start, end))) = (is_linkage(name), range) else { continue };
        if slots.is_none() {
            slots = Some(slots_of(image)?);
        }
        let step = if section.sh_entsize(LE) == 8 { 8 } else { ENTRY_BYTES };
        for from in (start..end).step_by(step as usize) {
            let to = end.min(from + step);
            let bytes = &image.data[from as usize..to as usize];
            let at = address.wrapping_add(from - start);
            let leads_to = if image.is_x86() { leads_to } else { leads_to_on_arm };
            let found = slots.as_ref().and_then(|slots| leads_to(bytes, at, slots));
            let name = found.map_or(Name::LinkageOther, Name::Linkage);
            spans.push(Span { start: from, end: to, name });
        }
    }
    spans.sort_by_key(|span| span.start);
    // Only a broken file has sections that overlap; the first section keeps its bytes.
    let mut done = 0;
    spans.retain(|span| {
        let keep = span.start >= done;
        done = done.max(span.end);
        keep
    });
    Ok(spans)
}

/// Whether a section of this name is a linkage table.
pub(super) fn is_linkage(section: &[u8]) -> bool {
    section == b".plt" || section == b".iplt" || section.starts_with(b".plt.")
}

fn slots_of<'d>(image: &Image<'d>) -> Result<Slots<'d>, ElfError> {
    let mut slots = Slots::default();
    for section in image.sections.iter() {
        let Some((relocations, link)) = section.rela(LE, image.data).map_err(malformed)? else {
            continue;
        };
        // A static program's table has no symbols; resolvers fill its slots.
        let table = image.sections.symbol_table_by_index(LE, image.data, link).ok();
        for relocation in relocations {
            let kind = relocation.r_type(LE, false);
            let name = table.as_ref().and_then(|table| symbol(table, relocation));
            let (jump, data) = match image.is_x86() {
                true => (elf::R_X86_64_JUMP_SLOT, elf::R_X86_64_GLOB_DAT),
                false => (elf::R_AARCH64_JUMP_SLOT, elf::R_AARCH64_GLOB_DAT),
            };
            if kind == jump {
                slots.by_number.push(name);
            }
            if kind == jump || kind == data {
                slots.by_address.extend(name.map(|name| (relocation.r_offset(LE), name)));
            }
        }
    }
    Ok(slots)
}

fn symbol<'d>(
    table: &SymbolTable<'d, Header>,
    relocation: &elf::Rela64<object::LittleEndian>,
) -> Option<&'d [u8]> {
    let symbol = table.symbol(relocation.symbol(LE, false)?).ok()?;
    table.symbol_name(LE, symbol).ok().filter(|name| !name.is_empty())
}

/// Returns the function that an entry jumps to: `jmp *slot(%rip)`, or `push $number` if the first
/// call resolves it; `endbr64` or a `bnd` prefix may come first.
fn leads_to<'d>(entry: &[u8], address: u64, slots: &Slots<'d>) -> Option<&'d [u8]> {
    let skipped = if entry.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 4 } else { 0 };
    let bnd = usize::from(entry.get(skipped) == Some(&0xf2));
    let at = skipped + bnd;
    let word = |from: usize| {
        let bytes = entry.get(from..from + 4)?;
        Some(i32::from_le_bytes(bytes.try_into().ok()?))
    };
    match entry.get(at..)? {
        [0xff, 0x25, ..] => {
            let behind = address.wrapping_add(at as u64 + 6);
            let slot = behind.wrapping_add_signed(i64::from(word(at + 2)?));
            slots.by_address.get(&slot).copied()
        }
        [0x68, ..] => {
            let number = usize::try_from(word(at + 1)?).ok()?;
            *slots.by_number.get(number)?
        }
        _ => None,
    }
}

/// Returns the function that an entry of 64-bit ARM jumps to: `adrp x16, page; ldr x17, [x16, #offset]`.
fn leads_to_on_arm<'d>(entry: &[u8], address: u64, slots: &Slots<'d>) -> Option<&'d [u8]> {
    let word = |at: usize| Some(u32::from_le_bytes(entry.get(at..at + 4)?.try_into().ok()?));
    let (page, load) = (word(0)?, word(4)?);
    if page & 0x9f00_001f != 0x9000_0010 || load & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    // A signed number of 21 bits: the two lowest stand apart.
    let number = (page >> 5 & 0x7_ffff) << 2 | page >> 29 & 3;
    let pages = i64::from((number << 11) as i32 >> 11);
    let slot = (address & !0xfff).wrapping_add_signed(pages << 12);
    let slot = slot.wrapping_add(u64::from(load >> 10 & 0xfff) << 3);
    slots.by_address.get(&slot).copied()
}
