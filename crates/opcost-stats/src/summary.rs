//! Median, quantile, mean and spread of a slice.
//!
//! Every function takes finite values; [`check_finite`] is the check to make once where values
//! enter. For an empty slice every function returns `None`.

use crate::normal;

/// A value that is not a number, or infinite.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("value {index} is {value}, which is not finite; drop the run it came from or repeat it")]
pub struct NotFinite {
    /// The value's position in the slice, from 0.
    pub index: usize,
    /// The value.
    pub value: f64,
}

/// Checks that every value is a finite number.
///
/// # Errors
/// [`NotFinite`] names the first value that is not finite.
pub fn check_finite(values: &[f64]) -> Result<(), NotFinite> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => Err(NotFinite { index, value: values[index] }),
    }
}

/// Returns the values in ascending order.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Returns the rank of each finite value from 1; ties have their mean rank.
pub(crate) fn midranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut below = 0;
    for tied in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = below as f64 + (tied.len() as f64 + 1.0) / 2.0;
        tied.iter().for_each(|&index| ranks[index] = rank);
        below += tied.len();
    }
    ranks
}

/// Returns the mean of two values without overflow.
pub(crate) fn midpoint(a: f64, b: f64) -> f64 {
    if a == b { a } else { a / 2.0 + b / 2.0 }
}

/// Returns the median of finite values; of an even number of values, the mean of the middle two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    let n = values.len();
    if n == 0 {
        return None;
    }
    let (below, upper, _) = values.select_nth_unstable_by(n / 2, f64::total_cmp);
    let upper = *upper;
    if !n.is_multiple_of(2) {
        return Some(upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(midpoint(lower, upper))
}

/// Returns the quantile of finite ascending values at `share`, from 0 (minimum) to 1 (maximum).
///
/// The quantile is linear between order statistics: type 7 of Hyndman & Fan, "Sample Quantiles in
/// Statistical Packages", The American Statistician 50(4), 1996; the default of R and NumPy. `None`
/// for an empty slice, and for a share outside 0..=1.
pub(crate) fn quantile_of_sorted(values: &[f64], share: f64) -> Option<f64> {
    if values.is_empty() || !(0.0..=1.0).contains(&share) {
        return None;
    }
    let position = share * (values.len() - 1) as f64;
    let (low, high) = (values[position.floor() as usize], values[position.ceil() as usize]);
    let weight = position.fract();
    Some(low * (1.0 - weight) + high * weight)
}

/// Returns the arithmetic mean of finite values.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    // Relative to the first value: sums of large, close values would lose their differences.
    let origin = values[0];
    let excess: f64 = values.iter().map(|value| value - origin).sum();
    Some(origin + excess / values.len() as f64)
}

/// Returns the standard deviation of finite values, denominator n − 1; `None` for fewer than two.
pub fn sd(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Returns the median absolute deviation from the median, not scaled.
///
/// Times 1.4826 it estimates the standard deviation of normal values (Hampel, "The Influence
/// Curve and its Role in Robust Estimation", JASA 69, 1974); see [`sd_from_mad`].
pub fn mad(values: &[f64]) -> Option<f64> {
    let centre = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|value| (value - centre).abs()).collect();
    median(&deviations)
}

/// Returns the standard deviation of normal values with this median absolute deviation.
pub fn sd_from_mad(mad: f64) -> f64 {
    mad / normal::MAD
}

/// The five figures that tables show of a set of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Smallest value.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Largest value.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation, denominator n − 1; `None` for a single value.
    pub sd: Option<f64>,
}

impl Spread {
    /// Returns the spread of finite values; `None` for an empty slice.
    pub fn of(values: &[f64]) -> Option<Spread> {
        Some(Spread {
            min: values.iter().copied().min_by(f64::total_cmp)?,
            median: median(values)?,
            max: values.iter().copied().max_by(f64::total_cmp)?,
            mean: mean(values)?,
            sd: sd(values),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_answers() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(median(&values), Some(4.5));
        assert_eq!(mean(&values), Some(5.0));
        assert_eq!(sd(&values), Some((32.0f64 / 7.0).sqrt()));
        assert_eq!(mad(&values), Some(0.5));
        // Type 7 of 1..10 at share s is 1 + 9 s.
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        for (share, expected) in
            [(0.0, 1.0), (0.1, 1.9), (0.25, 3.25), (0.5, 5.5), (0.9, 9.1), (1.0, 10.0)]
        {
            let got = quantile_of_sorted(&ten, share).unwrap();
            assert!((got - expected).abs() < 1e-12, "{share}: {got}");
        }
        assert_eq!(quantile_of_sorted(&ten, 1.5), None);
        assert_eq!(quantile_of_sorted(&ten, f64::NAN), None);
        assert!((sd_from_mad(1.0) - 1.482_602_218_505_602).abs() < 1e-12);
    }

    #[test]
    fn ties_share_their_rank() {
        assert_eq!(midranks(&[30.0, 10.0, 20.0, 10.0]), [4.0, 1.5, 3.0, 1.5]);
        assert_eq!(midranks(&[]), [0.0; 0]);
    }

    #[test]
    fn nothing_and_one() {
        assert_eq!(median(&[]), None);
        assert_eq!(mean(&[]), None);
        assert_eq!(mad(&[]), None);
        assert_eq!(quantile_of_sorted(&[], 0.5), None);
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(sd(&[3.0]), None);
        let one = Spread::of(&[3.0]).unwrap();
        assert_eq!((one.min, one.median, one.max, one.mean, one.sd), (3.0, 3.0, 3.0, 3.0, None));
    }

    #[test]
    fn large_close_values_keep_their_spread() {
        let values = [1e15, 1e15 + 1.0, 1e15 + 2.0];
        assert_eq!(mean(&values), Some(1e15 + 1.0));
        assert_eq!(sd(&values), Some(1.0));
    }

    #[test]
    fn what_is_not_finite_is_named() {
        assert_eq!(check_finite(&[1.0, -2.0, 0.0]), Ok(()));
        let error = check_finite(&[1.0, f64::INFINITY, f64::NAN]).unwrap_err();
        assert_eq!((error.index, error.value), (1, f64::INFINITY));
        assert_eq!(check_finite(&[f64::NAN]).unwrap_err().index, 0);
        assert_eq!(
            error.to_string(),
            "value 1 is inf, which is not finite; drop the run it came from or repeat it"
        );
    }

    proptest! {
        #[test]
        fn figures_are_in_order(values in prop::collection::vec(-1e9..1e9f64, 1..40)) {
            let spread = Spread::of(&values).unwrap();
            prop_assert!(spread.min <= spread.median && spread.median <= spread.max);
            prop_assert!(spread.min <= spread.mean + 1e-6 && spread.mean <= spread.max + 1e-6);
            prop_assert_eq!(quantile_of_sorted(&sorted(&values), 0.5).map(|q| (q - spread.median).abs() < 1e-6), Some(true));
        }
    }
}
