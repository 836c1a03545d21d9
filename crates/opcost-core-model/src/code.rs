//! Decodes the bytes of a block into the properties that the model needs of each instruction.

use crate::class::{Class, Queue, by_name};
use crate::figures::Core;
use iced_x86::{
    Code as Form, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register, RflagsBits,
};

/// Places of registers; a power of two, so that a mask keeps every place in range.
pub(crate) const REGISTERS: usize = 128;
/// The register that nothing writes: it is always ready.
pub(crate) const READY: u8 = 0;
/// The register that nothing reads.
pub(crate) const SINK: u8 = 127;
const GENERAL: u8 = 1;
const VECTOR: u8 = GENERAL + 16;
const MASK: u8 = VECTOR + 32;
const X87: u8 = MASK + 8;
const MMX: u8 = X87 + 8;
/// The carry flag.
const CARRY: u8 = MMX + 8;
/// Every other arithmetic flag.
const FLAGS: u8 = CARRY + 1;
/// The direction flag.
const DIRECTION: u8 = FLAGS + 1;

/// How control leaves an instruction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Flow {
    Next,
    Branch,
    Jump,
    JumpIndirect,
    Call,
    CallIndirect,
    Return,
}

/// How an instruction goes through the core.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// The instruction occupies a unit for its operation.
    Plain,
    /// The instruction is a load or a store without an operation.
    Transfer,
    /// The instruction does not execute; results are ready at once.
    Free,
    /// Renaming moves the register.
    Moved,
    /// A locked instruction.
    Locked,
    /// A string instruction that hardware moves line by line.
    Lines,
    /// A string instruction that hardware executes element by element.
    Elements,
    /// `mfence`.
    Fence,
    /// `lfence`: later instructions wait for all earlier ones.
    FenceLoad,
    /// Nothing enters the window for some cycles.
    Stall,
    /// The instruction waits for all before it, and all behind it wait for it.
    Serialising,
    /// A serialising instruction that enters the kernel.
    Entering,
}

/// The instruction reads memory.
pub(crate) const LOADS: u16 = 1;
/// The instruction writes memory.
pub(crate) const STORES: u16 = 2;
/// Loads and stores are of vector registers.
pub(crate) const IN_VECTOR: u16 = 4;
/// The memory operand is on the stack, addressed by a stack register and a constant.
pub(crate) const ON_STACK: u16 = 8;
/// The instruction can fuse with the branch behind it, or is a branch that can fuse with the instruction before it.
pub(crate) const FUSES: u16 = 16;
/// Each access stands alone; none is a part of another.
pub(crate) const SCATTERED: u16 = 32;
/// Stores bypass the caches.
pub(crate) const PAST_CACHES: u16 = 64;
/// No class fits the instruction.
pub(crate) const UNKNOWN: u16 = 128;
/// The instruction and the branch behind it are fused and take the branch's unit.
pub(crate) const PAIRED: u16 = 512;
/// The address has a scaled index.
pub(crate) const SCALED: u16 = 256;

/// An instruction as one core executes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// Offset from the block's start.
    pub(crate) offset: u32,
    pub(crate) latency: u16,
    pub(crate) occupancy: u16,
    pub(crate) length: u8,
    pub(crate) slots: u8,
    pub(crate) group: u8,
    /// Cycles saved if the operand comes from the same class.
    pub(crate) chained: u8,
    pub(crate) flags: u16,
    /// Cycles by which the second result is later than the first.
    pub(crate) second_later: u8,
    pub(crate) queue: Queue,
    pub(crate) kind: Kind,
    pub(crate) flow: Flow,
    pub(crate) sources: [u8; 4],
    pub(crate) address: [u8; 2],
    pub(crate) results: [u8; 4],
}

/// A block, decoded for one core.
#[derive(Clone, Debug)]
pub struct Code {
    pub(crate) start: u64,
    pub(crate) ops: Box<[Op]>,
}

impl Code {
    /// The number of instructions in the block.
    pub fn instructions(&self) -> usize {
        self.ops.len()
    }

    /// The block's first address.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The address behind the block's last instruction.
    pub fn end(&self) -> u64 {
        let behind = |op: &Op| self.start.wrapping_add(u64::from(op.offset) + u64::from(op.length));
        self.ops.last().map_or(self.start, behind)
    }
}

impl Core {
    /// Decodes a block.
    ///
    /// `start`: address of the first instruction; `codes`: the bytes of each. The mode of the processor is the first of 64, 32 and
    /// 16 bits in which the lengths of all instructions agree. Instructions that no mode decodes are of the class `unknown`.
    pub fn decode(&self, start: u64, codes: &[&[u8]]) -> Code {
        let mut factory = InstructionInfoFactory::new();
        let all = [64, 32, 16].into_iter().find_map(|bits| decoded(bits, start, codes, true));
        let all = all.or_else(|| decoded(64, start, codes, false)).unwrap_or_default();
        let mut offset = 0;
        let ops = all.iter().zip(codes).map(|(instruction, code)| {
            let length = code.len().min(255) as u8;
            let op = InstructionDecoder { core: self, instruction, factory: &mut factory }
                .op(offset, length);
            offset += u32::from(length);
            op
        });
        let mut ops: Box<[Op]> = ops.collect();
        for place in 1..ops.len() {
            let group = ops[place].group;
            let is_branch = ops[place].flow == Flow::Branch && ops[place].flags & FUSES != 0;
            let before = &mut ops[place - 1];
            if is_branch && before.flow == Flow::Next && before.flags & FUSES != 0 {
                before.flags |= PAIRED;
                before.group = group;
            }
        }
        Code { start, ops }
    }
}

/// Decodes the instructions of a block in one mode. `strict`: returns `None` if one of them but the last does not fit.
fn decoded(bits: u32, start: u64, codes: &[&[u8]], strict: bool) -> Option<Vec<Instruction>> {
    let mut all = Vec::with_capacity(codes.len());
    let mut at = start;
    for (place, code) in codes.iter().enumerate() {
        let instruction = Decoder::with_ip(bits, code, at, DecoderOptions::NONE).decode();
        let fits = !instruction.is_invalid() && instruction.len() == code.len();
        if strict && !fits && (place + 1 < codes.len() || place == 0) {
            return None;
        }
        all.push(if fits { instruction } else { Instruction::default() });
        at = at.wrapping_add(code.len() as u64);
    }
    Some(all)
}

/// Returns a register's place.
fn place(register: Register) -> Option<u8> {
    let full = register.full_register();
    let number = full.number() as u8;
    if full.is_gpr() {
        Some(GENERAL + number)
    } else if full.is_vector_register() {
        Some(VECTOR + number)
    } else if full.is_k() {
        Some(MASK + number)
    } else if full.is_st() {
        Some(X87 + number)
    } else if full.is_mm() {
        Some(MMX + number)
    } else {
        None
    }
}

/// A set of register places, limited to `COUNT`.
struct Places<const COUNT: usize> {
    places: [u8; COUNT],
    count: usize,
}

impl<const COUNT: usize> Places<COUNT> {
    fn new(empty: u8) -> Places<COUNT> {
        Places { places: [empty; COUNT], count: 0 }
    }

    fn add(&mut self, place: u8) {
        if self.count < COUNT && !self.places[..self.count].contains(&place) {
            self.places[self.count] = place;
            self.count += 1;
        }
    }
}

/// Properties of an instruction that follow from its form.
struct Shape {
    class: Class,
    kind: Kind,
    flags: u16,
}

struct InstructionDecoder<'a> {
    core: &'a Core,
    instruction: &'a Instruction,
    factory: &'a mut InstructionInfoFactory,
}

impl InstructionDecoder<'_> {
    fn op(&mut self, offset: u32, length: u8) -> Op {
        let instruction = self.instruction;
        let flow = flow(instruction);
        let stack_engine = moves_stack_pointer_only(instruction);
        let mut sources = Places::<4>::new(READY);
        let mut address = Places::<2>::new(READY);
        let mut results = Places::<4>::new(SINK);
        let (mut loads, mut stores, mut on_stack, mut scaled) = (0, 0, false, false);
        let info = self.factory.info(instruction);
        for memory in info.used_memory() {
            let access = memory.access();
            let reads = matches!(
                access,
                OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            let writes = matches!(
                access,
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            );
            loads += u32::from(reads);
            stores += u32::from(writes);
            if reads || writes {
                let index = memory.index();
                scaled |= index != Register::None && memory.scale() > 1;
                on_stack = index == Register::None
                    && matches!(memory.base().full_register(), Register::RSP | Register::RBP);
            }
            for register in [memory.base(), memory.index()] {
                if let Some(place) = place(register) {
                    address.add(place);
                }
            }
        }
        let mut explicit = Vec::new();
        for operand in 0..instruction.op_count() {
            if instruction.op_kind(operand) == OpKind::Register {
                let register = instruction.op_register(operand);
                explicit.push((register, info.op_access(operand)));
            }
        }
        // An address is no operand, except for `lea`.
        let is_lea = instruction.mnemonic() == Mnemonic::Lea;
        let by_address = |place| !is_lea && address.places[..address.count].contains(&place);
        let reads = |access| {
            use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite};
            matches!(access, Read | CondRead | ReadWrite | ReadCondWrite | CondWrite)
        };
        let writes = |access| {
            use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
            matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
        };
        let moves_itself =
            |register: Register| stack_engine && register.full_register() == Register::RSP;
        // Cores know vector registers whose upper part is 0, as compilers leave it, and need no operand for such a part (AMD,
        // Software Optimization Guide 19h, section 2.11.4).
        let keeps_zeros = keeps_upper_part(instruction);
        for (number, (register, access)) in explicit.iter().enumerate() {
            if let Some(place) = place(*register)
                && reads(*access)
                && !moves_itself(*register)
                && !(keeps_zeros && number == 0)
            {
                sources.add(place);
            }
        }
        for used in info.used_registers() {
            let (register, access) = (used.register(), used.access());
            let Some(place) = place(register) else { continue };
            if moves_itself(register) {
                continue;
            }
            let named =
                explicit.iter().any(|(other, _)| other.full_register() == register.full_register());
            if reads(access) && !by_address(place) && !(keeps_zeros && named) {
                sources.add(place);
            }
            if writes(access) {
                results.add(place);
                // A write to a part of a general register is merged with the rest of the register.
                if register.is_gpr8() || register.is_gpr16() {
                    sources.add(place);
                }
            }
        }
        let (reads, writes) = (instruction.rflags_read(), instruction.rflags_modified());
        let others =
            RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::PF;
        for (bits, place) in [(RflagsBits::CF, CARRY), (others, FLAGS), (RflagsBits::DF, DIRECTION)]
        {
            if reads & bits != 0 {
                sources.add(place);
            }
            if writes & bits != 0 {
                results.add(place);
            }
        }
        let Shape { class, kind, mut flags } = self.form(loads > 0, stores > 0);
        if is_dependency_breaking(instruction) {
            // The operands do not matter, except the carry flag of `sbb`.
            let carry = sources.places.contains(&CARRY) && class == Class::AluCarry;
            sources = Places::new(READY);
            if carry {
                sources.add(CARRY);
            }
        }
        if loads > 0 {
            flags |= LOADS;
        }
        if stores > 0 {
            flags |= STORES;
        }
        if on_stack {
            flags |= ON_STACK;
        }
        if scaled {
            flags |= SCALED;
        }
        if matches!(class, Class::Gather | Class::Scatter) {
            flags |= SCATTERED;
        }
        if loads + stores > 0 && self.in_vector(&explicit) {
            flags |= IN_VECTOR;
        }
        if class == Class::Unknown {
            flags |= UNKNOWN;
        }
        let cost = self.core.cost(class);
        let wide = explicit.iter().any(|(register, _)| {
            register.is_vector_register() && register.size() as u64 > self.core.width.vector_bytes
        });
        let second_later = match class {
            Class::MultiplyHigh => {
                let low = self.core.cost(Class::Multiply64).latency;
                cost.latency.saturating_sub(low).min(255) as u8
            }
            _ => 0,
        };
        match instruction.mnemonic() {
            // The lower half is the second operand and is ready first.
            Mnemonic::Mulx => results.places.swap(0, 1),
            // rax has the lower half, rdx the upper one.
            _ if class == Class::MultiplyHigh => results.places.sort_unstable(),
            _ => {}
        }
        Op {
            offset,
            latency: cost.latency - u16::from(second_later),
            occupancy: if wide { cost.occupancy * 2 } else { cost.occupancy },
            length,
            slots: cost.slots,
            group: cost.group,
            chained: cost.chained,
            flags,
            second_later,
            queue: if kind == Kind::Plain { class.queue() } else { Queue::None },
            kind,
            flow,
            sources: sources.places,
            address: address.places,
            results: results.places,
        }
    }

    /// Whether the instruction loads into or stores from a vector register.
    fn in_vector(&self, explicit: &[(Register, OpAccess)]) -> bool {
        let vector = |register: Register| {
            register.is_vector_register() || register.is_mm() || register.is_st()
        };
        explicit.iter().any(|(register, _)| vector(*register))
            && !matches!(
                self.instruction.mnemonic(),
                Mnemonic::Cvtsi2sd | Mnemonic::Cvtsi2ss | Mnemonic::Vcvtsi2sd | Mnemonic::Vcvtsi2ss
            )
    }

    fn form(&self, loads: bool, stores: bool) -> Shape {
        let instruction = self.instruction;
        let plain = |class| Shape { class, kind: Kind::Plain, flags: 0 };
        let of_kind = |class, kind| Shape { class, kind, flags: 0 };
        if instruction.is_invalid() {
            return plain(Class::Unknown);
        }
        if let Some(form) = string(instruction) {
            return form;
        }
        if instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg && loads {
            return of_kind(Class::Locked, Kind::Locked);
        }
        if self.core.rename.zero_idioms && is_zero_idiom(instruction) {
            return of_kind(Class::Nop, Kind::Free);
        }
        if let Some(form) = self.transfer(loads, stores) {
            return form;
        }
        if let Some(class) = by_operands(instruction, loads) {
            let kind = match class {
                Class::Enter => Kind::Entering,
                Class::Leave => Kind::Serialising,
                _ => Kind::Plain,
            };
            let fuses = instruction.is_jcc_short_or_near();
            return Shape { class, kind, flags: if fuses { FUSES } else { 0 } };
        }
        let Some(class) = by_name(instruction.mnemonic()) else { return plain(Class::Unknown) };
        let kind = match class {
            Class::Nop => Kind::Free,
            Class::Fence => Kind::Fence,
            Class::FenceLoad => Kind::FenceLoad,
            Class::Pause => Kind::Stall,
            Class::Serialising => Kind::Serialising,
            _ => Kind::Plain,
        };
        let fuses = self.fuses(instruction);
        Shape { class, kind, flags: if fuses { FUSES } else { 0 } }
    }

    /// Whether the instruction fuses with a branch behind it.
    fn fuses(&self, instruction: &Instruction) -> bool {
        let rename = &self.core.rename;
        let kind = match instruction.mnemonic() {
            Mnemonic::Cmp | Mnemonic::Test => rename.fuses_comparisons,
            Mnemonic::Add
            | Mnemonic::Sub
            | Mnemonic::And
            | Mnemonic::Or
            | Mnemonic::Xor
            | Mnemonic::Inc
            | Mnemonic::Dec => rename.fuses_arithmetic,
            _ => false,
        };
        let memory = (0..instruction.op_count())
            .any(|operand| instruction.op_kind(operand) == OpKind::Memory);
        let last = instruction.op_count().saturating_sub(1);
        let constant = !matches!(instruction.op_kind(last), OpKind::Register | OpKind::Memory);
        // AMD, Software Optimization Guide 19h, section 2.9: no fusion with a constant and an address relative to the instruction
        // pointer.
        kind && !(memory && constant && instruction.is_ip_rel_memory_operand())
    }

    /// Moves: between registers, loads and stores.
    fn transfer(&self, loads: bool, stores: bool) -> Option<Shape> {
        let instruction = self.instruction;
        let rename = &self.core.rename;
        let of = |class, kind, flags| Some(Shape { class, kind, flags });
        let first = instruction.op0_register();
        let second = instruction.op1_register();
        let transfer = match (loads, stores) {
            (true, false) => Some(Class::Load),
            (false, true) => Some(Class::Store),
            _ => None,
        };
        match instruction.mnemonic() {
            Mnemonic::Mov => {
                if first.is_segment_register() || first.is_cr() || first.is_dr() || second.is_cr() {
                    return of(Class::Serialising, Kind::Serialising, 0);
                }
                if second.is_segment_register() {
                    return of(Class::SegmentBase, Kind::Plain, 0);
                }
                let partial = first.is_gpr8() || first.is_gpr16();
                match transfer {
                    // The loaded part is merged with the register.
                    Some(Class::Load) if partial => of(Class::Alu, Kind::Plain, 0),
                    Some(class) => of(class, Kind::Transfer, 0),
                    None if partial || second == Register::None || !rename.moves => {
                        of(Class::Move, Kind::Plain, 0)
                    }
                    None => of(Class::Nop, Kind::Moved, 0),
                }
            }
            Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd | Mnemonic::Pop => {
                transfer.and_then(|class| of(class, Kind::Transfer, 0))
            }
            Mnemonic::Push => of(Class::Store, Kind::Transfer, 0),
            Mnemonic::Movnti | Mnemonic::Movntq => of(Class::Store, Kind::Transfer, PAST_CACHES),
            Mnemonic::Movntps
            | Mnemonic::Movntpd
            | Mnemonic::Movntdq
            | Mnemonic::Vmovntps
            | Mnemonic::Vmovntpd
            | Mnemonic::Vmovntdq => of(Class::StoreVector, Kind::Transfer, PAST_CACHES),
            Mnemonic::Movaps
            | Mnemonic::Movapd
            | Mnemonic::Movups
            | Mnemonic::Movupd
            | Mnemonic::Movdqa
            | Mnemonic::Movdqu
            | Mnemonic::Lddqu
            | Mnemonic::Movntdqa
            | Mnemonic::Vmovaps
            | Mnemonic::Vmovapd
            | Mnemonic::Vmovups
            | Mnemonic::Vmovupd
            | Mnemonic::Vmovdqa
            | Mnemonic::Vmovdqu
            | Mnemonic::Vmovdqa32
            | Mnemonic::Vmovdqa64
            | Mnemonic::Vmovdqu8
            | Mnemonic::Vmovdqu16
            | Mnemonic::Vmovdqu32
            | Mnemonic::Vmovdqu64
            | Mnemonic::Vlddqu
            | Mnemonic::Vmovntdqa
            | Mnemonic::Movss
            | Mnemonic::Movsd
            | Mnemonic::Vmovss
            | Mnemonic::Vmovsd
            | Mnemonic::Movq
            | Mnemonic::Vmovq
            | Mnemonic::Movd
            | Mnemonic::Vmovd => match transfer {
                Some(Class::Load) => of(Class::LoadVector, Kind::Transfer, 0),
                Some(_) => of(Class::StoreVector, Kind::Transfer, 0),
                None => {
                    let vector =
                        |register: Register| register.is_vector_register() || register.is_mm();
                    let scalar = matches!(
                        instruction.mnemonic(),
                        Mnemonic::Movss | Mnemonic::Movsd | Mnemonic::Vmovss | Mnemonic::Vmovsd
                    );
                    match (vector(first), vector(second)) {
                        (true, true) if scalar => of(Class::VectorBlend, Kind::Plain, 0),
                        (true, true) if rename.vector_moves => of(Class::Nop, Kind::Moved, 0),
                        (true, true) => of(Class::VectorMove, Kind::Plain, 0),
                        (true, false) => of(Class::VectorFromInteger, Kind::Plain, 0),
                        _ => of(Class::VectorToInteger, Kind::Plain, 0),
                    }
                }
            },
            Mnemonic::Movhpd
            | Mnemonic::Movhps
            | Mnemonic::Movlpd
            | Mnemonic::Movlps
            | Mnemonic::Vmovhpd
            | Mnemonic::Vmovhps
            | Mnemonic::Vmovlpd
            | Mnemonic::Vmovlps
            | Mnemonic::Vextractf128
            | Mnemonic::Vextracti128
                if stores =>
            {
                of(Class::StoreVector, Kind::Transfer, 0)
            }
            Mnemonic::Vbroadcastss
            | Mnemonic::Vbroadcastsd
            | Mnemonic::Vbroadcastf128
            | Mnemonic::Vbroadcasti128
            | Mnemonic::Vpbroadcastd
            | Mnemonic::Vpbroadcastq
            | Mnemonic::Movddup
            | Mnemonic::Vmovddup
                if loads =>
            {
                of(Class::LoadVector, Kind::Transfer, 0)
            }
            Mnemonic::Vinsertf128 | Mnemonic::Vinserti128 if loads => {
                of(Class::VectorBlend, Kind::Plain, 0)
            }
            _ => None,
        }
    }
}

/// Returns the class of an instruction whose operands decide.
fn by_operands(instruction: &Instruction, loads: bool) -> Option<Class> {
    let bits = || match instruction.op_kind(0) {
        OpKind::Memory => instruction.memory_size().size() * 8,
        _ => instruction.op0_register().size() * 8,
    };
    Some(match instruction.mnemonic() {
        Mnemonic::Lea => {
            let (base, index) = (instruction.memory_base(), instruction.memory_index());
            let parts = u32::from(base != Register::None)
                + u32::from(index != Register::None)
                + u32::from(instruction.memory_displacement64() != 0);
            if parts > 2 { Class::LeaComplex } else { Class::Lea }
        }
        Mnemonic::Mulx => {
            if bits() > 32 {
                Class::MultiplyHigh
            } else {
                Class::Multiply32
            }
        }
        Mnemonic::Mul => {
            if bits() > 32 {
                Class::MultiplyHigh
            } else {
                Class::Multiply32
            }
        }
        Mnemonic::Imul => match (bits() > 32, instruction.op_count()) {
            (true, 1) => Class::MultiplyHigh,
            (true, _) => Class::Multiply64,
            (false, _) => Class::Multiply32,
        },
        Mnemonic::Div | Mnemonic::Idiv => match bits() {
            64 => Class::Divide64,
            32 => Class::Divide32,
            _ => Class::Divide8,
        },
        Mnemonic::Xchg => Class::Exchange,
        Mnemonic::Popa | Mnemonic::Popad | Mnemonic::Pusha | Mnemonic::Pushad => Class::SaveState,
        Mnemonic::Syscall
        | Mnemonic::Sysenter
        | Mnemonic::Int
        | Mnemonic::Int1
        | Mnemonic::Int3
        | Mnemonic::Into => Class::Enter,
        Mnemonic::Sysret
        | Mnemonic::Sysretq
        | Mnemonic::Sysexit
        | Mnemonic::Sysexitq
        | Mnemonic::Iret
        | Mnemonic::Iretd
        | Mnemonic::Iretq
        | Mnemonic::Retf => Class::Leave,
        _ => match instruction.flow_control() {
            FlowControl::ConditionalBranch => Class::Branch,
            FlowControl::UnconditionalBranch if instruction.is_jmp_far() => Class::Leave,
            FlowControl::UnconditionalBranch if instruction.mnemonic() == Mnemonic::Jmp => {
                Class::Branch
            }
            FlowControl::IndirectBranch if instruction.is_jmp_far_indirect() => Class::Leave,
            FlowControl::IndirectBranch => Class::BranchIndirect,
            FlowControl::Call if instruction.is_call_near() => Class::Branch,
            FlowControl::Call => Class::Leave,
            FlowControl::IndirectCall if instruction.is_call_near_indirect() => {
                Class::BranchIndirect
            }
            FlowControl::IndirectCall => Class::Leave,
            FlowControl::Return if loads => Class::BranchIndirect,
            _ => return None,
        },
    })
}

fn string(instruction: &Instruction) -> Option<Shape> {
    let (class, kind) = match instruction.code() {
        Form::Movsb_m8_m8
        | Form::Movsw_m16_m16
        | Form::Movsd_m32_m32
        | Form::Movsq_m64_m64
        | Form::Stosb_m8_AL
        | Form::Stosw_m16_AX
        | Form::Stosd_m32_EAX
        | Form::Stosq_m64_RAX
            if instruction.has_rep_prefix() || instruction.has_repne_prefix() =>
        {
            (Class::StringStart, Kind::Lines)
        }
        Form::Movsb_m8_m8
        | Form::Movsw_m16_m16
        | Form::Movsd_m32_m32
        | Form::Movsq_m64_m64
        | Form::Stosb_m8_AL
        | Form::Stosw_m16_AX
        | Form::Stosd_m32_EAX
        | Form::Stosq_m64_RAX
        | Form::Lodsb_AL_m8
        | Form::Lodsw_AX_m16
        | Form::Lodsd_EAX_m32
        | Form::Lodsq_RAX_m64
        | Form::Scasb_AL_m8
        | Form::Scasw_AX_m16
        | Form::Scasd_EAX_m32
        | Form::Scasq_RAX_m64
        | Form::Cmpsb_m8_m8
        | Form::Cmpsw_m16_m16
        | Form::Cmpsd_m32_m32
        | Form::Cmpsq_m64_m64
        | Form::Insb_m8_DX
        | Form::Insw_m16_DX
        | Form::Insd_m32_DX
        | Form::Outsb_DX_m8
        | Form::Outsw_DX_m16
        | Form::Outsd_DX_m32 => {
            match instruction.has_rep_prefix() || instruction.has_repne_prefix() {
                true => (Class::StringStart, Kind::Elements),
                false => (Class::StringElement, Kind::Plain),
            }
        }
        _ => return None,
    };
    Some(Shape { class, kind, flags: 0 })
}

fn flow(instruction: &Instruction) -> Flow {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => Flow::Branch,
        FlowControl::UnconditionalBranch
            if instruction.mnemonic() == Mnemonic::Jmp && !instruction.is_jmp_far() =>
        {
            Flow::Jump
        }
        FlowControl::IndirectBranch if !instruction.is_jmp_far_indirect() => Flow::JumpIndirect,
        FlowControl::Call if instruction.is_call_near() => Flow::Call,
        FlowControl::IndirectCall if instruction.is_call_near_indirect() => Flow::CallIndirect,
        FlowControl::Return if instruction.mnemonic() == Mnemonic::Ret => Flow::Return,
        _ => Flow::Next,
    }
}

/// Whether the instruction moves the stack pointer by a fixed amount, which the front end tracks by itself.
fn moves_stack_pointer_only(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Push
            | Mnemonic::Pop
            | Mnemonic::Call
            | Mnemonic::Ret
            | Mnemonic::Pushfq
            | Mnemonic::Popfq
    )
}

/// Whether both operands are the same register.
fn same_operands(instruction: &Instruction) -> bool {
    let count = instruction.op_count();
    let register = |operand| {
        let kind = instruction.op_kind(operand);
        (kind == OpKind::Register).then(|| instruction.op_register(operand))
    };
    match count {
        2 => register(0).is_some() && register(0) == register(1),
        3 => register(1).is_some() && register(1) == register(2),
        _ => false,
    }
}

/// Whether renaming recognises the instruction as one whose result is always 0.
fn is_zero_idiom(instruction: &Instruction) -> bool {
    let full = !instruction.op0_register().is_gpr8() && !instruction.op0_register().is_gpr16();
    full && same_operands(instruction)
        && matches!(
            instruction.mnemonic(),
            Mnemonic::Xor
                | Mnemonic::Sub
                | Mnemonic::Pxor
                | Mnemonic::Xorps
                | Mnemonic::Xorpd
                | Mnemonic::Vpxor
                | Mnemonic::Vxorps
                | Mnemonic::Vxorpd
                | Mnemonic::Psubb
                | Mnemonic::Psubw
                | Mnemonic::Psubd
                | Mnemonic::Psubq
                | Mnemonic::Pcmpgtb
                | Mnemonic::Pcmpgtw
                | Mnemonic::Pcmpgtd
                | Mnemonic::Pcmpgtq
                | Mnemonic::Vpsubb
                | Mnemonic::Vpsubw
                | Mnemonic::Vpsubd
                | Mnemonic::Vpsubq
                | Mnemonic::Vpcmpgtb
                | Mnemonic::Vpcmpgtw
                | Mnemonic::Vpcmpgtd
                | Mnemonic::Vpcmpgtq
        )
}

/// Whether the instruction's result does not depend on the registers that it reads.
fn is_dependency_breaking(instruction: &Instruction) -> bool {
    is_zero_idiom(instruction)
        || same_operands(instruction)
            && matches!(
                instruction.mnemonic(),
                Mnemonic::Sbb
                    | Mnemonic::Pcmpeqb
                    | Mnemonic::Pcmpeqw
                    | Mnemonic::Pcmpeqd
                    | Mnemonic::Pcmpeqq
                    | Mnemonic::Vpcmpeqb
                    | Mnemonic::Vpcmpeqw
                    | Mnemonic::Vpcmpeqd
                    | Mnemonic::Vpcmpeqq
            )
}

/// Whether the instruction's first operand is a vector register of which it only keeps the upper part.
fn keeps_upper_part(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Cvtsi2sd
            | Mnemonic::Cvtsi2ss
            | Mnemonic::Cvtsd2ss
            | Mnemonic::Cvtss2sd
            | Mnemonic::Sqrtsd
            | Mnemonic::Sqrtss
            | Mnemonic::Roundsd
            | Mnemonic::Roundss
            | Mnemonic::Rcpss
            | Mnemonic::Rsqrtss
    )
}
