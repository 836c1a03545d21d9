//! When the kernel gives a thread the CPU (`sched(7)`).

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
pub fn without_preempting() -> WithoutPreempting {
    let is_usual = policy().is_ok_and(|policy| policy == libc::SCHED_OTHER);
    WithoutPreempting { changed: is_usual && set_policy(libc::SCHED_BATCH, 0).is_ok() }
}

/// A thread that takes the CPU from no other task.
#[derive(Debug)]
pub struct WithoutPreempting {
    changed: bool,
}

impl Drop for WithoutPreempting {
    fn drop(&mut self) {
        if self.changed {
            // This cannot fail: the thread had this policy before.
            let _ = set_policy(libc::SCHED_OTHER, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_preempts_no_other_for_a_while() {
        assert_eq!(policy().unwrap(), libc::SCHED_OTHER);
        let outer = without_preempting();
        assert_eq!(policy().unwrap(), libc::SCHED_BATCH);
        drop(without_preempting());
        assert_eq!(policy().unwrap(), libc::SCHED_BATCH);
        drop(outer);
        assert_eq!(policy().unwrap(), libc::SCHED_OTHER);
    }
}
