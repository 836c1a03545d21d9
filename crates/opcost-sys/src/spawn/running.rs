//! A command that executes its program, and its end.

use super::error::SpawnError;
use super::spawner::Ends;
use crate::clock::monotonic_ns;
use crate::interrupt::Interrupt;
use crate::rusage::{self, Rusage};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The way in which a program ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Status {
    /// The program exited with this status.
    Code(i32),
    /// This signal ended the program.
    Signal(i32),
}

/// The cause of a program's end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EndedBy {
    /// opcost did not end the program.
    Itself,
    /// The program exceeded its time limit, and opcost killed it.
    Timeout,
    /// The user interrupted, and opcost killed the program.
    Interrupt,
    /// A signal stopped the program, and opcost killed it.
    Stop {
        /// The signal's number.
        signal: i32,
    },
}

/// The results of a command that ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Exit {
    /// How the command ended.
    pub status: Status,
    /// The resources that the kernel charged to the command and to the children it waited for (`wait4(2)`). `rss_bytes_max` is as
    /// the kernel returns it; see [`Exit::rss_bytes_max`]. A spawner's steps before the program are not among the involuntary switches.
    pub rusage: Rusage,
    /// Peak resident set of the command, bytes; `None` if the figure cannot be told apart from the peak of the process that made
    /// the command.
    ///
    /// When a process executes a program, the kernel adds the peak of the replaced memory to the process's record (fs/exec.c,
    /// exec_mmap). A command that needs less memory than its maker therefore shows the maker's peak. A [`Spawner`](super::Spawner)
    /// is smaller than any command with a C library.
    pub rss_bytes_max: Option<u64>,
    /// The time at which the command was let go, CLOCK_MONOTONIC.
    pub started_ns: u64,
    /// The time at which this process saw the command's end, CLOCK_MONOTONIC.
    pub ended_ns: u64,
    /// Who ended the command.
    pub ended_by: EndedBy,
}

/// A child process that was not waited for yet; killed and waited for when dropped.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) pid: i32,
    pidfd: Option<OwnedFd>,
    reaped: bool,
}

impl Child {
    pub(super) fn new(pid: i32, pidfd: OwnedFd) -> Self {
        Child { pid, pidfd: Some(pidfd), reaped: false }
    }

    pub(super) fn without_pidfd(pid: i32) -> Self {
        Child { pid, pidfd: None, reaped: false }
    }

    /// Kills the process and its whole group; both, since a program may have left its group.
    fn kill_group(&self) {
        // The numbers cannot have been reused: the process was not waited for. Errors mean that nothing is left to kill.
        // SAFETY: kill takes integers only.
        unsafe {
            libc::kill(-self.pid, libc::SIGKILL);
            libc::kill(self.pid, libc::SIGKILL);
        }
    }

    /// The number of the signal that stopped the process; `None` if the process is not stopped.
    fn stopped_by(&self) -> io::Result<Option<i32>> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // Without WEXITED, the kernel answers ECHILD for a process that has ended and was not waited for (kernel/exit.c,
        // wait_consider_task), and the process may end at any time.
        let options = libc::WSTOPPED | libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: the kernel writes one structure into `info`.
        if unsafe { libc::waitid(libc::P_PID, self.pid as u32, info.as_mut_ptr(), options) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all zeros is a valid siginfo_t, and the kernel fills the fields of SIGCHLD if the process is stopped or has ended.
        let (code, signal) = unsafe {
            let info = info.assume_init();
            (info.si_code, info.si_status())
        };
        Ok((code == libc::CLD_STOPPED).then_some(signal))
    }

    /// Waits for the end of the process.
    pub(super) fn reap(&mut self) -> io::Result<(Status, Rusage)> {
        let mut status = 0;
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        loop {
            // SAFETY: both pointers are to writable memory of the right types.
            if unsafe { libc::wait4(self.pid, &raw mut status, 0, usage.as_mut_ptr()) } == self.pid
            {
                break;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::ECHILD) => {
                    self.reaped = true;
                    return Err(io::Error::new(
                        error.kind(),
                        "the kernel threw the command's exit status away, because SIGCHLD is \
                         ignored in this process; start it with SIGCHLD at its default",
                    ));
                }
                _ => return Err(error),
            }
        }
        self.reaped = true;
        let status = if libc::WIFSIGNALED(status) {
            Status::Signal(libc::WTERMSIG(status))
        } else {
            Status::Code(libc::WEXITSTATUS(status))
        };
        // SAFETY: wait4 filled the structure, since it returned the process.
        Ok((status, Rusage::from_kernel(&unsafe { usage.assume_init() })))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill_group();
            // A killed process always ends; an error means that there is nothing to wait for.
            let _ = self.reap();
        }
    }
}

/// A command that executes its program.
/// Dropping the value kills the process and its group. The process is also killed when the thread that made it ends
/// (PR_SET_PDEATHSIG).
#[derive(Debug)]
pub struct Running {
    pub(super) child: Child,
    pub(super) started_ns: u64,
    pub(super) peak_floor: PeakFloor,
    /// The spawner that made the process, until the process has ended.
    pub(super) starter: Option<Starter>,
}

/// A spawner whose memory a process uses until it executes its program.
#[derive(Debug)]
pub(super) struct Starter {
    pub(super) ends: Arc<Ends>,
    pub(super) program: PathBuf,
    /// Involuntary switches of the process before it was let go.
    pub(super) switches_before: u64,
}

/// The reason why a command has no [`Exit`].
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The command's program was not executed.
    #[error(transparent)]
    Start(#[from] SpawnError),
    /// The command cannot be waited for.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// The limit above which a command's peak memory is its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum PeakFloor {
    /// This process's peak.
    Ours,
    /// A fixed number of bytes.
    Bytes(u64),
}

/// A task to attend to while a command runs.
pub trait Aside {
    /// A descriptor that becomes readable when the task needs attention.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// Called when the descriptor became readable.
    ///
    /// # Errors
    /// The command cannot be waited for any longer.
    fn attend(&mut self) -> io::Result<()>;
}

impl Running {
    /// The number of the command's process.
    pub fn pid(&self) -> i32 {
        self.child.pid
    }

    /// The command's process as a descriptor that never means another process (`pidfd_open(2)`).
    pub(crate) fn handle(&self) -> io::Result<OwnedFd> {
        let handle = self.child.pidfd.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        handle.try_clone()
    }

    /// Notes that the tracer's wait has seen the process's end.
    pub(crate) fn was_waited_for(mut self) {
        self.child.reaped = true;
    }

    /// Waits until the command ends, or ends the command: with `limit`, that long after it was let go or this process was
    /// continued; with `interrupt`, when a signal comes or has come.
    ///
    /// With either, a command that a signal stopped is ended, too, since nothing would continue it. This process looks for that
    /// after a second and then ever more rarely, at most 10 seconds apart.
    ///
    /// Ending kills the whole process group with SIGKILL and waits for the command itself; init waits for orphans in the group. If
    /// the command ends by itself, other members of its group stay alive: programs that start daemons do so on purpose.
    ///
    /// Without limit and interrupt, this is a single system call.
    ///
    /// # Errors
    /// [`WaitError::Start`] if a spawner's process did not execute its program. Otherwise `InvalidInput` if the command was waited for
    /// before, or the system's error.
    pub fn wait(
        &mut self,
        limit: Option<Duration>,
        interrupt: &Interrupt,
    ) -> Result<Exit, WaitError> {
        self.wait_beside(limit, interrupt, None)
    }

    /// Waits as [`wait`](Self::wait) does, and attends to `aside` meanwhile.
    ///
    /// # Errors
    /// Waiting fails as [`wait`](Self::wait) does, or `aside` fails.
    pub fn wait_beside(
        &mut self,
        limit: Option<Duration>,
        interrupt: &Interrupt,
        aside: Option<&mut dyn Aside>,
    ) -> Result<Exit, WaitError> {
        if self.child.reaped {
            let why = "the command was already waited for";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why).into());
        }
        let mut ended_by = EndedBy::Itself;
        let mut ended_ns = None;
        let notice = interrupt.as_fd();
        if limit.is_some() || notice.is_some() || aside.is_some() {
            ended_by = self.watch(limit, interrupt, aside)?;
            match ended_by {
                EndedBy::Itself => ended_ns = Some(monotonic_ns()),
                EndedBy::Timeout | EndedBy::Interrupt | EndedBy::Stop { .. } => {
                    self.child.kill_group();
                }
            }
        }
        let (status, mut rusage) = self.child.reap()?;
        let ended_ns = ended_ns.unwrap_or_else(monotonic_ns);
        if let Some(Starter { ends, program, switches_before }) = self.starter.take() {
            if let Some((stage, source)) = ends.failure(status) {
                return Err(SpawnError::Step { stage, program, source }.into());
            }
            let switches = rusage.involuntary_switches;
            rusage.involuntary_switches = switches.saturating_sub(switches_before);
        }
        Ok(Exit {
            status,
            rusage,
            rss_bytes_max: match self.peak_floor {
                PeakFloor::Ours => rss_apart_from_ours(rusage.rss_bytes_max),
                PeakFloor::Bytes(floor) => {
                    Some(rusage.rss_bytes_max).filter(|bytes| *bytes > floor)
                }
            },
            started_ns: self.started_ns,
            ended_ns,
            ended_by,
        })
    }

    /// Waits until the process has ended or is stopped, the time is over or a signal interrupted.
    fn watch(
        &self,
        limit: Option<Duration>,
        interrupt: &Interrupt,
        mut aside: Option<&mut dyn Aside>,
    ) -> io::Result<EndedBy> {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // A pidfd is readable once its process has ended (pidfd_open(2)); poll skips entries < 0.
        let pidfd = self.child.pidfd.as_ref().map_or(-1, |fd| fd.as_raw_fd());
        let notice = interrupt.as_fd().map_or(-1, |fd| fd.as_raw_fd());
        let beside = aside.as_ref().map_or(-1, |aside| aside.as_fd().as_raw_fd());
        let mut entries = [entry(pidfd), entry(notice), entry(beside)];
        // A limit of centuries counts as no limit.
        let limit_ns = limit.and_then(|limit| u64::try_from(limit.as_nanos()).ok());
        let mut deadline_ns = limit_ns.and_then(|limit| self.started_ns.checked_add(limit));
        let mut look_ns = self.started_ns + LOOK_NS_MIN;
        let mut continuations = interrupt.continuations();
        loop {
            let left = deadline_ns.unwrap_or(u64::MAX).min(look_ns).saturating_sub(monotonic_ns());
            let left = libc::timespec {
                tv_sec: (left / 1_000_000_000) as libc::time_t,
                tv_nsec: (left % 1_000_000_000) as _,
            };
            // SAFETY: three valid entries; a timeout that lives in `left`; no signal mask.
            let ready =
                unsafe { libc::ppoll(entries.as_mut_ptr(), 3, &raw const left, std::ptr::null()) };
            // The time for which this process was stopped is not the command's.
            if interrupt.continuations() != continuations {
                continuations = interrupt.continuations();
                deadline_ns = limit_ns.and_then(|limit| monotonic_ns().checked_add(limit));
                if ready == 0 {
                    continue;
                }
            }
            match ready {
                0 if deadline_ns.is_some_and(|deadline| monotonic_ns() >= deadline) => {
                    return Ok(EndedBy::Timeout);
                }
                0 => {
                    if let Some(signal) = self.child.stopped_by()? {
                        return Ok(EndedBy::Stop { signal });
                    }
                    let now_ns = monotonic_ns();
                    look_ns = now_ns + (now_ns - self.started_ns).clamp(LOOK_NS_MIN, LOOK_NS_MAX);
                }
                // Checked before the end: a last message may still wait there.
                1.. if entries[2].revents != 0 && entries[1].revents == 0 => {
                    if let Some(aside) = &mut aside {
                        aside.attend()?;
                    }
                    // A command is also stopped at its limit if `aside` is always ready.
                    if deadline_ns.is_some_and(|deadline| monotonic_ns() >= deadline) {
                        return Ok(EndedBy::Timeout);
                    }
                }
                1.. if entries[0].revents != 0 => return Ok(EndedBy::Itself),
                1.. => return Ok(EndedBy::Interrupt),
                _ => {
                    let error = io::Error::last_os_error();
                    if error.raw_os_error() != Some(libc::EINTR) {
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// The times between two looks at whether a command is stopped. They grow with the command's age, so that looking costs nothing
/// beside the command.
const LOOK_NS_MIN: u64 = 1_000_000_000;
const LOOK_NS_MAX: u64 = 10_000_000_000;

/// The smallest distance by which a command's peak must exceed this process's peak to be the command's own. The kernel counts pages
/// per CPU and adds the counts up late (include/linux/mm.h, get_mm_counter), so equal peaks differ a little.
const RSS_DOUBT_BYTES: u64 = 1 << 20;

fn rss_apart_from_ours(bytes: u64) -> Option<u64> {
    // This process's record may hold the peak of the program that executed it, which a child does not inherit. The peak of this
    // process's own memory decides, but is slower to read. Once the own peak has reached the record, the record stays this
    // process's, since peaks only grow.
    static RECORD_IS_OURS: AtomicBool = AtomicBool::new(false);
    let record = rusage::of_self().ok()?.rss_bytes_max;
    if bytes > record + RSS_DOUBT_BYTES {
        return Some(bytes);
    }
    if RECORD_IS_OURS.load(Ordering::Relaxed) {
        return None;
    }
    let ours = memory_peak_bytes()?;
    if ours + RSS_DOUBT_BYTES >= record {
        RECORD_IS_OURS.store(true, Ordering::Relaxed);
    }
    (bytes > ours + RSS_DOUBT_BYTES).then_some(bytes)
}

/// Returns the peak of this process's memory (VmHWM of `/proc/self/status`, proc(5)).
fn memory_peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = peak.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::Spawn;

    fn started(script: &str) -> Running {
        let spawn = Spawn::new("/bin/sh", ["sh".into(), "-c".into(), script.into()]);
        spawn.hold().unwrap().release().unwrap()
    }

    /// The state of a process in /proc: `T` is stopped, `Z` has ended.
    fn wait_for_state(pid: i32, state: char) {
        let wanted = format!("State:\t{state}");
        while !fs::read_to_string(format!("/proc/{pid}/status")).unwrap().contains(&wanted) {
            std::thread::yield_now();
        }
    }

    /// The process may end between the end of the poll and the look, which was "No child processes" for the user.
    #[test]
    fn a_look_at_a_process_that_has_just_ended_sees_no_stop_and_leaves_the_end() {
        let mut running = started("exit 3");
        wait_for_state(running.pid(), 'Z');
        assert_eq!(running.child.stopped_by().unwrap(), None);
        let exit = running.wait(Some(Duration::from_secs(60)), &Interrupt::none()).unwrap();
        assert_eq!((exit.status, exit.ended_by), (Status::Code(3), EndedBy::Itself));
    }

    #[test]
    fn a_look_at_a_stopped_process_names_the_signal() {
        let running = started("kill -STOP $$");
        wait_for_state(running.pid(), 'T');
        assert_eq!(running.child.stopped_by().unwrap(), Some(libc::SIGSTOP));
    }
}
