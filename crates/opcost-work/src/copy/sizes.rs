//! The sizes that the operations copy.

use crate::random::{Random, below, fold};
use crate::unrolled::TURN;

/// Sizes of memcpy calls below 4,096 bytes in SPEC CPU2017 with their frequency in 65,536 calls, down to 30 (the table that glibc's
/// benchtests/bench-memcpy-random.c draws from).
#[rustfmt::skip] // as a table
const REAL: [(u32, u32); 58] = [
    (32, 22320), (16, 9554), (8, 8915), (152, 5327), (4, 2159), (292, 2035), (12, 1608),
    (24, 1343), (1152, 895), (144, 813), (884, 733), (284, 721), (120, 661), (2, 649), (882, 550),
    (5, 475), (7, 461), (108, 460), (10, 361), (9, 361), (6, 334), (3, 326), (464, 308),
    (2048, 303), (1, 298), (64, 250), (11, 197), (296, 194), (68, 187), (15, 185), (192, 184),
    (1764, 183), (13, 173), (560, 126), (160, 115), (288, 96), (104, 96), (1144, 83), (18, 80),
    (23, 78), (40, 77), (19, 68), (48, 63), (17, 57), (72, 54), (1280, 51), (20, 49), (28, 47),
    (22, 46), (640, 45), (25, 41), (14, 40), (56, 37), (27, 35), (35, 33), (384, 33), (29, 32),
    (80, 30),
];

/// The largest single size.
pub(super) const BYTES_MAX: u64 = 64 << 20;

/// The number of drawn sizes before they repeat: too many for a branch predictor to learn, few enough for half a first-level cache.
pub(super) const DRAWN: usize = 4096;

/// The sizes, in the order of the operations, repeated from the start at the end; their number is a power of two.
pub(super) struct Sizes(Box<[u32]>);

impl Sizes {
    /// Draws sizes; `text`: a number of bytes, `small` or `real`, as the parameter accepts it.
    pub(super) fn draw(text: &str, seed: u64) -> Sizes {
        let mut random = Random::seeded(seed);
        let sizes = match text {
            // Each size occurs equally often, except for one.
            "small" => (0..DRAWN as u32).map(|index| index % 257).collect(),
            "real" => {
                let calls: u32 = REAL.iter().map(|(_, calls)| calls).sum();
                (0..DRAWN)
                    .map(|_| of_call(below(random.draw() >> 32, 32, calls.into()) as u32))
                    .collect()
            }
            number => vec![number.parse().expect("checked with the parameter")],
        };
        Sizes(shuffled(sizes, &mut random).into())
    }

    #[inline(always)]
    pub(super) fn of(&self, op: u64) -> u32 {
        self.0[op as usize & (self.0.len() - 1)]
    }

    /// Returns the sizes of a turn whose first operation is `op`; only for drawn sizes.
    #[inline(always)]
    pub(super) fn turn(&self, op: u64) -> &[u32; TURN as usize] {
        &self.0.as_chunks().0[op as usize / TURN as usize % (DRAWN / TURN as usize)]
    }

    /// Returns the size of all operations, if they share one.
    pub(super) fn only(&self) -> Option<usize> {
        match &*self.0 {
            [bytes] => Some(*bytes as usize),
            _ => None,
        }
    }

    /// Returns the total bytes of `ops` operations.
    pub(super) fn bytes_of(&self, ops: u64) -> u64 {
        let sum = |sizes: &[u32]| sizes.iter().map(|size| u64::from(*size)).sum::<u64>();
        let drawn = self.0.len() as u64;
        ops / drawn * sum(&self.0) + sum(&self.0[..(ops % drawn) as usize])
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.0.iter().copied().max().unwrap_or(0) as usize
    }

    /// Returns each size once, ascending.
    pub(super) fn distinct(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.0.iter().map(|size| *size as usize).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Returns a hash over the sizes and their order.
    pub(super) fn hash(&self) -> u64 {
        self.0.iter().fold(0, |hash, size| fold(hash, u64::from(*size)))
    }
}

/// Returns the size of a call of the distribution; calls are numbered from the most frequent size's.
fn of_call(mut call: u32) -> u32 {
    for (size, calls) in REAL {
        if call < calls {
            return size;
        }
        call -= calls;
    }
    unreachable!("below the number of calls")
}

/// Shuffles sizes randomly (Fisher and Yates).
fn shuffled(mut sizes: Vec<u32>, random: &mut Random) -> Vec<u32> {
    for last in (1..sizes.len()).rev() {
        sizes.swap(last, below(random.draw() >> 32, 32, last as u64 + 1) as usize);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_sizes_are_all_there_equally_often() {
        let sizes = Sizes::draw("small", 7);
        assert_eq!(sizes.distinct(), (0..=256).collect::<Vec<_>>());
        for size in 0..=256 {
            let times = sizes.0.iter().filter(|drawn| **drawn == size).count();
            assert!((15..=16).contains(&times), "{size}: {times}");
        }
        assert_ne!(sizes.0[..8], [0, 1, 2, 3, 4, 5, 6, 7], "in no order");
    }

    #[test]
    fn real_sizes_are_those_of_the_distribution() {
        assert_eq!((of_call(0), of_call(22319), of_call(22320)), (32, 32, 16));
        let calls: u32 = REAL.iter().map(|(_, calls)| calls).sum();
        assert_eq!(of_call(calls - 1), 80);
        let sizes = Sizes::draw("real", 7);
        assert!(sizes.distinct().iter().all(|size| REAL.iter().any(|row| row.0 as usize == *size)));
        let mean = sizes.0.iter().map(|size| f64::from(*size)).sum::<f64>() / DRAWN as f64;
        let total: f64 = REAL.iter().map(|row| f64::from(row.0) * f64::from(row.1)).sum();
        let expected = total / f64::from(calls);
        assert!((mean / expected - 1.0).abs() < 0.2, "{mean} bytes, expected {expected}");
    }

    #[test]
    fn a_seed_decides_what_is_drawn_and_no_more() {
        for text in ["small", "real"] {
            assert_eq!(Sizes::draw(text, 3).hash(), Sizes::draw(text, 3).hash());
            assert_ne!(Sizes::draw(text, 3).hash(), Sizes::draw(text, 4).hash());
        }
        let one = Sizes::draw("48", 3);
        assert_eq!((one.of(0), one.of(99), one.bytes_max()), (48, 48, 48));
        assert_eq!(one.hash(), Sizes::draw("48", 4).hash());
    }

    #[test]
    fn turns_and_sums_are_those_of_the_single_operations() {
        let (one, drawn) = (Sizes::draw("48", 3), Sizes::draw("real", 3));
        assert_eq!((one.only(), drawn.only()), (Some(48), None));
        for sizes in [&one, &drawn] {
            for ops in [0, 1, 63, 64, 4096, 10_000] {
                let bytes = (0..ops).map(|op| u64::from(sizes.of(op))).sum::<u64>();
                assert_eq!(sizes.bytes_of(ops), bytes, "{ops}");
            }
        }
        for first in (0..10_000).step_by(TURN as usize) {
            assert!(drawn.turn(first).iter().zip(first..).all(|(size, op)| *size == drawn.of(op)));
        }
    }
}
