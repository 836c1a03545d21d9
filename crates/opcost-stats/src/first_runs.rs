//! Tests whether the first values of a series differ, as they do if warm-up runs were too few.

use crate::normal;
use crate::summary::{median, midranks};

/// The fewest values that are tested.
pub const VALUES_MIN: usize = 14;

/// The most values for which p is exact; beyond, it is a normal approximation.
const EXACT_MAX: usize = 100;

/// The first values and the rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirstRuns {
    /// The number of first values: a tenth, at least 3, at most 10.
    pub count: usize,
    /// The median of the first values.
    pub median_first: f64,
    /// The median of the rest.
    pub median_rest: f64,
    /// The two-sided p-value of the hypothesis that the first values are like the rest.
    pub p: f64,
}

/// Tests the first tenth of finite values against the rest; `None` for fewer than [`VALUES_MIN`].
///
/// By the rank sum test (Wilcoxon 1945; Mann & Whitney 1947). Up to 100 values it is exact given
/// ties: every choice of that many ranks is equally likely, counted by dynamic programming. Beyond,
/// it is normal with continuity correction (Hollander, Wolfe & Chicken, Nonparametric Statistical
/// Methods, 3rd ed., 2014, section 4.1).
pub fn first_runs(values: &[f64]) -> Option<FirstRuns> {
    if values.len() < VALUES_MIN {
        return None;
    }
    let count = (values.len() / 10).clamp(3, 10);
    let ranks = midranks(values);
    // Twice a rank is a whole number, also with ties.
    let doubled: Vec<usize> = ranks.iter().map(|rank| (2.0 * rank) as usize).collect();
    let sum: usize = doubled[..count].iter().sum();
    let p = if values.len() <= EXACT_MAX {
        p_exact(&doubled, count, sum)
    } else {
        p_normal(&doubled, count, sum)
    };
    Some(FirstRuns {
        count,
        median_first: median(&values[..count])?,
        median_rest: median(&values[count..])?,
        p,
    })
}

fn p_exact(doubled: &[usize], count: usize, observed: usize) -> f64 {
    let mut largest = doubled.to_vec();
    largest.sort_unstable_by(|a, b| b.cmp(a));
    let most: usize = largest[..count].iter().sum();
    // ways[taken][sum]: the number of choices of `taken` ranks with this sum.
    let mut ways = vec![vec![0f64; most + 1]; count + 1];
    ways[0][0] = 1.0;
    for rank in doubled {
        for taken in (1..=count).rev() {
            let (fewer, more) = ways.split_at_mut(taken);
            for sum in *rank..=most {
                more[0][sum] += fewer[taken - 1][sum - rank];
            }
        }
    }
    let all: f64 = ways[count].iter().sum();
    let below: f64 = ways[count][..=observed].iter().sum();
    let above: f64 = ways[count][observed..].iter().sum();
    (2.0 * below.min(above) / all).min(1.0)
}

fn p_normal(doubled: &[usize], count: usize, observed: usize) -> f64 {
    let (n, k) = (doubled.len() as f64, count as f64);
    let mean = doubled.iter().sum::<usize>() as f64 / n;
    let spread: f64 = doubled.iter().map(|rank| (*rank as f64 - mean).powi(2)).sum();
    // The variance of the sum of k ranks drawn without replacement.
    let variance = k * (n - k) / (n * (n - 1.0)) * spread;
    if variance == 0.0 {
        return 1.0;
    }
    // Without ties, one step of doubled ranks is two; half of it is the correction.
    let distance = ((observed as f64 - k * mean).abs() - 1.0).max(0.0);
    (2.0 * normal::upper_tail(distance / variance.sqrt())).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // The three largest of 20 values come first: one of 1,140 choices on either side.
        let mut values: Vec<f64> = (0..20).map(f64::from).collect();
        values.rotate_right(3);
        let got = first_runs(&values).unwrap();
        assert_eq!((got.count, got.median_first, got.median_rest), (3, 18.0, 8.0));
        assert!((got.p - 2.0 / 1140.0).abs() < 1e-12, "{got:?}");
        assert_eq!(first_runs(&[5.0; 20]).unwrap().p, 1.0);
        assert_eq!(first_runs(&[5.0; 200]).unwrap().p, 1.0);
        assert_eq!(first_runs(&values[..13]), None);
    }

    #[test]
    fn counted_and_approximated_agree() {
        let doubled: Vec<usize> = (1..=90).map(|rank| 2 * rank).collect();
        for sum in [400, 500, 600, 819] {
            let (exact, normal) = (p_exact(&doubled, 9, sum), p_normal(&doubled, 9, sum));
            assert!((exact - normal).abs() < 0.01, "{sum}: {exact} {normal}");
        }
    }
}
