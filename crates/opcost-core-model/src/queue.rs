//! Queues in which operations wait for execution; operations leave out of order.

use crate::cycles::Cause;
use crate::stamp::Stamp;

/// The number of remembered cycles; an operation farther ahead leaves the queue at the last of them.
const CYCLES: usize = 1024;

/// A queue: the number of entries that leave in each cycle to come.
pub(crate) struct Waiting {
    /// By cycle: the number of leaving entries, and the cause of lateness of the last of them.
    leaving: Box<[(u16, u8); CYCLES]>,
    /// The cycle up to which all due entries have left.
    left: u64,
    waiting: u64,
    entries: u64,
}

impl Waiting {
    pub(crate) fn new(entries: u64) -> Waiting {
        Waiting { leaving: Box::new([(0, 0); CYCLES]), left: 0, waiting: 0, entries }
    }

    /// Returns the first cycle after `cycle` in which an entry is free, or `None` if one is free in `cycle`.
    #[inline(always)]
    pub(crate) fn full_until(&mut self, cycle: u64) -> Option<Stamp> {
        if self.waiting < self.entries {
            return None;
        }
        self.drain(cycle);
        if self.waiting < self.entries { None } else { Some(self.wait()) }
    }

    /// Advances cycle by cycle until an entry is free.
    #[cold]
    fn wait(&mut self) -> Stamp {
        let mut cause = Cause::Dependencies;
        while self.waiting >= self.entries {
            self.left += 1;
            let (count, why) = std::mem::take(&mut self.leaving[self.left as usize % CYCLES]);
            self.waiting -= u64::from(count);
            cause = match why {
                why if why == Cause::Far as u8 => Cause::Far,
                why if why == Cause::Memory as u8 => Cause::Memory,
                _ => Cause::Dependencies,
            };
        }
        Stamp::new(self.left, cause)
    }

    /// Removes all entries that leave up to a cycle.
    fn drain(&mut self, cycle: u64) {
        if cycle.saturating_sub(self.left) >= CYCLES as u64 {
            self.leaving.fill((0, 0));
            self.waiting = 0;
            self.left = cycle;
        }
        while self.left < cycle && self.waiting > 0 {
            self.left += 1;
            let (count, _) = std::mem::take(&mut self.leaving[self.left as usize % CYCLES]);
            self.waiting -= u64::from(count);
        }
        self.left = self.left.max(cycle);
    }

    /// Enters an operation in one cycle that leaves in another.
    #[inline(always)]
    pub(crate) fn enter(&mut self, now: u64, leaves: u64, cause: Cause) {
        if leaves.wrapping_sub(self.left) as i64 >= CYCLES as i64 {
            self.drain(now);
        }
        let leaves_within = leaves.min(self.left + CYCLES as u64 - 1);
        // This code has no branch: the host cannot predict whether the operation waits.
        let waits = u16::from(leaves > now);
        let entry = &mut self.leaving[leaves_within as usize % CYCLES];
        *entry = (entry.0 + waits, if waits == 0 { entry.1 } else { cause as u8 });
        self.waiting += u64::from(waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_free_once_their_operations_left() {
        let mut queue = Waiting::new(2);
        assert_eq!(queue.full_until(0), None);
        queue.enter(0, 0, Cause::Issue);
        queue.enter(0, 9, Cause::Memory);
        queue.enter(0, 4, Cause::Dependencies);
        assert_eq!(queue.full_until(1), Some(Stamp::new(4, Cause::Dependencies)));
        queue.enter(4, 20, Cause::Issue);
        assert_eq!(queue.full_until(4), Some(Stamp::new(9, Cause::Memory)));
        assert_eq!(queue.full_until(30), None);
        queue.enter(30, 31, Cause::Issue);
        assert_eq!(queue.full_until(30), None);
    }

    #[test]
    fn what_waits_beyond_the_ring_waits_to_its_end() {
        let mut queue = Waiting::new(1);
        queue.enter(0, 1_000_000, Cause::Memory);
        assert_eq!(queue.full_until(5), Some(Stamp::new(CYCLES as u64 - 1, Cause::Memory)));
        assert_eq!(queue.full_until(50_000), None);
        queue.enter(50_000, 50_002, Cause::Issue);
        assert_eq!(queue.full_until(50_000), Some(Stamp::new(50_002, Cause::Dependencies)));
    }
}
