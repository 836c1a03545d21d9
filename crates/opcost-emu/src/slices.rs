//! The slices of an execution that a modelled core times, if it does not time everything.
//!
//! R. E. Wunderlich, T. F. Wenisch, B. Falsafi and J. C. Hoe, "SMARTS: accelerating microarchitecture simulation via rigorous
//! statistical sampling", ISCA 2003: caches and predictors learn from all instructions. Slices of a few thousand instructions are
//! timed; each slice stands for a stretch that is a given number of times as long.

/// The number of initial instructions that are all timed: shorter executions are not sampled.
const WHOLE: u64 = 10_000_000;
/// The charged instructions of a slice.
const MEASURED: u64 = 3_000;
/// The instructions in front of the charged ones; they fill the core's window and queues.
const SETTLING: u64 = 1_000;

/// The treatment of instructions by the model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    /// The model times and charges all of them.
    Whole,
    /// Only caches and predictors learn from them.
    Learning,
    /// The model times them to fill the core for the instructions behind them, without charging them.
    Settling,
    /// The model times them and charges each for many.
    Measured,
}

/// The state of the sampling.
pub(crate) struct Slices {
    /// The number of instructions that each measured instruction stands for.
    one_in: u64,
    phase: Phase,
    /// Instructions until the phase ends; negative where the phase lasted longer.
    left: i64,
    /// Instructions of the phase so far, and their cycles.
    passed: u64,
    cycles: u64,
    /// Instructions of the present stretch behind its slice.
    behind: i64,
    draw: u64,
}

impl Slices {
    /// `one_in`: the number of instructions that each measured instruction stands for; 1 times all instructions.
    pub(crate) fn new(one_in: u64) -> Slices {
        Slices {
            one_in,
            phase: Phase::Whole,
            left: if one_in == 1 { i64::MAX } else { WHOLE as i64 },
            passed: 0,
            cycles: 0,
            behind: 0,
            draw: 0x9e37_79b9_7f4a_7c15,
        }
    }

    #[inline(always)]
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns how often the timed instructions are charged now.
    #[inline(always)]
    pub(crate) fn weight(&self) -> u64 {
        match self.phase {
            Phase::Whole => 1,
            Phase::Learning | Phase::Settling => 0,
            Phase::Measured => self.one_in,
        }
    }

    /// Notes that some instructions were executed and took some cycles.
    ///
    /// Returns the cycles of the slice that these instructions ended, if any.
    #[inline(always)]
    pub(crate) fn pass(&mut self, instructions: u64, cycles: u64) -> Option<u64> {
        self.left -= instructions as i64;
        self.passed += instructions;
        self.cycles += cycles;
        if self.left > 0 { None } else { self.go_on() }
    }

    #[cold]
    fn go_on(&mut self) -> Option<u64> {
        let overrun = self.left;
        let slice = (self.phase == Phase::Measured).then_some(self.cycles);
        (self.phase, self.left) = match self.phase {
            Phase::Whole | Phase::Measured => {
                // A slice stands for a stretch of its own length times `one_in`. Slices do not cut blocks.
                if slice.is_some() {
                    self.behind += (self.passed * (self.one_in - 1)) as i64;
                }
                // The next slice is at a random place in its stretch, so that no loop of the program keeps step with the slices.
                let room = MEASURED * self.one_in - MEASURED - SETTLING;
                let ahead = self.drawn() % room;
                let left = self.behind + ahead as i64;
                self.behind = -((ahead + SETTLING) as i64);
                (Phase::Learning, left)
            }
            Phase::Learning => (Phase::Settling, overrun + SETTLING as i64),
            Phase::Settling => {
                self.behind += overrun;
                (Phase::Measured, MEASURED as i64)
            }
        };
        (self.passed, self.cycles) = (0, 0);
        slice
    }

    /// Returns the next number of Marsaglia's xorshift.
    fn drawn(&mut self) -> u64 {
        self.draw ^= self.draw << 13;
        self.draw ^= self.draw >> 7;
        self.draw ^= self.draw << 17;
        self.draw >> 11
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns all instructions, the charged ones, and the slices of blocks of these lengths at one cycle an instruction.
    fn charged(one_in: u64, blocks: impl Iterator<Item = u64>) -> (u64, u64, Vec<u64>) {
        let mut slices = Slices::new(one_in);
        let (mut all, mut charged, mut ended) = (0, 0, Vec::new());
        for block in blocks {
            all += block;
            charged += block * slices.weight();
            let timed = slices.phase() != Phase::Learning;
            ended.extend(slices.pass(block, if timed { block } else { 0 }));
        }
        (all, charged, ended)
    }

    #[test]
    fn a_short_execution_is_timed_whole() {
        for (one_in, block, blocks) in [(16, 5, 1_999_999), (1, 7, 3_000_000)] {
            let (all, sum, slices) = charged(one_in, std::iter::repeat_n(block, blocks));
            assert_eq!((all, sum, slices.len()), (block * blocks as u64, all, 0));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn slices_stand_for_everything_once(one_in in 2_u64..200, lengths in prop::collection::vec(1_u64..400, 1..20)) {
            let blocks = lengths.iter().copied().cycle();
            let mut left = 30_000_000_u64;
            let blocks = blocks.take_while(|block| {
                left = left.saturating_sub(*block);
                left > 0
            });
            let (all, charged, slices) = charged(one_in, blocks);
            // The last stretch may not have reached its slice or its end.
            let stretch = 2 * (MEASURED + 400) * one_in;
            prop_assert!(all.abs_diff(charged) <= stretch, "{all} instructions, {charged} charged");
            prop_assert!(slices.iter().all(|cycles| (MEASURED..MEASURED + 400).contains(cycles)));
            let expected = (all - WHOLE) / (MEASURED * one_in);
            prop_assert!(slices.len() as u64 <= expected + 1 && slices.len() as u64 + 1 >= expected * 8 / 10);
        }
    }
}
