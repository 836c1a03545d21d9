//! Disassembles 64-bit ARM code with names in place of addresses.
//!
//! An address is made of two instructions: `adrp` makes the page's, and a later one adds the offset. opcost names the address at
//! the second one, if every way through the function to it leaves the same page in the register. Nobody knows where an indirect
//! branch (`br`) leads, so a function with one has no such names.

use super::code::{Code, CodeError, Instruction};
use super::operand::Names;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction as Decoded, Opcode, Operand, SizeCode};

/// The length of an instruction.
const WORD_BYTES: usize = 4;
/// The bytes of the page that `adrp` counts in.
const PAGE_BYTES: u64 = 4096;
/// The stack pointer, which is no register of a page.
const STACK_POINTER: u16 = 31;

/// Decodes the instructions of a function; code that ends within an instruction ends before it.
pub(super) fn decode(
    code: &[u8],
    address: u64,
    names: &Names<'_, '_>,
    instructions_max: usize,
) -> Result<Code, CodeError> {
    if code.len() / WORD_BYTES > instructions_max {
        return Err(CodeError::Long { instructions_max });
    }
    let decoder = InstDecoder::default();
    let decoded: Vec<(u64, &[u8], Option<Decoded>)> = code
        .chunks_exact(WORD_BYTES)
        .enumerate()
        .map(|(at, word)| {
            let place = address.wrapping_add((at * WORD_BYTES) as u64);
            (place, word, decoder.decode(&mut U8Reader::new(word)).ok())
        })
        .collect();
    let leads_to = |at: u64, one: &Decoded| goal(at, one).and_then(|goal| names.branch(at, goal));
    let entries = entries(&decoded, leads_to);
    let mut pages = Pages::default();
    let mut instructions = Vec::with_capacity(decoded.len());
    for (number, (at, word, one)) in decoded.iter().enumerate() {
        let offset = at.wrapping_sub(address);
        if let Some(known) = entries.get(&number) {
            pages = known.clone();
        }
        let (text, target) = match one {
            Some(one) => (text(*at, one, &pages, names), leads_to(*at, one)),
            None => {
                let word = word.iter().rev().fold(0u32, |all, byte| all << 8 | u32::from(*byte));
                (inst(word), None)
            }
        };
        pages.after(*at, one.as_ref());
        // Whether a load reads what nothing writes is asked of x86 alone.
        instructions.push(Instruction { offset, text, target, is_constant: false });
    }
    Ok(Code { address, bytes: code.len() as u64, instructions })
}

/// The text of one instruction; `.inst` with the word if it is not known.
pub(crate) fn a64_text(word: u32) -> String {
    let decoded = InstDecoder::default().decode(&mut U8Reader::new(&word.to_le_bytes()));
    match decoded {
        Ok(one) => one.to_string(),
        Err(_) => inst(word),
    }
}

fn inst(word: u32) -> String {
    format!(".inst {word:#010x}")
}

/// Where a branch leads.
fn goal(at: u64, one: &Decoded) -> Option<u64> {
    let is_data = matches!(one.opcode, Opcode::ADR | Opcode::ADRP | Opcode::BL)
        || matches!(one.opcode, Opcode::LDR | Opcode::LDRSW | Opcode::PRFM);
    if is_data { None } else { relative(at, one) }
}

/// The address that an instruction gives by its distance.
fn relative(at: u64, one: &Decoded) -> Option<u64> {
    let distance = one.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(distance) => Some(*distance),
        _ => None,
    })?;
    let from = if one.opcode == Opcode::ADRP { at / PAGE_BYTES * PAGE_BYTES } else { at };
    Some(from.wrapping_add_signed(distance))
}

/// The pages in registers where blocks of instructions begin, by the block's first instruction.
///
/// `leads_to`: the offset in the function that a branch leads to.
fn entries(
    decoded: &[(u64, &[u8], Option<Decoded>)],
    leads_to: impl Fn(u64, &Decoded) -> Option<u64>,
) -> HashMap<usize, Pages> {
    let number = |offset: u64| offset as usize / WORD_BYTES;
    let targets: Vec<Option<usize>> =
        decoded.iter().map(|(at, _, one)| leads_to(*at, one.as_ref()?).map(number)).collect();
    let ends = |at: usize| decoded[at].2.as_ref().is_some_and(|one| ENDS.contains(&one.opcode));
    let mut entries: HashMap<usize, Pages> = HashMap::from([(0, Pages::default())]);
    if decoded.iter().flat_map(|(_, _, one)| one).any(|one| INDIRECT.contains(&one.opcode)) {
        return (0..decoded.len()).map(|at| (at, Pages::default())).collect();
    }
    let mut is_first = vec![false; decoded.len()];
    for (at, target) in targets.iter().enumerate() {
        let next = Some(at + 1).filter(|_| ends(at) || target.is_some());
        for first in target.iter().copied().chain(next) {
            if let Some(known) = is_first.get_mut(first) {
                *known = true;
            }
        }
    }
    let mut open = vec![0];
    let reach =
        |entries: &mut HashMap<usize, Pages>, open: &mut Vec<usize>, first, pages: &Pages| {
            let Some(known) = entries.get_mut(&first) else {
                entries.insert(first, pages.clone());
                open.push(first);
                return;
            };
            if known.meet(pages) {
                open.push(first);
            }
        };
    while let Some(first) = open.pop() {
        let mut pages = entries[&first].clone();
        for at in first..decoded.len() {
            if at > first && is_first[at] {
                reach(&mut entries, &mut open, at, &pages);
                break;
            }
            pages.after(decoded[at].0, decoded[at].2.as_ref());
            if let Some(target) = targets[at].filter(|target| *target < decoded.len()) {
                reach(&mut entries, &mut open, target, &pages);
            }
            if ends(at) {
                break;
            }
        }
    }
    // A block that no known way leads to begins with nothing known.
    for at in (0..decoded.len()).filter(|at| is_first[*at]) {
        entries.entry(at).or_default();
    }
    entries
}

/// Instructions that the next one does not follow.
const ENDS: [Opcode; 5] = [Opcode::B, Opcode::RET, Opcode::BRK, Opcode::RETAA, Opcode::RETAB];
/// Branches to an address in a register.
const INDIRECT: [Opcode; 5] =
    [Opcode::BR, Opcode::BRAA, Opcode::BRAAZ, Opcode::BRAB, Opcode::BRABZ];
/// Calls.
const CALLS: [Opcode; 9] = [
    Opcode::BL,
    Opcode::BLR,
    Opcode::BLRAA,
    Opcode::BLRAAZ,
    Opcode::BLRAB,
    Opcode::BLRABZ,
    Opcode::SVC,
    Opcode::HVC,
    Opcode::SMC,
];
/// The registers that a called function leaves as they were (Procedure Call Standard for the Arm 64-bit Architecture, 6.1.1).
const KEPT: RangeInclusive<u16> = 19..=28;

/// The pages whose addresses are in registers, by register.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Pages(Vec<(u16, u64)>);

impl Pages {
    fn of(&self, register: u16) -> Option<u64> {
        self.0.iter().find(|(known, _)| *known == register).map(|(_, page)| *page)
    }

    /// Keeps what another way through the code leaves, too; returns whether less is known now.
    fn meet(&mut self, other: &Pages) -> bool {
        let before = self.0.len();
        self.0.retain(|known| other.0.contains(known));
        self.0.len() < before
    }

    /// Goes on behind an instruction; of one that was not decoded nobody knows what it writes.
    fn after(&mut self, at: u64, one: Option<&Decoded>) {
        let Some(one) = one else {
            self.0.clear();
            return;
        };
        if CALLS.contains(&one.opcode) {
            self.0.retain(|(register, _)| KEPT.contains(register));
            return;
        }
        for operand in &one.operands {
            // Operands that are only read are forgotten, too, unless the instruction cannot write them.
            match operand {
                Operand::Register(_, register)
                | Operand::RegisterOrSP(_, register)
                | Operand::RegPreIndex(register, _, true)
                | Operand::RegPostIndex(register, _)
                | Operand::RegPostIndexReg(register, _) => self.forget(*register),
                Operand::RegisterPair(_, register) => {
                    self.forget(*register);
                    self.forget(register + 1);
                }
                _ => {}
            }
        }
        if let (Opcode::ADRP, Operand::Register(_, register)) = (one.opcode, one.operands[0])
            && register != STACK_POINTER
            && let Some(page) = relative(at, one)
        {
            self.0.push((register, page));
        }
    }

    fn forget(&mut self, register: u16) {
        self.0.retain(|(known, _)| *known != register);
    }
}

/// The text of an instruction, with names in place of addresses.
fn text(at: u64, one: &Decoded, pages: &Pages, names: &Names<'_, '_>) -> String {
    let text = hint(one).unwrap_or_else(|| one.to_string());
    let relocated = names.relocated_at(at);
    if let Some(address) = relative(at, one) {
        let shown = match (&relocated, one.opcode) {
            (Some(name), _) => name.clone(),
            (None, Opcode::ADRP) => "[page]".into(),
            (None, _) => names.named(address).unwrap_or_else(|| format!("{address:#x}")),
        };
        // A distance is an instruction's last operand: `tbz w0, #0x3, $+0x14`.
        let before = text.rfind('$').map_or(&*text, |distance| &text[..distance]);
        return format!("{before}{shown}");
    }
    let place = |register: u16, offset: i64| {
        let address = pages.of(register).map(|page| page.wrapping_add_signed(offset));
        relocated.clone().or_else(|| names.named(address?))
    };
    let named = match (one.opcode, &one.operands) {
        (
            Opcode::ADD,
            [
                Operand::RegisterOrSP(SizeCode::X, to),
                Operand::RegisterOrSP(SizeCode::X, from),
                Operand::Immediate(offset),
                Operand::Nothing,
            ],
        ) => place(*from, i64::from(*offset)).map(|name| format!("add x{to}, x{from}, {name}")),
        (_, operands) => operands.iter().find_map(|operand| match operand {
            Operand::RegPreIndex(base, offset, false) if *base != STACK_POINTER => {
                let name = place(*base, i64::from(*offset))?;
                let memory = text.rfind('[').unwrap_or(text.len());
                Some(format!("{}[x{base}, {name}]", &text[..memory]))
            }
            _ => None,
        }),
    };
    named.unwrap_or(text)
}

/// Hints that have names of their own since the decoder's table was made (Arm Architecture Reference Manual, "BTI").
fn hint(one: &Decoded) -> Option<String> {
    let number = match (one.opcode, one.operands[0]) {
        (Opcode::HINT, Operand::Immediate(number)) => u64::from(number),
        (Opcode::HINT, Operand::Imm64(number)) => number,
        (Opcode::HINT, Operand::Imm16(number)) => u64::from(number),
        _ => return None,
    };
    let name = match number {
        32 => "bti",
        34 => "bti c",
        36 => "bti j",
        38 => "bti jc",
        _ => return None,
    };
    Some(name.into())
}
