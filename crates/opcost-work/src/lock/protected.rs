//! The data that the lock protects, and the record of its owners.

use std::sync::atomic::{AtomicU64, Ordering};

/// The data that the lock protects. The atomics are only loaded and stored, never changed in one atomic step: to the machine they
/// are plain memory, and a lock that lets two tasks in loses counts.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Protected {
    /// Acquisitions so far.
    total: AtomicU64,
    /// The last task that had the lock.
    owner: AtomicU64,
    /// The total when this task got the lock.
    run_start: AtomicU64,
    /// The longest finished series of one task.
    run_max: AtomicU64,
    /// How often the lock went to another task.
    handovers: AtomicU64,
}

/// The index that no task has.
const NOBODY: u64 = u64::MAX;

impl Protected {
    pub(super) const fn new() -> Self {
        Protected {
            total: AtomicU64::new(0),
            owner: AtomicU64::new(NOBODY),
            run_start: AtomicU64::new(0),
            run_max: AtomicU64::new(0),
            handovers: AtomicU64::new(0),
        }
    }

    /// Counts one acquisition by the task that has the lock; this is the work under the lock.
    #[inline(always)]
    pub(super) fn count(&self) {
        self.total.store(self.total.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Records who has the lock, before the acquisition is counted.
    #[inline(always)]
    pub(super) fn record(&self, me: u64) {
        if self.owner.load(Ordering::Relaxed) != me {
            self.hand_over(me);
        }
    }

    #[cold]
    #[inline(never)]
    fn hand_over(&self, me: u64) {
        if self.owner.load(Ordering::Relaxed) != NOBODY {
            let handovers = self.handovers.load(Ordering::Relaxed);
            self.handovers.store(handovers + 1, Ordering::Relaxed);
        }
        self.run_max.store(self.run_longest(), Ordering::Relaxed);
        self.run_start.store(self.total.load(Ordering::Relaxed), Ordering::Relaxed);
        self.owner.store(me, Ordering::Relaxed);
    }

    pub(super) fn total(&self) -> u64 {
        self.total.load(Ordering::Acquire)
    }

    /// Returns how often the lock went to another task.
    pub(super) fn handovers(&self) -> u64 {
        self.handovers.load(Ordering::Relaxed)
    }

    /// Returns the longest series of one task, including the present one; without a record, all acquisitions.
    pub(super) fn run_longest(&self) -> u64 {
        let now = self.total() - self.run_start.load(Ordering::Relaxed);
        now.max(self.run_max.load(Ordering::Relaxed))
    }

    /// Gives the data a page of this process's own before anybody counts.
    pub(super) fn make_resident(&self) {
        self.handovers.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_have_the_lock_at_once_lose_a_count() {
        let protected = Protected::new();
        // The effect of two tasks that are let in together: both read, then both write.
        let total = protected.total.load(Ordering::Relaxed);
        protected.count();
        protected.total.store(total + 1, Ordering::Relaxed);
        assert_eq!(protected.total(), 1);
    }

    #[test]
    fn runs_and_handovers_are_counted() {
        let protected = Protected::new();
        for me in [0, 0, 1, 2, 2, 2, 0] {
            protected.record(me);
            protected.count();
        }
        assert_eq!((protected.total(), protected.handovers(), protected.run_longest()), (7, 3, 3));
    }

    #[test]
    fn without_a_record_all_is_one_run() {
        let protected = Protected::new();
        (0..5).for_each(|_| protected.count());
        assert_eq!((protected.handovers(), protected.run_longest()), (0, 5));
    }
}
