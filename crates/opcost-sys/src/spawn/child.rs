//! What the child does between its making and its program.
//!
//! Rules, because it may share its parent's memory while the parent runs: system calls only, made
//! without the C library; no allocation, no lock, no panic, no thread-local; it writes nothing but
//! its own stack. All signals are blocked from before its making until right before its program.

use super::Aslr;
use super::error::Stage;
use super::plan::Plan;
use super::syscall::call;
use crate::personality;
use std::ffi::{c_int, c_void};

/// The byte that lets a child go.
pub(super) const GO: u8 = b'!';

/// Bytes of a child's report: the stage's number and the error number, native 32-bit words.
pub(super) const REPORT_BYTES: usize = 8;

/// A step that failed, with its error number.
pub(super) type Failure = (Stage, i32);

/// Exit status of a child that did not reach its program; nobody is left to see another.
const NOT_STARTED: usize = 127;

/// Entry of the child: gets ready, waits for the byte, executes the program or reports why not.
///
/// A failure to get ready is reported only after the byte, so that the process stays there while
/// the parent attaches counters to it.
///
/// `argument` points to a [`Plan`] that stays valid and unchanged until the program is executed or
/// the child is gone.
pub(super) extern "C" fn main(argument: *mut c_void) -> c_int {
    // SAFETY: whoever makes the child passes a Plan and keeps it (see `Spawn::hold`).
    let plan = unsafe { &*argument.cast_const().cast::<Plan>() };
    // First of all: while we hold the parent's end, too, our waiting would outlive the parent. It
    // cannot fail, since the descriptor is open.
    // SAFETY: integers only; the table of descriptors is our own.
    let _ = unsafe { call(libc::SYS_close, [plan.parent_socket as usize]) };
    let ready = prepare(plan);
    if wait_for_go(plan) {
        let (stage, errno) = match ready {
            Ok(()) => execute(plan),
            Err(failure) => failure,
        };
        let report = [stage as u32, errno as u32];
        let address = (&raw const report) as usize;
        // SAFETY: the call reads REPORT_BYTES from `report`.
        let _ = unsafe { call(libc::SYS_write, [plan.socket as usize, address, REPORT_BYTES]) };
    }
    exit()
}

/// Ends a child that did not reach its program.
pub(super) fn exit() -> ! {
    loop {
        // SAFETY: ends this process without running any of the parent's exit handlers.
        let _ = unsafe { call(libc::SYS_exit_group, [NOT_STARTED]) };
    }
}

/// Sets everything up that the program finds.
pub(super) fn prepare(plan: &Plan) -> Result<(), Failure> {
    live_no_longer_than_parent(plan)?;
    // SAFETY: integers only.
    unsafe { call(libc::SYS_setpgid, [0, 0]) }.map_err(|errno| (Stage::ProcessGroup, errno))?;
    move_descriptors(plan).map_err(|errno| (Stage::Descriptors, errno))?;
    if let Some(cwd) = plan.cwd() {
        // SAFETY: a C string owned by the plan.
        unsafe { call(libc::SYS_chdir, [cwd.as_ptr() as usize]) }
            .map_err(|errno| (Stage::Chdir, errno))?;
    }
    if let Some(cpu) = &plan.cpu {
        // SAFETY: the kernel reads as many bytes as the mask has.
        unsafe { call(libc::SYS_sched_setaffinity, [0, cpu.bytes(), cpu.as_ptr() as usize]) }
            .map_err(|errno| (Stage::Affinity, errno))?;
    }
    set_aslr(plan.aslr).map_err(|errno| (Stage::Personality, errno))?;
    reset_signals().map_err(|errno| (Stage::Signals, errno))
}

fn live_no_longer_than_parent(plan: &Plan) -> Result<(), Failure> {
    let failed = |errno| (Stage::ParentDeath, errno);
    let request = libc::PR_SET_PDEATHSIG as usize;
    // SAFETY: integers only.
    unsafe { call(libc::SYS_prctl, [request, libc::SIGKILL as usize, 0, 0, 0]) }.map_err(failed)?;
    // If the parent died before the request, no signal will come, but we have another parent.
    // SAFETY: no arguments.
    match unsafe { call(libc::SYS_getppid, []) } {
        Ok(pid) if pid == plan.parent_pid as usize => Ok(()),
        _ => Err(failed(libc::ESRCH)),
    }
}

fn move_descriptors(plan: &Plan) -> Result<(), i32> {
    // Whatever this process inherited from its own parent without close-on-exec must not reach
    // programs. Before Linux 5.11 the flag is unknown, and the programs get it as they always did.
    let flag = libc::CLOSE_RANGE_CLOEXEC as usize;
    // SAFETY: integers only.
    let _ = unsafe { call(libc::SYS_close_range, [3, u32::MAX as usize, flag]) };
    for (from, to) in &plan.moves {
        // The copy is without close-on-exec, since the flags are 0. `from` and `to` differ, which
        // dup3 demands (see `Plan::moves`).
        // SAFETY: integers only.
        unsafe { call(libc::SYS_dup3, [*from as usize, *to as usize, 0]) }?;
    }
    Ok(())
}

fn set_aslr(aslr: Aslr) -> Result<(), i32> {
    let random = match aslr {
        Aslr::Inherit => return Ok(()),
        Aslr::Fixed => false,
        Aslr::Randomised => true,
    };
    // SAFETY: integers only.
    unsafe {
        let persona = call(libc::SYS_personality, [personality::QUERY as usize])?;
        let wanted = personality::with_aslr(persona as i32, random);
        call(libc::SYS_personality, [wanted as u32 as usize])?;
    }
    Ok(())
}

/// Size of the kernel's signal set, which its signal calls ask for.
const SIGNAL_SET_BYTES: usize = 8;

/// Gives every signal its default action.
///
/// Programs inherit ignored signals (SIGPIPE, which Rust's runtime ignores), and a handler of the
/// parent's must not run here once signals are unblocked.
fn reset_signals() -> Result<(), i32> {
    // The kernel's struct sigaction: handler SIG_DFL (0), no flags, empty mask.
    let default_action = [0u64; 4];
    for signal in 1..=64 {
        if signal == libc::SIGKILL as usize || signal == libc::SIGSTOP as usize {
            continue;
        }
        let action = (&raw const default_action) as usize;
        // SAFETY: the kernel reads one structure of at most 32 bytes; null asks for no old one.
        unsafe { call(libc::SYS_rt_sigaction, [signal, action, 0, SIGNAL_SET_BYTES]) }?;
    }
    Ok(())
}

/// Waits for the parent's byte; false if the parent went away instead.
fn wait_for_go(plan: &Plan) -> bool {
    let mut byte = 0u8;
    let address = (&raw mut byte) as usize;
    loop {
        // SAFETY: the kernel writes at most one byte into `byte`.
        match unsafe { call(libc::SYS_read, [plan.socket as usize, address, 1]) } {
            Err(libc::EINTR) => {}
            Ok(1) => return true,
            _ => return false,
        }
    }
}

/// Executes the program; returns only if that failed.
fn execute(plan: &Plan) -> Failure {
    execute_after(plan, || ())
}

/// Executes the program, and `last` right before it; returns only if that failed.
#[inline(always)]
pub(super) fn execute_after(plan: &Plan, last: impl Fn()) -> Failure {
    let none_blocked = 0u64;
    let set = (&raw const none_blocked) as usize;
    let how = libc::SIG_SETMASK as usize;
    // SAFETY: the kernel reads a set of SIGNAL_SET_BYTES; null asks for no old one.
    if let Err(errno) = unsafe { call(libc::SYS_rt_sigprocmask, [how, set, 0, SIGNAL_SET_BYTES]) } {
        return (Stage::Signals, errno);
    }
    let program = plan.program.as_ptr() as usize;
    let (argv, env) = (plan.argv.as_ptr() as usize, plan.env.as_ptr() as usize);
    last();
    // SAFETY: a C string and two null-terminated arrays of C strings, owned by the plan.
    match unsafe { call(libc::SYS_execve, [program, argv, env]) } {
        Err(errno) => (Stage::Exec, errno),
        // execve does not return when it succeeds.
        Ok(_) => (Stage::Exec, 0),
    }
}
