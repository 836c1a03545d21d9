//! The values that an x86 processor pushes when it enters the kernel by an exception or interrupt.

use super::decode::{LENGTH_MAX, decode_one};
use crate::decode::Facts;
use crate::stack::{Entered, Stack};
use crate::target::{FAULTS, Signalled};
use opcost_record::symbols::PAGE_BYTES;

/// The bit of a page fault's error code that says that a fetch faulted (Intel SDM volume 3, section 4.7).
pub(crate) const FETCH: u64 = 1 << 4;

/// Selector of 32-bit user code (`__USER32_CS` in arch/x86/include/asm/segment.h).
const USER32: u16 = 0x23;

/// Returns the values that the processor pushed, at the beginning of a handler of exceptions or interrupts.
///
/// # Safety
/// The stack pointer's place is known, and the beginning block is the first one of such a handler.
pub(crate) unsafe fn pushed(state: &Stack) -> Option<Entered> {
    // SAFETY: as the caller promises.
    let stack = unsafe { state.pointer() };
    // In 64-bit mode the processor aligns the stack to 16 bytes, then pushes five words, and for some exceptions an error code
    // (Intel SDM volume 3, section 6.14.2).
    let with_code = stack.is_multiple_of(16);
    let mut bytes = [0u8; 40];
    if !state.read(stack, &mut bytes) {
        return None;
    }
    let word = |index: usize| {
        let at = 8 * (index + usize::from(with_code));
        bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
    };
    let error =
        if with_code { Some(u64::from_le_bytes(bytes[..8].try_into().ok()?)) } else { None };
    let (instruction, segment, stack) = (word(0)?, word(1)? as u16, word(3)?);
    Some(Entered { instruction, stack, segment, error })
}

/// Returns the state that a signal's frame has (`struct rt_sigframe` in arch/x86/include/asm/sigframe.h: the restorer, then `ucontext`,
/// whose registers begin with r8 after 40 bytes), at the first block of a handler.
pub(crate) fn signalled(state: &Stack, restorer: u64) -> Option<Signalled> {
    /// Distances of rsp and rip from the frame, and of rdi and rsi from rsp in QEMU's registers, in words (`R_EDI` and `R_ESI` in
    /// target/i386/cpu.h).
    const STACK: usize = 21;
    const INSTRUCTION: usize = 22;
    const FIRST_ARGUMENT: usize = 3;
    const SECOND_ARGUMENT: usize = 2;
    // SAFETY: the place is known, and a block begins.
    let frame = unsafe { state.pointer() };
    let mut bytes = [0u8; 8 * (INSTRUCTION + 1)];
    if !state.read(frame, &mut bytes) {
        return None;
    }
    let word =
        |index: usize| bytes.get(8 * index..8 * index + 8)?.try_into().ok().map(u64::from_le_bytes);
    // SAFETY: as above; the registers are in one array.
    let [signal, information] =
        [FIRST_ARGUMENT, SECOND_ARGUMENT].map(|words| unsafe { state.beside(words) });
    // What the kernel sends for an instruction has a code above 0; a process, a timer or a queue has none (sigaction(2), `si_code`).
    let mut code = [0u8; 4];
    let by_fault = FAULTS.contains(&signal)
        && state.read(information + 8, &mut code)
        && i32::from_le_bytes(code) > 0;
    let (instruction, stack) = (word(INSTRUCTION)?, word(STACK)?);
    let interrupted = Signalled { instruction, stack, frame, by_fault };
    (word(0) == Some(restorer)).then_some(interrupted)
}

/// Whether the fetch of an instruction faulted: the instruction's page is then not mapped.
///
/// # Safety
/// As for [`pushed`].
pub(crate) unsafe fn fetch_faulted(stack: &Stack, pushed: &Entered) -> Option<bool> {
    Some(!stack.read(pushed.instruction, &mut [0]))
}

/// Reads the instruction at the address that the processor pushed, and its length; `None` if its page is not mapped.
pub(crate) fn interrupted(stack: &Stack, pushed: &Entered) -> Option<(Facts, u64)> {
    let bits = if pushed.segment == USER32 { 32 } else { 64 };
    let mut code = [0u8; LENGTH_MAX];
    let page = PAGE_BYTES - (pushed.instruction % PAGE_BYTES as u64) as usize;
    let here = page.min(LENGTH_MAX);
    if !stack.read(pushed.instruction, &mut code[..here]) {
        return None;
    }
    decode_one(bits, pushed.instruction, &code[..here]).or_else(|| {
        let next = pushed.instruction.wrapping_add(here as u64);
        let whole = here < LENGTH_MAX && stack.read(next, &mut code[here..]);
        whole.then(|| decode_one(bits, pushed.instruction, &code)).flatten()
    })
}
