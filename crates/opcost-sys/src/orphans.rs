//! Processes that a command leaves behind, adopted so that they can be found and ended.
//!
//! A process whose parent ends goes to the nearest ancestor that asked for such processes
//! (PR_SET_CHILD_SUBREAPER, prctl(2)), else to init, where nobody finds it again.

use crate::clock::monotonic_ns;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How long a killed process may take to be gone. One that waits for a device that does not answer
/// ends only when the device does.
const GONE_NS_MAX: u64 = 2_000_000_000;

/// Rounds in which children of what was ended are looked for; each ends a generation.
const ROUNDS_MAX: usize = 64;

/// Makes this process the one that orphans below it go to, for as long as it lives.
///
/// Only processes that the main thread started, and orphans, are looked at; both are children of
/// the main thread.
#[derive(Debug)]
pub struct Orphanage {
    children: File,
    /// Children that are no orphans of a run, in ascending order.
    known: Vec<i32>,
}

/// What was found after a run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Left {
    /// Processes that were alive.
    pub alive: u64,
    /// Of them those that could not be ended.
    pub remaining: u64,
}

impl Orphanage {
    /// Opens it; what are children by now are no orphans.
    ///
    /// # Errors
    /// The system's: a kernel without lists of children (CONFIG_PROC_CHILDREN), no /proc.
    pub fn open() -> io::Result<Orphanage> {
        let pid = std::process::id();
        let children = File::open(format!("/proc/self/task/{pid}/children"))?;
        let mut orphanage = Orphanage { children, known: Vec::new() };
        orphanage.resume()?;
        Ok(orphanage)
    }

    /// Lets orphans go to init from now on, so that what is started meanwhile may stay for good.
    ///
    /// # Errors
    /// The system's.
    pub fn pause(&mut self) -> io::Result<()> {
        adopt(false)
    }

    /// Adopts again; what are children by now are no orphans.
    ///
    /// # Errors
    /// The system's.
    pub fn resume(&mut self) -> io::Result<()> {
        adopt(true)?;
        self.know_children()
    }

    /// Takes all children of this moment for ones that are wanted.
    ///
    /// # Errors
    /// The system's.
    pub fn know_children(&mut self) -> io::Result<()> {
        self.known = self.list()?;
        Ok(())
    }

    /// Ends what came to this process since it last looked, and all that was started by it.
    ///
    /// # Errors
    /// The system's.
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
                // The number is its own: this process is its parent and has not waited for it.
                // SAFETY: integers only. Where it is refused, the process remains.
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
        // What cannot be undone here ends with this process.
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

/// Waits for a child if it has ended; whether it is gone.
fn reaped(pid: i32) -> bool {
    // SAFETY: integers, and null for a status that nobody asks for.
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
