//! Waiting in a guest until its kernel has done deferred work: softirqs, RCU's callbacks, kernel threads.
//!
//! Work that was deferred before a region would otherwise fall into the region or not, depending on the clock's tick. The
//! functions call nothing of the C library, so a child that shares its parent's memory may use them.

use crate::marker::mark;
use crate::syscall::call;
use opcost_record::marker::{DRAIN, DRAINED};

/// A whole number of ticks of kernels with 100, 250, 300 or 1000 ticks a second, in nanoseconds and so in instructions.
pub const PHASES_NS: u64 = 20_000_000;

/// How long a guest sleeps for deferred work. The emulated clock skips idle time. Longer than what kernels wait before they
/// free the objects of `kfree_rcu` (5 s, `KFREE_DRAIN_JIFFIES` in kernel/rcu/tree.c of Linux 6.12).
const SLEEP_S: i64 = 6;

/// membarrier(2): wait until every CPU has left its critical sections of RCU. With one CPU, sleeping is enough.
const MEMBARRIER_CMD_GLOBAL: usize = 1;

/// Instructions of one round of [`spin`].
const ROUND: u64 = 64;

/// Waits for the work that was deferred so far. Marks a wait of the same length, which costs what waiting costs, and spins.
///
/// `phase_ns`: how long to spin, below [`PHASES_NS`]; moves what follows against the clock's tick.
#[inline]
pub fn settle(phase_ns: u64) {
    drain();
    drain_marked();
    spin(phase_ns);
}

/// Waits for deferred work, marked for the emulator, which counts that work apart.
#[inline]
pub fn drain_marked() {
    mark::<DRAIN>();
    if drain() {
        mark::<DRAINED>();
    }
}

/// Waits for deferred work; returns whether the kernel let the process wait.
fn drain() -> bool {
    // A kernel without this call has the sleep.
    // SAFETY: neither call writes to memory; null requests no remainder of the sleep.
    unsafe {
        let _ = call(libc::SYS_membarrier, [MEMBARRIER_CMD_GLOBAL, 0, 0]);
        let time = libc::timespec { tv_sec: SLEEP_S, tv_nsec: 0 };
        call(libc::SYS_nanosleep, [(&raw const time) as usize, 0]).is_ok()
    }
}

/// Executes about as many instructions as `ns`; the emulated clock advances by one nanosecond with each.
fn spin(ns: u64) {
    let rounds = ns / ROUND;
    #[cfg(target_arch = "x86_64")]
    if rounds > 0 {
        // SAFETY: a loop that counts a register down to 0 and touches nothing else.
        unsafe {
            std::arch::asm!(
                "2: .rept 62",
                "nop",
                ".endr",
                "dec {rounds}",
                "jnz 2b",
                rounds = inout(reg) rounds => _,
                options(nomem, nostack)
            );
        }
    }
    #[cfg(target_arch = "aarch64")]
    if rounds > 0 {
        // SAFETY: as above.
        unsafe {
            std::arch::asm!(
                "2: .rept 62",
                "nop",
                ".endr",
                "subs {rounds}, {rounds}, #1",
                "b.ne 2b",
                rounds = inout(reg) rounds => _,
                options(nomem, nostack)
            );
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    (0..rounds * ROUND).for_each(|round| {
        std::hint::black_box(round);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_whole_ticks() {
        for hz in [100, 250, 1000] {
            assert_eq!(PHASES_NS % (1_000_000_000 / hz), 0, "{hz}");
        }
        // 300 ticks a second are no whole nanoseconds.
        assert_eq!(PHASES_NS * 300 % 1_000_000_000, 0);
    }

    #[test]
    fn a_spin_of_no_whole_round_ends() {
        for ns in [0, ROUND - 1, ROUND, 10 * ROUND + 1] {
            spin(ns);
        }
    }
}
