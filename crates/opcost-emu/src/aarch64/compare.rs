//! Finds the comparison in front of a conditional branch (Arm ARM, C4.1, "A64 instruction set encoding").

use super::decode::{target, word};
use crate::compare::{Compared, Operand};

const CONDITIONS: [&str; 16] = [
    "eq", "ne", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le", "al", "nv",
];

/// Returns the comparison that the branch at a block's end has in itself or behind the instruction in front of it, and both as
/// assembly. `linked`: the address that the linker gave the block.
pub(crate) fn decide(_: u64, linked: u64, codes: &[&[u8]]) -> (Option<Compared>, String) {
    let Some((last, before)) = codes.split_last() else { return (None, String::new()) };
    let at = linked.wrapping_add(4 * before.len() as u64);
    let to = target(at, last).map_or(String::new(), |to| format!("0x{to:x}"));
    let branch = word(last);
    let bit = |place: u32| branch >> place & 1;
    let own = register(branch & 31);
    // cbz, cbnz
    if branch & 0x7e00_0000 == 0x3400_0000 {
        let (size, bytes) = if bit(31) == 1 { ('x', 8) } else { ('w', 4) };
        let name = if bit(24) == 1 { "cbnz" } else { "cbz" };
        let compared = Compared { left: own, right: Operand::Immediate(0), bytes };
        return (Some(compared), format!("{name} {}, {to}", named(size, branch & 31)));
    }
    // tbz, tbnz
    if branch & 0x7e00_0000 == 0x3600_0000 {
        let number = bit(31) << 5 | branch >> 19 & 31;
        let name = if bit(24) == 1 { "tbnz" } else { "tbz" };
        let compared = Compared { left: own, right: Operand::Immediate(1 << number), bytes: 8 };
        return (Some(compared), format!("{name} {}, #{number}, {to}", named('x', branch & 31)));
    }
    let condition = format!("b.{} {to}", CONDITIONS[(branch & 15) as usize]);
    match before.last().and_then(|code| compared(word(code))) {
        Some((compared, text)) => (Some(compared), format!("{text}; {condition}")),
        None => (None, condition),
    }
}

/// `cmp` and `tst` with a register or a number.
fn compared(word: u32) -> Option<(Compared, String)> {
    let (size, bytes) = if word >> 31 == 1 { ('x', 8) } else { ('w', 4) };
    let (destination, first, second) = (word & 31, word >> 5 & 31, word >> 16 & 31);
    if destination != 31 || first == 31 {
        return None;
    }
    let left = register(first);
    let of = |name: &str, right: Operand, shown: String| {
        let text = format!("{name} {}, {shown}", named(size, first));
        Some((Compared { left, right, bytes }, text))
    };
    let number = u64::from(word >> 10 & 0xfff) << (12 * (word >> 22 & 1));
    match word {
        // subs (immediate), subs and ands (shifted register, not shifted)
        _ if word & 0x7f80_0000 == 0x7100_0000 => {
            of("cmp", Operand::Immediate(number), format!("#{number}"))
        }
        _ if word & 0x7fe0_fc00 == 0x6b00_0000 => of("cmp", register(second), named(size, second)),
        _ if word & 0x7fe0_fc00 == 0x6a00_0000 => of("tst", register(second), named(size, second)),
        _ => None,
    }
}

/// The value of a register; 31 is 0 here.
fn register(number: u32) -> Operand {
    match number {
        31 => Operand::Immediate(0),
        number => Operand::Register { number: number as u8, shift: 0 },
    }
}

fn named(size: char, number: u32) -> String {
    match number {
        31 => format!("{size}zr"),
        number => format!("{size}{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_found_with_their_values() {
        let of = |words: &[u32]| {
            let bytes: Vec<[u8; 4]> = words.iter().map(|word| word.to_le_bytes()).collect();
            let codes: Vec<&[u8]> = bytes.iter().map(|code| &code[..]).collect();
            decide(0, 0x1000, &codes)
        };
        let x3 = Operand::Register { number: 3, shift: 0 };
        // cbz x3, +8
        let (found, text) = of(&[0xb400_0043]);
        assert_eq!(text, "cbz x3, 0x1008");
        assert_eq!(found, Some(Compared { left: x3, right: Operand::Immediate(0), bytes: 8 }));
        // tbnz w3, #5, +8
        let (found, text) = of(&[0x3728_0043]);
        assert_eq!(text, "tbnz x3, #5, 0x1008");
        assert_eq!(found.unwrap().right, Operand::Immediate(32));
        // cmp w3, #5; b.ne +8
        let (found, text) = of(&[0x7100_147f, 0x5400_0041]);
        assert_eq!(text, "cmp w3, #5; b.ne 0x100c");
        assert_eq!(found, Some(Compared { left: x3, right: Operand::Immediate(5), bytes: 4 }));
        // cmp x3, x4; tst x3, x4
        let x4 = Operand::Register { number: 4, shift: 0 };
        assert_eq!(of(&[0xeb04_007f, 0x5400_0041]).0.unwrap().right, x4);
        assert_eq!(of(&[0xea04_007f, 0x5400_0041]).1, "tst x3, x4; b.ne 0x100c");
        // nop; b.ne +8
        assert_eq!(of(&[0xd503_201f, 0x5400_0041]), (None, "b.ne 0x100c".into()));
    }
}
