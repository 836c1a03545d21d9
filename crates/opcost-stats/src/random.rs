//! The generator behind every schedule, resample and simulation.
//!
//! xoshiro256++ 1.0, with its state filled by splitmix64 (Blackman & Vigna, "Scrambled Linear
//! Pseudorandom Number Generators", ACM TOMS 47(4), 2021; reference code on prng.di.unimi.it). The
//! sequence is a promise: a plan stores a seed, and every later version must draw the same schedule
//! from it. The tests below freeze the sequence.

/// A seeded generator of random numbers; equal seeds give equal sequences, for ever.
///
/// Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    seed: u64,
    state: [u64; 4],
}

/// Advances `state` by one step of splitmix64, and returns its scrambled value.
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// Makes a generator for this seed; every seed is good, also 0.
    pub fn new(seed: u64) -> Self {
        let mut filler = seed;
        let state = std::array::from_fn(|_| splitmix64(&mut filler));
        Random { seed, state }
    }

    /// Makes a separate generator for one purpose, `stream`, of this generator's seed.
    ///
    /// The new generator depends only on the seed and the stream, not on how many numbers were
    /// drawn, so a draw added in one place changes nothing in another. Different streams of one
    /// seed get different seeds: every step from stream to seed is a bijection.
    pub fn fork(&self, stream: u64) -> Random {
        let mut parent = self.seed;
        let mut child = splitmix64(&mut parent) ^ stream;
        Random::new(splitmix64(&mut child))
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a number from 0 to `n` − 1, each equally likely.
    ///
    /// Lemire, "Fast Random Integer Generation in an Interval", ACM TOMACS 29(1), 2019: the number
    /// is the high half of a product; the few low halves that would bias it are rejected.
    ///
    /// # Panics
    /// If `n` is 0: there is no such number.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "no number is below 0");
        let threshold = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// Returns an index into something of length `len`, each equally likely.
    ///
    /// # Panics
    /// If `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns a number from 0 (included) to 1 (excluded), one of 2⁵³ equally spaced numbers.
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Puts items into random order, every order equally likely (Fisher-Yates, from the end).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let chosen = self.index(last + 1);
            items.swap(chosen, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn splitmix64_matches_the_reference() {
        let mut state = 1_234_567;
        let got: Vec<u64> = (0..5).map(|_| splitmix64(&mut state)).collect();
        assert_eq!(
            got,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    #[test]
    fn xoshiro256plusplus_matches_the_reference() {
        let mut random = Random { seed: 0, state: [1, 2, 3, 4] };
        let got: Vec<u64> = (0..10).map(|_| random.next_u64()).collect();
        assert_eq!(
            got,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386,
                9_228_616_714_210_784_205,
                9_973_669_472_204_895_162,
                14_011_001_112_246_962_877,
                12_406_186_145_184_390_807,
                15_849_039_046_786_891_736,
                10_450_023_813_501_588_000,
            ]
        );
    }

    #[test]
    fn the_sequence_of_a_seed_is_frozen() {
        let mut random = Random::new(42);
        let got: Vec<u64> = (0..4).map(|_| random.next_u64()).collect();
        assert_eq!(
            got,
            [
                15_021_278_609_987_233_951,
                5_881_210_131_331_364_753,
                18_149_643_915_985_481_100,
                12_933_668_939_759_105_464,
            ]
        );
        let mut random = Random::new(42);
        let got: Vec<u64> = (0..12).map(|_| random.below(10)).collect();
        assert_eq!(got, [8, 3, 9, 7, 7, 5, 1, 6, 2, 9, 5, 8]);
        let mut random = Random::new(42);
        assert_eq!(random.unit_f64(), 0.814_305_145_122_909_9);
        let mut order: Vec<u32> = (0..10).collect();
        Random::new(42).shuffle(&mut order);
        assert_eq!(order, [5, 3, 1, 0, 9, 6, 4, 7, 2, 8]);
    }

    #[test]
    fn the_streams_of_a_seed_are_frozen() {
        let random = Random::new(42);
        let first = |stream| random.fork(stream).next_u64();
        assert_eq!(first(1), 4_224_765_661_615_773_778);
        assert_eq!(first(2), 8_215_197_213_395_014_771);
        assert_eq!(first(0), 16_952_325_622_244_263_635);
    }

    #[test]
    fn a_fork_does_not_depend_on_draws() {
        let mut random = Random::new(7);
        let before = random.fork(3).next_u64();
        random.next_u64();
        assert_eq!(random.fork(3).next_u64(), before);
    }

    #[test]
    fn below_is_uniform() {
        // Chi-squared with 6 degrees of freedom; 22.5 is exceeded with probability 0.001.
        let mut random = Random::new(1);
        let mut counts = [0f64; 7];
        for _ in 0..70_000 {
            counts[random.index(7)] += 1.0;
        }
        let chi2: f64 = counts.iter().map(|c| (c - 1e4).powi(2) / 1e4).sum();
        assert!(chi2 < 22.5, "chi² = {chi2}");
    }

    #[test]
    fn below_rejects_what_would_bias() {
        // Each of 3·2⁶² numbers gets 4/3 of the 2⁶⁴ draws. Without rejection every third number
        // gets two draws and the others one, so half of all results would be multiples of 3.
        let mut random = Random::new(2);
        let drawn = (0..10_000).map(|_| random.below(3 << 62));
        let multiples = drawn.filter(|number| number % 3 == 0).count();
        assert!((3_100..3_560).contains(&multiples), "{multiples} of 10,000");
    }

    #[test]
    #[should_panic(expected = "no number is below 0")]
    fn below_zero_panics() {
        Random::new(0).below(0);
    }

    proptest! {
        #[test]
        fn results_are_in_range(seed: u64, n in 1u64..) {
            let mut random = Random::new(seed);
            prop_assert!(random.below(n) < n);
            prop_assert!((0.0..1.0).contains(&random.unit_f64()));
        }

        #[test]
        fn a_shuffle_keeps_the_items(seed: u64, len in 0usize..50) {
            let mut items: Vec<usize> = (0..len).collect();
            Random::new(seed).shuffle(&mut items);
            items.sort_unstable();
            prop_assert_eq!(items, (0..len).collect::<Vec<_>>());
        }
    }
}
