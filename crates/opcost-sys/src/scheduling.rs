//! When the kernel gives a thread the CPU (`sched(7)`).

use crate::affinity::allowed_cpus;
use std::io;

/// The policy of the calling thread, and its priority under that policy.
fn policy() -> io::Result<libc::c_int> {
    // SAFETY: takes an integer. The call itself, since musl's wrapper always fails.
    match unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } {
        -1 => Err(io::Error::last_os_error()),
        policy => Ok(policy as libc::c_int),
    }
}

/// Gives the calling thread a policy and a priority under it.
fn set_policy(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    // The kernel's struct sched_param has one int.
    // SAFETY: the kernel reads one int.
    match unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the calling thread take the CPU from no other task when it wakes up, until the value is dropped.
///
/// The kernel does not preempt the running task for one that wakes up under SCHED_BATCH (kernel/sched/fair.c, wakeup_preempt_fair).
/// A thread that has another policy than the usual one keeps it, as if this had not been called.
#[must_use]
pub fn without_preempting() -> Otherwise {
    otherwise(libc::SCHED_BATCH, 0)
}

/// Lets the calling thread run as soon as it wakes up, before all ordinary tasks, until the value is dropped: it sees at once that a
/// run with real-time priority has ended.
///
/// The thread must sleep nearly all of that time, and make no process. A thread that may not have real-time priority keeps its own.
#[must_use]
pub fn at_once() -> Otherwise {
    otherwise(libc::SCHED_FIFO, 1)
}

fn otherwise(wanted: libc::c_int, priority: libc::c_int) -> Otherwise {
    let is_usual = policy().is_ok_and(|policy| policy == libc::SCHED_OTHER);
    Otherwise { changed: is_usual && set_policy(wanted, priority).is_ok() }
}

/// A thread that has another policy than the usual one for as long as the value lives.
#[derive(Debug)]
pub struct Otherwise {
    changed: bool,
}

impl Drop for Otherwise {
    fn drop(&mut self) {
        if self.changed {
            // This cannot fail: the thread had this policy before.
            let _ = set_policy(libc::SCHED_OTHER, 0);
        }
    }
}

/// Why runs cannot have real-time priority here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoRealTime {
    /// The kernel does not allow it to this user.
    Forbidden,
    /// The kernel would leave no time to other tasks (`sched_rt_runtime_us` is −1).
    Unlimited,
    /// A single CPU is allowed, and the rest of the machine needs another.
    OneCpu,
}

impl NoRealTime {
    /// The reason, and what would help.
    pub fn in_words(self) -> (&'static str, &'static str) {
        match self {
            NoRealTime::Forbidden => (
                "this user may not set real-time priority",
                "run opcost as root, give it CAP_SYS_NICE, or raise the limit (ulimit -r 1; rtprio in limits.conf)",
            ),
            NoRealTime::Unlimited => (
                "the kernel keeps no time for other tasks beside real-time ones",
                "sysctl kernel.sched_rt_runtime_us=950000",
            ),
            NoRealTime::OneCpu => (
                "one CPU is allowed, and the rest of the machine needs another",
                "allow a second CPU (taskset, cpuset)",
            ),
        }
    }
}

/// The reason why runs cannot have real-time priority here; `None` if they can.
pub fn no_real_time() -> Option<NoRealTime> {
    // A thread of its own tries, so this one keeps its policy whatever happens.
    let tried = std::thread::spawn(|| set_policy(libc::SCHED_FIFO, 1)).join();
    if !tried.is_ok_and(|tried| tried.is_ok()) {
        return Some(NoRealTime::Forbidden);
    }
    let runtime = std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us");
    if runtime.is_ok_and(|runtime| runtime.trim() == "-1") {
        return Some(NoRealTime::Unlimited);
    }
    let several = allowed_cpus().is_ok_and(|cpus| cpus.len() > 1);
    (!several).then_some(NoRealTime::OneCpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_another_policy_for_a_while() {
        assert_eq!(policy().unwrap(), libc::SCHED_OTHER);
        let prompt = at_once();
        let allowed = no_real_time() != Some(NoRealTime::Forbidden);
        assert_eq!(policy().unwrap(), if allowed { libc::SCHED_FIFO } else { libc::SCHED_OTHER });
        drop(prompt);
        assert_eq!(policy().unwrap(), libc::SCHED_OTHER);
        let outer = without_preempting();
        assert_eq!(policy().unwrap(), libc::SCHED_BATCH);
        drop(without_preempting());
        assert_eq!(policy().unwrap(), libc::SCHED_BATCH);
        drop(outer);
        assert_eq!(policy().unwrap(), libc::SCHED_OTHER);
    }
}
