//! An early look at the counts of two programs, long before the signed-rank test can decide.
//!
//! Counts of an emulated machine have no drift: each seed and layout gives its own count at any time.
//! The counts of two programs that differ only in layout therefore come from one distribution, and
//! their two groups are exchangeable. If both sides share a seed, their two counts are more alike,
//! which only makes it rarer that the groups lie apart.
//!
//! **A recording of exact counts may stop at one look.** The look is a rank-sum test: counts have no drift, so under equal
//! variants the runs of both sides are one shuffled group. With five pairs its p can be 2 in 252; the signed-rank test's can
//! be 1 in 16. opcost takes the look's level off the primary metric's level beforehand.

use crate::summary::median;
use crate::{rank_sum, relevance};

/// The part of the primary metric's level that the look may spend, over all comparisons.
pub const LEVEL: f64 = 0.008;

/// Returns the fewest pairs with which a look can find a change in each of `comparisons` within
/// [`LEVEL`], and which show how far layouts shift a count.
pub fn pairs(comparisons: usize) -> u32 {
    let needed = rank_sum::runs_min(LEVEL / comparisons.max(1) as f64);
    needed.max(relevance::COUNTS_MIN) as u32
}

/// Returns the p-value of a look: the rank-sum test's p-value, if the medians of the two groups of
/// counts, one for each seed and layout, are farther apart than layouts shift either group; else 1.
pub fn p(baseline: &[f64], variant: &[f64]) -> f64 {
    let floors = [baseline, variant].map(relevance::floor);
    let medians = [baseline, variant].map(median);
    let ([Some(one), Some(two)], [Some(before), Some(after)]) = (floors, medians) else {
        return 1.0;
    };
    match (after - before).abs() > one.max(two) {
        true => rank_sum::p(baseline, variant),
        false => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_takes_five_pairs_for_one_comparison() {
        assert_eq!([0, 1, 2, 3, 4, 13].map(pairs), [5, 5, 6, 6, 7, 7]);
    }

    #[test]
    fn known_answers() {
        let counts = [1000.0, 1001.0, 1002.0, 1003.0, 1004.0];
        let shifted = |by: f64| counts.map(|count| count + by);
        // Ten counts can be divided in 252 ways; two of them are as far apart.
        assert_eq!(p(&counts, &shifted(50.0)), 2.0 / 252.0);
        assert_eq!(p(&counts, &shifted(-50.0)), 2.0 / 252.0);
        // Apart, but by less than layouts may shift a count: deviations 2 1 0 1 2, so 4.1.
        assert_eq!(p(&counts, &shifted(4.05)), 1.0);
        assert_eq!(p(&counts, &counts), 1.0);
        assert_eq!(p(&counts[..4], &shifted(50.0)[..4]), 1.0, "four layouts show no floor");
        // If all layouts have the same count, any difference is beyond a floor of 0.
        assert_eq!(p(&[7.0; 5], &[8.0; 5]), 2.0 / 252.0);
    }
}
