//! A model of a branch predictor, with the parts that textbooks agree on.
//!
//! Conditional branches: gshare with 2^14 two-bit counters and 14 bits of global history (S.
//! McFarling, "Combining Branch Predictors", WRL Technical Note TN-36, 1993, section 7). Indirect
//! jumps and calls: a direct-mapped table of 4096 last targets. Returns: a stack of 16 addresses. Direct jumps and calls always
//! count as predicted.

const HISTORY_BITS: u32 = 14;
const TARGETS: usize = 4096;
const RETURNS: usize = 16;

/// The predictor with its learnt state.
pub(crate) struct Predictor {
    counters: Box<[u8; 1 << HISTORY_BITS]>,
    history: usize,
    targets: Box<[(u64, u64); TARGETS]>,
    returns: [u64; RETURNS],
    depth: usize,
}

impl Predictor {
    /// Makes a predictor that has learnt nothing: every counter is weakly not taken.
    pub(crate) fn new() -> Predictor {
        Predictor {
            counters: Box::new([1; 1 << HISTORY_BITS]),
            history: 0,
            targets: Box::new([(0, 0); TARGETS]),
            returns: [0; RETURNS],
            depth: 0,
        }
    }

    /// Learns from a conditional branch at an address and returns whether its direction was mispredicted.
    ///
    /// Without `conditional`, it learns nothing and returns false.
    #[inline(always)]
    pub(crate) fn misses_branch(&mut self, address: u64, conditional: bool, taken: bool) -> bool {
        const MASK: usize = (1 << HISTORY_BITS) - 1;
        // The first counter stands for every other instruction: the counter stays in the host's cache.
        let mask = MASK & usize::from(conditional).wrapping_neg();
        let counter = &mut self.counters[(address as usize ^ self.history) & mask];
        let predicted = *counter >= 2;
        // This code has no branches of its own: the host's own predictor cannot guess which instruction is a branch, nor whether
        // the branch is taken.
        let goes = usize::from(taken);
        let moved = if taken {
            *counter + u8::from(*counter < 3)
        } else {
            *counter - u8::from(*counter > 0)
        };
        *counter = if conditional { moved } else { *counter };
        let history = (self.history << 1 | goes) & MASK;
        self.history = if conditional { history } else { self.history };
        (predicted != taken) & conditional
    }

    /// Learns from an indirect jump or call and returns whether its target was mispredicted.
    pub(crate) fn misses_target(&mut self, address: u64, target: u64) -> bool {
        let entry = &mut self.targets[address as usize % TARGETS];
        let predicted = *entry == (address, target);
        *entry = (address, target);
        !predicted
    }

    /// Remembers the return address of a call and forgets the oldest of more than 16.
    pub(crate) fn call(&mut self, behind: u64) {
        self.returns[self.depth % RETURNS] = behind;
        self.depth += 1;
    }

    /// Learns from a return and returns whether its target was mispredicted.
    pub(crate) fn misses_return(&mut self, target: u64) -> bool {
        let Some(depth) = self.depth.checked_sub(1) else { return true };
        self.depth = depth;
        std::mem::take(&mut self.returns[depth % RETURNS]) != target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_always_taken_is_learnt_as_fast_as_its_history_fills() {
        let mut predictor = Predictor::new();
        let misses: Vec<bool> =
            (0..20).map(|_| predictor.misses_branch(0x1000, true, true)).collect();
        // Each of 14 new histories has a counter of its own, and so has the full one.
        assert_eq!(misses.iter().filter(|miss| **miss).count(), 15);
        assert!(misses[..15].iter().all(|miss| *miss));
    }

    #[test]
    fn an_alternating_branch_is_learnt_by_history() {
        let mut predictor = Predictor::new();
        for turn in 0..100 {
            predictor.misses_branch(0x1000, true, turn % 2 == 0);
        }
        let misses = (100..200).filter(|turn| predictor.misses_branch(0x1000, true, turn % 2 == 0));
        assert_eq!(misses.count(), 0);
    }

    #[test]
    fn a_branch_never_taken_is_never_missed() {
        let mut predictor = Predictor::new();
        assert!((0..10).all(|_| !predictor.misses_branch(0x1000, true, false)));
    }

    #[test]
    fn an_indirect_jump_goes_where_it_last_went() {
        let mut predictor = Predictor::new();
        let targets = [1, 1, 2, 1, 1];
        let misses = targets.map(|target| predictor.misses_target(0x1000, target));
        assert_eq!(misses, [true, false, true, true, false]);
        assert!(predictor.misses_target(0x1000 + TARGETS as u64, 1), "shares the entry");
        assert!(predictor.misses_target(0x1000, 1));
    }

    #[test]
    fn returns_are_known_sixteen_deep() {
        let mut predictor = Predictor::new();
        for call in 1..=17 {
            predictor.call(call);
        }
        for call in (2..=17).rev() {
            assert!(!predictor.misses_return(call));
        }
        assert!(predictor.misses_return(1), "the 17th call took its place");
        assert!(predictor.misses_return(1), "nothing is left");
    }
}
