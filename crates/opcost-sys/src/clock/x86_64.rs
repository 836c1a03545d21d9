//! The time stamp counter of x86-64.

use std::arch::asm;

/// Ticks, after all earlier and before all later instructions.
#[inline(always)]
pub(super) fn ticks() -> Option<u64> {
    let (low, high): (u32, u32);
    // RDTSC may be executed before earlier instructions have finished, and later ones before it.
    // The first LFENCE waits until all earlier ones have, the second keeps later ones from starting
    // (Intel SDM vol. 2B, RDTSC and LFENCE; on AMD Linux makes LFENCE serialise dispatch, MSR
    // C001_1029 bit 1). The memory clobber keeps the compiler from moving accesses across.
    //
    // SAFETY: RDTSC and LFENCE exist on every x86-64 CPU and write only the registers named; Linux
    // lets user mode read the counter unless the program itself gave that up (PR_SET_TSC).
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
