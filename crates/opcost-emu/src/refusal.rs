//! Actions of a program that user mode cannot count exactly.
//!
//! The cells that QEMU adds to are shared words without locks, so a second thread would lose counts. A child process counts in its
//! own copy of the cells. A program that replaces itself leaves the emulator. The plugin notices and refuses all three; emulating
//! the whole machine is the remedy.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// The reason why the counts must not be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Refusal {
    /// More than one thread executes.
    Thread = 1,
    /// A child process was started.
    Child = 2,
}

static REFUSED: AtomicU8 = AtomicU8::new(0);
static USER_MODE: AtomicBool = AtomicBool::new(false);
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Notes the process that is counted, and its mode.
pub(crate) fn start(user_mode: bool) {
    USER_MODE.store(user_mode, Ordering::Relaxed);
    PROCESS.store(std::process::id(), Ordering::Relaxed);
}

/// Whether QEMU emulates one program instead of a machine.
pub(crate) fn in_user_mode() -> bool {
    USER_MODE.load(Ordering::Relaxed)
}

/// Whether the plugin saw more than one thread.
pub(crate) fn threads() -> bool {
    REFUSED.load(Ordering::Relaxed) == Refusal::Thread as u8
}

/// Whether this process is the one that is counted, not a child of it.
pub(crate) fn is_first_process() -> bool {
    PROCESS.load(Ordering::Relaxed) == std::process::id()
}

/// Refuses the counts; the first reason stays.
pub(crate) fn refuse(refusal: Refusal) {
    let _ = REFUSED.compare_exchange(0, refusal as u8, Ordering::Relaxed, Ordering::Relaxed);
}

/// Returns the reason why the counts were refused, if they were.
pub(crate) fn refused() -> Option<&'static str> {
    let user = in_user_mode();
    match REFUSED.load(Ordering::Relaxed) {
        1 if user => Some(
            "the program started a second thread, which cannot be counted exactly in user mode; \
             use --kernel to run it on a whole emulated machine",
        ),
        1 => Some(
            "the emulator ran vCPUs on several threads; start it with -accel tcg,thread=single",
        ),
        2 => Some(
            "the program started a child process, whose cost cannot be counted in user mode; use \
             --kernel to run it on a whole emulated machine",
        ),
        _ => None,
    }
}
