//! The state that an AArch64 processor keeps when it enters the kernel by an exception or interrupt.
//!
//! The processor writes the address at which the interrupted code resumes to `ELR_EL1`. For every synchronous exception but `svc`,
//! `hvc` and `smc` this is the instruction that did not finish (Arm ARM, D1.3.1, "Preferred exception return address").

use crate::block::is_kernel;
use crate::stack::{Entered, Stack};
use opcost_record::symbols::Landmark;

/// Words from `elr_el[1]` to `sp_el[0]` in QEMU's `CPUARMState`: `elr_el[4]` and `sp_el[4]` follow each other (target/arm/cpu.h).
const TO_USER_STACK: usize = 3;

/// `msr tpidrro_el0, x30`, the first instruction of a trampoline's vector for 64-bit programs (`tramp_ventry` in
/// arch/arm64/kernel/entry.S).
const TRAMPOLINE: u32 = 0xd51b_d07e;

/// Returns the meaning of a block of kernel code without a name, if the block is a vector of the trampoline.
///
/// With page table isolation (`kpti=1`) programs enter the kernel by a page that is mapped away from the kernel's text. The distance
/// from the table's start tells the vector (Arm ARM, D1.4.1): those of 64-bit programs begin at 0x400.
pub(crate) fn unnamed(start: u64, first: &[u8]) -> Option<Landmark> {
    match (start % 0x800, first == TRAMPOLINE.to_le_bytes()) {
        (0x400, true) => Some(Landmark::Fault),
        (0x480 | 0x500 | 0x580, true) => Some(Landmark::Interrupt),
        _ => None,
    }
}

/// Returns the state of the interrupted code, at the first block of a vector.
///
/// # Safety
/// The places of the stack pointer and of `ELR_EL1` are known, and a vector's first block begins.
pub(crate) unsafe fn entered(state: &Stack) -> Option<Entered> {
    let resumes_at = state.resumes_at()?;
    // SAFETY: both words are in QEMU's object of the vCPU, which lives as long as the vCPU.
    let (instruction, user_stack) = unsafe {
        (resumes_at.read_volatile(), resumes_at.wrapping_add(TO_USER_STACK).read_volatile())
    };
    // The kernel's handlers use the stack that the kernel was interrupted on; a program's stack pointer is kept apart.
    let stack = match is_kernel(instruction) {
        // SAFETY: as the caller promises.
        true => unsafe { state.pointer() },
        false => user_stack,
    };
    Some(Entered { instruction, stack, segment: 0, error: None })
}

/// The class of an exception in a value of `ESR_EL1` (Arm ARM, D17.2.37).
fn class(syndrome: u64) -> u64 {
    syndrome >> 26
}

/// Whether a value of `ESR_EL1` is that of `svc`.
pub(crate) fn is_system_call(syndrome: u64) -> bool {
    class(syndrome) == 0x15
}

/// Whether a value of `ESR_EL1` may be that of a load or store: an abort, an unaligned stack pointer, or a register that is trapped.
pub(crate) fn is_access(syndrome: u64) -> bool {
    matches!(class(syndrome), 0x07 | 0x19 | 0x24..=0x26)
}

/// Whether the fetch of an instruction faulted.
///
/// # Safety
/// A vector's first block begins.
pub(crate) unsafe fn fetch_faulted(state: &Stack, _: &Entered) -> Option<bool> {
    // SAFETY: as the caller promises.
    unsafe { state.cause() }.map(|syndrome| matches!(class(syndrome), 0x20 | 0x21))
}
