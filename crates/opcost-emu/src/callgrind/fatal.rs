//! Signals that end the program. QEMU ends at once then and tells no plugin, so the counts are written before:
//!
//! - A signal from outside is held back until a block begins.
//! - A signal that the program sends itself (`abort`, `raise`) is seen as its system call.
//! - An access to memory that is not there is seen as QEMU's own signal, in front of QEMU's handler.
//! - `ud2`, and an instruction that the CPU model lacks, are seen when their block begins.
//!
//! A program that lives on nevertheless replaces the file when it ends. A division by zero is not seen.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// signal(7), x86.
pub(super) const SIGILL: i32 = 4;
const SIGSEGV: i32 = 11;
/// The signals from outside that end a program by default: HUP, INT, QUIT, USR1, USR2, PIPE, ALRM, TERM, XCPU, VTALRM.
const FROM_OUTSIDE: [i32; 10] = [1, 2, 3, 10, 12, 13, 14, 15, 24, 26];
/// The signals that do not end a program by default: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH.
const HARMLESS: [i32; 8] = [17, 18, 19, 20, 21, 22, 23, 28];

const SIGNALS: usize = 65;

/// What QEMU does at each signal; written before the handler is in place.
struct Acts(UnsafeCell<[MaybeUninit<libc::sigaction>; SIGNALS]>);

// SAFETY: each element is written once, before its handler can run, and only read from then on.
unsafe impl Sync for Acts {}

static ACTS: Acts = Acts(UnsafeCell::new([const { MaybeUninit::uninit() }; SIGNALS]));
static PENDING: AtomicI32 = AtomicI32::new(0);
static HELD: AtomicBool = AtomicBool::new(false);

/// What the program itself does at signals: the first word of its `sigaction`, 0 for the default.
#[derive(Default)]
pub(super) struct Dispositions(Mutex<HashMap<i32, u64>>);

impl Dispositions {
    pub(super) fn set(&self, signal: i32, handler: u64) {
        super::callbacks::lock(&self.0).insert(signal, handler);
    }

    /// Whether a signal ends the program.
    pub(super) fn are_fatal(&self, signal: i32) -> bool {
        signal > 0
            && !HARMLESS.contains(&signal)
            && super::callbacks::lock(&self.0).get(&signal).is_none_or(|handler| *handler == 0)
    }
}

type Handler = unsafe extern "C" fn(c_int, *const c_void, *mut c_void);

/// An action that calls a handler with what the kernel knows.
fn calling(handler: Handler) -> libc::sigaction {
    // SAFETY: zeros are an action: the default, no flags, no mask; sigfillset writes the mask.
    unsafe {
        let mut act: libc::sigaction = std::mem::zeroed();
        act.sa_sigaction = handler as usize;
        act.sa_flags = libc::SA_SIGINFO;
        // All other signals wait, as in QEMU's own handlers.
        libc::sigfillset(&raw mut act.sa_mask);
        act
    }
}

/// Puts handlers in front of QEMU's, once QEMU has its own.
pub(super) fn hold() {
    if HELD.swap(true, Ordering::Relaxed) {
        return;
    }
    for signal in FROM_OUTSIDE.into_iter().chain([SIGSEGV]) {
        let own = calling(if signal == SIGSEGV { on_fault } else { on_signal });
        // SAFETY: the action is written before the handler that reads it is in place.
        unsafe {
            let kept = (*ACTS.0.get())[signal as usize].as_mut_ptr();
            // 0 and 1: the default, and a signal that is ignored.
            if libc::sigaction(signal, std::ptr::null(), kept) == 0 && (*kept).sa_sigaction > 1 {
                libc::sigaction(signal, &raw const own, std::ptr::null_mut());
            }
        }
    }
}

/// A signal came from outside: it waits for the next block, QEMU's own handler takes further ones.
unsafe extern "C" fn on_signal(signal: c_int, _: *const c_void, _: *mut c_void) {
    // SAFETY: this handler is in place, so the action was kept.
    unsafe {
        libc::sigaction(signal, (*ACTS.0.get())[signal as usize].as_ptr(), std::ptr::null_mut())
    };
    PENDING.store(signal, Ordering::Relaxed);
}

/// Memory could not be accessed.
unsafe extern "C" fn on_fault(signal: c_int, about: *const c_void, context: *mut c_void) {
    // SAFETY: the kernel describes the fault (`si_addr` of siginfo.h); QEMU's handler was kept, and has this type.
    unsafe {
        let address = about.cast::<u64>().add(2).read();
        super::callbacks::on_fault(address);
        let handler = (*(*ACTS.0.get())[signal as usize].as_ptr()).sa_sigaction;
        std::mem::transmute::<usize, Handler>(handler)(signal, about, context);
    }
}

/// Takes the signal that came from outside, if one did.
#[inline(always)]
pub(super) fn pending() -> bool {
    PENDING.load(Ordering::Relaxed) != 0
}

/// Gives QEMU the signal that came from outside, after `write` if it ends the program.
pub(super) fn pass_on(dispositions: &Dispositions, write: impl FnOnce()) {
    let signal = PENDING.swap(0, Ordering::Relaxed);
    if signal == 0 {
        return;
    }
    if dispositions.are_fatal(signal) {
        write();
    }
    // SAFETY: sends a signal to this process, whose handler is QEMU's again.
    unsafe { libc::kill(std::process::id() as c_int, signal) };
}

/// The number of the fault's signal.
pub(super) const FAULT_SIGNAL: i32 = SIGSEGV;
