//! A guest's clock that no thread of the host can put off by a halt.
//!
//! With `-icount sleep=off` the clock skips the time in which all CPUs are halted: QEMU's main loop adds
//! what is left until the next timer (`icount_start_warp_timer` in accel/tcg/icount-common.c). It looks
//! at each turn, and a turn comes whenever the host has something for QEMU. A CPU counts as halted from
//! within `hlt` on, and what it executed is added to the clock a moment later, when it has left the code.
//! A turn in between adds too much: the clock runs ahead by all instructions since it was last read.
//! Therefore the plugin has them added before `hlt` begins.

use crate::api::{self, Api};
use std::cell::Cell;
use std::ffi::{c_uint, c_void};
use std::ptr;

thread_local! {
    /// QEMU's variable that says which CPU runs, once it is found.
    static CURRENT: Cell<*const *const c_void> = const { Cell::new(ptr::null()) };
}

/// Whether an instruction halts its CPU in QEMU: `hlt` and `mwait`.
pub(crate) fn halts(code: &[u8]) -> bool {
    matches!(code, [0xf4] | [0x0f, 0x01, 0xc9])
}

/// Has the clock brought up to date before an instruction that halts. A QEMU that does not export what
/// that takes keeps its clock as it is.
///
/// # Safety
/// `instruction` is QEMU's of the running callback on a translation.
pub(crate) unsafe fn keep_clock(api: &Api, instruction: *mut c_void) {
    if let Some(update) = api::find(c"icount_update") {
        // SAFETY: the handle is as the caller promises; a function of QEMU lives for ever.
        unsafe {
            (api.functions.on_instruction)(instruction, on_halt, api::NO_REGISTERS, update);
        }
    }
}

/// A CPU is about to halt.
///
/// # Safety
/// QEMU calls it on the thread that runs the CPU; `update` is QEMU's function of that name.
unsafe extern "C" fn on_halt(_: c_uint, update: *mut c_void) {
    if CURRENT.get().is_null() {
        CURRENT.set(api::current_cpu().unwrap_or(ptr::null()));
    }
    let current = CURRENT.get();
    if current.is_null() {
        return;
    }
    // SAFETY: the function has this type from QEMU 6.0 to 11.1 (sysemu/cpu-timers.h, later
    // exec/icount.h). It adds what the CPU's budget lost since it was called last, so QEMU's own call
    // afterwards adds nothing twice; without -icount no CPU has a budget. The variable is this thread's.
    unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_void)>(update)(*current);
    }
}
