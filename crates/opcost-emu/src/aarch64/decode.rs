//! Decodes AArch64 instructions (Arm ARM, C4.1, "A64 instruction set encoding").

use crate::decode::{Exit, Facts, Wait, marker};

/// An instruction's length, bytes.
const LENGTH: usize = 4;

/// Whether the bits of a word that `mask` selects are `bits`.
const fn is(word: u32, mask: u32, bits: u32) -> bool {
    word & mask == bits
}

/// Decodes the instructions of one block; every code has four bytes.
pub(crate) fn decode(_: u64, codes: &[&[u8]]) -> Vec<Facts> {
    codes.iter().map(|code| Facts { marker: marker(code), ..facts(word(code)) }).collect()
}

/// Returns an instruction's word; `udf` for a code of another length, which QEMU does not give.
fn word(code: &[u8]) -> u32 {
    code.try_into().map_or(0, |bytes: [u8; LENGTH]| u32::from_le_bytes(bytes))
}

/// Whether an instruction halts its CPU in QEMU: `wfi`.
pub(crate) fn halts(code: &[u8]) -> bool {
    word(code) == WFI
}

const WFI: u32 = 0xd503_207f;
const YIELD: u32 = 0xd503_203f;

/// Returns the target that a jump, branch or call at an address names.
pub(crate) fn target(address: u64, code: &[u8]) -> Option<u64> {
    let word = word(code);
    let signed = |low: u32, bits: u32| {
        let left = 32 - low - bits;
        i64::from((word << left) as i32 >> (left + low)) * LENGTH as i64
    };
    let distance = match exit(word) {
        Exit::Jump | Exit::Call => signed(0, 26),
        Exit::Branch if is(word, 0x7e00_0000, 0x3600_0000) => signed(5, 14),
        Exit::Branch => signed(5, 19),
        _ => return None,
    };
    Some(address.wrapping_add_signed(distance))
}

fn exit(word: u32) -> Exit {
    match word {
        _ if is(word, 0xfc00_0000, 0x1400_0000) => Exit::Jump,
        _ if is(word, 0xfc00_0000, 0x9400_0000) => Exit::Call,
        // cbz, cbnz; tbz, tbnz; b.cond, bc.cond
        _ if is(word, 0x7e00_0000, 0x3400_0000)
            || is(word, 0x7e00_0000, 0x3600_0000)
            || is(word, 0xff00_0000, 0x5400_0000) =>
        {
            Exit::Branch
        }
        // Branches to a register: opc in bits 24 to 21, with 1 in bit 24 and in A, Z, M for those that authenticate a pointer.
        _ if is(word, 0xfe00_0000, 0xd600_0000) => match word >> 21 & 15 {
            0 | 8 => Exit::JumpIndirect,
            1 | 9 => Exit::CallIndirect,
            2 => Exit::Return,
            4 | 5 => Exit::Leave,
            _ => Exit::Next,
        },
        // svc, hvc, smc
        _ if is(word, 0xffe0_001c, 0xd400_0000) && word & 3 != 0 => Exit::Enter,
        _ => Exit::Next,
    }
}

/// Whether the processor can only refuse the instruction: `udf`, `brk`, `hlt`, `dcps`, and what no extension defines.
fn is_refused(word: u32) -> bool {
    is(word, 0xffff_0000, 0)
        || is(word, 0xff00_0000, 0xd400_0000) && exit(word) != Exit::Enter
        || matches!(word >> 25 & 15, 1 | 3)
}

fn facts(word: u32) -> Facts {
    let (loads, stores) = operands(word);
    let never_retires = is_refused(word);
    Facts {
        loads,
        stores,
        may_fault: loads + stores > 0 || never_retires || faults_without_operands(word),
        never_retires,
        may_be_refused: false,
        exit: exit(word),
        repeat: None,
        marker: None,
        wait: match word {
            WFI => Some(Wait::Halt),
            YIELD => Some(Wait::Pause),
            _ => None,
        },
    }
}

/// Whether QEMU may leave an instruction that moves no data through an exception.
fn faults_without_operands(word: u32) -> bool {
    // System instructions and registers: traps, and maintenance of caches by address.
    let system = is(word, 0xffc0_0000, 0xd500_0000) && !is_plain_system(word);
    // SVE and SME may be switched off (bits 28 to 25: 0010, and 0000 with bit 31).
    let scalable = is(word, 0x1e00_0000, 0x0400_0000) || is(word, 0x9e00_0000, 0x8000_0000);
    system || scalable
}

/// Whether a system instruction always finishes: hints, barriers, and `msr` of a field of the processor's state.
fn is_plain_system(word: u32) -> bool {
    // op1 in bits 18 to 16; CRn in bits 15 to 12: 2 are hints, 3 barriers, 4 fields.
    is(word, 0xffff_f01f, 0xd503_201f)
        || is(word, 0xffff_f000, 0xd503_3000)
        || is(word, 0xfff8_f01f, 0xd500_401f)
}

const NONE: (u8, u8) = (0, 0);
const LOAD: (u8, u8) = (1, 0);
const STORE: (u8, u8) = (0, 1);
const BOTH: (u8, u8) = (1, 1);

/// Returns the numbers of memory operands read and written. A pair, and a structure of several registers, is one operand.
fn operands(word: u32) -> (u8, u8) {
    let bit = |place: u32| word >> place & 1 == 1;
    let when = |loads: bool| if loads { LOAD } else { STORE };
    let (size, vector, kind) = (word >> 30, bit(26), word >> 22 & 3);
    let low = word >> 10 & 3;
    if is(word, 0xffff_ffe0, 0xd50b_7420) {
        return STORE; // dc zva
    }
    if is(word, 0x1e00_0000, 0x0400_0000) {
        // SVE; its prefetches are among the loads.
        return match word >> 29 {
            7 => STORE,
            4..=6 => LOAD,
            _ => NONE,
        };
    }
    if !is(word, 0x0a00_0000, 0x0800_0000) {
        return NONE;
    }
    match word >> 28 & 3 {
        // Structures of Advanced SIMD.
        0 if vector => when(bit(22)),
        // cas, and casp
        0 if bit(21) && (bit(23) || !bit(31)) => BOTH,
        // exclusives, and ordered ones
        0 => when(bit(22)),
        // literals; prfm loads nothing
        1 if !bit(24) => {
            if size == 3 && !vector {
                NONE
            } else {
                LOAD
            }
        }
        // ldg loads a tag; st2g and the like store
        1 if bit(21) && size == 3 => when(low == 0 && kind & 1 == 1),
        // cpy and set
        1 if !bit(21) && low == 1 && !vector => {
            if kind == 3 {
                STORE
            } else {
                BOTH
            }
        }
        // stlur, ldapur
        1 => when(if vector { kind & 1 == 1 } else { kind > 0 }),
        // pairs
        2 => when(bit(22)),
        // ldraa, ldrab
        _ if !bit(24) && bit(21) && low & 1 == 1 => LOAD,
        // atomics; ldapr only loads
        _ if !bit(24) && bit(21) && low == 0 => {
            if is(word, 0x3fe0_fc00, 0x38a0_c000) {
                LOAD
            } else {
                BOTH
            }
        }
        _ if vector => when(kind & 1 == 1),
        // prfm, prfum
        _ if size == 3 && kind == 2 => NONE,
        _ => when(kind > 0),
    }
}
