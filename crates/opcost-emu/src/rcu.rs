//! Keeps QEMU's RCU thread from ending the turns of several vCPUs.
//!
//! From 10.2 on, QEMU's thread that frees memory (RCU) interrupts the thread of the vCPUs when the latter has run for 50 ms ("rcu:
//! Unify force quiescent state"). The turn then ends wherever the thread happens to be, and two runs differ. The interrupt goes
//! through a notifier that the vCPUs' thread put into its own list (`rr_cpu_thread_fn` in accel/tcg/tcg-accel-ops-rr.c). Without
//! the notifier, memory is freed when a turn ends by itself, as in QEMU 10.1.

use crate::api;
use std::ffi::c_void;
use std::ptr;

/// A notifier in a list (include/qemu/notify.h, include/qemu/queue.h).
#[repr(C)]
struct Notifier {
    notify: *const c_void,
    next: *mut Notifier,
    /// The place of the pointer to this notifier.
    prev: *mut *mut Notifier,
}

/// The data that a thread shares with the RCU thread (include/qemu/rcu.h).
#[repr(C)]
struct Reader {
    ctr: usize,
    waiting: bool,
    node: [*mut c_void; 2],
    force: *mut Notifier,
}

/// The largest distance from a callback's own stack frame to the notifier, which is on the stack of the thread's first function.
const STACK_BYTES_MAX: usize = 1 << 16;

/// Keeps the RCU thread from interrupting the vCPUs of the calling thread.
///
/// # Errors
/// This QEMU differs from the known versions 10.0 to 11.1.
///
/// # Safety
/// A callback of QEMU runs on the thread of the vCPUs.
pub(crate) unsafe fn keep_turns() -> Result<(), String> {
    let unknown = || {
        "this QEMU ends the turns of several CPUs by the host's clock, and opcost does not know how to \
         keep it from that: give the machine one CPU, or use QEMU 10.0 or 11.1"
            .to_string()
    };
    let reader = api::look_up(c"get_ptr_rcu_reader").map_err(|_| unknown())?;
    let remove = api::look_up(c"rcu_remove_force_rcu_notifier").map_err(|_| unknown())?;
    // SAFETY: QEMU exports functions of these types under these names (include/qemu/rcu.h).
    let (reader, remove) = unsafe {
        (
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut Reader>(reader),
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut Notifier)>(remove),
        )
    };
    let here = 0u8;
    // SAFETY: the reader is this thread's. The notifier is read only if it is on this thread's stack, and removed only if it stands
    // in the list as QEMU puts it there.
    unsafe {
        let reader = reader();
        let first = (*reader).force;
        if first.is_null() {
            return Ok(());
        }
        let on_stack = first.addr().wrapping_sub(ptr::from_ref(&here).addr()) < STACK_BYTES_MAX;
        let alone =
            on_stack && (*first).next.is_null() && ptr::eq((*first).prev, &raw mut (*reader).force);
        if !alone {
            return Err(unknown());
        }
        remove(first);
    }
    Ok(())
}
