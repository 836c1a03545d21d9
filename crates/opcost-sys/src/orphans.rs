//! Processes that a command leaves behind: this process adopts them to find and end them.
//!
//! A process whose parent ends goes to the nearest ancestor that asked for such processes (PR_SET_CHILD_SUBREAPER, prctl(2)), else
//! to init, where nobody finds the process again.
//!
//! **Runs' orphans come to opcost; hooks' do not.** opcost is the subreaper of its runs and ends the processes that they
//! leave behind. While a hook runs, opcost is no subreaper: processes that a hook starts may stay.

use crate::clock::monotonic_ns;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The longest wait for the end of a killed process. A process that waits for an unresponsive device ends only when the device
/// answers.
const GONE_NS_MAX: u64 = 2_000_000_000;

/// The largest number of rounds that search for children of ended processes; each round ends one generation.
const ROUNDS_MAX: usize = 64;

/// Makes this process the parent of all orphans below it while the value lives.
///
/// Only processes that the main thread started, and orphans, are considered; both are children of the main thread.
#[derive(Debug)]
pub struct Orphanage {
    children: File,
    /// Children that are no orphans of a run, in ascending order.
    known: Vec<i32>,
}

/// Processes left behind by a run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Left {
    /// The number of processes that were alive.
    pub alive: u64,
    /// The number of alive processes that could not be ended.
    pub remaining: u64,
}

impl Orphanage {
    /// Starts adopting; present children do not count as orphans.
    ///
    /// # Errors
    /// The system's error: a kernel without lists of children (CONFIG_PROC_CHILDREN), no /proc.
    pub fn open() -> io::Result<Orphanage> {
        let pid = std::process::id();
        let children = File::open(format!("/proc/self/task/{pid}/children"))?;
        let mut orphanage = Orphanage { children, known: Vec::new() };
        orphanage.resume()?;
        Ok(orphanage)
    }

    /// Lets orphans go to init from now on, so that processes started during the pause may stay for good.
    ///
    /// # Errors
    /// The system's error.
    pub fn pause(&mut self) -> io::Result<()> {
        adopt(false)
    }

    /// Adopts again; present children do not count as orphans.
    ///
    /// # Errors
    /// The system's error.
    pub fn resume(&mut self) -> io::Result<()> {
        adopt(true)?;
        self.know_children()
    }

    /// Marks all present children as wanted.
    ///
    /// # Errors
    /// The system's error.
    pub fn know_children(&mut self) -> io::Result<()> {
        self.known = self.list()?;
        Ok(())
    }

    /// Ends the orphans since the last call, and everything that they started.
    ///
    /// # Errors
    /// The system's error.
    pub fn end_left(&mut self) -> io::Result<Left> {
        let mut left = Left::default();
        for _ in 0..ROUNDS_MAX {
            let new: Vec<i32> =
                self.list()?.into_iter().filter(|pid| !self.is_known(*pid)).collect();
            if new.is_empty() {
                break;
            }
            let alive: Vec<i32> = new.into_iter().filter(|pid| !reaped(*pid)).collect();
            left.alive += alive.len() as u64;
            for pid in &alive {
                // The number still belongs to the child: this process is its parent and has not waited for it.
                // SAFETY: integers only. If the kernel refuses, the process remains.
                unsafe { libc::kill(*pid, libc::SIGKILL) };
            }
            let deadline = monotonic_ns() + GONE_NS_MAX;
            for pid in alive {
                if !gone(pid, deadline) {
                    left.remaining += 1;
                    self.known.push(pid);
                }
            }
            self.known.sort_unstable();
        }
        Ok(left)
    }

    fn is_known(&self, pid: i32) -> bool {
        self.known.binary_search(&pid).is_ok()
    }

    fn list(&self) -> io::Result<Vec<i32>> {
        let mut bytes = vec![0u8; 1024];
        loop {
            let length = self.children.read_at(&mut bytes, 0)?;
            if length < bytes.len() {
                let text = String::from_utf8_lossy(&bytes[..length]);
                let mut pids: Vec<i32> =
                    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
                pids.sort_unstable();
                return Ok(pids);
            }
            bytes.resize(bytes.len() * 4, 0);
        }
    }
}

impl Drop for Orphanage {
    fn drop(&mut self) {
        // An error here is harmless: the setting ends with this process.
        let _ = adopt(false);
    }
}

fn adopt(on: bool) -> io::Result<()> {
    // SAFETY: integers only.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, libc::c_ulong::from(on), 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reaps a child if it has ended; returns whether the child is gone.
fn reaped(pid: i32) -> bool {
    // SAFETY: integers, and null for a status that is not needed.
    let waited = unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
    waited == pid || waited < 0
}

fn gone(pid: i32, deadline_ns: u64) -> bool {
    loop {
        if reaped(pid) {
            return true;
        }
        if monotonic_ns() > deadline_ns {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}
