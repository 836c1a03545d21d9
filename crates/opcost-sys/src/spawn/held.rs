//! A child that waits for permission to execute its program.

use super::child::{GO, REPORT_BYTES};
use super::error::{SpawnError, Stage};
use super::plan::{ChildEnd, ParentEnd, Plan};
use super::running::{Child, PeakFloor, Running, Starter};
use super::spawner::{self, Ends};
use super::{Spawn, child};
use crate::clock::monotonic_ns;
use crate::syscall::MEMORY_IS_SHARED;
use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of 16-byte words on a child's stack; stacks need this alignment. 64 KiB suffice: the child calls a few small
/// functions and runs no signal handler, since all signals are blocked.
pub(super) const STACK_WORDS: usize = 4096;

/// Guards the time in which a child's end of a socket is open in this process. A second child made meanwhile would hold a copy of
/// the end for as long as the second child is held, and [`Held::release`] of the first would wait that long.
static STARTING: Mutex<()> = Mutex::new(());

/// A command's process before it executes its program; counters can be attached to the process.
///
/// Dropping the value kills the process. The process lives no longer than the *thread* that made it (PR_SET_PDEATHSIG): release and
/// wait on the same thread, or keep that thread alive.
#[derive(Debug)]
pub struct Held {
    // Dropped first: once the process is gone, nothing uses the memory below.
    child: Child,
    line: Line,
    program: PathBuf,
}

/// The connection to the process.
#[derive(Debug)]
pub(super) enum Line {
    /// The process shares this process's memory, and closes its end of a socket when it executes its program.
    Own {
        /// The parent's end.
        socket: OwnedFd,
        /// The memory that the process uses until then.
        _memory: Memory,
    },
    /// A spawner made the process, which uses the spawner's memory, and reports over the spawner's socket if it does not execute its
    /// program.
    Spawner {
        ends: Arc<Ends>,
        /// Involuntary switches of the process that opcost's own steps caused.
        switches_before: u64,
    },
}

impl Line {
    /// Lets the process go on; returns the step that failed, if any.
    fn release(&mut self) -> io::Result<Option<(Stage, io::Error)>> {
        match self {
            Line::Own { socket, .. } => send_go(socket).and_then(|()| receive_report(socket)),
            // The report is read when the process has ended: waiting for the program's start would take the CPU from it.
            Line::Spawner { ends, .. } => ends.let_go().map(|()| None),
        }
    }
}

/// The memory that a child shares with this process and uses.
pub(super) struct Memory {
    _plan: Arc<Plan>,
    _stack: Vec<MaybeUninit<u128>>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Memory")
    }
}

impl Held {
    /// Makes the process.
    ///
    /// The process shares this process's memory where possible. A fork would copy the page tables, and each page written afterwards
    /// would fault once more. From a process with 20 MB resident, in a virtual machine, a run of `true` took 0.7-0.8 ms with shared
    /// memory and 1.6-2.1 ms with a copy (medians of 2000, repeated). Unlike vfork, clone lets this process go on meanwhile.
    pub(super) fn new(spawn: &Spawn) -> Result<Held, SpawnError> {
        let one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let (plan, ParentEnd(socket), child_end) = Plan::new(spawn)?;
        let plan = Arc::new(plan);
        let mut stack: Vec<MaybeUninit<u128>> = Vec::with_capacity(STACK_WORDS);
        let child = make(&plan, &mut stack, child_end)
            .map_err(|source| spawn.failed(Stage::Clone, source))?;
        drop(one_at_a_time);
        Ok(Held {
            child,
            line: Line::Own { socket, _memory: Memory { _plan: plan, _stack: stack } },
            program: spawn.program.clone(),
        })
    }

    /// Wraps a process that a spawner made.
    pub(super) fn of_spawner(child: Child, line: Line, program: PathBuf) -> Held {
        Held { child, line, program }
    }

    /// The process's number, for `perf_event_open(2)` and similar calls.
    pub fn pid(&self) -> i32 {
        self.child.pid
    }

    /// Lets the process go on; returns once the process executes its program or failed to. A spawner's process is not waited for:
    /// [`Running::wait`] returns its failure.
    ///
    /// # Errors
    /// [`SpawnError::Step`] with the step that failed in the process.
    pub fn release(mut self) -> Result<Running, SpawnError> {
        let peak_floor = match self.line {
            Line::Own { .. } => PeakFloor::Ours,
            Line::Spawner { .. } => spawner::FLOOR,
        };
        let started_ns = monotonic_ns();
        let report = self.line.release();
        let failed =
            |stage, source| SpawnError::Step { stage, program: self.program.clone(), source };
        match report {
            Ok(None) => {
                // The socket closed. execve replaces the memory before it closes descriptors (fs/exec.c, begin_new_exec), and a
                // killed process gives up its memory before its files (kernel/exit.c, do_exit). The process thus no longer uses
                // this process's memory.
                let Held { child, line, program } = self;
                let starter = match line {
                    Line::Own { .. } => None,
                    Line::Spawner { ends, switches_before } => {
                        Some(Starter { ends, program, switches_before })
                    }
                };
                Ok(Running { child, started_ns, peak_floor, starter })
            }
            Ok(Some((stage, source))) => Err(failed(stage, source)),
            Err(source) => Err(failed(Stage::Release, source)),
        }
    }
}

/// Makes the process with all signals blocked, so that no handler of this process ever runs in the child.
fn make(
    plan: &Arc<Plan>,
    stack: &mut Vec<MaybeUninit<u128>>,
    child_end: ChildEnd,
) -> io::Result<Child> {
    let sharing = if MEMORY_IS_SHARED { libc::CLONE_VM } else { 0 };
    let flags = sharing | libc::CLONE_PIDFD | libc::SIGCHLD;
    let mut pidfd: c_int = -1;
    let before = block_signals()?;
    // SAFETY: the child starts `child::main` at the top of a stack that nothing else uses, which grows down on every supported
    // architecture. The child gets a valid Plan. Both stay valid until the child has left this process's memory: `Held` owns them
    // and first drops its `Child`, which waits for the end of the process. The kernel writes one int into `pidfd`.
    let (pid, error) = unsafe {
        let top = stack.as_mut_ptr().add(STACK_WORDS);
        let argument = Arc::as_ptr(plan).cast_mut().cast();
        let pid = libc::clone(child::main, top.cast(), flags, argument, &raw mut pidfd);
        (pid, io::Error::last_os_error())
    };
    restore_signals(&before);
    // The parent's copy of the child's end must be closed, or the parent would never see the child close it.
    drop(child_end);
    if pid < 0 {
        return Err(error);
    }
    if pidfd < 0 {
        // Before Linux 5.2 the flag is ignored. The child ends, because the parent's end closes.
        drop(Child::without_pidfd(pid));
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    // SAFETY: the kernel has just given this descriptor to this process alone.
    Ok(Child::new(pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

/// Blocks every signal of this thread; returns the previous mask.
pub(super) fn block_signals() -> io::Result<libc::sigset_t> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both point to memory for one set; sigfillset initialises the first before it is read.
    let error = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr())
    };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: pthread_sigmask filled the set, since it returned 0.
    Ok(unsafe { before.assume_init() })
}

pub(super) fn restore_signals(before: &libc::sigset_t) {
    // This cannot fail: the operation is valid, and the kernel returned the set.
    // SAFETY: reads one set; null requests no old set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}

fn send_go(socket: &OwnedFd) -> io::Result<()> {
    let go = [GO];
    loop {
        // SAFETY: reads the one byte of `go`.
        let sent =
            unsafe { libc::send(socket.as_raw_fd(), go.as_ptr().cast(), 1, libc::MSG_NOSIGNAL) };
        if sent == 1 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // The process was killed; waiting for it will show how.
            Some(libc::EPIPE) => return Ok(()),
            _ => return Err(error),
        }
    }
}

/// Returns the child's report: `None` if the child's end was closed by the start of its program or by its own end.
fn receive_report(socket: &OwnedFd) -> io::Result<Option<(Stage, io::Error)>> {
    let mut report = [0u32; REPORT_BYTES / 4];
    loop {
        // SAFETY: writes at most REPORT_BYTES into `report`.
        let received =
            unsafe { libc::recv(socket.as_raw_fd(), report.as_mut_ptr().cast(), REPORT_BYTES, 0) };
        if let Ok(bytes) = usize::try_from(received) {
            let stage = Stage::ALL.get(report[0] as usize);
            return match stage {
                Some(stage) if bytes == REPORT_BYTES => {
                    Ok(Some((*stage, io::Error::from_raw_os_error(report[1] as i32))))
                }
                _ if bytes == 0 => Ok(None),
                // The child writes the report in one call of 8 bytes.
                _ => Err(io::ErrorKind::InvalidData.into()),
            };
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // The process was killed before it took the byte.
            Some(libc::ECONNRESET) => return Ok(None),
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::Interrupt;
    use crate::spawn::{EndedBy, Status};
    use std::time::Duration;

    #[test]
    fn a_child_that_finds_its_parent_gone_ends_by_itself() {
        let spawn = Spawn::new("/bin/true", ["true".into()]);
        let (mut plan, ParentEnd(socket), child_end) = Plan::new(&spawn).unwrap();
        // To the child, this process looks like a stranger that adopted it.
        plan.parent_pid = -1;
        let plan = Arc::new(plan);
        let mut stack = Vec::with_capacity(STACK_WORDS);
        let child = make(&plan, &mut stack, child_end).unwrap();
        drop(socket);
        let peak_floor = PeakFloor::Ours;
        let mut running = Running { child, started_ns: monotonic_ns(), peak_floor, starter: None };
        // A guard against hanging, not a measurement.
        let guard = Some(Duration::from_secs(60));
        let exit = running.wait(guard, &Interrupt::none()).unwrap();
        assert_eq!((exit.status, exit.ended_by), (Status::Code(127), EndedBy::Itself));
    }
}
