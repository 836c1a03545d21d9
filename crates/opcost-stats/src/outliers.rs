//! Finds values far from the others.

use crate::normal;
use crate::summary::{mad, median, quantile_of_sorted, sd_from_mad, sorted};
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

/// The range of the values that are not far from the middle half: within three times the distance of the quartiles (the outer fences
/// of Tukey, Exploratory Data Analysis, 1977, section 2E). A plot of this range shows the others at its edge.
///
/// `None` without a finite value; the whole range for fewer than [`VALUES_MIN`] values, or if half of them are equal.
pub fn middle(values: &[f64]) -> Option<(f64, f64)> {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let sorted = sorted(&finite);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let [low, high] = [0.25, 0.75].map(|share| quantile_of_sorted(&sorted, share).unwrap_or(first));
    let reach = 3.0 * (high - low);
    if sorted.len() < VALUES_MIN || reach <= 0.0 {
        return Some((first, last));
    }
    let within = |value: &&f64| (low - reach..=high + reach).contains(*value);
    Some((*sorted.iter().find(within)?, *sorted.iter().rev().find(within)?))
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
    fn the_middle_leaves_out_what_lies_beyond_the_outer_fences() {
        let mut values: Vec<f64> = (0..=20).map(f64::from).collect();
        assert_eq!(middle(&values), Some((0.0, 20.0)));
        // The quartiles are 5 and 15 and move little: the fences are near -25 and 45.
        values.extend([40.0, 90.0, -80.0, f64::NAN]);
        assert_eq!(middle(&values), Some((0.0, 40.0)));
        assert_eq!(middle(&[1.0, 2.0, 900.0]), Some((1.0, 900.0)));
        assert_eq!(middle(&[&[3.0; 20][..], &[7.0]].concat()), Some((3.0, 7.0)));
        assert_eq!(middle(&[f64::NAN]), None);
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
