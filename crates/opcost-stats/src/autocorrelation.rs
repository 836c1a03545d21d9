//! Tests whether neighbours in a series are alike.

use crate::normal;
use crate::summary::midranks;

/// The fewest values that are tested.
pub const VALUES_MIN: usize = 10;

/// The likeness of neighbours in a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Autocorrelation {
    /// Rank correlation of each value with the one before it, from −1 to 1.
    pub lag_1: f64,
    /// The correlation that series of independent values exceed with probability 0.01.
    pub bound: f64,
    /// The one-sided p-value under the hypothesis that neighbours are like any two values.
    pub p: f64,
}

/// Returns the autocorrelation of finite values at lag 1; `None` for fewer than [`VALUES_MIN`]
/// values, or if all are equal.
///
/// The correlation is of ranks, so a spike weighs no more than its rank. In random order the
/// correlation has the mean −1/n and the variance (n − 2)(5n² − 2n − 9)/(5n(n + 1)(n − 1)²), a
/// quarter of the variance of von Neumann's ratio of ranks (Bartels, "The Rank Version of von
/// Neumann's Ratio Test for Randomness", JASA 77, 1982; Wald & Wolfowitz, Ann. Math. Statist. 14,
/// 1943); p is from the normal distribution.
pub fn autocorrelation(values: &[f64]) -> Option<Autocorrelation> {
    if values.len() < VALUES_MIN {
        return None;
    }
    let lag_1 = lag_1(values)?;
    let n = values.len() as f64;
    let variance =
        (n - 2.0) * (5.0 * n * n - 2.0 * n - 9.0) / (5.0 * n * (n + 1.0) * (n - 1.0).powi(2));
    let sd = variance.sqrt();
    let p = normal::upper_tail((lag_1 + 1.0 / n) / sd);
    Some(Autocorrelation { lag_1, bound: normal::exceeded_with(0.01) * sd - 1.0 / n, p })
}

/// The rank correlation of neighbours; `None` for fewer than two values, or if all are equal.
pub(crate) fn lag_1(values: &[f64]) -> Option<f64> {
    let ranks = midranks(values);
    let mean = (ranks.len() as f64 + 1.0) / 2.0;
    let spread: f64 = ranks.iter().map(|rank| (rank - mean).powi(2)).sum();
    let together: f64 = ranks.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum();
    (spread > 0.0).then(|| together / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // The ranks 1 2 3 4 minus 2.5 have the products 0.75, −0.25, 0.75, over squares of 5.
        assert_eq!(lag_1(&[10.0, 20.0, 30.0, 1000.0]), Some(0.25));
        assert_eq!(lag_1(&[7.0, 7.0]), None);
        let alternating: Vec<f64> = (0..20).map(|at| f64::from(at % 2)).collect();
        let got = autocorrelation(&alternating).unwrap();
        assert_eq!(got.lag_1, -0.95);
        assert!(got.p > 0.999, "{got:?}");
        let halves: Vec<f64> = (0..20).map(|at| f64::from(at / 10)).collect();
        let got = autocorrelation(&halves).unwrap();
        // 18 pairs of neighbours agree and one does not: 17 of 20.
        assert!((got.lag_1 - 0.85).abs() < 1e-12 && got.p < 1e-4, "{got:?}");
        assert!((0.3..0.6).contains(&got.bound), "{got:?}");
        assert_eq!(autocorrelation(&[1.0; 30]), None);
        assert_eq!(autocorrelation(&[1.0, 2.0]), None);
    }
}
