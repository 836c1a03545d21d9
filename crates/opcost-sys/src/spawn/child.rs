//! The child's steps between its creation and its program.
//!
//! The child may share its parent's memory while the parent runs, so it follows these rules: system calls only, made without the C
//! library; no allocation, no lock, no panic, no thread-local; no writes except to its own stack. All signals are blocked from
//! before the child's creation until right before its program.

use super::Aslr;
use super::error::Stage;
use super::plan::Plan;
use crate::personality;
use crate::syscall::call;
use std::ffi::{c_int, c_void};

/// The byte that lets a child go on.
pub(super) const GO: u8 = b'!';

/// Bytes of a child's report: the stage's number and the error number, native 32-bit words.
pub(super) const REPORT_BYTES: usize = 8;

/// A failed step with its error number.
pub(super) type Failure = (Stage, i32);

/// Exit status of a child that did not reach its program.
const NOT_STARTED: usize = 127;

/// Entry of the child: prepares, waits for the byte, then executes the program or reports the failure.
///
/// The child reports a failed preparation only after the byte, so that the process exists while the parent attaches counters to it.
///
/// `argument` points to a [`Plan`] that stays valid and unchanged until the child executes the program or is gone.
pub(super) extern "C" fn main(argument: *mut c_void) -> c_int {
    // SAFETY: the maker of the child passes a Plan and keeps it (see `Spawn::hold`).
    let plan = unsafe { &*argument.cast_const().cast::<Plan>() };
    // This comes first: while the child also holds the parent's end, its wait would outlive the parent. The call cannot fail, since
    // the descriptor is open.
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

/// Prepares the surroundings of the program.
pub(super) fn prepare(plan: &Plan) -> Result<(), Failure> {
    live_no_longer_than_parent(plan)?;
    let step = if plan.own_session { libc::SYS_setsid } else { libc::SYS_setpgid };
    // SAFETY: integers only; setsid takes none.
    unsafe { call(step, [0, 0]) }.map_err(|errno| (Stage::ProcessGroup, errno))?;
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
    set_priority(plan.real_time_ms_max).map_err(|errno| (Stage::Priority, errno))?;
    reset_signals().map_err(|errno| (Stage::Signals, errno))
}

fn live_no_longer_than_parent(plan: &Plan) -> Result<(), Failure> {
    let failed = |errno| (Stage::ParentDeath, errno);
    let request = libc::PR_SET_PDEATHSIG as usize;
    // SAFETY: integers only.
    unsafe { call(libc::SYS_prctl, [request, libc::SIGKILL as usize, 0, 0, 0]) }.map_err(failed)?;
    // If the parent died before the request, no signal will come, but this process has another parent.
    // SAFETY: no arguments.
    match unsafe { call(libc::SYS_getppid, []) } {
        Ok(pid) if pid == plan.parent_pid as usize => Ok(()),
        _ => Err(failed(libc::ESRCH)),
    }
}

fn move_descriptors(plan: &Plan) -> Result<(), i32> {
    // Programs must not get descriptors that this process inherited from its own parent without close-on-exec. Before Linux 5.11
    // the flag is unknown, and programs get these descriptors.
    let flag = libc::CLOSE_RANGE_CLOEXEC as usize;
    // SAFETY: integers only.
    let _ = unsafe { call(libc::SYS_close_range, [3, u32::MAX as usize, flag]) };
    for (from, to) in &plan.moves {
        // The copy is without close-on-exec, since the flags are 0. dup3 demands that `from` and `to` differ (see `Plan::moves`).
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

fn set_priority(real_time_ms_max: u32) -> Result<(), i32> {
    if real_time_ms_max == 0 {
        return Ok(());
    }
    // The kernel's struct rlimit64, microseconds: SIGXCPU, and a second later SIGKILL.
    let limits = [0, 1000].map(|more| (u64::from(real_time_ms_max) + more) * 1000);
    // The kernel's struct sched_param: the lowest priority.
    let lowest: c_int = 1;
    let (limits, lowest) = ((&raw const limits) as usize, (&raw const lowest) as usize);
    // SAFETY: the kernel reads two words and an int; null requests no old limits.
    unsafe {
        call(libc::SYS_prlimit64, [0, libc::RLIMIT_RTTIME as usize, limits, 0])?;
        call(libc::SYS_sched_setscheduler, [0, libc::SCHED_FIFO as usize, lowest])?;
    }
    Ok(())
}

/// Size of the kernel's signal set, an argument of its signal calls.
const SIGNAL_SET_BYTES: usize = 8;

/// Gives every signal its default action.
///
/// Programs inherit ignored signals (SIGPIPE, which Rust's runtime ignores). A handler of the parent's must not run here once
/// signals are unblocked.
fn reset_signals() -> Result<(), i32> {
    // The kernel's struct sigaction: handler SIG_DFL (0), no flags, empty mask.
    let default_action = [0u64; 4];
    for signal in 1..=64 {
        if signal == libc::SIGKILL as usize || signal == libc::SIGSTOP as usize {
            continue;
        }
        let action = (&raw const default_action) as usize;
        // SAFETY: the kernel reads one structure of at most 32 bytes; null requests no old structure.
        unsafe { call(libc::SYS_rt_sigaction, [signal, action, 0, SIGNAL_SET_BYTES]) }?;
    }
    Ok(())
}

/// Waits for the parent's byte; returns false if the parent went away instead.
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

/// Executes the program; returns only on failure.
fn execute(plan: &Plan) -> Failure {
    execute_after(plan, || ())
}

/// Calls `last`, then executes the program; returns only on failure.
#[inline(always)]
pub(super) fn execute_after(plan: &Plan, last: impl Fn()) -> Failure {
    let none_blocked = 0u64;
    let set = (&raw const none_blocked) as usize;
    let how = libc::SIG_SETMASK as usize;
    // SAFETY: the kernel reads a set of SIGNAL_SET_BYTES; null requests no old set.
    if let Err(errno) = unsafe { call(libc::SYS_rt_sigprocmask, [how, set, 0, SIGNAL_SET_BYTES]) } {
        return (Stage::Signals, errno);
    }
    let program = plan.program.as_ptr() as usize;
    let (argv, env) = (plan.argv.as_ptr() as usize, plan.env.as_ptr() as usize);
    last();
    // SAFETY: a C string and two null-terminated arrays of C strings, owned by the plan.
    match unsafe { call(libc::SYS_execve, [program, argv, env]) } {
        Err(errno) => (Stage::Exec, errno),
        // A successful execve does not return.
        Ok(_) => (Stage::Exec, 0),
    }
}
