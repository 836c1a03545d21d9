//! Waiting for a lock.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether waiters yield their CPU: with more tasks than CPUs, the awaited task may itself be waiting for a CPU.
static YIELDING: AtomicBool = AtomicBool::new(false);

/// The number of checks before a waiter yields its CPU; takes some microseconds.
const LOOKS: u32 = 1000;

/// Sets whether waiters yield their CPU.
pub(super) fn yield_while_waiting(yielding: bool) {
    YIELDING.store(yielding, Ordering::Relaxed);
}

/// Checks repeatedly, until the lock is not taken.
#[inline(always)]
pub(super) fn wait_while(mut taken: impl FnMut() -> bool) {
    let mut looks = 0;
    while taken() {
        spin_loop();
        looks += 1;
        if looks == LOOKS {
            looks = 0;
            look_up();
        }
    }
}

#[cold]
#[inline(never)]
fn look_up() {
    if YIELDING.load(Ordering::Relaxed) {
        // SAFETY: the call takes nothing and changes no memory.
        unsafe { libc::sched_yield() };
    }
}
