//! The order of runs: single pairs in drawn order if there are few, mirrored blocks if there are many.

use crate::random::Random;

/// Draws the variants of a recording in the order in which they run, block by block.
///
/// `variants` are numbered from 0; `pairs` is how often each runs. A block is a random order of the
/// variants followed by its mirror image (for two: ABBA or BAAB); if `pairs` is odd, the last block is
/// a random order alone. Within a block every variant has the same mean position, so a linear drift
/// cancels. Every order is equally likely, so exchanging the labels of any two variants in any block
/// gives an equally likely schedule; this makes the tests of [`effect`](mod@crate::effect) exact. No
/// blocks if there are no variants or no pairs.
pub fn mirrored_blocks(variants: usize, pairs: u32, random: &mut Random) -> Vec<Vec<usize>> {
    if variants == 0 {
        return Vec::new();
    }
    let mut blocks = Vec::with_capacity(pairs.div_ceil(2) as usize);
    let mut left = pairs;
    while left > 0 {
        let mut block: Vec<usize> = (0..variants).collect();
        random.shuffle(&mut block);
        if left >= 2 {
            block.extend_from_within(..);
            block[variants..].reverse();
        }
        blocks.push(block);
        left = left.saturating_sub(2);
    }
    blocks
}

/// The number of pairs from which on mirrored blocks are better units than single pairs.
///
/// Either unit is valid in any noise, since only equally likely orders are exchanged. Single pairs are
/// twice as many units. A mirrored block cancels a drift and a penalty for running second; single
/// pairs average them out. `tests/it/units.rs` simulates the changes that either unit finds at the
/// primary metric's level. Without a penalty, single pairs find changes that are 30 % smaller with 14
/// pairs, 10 % with 22 and 4 % with 32. With a penalty as large as the noise, mirrored blocks find
/// changes that are 12 % smaller with 22 pairs and 15 % with 32. On the recorded noise of machines,
/// single pairs find smaller changes up to 22 pairs everywhere, and beyond 22 pairs where runs have
/// spikes.
pub const MIRRORED_PAIRS_MIN: u32 = 32;

/// Draws the variants in blocks: `singles` pairs in blocks of their own, then mirrored blocks.
///
/// Units of both kinds may be tested together, since exchanged orders are equally likely in either.
pub fn blocks(variants: usize, pairs: u32, singles: u32, random: &mut Random) -> Vec<Vec<usize>> {
    let singles = singles.min(pairs);
    let mut blocks = plain_blocks(variants, singles, random);
    blocks.extend(mirrored_blocks(variants, pairs - singles, random));
    blocks
}

/// Draws the variants in blocks that hold each variant once, in random order.
///
/// This is for few runs, and for runs without drift, for which the mirror image of [`mirrored_blocks`]
/// has no use.
pub fn plain_blocks(variants: usize, pairs: u32, random: &mut Random) -> Vec<Vec<usize>> {
    let block = |_| {
        let mut block: Vec<usize> = (0..variants).collect();
        random.shuffle(&mut block);
        block
    };
    if variants == 0 { Vec::new() } else { (0..pairs).map(block).collect() }
}

/// Returns the number of blocks after which an interval is looked at next, after a look at `blocks`.
///
/// A twentieth more, at least one: fewer looks choose less among chances, and cost less. The tests
/// simulate how stopping at the first narrow interval affects error rates.
pub fn next_look(blocks: usize) -> usize {
    blocks + (blocks / 20).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn small_schedules() {
        let blocks = mirrored_blocks(2, 3, &mut Random::new(1));
        assert_eq!(blocks.len(), 2);
        assert!(blocks[0] == [0, 1, 1, 0] || blocks[0] == [1, 0, 0, 1]);
        assert!(blocks[1] == [0, 1] || blocks[1] == [1, 0]);
        assert!(mirrored_blocks(0, 5, &mut Random::new(1)).is_empty());
        assert!(mirrored_blocks(2, 0, &mut Random::new(1)).is_empty());
        assert_eq!(mirrored_blocks(1, 3, &mut Random::new(1)), [vec![0, 0], vec![0]]);
    }

    #[test]
    fn plain_blocks_hold_each_variant_once() {
        let blocks = plain_blocks(3, 40, &mut Random::new(1));
        assert_eq!(blocks.len(), 40);
        for block in &blocks {
            let mut sorted = block.clone();
            sorted.sort();
            assert_eq!(sorted, [0, 1, 2]);
        }
        assert!(blocks.iter().any(|block| *block != blocks[0]), "the order is random");
        assert!(plain_blocks(0, 5, &mut Random::new(1)).is_empty());
    }

    #[test]
    fn single_pairs_come_before_mirrored_blocks() {
        let blocks = |pairs, singles| blocks(2, pairs, singles, &mut Random::new(3));
        let lengths = |pairs, singles| -> Vec<usize> {
            blocks(pairs, singles).iter().map(Vec::len).collect()
        };
        assert_eq!(lengths(7, 3), [2, 2, 2, 4, 4]);
        assert_eq!(lengths(3, 9), [2, 2, 2]);
        assert_eq!(blocks(6, 0), mirrored_blocks(2, 6, &mut Random::new(3)));
        assert_eq!(blocks(6, 6), plain_blocks(2, 6, &mut Random::new(3)));
    }

    #[test]
    fn the_schedule_of_a_seed_is_frozen() {
        assert_eq!(
            mirrored_blocks(3, 5, &mut Random::new(42)),
            [vec![1, 0, 2, 2, 0, 1], vec![0, 1, 2, 2, 1, 0], vec![0, 1, 2]]
        );
    }

    #[test]
    fn every_order_is_equally_likely() {
        // Chi-squared with 5 degrees of freedom; 20.5 is exceeded with probability 0.001.
        let mut counts: HashMap<Vec<usize>, f64> = HashMap::new();
        for mut block in mirrored_blocks(3, 24_000, &mut Random::new(3)) {
            block.truncate(3);
            *counts.entry(block).or_default() += 1.0;
        }
        assert_eq!(counts.len(), 6);
        let chi2: f64 = counts.values().map(|c| (c - 2e3).powi(2) / 2e3).sum();
        assert!(chi2 < 20.5, "chi² = {chi2}");
    }

    proptest! {
        #[test]
        fn every_variant_runs_as_often_and_blocks_are_mirrored(
            variants in 1usize..6, pairs in 0u32..40, seed: u64,
        ) {
            let blocks = mirrored_blocks(variants, pairs, &mut Random::new(seed));
            for variant in 0..variants {
                let runs = blocks.iter().flatten().filter(|&&v| v == variant).count();
                prop_assert_eq!(runs, pairs as usize);
            }
            for (index, block) in blocks.iter().enumerate() {
                let mut half = block[..variants].to_vec();
                if index + 1 < blocks.len() || pairs % 2 == 0 {
                    let mirror: Vec<usize> = block.iter().rev().copied().collect();
                    prop_assert_eq!(&mirror, block);
                    prop_assert_eq!(block.len(), 2 * variants);
                } else {
                    prop_assert_eq!(block.len(), variants);
                }
                half.sort_unstable();
                prop_assert_eq!(half, (0..variants).collect::<Vec<_>>());
            }
            prop_assert_eq!(blocks, mirrored_blocks(variants, pairs, &mut Random::new(seed)));
        }
    }
}
