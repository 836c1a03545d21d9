//! Tests whether a series goes up or down from its first value to its last.

use crate::autocorrelation;
use crate::normal;
use crate::summary;

/// The fewest values that are tested.
pub const VALUES_MIN: usize = 10;

/// The most values of the test: longer series become the medians of this many groups of neighbours.
/// The medians keep a trend, and most of the likeness of neighbours cancels.
const GROUPS_MAX: usize = 60;

/// A trend over a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The change from the first value to the last, in the values' unit: the slope times the steps.
    pub change: f64,
    /// The two-sided p-value of the hypothesis that there is no trend.
    pub p: f64,
}

/// Returns the trend of finite values in their order; `None` for fewer than [`VALUES_MIN`] values.
///
/// The slope is the median of the slopes between any two values (Theil 1950; Sen, "Estimates of the
/// Regression Coefficient Based on Kendall's Tau", JASA 63, 1968). The p-value is that of Kendall's
/// sum of signs (Mann, "Nonparametric Tests Against Trend", Econometrica 13, 1945) in the normal
/// approximation with ties. If the values without the trend are autocorrelated by r > 0, the
/// variance of the sum is multiplied by (1 + r)/(1 − r), since the values count as that many fewer
/// independent ones (Yue & Wang, "The Mann-Kendall Test Modified by Effective Sample Size", Water
/// Resources Management 18, 2004).
pub fn drift(values: &[f64]) -> Option<Drift> {
    if values.len() < VALUES_MIN {
        return None;
    }
    let groups = medians(values);
    let n = groups.len();
    let mut sum = 0i64;
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    for (later, high) in groups.iter().enumerate() {
        for (earlier, low) in groups[..later].iter().enumerate() {
            sum += i64::from(high > low) - i64::from(high < low);
            slopes.push((high - low) / (later - earlier) as f64);
        }
    }
    let slope = summary::median(&slopes)?;
    let rest: Vec<f64> =
        groups.iter().enumerate().map(|(at, value)| value - slope * at as f64).collect();
    let alike = autocorrelation::lag_1(&rest).unwrap_or(0.0).clamp(0.0, 0.95);
    let variance = variance(&groups) * (1.0 + alike) / (1.0 - alike);
    let p = if variance > 0.0 {
        // Minus one step, since a continuous distribution approximates one of whole numbers.
        let z = (sum.unsigned_abs() as f64 - 1.0).max(0.0) / variance.sqrt();
        (2.0 * normal::upper_tail(z)).min(1.0)
    } else {
        1.0
    };
    let steps_in_groups = (values.len() - 1) as f64 * n as f64 / values.len() as f64;
    Some(Drift { change: slope * steps_in_groups, p })
}

/// Returns the medians of at most [`GROUPS_MAX`] groups of neighbours, as even in size as possible.
fn medians(values: &[f64]) -> Vec<f64> {
    let groups = values.len().min(GROUPS_MAX);
    let start = |group: usize| group * values.len() / groups;
    (0..groups)
        .filter_map(|group| summary::median(&values[start(group)..start(group + 1)]))
        .collect()
}

/// Returns the variance of Kendall's sum of values in random order, given the ties.
fn variance(values: &[f64]) -> f64 {
    let term = |n: usize| (n * (n - 1) * (2 * n + 5)) as f64;
    let ties: f64 =
        summary::sorted(values).chunk_by(|a, b| a == b).map(|tied| term(tied.len())).sum();
    (term(values.len()) - ties) / 18.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // Kendall's sum of 1..10 is 45, of variance 10·9·25/18 = 125; the rest does not vary.
        let rising: Vec<f64> = (1..=10).map(f64::from).collect();
        let drift = drift(&rising).unwrap();
        assert_eq!(drift.change, 9.0);
        let expected = 2.0 * normal::upper_tail(44.0 / 125f64.sqrt());
        assert!((drift.p - expected).abs() < 1e-12, "{drift:?}");
    }

    #[test]
    fn a_spike_tilts_nothing_and_ties_count_as_none() {
        let mut values = vec![5.0; 20];
        values[19] = 1e9;
        let flat = drift(&values).unwrap();
        assert_eq!(flat.change, 0.0);
        assert!(flat.p > 0.05, "{flat:?}");
        assert_eq!(drift(&[5.0; 20]).unwrap(), Drift { change: 0.0, p: 1.0 });
        assert_eq!(drift(&[5.0; 9]), None);
    }

    #[test]
    fn long_series_come_down_to_groups() {
        let falling: Vec<f64> = (0..6_000).map(|at| -f64::from(at)).collect();
        let drift = drift(&falling).unwrap();
        assert_eq!(drift.change, -5_999.0);
        assert!(drift.p < 1e-9, "{drift:?}");
    }
}
