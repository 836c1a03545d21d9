//! Seeded numbers for the loops, and the hash over the loops' operations.

/// Weyl increment of SplitMix64, the odd integer nearest to 2^64 over the golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64: one addition and a mix of seven operations for 64 bits, no table, no branch (Steele, Lea, Flood: Fast Splittable
/// Pseudorandom Number Generators, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a generator; its numbers follow from `seed`.
    pub fn seeded(seed: u64) -> Self {
        Random(seed)
    }

    #[inline(always)]
    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }
}

/// Adds one word to a hash; the order of the words matters.
#[inline(always)]
pub(crate) fn fold(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(GAMMA)
}

/// Maps `bits` random bits in `field` to a number below `bound`, by a multiplication instead of a division (Lemire, 2019, without
/// the rejection; the bias is below bound / 2^bits).
#[inline(always)]
pub(crate) fn below(field: u64, bits: u32, bound: u64) -> u64 {
    (field.wrapping_mul(bound)) >> bits
}

#[inline(always)]
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The published sequence for seed 1234567.
        let mut random = Random::seeded(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| random.draw()).collect();
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn the_hash_sees_order() {
        assert_ne!(fold(fold(1, 2), 3), fold(fold(1, 3), 2));
    }

    proptest! {
        #[test]
        fn below_stays_below_and_reaches_the_ends(field in 0u64..1 << 20, bound in 1u64..=4096) {
            prop_assert!(below(field, 20, bound) < bound);
            prop_assert_eq!(below(0, 20, bound), 0);
            prop_assert_eq!(below((1 << 20) - 1, 20, bound), bound - 1);
        }
    }
}
