//! Wilcoxon's signed-rank test of block differences, its estimate and its interval.
//!
//! The test is exact for differences symmetric around 0, which randomised mirrored blocks make
//! them (see the crate's page), and a spike weighs no more than its rank. Sources: Wilcoxon,
//! "Individual Comparisons by Ranking Methods", Biometrics Bulletin 1(6), 1945; Hollander, Wolfe &
//! Chicken, Nonparametric Statistical Methods, 3rd ed., 2014, sections 3.1 to 3.3.

use crate::normal;
use crate::walsh::Walsh;

/// With more non-zero differences than this, a normal approximation stands for the exact
/// distribution; there it gives a p too large by 1 % of itself at 0.05, by 7 % at 0.01, and by
/// more further out: on the safe side.
pub const EXACT_MAX: usize = 60;

/// The two-sided p-value of the hypothesis that finite differences are symmetric around 0.
///
/// Equal sizes share their mean rank, and p is taken from the distribution given these ranks: all
/// 2ⁿ signs equally likely, summed by dynamic programming over doubled ranks. Zeros take part in
/// ranking but have no sign (Pratt, "Remarks on Zeros and Ties in the Wilcoxon Signed Rank
/// Procedures", JASA 54, 1959): dropped before ranking, a shift away from 0 could turn a
/// significant result into one that is not; and the sum of ranks stays the number of positive
/// Walsh averages, from which [`interval`] is made. Beyond [`EXACT_MAX`] non-zero differences:
/// the normal approximation with the variance given these ranks and zeros, corrected for
/// continuity. 1 if there are none.
pub fn p(differences: &[f64]) -> f64 {
    let ranks = SignedRanks::of(differences);
    match ranks.doubled.len() {
        0 => 1.0,
        1..=EXACT_MAX => ranks.p_exact(),
        _ => ranks.p_normal(),
    }
}

/// The smallest two-sided p-value possible with `n` differences, 2/2ⁿ, by this test and by the
/// sign test alike; 1 with none.
pub fn p_floor(n: usize) -> f64 {
    0.5f64.powf(n as f64 - 1.0).min(1.0)
}

/// The Hodges-Lehmann estimate of the centre of finite differences: the median of their Walsh
/// averages; `None` if there are none.
///
/// Hodges & Lehmann, "Estimates of Location Based on Rank Tests", Ann. Math. Statist. 34, 1963.
pub fn estimate(differences: &[f64]) -> Option<f64> {
    Walsh::new(differences).median()
}

/// The interval of the shifts that the test does not refuse at 1 − `level`, 0 < `level` < 1.
///
/// From the k-th smallest to the k-th largest Walsh average, both included, k from the
/// distribution without ties; with ties and zeros its coverage is at least `level` all the same
/// (Pratt & Gibbons, Concepts of Nonparametric Theory, 1981, chapter 3), while p may then fall
/// on the other side of 1 − `level` where 0 is about an end: p decides. `None` if so few
/// differences cannot reach the level: five cannot reach 0.95, six can.
pub fn interval(differences: &[f64], level: f64) -> Option<(f64, f64)> {
    let k = extreme_count(differences.len(), 1.0 - level)?;
    let walsh = Walsh::new(differences);
    Some((walsh.nth(k)?, walsh.nth(walsh.count() + 1 - k)?))
}

/// The number k for which the two-sided test of `n` untied differences refuses a shift at `alpha`
/// if fewer than k Walsh averages are on one side of it; `None` if `alpha` cannot be reached.
pub(crate) fn extreme_count(n: usize, alpha: f64) -> Option<u64> {
    if alpha.is_nan() || alpha <= 0.0 {
        return None;
    }
    let tail = alpha.min(1.0) / 2.0;
    let k = if n <= EXACT_MAX {
        let ranks: Vec<u64> = (1..=n as u64).collect();
        let mut below = 0.0;
        let within = distribution(&ranks).into_iter().take_while(|probability| {
            below += probability;
            below <= tail
        });
        within.count() as u64
    } else {
        let n = n as f64;
        let mean = n * (n + 1.0) / 4.0;
        let sd = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        // The largest sum t with P(T ≤ t) ≤ tail is k − 1; a negative one saturates to k = 0.
        (mean - 0.5 - normal::exceeded_with(tail) * sd + 1.0).floor() as u64
    };
    (k > 0).then_some(k)
}

/// The sizes of non-zero differences as ranks.
struct SignedRanks {
    /// Differences that are 0; their ranks are the lowest.
    zeros: u64,
    /// Twice the rank of each non-zero difference among the non-zero ones, ties at their mean.
    doubled: Vec<u64>,
    /// Whether each is positive.
    positive: Vec<bool>,
}

impl SignedRanks {
    fn of(differences: &[f64]) -> SignedRanks {
        let mut nonzero: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
        nonzero.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
        let mut doubled = Vec::with_capacity(nonzero.len());
        for tied in nonzero.chunk_by(|a, b| a.abs() == b.abs()) {
            let first = doubled.len() + 1;
            let last = doubled.len() + tied.len();
            doubled.resize(last, (first + last) as u64);
        }
        SignedRanks {
            zeros: (differences.len() - nonzero.len()) as u64,
            doubled,
            positive: nonzero.iter().map(|d| *d > 0.0).collect(),
        }
    }

    /// The doubled ranks if `zeros` zeros come before them, and the larger of the two sums of
    /// ranks, that of the positive and that of the negative differences.
    fn weights(&self, zeros: u64) -> (Vec<u64>, u64) {
        let weights: Vec<u64> = self.doubled.iter().map(|rank| 2 * zeros + rank).collect();
        let signed = weights.iter().zip(&self.positive);
        let positive: u64 = signed.filter(|(_, positive)| **positive).map(|(w, _)| w).sum();
        let total: u64 = weights.iter().sum();
        (weights, positive.max(total - positive))
    }

    fn p_exact(&self) -> f64 {
        // From n(n + 1)/2 + 1 zeros on, sums of ranks order by how many are positive, then by
        // their ranks without the zeros; more zeros change no comparison, only the table's size.
        let n = self.doubled.len() as u64;
        let (weights, larger) = self.weights(self.zeros.min(n * (n + 1) / 2 + 1));
        let tail: f64 = distribution(&weights)[larger as usize..].iter().sum();
        (2.0 * tail).min(1.0)
    }

    fn p_normal(&self) -> f64 {
        let (weights, larger) = self.weights(self.zeros);
        let weights = weights.iter().map(|&weight| weight as f64);
        let mean = weights.clone().sum::<f64>() / 2.0;
        let variance = weights.map(|weight| weight * weight).sum::<f64>() / 4.0;
        // Half a rank towards the mean; ranks are doubled here.
        let z = (larger as f64 - mean - 1.0) / variance.sqrt();
        2.0 * normal::upper_tail(z.max(0.0))
    }
}

/// The probability of each sum, from 0 to the total, of a random half of the weights: each in or
/// out with probability 1/2. Exact up to 53 weights, being multiples of 2⁻⁵³ or larger.
fn distribution(weights: &[u64]) -> Vec<f64> {
    let total: u64 = weights.iter().sum();
    let mut probability = vec![0.0; total as usize + 1];
    probability[0] = 1.0;
    let mut reached = 0;
    for &weight in weights {
        let weight = weight as usize;
        reached += weight;
        for sum in (0..=reached).rev() {
            let without = probability[sum];
            let with = if sum >= weight { probability[sum - weight] } else { 0.0 };
            probability[sum] = 0.5 * (without + with);
        }
    }
    probability
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use proptest::prelude::*;

    /// Hamilton depression scale factor IV before and after tranquilliser (Hollander, Wolfe &
    /// Chicken, section 3.1); the answers by listing all signs and all averages.
    const DEPRESSION: [f64; 9] = [0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01];

    /// Darwin's maize, eighths of an inch, crossed minus self-fertilised (Fisher 1935, chapter 3).
    const MAIZE: [f64; 15] =
        [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];

    /// p by listing all signs.
    fn p_listed(differences: &[f64]) -> f64 {
        let size = |d: f64| d.abs();
        let rank = |d: f64| {
            let less = differences.iter().filter(|o| size(**o) < size(d)).count();
            let tied = differences.iter().filter(|o| size(**o) == size(d)).count();
            (2 * less + tied + 1) as i64
        };
        let signed: Vec<(i64, bool)> =
            differences.iter().filter(|d| **d != 0.0).map(|&d| (rank(d), d > 0.0)).collect();
        let difference = |positive: &dyn Fn(usize) -> bool| -> i64 {
            let sums = signed.iter().enumerate();
            sums.map(|(i, (rank, _))| if positive(i) { *rank } else { -*rank }).sum()
        };
        let observed = difference(&|i| signed[i].1).abs();
        let all = 1u32 << signed.len();
        let as_far =
            (0..all).filter(|signs| difference(&|i| signs >> i & 1 == 1).abs() >= observed);
        as_far.count() as f64 / f64::from(all)
    }

    #[test]
    fn known_answers() {
        assert_eq!(p(&DEPRESSION), 20.0 / 512.0);
        let close = |got: Option<f64>, expected: f64| (got.unwrap() - expected).abs() < 1e-12;
        assert!(close(estimate(&DEPRESSION), 0.46));
        let (low, high) = interval(&DEPRESSION, 0.95).unwrap();
        assert!(close(Some(low), 0.01) && close(Some(high), 0.786), "{low} {high}");

        assert_eq!(p(&MAIZE), 2.0 * 676.0 / 32768.0);
        assert_eq!(estimate(&MAIZE), Some(25.0));
    }

    #[test]
    fn ties_and_zeros_known_answer() {
        let differences = [1.0, 1.0, -1.0, 2.0, 2.0, 3.0, -4.0, 0.0, 0.0, 5.0];
        assert_eq!(p(&differences), 0.203125);
    }

    #[test]
    fn the_floor_is_reached_and_not_passed() {
        for n in 1..=EXACT_MAX {
            let differences: Vec<f64> = (1..=n).map(|d| d as f64).collect();
            assert_eq!(p(&differences), p_floor(n), "{n} differences");
        }
        assert_eq!((p_floor(0), p_floor(1), p_floor(6)), (1.0, 1.0, 0.03125));
    }

    #[test]
    fn critical_values_are_those_of_the_tables() {
        // Largest sum refused two-sided (McCornack, "Extended Tables of the Wilcoxon Matched Pair
        // Signed Rank Statistic", JASA 60, 1965), so one less than the count.
        for (n, alpha, sum) in [
            (6, 0.05, 0),
            (7, 0.05, 2),
            (8, 0.05, 3),
            (8, 0.01, 0),
            (10, 0.05, 8),
            (10, 0.01, 3),
            (12, 0.05, 13),
            (20, 0.05, 52),
            (20, 0.01, 37),
            (25, 0.05, 89),
            (50, 0.05, 434),
            (50, 0.01, 373),
        ] {
            assert_eq!(extreme_count(n, alpha), Some(sum + 1), "n = {n}, alpha = {alpha}");
        }
        assert_eq!(extreme_count(5, 0.05), None);
        assert_eq!(extreme_count(7, 0.01), None);
        assert_eq!(extreme_count(0, 0.05), None);
        assert_eq!(extreme_count(1000, 0.0), None);
        assert_eq!(extreme_count(1000, f64::NAN), None);
        assert_eq!(extreme_count(12, f64::NAN), None);
    }

    #[test]
    fn too_few_have_no_interval() {
        let differences = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(interval(&differences[..5], 0.95), None);
        assert_eq!(interval(&differences, 0.95), Some((1.0, 6.0)));
        assert_eq!(interval(&[], 0.95), None);
        assert_eq!(estimate(&[]), None);
        assert_eq!(p(&[]), 1.0);
        assert_eq!(p(&[0.0; 8]), 1.0);
    }

    #[test]
    fn the_normal_approximation_continues_the_exact_distribution() {
        let mut random = Random::new(5);
        for _ in 0..200 {
            let shift = random.unit_f64() * 0.5;
            let differences: Vec<f64> = (0..EXACT_MAX)
                .map(|i| ((random.unit_f64() * 2.0 - 1.0 + shift) * 40.0).round() * (i % 9) as f64)
                .collect();
            let ranks = SignedRanks::of(&differences);
            let (exact, normal) = (ranks.p_exact(), ranks.p_normal());
            assert!((exact - normal).abs() < 0.003 + 0.01 * exact, "{exact} and {normal}");
        }
        let approximate = |n: usize| extreme_count(n, 0.05).unwrap() as i64;
        let steps: Vec<i64> = (57..=65).map(|n| approximate(n + 1) - approximate(n)).collect();
        assert!(steps.iter().all(|step| (23..=26).contains(step)), "{steps:?}");
    }

    #[test]
    fn far_out_the_normal_approximation_errs_on_the_safe_side() {
        let differences: Vec<f64> =
            (1..=60).map(|d| if d % 9 == 0 { -f64::from(d) } else { f64::from(d) }).collect();
        let ranks = SignedRanks::of(&differences);
        assert!(ranks.p_exact() < 1e-7 && ranks.p_normal() > ranks.p_exact());
        // Negative ranks that add up to a sum whose p is just above 0.05, and 0.01.
        for (sum, excess) in [(649, 0.0097), (568, 0.0705)] {
            let mut left = sum;
            let differences: Vec<f64> = (1..=60i32)
                .rev()
                .map(|rank| {
                    let negative = rank <= left;
                    left -= if negative { rank } else { 0 };
                    f64::from(if negative { -rank } else { rank })
                })
                .collect();
            let ranks = SignedRanks::of(&differences);
            let (exact, normal) = (ranks.p_exact(), ranks.p_normal());
            let got = normal / exact - 1.0;
            assert!((got - excess).abs() < 1e-3, "{exact} {normal}");
        }
        // The exact counts are 673, 590, 1,956 and 8,445.
        for (n, alpha, approximate) in
            [(61, 0.05, 673), (61, 0.01, 587), (100, 0.05, 1955), (200, 0.05, 8444)]
        {
            assert_eq!(extreme_count(n, alpha), Some(approximate), "n = {n}");
        }
    }

    #[test]
    fn a_hundred_thousand_differences() {
        let mut random = Random::new(9);
        let differences: Vec<f64> = (0..100_000).map(|_| random.unit_f64() - 0.25).collect();
        let centre = estimate(&differences).unwrap();
        let (low, high) = interval(&differences, 0.95).unwrap();
        assert!(low < centre && centre < high);
        assert!((centre - 0.25).abs() < 0.01 && high - low < 0.01);
        assert!(p(&differences) < 1e-300);
    }

    proptest! {
        #[test]
        fn p_is_that_of_the_list(differences in prop::collection::vec((-4i32..5).prop_map(f64::from), 0..11)) {
            prop_assert_eq!(p(&differences), p_listed(&differences));
        }

        #[test]
        fn many_zeros_change_no_comparison(
            differences in prop::collection::vec((1i32..6, any::<bool>()), 1..7), zeros in 0usize..90,
        ) {
            let mut differences: Vec<f64> = differences.iter()
                .map(|&(size, positive)| f64::from(if positive { size } else { -size })).collect();
            differences.resize(differences.len() + zeros, 0.0);
            prop_assert_eq!(p(&differences), p_listed(&differences));
        }

        #[test]
        fn untied_p_and_interval_agree(
            values in prop::collection::hash_set(-1000i32..1000, 6..25), level in 0.5..0.99f64,
        ) {
            // Multiples of a power of 2 less one third: no zeros, no ties in size, none around 0.
            let differences: Vec<f64> = values.iter().map(|&v| f64::from(v) - 1.0 / 3.0).collect();
            let refused = p(&differences) <= 1.0 - level;
            let outside = interval(&differences, level).is_some_and(|(low, high)| low > 0.0 || high < 0.0);
            prop_assert_eq!(refused, outside);
        }

        #[test]
        fn p_does_not_care_about_order_sign_or_scale(
            differences in prop::collection::vec(-10.0..10.0f64, 1..80), seed: u64,
        ) {
            let mut other: Vec<f64> = differences.iter().map(|d| d * -4.0).collect();
            Random::new(seed).shuffle(&mut other);
            prop_assert_eq!(p(&differences), p(&other));
            prop_assert!((0.0..=1.0).contains(&p(&differences)));
        }

        #[test]
        fn the_interval_shifts_with_the_data(values in prop::collection::vec(-100i32..100, 6..80), shift in -50i32..50) {
            let at = |shift: i32| -> Vec<f64> { values.iter().map(|&v| f64::from(v + shift)).collect() };
            let shift_by = f64::from(shift);
            prop_assert_eq!(estimate(&at(shift)), estimate(&at(0)).map(|e| e + shift_by));
            prop_assert_eq!(interval(&at(shift), 0.95), interval(&at(0), 0.95).map(|(l, h)| (l + shift_by, h + shift_by)));
        }
    }
}
