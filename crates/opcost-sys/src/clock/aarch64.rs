//! The virtual counter of the generic timer of aarch64.

use std::arch::asm;

/// Ticks, after all earlier and before all later instructions.
#[inline(always)]
pub(super) fn ticks() -> Option<u64> {
    let ticks: u64;
    // The counter may be read early, out of program order; an ISB waits for earlier instructions,
    // and the second keeps later ones from being executed before the read (Arm ARM, "The generic
    // timer": ordering of reads of the counter). The memory clobber holds the compiler.
    //
    // SAFETY: CNTVCT_EL0 exists on every Armv8-A CPU, and Linux lets user mode read it
    // (CNTKCTL_EL1.EL0VCTEN; where an erratum needs it, the kernel traps and emulates the read).
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
