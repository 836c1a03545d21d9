//! Two groups of runs whose order is not known: the rank-sum test, its estimate and interval.
//!
//! For figures that others measured. The test asks whether the two groups could be one, shuffled
//! (Mann & Whitney, Ann. Math. Statist. 18, 1947); that the runs are exchangeable, nothing in the
//! figures can show. Source: Hollander, Wolfe & Chicken, Nonparametric Statistical Methods, 3rd
//! ed., 2014, sections 4.1 to 4.3.

use crate::normal;
use crate::power;
use crate::summary::sorted;

/// Up to this many runs of both groups p is exact; beyond, the normal approximation is used.
const EXACT_MAX: usize = 40;

/// The two-sided p-value of the hypothesis that both groups of finite values are alike.
///
/// Equal values share their mean rank; of up to 40 runs the distribution over every way to divide
/// these ranks is counted out, so ties cost no exactness. 1 if a group is empty.
pub fn p(baseline: &[f64], variant: &[f64]) -> f64 {
    let (m, n) = (baseline.len(), variant.len());
    if m == 0 || n == 0 {
        return 1.0;
    }
    let ranks = doubled_midranks(baseline, variant);
    let sum: u64 = ranks[..m].iter().sum();
    if m + n > EXACT_MAX {
        let total = (m + n) as f64;
        let mean = m as f64 * (total + 1.0);
        let squares: f64 = ranks.iter().map(|rank| (*rank as f64 - (total + 1.0)).powi(2)).sum();
        let variance = m as f64 * n as f64 / (total * (total - 1.0)) * squares;
        if variance <= 0.0 {
            return 1.0;
        }
        // Doubled ranks go in steps of two, of which half is the correction for continuity.
        let z = ((sum as f64 - mean).abs() - 1.0).max(0.0) / variance.sqrt();
        return (2.0 * normal::upper_tail(z)).min(1.0);
    }
    let ways = ways_by_sum(&ranks, m);
    let all: f64 = ways.iter().sum();
    let below: f64 = ways[..=sum as usize].iter().sum();
    let above: f64 = ways[sum as usize..].iter().sum();
    (2.0 * below.min(above) / all).min(1.0)
}

/// The smallest p that groups of this size can give: 2 over the number of ways to divide them.
pub fn p_floor(baseline: usize, variant: usize) -> f64 {
    let ways = (1..=baseline).fold(1.0, |ways, i| ways * (variant + i) as f64 / i as f64);
    (2.0 / ways).min(1.0)
}

/// The fewest runs of each group with which p can reach `alpha`.
pub fn runs_min(alpha: f64) -> usize {
    (1..).find(|runs| p_floor(*runs, *runs) <= alpha).unwrap_or(usize::MAX)
}

/// The Hodges-Lehmann estimate of variant − baseline: the median of all differences between a
/// value of one group and one of the other. `None` if a group is empty.
pub fn estimate(baseline: &[f64], variant: &[f64]) -> Option<f64> {
    let differences = Differences::of(baseline, variant)?;
    let count = differences.count;
    Some(0.5 * (differences.nth((count - 1) / 2) + differences.nth(count / 2)))
}

/// The interval of the shift at `level`, 0 < `level` < 1, between two of those differences.
/// `None` if so few runs cannot reach the level.
pub fn interval(baseline: &[f64], variant: &[f64], level: f64) -> Option<(f64, f64)> {
    let differences = Differences::of(baseline, variant)?;
    let k = tail_count(baseline.len(), variant.len(), (1.0 - level) / 2.0).checked_sub(1)?;
    Some((differences.nth(k), differences.nth(differences.count - 1 - k)))
}

/// The smallest shift that such groups show at error rate `alpha` with probability
/// [`power::POWER`], read off the width of the interval; `None` if `alpha` is out of reach.
pub fn detectable_shift(baseline: &[f64], variant: &[f64], alpha: f64) -> Option<f64> {
    let (low, high) = interval(baseline, variant, 1.0 - alpha)?;
    Some(power::shift_from_width(high - low, alpha, power::POWER))
}

/// How many of the smallest differences may be left out at this probability: the most k with
/// P(U < k) ≤ `tail`, U Mann and Whitney's statistic.
fn tail_count(m: usize, n: usize, tail: f64) -> usize {
    if m + n > EXACT_MAX {
        let (m, n) = (m as f64, n as f64);
        let spread = (m * n * (m + n + 1.0) / 12.0).sqrt();
        return (m * n / 2.0 - normal::exceeded_with(tail) * spread).floor().max(0.0) as usize;
    }
    let ranks: Vec<u64> = (1..=(m + n) as u64).collect();
    let ways = ways_by_sum(&ranks, m);
    let all: f64 = ways.iter().sum();
    let least = m * (m + 1) / 2;
    let mut below = 0.0;
    ways[least..]
        .iter()
        .take_while(|ways| {
            below += **ways;
            // 1 − 0.9 is a little less than a tenth.
            below / all <= tail * (1.0 + 1e-9)
        })
        .count()
}

/// Twice the rank of every value among all, equal ones sharing their mean; the baseline's first.
fn doubled_midranks(baseline: &[f64], variant: &[f64]) -> Vec<u64> {
    let all: Vec<f64> = baseline.iter().chain(variant).copied().collect();
    let order = sorted(&all);
    all.iter()
        .map(|value| {
            let before = order.partition_point(|other| other < value);
            let upto = order.partition_point(|other| other <= value);
            (before + upto + 1) as u64
        })
        .collect()
}

/// In how many ways `m` of the ranks have each sum.
fn ways_by_sum(ranks: &[u64], m: usize) -> Vec<f64> {
    let most: u64 = ranks.iter().sum();
    let mut ways = vec![vec![0.0; most as usize + 1]; m + 1];
    ways[0][0] = 1.0;
    for (index, rank) in ranks.iter().enumerate() {
        for taken in (1..=m.min(index + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(taken);
            let shifted = &fewer[taken - 1][..=(most - rank) as usize];
            for (sum, ways) in shifted.iter().enumerate() {
                more[0][sum + *rank as usize] += ways;
            }
        }
    }
    ways.swap_remove(m)
}

/// All differences between two groups, in order, without making them.
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

    /// The difference with this many before it, by halving the numbers between the smallest and
    /// the largest in the order of their bits.
    fn nth(&self, index: usize) -> f64 {
        let ends = [
            self.variant[0] - self.baseline[self.baseline.len() - 1],
            self.variant[self.variant.len() - 1] - self.baseline[0],
        ];
        let (mut low, mut high) = (place(ends[0]), place(ends[1]));
        while low < high {
            let middle = (low & high) + ((low ^ high) >> 1);
            if self.at_most(number(middle)) > index { high = middle } else { low = middle + 1 }
        }
        number(low)
    }

    /// How many differences are at most this.
    fn at_most(&self, limit: f64) -> usize {
        let mut upto = 0;
        self.baseline
            .iter()
            .map(|baseline| {
                while self.variant.get(upto).is_some_and(|variant| variant - baseline <= limit) {
                    upto += 1;
                }
                upto
            })
            .sum()
    }
}

/// The place of a number in the order of all floating-point numbers (as `f64::total_cmp`).
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
        // Water transfer in placentas, 10 at term and 5 earlier: W = 30 for the 5, one-sided
        // p = 0.127 (Hollander, Wolfe & Chicken, example 4.1).
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let early = [1.15, 0.88, 0.90, 0.74, 1.21];
        assert!((p(&term, &early) - 2.0 * 0.1272).abs() < 2e-4, "{}", p(&term, &early));
        assert!((estimate(&early, &term).unwrap() - 0.305).abs() < 1e-12);
        // Example 4.4: the interval at 96 % is −0.15 … 0.76.
        let (low, high) = interval(&early, &term, 0.95).unwrap();
        assert!((low + 0.15).abs() < 1e-12 && (high - 0.76).abs() < 1e-12, "{low} {high}");
    }

    #[test]
    fn ties_are_counted_out() {
        // Of the 20 ways to divide 1 1 1 2 2 2 into threes one is as extreme on either side.
        assert!((p(&[1.0; 3], &[2.0; 3]) - 0.1).abs() < 1e-15);
        assert_eq!(p(&[1.0; 9], &[1.0; 9]), 1.0);
        assert_eq!(p(&[1.0; 90], &[1.0; 90]), 1.0);
        assert_eq!((p(&[], &[1.0]), estimate(&[], &[1.0])), (1.0, None));
    }

    #[test]
    fn too_few_runs_have_no_interval() {
        let (one, two) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
        assert_eq!(interval(&one, &two, 0.95), None);
        assert_eq!(interval(&one, &two, 0.9), Some((1.0, 5.0)));
        assert_eq!(detectable_shift(&one, &two, 0.05), None);
        // The interval is 4 wide, 2 × 1.645 standard errors; 1.645 + 1.282 of them are found.
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
            // 100 expected; four standard deviations are 39.
            assert!(found <= 139, "{found} of 2000 with {m} and {n}");
        }
    }

    proptest! {
        #[test]
        fn differences_are_those_of_every_pair(
            one in prop::collection::vec(-50i32..50, 1..12), two in prop::collection::vec(-50i32..50, 1..12),
        ) {
            let floats = |values: &[i32]| -> Vec<f64> { values.iter().map(|v| f64::from(*v)).collect() };
            let (one, two) = (floats(&one), floats(&two));
            let all: Vec<f64> = two.iter().flat_map(|b| one.iter().map(move |a| b - a)).collect();
            let all = sorted(&all);
            let differences = Differences::of(&one, &two).unwrap();
            for (index, expected) in all.iter().enumerate() {
                prop_assert_eq!(differences.nth(index), *expected);
            }
            prop_assert!((p(&one, &two) - p(&two, &one)).abs() < 1e-12);
        }

        #[test]
        fn places_keep_the_order(a: f64, b: f64) {
            prop_assume!(!a.is_nan() && !b.is_nan());
            prop_assert_eq!(place(a).cmp(&place(b)), a.total_cmp(&b));
            prop_assert_eq!(number(place(a)).to_bits(), a.to_bits());
        }
    }
}
