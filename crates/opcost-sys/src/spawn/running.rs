//! A command that executes its program, and how it ends.

use crate::clock::monotonic_ns;
use crate::interrupt::Interrupt;
use crate::rusage::{self, Rusage};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How a program ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Status {
    /// It ended with this exit status.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// Who ended a program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EndedBy {
    /// It ended without our doing.
    Itself,
    /// It exceeded its time and was killed.
    Timeout,
    /// The user interrupted, and it was killed.
    Interrupt,
}

/// What is known of a command that ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Exit {
    /// How it ended.
    pub status: Status,
    /// What the kernel charged to it and to the children it waited for (`wait4(2)`). Its
    /// `rss_bytes_max` is as the kernel gives it; see [`Exit::rss_bytes_max`].
    pub rusage: Rusage,
    /// Peak resident set of the command, bytes; `None` where the figure cannot be told from that of
    /// the process that made it.
    ///
    /// Executing a program adds the peak of the memory it leaves behind to the process's record
    /// (fs/exec.c, exec_mmap), so a command that needs less than the process that made it shows the
    /// other's peak instead of its own. A [`Spawner`](super::Spawner) is smaller than any command
    /// with a C library.
    pub rss_bytes_max: Option<u64>,
    /// When it was let go, CLOCK_MONOTONIC.
    pub started_ns: u64,
    /// When it was seen to have ended, CLOCK_MONOTONIC.
    pub ended_ns: u64,
    /// Who ended it.
    pub ended_by: EndedBy,
}

/// A process of ours that is not waited for yet; killed and waited for when dropped.
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

    /// Kills the process and its whole group. Both, since a program may have left its group.
    fn kill_group(&self) {
        // The numbers are still ours: the process is not waited for. Errors mean that there is
        // nothing left to kill.
        // SAFETY: kill takes integers only.
        unsafe {
            libc::kill(-self.pid, libc::SIGKILL);
            libc::kill(self.pid, libc::SIGKILL);
        }
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
            // A killed process always ends; without it there is nothing to wait for.
            let _ = self.reap();
        }
    }
}

/// A command that executes its program.
///
/// Dropping it kills the process and its group. It is killed, too, when the thread that made it
/// ends (PR_SET_PDEATHSIG).
#[derive(Debug)]
pub struct Running {
    pub(super) child: Child,
    pub(super) started_ns: u64,
    pub(super) peak_floor: PeakFloor,
}

/// From where on a command's peak memory is its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum PeakFloor {
    /// This process's peak.
    Ours,
    /// So many bytes.
    Bytes(u64),
}

/// Something to attend to while a command runs.
pub trait Aside {
    /// What becomes readable when there is something to do.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// It became readable.
    ///
    /// # Errors
    /// The command cannot be waited for any longer.
    fn attend(&mut self) -> io::Result<()>;
}

impl Running {
    /// The command's process.
    pub fn pid(&self) -> i32 {
        self.child.pid
    }

    /// The command's process, as a descriptor that never means another one (`pidfd_open(2)`).
    pub(crate) fn handle(&self) -> io::Result<OwnedFd> {
        let handle = self.child.pidfd.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        handle.try_clone()
    }

    /// Notes that its end was seen by a wait of its tracer's.
    pub(crate) fn was_waited_for(mut self) {
        self.child.reaped = true;
    }

    /// Waits until the command ends, or ends it: with `limit`, that long after it was let go; with
    /// `interrupt`, when a signal comes (or already came).
    ///
    /// Ending kills the whole process group with SIGKILL and waits for the command itself; orphans
    /// in the group are waited for by init, as always. After an end of its own accord, left-over
    /// members of its group stay alive: programs that start daemons do so on purpose.
    ///
    /// Without limit and interrupt this is a single system call.
    ///
    /// # Errors
    /// `InvalidInput` if it was waited for before; otherwise the system's error.
    pub fn wait(&mut self, limit: Option<Duration>, interrupt: &Interrupt) -> io::Result<Exit> {
        self.wait_beside(limit, interrupt, None)
    }

    /// The same; meanwhile something else is attended to.
    ///
    /// # Errors
    /// Waiting fails as [`wait`](Self::wait) does, or `aside` fails.
    pub fn wait_beside(
        &mut self,
        limit: Option<Duration>,
        interrupt: &Interrupt,
        aside: Option<&mut dyn Aside>,
    ) -> io::Result<Exit> {
        if self.child.reaped {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the command was already waited for",
            ));
        }
        let mut ended_by = EndedBy::Itself;
        let mut ended_ns = None;
        let notice = interrupt.as_fd();
        if limit.is_some() || notice.is_some() || aside.is_some() {
            ended_by = self.watch(limit, notice, aside)?;
            match ended_by {
                EndedBy::Itself => ended_ns = Some(monotonic_ns()),
                EndedBy::Timeout | EndedBy::Interrupt => self.child.kill_group(),
            }
        }
        let (status, rusage) = self.child.reap()?;
        let ended_ns = ended_ns.unwrap_or_else(monotonic_ns);
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

    /// Waits until the process has ended, the time is over or the notice came.
    fn watch(
        &self,
        limit: Option<Duration>,
        notice: Option<BorrowedFd<'_>>,
        mut aside: Option<&mut dyn Aside>,
    ) -> io::Result<EndedBy> {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // A pidfd is readable once its process has ended (pidfd_open(2)); poll skips entries < 0.
        let pidfd = self.child.pidfd.as_ref().map_or(-1, |fd| fd.as_raw_fd());
        let notice = notice.map_or(-1, |fd| fd.as_raw_fd());
        let beside = aside.as_ref().map_or(-1, |aside| aside.as_fd().as_raw_fd());
        let mut entries = [entry(pidfd), entry(notice), entry(beside)];
        // A limit of centuries is none.
        let deadline_ns = limit.and_then(|limit| {
            let limit_ns = u64::try_from(limit.as_nanos()).ok()?;
            self.started_ns.checked_add(limit_ns)
        });
        loop {
            let left = deadline_ns.map(|deadline| deadline.saturating_sub(monotonic_ns()));
            let left = left.map(|ns| libc::timespec {
                tv_sec: (ns / 1_000_000_000) as libc::time_t,
                tv_nsec: (ns % 1_000_000_000) as _,
            });
            let timeout = left.as_ref().map_or(std::ptr::null(), |left| &raw const *left);
            // SAFETY: three valid entries; a timeout that is null or lives in `left`; no signal mask.
            let ready = unsafe { libc::ppoll(entries.as_mut_ptr(), 3, timeout, std::ptr::null()) };
            match ready {
                0 => return Ok(EndedBy::Timeout),
                // Before the end: a last message may lie there still.
                1.. if entries[2].revents != 0 && entries[1].revents == 0 => {
                    if let Some(aside) = &mut aside {
                        aside.attend()?;
                    }
                    // What never rests is stopped all the same.
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

/// How far a command's peak must lie above ours to be its own: the kernel counts pages per CPU and
/// adds the counts up late (include/linux/mm.h, get_mm_counter), so equal peaks differ a little.
const RSS_DOUBT_BYTES: u64 = 1 << 20;

fn rss_apart_from_ours(bytes: u64) -> Option<u64> {
    // Our record may hold the peak of what executed us, which a child of ours does not inherit; the
    // peak of our own memory settles it but is dearer to read. Once it has been seen to reach the
    // record, the record is ours from then on, since peaks only grow.
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

/// The peak of this process's memory (VmHWM of `/proc/self/status`, proc(5)).
fn memory_peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = peak.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}
