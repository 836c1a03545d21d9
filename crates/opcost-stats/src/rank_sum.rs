//! The rank-sum test of two groups of runs in an unknown order, with its estimate and interval.
//!
//! The test is for figures that others measured. It asks whether the two groups could be one,
//! shuffled (Mann & Whitney, Ann. Math. Statist. 18, 1947). Nothing in the figures can show that
//! the runs are exchangeable. Source: Hollander, Wolfe & Chicken, Nonparametric Statistical
//! Methods, 3rd ed., 2014, sections 4.1 to 4.3.

use crate::normal;
use crate::power;
use crate::summary::sorted;

/// The most runs of both groups for which p is exact; beyond, the normal approximation is used.
const EXACT_MAX: usize = 40;

/// Returns the two-sided p-value of the hypothesis that both groups of finite values are alike: the
/// largest level at which [`interval`] still holds 0.
///
/// The statistic is the number of pairs, with one value of each group, that are in the rarer order.
/// Equal values count for either order, and the distribution is the one without ties, as for the
/// interval: exact up to 40 runs, else the normal approximation, corrected for continuity. It is
/// valid with ties, since breaking ties at random could only make p smaller. 1 if a group is empty.
pub fn p(baseline: &[f64], variant: &[f64]) -> f64 {
    let Some(differences) = Differences::of(baseline, variant) else { return 1.0 };
    let not_below = differences.count - differences.below_zero();
    let rarer = differences.parted(0.0).at_most.min(not_below);
    let (m, n) = (baseline.len(), variant.len());
    if m + n > EXACT_MAX {
        let (mean, sd) = moments(m, n);
        return (2.0 * normal::upper_tail((mean - 0.5 - rarer as f64) / sd)).min(1.0);
    }
    let ways = ways_by_count(m, n);
    let all: f64 = ways.iter().sum();
    let within: f64 = ways[..=rarer].iter().sum();
    (2.0 * within / all).min(1.0)
}

/// Returns the smallest p of groups of this size: 2 over the number of ways to divide them.
pub fn p_floor(baseline: usize, variant: usize) -> f64 {
    let ways = (1..=baseline).fold(1.0, |ways, i| ways * (variant + i) as f64 / i as f64);
    (2.0 / ways).min(1.0)
}

/// Returns the fewest runs of each group with which p can reach `alpha`.
pub fn runs_min(alpha: f64) -> usize {
    (1..).find(|runs| p_floor(*runs, *runs) <= alpha).unwrap_or(usize::MAX)
}

/// Returns the Hodges-Lehmann estimate of variant − baseline: the median of all differences between
/// a value of one group and a value of the other. `None` if a group is empty.
pub fn estimate(baseline: &[f64], variant: &[f64]) -> Option<f64> {
    let differences = Differences::of(baseline, variant)?;
    let count = differences.count;
    Some(0.5 * (differences.nth((count - 1) / 2) + differences.nth(count / 2)))
}

/// Returns the interval of the shift at `level`, 0 < `level` < 1; its ends are differences between
/// the groups. `None` if there are too few runs for the level.
pub fn interval(baseline: &[f64], variant: &[f64], level: f64) -> Option<(f64, f64)> {
    let differences = Differences::of(baseline, variant)?;
    let k = tail_count(baseline.len(), variant.len(), (1.0 - level) / 2.0).checked_sub(1)?;
    Some((differences.nth(k), differences.nth(differences.count - 1 - k)))
}

/// Returns the smallest shift that such groups show at error rate `alpha` with probability
/// [`power::POWER`], from the width of the interval; `None` if `alpha` is out of reach.
pub fn detectable_shift(baseline: &[f64], variant: &[f64], alpha: f64) -> Option<f64> {
    let (low, high) = interval(baseline, variant, 1.0 - alpha)?;
    Some(power::shift_from_width(high - low, alpha, power::POWER))
}

/// Returns how many of the smallest differences may be left out at this probability: the largest k
/// with P(U < k) ≤ `tail`, where U is Mann and Whitney's statistic.
fn tail_count(m: usize, n: usize, tail: f64) -> usize {
    if m + n > EXACT_MAX {
        let (mean, sd) = moments(m, n);
        return (mean + 0.5 - normal::exceeded_with(tail) * sd).floor().max(0.0) as usize;
    }
    let ways = ways_by_count(m, n);
    let all: f64 = ways.iter().sum();
    let mut below = 0.0;
    ways.iter()
        .take_while(|ways| {
            below += **ways;
            // In floating point, 1 − 0.9 is a little less than a tenth.
            below / all <= tail * (1.0 + 1e-9)
        })
        .count()
}

/// Returns mean and standard deviation of Mann and Whitney's statistic.
fn moments(m: usize, n: usize) -> (f64, f64) {
    let (m, n) = (m as f64, n as f64);
    (m * n / 2.0, (m * n * (m + n + 1.0) / 12.0).sqrt())
}

/// Returns the number of ways to choose `m` of m + n untied values, by the number of pairs, from 0
/// to m·n, in which the chosen value is the larger one.
fn ways_by_count(m: usize, n: usize) -> Vec<f64> {
    let most = m * n;
    let mut ways = vec![vec![0.0; most + 1]; m + 1];
    ways[0][0] = 1.0;
    for value in 0..m + n {
        for taken in (1..=m.min(value + 1)).rev() {
            // Chosen as the `taken`-th, it is larger than all earlier values that were not chosen.
            let pairs = value + 1 - taken;
            let (fewer, more) = ways.split_at_mut(taken);
            for (count, ways) in fewer[taken - 1].iter().enumerate() {
                if let Some(sum) = more[0].get_mut(count + pairs) {
                    *sum += ways;
                }
            }
        }
    }
    ways.swap_remove(m)
}

/// All differences between two groups, in order, without listing them.
struct Differences {
    baseline: Vec<f64>,
    variant: Vec<f64>,
    count: usize,
}

impl Differences {
    fn of(baseline: &[f64], variant: &[f64]) -> Option<Differences> {
        let count = baseline.len() * variant.len();
        (count > 0).then(|| Differences {
            baseline: sorted(baseline),
            variant: sorted(variant),
            count,
        })
    }

    /// Returns the difference with `index` differences before it: bisection between the smallest and the largest difference leaves
    /// as few as there are runs, which are listed. Every other step halves the numbers in the order of their bits, so that
    /// steps are few for values of any spread; each ends at differences, so that they are few with ties.
    fn nth(&self, index: usize) -> f64 {
        let ends = [
            self.variant[0] - self.baseline[self.baseline.len() - 1],
            self.variant[self.variant.len() - 1] - self.baseline[0],
        ];
        let (mut low, mut high) = (place(ends[0] + 0.0), place(ends[1] + 0.0));
        let (mut before, mut upto) = (0, self.count);
        let listed_max = self.baseline.len() + self.variant.len();
        let mut by_bits = false;
        while low < high && upto - before > listed_max {
            let middle = match by_bits {
                true => (low & high) + ((low ^ high) >> 1),
                false => place(number(low).midpoint(number(high))).clamp(low, high - 1),
            };
            let parted = self.parted(number(middle));
            if parted.at_most > index {
                (high, upto) = (place(parted.largest), parted.at_most);
            } else {
                (low, before) = (place(parted.next), parted.at_most);
            }
            by_bits = !by_bits;
        }
        if low == high {
            return number(low);
        }
        let mut listed = self.between(number(low), number(high));
        *listed.select_nth_unstable_by(index - before, f64::total_cmp).1
    }

    /// Parts the differences at a limit.
    fn parted(&self, limit: f64) -> Parted {
        let mut parted = Parted { at_most: 0, largest: f64::NEG_INFINITY, next: f64::INFINITY };
        let mut upto = 0;
        for baseline in &self.baseline {
            while self.variant.get(upto).is_some_and(|variant| variant - baseline <= limit) {
                upto += 1;
            }
            parted.at_most += upto;
            if let Some(last) = upto.checked_sub(1) {
                parted.largest = parted.largest.max(self.variant[last] - baseline + 0.0);
            }
            if let Some(variant) = self.variant.get(upto) {
                parted.next = parted.next.min(variant - baseline + 0.0);
            }
        }
        parted
    }

    /// Lists the differences from `low` to `high`.
    fn between(&self, low: f64, high: f64) -> Vec<f64> {
        let mut first = 0;
        let mut listed = Vec::new();
        for baseline in &self.baseline {
            while self.variant.get(first).is_some_and(|variant| variant - baseline < low) {
                first += 1;
            }
            let differences = self.variant[first..].iter().map(|variant| variant - baseline + 0.0);
            listed.extend(differences.take_while(|difference| *difference <= high));
        }
        listed
    }

    /// Returns the number of differences below 0.
    fn below_zero(&self) -> usize {
        let mut below = 0;
        self.baseline
            .iter()
            .map(|baseline| {
                while self.variant.get(below).is_some_and(|variant| variant < baseline) {
                    below += 1;
                }
                below
            })
            .sum()
    }
}

/// Differences on either side of a limit.
struct Parted {
    /// The number of differences of at most the limit.
    at_most: usize,
    /// The largest of them.
    largest: f64,
    /// The smallest difference above the limit.
    next: f64,
}

/// Returns the place of a number in the order of all floating-point numbers (as `f64::total_cmp`).
fn place(number: f64) -> i64 {
    let bits = number.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

fn number(place: i64) -> f64 {
    f64::from_bits((place ^ (((place >> 63) as u64) >> 1) as i64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use proptest::prelude::*;

    #[test]
    fn groups_that_do_not_overlap_give_the_smallest_p() {
        let (one, two) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0, 9.0]);
        assert!((p(&one, &two) - 2.0 / 126.0).abs() < 1e-15);
        assert!((p_floor(4, 5) - 2.0 / 126.0).abs() < 1e-15);
        assert_eq!((runs_min(0.05), runs_min(0.025)), (4, 5));
        assert_eq!(p_floor(3, 3), 0.1);
    }

    #[test]
    fn hollander_and_wolfe_example_4_1() {
        // Water transfer in placentas, 10 at term and 5 earlier: W = 30 for the 5, one-sided p =
        // 0.127 (Hollander, Wolfe & Chicken, example 4.1).
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let early = [1.15, 0.88, 0.90, 0.74, 1.21];
        assert!((p(&term, &early) - 2.0 * 0.1272).abs() < 2e-4, "{}", p(&term, &early));
        assert!((estimate(&early, &term).unwrap() - 0.305).abs() < 1e-12);
        // Example 4.4: the interval at 96 % is −0.15 … 0.76.
        let (low, high) = interval(&early, &term, 0.95).unwrap();
        assert!((low + 0.15).abs() < 1e-12 && (high - 0.76).abs() < 1e-12, "{low} {high}");
    }

    #[test]
    fn ties_between_groups_count_against_a_change() {
        // One of the 20 ways to divide six values into threes is as extreme on either side.
        assert!((p(&[1.0; 3], &[2.0; 3]) - 0.1).abs() < 1e-15);
        assert_eq!(p(&[1.0; 9], &[1.0; 9]), 1.0);
        // One pair is equal and counts in the rarer order, so another of the 20 ways is as extreme.
        assert!((p(&[1.0, 1.0, 2.0], &[2.0, 3.0, 3.0]) - 0.2).abs() < 1e-15);
        assert_eq!(p(&[1.0; 90], &[1.0; 90]), 1.0);
        assert_eq!((p(&[], &[1.0]), estimate(&[], &[1.0])), (1.0, None));
    }

    #[test]
    fn too_few_runs_have_no_interval() {
        let (one, two) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
        assert_eq!(interval(&one, &two, 0.95), None);
        assert_eq!(interval(&one, &two, 0.9), Some((1.0, 5.0)));
        assert_eq!(detectable_shift(&one, &two, 0.05), None);
        // The interval is 4 wide: 2 × 1.645 standard errors. A shift of 1.645 + 1.282 is found.
        let shift = detectable_shift(&one, &two, 0.1).unwrap();
        assert!((shift - 3.558).abs() < 1e-3, "{shift}");
    }

    #[test]
    fn exact_and_approximate_p_meet() {
        let one: Vec<f64> = (0..20).map(f64::from).collect();
        let two: Vec<f64> = (0..20).map(|i| f64::from(i) + 5.5).collect();
        let exact = p(&one, &two);
        let mut longer = two.clone();
        longer.push(15.25);
        assert!((exact - p(&one, &longer)).abs() < 0.01, "{exact} {}", p(&one, &longer));
        assert!(tail_count(20, 20, 0.025).abs_diff(tail_count(20, 21, 0.025)) < 12);
    }

    #[test]
    fn equal_groups_differ_at_most_as_often_as_the_level_says() {
        let mut random = Random::new(5);
        for (m, n) in [(6, 9), (25, 30)] {
            let mut draw =
                |n: usize| -> Vec<f64> { (0..n).map(|_| random.unit_f64().powi(4)).collect() };
            let found = (0..2000).filter(|_| p(&draw(m), &draw(n)) <= 0.05).count();
            // 100 are expected; four standard deviations are 39.
            assert!(found <= 139, "{found} of 2000 with {m} and {n}");
        }
    }

    proptest! {
        #[test]
        fn differences_are_those_of_every_pair(
            one in prop::collection::vec(-50i32..50, 1..16), two in prop::collection::vec(-50i32..50, 1..16),
            power in 1i32..9,
        ) {
            // High powers spread the values over many orders of magnitude, so that most differences lie close together.
            let floats = |values: &[i32]| -> Vec<f64> { values.iter().map(|v| f64::from(*v).powi(power)).collect() };
            let (one, two) = (floats(&one), floats(&two));
            let all: Vec<f64> = two.iter().flat_map(|b| one.iter().map(move |a| b - a)).collect();
            let all = sorted(&all);
            let differences = Differences::of(&one, &two).unwrap();
            for (index, expected) in all.iter().enumerate() {
                prop_assert_eq!(differences.nth(index), *expected);
            }
            prop_assert!((p(&one, &two) - p(&two, &one)).abs() < 1e-12);
        }

        /// The interval holds 0 exactly if the test does not refuse 0, with ties or without.
        #[test]
        fn p_and_interval_agree(
            one in prop::collection::vec((-5i32..6).prop_map(f64::from), 1..30),
            two in prop::collection::vec((0i32..11).prop_map(f64::from), 1..30),
            alpha in 0.0005..0.5f64,
        ) {
            let refused = p(&one, &two) <= alpha;
            let outside = interval(&one, &two, 1.0 - alpha)
                .is_some_and(|(low, high)| low > 0.0 || high < 0.0);
            prop_assert_eq!(refused, outside);
        }

        /// Whatever the values, at most the share `alpha` of all ways to divide them has such a p.
        #[test]
        fn the_level_holds_with_any_ties(
            values in prop::collection::vec((0i32..4).prop_map(f64::from), 2..9), alpha in 0.01..0.6f64,
        ) {
            let (mut refused, mut ways) = (0, 0);
            for chosen in 0u32..1 << values.len() {
                if chosen.count_ones() as usize != values.len() / 2 {
                    continue;
                }
                let side = |wanted: bool| -> Vec<f64> {
                    let of = values.iter().enumerate();
                    of.filter(|(i, _)| (chosen >> i & 1 == 1) == wanted).map(|(_, v)| *v).collect()
                };
                ways += 1;
                refused += u32::from(p(&side(true), &side(false)) <= alpha);
            }
            prop_assert!(f64::from(refused) <= alpha * f64::from(ways));
        }

        #[test]
        fn places_keep_the_order(a: f64, b: f64) {
            prop_assume!(!a.is_nan() && !b.is_nan());
            prop_assert_eq!(place(a).cmp(&place(b)), a.total_cmp(&b));
            prop_assert_eq!(number(place(a)).to_bits(), a.to_bits());
        }
    }
}
