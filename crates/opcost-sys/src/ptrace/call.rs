//! The calls of `ptrace(2)` and others that stopping needs.

use crate::spawn::Status;
use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::os::fd::AsRawFd;
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

/// What a traced thread came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Event {
    /// It stands at the entry to or the exit from a system call.
    SystemCall,
    /// It stands because this signal is about to be delivered.
    Signal(c_int),
    /// Job control stopped it.
    Stopped,
    /// It stands for another reason, of the tracer's.
    Other,
    /// It has ended.
    Ended(Status),
}

/// Makes this thread the tracer of a process and of all that it starts; they die with this thread.
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

/// Waits for what this thread traces; `None` if there is nothing any more.
pub(super) fn next_event() -> io::Result<Option<(i32, Event)>> {
    let mut status = 0;
    let tid = loop {
        // SAFETY: waitpid writes one int into `status`. Other threads' children are left to them.
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
            0 if signal == libc::SIGTRAP | 0x80 => Event::SystemCall,
            0 => Event::Signal(signal),
            // A stop by job control has its signal there, a new thread's first one SIGTRAP
            // (ptrace(2), PTRACE_EVENT_STOP).
            libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => Event::Stopped,
            _ => Event::Other,
        }
    };
    Ok(Some((tid, event)))
}

/// Lets a thread go on to the entry or exit of a system call; delivers `signal` unless that is 0.
pub(super) fn go_to_next_system_call(tid: i32, signal: c_int) {
    let signal = signal as usize as *mut c_void;
    // SAFETY: PTRACE_SYSCALL takes the signal as an integer in the place of a pointer. It fails for a
    // thread that was killed meanwhile, whose end is seen next.
    unsafe { libc::ptrace(libc::PTRACE_SYSCALL as c_uint, tid, ptr::null_mut::<c_void>(), signal) };
}

/// Leaves a thread stopped that job control stopped, and sees when it is continued.
pub(super) fn listen(tid: i32) {
    let none = ptr::null_mut::<c_void>();
    // SAFETY: PTRACE_LISTEN takes no more than the thread; a killed one's end is seen next.
    unsafe { libc::ptrace(libc::PTRACE_LISTEN as c_uint, tid, none, none) };
}

/// The number and arguments of the system call at whose entry a thread stands; `None` at an exit, and
/// for calls of another architecture than this process's.
pub(super) fn entered(tid: i32) -> io::Result<Option<(u64, [u64; 6])>> {
    let mut info = std::mem::MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    let bytes = size_of::<libc::ptrace_syscall_info>() as *mut c_void;
    // SAFETY: PTRACE_GET_SYSCALL_INFO writes at most as many bytes as it is told, which fit.
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
/// This process's architecture.
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// Kills a process by one of its threads, which this thread traces, so that the number is still its own.
pub(super) fn kill(tid: i32) {
    // SAFETY: kill takes integers.
    unsafe { libc::kill(tid, libc::SIGKILL) };
}

/// Kills a process.
pub(super) fn kill_by_handle(process: &impl AsRawFd) {
    // SAFETY: pidfd_send_signal takes integers and a null pointer, which is no information beside the
    // signal. It fails for a process that has ended.
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
