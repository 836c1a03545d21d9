//! Wilcoxon's signed-rank test of block differences, with its estimate and interval.
//!
//! The test is exact for differences symmetric around 0, as randomised blocks make them (see the
//! crate's page). A spike weighs no more than its rank. Sources: Wilcoxon, "Individual Comparisons
//! by Ranking Methods", Biometrics Bulletin 1(6), 1945; Hollander, Wolfe & Chicken, Nonparametric
//! Statistical Methods, 3rd ed., 2014, sections 3.1 to 3.3.

use crate::normal;
use crate::walsh::Walsh;

/// The most differences whose distribution is exact; beyond, it is a normal approximation. There
/// the approximation gives a p too large by 1 % of itself at 0.05, by 7 % at 0.01, and by more
/// further out: on the safe side.
pub const EXACT_MAX: usize = 60;

/// Returns the two-sided p-value of the hypothesis that finite differences are symmetric around 0:
/// the largest level at which [`interval`] still holds 0.
///
/// The statistic is the number of Walsh averages on the rarer side of 0, which for differences
/// without ties is the smaller sum of signed ranks. An average of exactly 0 counts for either side,
/// and the distribution is the one without ties, as for the interval. Both are valid for tied
/// differences: noise too small to change any other order breaks every tie at random and leaves the
/// differences symmetric. The noise only takes averages of 0 off the rarer side, so p without ties
/// is at most this p. Beyond [`EXACT_MAX`] differences: the normal approximation, corrected for
/// continuity. 1 if there are none.
pub fn p(differences: &[f64]) -> f64 {
    let n = differences.len();
    let walsh = Walsh::new(differences);
    let rarer = walsh.at_most(0.0).min(walsh.count() - walsh.below(0.0));
    if n > EXACT_MAX {
        let (mean, sd) = moments(n);
        return (2.0 * normal::upper_tail((mean - 0.5 - rarer as f64) / sd)).min(1.0);
    }
    (2.0 * distribution(n, rarer as usize).iter().sum::<f64>()).min(1.0)
}

/// Returns the smallest two-sided p-value possible with `n` differences, 2/2ⁿ, for this test and
/// for the sign test; 1 for none.
pub fn p_floor(n: usize) -> f64 {
    0.5f64.powf(n as f64 - 1.0).min(1.0)
}

/// Returns the Hodges-Lehmann estimate of the centre of finite differences: the median of their
/// Walsh averages; `None` if there are none.
///
/// Hodges & Lehmann, "Estimates of Location Based on Rank Tests", Ann. Math. Statist. 34, 1963.
pub fn estimate(differences: &[f64]) -> Option<f64> {
    Walsh::new(differences).median()
}

/// Returns the interval of the shifts not refused by the test at 1 − `level`, 0 < `level` < 1.
///
/// The interval goes from the k-th smallest to the k-th largest Walsh average, both included, with
/// k from the distribution without ties. With ties and zeros its coverage is still at least `level`
/// (Pratt & Gibbons, Concepts of Nonparametric Theory, 1981, chapter 3). It holds 0 exactly if
/// [`p`] is above 1 − `level`. `None` if there are too few differences for the level: five cannot
/// reach 0.95, six can.
pub fn interval(differences: &[f64], level: f64) -> Option<(f64, f64)> {
    let k = extreme_count(differences.len(), 1.0 - level)?;
    let walsh = Walsh::new(differences);
    Some((walsh.nth(k)?, walsh.nth(walsh.count() + 1 - k)?))
}

/// Returns the k such that the two-sided test of `n` untied differences refuses a shift at `alpha`
/// if fewer than k Walsh averages are on one side of it; `None` if `alpha` cannot be reached.
pub(crate) fn extreme_count(n: usize, alpha: f64) -> Option<u64> {
    if alpha.is_nan() || alpha <= 0.0 {
        return None;
    }
    let tail = alpha.min(1.0) / 2.0;
    let k = if n <= EXACT_MAX {
        let mut below = 0.0;
        let within = distribution(n, n * (n + 1) / 2).into_iter().take_while(|probability| {
            below += probability;
            below <= tail
        });
        within.count() as u64
    } else {
        let (mean, sd) = moments(n);
        // The largest sum t with P(T ≤ t) ≤ tail is k − 1; a negative one saturates to k = 0.
        (mean - 0.5 - normal::exceeded_with(tail) * sd + 1.0).floor() as u64
    };
    (k > 0).then_some(k)
}

/// Returns mean and standard deviation of the sum of the positive ones among `n` signed ranks.
fn moments(n: usize) -> (f64, f64) {
    let n = n as f64;
    (n * (n + 1.0) / 4.0, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt())
}

/// Returns the probability of each sum, from 0 to `most`, of the positive ones among `n` signed
/// ranks, with all 2ⁿ signs equally likely. Exact up to 53 ranks, as multiples of 2⁻⁵³ or larger.
fn distribution(n: usize, most: usize) -> Vec<f64> {
    let mut probability = vec![0.0; most.min(n * (n + 1) / 2) + 1];
    probability[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..probability.len()).rev() {
            let with = if sum >= rank { probability[sum - rank] } else { 0.0 };
            probability[sum] = 0.5 * (probability[sum] + with);
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
    /// Chicken, section 3.1); the answers come from listing all signs and all averages.
    const DEPRESSION: [f64; 9] = [0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01];

    /// Darwin's maize, eighths of an inch, crossed minus self-fertilised (Fisher 1935, chapter 3).
    const MAIZE: [f64; 15] =
        [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];

    /// Computes p of differences of different sizes by listing all signs.
    fn p_listed(differences: &[f64]) -> f64 {
        let rank = |d: f64| differences.iter().filter(|o| o.abs() <= d.abs()).count() as i64;
        let ranks: Vec<i64> = differences.iter().map(|d| rank(*d)).collect();
        let difference = |positive: &dyn Fn(usize) -> bool| -> i64 {
            let sums = ranks.iter().enumerate();
            sums.map(|(i, rank)| if positive(i) { *rank } else { -*rank }).sum()
        };
        let observed = difference(&|i| differences[i] > 0.0).abs();
        let all = 1u32 << differences.len();
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
    fn ties_and_zeros_known_answers() {
        // Three Walsh averages are at most 0, of the two zeros; 5 of 256 signs have sums up to 3.
        assert_eq!(p(&[0.0, 0.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), 2.0 * 5.0 / 256.0);
        // Five pairs are alike and seven apart: the interval begins at 0, so no change is shown.
        let counts = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        assert_eq!(interval(&counts, 0.975), Some((0.0, 1.0)));
        assert!((p(&counts) - 0.063_964_843_75).abs() < 1e-12, "{}", p(&counts));
        // Without zeros, ties cost nothing.
        assert_eq!(p(&[1.0; 12]), p_floor(12));
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
        // The largest sum that is refused two-sided is one less than the count (McCornack,
        // "Extended Tables of the Wilcoxon Matched Pair Signed Rank Statistic", JASA 60, 1965).
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

    /// Computes p by the normal approximation, if the smaller sum of ranks is `sum`.
    fn p_normal(n: usize, sum: f64) -> f64 {
        let (mean, sd) = moments(n);
        2.0 * normal::upper_tail((mean - 0.5 - sum) / sd)
    }

    #[test]
    fn the_normal_approximation_continues_the_exact_distribution() {
        let exact = distribution(EXACT_MAX, 915);
        let mut below = 0.0;
        for (sum, probability) in exact.iter().enumerate() {
            below += 2.0 * probability;
            let normal = p_normal(EXACT_MAX, sum as f64);
            assert!((below - normal).abs() < 0.003 + 0.01 * below, "{sum}: {below} and {normal}");
        }
        let approximate = |n: usize| extreme_count(n, 0.05).unwrap() as i64;
        let steps: Vec<i64> = (57..=65).map(|n| approximate(n + 1) - approximate(n)).collect();
        assert!(steps.iter().all(|step| (23..=26).contains(step)), "{steps:?}");
    }

    #[test]
    fn far_out_the_normal_approximation_errs_on_the_safe_side() {
        // Sums with a p far below 0.05, just above 0.05, and just above 0.01.
        for (sum, excess) in [(162, None), (649, Some(0.0097)), (568, Some(0.0705))] {
            let exact = 2.0 * distribution(EXACT_MAX, sum).iter().sum::<f64>();
            let normal = p_normal(EXACT_MAX, sum as f64);
            assert!(normal > exact, "{exact} {normal}");
            if let Some(excess) = excess {
                assert!((normal / exact - 1.0 - excess).abs() < 1e-3, "{exact} {normal}");
            }
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
        fn untied_p_is_that_of_the_list(sizes in prop::collection::hash_set(1i32..500, 0..11), signs: u32) {
            let signed = sizes.iter().enumerate();
            let differences: Vec<f64> = signed
                .map(|(i, &size)| f64::from(if signs >> i & 1 == 1 { size } else { -size }))
                .collect();
            prop_assert_eq!(p(&differences), p_listed(&differences));
        }

        /// Whatever the sizes, at most the share `alpha` of all signs has a p of `alpha` or less.
        #[test]
        fn the_level_holds_with_any_ties(
            sizes in prop::collection::vec((0i32..4).prop_map(f64::from), 1..11), alpha in 0.002..0.5f64,
        ) {
            let all = 1u32 << sizes.len();
            let refused = (0..all).filter(|signs| {
                let signed = sizes.iter().enumerate();
                let differences: Vec<f64> =
                    signed.map(|(i, size)| if signs >> i & 1 == 1 { *size } else { -size }).collect();
                p(&differences) <= alpha
            });
            prop_assert!(refused.count() as f64 <= alpha * f64::from(all));
        }

        /// The interval holds 0 exactly if the test does not refuse 0, with ties or without.
        #[test]
        fn p_and_interval_agree(
            differences in prop::collection::vec((-6i32..12).prop_map(f64::from), 1..90), alpha in 0.0005..0.5f64,
        ) {
            let refused = p(&differences) <= alpha;
            let outside = interval(&differences, 1.0 - alpha).is_some_and(|(low, high)| low > 0.0 || high < 0.0);
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
