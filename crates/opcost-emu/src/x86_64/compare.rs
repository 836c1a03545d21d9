//! Finds the comparison in front of a conditional branch.

use crate::compare::{Compared, Operand};
use iced_x86::{
    Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, Mnemonic, OpKind, Register,
};

/// Returns the comparison in front of the branch that ends a block, if its values can still be read behind the branch, and both as
/// assembly. `start`, `linked`: the block's address, and the address that the linker gave it.
pub(crate) fn decide(start: u64, linked: u64, codes: &[&[u8]]) -> (Option<Compared>, String) {
    let decode = |mut at: u64| -> Vec<Instruction> {
        codes
            .iter()
            .map(|code| {
                let decoded = Decoder::with_ip(64, code, at, DecoderOptions::NONE).decode();
                at = at.wrapping_add(code.len() as u64);
                decoded
            })
            .collect()
    };
    let (here, shown) = (decode(start), decode(linked));
    let Some(branch) = shown.last() else { return (None, String::new()) };
    let writes = |one: &Instruction| one.rflags_modified() != 0;
    let place = here[..here.len() - 1].iter().rposition(writes);
    let text = |one: &Instruction| {
        let (mut text, mut formatter) = (String::new(), GasFormatter::new());
        formatter.options_mut().set_uppercase_hex(false);
        formatter.options_mut().set_branch_leading_zeros(false);
        formatter.format(one, &mut text);
        text
    };
    match place {
        Some(place) => {
            let both = format!("{}; {}", text(&shown[place]), text(branch));
            let between = &here[place + 1..here.len() - 1];
            (
                compared(&here[place]).filter(|one| between.iter().all(|next| leaves(next, one))),
                both,
            )
        }
        None => (None, text(branch)),
    }
}

/// Whether an instruction behind a comparison changes none of its values, for certain.
fn leaves(next: &Instruction, compared: &Compared) -> bool {
    let moves = matches!(next.mnemonic(), Mnemonic::Mov | Mnemonic::Lea | Mnemonic::Nop);
    let target = match next.op0_kind() {
        OpKind::Register => number(next.op0_register()),
        _ => None,
    };
    let uses = |operand: Operand| match operand {
        Operand::Register { number, .. } => target == Some(number),
        Operand::Memory { base, index, .. } => {
            target.is_some() && (base == target || index.map(|(number, _)| number) == target)
        }
        Operand::Immediate(_) => false,
    };
    let writes_memory = next.op0_kind() == OpKind::Memory;
    let reads_memory = |operand: Operand| matches!(operand, Operand::Memory { .. });
    let operands = [compared.left, compared.right];
    moves
        && !operands.into_iter().any(uses)
        && !(writes_memory && operands.into_iter().any(reads_memory))
}

fn compared(one: &Instruction) -> Option<Compared> {
    let left = operand(one, 0)?;
    let bytes = match one.op0_kind() {
        OpKind::Register => one.op0_register().size() as u8,
        _ => one.memory_size().size() as u8,
    };
    if !matches!(bytes, 1 | 2 | 4 | 8) {
        return None;
    }
    let right = match one.mnemonic() {
        Mnemonic::Test if operand(one, 1) == Some(left) => Operand::Immediate(0),
        Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt => operand(one, 1)?,
        // The result is compared with 0.
        Mnemonic::Add
        | Mnemonic::Sub
        | Mnemonic::And
        | Mnemonic::Or
        | Mnemonic::Xor
        | Mnemonic::Inc
        | Mnemonic::Dec
        | Mnemonic::Neg
        | Mnemonic::Shr
        | Mnemonic::Shl
        | Mnemonic::Sar => Operand::Immediate(0),
        _ => return None,
    };
    Some(Compared { left, right, bytes })
}

fn operand(one: &Instruction, index: u32) -> Option<Operand> {
    match one.op_kind(index) {
        OpKind::Register => {
            let register = one.op_register(index);
            let high =
                matches!(register, Register::AH | Register::BH | Register::CH | Register::DH);
            Some(Operand::Register { number: number(register)?, shift: if high { 8 } else { 0 } })
        }
        OpKind::Memory => {
            // The base of a segment is not read.
            if matches!(one.segment_prefix(), Register::FS | Register::GS) {
                return None;
            }
            let displacement = one.memory_displacement64();
            if one.is_ip_rel_memory_operand() {
                return Some(Operand::Memory { base: None, index: None, displacement });
            }
            let part = |register: Register| match register {
                Register::None => Some(None),
                register => number(register).map(Some),
            };
            let (base, index) = (part(one.memory_base())?, part(one.memory_index())?);
            let index = index.map(|index| (index, one.memory_index_scale() as u8));
            Some(Operand::Memory { base, index, displacement })
        }
        _ => one.try_immediate(index).ok().map(Operand::Immediate),
    }
}

/// The number of a general register.
fn number(register: Register) -> Option<u8> {
    register.is_gpr().then(|| register.full_register().number() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAX: Operand = Operand::Register { number: 0, shift: 0 };

    #[test]
    fn comparisons_are_found_with_their_values() {
        let jne: &[u8] = &[0x75, 0x10];
        let of = |codes: &[&[u8]]| decide(0x1000, 0x2000, codes);
        let (found, text) = of(&[&[0x83, 0xf8, 0x05], jne]);
        assert_eq!(text, "cmp $5,%eax; jne 0x2015");
        assert_eq!(found, Some(Compared { left: RAX, right: Operand::Immediate(5), bytes: 4 }));
        let (found, text) = of(&[&[0x85, 0xc0], jne]);
        assert_eq!(text, "test %eax,%eax; jne 0x2014");
        assert_eq!(found.unwrap().right, Operand::Immediate(0));
        // cmpq $0, 0x18(%rdi,%rcx,4); mov %rax, %rdx leaves it as it is; mov %rdi, … does not.
        let memory = Operand::Memory { base: Some(7), index: Some((1, 4)), displacement: 0x18 };
        let compare: &[u8] = &[0x48, 0x83, 0x7c, 0x8f, 0x18, 0x00];
        assert_eq!(of(&[compare, jne]).0.unwrap().left, memory);
        assert_eq!(of(&[compare, &[0x48, 0x89, 0xc2], jne]).0.unwrap().bytes, 8);
        assert_eq!(of(&[compare, &[0x48, 0x89, 0xc7], jne]).0, None);
        assert_eq!(of(&[compare, &[0x48, 0x89, 0x07], jne]).0, None, "a store");
        // cmp %gs:0, %eax
        assert_eq!(of(&[&[0x65, 0x3b, 0x04, 0x25, 0, 0, 0, 0], jne]).0, None);
        // test %ah, %ah
        let high = Operand::Register { number: 0, shift: 8 };
        assert_eq!(of(&[&[0x84, 0xe4], jne]).0.unwrap().left, high);
        assert_eq!(of(&[jne]), (None, "jne 0x2012".into()));
    }

    #[test]
    fn an_address_from_the_instruction_pointer_is_that_of_the_running_code() {
        // cmpl $1, 0x10(%rip)
        let codes: [&[u8]; 2] = [&[0x83, 0x3d, 0x10, 0, 0, 0, 1], &[0x74, 0]];
        let (found, text) = decide(0x5000, 0x2000, &codes);
        let left = Operand::Memory { base: None, index: None, displacement: 0x5017 };
        assert_eq!(found.unwrap().left, left);
        assert!(text.contains("0x2017") || text.contains("(%rip)"), "{text}");
    }
}
