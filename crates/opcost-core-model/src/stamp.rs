//! A time with the cause of its lateness, in one word: one comparison finds the later of two.

use crate::cycles::Cause;

/// A cycle (upper bits), whether a chained result became ready in it (one bit), and the cause that it was not earlier (three bits).
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Stamp(u64);

impl Stamp {
    #[inline(always)]
    pub(crate) fn new(cycle: u64, cause: Cause) -> Stamp {
        Stamp(cycle << 4 | cause as u64)
    }

    #[inline(always)]
    pub(crate) fn cycle(self) -> u64 {
        self.0 >> 4
    }

    #[inline(always)]
    pub(crate) fn cause(self) -> Cause {
        match self.0 & 7 {
            0 => Cause::Issue,
            1 => Cause::Dependencies,
            2 => Cause::Branches,
            3 => Cause::Frontend,
            5 => Cause::Far,
            _ => Cause::Memory,
        }
    }

    /// Returns the stamp, later by some cycles.
    #[inline(always)]
    pub(crate) fn plus(self, cycles: u64) -> Stamp {
        Stamp(self.0 + (cycles << 4))
    }

    /// Returns the place of the stamp's cause among all causes.
    #[inline(always)]
    pub(crate) fn cause_place(self) -> usize {
        (self.0 & 7) as usize
    }

    /// Returns the stamp marked as the result of the chained class.
    #[inline(always)]
    pub(crate) fn chained(self) -> Stamp {
        Stamp(self.0 | 8)
    }

    #[inline(always)]
    pub(crate) fn is_chained(self) -> bool {
        self.0 & 8 != 0
    }

    /// Returns the stamp, earlier by some cycles.
    #[inline(always)]
    pub(crate) fn minus(self, cycles: u64) -> Stamp {
        Stamp(self.0.saturating_sub(cycles << 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_order_by_cycle() {
        let early = Stamp::new(5, Cause::Memory);
        let late = Stamp::new(6, Cause::Issue);
        assert!(early < late && late < late.chained());
        assert_eq!((late.cycle(), early.cause()), (6, Cause::Memory));
        assert_eq!((late.chained().cycle(), late.chained().cause()), (6, Cause::Issue));
        assert_eq!((late.minus(2).cycle(), late.plus(2).cycle()), (4, 8));
        for cause in
            [Cause::Issue, Cause::Dependencies, Cause::Branches, Cause::Frontend, Cause::Memory]
        {
            assert_eq!(Stamp::new(1, cause).cause(), cause);
        }
    }
}
