//! The calls of `ptrace(2)` and other system calls that stopping needs.

use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::ptr;

/// The state of a thread, as a wait found it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Seen {
    /// The thread is stopped; the signal about to be delivered, or 0.
    Stopped { signal: c_int },
    /// The thread has ended.
    Ended,
    /// The thread still runs.
    Nothing,
}

fn done(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A stop at a system call, apart from a signal (ptrace(2), `PTRACE_O_TRACESYSGOOD`).
const AT_SYSTEM_CALL: c_int = libc::SIGTRAP | 0x80;

/// Makes this thread the tracer of another thread, which runs on.
pub(super) fn seize(tid: i32) -> io::Result<()> {
    let none = ptr::null_mut::<c_void>();
    let options = libc::PTRACE_O_TRACESYSGOOD as usize as *mut c_void;
    // SAFETY: PTRACE_SEIZE takes integers, the options in the place of a pointer, and touches no memory of this process.
    done(unsafe { libc::ptrace(libc::PTRACE_SEIZE as c_uint, tid, none, options) })
}

/// Asks a seized thread to stop.
pub(super) fn interrupt(tid: i32) -> io::Result<()> {
    let none = ptr::null_mut::<c_void>();
    // SAFETY: PTRACE_INTERRUPT takes only the thread's number, and touches no memory of this process.
    done(unsafe { libc::ptrace(libc::PTRACE_INTERRUPT as c_uint, tid, none, none) })
}

/// Lets a stopped thread go and delivers `signal` to it, unless `signal` is 0.
pub(super) fn detach(tid: i32, signal: c_int) -> io::Result<()> {
    let none = ptr::null_mut::<c_void>();
    let signal = signal as usize as *mut c_void;
    // SAFETY: PTRACE_DETACH takes the signal as an integer in the place of a pointer.
    done(unsafe { libc::ptrace(libc::PTRACE_DETACH as c_uint, tid, none, signal) })
}

/// Looks up the state of a seized thread, without waiting.
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
            // The upper bits hold an event: the requested stop, or a stop of job control. Neither withholds a signal (ptrace(2),
            // PTRACE_EVENT_STOP).
            let signal = libc::WSTOPSIG(status);
            let waits = status >> 16 == 0 && signal != AT_SYSTEM_CALL;
            Ok(Seen::Stopped { signal: if waits { signal } else { 0 } })
        }
        _ => Ok(Seen::Ended),
    }
}

/// Lets a thread go on to the entry or exit of a system call; delivers `signal` unless `signal` is 0.
pub(super) fn go_to_next_system_call(tid: i32, signal: c_int) {
    let signal = signal as usize as *mut c_void;
    // SAFETY: PTRACE_SYSCALL takes the signal as an integer in the place of a pointer. The call fails for a thread that was killed
    // meanwhile; the next event is its end.
    unsafe { libc::ptrace(libc::PTRACE_SYSCALL as c_uint, tid, ptr::null_mut::<c_void>(), signal) };
}

/// Gives this thread priority over all threads of ordinary priority, if the user may ask for that (sched(7), SCHED_FIFO); otherwise
/// changes nothing.
pub(super) fn take_priority() {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: sched_setscheduler reads one sched_param; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &lowest) };
}

/// Returns this thread's number.
pub(super) fn own_tid() -> i32 {
    // SAFETY: gettid takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// Returns the address of the next instruction of a stopped thread.
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

/// Returns the address of the next instruction of a stopped thread.
#[cfg(target_arch = "aarch64")]
pub(super) fn program_counter(tid: i32) -> io::Result<u64> {
    // The set of the general registers (elf.h).
    const NT_PRSTATUS: usize = 1;
    let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
    let mut room = libc::iovec {
        iov_base: registers.as_mut_ptr().cast(),
        iov_len: size_of::<libc::user_regs_struct>(),
    };
    let set = NT_PRSTATUS as *mut c_void;
    // SAFETY: PTRACE_GETREGSET takes the set's number in the place of a pointer, and writes at most `iov_len` bytes.
    done(unsafe { libc::ptrace(libc::PTRACE_GETREGSET as c_uint, tid, set, &raw mut room) })?;
    // SAFETY: all zeros is a valid user_regs_struct, and the kernel has filled it since.
    Ok(unsafe { registers.assume_init() }.pc)
}

/// Returns an error: the registers of this architecture are not supported.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn program_counter(_: i32) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}
