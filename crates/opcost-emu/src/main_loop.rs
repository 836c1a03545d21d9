//! Keeps QEMU's main loop from moving the guest's clock and the turns of the guest's CPUs.
//!
//! With `-icount sleep=off` the guest's clock skips the time in which all CPUs are halted: QEMU's main loop adds the time until the
//! next timer (`icount_start_warp_timer` in accel/tcg/icount-common.c) and runs the timers that are due. The main loop checks
//! whenever the host has something for QEMU. Two runs of one guest then differ:
//! - A CPU counts as halted from within `hlt` on, but its executed instructions are added to the clock a moment later. A
//!   check in between adds too much.
//! - The main loop interrupts all CPUs when it moves the clock or runs a timer. The thread of the CPUs then continues with
//!   another CPU than if the thread had come to rest first, or had run the timer itself.
//! - The timer that ends the turns of several CPUs (`rr_start_kick_timer` in accel/tcg/tcg-accel-ops-rr.c) restarts only
//!   where the thread of the CPUs comes to rest.
//! - A turn ends no later than the next timer, and timers of the host's clock count as well (`icount_get_limit` in
//!   accel/tcg/tcg-accel-ops-icount.c). QEMU 10.0 has a timer that is due every half second.
//!
//! The plugin stops QEMU's clock of the host; the timers of this clock serve screens and monitors. QEMU takes its one big lock
//! through a function pointer in a variable, so that a profiler can replace the function (util/qsp.c), and waits likewise. The
//! plugin replaces both functions. Other threads then get the lock only while the thread of the CPUs rests: the guest alone decides
//! where its clock stands at that time. If the thread of the CPUs does not rest for [`BUSY`], other threads get the lock between
//! two halts.
//!
//! **QEMU's other threads wait until the CPUs' thread rests** (`main_loop.rs` of the plugin). QEMU's main loop skips idle
//! time, runs timers and interrupts CPUs whenever the host has something for it. It could do so between `hlt` and the moment
//! when QEMU adds that CPU's instructions to the clock. The clock then ran ahead, the kernel's random numbers changed, and
//! several CPUs took other turns. The plugin replaces the functions by which QEMU takes its big lock and waits. It also stops
//! the host's clock within QEMU, whose timers ended turns. A guest whose state is kept boots with the plugin, too
//! (`window=never`).

use crate::api::{self, Api};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The longest time that other threads wait while the CPUs execute.
const BUSY: Duration = Duration::from_millis(100);

/// The longest time that other threads wait while CPUs halt or a timer is due; some instructions of the host end such a wait.
const HALTING: Duration = Duration::from_secs(10);

/// The interval at which other threads check again after [`BUSY`].
const LOOK_EVERY: Duration = Duration::from_micros(100);

/// QEMU's clock of the host (`QEMU_CLOCK_REALTIME` in include/qemu/timer.h).
const REALTIME: c_int = 0;

/// QEMU's clock of the guest (`QEMU_CLOCK_VIRTUAL`).
const VIRTUAL: c_int = 1;

type Lock = unsafe extern "C" fn(*mut c_void, *const c_char, c_int);
type Wait = unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_char, c_int);

/// The functions that QEMU exports (include/qemu/thread.h, include/hw/core/cpu.h, include/qemu/timer.h).
struct Qemu {
    lock: Lock,
    unlock: Lock,
    wait: Wait,
    all_idle: unsafe extern "C" fn() -> bool,
    is_expired: unsafe extern "C" fn(c_int) -> bool,
}

static QEMU: OnceLock<Qemu> = OnceLock::new();

/// The big lock, known once it was taken.
static BIG_LOCK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Whether the thread of the CPUs is known.
static KNOWN: AtomicBool = AtomicBool::new(false);

/// Whether the thread of the CPUs waits, so that the thread with the lock may do anything.
static RESTS: AtomicBool = AtomicBool::new(false);

/// Whether a CPU is within `hlt` and its executed instructions are not yet added to the clock.
static HALTS: AtomicBool = AtomicBool::new(false);

static TURN: Mutex<()> = Mutex::new(());
static RESTED: Condvar = Condvar::new();

thread_local! {
    /// Whether this thread runs the CPUs.
    static RUNS_CPUS: Cell<bool> = const { Cell::new(false) };
}

/// Stops QEMU's clock of the host, and replaces QEMU's functions that take the big lock and that wait.
///
/// # Errors
/// This QEMU does not export the needed functions and variables.
///
/// # Safety
/// QEMU is loading the plugin: there is one thread.
pub(crate) unsafe fn hold() -> Result<(), String> {
    // QEMU 9.0 and later use the first name, earlier versions the second.
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

/// Notes that the calling thread runs the CPUs.
pub(crate) fn know_thread() {
    if !RUNS_CPUS.get() {
        RUNS_CPUS.set(true);
        KNOWN.store(true, Ordering::SeqCst);
    }
}

/// Keeps other threads from the clock from a halting instruction on, until the executed instructions are added to the clock.
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

/// Called when a CPU is about to halt.
unsafe extern "C" fn on_halt(_: c_uint, _: *mut c_void) {
    let big_lock = BIG_LOCK.load(Ordering::Relaxed);
    let Some(qemu) = QEMU.get().filter(|_| !big_lock.is_null()) else { return };
    // The thread with the lock came before `hlt`: its changes to the clock are done when this thread gets the lock.
    // SAFETY: QEMU's own functions on its own lock; a thread that executes a guest does not have the lock.
    unsafe {
        (qemu.lock)(big_lock, c"opcost".as_ptr(), 0);
        HALTS.store(true, Ordering::Relaxed);
        (qemu.unlock)(big_lock, c"opcost".as_ptr(), 0);
    }
}

/// Takes the big lock at a time when its holder moves neither clock nor turns.
unsafe extern "C" fn lock(mutex: *mut c_void, file: *const c_char, line: c_int) {
    let Some(qemu) = QEMU.get() else { return };
    // SAFETY: QEMU asks for its lock, and these are QEMU's own functions. QEMU's functions called here need the lock, which this
    // thread has.
    unsafe {
        (qemu.lock)(mutex, file, line);
        BIG_LOCK.store(mutex, Ordering::Relaxed);
        if RUNS_CPUS.get() {
            // A CPU's executed instructions are added to the clock before its thread asks for the lock.
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
            // The thread of the CPUs announces its rest while it has the lock, so this thread cannot miss the announcement.
            let turn = turn();
            (qemu.unlock)(mutex, file, line);
            let limit = BUSY.saturating_sub(waited).max(LOOK_EVERY);
            drop(RESTED.wait_timeout(turn, limit).unwrap_or_else(PoisonError::into_inner));
            (qemu.lock)(mutex, file, line);
        }
    }
}

/// Waits, and announces the wait to threads that want the big lock.
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
    // SAFETY: QEMU asks to wait, and this is QEMU's own function.
    unsafe { (qemu.wait)(condition, mutex, file, line) };
    if rests {
        RESTS.store(false, Ordering::Relaxed);
    }
}

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
