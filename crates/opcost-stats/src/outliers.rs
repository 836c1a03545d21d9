//! Finds values far from the others.

use crate::normal;
use crate::summary::{mad, median, sd_from_mad};
use statrs::function::beta::beta_reg;

/// The fewest values that are tested.
pub const VALUES_MIN: usize = 10;

/// Robust standard deviations from the median beyond which a value is far from the others.
pub const DEVIATIONS: f64 = 5.0;

/// The values far from the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outliers {
    /// The number of these values.
    pub count: usize,
    /// The farthest of these values.
    pub farthest: f64,
    /// The median of all values.
    pub median: f64,
    /// The p-value of the hypothesis that the farthest value is no outlier: the probability that
    /// the farthest of as many normal values is as far.
    pub p: f64,
}

/// Finds the finite values more than [`DEVIATIONS`] robust standard deviations from the median.
///
/// The robust deviation is the scaled median absolute deviation, which outliers do not move
/// (Hampel's identifier; Davies & Gather, "The Identification of Multiple Outliers", JASA 88,
/// 1993). A value's distance over it is about t-distributed with 0.37·(n − 1) degrees of freedom,
/// since the median absolute deviation has 37 % of the efficiency of the standard deviation; p is n
/// times the tails of this distribution. `None` for fewer than [`VALUES_MIN`] values, if no value
/// is that far, or if more than half are equal, as the deviation then is 0.
pub fn outliers(values: &[f64]) -> Option<Outliers> {
    if values.len() < VALUES_MIN {
        return None;
    }
    let median = median(values)?;
    let sd = sd_from_mad(mad(values)?);
    let far = values.iter().filter(|value| (**value - median).abs() > DEVIATIONS * sd);
    let count = far.clone().count();
    let farthest = *far.max_by(|a, b| (**a - median).abs().total_cmp(&(**b - median).abs()))?;
    if sd == 0.0 {
        return None;
    }
    let n = values.len() as f64;
    let tails = tails(((farthest - median) / sd).abs(), 0.37 * (n - 1.0));
    Some(Outliers { count, farthest, median, p: (n * tails).min(1.0) })
}

/// Returns the probability of a t-distributed value beyond ±`t`.
fn tails(t: f64, freedom: f64) -> f64 {
    if freedom > 1e6 {
        return 2.0 * normal::upper_tail(t);
    }
    // Abramowitz & Stegun, Handbook of Mathematical Functions, 26.7.1 with 26.5.27.
    beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let mut values: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(outliers(&values), None);
        values.extend([1000.0, -1200.0]);
        let got = outliers(&values).unwrap();
        assert_eq!((got.count, got.farthest, got.median), (2, -1200.0, 10.5));
        assert!(got.p < 1e-6, "{got:?}");
        // If more than half are equal, no distance counts as far.
        let mut equal = vec![3.0; 20];
        equal[7] = 4.0;
        assert_eq!(outliers(&equal), None);
        assert_eq!(outliers(&values[..9]), None);
    }

    #[test]
    fn tails_of_t() {
        // Abramowitz & Stegun, table 26.10.
        for (t, freedom, both) in [(12.706, 1.0, 0.05), (2.228, 10.0, 0.05), (3.169, 10.0, 0.01)] {
            assert!((tails(t, freedom) - both).abs() < 1e-4, "{t}");
        }
        assert!((tails(1.96, 1e7) - 0.05).abs() < 1e-4);
    }
}
