//! Valgrind's client requests: an instruction sequence that does nothing on a processor, with `rax` at six words in memory: the
//! request's number and five arguments (`valgrind.h`, "the architecture-specific sections").
//!
//! In QEMU a register's value is known where a block begins. The plugin goes from there through the block's instructions and follows
//! the ones that compilers put before a request. An instruction that it does not follow makes what it writes unknown.

use super::registers::{self, GENERAL};
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

/// `rol $3,%rdi; rol $13,%rdi; rol $61,%rdi; rol $51,%rdi; xchg %rbx,%rbx`.
const SEQUENCE: [u8; 19] = [
    0x48, 0xc1, 0xc7, 3, 0x48, 0xc1, 0xc7, 13, 0x48, 0xc1, 0xc7, 61, 0x48, 0xc1, 0xc7, 51, 0x48,
    0x87, 0xdb,
];
/// The bytes of the sequence's last instruction.
const LAST_BYTES: usize = 3;

/// A request that callgrind knows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Request {
    Dump(Option<String>),
    Zero,
    ToggleCollect,
    Start,
    Stop,
}

/// Whether the sequence ends with an instruction.
///
/// `code`: the instruction's bytes; `address`: its address.
pub(crate) fn ends(code: &[u8], address: u64) -> bool {
    let (before, last) = SEQUENCE.split_at(SEQUENCE.len() - LAST_BYTES);
    if code != last {
        return false;
    }
    let mut bytes = [0; SEQUENCE.len() - LAST_BYTES];
    registers::read(address.wrapping_sub(bytes.len() as u64), &mut bytes) && bytes == before
}

/// Reads the request whose words are at an address; `None` for requests to other tools.
///
/// # Errors
/// The program's memory cannot be read there.
pub(crate) fn read(arguments: u64) -> Result<Option<Request>, ()> {
    let number = registers::word(arguments).ok_or(())?;
    // callgrind.h: 'C' and 'T' in the upper half, then the requests in their order.
    let base = u64::from(u32::from_be_bytes([b'C', b'T', 0, 0]));
    Ok(Some(match number.wrapping_sub(base) {
        0 => Request::Dump(None),
        1 => Request::Zero,
        2 => Request::ToggleCollect,
        3 => {
            let name = registers::word(arguments.wrapping_add(8)).ok_or(())?;
            let name =
                registers::text(name).map(|text| String::from_utf8_lossy(&text).into_owned());
            Request::Dump(Some(name.ok_or(())?))
        }
        4 => Request::Start,
        5 => Request::Stop,
        _ => return Ok(None),
    }))
}

/// The registers, as far as they are known.
struct State([Option<u64>; GENERAL]);

/// Returns the number of a general register of 64 bits, or of its lower half.
fn number(register: Register) -> Option<usize> {
    (register.is_gpr64() || register.is_gpr32()).then(|| register.number())
}

impl State {
    fn of(&self, register: Register) -> Option<u64> {
        let value = self.0[number(register)?]?;
        Some(if register.is_gpr32() { value & u64::from(u32::MAX) } else { value })
    }

    fn set(&mut self, register: Register, value: Option<u64>) {
        if let Some(number) = number(register) {
            // Writing the lower half clears the upper (Intel SDM volume 1, section 3.4.1.1).
            let half =
                |value| if register.is_gpr32() { value & u64::from(u32::MAX) } else { value };
            self.0[number] = value.map(half);
        }
    }

    fn address(&self, instruction: &Instruction) -> Option<u64> {
        if instruction.is_ip_rel_memory_operand() {
            return Some(instruction.ip_rel_memory_address());
        }
        if !matches!(instruction.segment_prefix(), Register::None) {
            return None;
        }
        let part = |register| match register {
            Register::None => Some(0),
            register => self.of(register),
        };
        let index =
            part(instruction.memory_index())?.wrapping_mul(instruction.memory_index_scale().into());
        Some(
            part(instruction.memory_base())?
                .wrapping_add(index)
                .wrapping_add(instruction.memory_displacement64()),
        )
    }

    /// The value of an operand that is read.
    fn value(&self, instruction: &Instruction, operand: u32) -> Option<u64> {
        match instruction.op_kind(operand) {
            OpKind::Register => self.of(instruction.op_register(operand)),
            OpKind::Memory if instruction.memory_size().size() == 8 => {
                registers::word(self.address(instruction)?)
            }
            OpKind::Memory => None,
            _ => instruction.try_immediate(operand).ok(),
        }
    }

    fn follow(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        let to_register = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register;
        let target = if to_register { instruction.op0_register() } else { Register::None };
        let two = |change: fn(u64, u64) -> u64| {
            Some(change(self.value(instruction, 0)?, self.value(instruction, 1)?))
        };
        let value = match instruction.mnemonic() {
            Mnemonic::Xor | Mnemonic::Sub
                if to_register && target == instruction.op1_register() =>
            {
                Some(0)
            }
            Mnemonic::Lea => self.address(instruction),
            Mnemonic::Mov => self.value(instruction, 1),
            Mnemonic::Add => two(u64::wrapping_add),
            Mnemonic::Sub => two(u64::wrapping_sub),
            Mnemonic::And => two(|left, right| left & right),
            Mnemonic::Rol if to_register => two(|value, bits| value.rotate_left(bits as u32 & 63)),
            Mnemonic::Push => {
                let pushed = self.of(Register::RSP).map(|stack| stack.wrapping_sub(8));
                return self.set(Register::RSP, pushed);
            }
            Mnemonic::Pop => {
                let stack = self.of(Register::RSP);
                self.set(target, stack.and_then(registers::word));
                return self.set(Register::RSP, stack.map(|stack| stack.wrapping_add(8)));
            }
            _ => {
                for used in factory.info(instruction).used_registers() {
                    if !matches!(
                        used.access(),
                        OpAccess::Read
                            | OpAccess::CondRead
                            | OpAccess::None
                            | OpAccess::NoMemAccess
                    ) {
                        self.set(used.register().full_register(), None);
                    }
                }
                return;
            }
        };
        match target {
            Register::None => {}
            target if number(target).is_some() => self.set(target, value),
            target => self.set(target.full_register(), None),
        }
    }
}

/// Returns the address in `rax` at an instruction of a block, if it can be told.
///
/// `begun`: the registers where the block began; `codes`: the block's instructions up to this one; `start`: the block's address.
pub(crate) fn arguments(begun: &[u64; GENERAL], codes: &[Vec<u8>], start: u64) -> Option<u64> {
    let mut state = State(begun.map(Some));
    let mut factory = InstructionInfoFactory::new();
    let mut at = start;
    for code in codes {
        let instruction = Decoder::with_ip(64, code, at, DecoderOptions::NONE).decode();
        state.follow(&instruction, &mut factory);
        at = at.wrapping_add(code.len() as u64);
    }
    state.of(Register::RAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rax(codes: &[&[u8]]) -> Option<u64> {
        let mut begun = [0; GENERAL];
        begun[registers::STACK] = 0x7000;
        begun[5] = 0x8000;
        let codes: Vec<Vec<u8>> = codes.iter().map(|code| code.to_vec()).collect();
        arguments(&begun, &codes, 0x1000)
    }

    #[test]
    fn the_place_of_the_arguments_is_followed_through_a_block() {
        // lea 0x40(%rsp),%rax
        assert_eq!(rax(&[&[0x48, 0x8d, 0x44, 0x24, 0x40]]), Some(0x7040));
        // lea -0x50(%rbp),%rcx; mov %rcx,%rax
        assert_eq!(rax(&[&[0x48, 0x8d, 0x4d, 0xb0], &[0x48, 0x89, 0xc8]]), Some(0x7fb0));
        // sub $0x20,%rsp; mov %rsp,%rax; add $8,%rax
        let codes: [&[u8]; 3] =
            [&[0x48, 0x83, 0xec, 0x20], &[0x48, 0x89, 0xe0], &[0x48, 0x83, 0xc0, 8]];
        assert_eq!(rax(&codes), Some(0x6fe8));
        // lea 0x100(%rip),%rax
        assert_eq!(rax(&[&[0x48, 0x8d, 0x05, 0, 1, 0, 0]]), Some(0x1107));
        // mov (%rcx),%rax reads the program's memory, which has no page 0.
        assert_eq!(rax(&[&[0x48, 0x8b, 0x01]]), None);
        // cpuid writes rax.
        assert_eq!(rax(&[&[0x48, 0x89, 0xe0], &[0x0f, 0xa2]]), None);
        // mov %rsp,%rax; xor %eax,%eax
        assert_eq!(rax(&[&[0x48, 0x89, 0xe0], &[0x31, 0xc0]]), Some(0));
    }

    #[test]
    fn requests_are_read_from_memory() {
        let name = c"here";
        let words = |number: u64| [0x4354_0000 + number, name.as_ptr().addr() as u64, 0, 0, 0, 0];
        let read = |words: &[u64; 6]| read(words.as_ptr().addr() as u64);
        assert_eq!(read(&words(3)), Ok(Some(Request::Dump(Some("here".into())))));
        assert_eq!(read(&words(5)), Ok(Some(Request::Stop)));
        assert_eq!(read(&[0x1001, 0, 0, 0, 0, 0]), Ok(None));
        assert_eq!(super::read(8), Err(()));
    }

    #[test]
    fn the_sequence_is_known_by_its_bytes() {
        let at = SEQUENCE.as_ptr().addr() as u64 + 16;
        assert!(ends(&SEQUENCE[16..], at));
        let other = {
            let mut other = SEQUENCE;
            other[7] = 14;
            other
        };
        assert!(!ends(&other[16..], other.as_ptr().addr() as u64 + 16));
        assert!(!ends(&[0x90], at));
    }
}
