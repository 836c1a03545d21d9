//! Decodes x86 instructions.

use crate::decode::{Exit, Facts, Repeat, Wait, marker};
use iced_x86::{
    Code, CpuidFeature, Decoder, DecoderError, DecoderOptions, FlowControl, Instruction,
    InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, Register,
};
use opcost_record::Architecture;
use opcost_record::symbols::PAGE_BYTES;
use std::cell::RefCell;

/// Bytes that a near return takes off the stack in 64-bit mode.
pub(crate) const RETURN_BYTES: u16 = 8;

/// The longest instruction, bytes (Intel SDM volume 2, section 2.3.11).
pub(crate) const LENGTH_MAX: usize = 15;

/// Decodes the instructions of one block.
///
/// `address`: the address of the first; `codes`: the bytes of each, cut as QEMU cut them. Plugins do not know the mode of the
/// processor. The decoder takes the first of 64, 32 and 16 bits in which all lengths agree with QEMU's lengths.
///
/// Returns one entry for each instruction. An instruction that no mode decodes (QEMU raises an exception for it) never retires.
/// Where an instruction other than the first reaches into another page, QEMU 7.2 ends the block in front of the instruction
/// (advance_pc in target/i386/tcg/translate.c), but has already passed its first bytes. This last code, cut at the page's end, then
/// has no entry.
pub(crate) fn decode(address: u64, codes: &[&[u8]]) -> Vec<Facts> {
    for bits in [64, 32, 16] {
        if let Some(facts) = decode_in_mode(bits, address, codes, true) {
            return facts;
        }
    }
    decode_in_mode(64, address, codes, false).unwrap_or_default()
}

fn decode_in_mode(bits: u32, address: u64, codes: &[&[u8]], strict: bool) -> Option<Vec<Facts>> {
    FACTORY.with_borrow_mut(|factory| decode_by(factory, bits, address, codes, strict))
}

thread_local! {
    /// Kept, because the factory allocates memory.
    static FACTORY: RefCell<InstructionInfoFactory> = RefCell::new(InstructionInfoFactory::new());
}

fn decode_by(
    factory: &mut InstructionInfoFactory,
    bits: u32,
    address: u64,
    codes: &[&[u8]],
    strict: bool,
) -> Option<Vec<Facts>> {
    let mut all = Vec::with_capacity(codes.len());
    let mut at = address;
    for (index, code) in codes.iter().enumerate() {
        let mut decoder = Decoder::with_ip(bits, code, at, DecoderOptions::NONE);
        let instruction = decoder.decode();
        let agrees = !instruction.is_invalid() && instruction.len() == code.len();
        // The last instruction of a block may be refused by the processor.
        let last = index + 1 == codes.len() && index > 0;
        if strict && !agrees && !last {
            return None;
        }
        let reach = at.wrapping_add(LENGTH_MAX as u64 - 1);
        let two_pages = at / PAGE_BYTES as u64 != reach / PAGE_BYTES as u64;
        if last && two_pages && decoder.last_error() == DecoderError::NoMoreBytes {
            break;
        }
        all.push(if agrees {
            Facts { marker: marker(Architecture::X86_64, code), ..facts(&instruction, factory) }
        } else {
            Facts {
                loads: 0,
                stores: 0,
                may_fault: true,
                never_retires: true,
                may_be_refused: false,
                exit: Exit::Next,
                repeat: None,
                marker: None,
                wait: None,
            }
        });
        at = at.wrapping_add(code.len() as u64);
    }
    Some(all)
}

fn facts(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Facts {
    let exit = exit(instruction);
    let repeat = repeat(instruction);
    let (mut loads, mut stores) = (0, 0);
    let memory_only = InstructionInfoOptions::NO_REGISTER_USAGE;
    for memory in factory.info_options(instruction, memory_only).used_memory() {
        match memory.access() {
            OpAccess::Read | OpAccess::CondRead => loads += 1,
            OpAccess::Write | OpAccess::CondWrite => stores += 1,
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
                loads += 1;
                stores += 1;
            }
            OpAccess::None | OpAccess::NoMemAccess => {}
        }
    }
    let may_fault = match exit {
        // These instructions end a block and hand over by themselves. A fault of `iret` is not looked for.
        Exit::Enter | Exit::Leave => false,
        _ => loads + stores > 0 || faults_without_memory(instruction),
    };
    if repeat.is_some() {
        (loads, stores) = (0, 0);
    }
    let never_retires = instruction.flow_control() == FlowControl::Exception;
    let may_be_refused = matches!(
        instruction.mnemonic(),
        Mnemonic::Hlt | Mnemonic::Int | Mnemonic::Vmcall | Mnemonic::Vmmcall
    );
    let wait = match instruction.mnemonic() {
        Mnemonic::Pause => Some(Wait::Pause),
        Mnemonic::Hlt => Some(Wait::Halt),
        _ => None,
    };
    let marker = None;
    Facts { loads, stores, may_fault, never_retires, may_be_refused, exit, repeat, marker, wait }
}

fn exit(instruction: &Instruction) -> Exit {
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch => match instruction.mnemonic() {
            Mnemonic::Jmp if !instruction.is_jmp_far() => Exit::Jump,
            _ => Exit::Leave,
        },
        FlowControl::IndirectBranch if instruction.is_jmp_far_indirect() => Exit::Leave,
        FlowControl::IndirectBranch => Exit::JumpIndirect,
        FlowControl::ConditionalBranch => Exit::Branch,
        FlowControl::Return if instruction.mnemonic() == Mnemonic::Ret => Exit::Return,
        FlowControl::Return => Exit::Leave,
        FlowControl::Call if instruction.is_call_near() => Exit::Call,
        FlowControl::IndirectCall if instruction.is_call_near_indirect() => Exit::CallIndirect,
        FlowControl::Call | FlowControl::IndirectCall | FlowControl::Interrupt => Exit::Enter,
        FlowControl::Next | FlowControl::XbeginXabortXend | FlowControl::Exception => Exit::Next,
    }
}

/// Whether QEMU may leave an instruction without a memory operand through an exception.
fn faults_without_memory(instruction: &Instruction) -> bool {
    let divides = matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv);
    let ports = matches!(
        instruction.mnemonic(),
        Mnemonic::In | Mnemonic::Out | Mnemonic::Rdpmc | Mnemonic::Xgetbv | Mnemonic::Ud2
    );
    let segment = instruction.op0_register();
    divides
        || ports
        || instruction.is_privileged() && instruction.mnemonic() != Mnemonic::Hlt
        || segment != Register::None && segment.is_segment_register()
        || instruction.cpuid_features().contains(&CpuidFeature::FPU)
}

/// Decodes the first instruction of `code` at an address in a mode of 64 or 32 bits, and returns it with its length; `None` if the
/// code ends too soon.
pub(crate) fn decode_one(bits: u32, address: u64, code: &[u8]) -> Option<(Facts, u64)> {
    let mut decoder = Decoder::with_ip(bits, code, address, DecoderOptions::NONE);
    let length = decoder.decode().len();
    if decoder.last_error() == DecoderError::NoMoreBytes {
        return None;
    }
    let facts = decode_in_mode(bits, address, &[&code[..length]], false)?;
    Some((*facts.first()?, length as u64))
}

/// Returns the target that a jump, branch or call in 64-bit mode names.
pub(crate) fn target(address: u64, code: &[u8]) -> Option<u64> {
    let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
    let near = [instruction.is_jmp_short_or_near(), instruction.is_jcc_short_or_near()];
    let others = [instruction.is_call_near(), instruction.is_jcx_short(), instruction.is_loopcc()];
    let names = near.iter().chain(&others).any(|is| *is) || instruction.is_loop();
    names.then(|| instruction.near_branch_target())
}

/// Returns the number of bytes that the last instruction of a block takes off the stack; `code`: the instruction's bytes.
pub(crate) fn popped(exit: Exit, code: &[u8]) -> u16 {
    match (exit, code) {
        // Intel SDM volume 2, RET: a near return may take further bytes off the stack.
        (Exit::Return, [.., 0xc2, low, high]) => RETURN_BYTES + u16::from_le_bytes([*low, *high]),
        (Exit::Return, _) => RETURN_BYTES,
        _ => 0,
    }
}

/// Whether an instruction halts its CPU in QEMU: `hlt` and `mwait`.
pub(crate) fn halts(code: &[u8]) -> bool {
    matches!(code, [0xf4] | [0x0f, 0x01, 0xc9])
}

fn repeat(instruction: &Instruction) -> Option<Repeat> {
    if !instruction.has_rep_prefix() && !instruction.has_repne_prefix() {
        return None;
    }
    // By code, because SSE2's movsd and cmpsd share their mnemonics with the string instructions.
    match instruction.code() {
        Code::Movsb_m8_m8 | Code::Movsw_m16_m16 | Code::Movsd_m32_m32 | Code::Movsq_m64_m64 => {
            Some(Repeat::Movs)
        }
        Code::Stosb_m8_AL | Code::Stosw_m16_AX | Code::Stosd_m32_EAX | Code::Stosq_m64_RAX => {
            Some(Repeat::Stos)
        }
        Code::Lodsb_AL_m8 | Code::Lodsw_AX_m16 | Code::Lodsd_EAX_m32 | Code::Lodsq_RAX_m64 => {
            Some(Repeat::Lods)
        }
        Code::Scasb_AL_m8 | Code::Scasw_AX_m16 | Code::Scasd_EAX_m32 | Code::Scasq_RAX_m64 => {
            Some(Repeat::Scas)
        }
        Code::Cmpsb_m8_m8 | Code::Cmpsw_m16_m16 | Code::Cmpsd_m32_m32 | Code::Cmpsq_m64_m64 => {
            Some(Repeat::Cmps)
        }
        Code::Insb_m8_DX | Code::Insw_m16_DX | Code::Insd_m32_DX => Some(Repeat::Ins),
        Code::Outsb_DX_m8 | Code::Outsw_DX_m16 | Code::Outsd_DX_m32 => Some(Repeat::Outs),
        _ => None,
    }
}

/// Whether code that ends at some place may end with a repeated string instruction.
///
/// `before`: the known bytes in front of the place: up to five, fewer at a page's start.
pub(crate) fn may_end_with_repeat(before: &[u8]) -> bool {
    let Some((last, prefixes)) = before.split_last() else { return true };
    let string = matches!(last, 0xa4..=0xa7 | 0xaa..=0xaf | 0x6c..=0x6f);
    // A prefix may stand on the page before, which is not read.
    string && (before.len() < 5 || prefixes.iter().any(|byte| matches!(byte, 0xf2 | 0xf3)))
}

/// Whether code that ends at some place may end with a call (Intel SDM volume 2, CALL); `before`: the known bytes in front of the
/// place: up to eight, fewer at a page's start.
pub(crate) fn may_end_with_call(before: &[u8]) -> bool {
    let byte = |back: usize| before.len().checked_sub(back).map(|at| before[at]);
    let indirect = |back: usize| {
        byte(back) == Some(0xff) && byte(back - 1).is_some_and(|byte| byte >> 3 & 7 == 2)
    };
    before.len() < 8 || byte(5) == Some(0xe8) || (2..=7).any(indirect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_may_stand_in_front_of_its_return_address() {
        let ends = |code: &[u8]| may_end_with_call(&[&[0x90; 8][..], code].concat()[code.len()..]);
        assert!(ends(&[0xe8, 1, 2, 3, 4]) && ends(&[0xff, 0xd0]) && ends(&[0x41, 0xff, 0xd3]));
        assert!(ends(&[0xff, 0x15, 1, 2, 3, 4]) && ends(&[0xff, 0x94, 0xc8, 1, 2, 3, 4]));
        assert!(!ends(&[0xe9, 1, 2, 3, 4]) && !ends(&[0xff, 0xe0]) && !ends(&[0x90]));
        assert!(may_end_with_call(&[0x90; 3]), "the rest is on another page");
    }
    use crate::decode::MarkerAt;

    fn one(code: &[u8]) -> Facts {
        let all = decode(0x1000, &[code]);
        assert_eq!(all.len(), 1);
        all[0]
    }

    /// Checks loads, stores, whether the instruction may fault, and its exit.
    fn check(code: &[u8], expect: (u8, u8, bool, Exit)) {
        let facts = one(code);
        assert_eq!((facts.loads, facts.stores, facts.may_fault, facts.exit), expect, "{code:x?}");
    }

    #[test]
    fn memory_operands_are_counted() {
        check(&[0x90], (0, 0, false, Exit::Next));
        check(&[0x48, 0x8b, 0x07], (1, 0, true, Exit::Next)); // mov rax, [rdi]
        check(&[0x48, 0x89, 0x07], (0, 1, true, Exit::Next)); // mov [rdi], rax
        check(&[0x48, 0xff, 0x07], (1, 1, true, Exit::Next)); // inc qword [rdi]
        check(&[0x48, 0x8d, 0x07], (0, 0, false, Exit::Next)); // lea rax, [rdi]
        check(&[0x0f, 0x1f, 0x07], (0, 0, false, Exit::Next)); // nop [rdi]
        check(&[0x0f, 0x18, 0x0f], (0, 0, false, Exit::Next)); // prefetcht0 [rdi]
        check(&[0x50], (0, 1, true, Exit::Next)); // push rax
        check(&[0xff, 0x37], (1, 1, true, Exit::Next)); // push qword [rdi]
        check(&[0xc3], (1, 0, true, Exit::Return));
        check(&[0xe8, 0, 0, 0, 0], (0, 1, true, Exit::Call));
        check(&[0xff, 0x17], (1, 1, true, Exit::CallIndirect)); // call [rdi]
        check(&[0xff, 0xe0], (0, 0, false, Exit::JumpIndirect)); // jmp rax
        check(&[0xff, 0x27], (1, 0, true, Exit::JumpIndirect)); // jmp [rdi]
        check(&[0xa4], (1, 1, true, Exit::Next)); // movsb
    }

    #[test]
    fn transfers_are_told_apart() {
        check(&[0xeb, 0], (0, 0, false, Exit::Jump));
        check(&[0x74, 0], (0, 0, false, Exit::Branch));
        check(&[0xe2, 0], (0, 0, false, Exit::Branch)); // loop
        check(&[0xe3, 0], (0, 0, false, Exit::Branch)); // jrcxz
        assert_eq!(one(&[0x0f, 0x05]).exit, Exit::Enter); // syscall
        assert_eq!(one(&[0xcd, 0x80]).exit, Exit::Enter); // int 0x80
        assert_eq!(one(&[0x48, 0xcf]).exit, Exit::Leave); // iretq
        assert_eq!(one(&[0x48, 0x0f, 0x07]).exit, Exit::Leave); // sysretq
    }

    #[test]
    fn returns_pop_their_address_and_what_they_say() {
        assert_eq!(popped(Exit::Return, &[0xc3]), 8);
        assert_eq!(popped(Exit::Return, &[0xf3, 0xc3]), 8);
        assert_eq!(popped(Exit::Return, &[0xc2, 0x10, 0x01]), 8 + 0x110);
        assert_eq!(popped(Exit::Call, &[0xe8, 0, 0, 0xc2, 1]), 0);
    }

    #[test]
    fn branches_name_their_targets() {
        assert_eq!(target(0x1000, &[0x75, 0xfb]), Some(0xffd));
        assert_eq!(target(0x1000, &[0xe8, 0, 1, 0, 0]), Some(0x1105));
        assert_eq!(target(0x1000, &[0xe2, 0]), Some(0x1002));
        assert_eq!(target(0x1000, &[0xff, 0xe0]), None);
    }

    #[test]
    fn what_may_fault_without_memory_is_known() {
        check(&[0x48, 0xf7, 0xf1], (0, 0, true, Exit::Next)); // div rcx
        check(&[0x0f, 0x30], (0, 0, true, Exit::Next)); // wrmsr
        check(&[0xd9, 0xe8], (0, 0, true, Exit::Next)); // fld1
        check(&[0x48, 0x0f, 0xaf, 0xc1], (0, 0, false, Exit::Next)); // imul rax, rcx
        check(&[0x66, 0x0f, 0xef, 0xc0], (0, 0, false, Exit::Next)); // pxor xmm0, xmm0
        assert!(one(&[0x0f, 0x0b]).never_retires); // ud2
        assert!(!one(&[0xcc]).never_retires); // int3 is a trap
    }

    #[test]
    fn repeated_string_instructions_are_known() {
        assert_eq!(one(&[0xf3, 0xa4]).repeat, Some(Repeat::Movs));
        assert_eq!(one(&[0xf3, 0x48, 0xab]).repeat, Some(Repeat::Stos));
        assert_eq!(one(&[0xf2, 0xae]).repeat, Some(Repeat::Scas));
        assert_eq!(one(&[0xf3, 0xa6]).repeat, Some(Repeat::Cmps));
        assert_eq!(one(&[0xf3, 0x6e]).repeat, Some(Repeat::Outs));
        assert_eq!(one(&[0xa4]).repeat, None);
        assert_eq!(one(&[0xf3, 0xc3]).repeat, None); // rep ret
        assert_eq!(one(&[0xf2, 0x0f, 0x10, 0xc1]).repeat, None); // movsd xmm0, xmm1
        assert_eq!((one(&[0xf3, 0xa4]).loads, one(&[0xf3, 0xa4]).stores), (0, 0));
    }

    #[test]
    fn the_end_of_a_repeat_is_suspected_by_its_bytes() {
        assert!(may_end_with_repeat(&[0x90, 0x90, 0x90, 0xf3, 0xa4]));
        assert!(may_end_with_repeat(&[0x90, 0x90, 0xf3, 0x48, 0xab]));
        assert!(!may_end_with_repeat(&[0x90, 0x90, 0x90, 0x90, 0xa4]));
        assert!(!may_end_with_repeat(&[0x90, 0x90, 0x90, 0xf3, 0x90]));
        assert!(may_end_with_repeat(&[0xa4]), "the prefix is on the page before");
        assert!(may_end_with_repeat(&[]), "so is everything");
    }

    #[test]
    fn waiting_is_known() {
        assert_eq!(one(&[0xf3, 0x90]).wait, Some(Wait::Pause));
        assert_eq!(one(&[0xf4]).wait, Some(Wait::Halt));
        assert_eq!(one(&[0x90]).wait, None);
    }

    #[test]
    fn the_mode_is_found_by_lengths() {
        // inc eax; dec eax in 32 bits, REX prefixes in 64.
        let facts = decode(0x1000, &[&[0x40], &[0x48], &[0xc3]]);
        assert_eq!(facts.len(), 3);
        assert!(facts.iter().all(|facts| !facts.never_retires));
        // mov ax, 0x1234 takes three bytes in 16 bits only.
        let facts = decode(0xfff0, &[&[0xb8, 0x34, 0x12], &[0x90]]);
        assert!(!facts[0].never_retires);
    }

    #[test]
    fn markers_are_seen() {
        let mut code = opcost_record::marker::OPCODE.to_vec();
        code.extend(opcost_record::marker::START.to_le_bytes());
        assert_eq!(one(&code).marker, Some(MarkerAt::Start(0)));
        assert_eq!(one(&code).loads, 0);
    }

    #[test]
    fn what_the_page_cuts_off_is_the_next_blocks() {
        let cut: &[&[u8]] = &[&[0x90], &[0xba, 1]];
        assert_eq!(decode(0x1ffd, cut).len(), 1);
        assert_eq!(decode(0x1ffc, cut).len(), 1, "QEMU reads constants at once");
        assert_eq!(decode(0x1000, cut).len(), 2, "not at the end of a page");
        // A prefix in 64 bits is an instruction in 32.
        assert_eq!(decode(0x1ffb, &[&[0x40], &[0x90], &[0x48]]).len(), 3);
        assert_eq!(decode(0x1ffd, &[&[0x90], &[0x0f, 0x0b]]).len(), 2, "ud2 is whole");
        assert_eq!(decode(0x1ffe, &[&[0x0f, 0xff]]).len(), 1, "the first is never left out");
    }

    #[test]
    fn what_cannot_be_decoded_never_retires() {
        let facts = decode(0x1000, &[&[0x90], &[0x0f, 0xff]]);
        assert_eq!(facts.len(), 2);
        assert!(facts[1].never_retires || facts[1].exit == Exit::Next);
    }
}
