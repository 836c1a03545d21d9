//! Finds where a series changed: E-divisive with a permutation test.
//!
//! The energy distance between the values before and behind a point is largest at a change of the
//! distribution, whatever its shape (Matteson & James, "A Nonparametric Approach for Multiple Change
//! Point Analysis of Multivariate Data", JASA 109, 2014; for performance figures: Daly et al., "The
//! Use of Change Point Detection to Identify Software Performance Regressions in a Continuous
//! Integration System", ICPE 2020). Each point found divides its segment, and the search goes on in
//! the parts until the best candidate is not significant. Without a change, one is found with
//! probability `level` at most: the first test has to fail.
//!
//! Shuffles make neighbours independent, and figures of a machine often wander (a neighbour's load, a cache's state). The best
//! step therefore has to be unlikely in series that wander, too: autoregressive ones of order 1. A short series does not tell its
//! coefficient, whose estimate is too small besides (Andrews, "Exactly Median-Unbiased Estimation of First Order
//! Autoregressive/Unit Root Models", Econometrica 61, 1993). The p-value is therefore that of the posterior prediction: the mean of
//! the p-values of all coefficients, each weighed by how likely its series have neighbours as alike beside as many best steps
//! (Box, "Sampling and Bayes' Inference in Scientific Modelling and Robustness", JRSS A 143, 1980).
//!
//! The cost of a split grows with the square of the number of values. A long series is therefore divided over the means of
//! neighbours, at most [`VALUES_MAX`] of them, and least squares among the single values place each change. Means of many values
//! hide a level that is new, so the newest values behind the last such change are divided one by one. Each of the two searches has
//! half of the level.

use crate::random::Random;
use crate::summary::mean;

/// The fewest values on either side of a change: a single value is an outlier.
pub const SEGMENT_MIN: usize = 2;

/// The shuffles behind each p-value; the smallest p-value is 1/500.
pub const PERMUTATIONS: usize = 499;

/// The coefficients that are weighed, from independent values to nearly a random walk. Where series wander most, a small difference
/// says most about the size of their steps.
const COEFFICIENTS: [f64; 12] = [0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98];
/// The series behind each coefficient.
const SERIES: usize = 79;

/// The most values that are divided at once.
pub const VALUES_MAX: usize = 200;

/// A change of the series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// The first value behind the change.
    pub index: usize,
    /// The p-value of the permutation test.
    pub p: f64,
}

/// Returns the changes of a series of finite values, in its order, each significant at `level`.
///
/// The same `seed` draws the same shuffles. A series shorter than [`values_min`] has no significant change. The cost grows with the
/// number of values, and with [`PERMUTATIONS`] times the square of at most [`VALUES_MAX`].
pub fn change_points(values: &[f64], level: f64, seed: u64) -> Vec<ChangePoint> {
    if values.len() <= VALUES_MAX {
        return divided(values, level, seed);
    }
    let neighbours = values.len().div_ceil(VALUES_MAX);
    let groups = values.len() / neighbours;
    // The oldest group takes what is left over.
    let begin = |group: usize| match group {
        0 => 0,
        _ => values.len() - (groups - group) * neighbours,
    };
    let means = (0..groups).filter_map(|group| mean(&values[begin(group)..begin(group + 1)]));
    let mut found = divided(&means.collect::<Vec<f64>>(), level / 2.0, seed);
    let begins: Vec<usize> = found.iter().map(|point| begin(point.index)).collect();
    let mut start = 0;
    for (number, point) in found.iter_mut().enumerate() {
        let end = begins.get(number + 1).copied().unwrap_or(values.len());
        let at = begins[number] - start;
        start += placed(&values[start..end], at, neighbours);
        point.index = start;
    }
    let newest = start.max(values.len() - VALUES_MAX);
    let behind = divided(&values[newest..], level / 2.0, seed);
    found.extend(
        behind.into_iter().map(|point| ChangePoint { index: newest + point.index, ..point }),
    );
    found
}

/// The place of a change, at most `distance` from `at`, whose two levels leave the least squares.
fn placed(values: &[f64], at: usize, distance: usize) -> usize {
    let all = mean(values).unwrap_or(0.0);
    let mut sum: f64 = values[..at.saturating_sub(distance)].iter().map(|value| value - all).sum();
    let mut best = (at, f64::NEG_INFINITY);
    for place in at.saturating_sub(distance)..=(at + distance).min(values.len() - SEGMENT_MIN) {
        // What the levels explain is the sum of their squares, and the sums of both sides are opposite.
        let (left, right) = (place as f64, (values.len() - place) as f64);
        let explained = sum * sum / left + sum * sum / right;
        if place >= SEGMENT_MIN && explained > best.1 {
            best = (place, explained);
        }
        sum += values[place] - all;
    }
    best.0
}

/// The changes of a series that is divided value by value.
fn divided(values: &[f64], level: f64, seed: u64) -> Vec<ChangePoint> {
    let mut random = Random::new(seed);
    let mut found: Vec<ChangePoint> = Vec::new();
    loop {
        let mut ends: Vec<usize> = found.iter().map(|point| point.index).collect();
        ends.push(values.len());
        ends.sort_unstable();
        let best = best_split(values, &ends);
        let Some((index, divergence)) = best.filter(|(_, divergence)| *divergence > 0.0) else {
            break;
        };
        let mut shuffled = values.to_vec();
        let as_large = (0..PERMUTATIONS)
            .filter(|_| {
                let mut start = 0;
                for end in &ends {
                    random.shuffle(&mut shuffled[start..*end]);
                    start = *end;
                }
                best_split(&shuffled, &ends).is_some_and(|(_, other)| other >= divergence)
            })
            .count();
        let p = (as_large + 1) as f64 / (PERMUTATIONS + 1) as f64;
        if p > level {
            break;
        }
        found.push(ChangePoint { index, p });
    }
    if !found.is_empty() && wandering_p(values, found.len(), &mut random) > level {
        return Vec::new();
    }
    found.sort_by_key(|point| point.index);
    found
}

/// The fewest values with which even the clearest change, in the middle, can reach `level`: two of
/// the ways to divide the values are as clear.
pub fn values_min(level: f64) -> usize {
    let ways = |half: usize| (1..=half).fold(1.0, |ways, i| ways * (half + i) as f64 / i as f64);
    2 * (SEGMENT_MIN..).find(|half| 2.0 / ways(*half) <= level).unwrap_or(usize::MAX / 2)
}

/// The best step of a series: how large it is for the spread beside all of its steps, and how alike neighbours are there, as a
/// correlation.
#[derive(Clone, Copy)]
struct Step {
    size: f64,
    likeness: f64,
}

/// The best step of a series that is divided at its best points, `steps` times; `None` if nothing varies beside the steps.
fn best_step(values: &[f64], steps: usize) -> Option<Step> {
    let mut ends = vec![values.len()];
    let mut largest = 0.0;
    for number in 0..steps {
        let Some((index, divergence)) = best_split(values, &ends) else { break };
        if number == 0 {
            largest = divergence;
        }
        ends.push(index);
        ends.sort_unstable();
    }
    let (mut start, mut squares, mut products) = (0, 0.0, 0.0);
    for end in ends {
        let level = &values[start..end];
        let mean = mean(level).unwrap_or(0.0);
        squares += level.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        products += level.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum::<f64>();
        start = end;
    }
    let spread = (squares / values.len() as f64).sqrt();
    (spread > 0.0).then(|| Step { size: largest / spread, likeness: products / squares })
}

/// The probability that a series that wanders, as far as this one tells its coefficient, has a step as large as its best.
fn wandering_p(values: &[f64], steps: usize, random: &mut Random) -> f64 {
    let Some(seen) = best_step(values, steps) else { return 0.0 };
    // How far the likeness is from that of the coefficient's series, their spread, and the p-value.
    let mut by_coefficient: Vec<(f64, f64, f64)> = Vec::new();
    for coefficient in COEFFICIENTS {
        let series = (0..SERIES).map(|_| wandering(coefficient, values.len(), random));
        let found: Vec<Step> = series.filter_map(|series| best_step(&series, steps)).collect();
        let number = found.len() as f64;
        let middle = found.iter().map(|step| step.likeness).sum::<f64>() / number;
        let squares = found.iter().map(|step| (step.likeness - middle).powi(2)).sum::<f64>();
        let spread = (squares / number).sqrt();
        let as_large = found.iter().filter(|step| step.size >= seen.size).count() as f64;
        if spread > 0.0 {
            let distance = (seen.likeness - middle) / spread;
            by_coefficient.push((distance * distance, spread, (as_large + 1.0) / (number + 1.0)));
        }
    }
    // The densities are normal; the nearest coefficient has a weight however far it is.
    let nearest = by_coefficient.iter().map(|of| of.0).fold(f64::INFINITY, f64::min);
    let weight = |square: f64, spread: f64| (-0.5 * (square - nearest)).exp() / spread;
    let weights: f64 = by_coefficient.iter().map(|of| weight(of.0, of.1)).sum();
    by_coefficient.iter().map(|of| weight(of.0, of.1) / weights * of.2).sum()
}

/// A normal series in which each value keeps this part of the one before, in equilibrium from its first value on.
fn wandering(coefficient: f64, length: usize, random: &mut Random) -> Vec<f64> {
    // Twelve uniform numbers, less their mean, are normal enough, and have the variance 1.
    let mut normal = || (0..12).map(|_| random.unit_f64()).sum::<f64>() - 6.0;
    let fresh = (1.0 - coefficient * coefficient).sqrt();
    let mut series: Vec<f64> = Vec::with_capacity(length);
    for _ in 0..length {
        let kept = series.last().map(|last| coefficient * last);
        series.push(match kept {
            Some(kept) => kept + fresh * normal(),
            None => normal(),
        });
    }
    series
}

/// Returns the point that divides a segment best, with the divergence of its sides.
fn best_split(values: &[f64], ends: &[usize]) -> Option<(usize, f64)> {
    let mut best: Option<(usize, f64)> = None;
    let mut start = 0;
    for &end in ends {
        if let Some((index, divergence)) = split(&values[start..end])
            && best.is_none_or(|(_, largest)| divergence > largest)
        {
            best = Some((start + index, divergence));
        }
        start = end;
    }
    best
}

/// Returns the best split of one segment: the largest m·n/(m+n) · (2·E|X−Y| − E|X−X'| − E|Y−Y'|). X
/// are the values before the point, and Y the values from the point to any later one; a level that
/// the series leaves again is found, too (Matteson & James, section 2.3).
fn split(values: &[f64]) -> Option<(usize, f64)> {
    let total = values.len();
    // within[from]: the sum of distances between all values from `from` to `end`.
    let mut within = vec![0.0; total];
    // before[end]: the same sum from the first value, for every earlier end.
    let mut before = vec![0.0; total + 1];
    let mut best: Option<(usize, f64)> = None;
    for end in 1..=total {
        let last = values[end - 1];
        let mut to_last = 0.0;
        for from in (0..end - 1).rev() {
            to_last += (values[from] - last).abs();
            within[from] += to_last;
        }
        before[end] = within[0];
        for at in SEGMENT_MIN..=end.saturating_sub(SEGMENT_MIN) {
            let (left, right) = (before[at], within[at]);
            let between = within[0] - left - right;
            let (m, n) = (at as f64, (end - at) as f64);
            let energy = 2.0 * between / (m * n)
                - 2.0 * left / (m * (m - 1.0))
                - 2.0 * right / (n * (n - 1.0));
            let divergence = m * n / (m + n) * energy;
            if best.is_none_or(|(_, largest)| divergence > largest) {
                best = Some((at, divergence));
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(random: &mut Random) -> f64 {
        (0..12).map(|_| random.unit_f64()).sum::<f64>() - 6.0
    }

    fn indices(values: &[f64]) -> Vec<usize> {
        change_points(values, 0.05, 1).iter().map(|point| point.index).collect()
    }

    #[test]
    fn the_divergence_is_that_of_the_definition() {
        // 0 0 against 3 5: E|X−Y| = 4, within 0 and 2; 2·2/4 · (8 − 0 − 2) = 6.
        assert_eq!(split(&[0.0, 0.0, 3.0, 5.0]), Some((2, 6.0)));
        assert_eq!(split(&[1.0, 2.0, 3.0]), None);
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let mut random = Random::new(3);
        let levels = |index: usize| match index {
            0..12 => 100.0,
            12..25 => 110.0,
            _ => 104.0,
        };
        let values: Vec<f64> = (0..40).map(|i| levels(i) + 0.5 * noise(&mut random)).collect();
        assert_eq!(indices(&values), [12, 25]);
        let points = change_points(&values, 0.05, 1);
        assert!(points.iter().all(|point| point.p == 0.002), "{points:?}");
        assert_eq!(change_points(&values, 0.05, 1), points);
    }

    #[test]
    fn a_level_that_is_left_again_is_two_changes() {
        let mut random = Random::new(9);
        let level = |index: usize| if (6..12).contains(&index) { 110.0 } else { 100.0 };
        let values: Vec<f64> = (0..18).map(|i| level(i) + 0.3 * noise(&mut random)).collect();
        assert_eq!(indices(&values), [6, 12]);
    }

    #[test]
    fn a_long_series_is_divided_at_the_value_where_it_changes() {
        let mut random = Random::new(37);
        let level = |index: usize| match index {
            0..777 => 100.0,
            777..2111 => 104.0,
            2111..3990 => 101.0,
            _ => 106.0,
        };
        // The last level has eleven values, fewer than the neighbours whose means are divided.
        let values: Vec<f64> = (0..4_001).map(|i| level(i) + 0.5 * noise(&mut random)).collect();
        assert_eq!(indices(&values), [777, 2111, 3990]);
    }

    #[test]
    fn a_long_series_without_a_change_raises_few_alarms() {
        // One of 20 is expected, and four standard deviations are 4.
        for coefficient in [0.0, 0.9] {
            let mut random = Random::new(41);
            let alarms = (0..20)
                .filter(|seed| {
                    let values = wandering(coefficient, 250, &mut random);
                    !change_points(&values, 0.05, *seed).is_empty()
                })
                .count();
            assert!(alarms <= 5, "{coefficient}: {alarms} of 20");
        }
    }

    #[test]
    fn a_clear_step_at_the_end_is_found_and_one_outlier_is_not() {
        let mut values: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i * 7 % 5) / 10.0).collect();
        assert_eq!(indices(&values), [] as [usize; 0]);
        values[19] = 130.0;
        assert_eq!(indices(&values), [] as [usize; 0]);
        values.extend([130.2, 130.1]);
        assert_eq!(indices(&values), [19]);
    }

    #[test]
    fn short_and_constant_series_have_no_change() {
        assert_eq!(indices(&[]), [] as [usize; 0]);
        assert_eq!(indices(&[1.0, 9.0]), [] as [usize; 0]);
        assert_eq!(indices(&[7.0; 30]), [] as [usize; 0]);
        assert_eq!(values_min(0.05), 8);
        assert_eq!(indices(&[1.0, 1.1, 1.2, 9.0, 9.1, 9.2]), [] as [usize; 0]);
        assert_eq!(indices(&[1.0, 1.1, 1.2, 1.3, 9.0, 9.1, 9.2, 9.3]), [4]);
    }

    #[test]
    fn a_series_without_a_change_raises_few_alarms() {
        // The noise is skewed; 15 of 300 are expected at 5 %, and four standard deviations are 15.
        let mut random = Random::new(17);
        let alarms = (0..300)
            .filter(|seed| {
                let values: Vec<f64> =
                    (0..16).map(|_| 100.0 + noise(&mut random).powi(2)).collect();
                !change_points(&values, 0.05, *seed).is_empty()
            })
            .count();
        assert!(alarms <= 30, "{alarms} of 300");
    }

    #[test]
    fn a_series_that_wanders_raises_few_alarms() {
        // Shuffles alone find steps in most series of 0.9. Ten are expected, and four standard deviations are 12.
        for (coefficient, most) in [(0.5, 22), (0.9, 22)] {
            let mut random = Random::new(29);
            let alarms = (0..200)
                .filter(|seed| {
                    let values = wandering(coefficient, 40, &mut random);
                    !change_points(&values, 0.05, *seed).is_empty()
                })
                .count();
            assert!(alarms <= most, "{coefficient}: {alarms} of 200");
        }
    }

    #[test]
    fn a_clear_step_in_a_series_that_wanders_is_found() {
        let mut random = Random::new(31);
        let found = (0..50)
            .filter(|seed| {
                let noise = wandering(0.5, 40, &mut random);
                let step = |at: usize| if at < 20 { 0.0 } else { 5.0 };
                let values: Vec<f64> =
                    noise.iter().enumerate().map(|(at, noise)| step(at) + noise).collect();
                change_points(&values, 0.05, *seed)
                    .iter()
                    .any(|point| point.index.abs_diff(20) <= 1)
            })
            .count();
        assert!(found >= 45, "{found} of 50");
    }

    #[test]
    fn a_step_of_two_deviations_is_more_often_found_than_not() {
        let mut random = Random::new(23);
        let found = (0..100)
            .filter(|seed| {
                let step = |index: usize| if index < 15 { 0.0 } else { 2.0 };
                let values: Vec<f64> = (0..30).map(|i| step(i) + noise(&mut random)).collect();
                change_points(&values, 0.05, *seed)
                    .iter()
                    .any(|point| point.index.abs_diff(15) <= 2)
            })
            .count();
        // The test finds 67 % of 200 other series: series that wander have such steps, too.
        assert!(found >= 55, "{found} of 100");
    }
}
