//! The interval of a median by the sign test.
//!
//! The test asks less than [`rank`](crate::rank), no symmetry, and finds less. Source: Hollander,
//! Wolfe & Chicken, Nonparametric Statistical Methods, 3rd ed., 2014, sections 3.4 to 3.6.

use crate::summary::sorted;
use statrs::function::beta::beta_reg;

/// Returns the interval of the median of finite differences, 0 < `level` < 1: from the k-th
/// smallest to the k-th largest, both included. `None` if there are too few for the level.
pub fn interval(differences: &[f64], level: f64) -> Option<(f64, f64)> {
    if !(0.0..1.0).contains(&level) {
        return None;
    }
    let n = differences.len();
    let tail = (1.0 - level) / 2.0;
    // Find the largest k with P(X ≤ k − 1) ≤ tail: the probability grows with k.
    let (mut k, mut too_many) = (0, n / 2 + 1);
    while too_many - k > 1 {
        let middle = (k + too_many) / 2;
        if at_most(middle - 1, n) <= tail {
            k = middle;
        } else {
            too_many = middle;
        }
    }
    if k == 0 {
        return None;
    }
    let ordered = sorted(differences);
    Some((ordered[k - 1], ordered[n - k]))
}

/// Returns the probability of at most `heads` heads in `n` throws of a fair coin.
fn at_most(heads: usize, n: usize) -> f64 {
    if heads >= n {
        return 1.0;
    }
    // 2⁻ⁿ is a normal number up to n = 1022; until then each term gives the next.
    if n <= 1000 {
        let mut term = 0.5f64.powi(n as i32);
        let mut sum = term;
        for i in 0..heads {
            term = term * (n - i) as f64 / (i + 1) as f64;
            sum += term;
        }
        sum
    } else {
        // NIST Digital Library of Mathematical Functions, 8.17.5.
        beta_reg((n - heads) as f64, heads as f64 + 1.0, 0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_short_sums_agree() {
        for heads in [380, 430, 469, 499, 520] {
            let (short, long) =
                (at_most(heads, 1000), beta_reg((1000 - heads) as f64, heads as f64 + 1.0, 0.5));
            assert!((short / long - 1.0).abs() < 1e-9, "{heads}: {short} {long}");
        }
    }

    #[test]
    fn half_of_an_odd_number_of_throws_is_half_likely() {
        for n in [7, 999, 1001, 100_001] {
            assert!((at_most(n / 2, n) - 0.5).abs() < 1e-9, "{n}");
        }
    }

    #[test]
    fn the_interval_is_between_order_statistics() {
        // Coverage by binomial sums: n = 12 at 0.95 takes the 3rd from either end (coverage 0.961);
        // n = 20 the 6th (0.959); n = 6 the 1st (0.969).
        for (n, k) in [(6, 1), (12, 3), (20, 6), (100, 40)] {
            let differences: Vec<f64> = (1..=n).rev().map(f64::from).collect();
            let expected = (f64::from(k), f64::from(n + 1 - k));
            assert_eq!(interval(&differences, 0.95), Some(expected), "n = {n}");
        }
        assert_eq!(interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95), None);
        assert_eq!(interval(&[], 0.95), None);
        assert_eq!(interval(&[1.0; 9], f64::NAN), None);
        assert_eq!(interval(&[1.0; 9], 1.0), None);
    }

    #[test]
    fn a_hundred_thousand_differences() {
        let differences: Vec<f64> = (0..100_000).map(f64::from).collect();
        let (low, high) = interval(&differences, 0.95).unwrap();
        // 50,000 ± 1.96 √n / 2.
        assert!((low - 49_690.0).abs() < 3.0 && (high - 50_309.0).abs() < 3.0, "{low} {high}");
    }
}
