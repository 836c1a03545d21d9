//! A main loop of QEMU that cannot put off the guest's clock, nor the turns of its CPUs.
//!
//! With `-icount sleep=off` the guest's clock skips the time in which all CPUs are halted: QEMU's main
//! loop adds what is left until the next timer (`icount_start_warp_timer` in accel/tcg/icount-common.c)
//! and runs the timers that are due. It looks whenever the host has something for QEMU. Two runs of one
//! guest then differ:
//! - A CPU counts as halted from within `hlt` on, and what it executed is added to the clock a moment
//!   later. A look in between adds too much.
//! - The main loop interrupts all CPUs when it moves the clock or runs a timer. The thread of the CPUs
//!   then goes on with another CPU than if it had come to rest first, or had run the timer itself.
//! - The timer that ends the turns of several CPUs (`rr_start_kick_timer` in
//!   accel/tcg/tcg-accel-ops-rr.c) begins anew only where that thread comes to rest.
//! - A turn lasts no longer than until a timer is due, and timers of the host's clock count
//!   (`icount_get_limit` in accel/tcg/tcg-accel-ops-icount.c). QEMU 10.0 has one that is due each half second.
//!
//! The plugin stops the host's clock within QEMU; its timers serve screens and monitors. QEMU takes its one
//! big lock by a function whose address is in a variable, so that a profiler can take its place
//! (util/qsp.c), and waits likewise. The plugin takes these places. Other threads then get the lock only
//! while the thread of the CPUs rests: the guest alone decides where its clock stands at that time. If that
//! thread does not rest for [`BUSY`], they get the lock between two halts.

use crate::api::{self, Api};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long other threads wait at most while the CPUs execute.
const BUSY: Duration = Duration::from_millis(100);

/// How long they wait at most while CPUs halt or a timer is due, which some instructions of the host end.
const HALTING: Duration = Duration::from_secs(10);

/// How often they look after [`BUSY`].
const LOOK_EVERY: Duration = Duration::from_micros(100);

/// QEMU's clock of the host (`QEMU_CLOCK_REALTIME` in include/qemu/timer.h).
const REALTIME: c_int = 0;

/// QEMU's clock of the guest (`QEMU_CLOCK_VIRTUAL`).
const VIRTUAL: c_int = 1;

type Lock = unsafe extern "C" fn(*mut c_void, *const c_char, c_int);
type Wait = unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_char, c_int);

/// What QEMU exports (include/qemu/thread.h, include/hw/core/cpu.h, include/qemu/timer.h).
struct Qemu {
    lock: Lock,
    unlock: Lock,
    wait: Wait,
    all_idle: unsafe extern "C" fn() -> bool,
    is_expired: unsafe extern "C" fn(c_int) -> bool,
}

static QEMU: OnceLock<Qemu> = OnceLock::new();

/// The big lock, once it was taken.
static BIG_LOCK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Whether the thread of the CPUs is known.
static KNOWN: AtomicBool = AtomicBool::new(false);

/// Whether the thread of the CPUs waits, so that whoever has the lock may do anything.
static RESTS: AtomicBool = AtomicBool::new(false);

/// Whether a CPU is within `hlt`, and what it executed is not yet added to the clock.
static HALTS: AtomicBool = AtomicBool::new(false);

static TURN: Mutex<()> = Mutex::new(());
static RESTED: Condvar = Condvar::new();

thread_local! {
    /// Whether this thread runs the CPUs.
    static RUNS_CPUS: Cell<bool> = const { Cell::new(false) };
}

/// Whether an instruction halts its CPU in QEMU: `hlt` and `mwait`.
pub(crate) fn halts(code: &[u8]) -> bool {
    matches!(code, [0xf4] | [0x0f, 0x01, 0xc9])
}

/// Stops QEMU's clock of the host, and takes the place of its functions that take the big lock and wait.
///
/// # Errors
/// This QEMU does not export what that takes.
///
/// # Safety
/// QEMU loads the plugin: there is one thread.
pub(crate) unsafe fn hold() -> Result<(), String> {
    // From 9.0 on it has the second name.
    let lock_variable = api::find(c"bql_mutex_lock_func")
        .map_or_else(|| api::look_up(c"qemu_bql_mutex_lock_func"), Ok)?;
    let lock_variable = lock_variable.cast::<Lock>();
    let wait_variable = api::look_up(c"qemu_cond_wait_func")?.cast::<Wait>();
    let unlock = api::look_up(c"qemu_mutex_unlock_impl")?;
    let all_idle = api::look_up(c"all_cpu_threads_idle")?;
    let is_expired = api::look_up(c"qemu_clock_expired")?;
    let enable = api::look_up(c"qemu_clock_enable")?;
    // SAFETY: QEMU exports functions and variables of these types under these names (7.2 to 11.1), and
    // no other thread reads the variables yet.
    unsafe {
        let qemu = Qemu {
            lock: *lock_variable,
            unlock: transmute::<*mut c_void, Lock>(unlock),
            wait: *wait_variable,
            all_idle: transmute::<*mut c_void, unsafe extern "C" fn() -> bool>(all_idle),
            is_expired: transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> bool>(is_expired),
        };
        if QEMU.set(qemu).is_ok() {
            let enable = transmute::<*mut c_void, unsafe extern "C" fn(c_int, bool)>(enable);
            enable(REALTIME, false);
            *lock_variable = lock;
            *wait_variable = wait;
        }
    }
    Ok(())
}

/// The calling thread runs the CPUs.
pub(crate) fn know_thread() {
    if !RUNS_CPUS.get() {
        RUNS_CPUS.set(true);
        KNOWN.store(true, Ordering::SeqCst);
    }
}

/// Has other threads leave the clock alone from an instruction that halts on, until what was executed is added to it.
///
/// # Safety
/// `instruction` is QEMU's of the running callback on a translation.
pub(crate) unsafe fn keep_clock(api: &Api, instruction: *mut c_void) {
    if QEMU.get().is_some() {
        // SAFETY: the handle is as the caller promises.
        unsafe {
            let on_instruction = api.functions.on_instruction;
            on_instruction(instruction, on_halt, api::NO_REGISTERS, ptr::null_mut());
        }
    }
}

/// A CPU is about to halt.
unsafe extern "C" fn on_halt(_: c_uint, _: *mut c_void) {
    let big_lock = BIG_LOCK.load(Ordering::Relaxed);
    let Some(qemu) = QEMU.get().filter(|_| !big_lock.is_null()) else { return };
    // Whoever has the lock came before `hlt`: what it does to the clock is done when this thread has it.
    // SAFETY: QEMU's own functions on its own lock, which a thread that executes a guest does not have.
    unsafe {
        (qemu.lock)(big_lock, c"opcost".as_ptr(), 0);
        HALTS.store(true, Ordering::Relaxed);
        (qemu.unlock)(big_lock, c"opcost".as_ptr(), 0);
    }
}

/// Takes the big lock, where that moves neither clock nor turns.
unsafe extern "C" fn lock(mutex: *mut c_void, file: *const c_char, line: c_int) {
    let Some(qemu) = QEMU.get() else { return };
    // SAFETY: QEMU asks for its lock, by its own functions. What is asked of QEMU takes the lock, which
    // this thread has.
    unsafe {
        (qemu.lock)(mutex, file, line);
        BIG_LOCK.store(mutex, Ordering::Relaxed);
        if RUNS_CPUS.get() {
            // What a CPU executed is added before its thread asks for the lock.
            HALTS.store(false, Ordering::Relaxed);
            return;
        }
        if !KNOWN.load(Ordering::SeqCst) {
            return;
        }
        let since = Instant::now();
        loop {
            let waited = since.elapsed();
            let may = RESTS.load(Ordering::Relaxed)
                || waited >= BUSY
                    && !HALTS.load(Ordering::Relaxed)
                    && !(qemu.all_idle)()
                    && !(qemu.is_expired)(VIRTUAL)
                || waited >= HALTING;
            if may {
                return;
            }
            // The thread of the CPUs says that it rests while it has the lock, so it cannot be missed.
            let turn = turn();
            (qemu.unlock)(mutex, file, line);
            let limit = BUSY.saturating_sub(waited).max(LOOK_EVERY);
            drop(RESTED.wait_timeout(turn, limit).unwrap_or_else(PoisonError::into_inner));
            (qemu.lock)(mutex, file, line);
        }
    }
}

/// Waits, and says so to those who want the big lock.
unsafe extern "C" fn wait(
    condition: *mut c_void,
    mutex: *mut c_void,
    file: *const c_char,
    line: c_int,
) {
    let Some(qemu) = QEMU.get() else { return };
    let rests = RUNS_CPUS.get() && mutex == BIG_LOCK.load(Ordering::Relaxed);
    if rests {
        let _turn = turn();
        RESTS.store(true, Ordering::Relaxed);
        RESTED.notify_all();
    }
    // SAFETY: QEMU waits, by its own function.
    unsafe { (qemu.wait)(condition, mutex, file, line) };
    if rests {
        RESTS.store(false, Ordering::Relaxed);
    }
}

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
