//! A walk over cache lines, which evicts other data from the caches.

use crate::random::{Random, below};

/// One cache line of x86-64 and most others.
#[repr(align(64))]
#[derive(Clone, Debug, Default)]
struct Line {
    next: u32,
}

/// Lines in memory, each of which names the next: a random cycle through all lines. Each step waits for the previous step, and no
/// prefetcher knows the way.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    lines: Vec<Line>,
}

impl Walk {
    /// `lines`: the number of lines; 0 makes the walk empty. `seed`: the seed of the cycle.
    pub(crate) fn lay_out(lines: u64, seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let mut order: Vec<u32> = (0..lines as u32).collect();
        // Sattolo's algorithm: one cycle through all lines.
        for last in (1..order.len()).rev() {
            order.swap(last, below(random.draw() >> 32, 32, last as u64) as usize);
        }
        Walk { lines: order.into_iter().map(|next| Line { next }).collect() }
    }

    /// Returns the number of lines in one walk.
    pub(crate) fn steps(&self) -> u64 {
        self.lines.len() as u64
    }

    /// Goes through every line once and ends where it began.
    #[inline(always)]
    pub(crate) fn go(&self) {
        let mut place = 0;
        for _ in 0..self.lines.len() {
            place = self.lines[place as usize].next;
        }
        std::hint::black_box(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_goes_through_every_line() {
        for lines in [1, 2, 3, 64, 1000] {
            let walk = Walk::lay_out(lines, 7);
            let mut seen = vec![false; lines as usize];
            let mut place = 0;
            for _ in 0..lines {
                assert!(!std::mem::replace(&mut seen[place as usize], true));
                place = walk.lines[place as usize].next;
            }
            assert_eq!(place, 0);
        }
        Walk::lay_out(0, 7).go();
    }

    #[test]
    fn the_order_depends_on_the_seed() {
        let order = |seed| -> Vec<u32> {
            Walk::lay_out(100, seed).lines.iter().map(|line| line.next).collect()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
