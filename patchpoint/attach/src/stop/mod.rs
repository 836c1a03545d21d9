//! Stops every thread of another process for a moment (`ptrace(2)`).
//!
//! To stop threads, this module seizes them (PTRACE_SEIZE) and then interrupts them. Seizing sends no signal and changes nothing
//! that the process can see. Threads are let go as they were: a signal that was about to be delivered is delivered, and a process
//! that job control had stopped stays stopped. If the tracer dies, the kernel lets the threads go.

mod call;
mod error;

pub use error::StopError;

use call::Seen;
use std::ffi::c_int;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The interval between two looks at a thread that was asked to stop.
const LOOK_EVERY: Duration = Duration::from_micros(20);
/// The longest time that a thread may take to stop.
const PATIENCE: Duration = Duration::from_millis(1000);
/// The longest time for a thread in an uninterruptible wait; a page that is being read arrives within this time.
const PATIENCE_FOR_WAITING: Duration = Duration::from_millis(50);
/// The longest time that all threads stand still because one of them has something to finish.
const PATIENCE_FOR_ONE: Duration = Duration::from_millis(100);
/// The largest number of readings of the list of threads; each further reading follows one with new threads.
const ROUNDS_MAX: u32 = 1000;

/// A process whose threads all stand still until the value is dropped.
///
/// Only the thread that stopped a process can query it and let it go, so the value is not sent to another thread.
#[derive(Debug)]
pub struct Stopped {
    pid: i32,
    threads: Vec<Thread>,
    /// The time at which the first thread was asked to stop.
    since: Option<Instant>,
    /// As tracers, `ptrace` knows threads, not processes.
    _not_send: std::marker::PhantomData<*const ()>,
}

#[derive(Debug)]
struct Thread {
    tid: i32,
    stopped: bool,
    /// The signal to be delivered when the thread is let go, or 0.
    signal: c_int,
}

impl Stopped {
    /// Stops every thread of a process, including threads that appear meanwhile.
    ///
    /// Nothing stands still while threads are searched and seized: a seized thread runs on. Then all threads are asked to stop
    /// before this thread waits for the first.
    ///
    /// # Errors
    /// [`StopError`]; the process then runs as before.
    pub fn stop(pid: i32) -> Result<Stopped, StopError> {
        let mut stopped = Stopped::none(pid);
        stopped.stop_all()?;
        Ok(stopped)
    }

    fn none(pid: i32) -> Stopped {
        Stopped { pid, threads: Vec::new(), since: None, _not_send: std::marker::PhantomData }
    }

    fn stop_all(&mut self) -> Result<(), StopError> {
        let pid = self.pid;
        let mut rounds = 0..ROUNDS_MAX;
        while self.seize_new()? {
            rounds.next().ok_or(StopError::TooManyThreads { pid })?;
        }
        self.since = Some(Instant::now());
        loop {
            self.interrupt_new();
            self.wait_for_new()?;
            // Once every thread stands still, none is left that could make another.
            if self.are_all() || !self.seize_new()? {
                break;
            }
            rounds.next().ok_or(StopError::TooManyThreads { pid })?;
        }
        if self.threads.is_empty() { Err(StopError::Gone { pid }) } else { Ok(()) }
    }

    /// Does `act` while every thread of a process stands still, then lets all go in one step.
    ///
    /// This happens in a thread of its own. When that thread ends, the kernel lets go everything that the thread traced while it
    /// holds the lock of all tasks (`exit_ptrace`, kernel/ptrace.c). If the threads were let go one by one, the first would take
    /// the CPU from this process while the others still stand. If permitted, the thread takes priority over all threads that are
    /// not of real time.
    ///
    /// # Errors
    /// As for [`stop`](Self::stop); also if the system cannot make another thread.
    pub fn during<T: Send>(
        pid: i32,
        act: impl FnOnce(&mut Stopped) -> T + Send,
    ) -> Result<T, StopError> {
        let (done, tid) = thread::scope(|scope| {
            let stop = || {
                call::take_priority();
                let tid = call::own_tid();
                let mut stopped = Stopped::none(pid);
                let done = stopped.stop_all().map(|()| act(&mut stopped));
                stopped.leave_to_end();
                (done, tid)
            };
            let one = thread::Builder::new().spawn_scoped(scope, stop).map_err(|why| {
                StopError::Kernel { pid, what: "start a thread that stops those", why }
            })?;
            Ok(one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        // A thread can be joined a moment before it lets its traced threads go.
        while Path::new(&format!("/proc/self/task/{tid}")).exists() {
            thread::sleep(LOOK_EVERY);
        }
        done
    }

    /// Lets the threads with a signal to be delivered go, since the signal would be lost at the end of the tracer. The other
    /// threads go on when this thread ends.
    fn leave_to_end(mut self) {
        self.threads.retain(|thread| thread.signal != 0);
    }

    /// Returns the numbers of the threads.
    pub fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.threads.iter().map(|thread| thread.tid)
    }

    /// Returns the time since the first thread was asked to stop.
    pub fn stood(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns the address of each thread's next instruction.
    ///
    /// # Errors
    /// A thread was killed meanwhile, or this architecture is not supported.
    pub fn program_counters(&self) -> Result<Vec<u64>, StopError> {
        self.threads.iter().map(|thread| self.program_counter(thread.tid)).collect()
    }

    fn program_counter(&self, tid: i32) -> Result<u64, StopError> {
        call::program_counter(tid)
            .map_err(|why| self.kernel(tid, "read the registers of a thread", why))
    }

    /// Lets one of the threads go on, while the others stand still, until it stands at a system call's entry or exit and `has_finished`
    /// says so. Returns whether it did: `false` if there is no such thread, or it has not finished within 100 ms.
    ///
    /// # Errors
    /// The thread does not stand still again, or was killed.
    pub fn finish_one(
        &mut self,
        tid: i32,
        mut has_finished: impl FnMut() -> bool,
    ) -> Result<bool, StopError> {
        let Some(one) = self.threads.iter().position(|thread| thread.tid == tid) else {
            return Ok(false);
        };
        let begun = Instant::now();
        while !has_finished() {
            if begun.elapsed() > PATIENCE_FOR_ONE {
                return Ok(false);
            }
            call::go_to_next_system_call(tid, std::mem::take(&mut self.threads[one].signal));
            self.threads[one].stopped = false;
            // A thread that is far from its next system call is stopped where it is.
            let stands =
                self.wait_at_most(one, PATIENCE_FOR_ONE.saturating_sub(begun.elapsed()))?;
            if !stands {
                self.interrupt_new();
                self.wait(one)?;
            }
            if !self.threads[one].stopped {
                self.threads.remove(one);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until a thread stands still or has ended; returns `false` if it does neither within a time.
    fn wait_at_most(&mut self, thread: usize, most: Duration) -> Result<bool, StopError> {
        let begun = Instant::now();
        loop {
            match call::look(self.threads[thread].tid) {
                Ok(Seen::Nothing) if begun.elapsed() > most => return Ok(false),
                Ok(Seen::Nothing) => thread::yield_now(),
                Ok(Seen::Stopped { signal }) => {
                    self.threads[thread].stopped = true;
                    self.threads[thread].signal = signal;
                    return Ok(true);
                }
                Ok(Seen::Ended) => return Ok(true),
                Err(why) => {
                    return Err(self.kernel(self.threads[thread].tid, "wait for a thread", why));
                }
            }
        }
    }

    /// Seizes the threads that are not seized yet; returns whether there were any.
    fn seize_new(&mut self) -> Result<bool, StopError> {
        let known = self.threads.len();
        for tid in threads_of(self.pid)? {
            if self.threads.iter().any(|thread| thread.tid == tid) {
                continue;
            }
            match call::seize(tid) {
                Ok(()) => self.threads.push(Thread { tid, stopped: false, signal: 0 }),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                // A first thread that ended before the others stays in the list as a zombie.
                Err(_) if state(self.pid, tid).is_none_or(|state| "ZX".contains(state)) => continue,
                Err(error) => return Err(refused(self.pid, tid, error)),
            }
        }
        Ok(self.threads.len() > known)
    }

    fn interrupt_new(&self) {
        for thread in self.threads.iter().filter(|thread| !thread.stopped) {
            // The thread may have ended since; the wait finds out.
            let _ = call::interrupt(thread.tid);
        }
    }

    fn wait_for_new(&mut self) -> Result<(), StopError> {
        for thread in 0..self.threads.len() {
            if !self.threads[thread].stopped {
                self.wait(thread)?;
            }
        }
        self.threads.retain(|thread| thread.stopped);
        Ok(())
    }

    /// Whether the kernel counts as many threads as stand still: one system call, where a list takes four.
    fn are_all(&self) -> bool {
        // Two names of the folder itself, then one for each thread (proc_task_getattr, fs/proc/base.c).
        let counted = fs::metadata(format!("/proc/{}/task", self.pid)).map(|task| task.nlink());
        counted.is_ok_and(|links| links == 2 + self.threads.len() as u64)
    }

    /// Waits until a thread stands still or has ended.
    fn wait(&mut self, thread: usize) -> Result<(), StopError> {
        let tid = self.threads[thread].tid;
        let begun = Instant::now();
        loop {
            match call::look(tid) {
                Ok(Seen::Stopped { signal }) => {
                    self.threads[thread].stopped = true;
                    self.threads[thread].signal = signal;
                    return Ok(());
                }
                Ok(Seen::Ended) => return Ok(()),
                Ok(Seen::Nothing) if self.is_hopeless(tid, begun.elapsed()) => {
                    let waited_ms = begun.elapsed().as_millis() as u64;
                    return Err(StopError::TooSlow { pid: self.pid, tid, waited_ms });
                }
                // The longer the wait, the less a prompt answer matters.
                Ok(Seen::Nothing) => thread::sleep(LOOK_EVERY.max(begun.elapsed() / 8)),
                Err(why) => return Err(self.kernel(tid, "wait for a thread", why)),
            }
        }
    }

    /// Whether the other threads should no longer stand still because of a thread: the thread waits uninterruptibly, or has got no
    /// CPU for too long.
    fn is_hopeless(&self, tid: i32, waited: Duration) -> bool {
        waited > PATIENCE || (waited > PATIENCE_FOR_WAITING && state(self.pid, tid) == Some('D'))
    }

    fn kernel(&self, tid: i32, what: &'static str, why: io::Error) -> StopError {
        match why.raw_os_error() {
            Some(libc::ESRCH) if state(self.pid, tid).is_none_or(|state| "ZX".contains(state)) => {
                StopError::Gone { pid: self.pid }
            }
            _ => StopError::Kernel { pid: self.pid, what, why },
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for thread in &self.threads {
            let_go(self.pid, thread);
        }
    }
}

/// Lets a thread go. Waits for a thread that was killed meanwhile, since its parent does not learn of its end before its tracer
/// has. A child of this process is not waited for: that would take the child's end from its owner.
fn let_go(pid: i32, thread: &Thread) {
    if call::detach(thread.tid, thread.signal).is_ok() {
        return;
    }
    // A seized thread that runs has to stop before it can be let go.
    let _ = call::interrupt(thread.tid);
    let ours = || field(pid, pid, "PPid:") == Some(std::process::id().to_string());
    if thread.tid == pid && ours() {
        return;
    }
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        match call::look(thread.tid) {
            Ok(Seen::Stopped { signal }) => {
                if call::detach(thread.tid, signal).is_ok() {
                    return;
                }
            }
            Ok(Seen::Nothing) => thread::sleep(LOOK_EVERY),
            Ok(Seen::Ended) | Err(_) => return,
        }
    }
}

/// Returns the threads of a process as the kernel lists them.
fn threads_of(pid: i32) -> Result<Vec<i32>, StopError> {
    let gone = |_| StopError::Gone { pid };
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task")).map_err(gone)? {
        // A list that is cut short belongs to a process that ended.
        let Ok(entry) = entry else { break };
        threads.extend(entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(threads)
}

/// Returns a field of `/proc/PID/task/TID/status`.
fn field(pid: i32, tid: i32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().to_string())
}

/// Returns the letter of a thread's state; `None` if the thread is gone.
fn state(pid: i32, tid: i32) -> Option<char> {
    field(pid, tid, "State:")?.chars().next()
}

fn refused(pid: i32, tid: i32, why: io::Error) -> StopError {
    let number = |text: String| text.parse::<i32>().ok();
    // The kernel names the tracing thread.
    let tracer = field(pid, tid, "TracerPid:").and_then(number).filter(|tracer| *tracer != 0);
    let tracer =
        tracer.map(|tracer| field(tracer, tracer, "Tgid:").and_then(number).unwrap_or(tracer));
    match (why.raw_os_error(), tracer) {
        (Some(libc::EPERM), Some(tracer)) => StopError::Traced { pid, tid, tracer },
        (Some(libc::EPERM | libc::EACCES), _) => StopError::Denied { pid, why },
        _ => StopError::Kernel { pid, what: "seize a thread", why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// A process that loops, killed with its owner.
    struct Busy(Child);

    impl Busy {
        fn new() -> Busy {
            let shell = Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
            Busy(shell.unwrap())
        }

        fn pid(&self) -> i32 {
            self.0.id() as i32
        }
    }

    impl Drop for Busy {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_process_stands_still_until_it_is_let_go() {
        let busy = Busy::new();
        let pid = busy.pid();
        let stopped = Stopped::stop(pid).unwrap();
        assert_eq!(stopped.threads().collect::<Vec<_>>(), [pid]);
        assert_eq!(state(pid, pid), Some('t'));
        assert_ne!(field(pid, pid, "TracerPid:"), Some("0".to_string()));
        let counter = stopped.program_counters().unwrap();
        assert_eq!(counter, stopped.program_counters().unwrap());
        assert_ne!(counter, [0]);
        drop(stopped);
        assert_eq!(field(pid, pid, "TracerPid:"), Some("0".to_string()));
        assert_ne!(state(pid, pid), Some('t'));
    }

    #[test]
    fn all_go_on_when_the_thread_that_stopped_them_ends() {
        let busy = Busy::new();
        let pid = busy.pid();
        for _ in 0..20 {
            let seen = Stopped::during(pid, |stopped| {
                (stopped.threads().collect::<Vec<_>>(), state(pid, pid))
            });
            assert_eq!(seen.unwrap(), (vec![pid], Some('t')));
            assert_eq!(field(pid, pid, "TracerPid:"), Some("0".to_string()));
            assert_ne!(state(pid, pid), Some('t'));
        }
    }

    /// Sends a signal to a child that was not waited for yet, so that its number cannot be reused.
    fn send(pid: i32, signal: c_int) {
        // SAFETY: kill takes integers only.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    #[track_caller]
    fn wait_for_state(pid: i32, wanted: char) {
        let begun = Instant::now();
        while state(pid, pid) != Some(wanted) && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(LOOK_EVERY);
        }
        assert_eq!(state(pid, pid), Some(wanted));
    }

    #[test]
    fn one_that_job_control_stopped_stays_stopped() {
        let busy = Busy::new();
        let pid = busy.pid();
        send(pid, libc::SIGSTOP);
        wait_for_state(pid, 'T');
        drop(Stopped::stop(pid).unwrap());
        // The process stops anew on its way back to its program.
        wait_for_state(pid, 'T');
        Stopped::during(pid, |_| ()).unwrap();
        wait_for_state(pid, 'T');
        send(pid, libc::SIGCONT);
        wait_for_state(pid, 'R');
    }

    #[test]
    fn a_signal_on_its_way_is_delivered_when_the_thread_that_stopped_it_ends() {
        // The shell ends with status 7 when it gets the signal, else it goes on for ever.
        let shell =
            Command::new("sh").args(["-c", "trap 'exit 7' USR1; while :; do :; done"]).spawn();
        let mut busy = Busy(shell.unwrap());
        let pid = busy.pid();
        let caught = || u64::from_str_radix(&field(pid, pid, "SigCgt:").unwrap(), 16).unwrap();
        while caught() & 1 << (libc::SIGUSR1 - 1) == 0 {
            thread::sleep(LOOK_EVERY);
        }
        let stop_with_signal = move || {
            let mut stopped = Stopped::none(pid);
            assert!(stopped.seize_new().unwrap());
            send(pid, libc::SIGUSR1);
            wait_for_state(pid, 't');
            stopped.interrupt_new();
            stopped.wait_for_new().unwrap();
            assert_eq!(stopped.threads[0].signal, libc::SIGUSR1);
            stopped.leave_to_end();
        };
        thread::spawn(stop_with_signal).join().unwrap();
        let begun = Instant::now();
        while busy.0.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(LOOK_EVERY);
        }
        let ended = busy.0.try_wait().unwrap().expect("the signal was lost");
        assert_eq!(ended.code(), Some(7));
    }

    #[test]
    fn one_that_is_killed_while_stopped_can_be_waited_for_by_its_parent() {
        let mut busy = Busy::new();
        let stopped = Stopped::stop(busy.pid()).unwrap();
        busy.0.kill().unwrap();
        drop(stopped);
        assert!(!busy.0.wait().unwrap().success());
        let error = Stopped::stop(busy.pid()).unwrap_err();
        assert!(matches!(error, StopError::Gone { .. }), "{error}");
    }

    #[test]
    fn one_that_is_traced_already_is_left_alone() {
        let busy = Busy::new();
        let pid = busy.pid();
        let first = Stopped::stop(pid).unwrap();
        let second = thread::spawn(move || Stopped::stop(pid).map(drop).unwrap_err());
        let error = second.join().unwrap();
        assert!(
            matches!(error, StopError::Traced { tracer, .. } if tracer == std::process::id() as i32)
        );
        drop(first);
        assert_ne!(state(pid, pid), Some('t'));
    }
}
