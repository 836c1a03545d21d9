//! A seeded walk over memory, to push what a call needs out of the caches.

use crate::random::{Random, below};

/// 8-byte words of a cache line, 64 bytes on the machines this is for.
const LINE_WORDS: usize = 8;

/// Where every round begins and ends.
pub(super) const START: u64 = 0;

/// Lines of memory that are linked to one ring in random order: where a step goes is read from the
/// line it comes from, so that no processor runs ahead and no prefetcher guesses.
pub(super) struct Walk {
    words: Vec<u64>,
    lines: u64,
}

impl Walk {
    /// A ring of so many lines, none at all for 0.
    pub(super) fn over(lines: u64, seed: u64) -> Walk {
        let mut order: Vec<u64> = (0..lines).collect();
        // Sattolo's algorithm: every line is in one ring (Information Processing Letters 22(6), 1986).
        let mut random = Random::seeded(seed);
        for last in (1..order.len()).rev() {
            let other = below(random.draw() >> 32, 32, last as u64) as usize;
            order.swap(last, other);
        }
        let mut words = vec![0; order.len() * LINE_WORDS];
        for (line, next) in order.iter().enumerate() {
            words[line * LINE_WORDS] = *next;
        }
        Walk { words, lines }
    }

    /// Goes once round the ring; where it ends, which is where it began.
    #[inline(always)]
    pub(super) fn round(&self, mut at: u64) -> u64 {
        for _ in 0..self.lines {
            at = self.words[at as usize * LINE_WORDS];
        }
        at
    }

    /// Whether there is anything to walk over.
    pub(super) fn is_empty(&self) -> bool {
        self.lines == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_lines_are_no_walk() {
        let walk = Walk::over(0, 1);
        assert!(walk.is_empty());
        assert_eq!(walk.round(0), 0);
    }

    proptest! {
        #[test]
        fn a_round_visits_every_line_once(lines in 1u64..300, seed: u64) {
            let walk = Walk::over(lines, seed);
            let mut seen = vec![false; lines as usize];
            let mut at = START;
            for _ in 0..lines {
                prop_assert!(!std::mem::replace(&mut seen[at as usize], true));
                at = walk.words[at as usize * LINE_WORDS];
            }
            prop_assert_eq!(at, START);
            prop_assert_eq!(walk.round(at), at);
        }
    }

    #[test]
    fn the_order_is_the_seeds() {
        assert_ne!(Walk::over(100, 1).words, Walk::over(100, 2).words);
        assert_eq!(Walk::over(100, 1).words, Walk::over(100, 1).words);
    }
}
