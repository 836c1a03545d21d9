//! What decides a conditional branch: the comparison in front of it, with the places of the values that are compared.

use crate::stack::Stack;

/// Where a compared value is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operand {
    /// In a general register, by its number, some bits up.
    Register { number: u8, shift: u8 },
    /// In the instruction.
    Immediate(u64),
    /// In memory: registers by their numbers, the index with its scale.
    Memory { base: Option<u8>, index: Option<(u8, u8)>, displacement: u64 },
}

impl Operand {
    /// Returns the value when a block begins, `bytes` long in memory; `None` if registers or memory cannot be read.
    pub(crate) fn value(self, stack: &Stack, bytes: u8) -> Option<u64> {
        match self {
            Operand::Immediate(value) => Some(value),
            Operand::Register { number, shift } => Some(stack.register(number)? >> shift),
            Operand::Memory { base, index, displacement } => {
                let part = |number: Option<u8>| number.map_or(Some(0), |one| stack.register(one));
                let scaled = index.map_or(1, |(_, scale)| u64::from(scale));
                let scaled = part(index.map(|(number, _)| number))?.wrapping_mul(scaled);
                let address = part(base)?.wrapping_add(scaled).wrapping_add(displacement);
                let mut value = [0; 8];
                let read = stack.read(address, value.get_mut(..bytes.into())?);
                read.then(|| u64::from_le_bytes(value))
            }
        }
    }
}

/// A comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Compared {
    pub(crate) left: Operand,
    pub(crate) right: Operand,
    /// The size of the values.
    pub(crate) bytes: u8,
}

/// Finds the comparison in front of the branch that ends a block: the block's address, the address that the linker gave it, and the
/// bytes of each instruction. Returns it with its values, if they can be read, and both as assembly.
pub(crate) type Decide = fn(u64, u64, &[&[u8]]) -> (Option<Compared>, String);

/// What decides the branch at the end of a block.
#[derive(Clone, Debug)]
pub(crate) struct Decider {
    /// The block's function.
    pub(crate) function: u32,
    /// The branch's link address.
    pub(crate) address: u64,
    /// The address at which the block that a taken branch leads to begins.
    pub(crate) target: u64,
    pub(crate) compared: Option<Compared>,
    /// The comparison and the branch as assembly.
    pub(crate) text: String,
}
