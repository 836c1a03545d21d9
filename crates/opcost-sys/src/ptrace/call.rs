//! The calls of `ptrace(2)` that tracing needs.

use crate::spawn::Status;
use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

fn done(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A stop at a system call, apart from a signal (ptrace(2), `PTRACE_O_TRACESYSGOOD`).
const AT_SYSTEM_CALL: c_int = libc::SIGTRAP | 0x80;

/// An event of a traced thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Event {
    /// The thread is stopped at the entry to or the exit from a system call.
    SystemCall,
    /// The thread is stopped because this signal is about to be delivered.
    Signal(c_int),
    /// Job control stopped the thread.
    Stopped,
    /// The thread is stopped for another reason of the tracer's.
    Other,
    /// The thread has ended.
    Ended(Status),
}

/// Makes this thread the tracer of a process and of everything that it starts; they die with this thread.
pub(super) fn seize_with_children(pid: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_EXITKILL
        | libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC;
    let none = ptr::null_mut::<c_void>();
    let options = options as usize as *mut c_void;
    // SAFETY: PTRACE_SEIZE takes integers, the options in the place of a pointer.
    done(unsafe { libc::ptrace(libc::PTRACE_SEIZE as c_uint, pid, none, options) })
}

/// Waits for an event of the traced threads; `None` if none is left.
pub(super) fn next_event() -> io::Result<Option<(i32, Event)>> {
    let mut status = 0;
    let tid = loop {
        // SAFETY: waitpid writes one int into `status`. Children of other threads are not waited for.
        let found = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        match found {
            ..0 => {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::ECHILD) => return Ok(None),
                    _ => return Err(error),
                }
            }
            tid => break tid,
        }
    };
    let event = if libc::WIFEXITED(status) {
        Event::Ended(Status::Code(libc::WEXITSTATUS(status)))
    } else if libc::WIFSIGNALED(status) {
        Event::Ended(Status::Signal(libc::WTERMSIG(status)))
    } else {
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            0 if signal == AT_SYSTEM_CALL => Event::SystemCall,
            0 => Event::Signal(signal),
            // A stop by job control has its signal here; the first stop of a new thread has SIGTRAP (ptrace(2), PTRACE_EVENT_STOP).
            libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => Event::Stopped,
            _ => Event::Other,
        }
    };
    Ok(Some((tid, event)))
}

/// Lets a thread go on to the entry or exit of a system call; delivers `signal` unless `signal` is 0.
pub(super) fn go_to_next_system_call(tid: i32, signal: c_int) {
    let signal = signal as usize as *mut c_void;
    // SAFETY: PTRACE_SYSCALL takes the signal as an integer in the place of a pointer. The call fails for a thread that was killed
    // meanwhile; the next event is its end.
    unsafe { libc::ptrace(libc::PTRACE_SYSCALL as c_uint, tid, ptr::null_mut::<c_void>(), signal) };
}

/// Leaves a thread stopped by job control stopped, and notices when it is continued.
pub(super) fn listen(tid: i32) {
    let none = ptr::null_mut::<c_void>();
    // SAFETY: PTRACE_LISTEN takes only the thread's number; the next event of a killed thread is its end.
    unsafe { libc::ptrace(libc::PTRACE_LISTEN as c_uint, tid, none, none) };
}

/// Returns the number and arguments of the system call at whose entry a thread is stopped; `None` at an exit, and for system calls
/// of another architecture.
pub(super) fn entered(tid: i32) -> io::Result<Option<(u64, [u64; 6])>> {
    let mut info = std::mem::MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    let bytes = size_of::<libc::ptrace_syscall_info>() as *mut c_void;
    // SAFETY: PTRACE_GET_SYSCALL_INFO writes at most `bytes` bytes, which fit.
    done(unsafe {
        libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO as c_uint, tid, bytes, info.as_mut_ptr())
    })?;
    // SAFETY: all zeros is a valid value, and the kernel has filled it since.
    let info = unsafe { info.assume_init() };
    if info.op != libc::PTRACE_SYSCALL_INFO_ENTRY || info.arch != ARCHITECTURE {
        return Ok(None);
    }
    // SAFETY: at an entry, the kernel has filled this member.
    let entry = unsafe { info.u.entry };
    Ok(Some((entry.nr, entry.args)))
}

/// This process's architecture (linux/audit.h, `AUDIT_ARCH_X86_64`, `AUDIT_ARCH_AARCH64`).
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// Kills a process by the number of a thread that this thread traces; a traced thread's number cannot be reused.
pub(super) fn kill(tid: i32) {
    // SAFETY: kill takes integers.
    unsafe { libc::kill(tid, libc::SIGKILL) };
}

/// Kills a process.
pub(super) fn kill_by_handle(process: &impl AsRawFd) {
    // SAFETY: pidfd_send_signal takes integers and a null pointer, which means no information beside the signal. The call fails for
    // a process that has ended.
    unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            libc::SIGKILL,
            ptr::null::<c_void>(),
            0,
        )
    };
}
