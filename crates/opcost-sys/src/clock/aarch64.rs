//! The virtual counter of the generic timer of aarch64.

use std::arch::asm;

/// Returns ticks, read after all earlier and before all later instructions.
#[inline(always)]
pub(super) fn ticks() -> Option<u64> {
    let ticks: u64;
    // The CPU may read the counter early, out of program order. The first ISB waits for earlier instructions, and the second keeps
    // later ones from being executed before the read (Arm ARM, "The generic timer": ordering of reads of the counter). The memory
    // clobber keeps the compiler from moving accesses across.
    //
    // SAFETY: CNTVCT_EL0 exists on every Armv8-A CPU, and Linux lets user mode read the counter (CNTKCTL_EL1.EL0VCTEN; where an
    // erratum requires it, the kernel traps and emulates the read).
    unsafe {
        asm!(
            "isb",
            "mrs {ticks}, cntvct_el0",
            "isb",
            ticks = out(reg) ticks,
            options(nostack, preserves_flags),
        );
    }
    Some(ticks)
}
