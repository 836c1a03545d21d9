//! Instructions encoded by hand, and streams of them through a core.

use opcost_core_model::{Access, Core, Cycles, Events, Machine};

pub(crate) type Bytes = Vec<u8>;

pub(crate) const RAX: u8 = 0;
pub(crate) const RCX: u8 = 1;
pub(crate) const RDX: u8 = 2;
pub(crate) const RBX: u8 = 3;
pub(crate) const RSP: u8 = 4;
pub(crate) const RSI: u8 = 6;
pub(crate) const R8: u8 = 8;

/// An instruction of two 64-bit registers: REX.W, opcode, ModRM (Intel SDM volume 2, section 2.1).
fn registers(opcode: &[u8], reg: u8, rm: u8) -> Bytes {
    let mut code = vec![0x48 | (reg >> 3) << 2 | rm >> 3];
    code.extend(opcode);
    code.push(0xc0 | (reg & 7) << 3 | rm & 7);
    code
}

/// An instruction of a 64-bit register and `[base + displacement]`.
fn memory(prefix: &[u8], opcode: &[u8], reg: u8, base: u8, displacement: i8) -> Bytes {
    let mut code = prefix.to_vec();
    code.push(0x48 | (reg >> 3) << 2 | base >> 3);
    code.extend(opcode);
    code.push(0x40 | (reg & 7) << 3 | base & 7);
    if base & 7 == RSP {
        code.push(0x24);
    }
    code.push(displacement as u8);
    code
}

pub(crate) fn add(to: u8, from: u8) -> Bytes {
    registers(&[0x01], from, to)
}

pub(crate) fn cmp(one: u8, other: u8) -> Bytes {
    registers(&[0x39], other, one)
}

pub(crate) fn xor(to: u8, from: u8) -> Bytes {
    registers(&[0x31], from, to)
}

pub(crate) fn mov(to: u8, from: u8) -> Bytes {
    registers(&[0x89], from, to)
}

/// An addition with the carry flag.
pub(crate) fn adc(to: u8, from: u8) -> Bytes {
    registers(&[0x11], from, to)
}

pub(crate) fn imul(to: u8, from: u8) -> Bytes {
    registers(&[0x0f, 0xaf], to, from)
}

/// `div`: rdx:rax by a register.
pub(crate) fn div(by: u8) -> Bytes {
    registers(&[0xf7], 6, by)
}

pub(crate) fn load(to: u8, base: u8, displacement: i8) -> Bytes {
    memory(&[], &[0x8b], to, base, displacement)
}

pub(crate) fn store(from: u8, base: u8, displacement: i8) -> Bytes {
    memory(&[], &[0x89], from, base, displacement)
}

/// `mov byte [base + displacement], al`.
pub(crate) fn store_byte(base: u8, displacement: i8) -> Bytes {
    vec![0x88, 0x40 | base & 7, displacement as u8]
}

/// `lock add [base], from`.
pub(crate) fn lock_add(base: u8, from: u8) -> Bytes {
    memory(&[0xf0], &[0x01], from, base, 0)
}

/// `mov al, cl`: merged with the rest of rax.
pub(crate) fn mov_byte() -> Bytes {
    vec![0x88, 0xc8]
}

/// `jne` over no bytes: to the next instruction if it is not taken.
pub(crate) fn jne() -> Bytes {
    vec![0x75, 0x10]
}

/// `jmp rax`.
pub(crate) fn jmp_rax() -> Bytes {
    vec![0xff, 0xe0]
}

/// `call` of a fixed place.
pub(crate) fn call() -> Bytes {
    vec![0xe8, 0, 1, 0, 0]
}

pub(crate) fn ret() -> Bytes {
    vec![0xc3]
}

/// `pxor xmm, xmm`, `addsd`, `mulsd` and others: prefix 66, f2 or f3, opcode after 0f.
pub(crate) fn vector(prefix: u8, opcode: u8, to: u8, from: u8) -> Bytes {
    vec![prefix, 0x0f, opcode, 0xc0 | to << 3 | from]
}

pub(crate) fn zen4() -> Core {
    Core::shipped("zen4").unwrap()
}

pub(crate) fn access(instruction: usize, store: bool, bytes: u16, address: u64) -> Access {
    Access { instruction: instruction as u16, store, bytes, address }
}

/// Code that is executed repeatedly, without jumps between.
pub(crate) struct Again<'a> {
    core: &'a Core,
    codes: Vec<Bytes>,
    /// The accesses in a turn.
    accesses: Box<dyn Fn(u64) -> Vec<Access> + 'a>,
}

/// Turns before the ones that are measured.
const WARM: u64 = 200;

impl<'a> Again<'a> {
    pub(crate) fn new(core: &'a Core, codes: &[Bytes]) -> Again<'a> {
        Again { core, codes: codes.to_vec(), accesses: Box::new(|_| Vec::new()) }
    }

    pub(crate) fn with(mut self, accesses: impl Fn(u64) -> Vec<Access> + 'a) -> Again<'a> {
        self.accesses = Box::new(accesses);
        self
    }

    /// Returns the cycles and events of some turns, after a warm-up.
    pub(crate) fn turns(&self, turns: u64) -> (Cycles, Events) {
        self.turns_after(WARM, turns)
    }

    pub(crate) fn turns_after(&self, warm: u64, turns: u64) -> (Cycles, Events) {
        let codes: Vec<&[u8]> = self.codes.iter().map(Vec::as_slice).collect();
        let code = self.core.decode(0x40_1000, &codes);
        let mut machine = Machine::new(self.core);
        let mut cycles = Cycles::default();
        let mut before = Events::default();
        for turn in 0..warm + turns {
            if turn == warm {
                before = machine.events();
            }
            let took = machine.execute(&code, 0..codes.len(), &(self.accesses)(turn), code.end());
            if turn >= warm {
                cycles += took;
            }
        }
        (cycles, machine.events() - before)
    }

    /// Returns the cycles of a hundred turns, averaged over ten thousand.
    pub(crate) fn hundred(&self) -> u64 {
        (self.turns(10_000).0.total() + 50) / 100
    }
}
