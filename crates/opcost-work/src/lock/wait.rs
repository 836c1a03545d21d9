//! Waiting for a lock.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether waiters let others have their CPU: where there are more tasks than CPUs, the one that is
/// waited for may be waiting for a CPU itself.
static YIELDING: AtomicBool = AtomicBool::new(false);

/// Looks before a waiter lets others have its CPU, some microseconds.
const LOOKS: u32 = 1000;

/// Says whether waiters let others have their CPU.
pub(super) fn yield_while_waiting(yielding: bool) {
    YIELDING.store(yielding, Ordering::Relaxed);
}

/// Looks again and again, until the lock is not taken.
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
        // SAFETY: it takes nothing and changes no memory.
        unsafe { libc::sched_yield() };
    }
}
