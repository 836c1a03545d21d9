//! Decodes AArch64 instructions (Arm ARM, C4.1, "A64 instruction set encoding").

use crate::decode::{Exit, Facts, Wait, marker};
use opcost_record::Architecture;

/// An instruction's length, bytes.
const LENGTH: usize = 4;

/// Whether the bits of a word that `mask` selects are `bits`.
const fn is(word: u32, mask: u32, bits: u32) -> bool {
    word & mask == bits
}

/// Decodes the instructions of one block; every code has four bytes.
pub(crate) fn decode(_: u64, codes: &[&[u8]]) -> Vec<Facts> {
    codes
        .iter()
        .map(|code| Facts { marker: marker(Architecture::Aarch64, code), ..facts(word(code)) })
        .collect()
}

/// Returns an instruction's word; `udf` for a code of another length, which QEMU does not give.
pub(super) fn word(code: &[u8]) -> u32 {
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

/// Whether code that ends with some bytes may end with a call: `bl`, `blr` and their like.
pub(crate) fn may_end_with_call(before: &[u8]) -> bool {
    let Some(last) = before.last_chunk::<4>() else { return true };
    matches!(exit(u32::from_le_bytes(*last)), Exit::Call | Exit::CallIndirect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_stands_in_front_of_its_return_address() {
        let ends = |word: u32| may_end_with_call(&word.to_le_bytes());
        assert!(ends(0x9400_0010) && ends(0xd63f_0020) && may_end_with_call(&[]));
        assert!(!ends(0x1400_0010) && !ends(0xd503_201f));
    }
    use crate::decode::MarkerAt;
    use std::collections::HashSet;
    use std::process::Command;

    /// A library that the cross compiler's packages contain: LSE, SVE, MOPS, structures, tags.
    const LIBRARY: &str = "/usr/aarch64-linux-gnu/lib/libc.so.6";

    fn one(word: u32) -> Facts {
        decode(0x1000, &[&word.to_le_bytes()])[0]
    }

    /// What a mnemonic of the assembler does: its memory operands, and the way it hands over.
    fn meaning(mnemonic: &str, operands: &str) -> ((u8, u8), Exit) {
        let starts = |words: &[&str]| words.iter().any(|word| mnemonic.starts_with(word));
        let exit = match mnemonic {
            "b" => Exit::Jump,
            "bl" => Exit::Call,
            "br" | "braa" | "brab" | "braaz" | "brabz" => Exit::JumpIndirect,
            "blr" | "blraa" | "blrab" | "blraaz" | "blrabz" => Exit::CallIndirect,
            "ret" | "retaa" | "retab" => Exit::Return,
            "eret" | "eretaa" | "eretab" => Exit::Leave,
            "svc" | "hvc" | "smc" => Exit::Enter,
            "cbz" | "cbnz" | "tbz" | "tbnz" => Exit::Branch,
            _ if mnemonic.starts_with("b.") => Exit::Branch,
            _ => Exit::Next,
        };
        let atomic = ["add", "clr", "eor", "set", "smax", "smin", "umax", "umin"];
        let atomics = ["ld", "st"].iter().any(|kind| {
            let rest = mnemonic.strip_prefix(kind);
            rest.is_some_and(|rest| atomic.iter().any(|name| rest.starts_with(name)))
        });
        let memory = match mnemonic {
            _ if atomics || starts(&["swp", "cas", "cpy"]) => BOTH,
            "dc" if operands.starts_with("zva") => STORE,
            _ if starts(&["setp", "setm", "sete", "st"]) => STORE,
            // prf… of SVE counts as a load.
            _ if starts(&["ld", "prfb", "prfh", "prfw", "prfd"]) => LOAD,
            _ => NONE,
        };
        (memory, exit)
    }

    #[test]
    fn a_whole_library_is_decoded_as_the_disassembler_reads_it() {
        let listing = Command::new("aarch64-linux-gnu-objdump").args(["-d", LIBRARY]).output();
        let Some(listing) = listing.ok().filter(|listing| listing.status.success()) else {
            eprintln!("SKIPPED: opcost-emu: no aarch64-linux-gnu-objdump, or no {LIBRARY}");
            return;
        };
        let (mut words, mut mnemonics) = (0, HashSet::new());
        for line in String::from_utf8_lossy(&listing.stdout).lines() {
            let mut fields = line.split('\t');
            let (Some(at), Some(word), Some(mnemonic)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let (at, word) = (at.trim().trim_end_matches(':'), word.trim());
            let (Ok(at), Ok(word)) = (u64::from_str_radix(at, 16), u32::from_str_radix(word, 16))
            else {
                continue;
            };
            // Data in the text, and extensions that this disassembler does not know.
            if mnemonic.starts_with('.') || mnemonic == "udf" {
                continue;
            }
            let operands = fields.next().unwrap_or("");
            let facts = one(word);
            let found = ((facts.loads, facts.stores), facts.exit);
            assert_eq!(found, meaning(mnemonic, operands), "{line}");
            assert!(!facts.never_retires || matches!(mnemonic, "brk" | "hlt"), "{line}");
            if matches!(facts.exit, Exit::Jump | Exit::Call | Exit::Branch) {
                let named = operands.split(" <").next().unwrap().split_whitespace().last();
                let named = u64::from_str_radix(named.unwrap().trim_start_matches("0x"), 16);
                assert_eq!(target(at, &word.to_le_bytes()), named.ok(), "{line}");
            }
            mnemonics.insert(mnemonic.to_owned());
            words += 1;
        }
        assert!(words > 100_000 && mnemonics.len() > 150, "{words} words, {}", mnemonics.len());
    }

    #[test]
    fn every_class_is_known_by_its_words() {
        // Words as binutils 2.40 assembles them.
        for (word, loads, stores, may_fault, exit) in [
            (0xd503_201f, 0, 0, false, Exit::Next),         // nop
            (0xf940_0020, 1, 0, true, Exit::Next),          // ldr x0, [x1]
            (0xa9bf_7bfd, 0, 1, true, Exit::Next),          // stp x29, x30, [sp, #-16]!
            (0xa940_0440, 1, 0, true, Exit::Next),          // ldp x0, x1, [x2]
            (0x5800_0040, 1, 0, true, Exit::Next),          // ldr x0, .+8
            (0xf980_0020, 0, 0, false, Exit::Next),         // prfm pldl1keep, [x1]
            (0xc85f_7c20, 1, 0, true, Exit::Next),          // ldxr x0, [x1]
            (0xc802_7c20, 0, 1, true, Exit::Next),          // stxr w2, x0, [x1]
            (0xc8df_fc20, 1, 0, true, Exit::Next),          // ldar x0, [x1]
            (0xf821_0040, 1, 1, true, Exit::Next),          // ldadd x1, x0, [x2]
            (0xf8a1_8040, 1, 1, true, Exit::Next),          // swpa x1, x0, [x2]
            (0xc8a1_7c40, 1, 1, true, Exit::Next),          // cas x1, x0, [x2]
            (0x4820_7c82, 1, 1, true, Exit::Next),          // casp x0, x1, x2, x3, [x4]
            (0xf8bf_c020, 1, 0, true, Exit::Next),          // ldapr x0, [x1]
            (0x3dc0_0020, 1, 0, true, Exit::Next),          // ldr q0, [x1]
            (0x3d80_0020, 0, 1, true, Exit::Next),          // str q0, [x1]
            (0x4c40_7020, 1, 0, true, Exit::Next),          // ld1 {v0.16b}, [x1]
            (0xd50b_7420, 0, 1, true, Exit::Next),          // dc zva, x0
            (0xd50b_7b20, 0, 0, true, Exit::Next),          // dc cvau, x0
            (0xd53b_d040, 0, 0, true, Exit::Next),          // mrs x0, tpidr_el0
            (0xd503_3bbf, 0, 0, false, Exit::Next),         // dmb ish
            (0xd503_42df, 0, 0, false, Exit::Next),         // msr daifset, #2
            (0x9400_0001, 0, 0, false, Exit::Call),         // bl .+4
            (0xd63f_0020, 0, 0, false, Exit::CallIndirect), // blr x1
            (0xd63f_083f, 0, 0, false, Exit::CallIndirect), // blraaz x1
            (0xd61f_0020, 0, 0, false, Exit::JumpIndirect), // br x1
            (0xd65f_03c0, 0, 0, false, Exit::Return),       // ret
            (0xd65f_0bff, 0, 0, false, Exit::Return),       // retaa
            (0xd69f_03e0, 0, 0, false, Exit::Leave),        // eret
            (0xd400_0001, 0, 0, false, Exit::Enter),        // svc #0
            (0xd400_0002, 0, 0, false, Exit::Enter),        // hvc #0
        ] {
            let facts = one(word);
            let found = (facts.loads, facts.stores, facts.may_fault, facts.exit);
            assert_eq!(found, (loads, stores, may_fault, exit), "{word:08x}");
            assert!(!facts.never_retires, "{word:08x}");
        }
        // brk #0, hlt #0, udf #0
        assert!([0xd420_0000, 0xd440_0000, 0].iter().all(|word| one(*word).never_retires));
        assert_eq!((one(WFI).wait, one(YIELD).wait), (Some(Wait::Halt), Some(Wait::Pause)));
        assert!(halts(&WFI.to_le_bytes()) && !halts(&YIELD.to_le_bytes()) && !halts(&[]));
        assert_eq!(one(0xd2e0_201f).marker, Some(MarkerAt::Start(0)));
    }
}
