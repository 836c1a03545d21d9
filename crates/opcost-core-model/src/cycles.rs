//! Cycles by cause, events of the core, and the confidence in an estimate.

use std::ops::{Add, AddAssign, Mul, Sub};

/// The causes that cycles are charged to, in the order of [`Cycles::by_cause`].
pub const CAUSES: [&str; 5] = ["issue", "dependencies", "branches", "frontend", "memory"];

/// The cause of lateness; the order is that of [`CAUSES`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Cause {
    /// A port, a queue or a width was fully used.
    Issue,
    /// An operand was not ready.
    Dependencies,
    /// A branch was mispredicted.
    Branches,
    /// The instruction was not fetched.
    Frontend,
    /// Memory: a miss of L1 or a TLB, a store that stalls.
    Memory,
    /// Memory, from L3 or beyond.
    Far,
}

/// Cycles of the core, by cause.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Cycles {
    /// By cause, in the order of [`CAUSES`].
    pub by_cause: [u64; 5],
    /// The waits for L3 or beyond, a part of the memory cycles.
    pub far: u64,
}

impl Cycles {
    /// Returns the cycles charged between two sums by cause; the last two places of the sums are 0.
    #[inline]
    pub(crate) fn between(before: &[u64; 8], after: &[u64; 8]) -> Cycles {
        let charged: [u64; 8] = std::array::from_fn(|place| after[place] - before[place]);
        let [issue, dependencies, branches, frontend, near, far, ..] = charged;
        Cycles { by_cause: [issue, dependencies, branches, frontend, near + far], far }
    }

    /// The sum over all causes.
    #[inline]
    pub fn total(&self) -> u64 {
        self.by_cause.iter().sum()
    }
}

impl Add for Cycles {
    type Output = Cycles;

    #[inline]
    fn add(mut self, other: Cycles) -> Cycles {
        self += other;
        self
    }
}

impl AddAssign for Cycles {
    #[inline]
    fn add_assign(&mut self, other: Cycles) {
        for (own, other) in self.by_cause.iter_mut().zip(other.by_cause) {
            *own += other;
        }
        self.far += other.far;
    }
}

impl Mul<u64> for Cycles {
    type Output = Cycles;

    #[inline]
    fn mul(self, times: u64) -> Cycles {
        Cycles { by_cause: self.by_cause.map(|cycles| cycles * times), far: self.far * times }
    }
}

impl Sub for Cycles {
    type Output = Cycles;

    /// Returns the cycles since an earlier sum.
    #[inline]
    fn sub(mut self, other: Cycles) -> Cycles {
        for (own, other) in self.by_cause.iter_mut().zip(other.by_cause) {
            *own -= other;
        }
        self.far -= other.far;
        self
    }
}

/// Events of a modelled core, counted since its creation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Events {
    /// Instructions executed.
    pub instructions: u64,
    /// Loads and stores of lines that L1 did not hold.
    pub l1_misses: u64,
    /// Lines that neither L1 nor L2 held.
    pub l2_misses: u64,
    /// Lines that no cache held: accesses to memory.
    pub l3_misses: u64,
    /// Loads and stores that waited for a line on its way, requested by a prefetch or another access.
    pub late_lines: u64,
    /// Lines that prefetchers requested.
    pub prefetches: u64,
    /// Accesses to pages that the second TLB did not hold.
    pub tlb_misses: u64,
    /// Lines of code that the instruction cache did not hold.
    pub code_misses: u64,
    /// Conditional branches.
    pub branches: u64,
    /// Branches, indirect jumps and returns that were mispredicted.
    pub branch_misses: u64,
    /// Taken jumps whose target the front end knew only after decoding them.
    pub target_misses: u64,
    /// Loads whose value came from a store in flight.
    pub forwarded: u64,
    /// Loads that waited for a store in flight that had only a part of the value.
    pub forward_failures: u64,
    /// Interrupts and other entries.
    pub interrupts: u64,
}

impl Sub for Events {
    type Output = Events;

    /// Returns the events since an earlier count.
    fn sub(self, other: Events) -> Events {
        Events {
            instructions: self.instructions - other.instructions,
            l1_misses: self.l1_misses - other.l1_misses,
            l2_misses: self.l2_misses - other.l2_misses,
            l3_misses: self.l3_misses - other.l3_misses,
            late_lines: self.late_lines - other.late_lines,
            prefetches: self.prefetches - other.prefetches,
            tlb_misses: self.tlb_misses - other.tlb_misses,
            code_misses: self.code_misses - other.code_misses,
            branches: self.branches - other.branches,
            branch_misses: self.branch_misses - other.branch_misses,
            target_misses: self.target_misses - other.target_misses,
            forwarded: self.forwarded - other.forwarded,
            forward_failures: self.forward_failures - other.forward_failures,
            interrupts: self.interrupts - other.interrupts,
        }
    }
}

/// How far an estimate can be believed, by the cause that dominates its cycles.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Confidence {
    /// L3 and memory dominate: neighbours of the core can change the true time.
    Low,
    /// Memory, mostly L2, has a notable share, or the front end has.
    Medium,
    /// Issue, dependencies or mispredictions dominate.
    High,
}

impl Confidence {
    /// Returns the level's name.
    pub fn name(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }
}

/// Returns the confidence in some cycles.
///
/// Low if waits for L3 or memory exceed a fifth of the cycles; medium if memory or the front end does; else high.
pub fn confidence(cycles: &Cycles) -> Confidence {
    let total = cycles.total();
    let memory = cycles.by_cause[Cause::Memory as usize];
    let frontend = cycles.by_cause[Cause::Frontend as usize];
    if cycles.far.saturating_mul(5) > total {
        Confidence::Low
    } else if memory.max(frontend).saturating_mul(5) > total {
        Confidence::Medium
    } else {
        Confidence::High
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_add_up() {
        let some = Cycles::between(&[1; 8], &[2, 3, 4, 5, 5, 2, 1, 1]);
        assert_eq!((some.by_cause, some.far), ([1, 2, 3, 4, 5], 1));
        let more = some + some;
        assert_eq!((some.total(), more.total()), (15, 30));
        assert_eq!(more - some, some);
        assert_eq!(CAUSES[Cause::Memory as usize], "memory");
        assert_eq!(CAUSES[Cause::Issue as usize], "issue");
    }

    #[test]
    fn confidence_follows_what_bound_the_cycles() {
        let cycles = |charged| Cycles::between(&[0; 8], &charged);
        let of = |near, far, other| confidence(&cycles([other, 0, 0, 0, near, far, 0, 0]));
        assert_eq!(of(0, 30, 70), Confidence::Low);
        assert_eq!(of(50, 10, 40), Confidence::Medium);
        assert_eq!(of(30, 0, 70), Confidence::Medium);
        assert_eq!(of(10, 5, 85), Confidence::High);
        assert_eq!(confidence(&Cycles::default()), Confidence::High);
        assert_eq!(confidence(&cycles([10, 0, 0, 90, 0, 0, 0, 0])), Confidence::Medium);
        assert!(Confidence::Low < Confidence::High);
    }
}
