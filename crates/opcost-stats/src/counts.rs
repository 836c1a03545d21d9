//! Compares two counts: whether rare events happened more often on one side, and whether a part of a whole is larger on one side.

use statrs::function::beta::beta_reg;
use statrs::function::factorial::ln_factorial;

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

/// Returns the two-sided p-value of two parts of two wholes under one share.
///
/// `counts`: the observations of the part on each side; `totals`: all observations on each side. If both sides have one share and the
/// observations are independent, the first count given the sum is hypergeometric (R. A. Fisher, "The Logic of Inductive Inference",
/// JRSS 98, 1935). A whole that is fixed makes a large part more certain than a rate: where 9,000 of 10,000 become 9,150, the rest
/// lost a seventh. The p-value is twice the smaller tail, at most 1: it holds its level for every size.
///
/// # Panics
/// If a count is greater than its total.
pub fn shares(counts: [u64; 2], totals: [u64; 2]) -> f64 {
    let ([one, two], [of_one, of_two]) = (counts, totals);
    assert!(one <= of_one && two <= of_two, "{counts:?} of {totals:?}");
    let (sum, all) = (one + two, of_one + of_two);
    let (found, expected) =
        (u128::from(one) * u128::from(all), u128::from(of_one) * u128::from(sum));
    if found == expected {
        return 1.0;
    }
    let choose =
        |of: u64, some: u64| ln_factorial(of) - ln_factorial(some) - ln_factorial(of - some);
    let here = choose(sum, one) + choose(all - sum, of_one - one) - choose(all, of_one);
    // The ways to be in the part and out of it on each side; a step away from the expectation moves one observation.
    let mut table =
        [one, sum - one, of_one - one, all - sum - (of_one - one)].map(|count| count as f64);
    if found > expected {
        table = [table[1], table[0], table[3], table[2]];
    }
    let (mut term, mut tail) = (1.0, 1.0);
    while term > tail * f64::EPSILON {
        let [leave, enter, grow, shrink] = table;
        term *= leave * shrink / ((enter + 1.0) * (grow + 1.0));
        tail += term;
        table = [leave - 1.0, enter + 1.0, grow + 1.0, shrink - 1.0];
    }
    (2.0 * here.exp() * tail).min(1.0)
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

    #[test]
    fn known_shares_come_out() {
        // The lady tasting tea: three of four cups right have 17 of 70 ways.
        close(shares([3, 1], [4, 4]), 34.0 / 70.0);
        close(shares([1, 3], [4, 4]), 34.0 / 70.0);
        close(shares([4, 0], [4, 4]), 2.0 / 70.0);
        close(shares([5, 5], [10, 10]), 1.0);
        close(shares([0, 0], [10, 3]), 1.0);
        close(shares([10, 3], [10, 3]), 1.0);
        // 2 (C(9, 0) C(31, 20) + C(9, 1) C(31, 19) + C(9, 2) C(31, 18)) / C(40, 20), in whole numbers.
        close(shares([2, 7], [20, 20]), 0.127_386_127_386_127_4);
        // Large parts of a whole are more certain than rates.
        let (as_shares, as_rates) =
            (shares([9_000, 9_150], [10_000; 2]), rates([9_000, 9_150], [1.0; 2]));
        assert!((0.0001..0.0005).contains(&as_shares) && as_rates > 0.2, "{as_shares} {as_rates}");
        assert!(shares([500_000, 501_000], [1_000_000; 2]) > 0.1);
        assert!(shares([500_000, 510_000], [1_000_000; 2]) < 1e-40);
    }

    #[test]
    #[should_panic(expected = "[3, 1] of [2, 4]")]
    fn a_part_beyond_the_whole_is_refused() {
        shares([3, 1], [2, 4]);
    }

    proptest! {
        #[test]
        fn exchanged_parts_are_the_same(
            one in 0u64..300, two in 0u64..300, rest_one in 0u64..300, rest_two in 0u64..300
        ) {
            let totals = [one + rest_one, two + rest_two];
            let p = shares([one, two], totals);
            prop_assert!((0.0..=1.0).contains(&p));
            prop_assert!((p - shares([two, one], [totals[1], totals[0]])).abs() < 1e-9);
            prop_assert!((p - shares([rest_one, rest_two], totals)).abs() < 1e-9);
        }

        /// Among all tables with these sums, those that the test rejects have at most the probability of the level together.
        #[test]
        fn the_level_of_shares_holds(of_one in 1u64..40, of_two in 1u64..40, part in 0.0..1.0f64) {
            let sum = (part * (of_one + of_two) as f64) as u64;
            let choose = |of: u64, some: u64| -> f64 {
                (0..some).map(|at| (of - at) as f64 / (at + 1) as f64).product()
            };
            let mut rejected = 0.0;
            for one in sum.saturating_sub(of_two)..=sum.min(of_one) {
                if shares([one, sum - one], [of_one, of_two]) <= 0.05 {
                    rejected += choose(of_one, one) * choose(of_two, sum - one);
                }
            }
            prop_assert!(rejected / choose(of_one + of_two, sum) <= 0.05 + 1e-9);
        }

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
