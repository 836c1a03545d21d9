//! The time stamp counter of x86-64.

use std::arch::asm;

/// Returns ticks, read after all earlier and before all later instructions.
#[inline(always)]
pub(super) fn ticks() -> Option<u64> {
    let (low, high): (u32, u32);
    // The CPU may execute RDTSC before earlier instructions have finished, and later instructions before RDTSC. The first LFENCE
    // waits for all earlier instructions, the second keeps later ones from starting (Intel SDM vol. 2B, RDTSC and LFENCE; on AMD,
    // Linux makes LFENCE serialise dispatch, MSR C001_1029 bit 1). The memory clobber keeps the compiler from moving accesses
    // across.
    //
    // SAFETY: RDTSC and LFENCE exist on every x86-64 CPU and write only the named registers. Linux lets user mode read the counter
    // unless the program itself gave up that right (PR_SET_TSC).
    unsafe {
        asm!(
            "lfence",
            "rdtsc",
            "lfence",
            out("eax") low,
            out("edx") high,
            options(nostack, preserves_flags),
        );
    }
    Some(u64::from(high) << 32 | u64::from(low))
}
