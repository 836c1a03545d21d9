//! All threads of a process, stopped.

use super::StopError;
use super::call::{self, Seen};
use std::ffi::c_int;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// Between two looks at a thread that was asked to stop.
const LOOK_EVERY: Duration = Duration::from_micros(20);
/// How long a thread may take to stop.
const PATIENCE: Duration = Duration::from_millis(1000);
/// Times that the list of threads is read; each time, there were new ones the time before.
const ROUNDS_MAX: u32 = 1000;

/// A process all of whose threads stand still until this is dropped.
///
/// What was stopped by a thread of ours can only be asked and let go by the same thread, so this
/// is not sent to another.
#[derive(Debug)]
pub struct Stopped {
    pid: i32,
    threads: Vec<Thread>,
    /// `ptrace` knows threads, not processes, as tracers.
    _not_send: std::marker::PhantomData<*const ()>,
}

#[derive(Debug)]
struct Thread {
    tid: i32,
    stopped: bool,
    /// The signal to be delivered when it is let go, or 0.
    signal: c_int,
}

impl Stopped {
    /// Stops every thread of a process, also those that come into being meanwhile.
    ///
    /// # Errors
    /// [`StopError`]; the process then runs as before.
    pub fn stop(pid: i32) -> Result<Stopped, StopError> {
        let mut stopped = Stopped { pid, threads: Vec::new(), _not_send: std::marker::PhantomData };
        for _ in 0..ROUNDS_MAX {
            // No thread is left that could make another once a round finds no new one.
            if !stopped.round()? {
                if stopped.threads.is_empty() {
                    return Err(StopError::Gone { pid });
                }
                return Ok(stopped);
            }
        }
        Err(StopError::TooManyThreads { pid })
    }

    /// The threads, by their numbers.
    pub fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.threads.iter().map(|thread| thread.tid)
    }

    /// Where each thread will go on: the address of its next instruction.
    ///
    /// # Errors
    /// A thread was killed meanwhile, or this architecture is not known.
    pub fn program_counters(&self) -> Result<Vec<u64>, StopError> {
        self.threads.iter().map(|thread| self.program_counter(thread.tid)).collect()
    }

    fn program_counter(&self, tid: i32) -> Result<u64, StopError> {
        call::program_counter(tid)
            .map_err(|why| self.kernel(tid, "read the registers of a thread", why))
    }

    /// Seizes and stops the threads that are not yet; whether there were any.
    fn round(&mut self) -> Result<bool, StopError> {
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
            // It may have ended since; the wait below finds out.
            let _ = call::interrupt(tid);
        }
        let found_new = self.threads.len() > known;
        for thread in known..self.threads.len() {
            self.wait(thread)?;
        }
        self.threads.retain(|thread| thread.stopped);
        Ok(found_new)
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
                Ok(Seen::Nothing) if begun.elapsed() > PATIENCE => {
                    let waited_ms = PATIENCE.as_millis() as u64;
                    return Err(StopError::TooSlow { pid: self.pid, tid, waited_ms });
                }
                Ok(Seen::Nothing) => std::thread::sleep(LOOK_EVERY),
                Err(why) => return Err(self.kernel(tid, "wait for a thread", why)),
            }
        }
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

/// Lets a thread go. One that was killed meanwhile is waited for, since its parent does not learn
/// of its end before its tracer has; of a child of ours that would take its end from its owner.
fn let_go(pid: i32, thread: &Thread) {
    if call::detach(thread.tid, thread.signal).is_ok() {
        return;
    }
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
            Ok(Seen::Nothing) => std::thread::sleep(LOOK_EVERY),
            Ok(Seen::Ended) | Err(_) => return,
        }
    }
}

/// The threads of a process as the kernel lists them.
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

/// A field of `/proc/PID/task/TID/status`.
fn field(pid: i32, tid: i32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().to_string())
}

/// The letter of a thread's state; `None` if it is gone.
fn state(pid: i32, tid: i32) -> Option<char> {
    field(pid, tid, "State:")?.chars().next()
}

fn refused(pid: i32, tid: i32, why: io::Error) -> StopError {
    let number = |text: String| text.parse::<i32>().ok();
    // The kernel names the thread that traces.
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

    /// A process that counts as fast as it can, killed with its owner.
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
    fn one_that_job_control_stopped_stays_stopped() {
        let busy = Busy::new();
        let pid = busy.pid();
        // SAFETY: kill takes integers only; the child is not waited for, so the number is its.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGSTOP) }, 0);
        while state(pid, pid) != Some('T') {
            std::thread::sleep(LOOK_EVERY);
        }
        drop(Stopped::stop(pid).unwrap());
        // It stops anew on its way back to its program.
        let begun = Instant::now();
        while state(pid, pid) != Some('T') && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(LOOK_EVERY);
        }
        assert_eq!(state(pid, pid), Some('T'));
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
        let second = std::thread::spawn(move || Stopped::stop(pid).map(drop).unwrap_err());
        let error = second.join().unwrap();
        assert!(
            matches!(error, StopError::Traced { tracer, .. } if tracer == std::process::id() as i32)
        );
        drop(first);
        assert_ne!(state(pid, pid), Some('t'));
    }
}
