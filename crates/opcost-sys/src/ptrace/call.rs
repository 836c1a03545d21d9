//! The calls of `ptrace(2)` and others that stopping needs.

use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::ptr;

/// What a wait found out of a thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Seen {
    /// It stands still; the signal that was about to be delivered, or 0.
    Stopped { signal: c_int },
    /// It has ended.
    Ended,
    /// It still runs.
    Nothing,
}

fn done(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes this thread the tracer of another, which goes on as before.
pub(super) fn seize(tid: i32) -> io::Result<()> {
    let none = ptr::null_mut::<c_void>();
    // SAFETY: PTRACE_SEIZE takes two integers, no options here, and touches no memory of ours.
    done(unsafe { libc::ptrace(libc::PTRACE_SEIZE as c_uint, tid, none, none) })
}

/// Asks a seized thread to stop.
pub(super) fn interrupt(tid: i32) -> io::Result<()> {
    let none = ptr::null_mut::<c_void>();
    // SAFETY: PTRACE_INTERRUPT takes no more than the thread, and touches no memory of ours.
    done(unsafe { libc::ptrace(libc::PTRACE_INTERRUPT as c_uint, tid, none, none) })
}

/// Lets a stopped thread go and delivers `signal` to it, unless that is 0.
pub(super) fn detach(tid: i32, signal: c_int) -> io::Result<()> {
    let none = ptr::null_mut::<c_void>();
    let signal = signal as usize as *mut c_void;
    // SAFETY: PTRACE_DETACH takes the signal as an integer in the place of a pointer.
    done(unsafe { libc::ptrace(libc::PTRACE_DETACH as c_uint, tid, none, signal) })
}

/// Looks what became of a seized thread, without waiting.
pub(super) fn look(tid: i32) -> io::Result<Seen> {
    let mut status = 0;
    // SAFETY: waitpid writes one int into `status`.
    match unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) } {
        0 => Ok(Seen::Nothing),
        found if found < 0 => {
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::ECHILD) { Ok(Seen::Ended) } else { Err(error) }
        }
        _ if libc::WIFSTOPPED(status) => {
            // An event in the upper bits: the stop that was asked for, or one of job control. No
            // signal is withheld by those (ptrace(2), PTRACE_EVENT_STOP).
            let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) } else { 0 };
            Ok(Seen::Stopped { signal })
        }
        _ => Ok(Seen::Ended),
    }
}

/// Lets this thread come before all of ordinary priority, where the user may ask for that
/// (sched(7), SCHED_FIFO); else it stays as it is.
pub(super) fn come_first() {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: sched_setscheduler reads one sched_param; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &lowest) };
}

/// This thread's number.
pub(super) fn own_tid() -> i32 {
    // SAFETY: gettid takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// The address of the next instruction of a stopped thread.
#[cfg(target_arch = "x86_64")]
pub(super) fn program_counter(tid: i32) -> io::Result<u64> {
    let none = ptr::null_mut::<c_void>();
    let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
    // SAFETY: PTRACE_GETREGS writes one user_regs_struct, for which there is room.
    done(unsafe {
        libc::ptrace(libc::PTRACE_GETREGS as c_uint, tid, none, registers.as_mut_ptr())
    })?;
    // SAFETY: all zeros is a valid user_regs_struct, and the kernel has filled it since.
    Ok(unsafe { registers.assume_init() }.rip)
}

/// The address of the next instruction of a stopped thread; not known on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn program_counter(_: i32) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}
