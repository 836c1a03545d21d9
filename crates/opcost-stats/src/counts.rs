//! Compares two counts of rare events: whether they happened more often on one side.

use statrs::function::beta::beta_reg;

/// Returns the two-sided p-value of two counts under one rate per unit of exposure.
///
/// `counts`: the events on each side; `exposures`: for how long, how often or on how many each side
/// was observed, in one unit, above 0. If both sides have one rate and the events are independent, the
/// first count given the sum is binomial with the first exposure's share (Przyborowski & Wilenski,
/// "Homogeneity of results in testing samples from Poisson series", Biometrika 31, 1940). The p-value
/// is twice the smaller tail, at most 1: it holds its level for every size. Without any event it is 1.
///
/// # Panics
/// If an exposure is not a number above 0.
pub fn rates(counts: [u64; 2], exposures: [f64; 2]) -> f64 {
    let [one, two] = exposures;
    assert!(one > 0.0 && two > 0.0 && (one + two).is_finite(), "exposures {one} and {two}");
    let [seen, other] = counts;
    if seen + other == 0 {
        return 1.0;
    }
    let p = one / (one + two);
    let at_most = |hits: u64, misses: u64| match misses {
        0 => 1.0,
        // A binomial distribution's tail is I(1 − p; n − k, k + 1).
        _ => beta_reg(misses as f64, hits as f64 + 1.0, 1.0 - p),
    };
    let lower = at_most(seen, other);
    let upper = match seen {
        0 => 1.0,
        _ => beta_reg(seen as f64, other as f64 + 1.0, p),
    };
    (2.0 * lower.min(upper)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn known_values_come_out() {
        // 5 against 0 at equal exposure: 2 / 2^5; 8 of 10: 2 (1 + 10 + 45) / 2^10.
        close(rates([5, 0], [1.0, 1.0]), 0.0625);
        close(rates([0, 5], [7.0, 7.0]), 0.0625);
        close(rates([8, 2], [1.0, 1.0]), 112.0 / 1024.0);
        // 3 against 0, with the first side observed for a quarter of the time: 2 / 4^3.
        close(rates([3, 0], [1.0, 3.0]), 2.0 / 64.0);
        close(rates([0, 0], [1.0, 3.0]), 1.0);
        close(rates([5, 5], [1.0, 1.0]), 1.0);
    }

    #[test]
    #[should_panic(expected = "exposures 0 and 1")]
    fn a_side_that_was_not_looked_at_is_refused() {
        rates([0, 1], [0.0, 1.0]);
    }

    proptest! {
        #[test]
        fn exchanged_sides_are_the_same(one in 0u64..500, two in 0u64..500, share in 0.05..0.95f64) {
            let there = rates([one, two], [share, 1.0 - share]);
            let back = rates([two, one], [1.0 - share, share]);
            prop_assert!((there - back).abs() < 1e-9);
            prop_assert!((0.0..=1.0).contains(&there));
        }

        /// The outcomes that the test rejects have at most the probability of the level together.
        #[test]
        fn the_level_holds(trials in 1u64..80, share in 0.05..0.95f64) {
            let mut probability = (1.0 - share).powi(trials as i32);
            let mut rejected = 0.0;
            for hits in 0..=trials {
                if rates([hits, trials - hits], [share, 1.0 - share]) <= 0.05 {
                    rejected += probability;
                }
                probability *= (trials - hits) as f64 / (hits + 1) as f64 * share / (1.0 - share);
            }
            prop_assert!(rejected <= 0.05 + 1e-9, "{rejected}");
        }
    }
}
