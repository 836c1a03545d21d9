//! Welch's test of two groups of which only mean, standard deviation and number are known.
//!
//! The test is for figures that others published. It assumes independent runs and normal means,
//! which a summary cannot show: the caller must report what is known of the order of the runs.

use crate::{normal, power};
use statrs::function::beta::beta_reg;

/// A group of runs, as published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// Arithmetic mean, finite.
    pub mean: f64,
    /// Sample standard deviation, finite and not below 0.
    pub sd: f64,
    /// The number of runs.
    pub n: u64,
}

impl Group {
    /// The squared standard error of the mean.
    fn error_squared(&self) -> f64 {
        self.sd * self.sd / self.n as f64
    }
}

/// Welch's test of two groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Welch {
    baseline: Group,
    variant: Group,
    /// The difference of the means over its standard error.
    pub t: f64,
    /// Degrees of freedom after Welch and Satterthwaite.
    pub freedom: f64,
    /// The two-sided p-value.
    pub p: f64,
}

/// Tests whether two means differ (Welch, "The Generalization of 'Student's' Problem when Several
/// Different Population Variances are Involved", Biometrika 34, 1947).
///
/// `None` if a group has fewer than two runs or neither has any spread: then the error of the means
/// is unknown.
pub fn welch(baseline: Group, variant: Group) -> Option<Welch> {
    let (one, two) = (baseline.error_squared(), variant.error_squared());
    if baseline.n < 2 || variant.n < 2 || one + two <= 0.0 {
        return None;
    }
    let freedom = (one + two).powi(2)
        / (one * one / (baseline.n - 1) as f64 + two * two / (variant.n - 1) as f64);
    let t = (variant.mean - baseline.mean) / (one + two).sqrt();
    // Squares of very small errors can underflow.
    (freedom.is_finite() && t.is_finite()).then(|| Welch {
        baseline,
        variant,
        t,
        freedom,
        p: two_sided(t, freedom),
    })
}

impl Welch {
    /// Returns variant/baseline − 1 of the means; `None` if the baseline's mean is 0.
    pub fn change_ratio(&self) -> Option<f64> {
        (self.baseline.mean != 0.0).then(|| self.variant.mean / self.baseline.mean - 1.0)
    }

    /// Returns the interval of [`change_ratio`](Self::change_ratio) at `level`, 0 < `level` < 1.
    ///
    /// Fieller's interval: the spread of both groups counts, and it holds 0 exactly if the test at
    /// the same level finds nothing ("Some Problems in Interval Estimation", J. R. Statist. Soc. B
    /// 16, 1954). `None` if the baseline's mean is too near 0.
    pub fn interval_ratio(&self, level: f64) -> Option<(f64, f64)> {
        let t_squared = exceeded_with((1.0 - level) / 2.0, self.freedom).powi(2);
        let (one, two) = (self.baseline.mean, self.variant.mean);
        let a = one * one - t_squared * self.baseline.error_squared();
        let c = two * two - t_squared * self.variant.error_squared();
        if a <= 0.0 {
            return None;
        }
        let root = (one * one * two * two - a * c).max(0.0).sqrt();
        Some(((one * two - root) / a - 1.0, (one * two + root) / a - 1.0))
    }

    /// Returns the smallest change, as a ratio above 0, that such groups show at error rate `alpha`
    /// with probability [`power::POWER`]; `None` if the baseline's mean is 0.
    pub fn detectable_ratio(&self, alpha: f64) -> Option<f64> {
        let points = exceeded_with(alpha / 2.0, self.freedom)
            + exceeded_with(1.0 - power::POWER, self.freedom);
        let error = (self.baseline.error_squared() + self.variant.error_squared()).sqrt();
        (self.baseline.mean != 0.0).then(|| points * error / self.baseline.mean.abs())
    }
}

/// Returns the interval of a group's mean at `level`; `None` for fewer than two runs.
pub fn mean_interval(group: Group, level: f64) -> Option<(f64, f64)> {
    let freedom = group.n.checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
    let half = exceeded_with((1.0 - level) / 2.0, freedom) * group.error_squared().sqrt();
    Some((group.mean - half, group.mean + half))
}

/// Returns the probability that Student's t with `freedom` degrees of freedom is at least as far
/// from 0 as `t` (Abramowitz & Stegun, Handbook of Mathematical Functions, 26.7.1 and 26.5.27).
fn two_sided(t: f64, freedom: f64) -> f64 {
    beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// Returns the value that Student's t exceeds with probability `p`, 0 < `p` ≤ 0.5.
fn exceeded_with(p: f64, freedom: f64) -> f64 {
    // The tails of t are heavier than normal ones: double until they are passed, then halve.
    let (mut low, mut high) = (0.0, normal::exceeded_with(p).max(1.0));
    while two_sided(high, freedom) > 2.0 * p {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if two_sided(middle, freedom) > 2.0 * p { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::summary;
    use proptest::prelude::*;

    fn group(mean: f64, sd: f64, n: u64) -> Group {
        Group { mean, sd, n }
    }

    #[test]
    fn points_of_students_distribution() {
        // Abramowitz & Stegun, table 26.10.
        for (p, freedom, point) in [
            (0.025, 1.0, 12.706),
            (0.025, 4.0, 2.776),
            (0.05, 10.0, 1.812),
            (0.005, 30.0, 2.750),
            (0.1, 120.0, 1.289),
        ] {
            assert!((exceeded_with(p, freedom) - point).abs() < 6e-4, "{p} of {freedom}");
        }
        assert!((exceeded_with(0.025, 1e9) - 1.959_964).abs() < 1e-5);
    }

    #[test]
    fn the_published_example_of_two_means() {
        // The means are of 100 runs each: 464.22 ± 5.56 and 502.87 ± 7.36.
        let welch = welch(group(464.22, 5.56, 100), group(502.87, 7.36, 100)).unwrap();
        let error = (5.56f64.powi(2) / 100.0 + 7.36f64.powi(2) / 100.0).sqrt();
        assert!((welch.t - 38.65 / error).abs() < 1e-9 && (welch.t - 41.9).abs() < 0.01);
        assert!((welch.change_ratio().unwrap() - 0.083_257).abs() < 1e-6);
        assert!(welch.p < 1e-60 && (183.0..185.0).contains(&welch.freedom), "{welch:?}");
        let (low, high) = welch.interval_ratio(0.95).unwrap();
        assert!((low - 0.0791).abs() < 2e-4 && (high - 0.0874).abs() < 2e-4, "{low} {high}");
    }

    #[test]
    fn equal_spreads_and_numbers_give_students_test() {
        // Two groups of 5 with sd 1; their means differ by the 5 % point of t with 8 degrees of
        // freedom, 2.306, times the error √(2/5).
        let difference = 2.306_004_135 * (0.4f64).sqrt();
        let welch = welch(group(10.0, 1.0, 5), group(10.0 + difference, 1.0, 5)).unwrap();
        assert!((welch.freedom - 8.0).abs() < 1e-12 && (welch.p - 0.05).abs() < 1e-8);
        // The test's power is 0.9 at about the detectable change.
        let detectable = welch.detectable_ratio(0.05).unwrap() * 10.0 / (0.4f64).sqrt();
        assert!((detectable - (2.306 + 1.397)).abs() < 1e-3, "{detectable}");
    }

    #[test]
    fn without_spread_or_runs_nothing_is_said() {
        assert_eq!(welch(group(1.0, 0.0, 9), group(2.0, 0.0, 9)), None);
        assert_eq!(welch(group(1.0, 1.0, 1), group(2.0, 1.0, 9)), None);
        assert_eq!(mean_interval(group(1.0, 1.0, 1), 0.95), None);
        let zero = welch(group(0.0, 1.0, 9), group(2.0, 1.0, 9)).unwrap();
        assert_eq!((zero.change_ratio(), zero.interval_ratio(0.95)), (None, None));
        assert_eq!(zero.detectable_ratio(0.05), None);
        let (low, high) = mean_interval(group(10.0, 2.0, 4), 0.95).unwrap();
        assert!((low - (10.0 - 3.1824)).abs() < 1e-3 && (high - 13.1824).abs() < 1e-3);
    }

    #[test]
    fn equal_groups_differ_as_often_as_the_level_says() {
        let mut random = Random::new(11);
        let mut normal = move || (0..12).map(|_| random.unit_f64()).sum::<f64>() - 6.0;
        let mut draw = |scale: f64, n: usize| {
            let values: Vec<f64> = (0..n).map(|_| 100.0 + scale * normal()).collect();
            group(summary::mean(&values).unwrap(), summary::sd(&values).unwrap(), n as u64)
        };
        let found = (0..4000)
            .filter(|_| welch(draw(1.0, 8), draw(3.0, 20)).is_some_and(|welch| welch.p <= 0.05))
            .count();
        // 200 are expected; four standard deviations are 55.
        assert!((145..=255).contains(&found), "{found} of 4000");
    }

    proptest! {
        #[test]
        fn the_interval_has_0_exactly_if_the_test_finds_nothing(
            one in 50f64..150.0, two in 50f64..150.0, sd in 0.1f64..20.0, n in 2u64..30,
        ) {
            let welch = welch(group(one, sd, n), group(two, sd / 2.0, n + 3)).unwrap();
            prop_assume!((welch.p - 0.05).abs() > 1e-6);
            if let Some((low, high)) = welch.interval_ratio(0.95) {
                prop_assert!(low <= high);
                prop_assert_eq!(low <= 0.0 && 0.0 <= high, welch.p > 0.05);
            }
        }
    }
}
