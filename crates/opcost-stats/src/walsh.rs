//! Order statistics of the Walsh averages (xᵢ + xⱼ)/2, i ≤ j, without listing them.
//!
//! n values have n(n + 1)/2 averages. In sorted values, one walk of n steps along the boundary
//! counts the averages that are at most v, so bisection over v finds the k-th smallest (the idea of
//! Johnson & Mizoguchi, "Selecting the Kth Element in X + Y and X₁ + … + Xₘ", SIAM J. Comput. 7(2),
//! 1978).

use crate::summary;

/// The Walsh averages of a set of values.
pub(crate) struct Walsh {
    /// Half of each value, ascending: a sum of two halves is an average, and cannot overflow.
    halves: Vec<f64>,
}

/// The share of the averages between the ends by which the first two steps overshoot.
const MARGIN: f64 = 0.05;
/// The number of steps that assume evenly spread averages.
const EVEN_STEPS: i32 = 24;

/// The averages on both sides of a value.
struct Split {
    /// The number of averages that are at most the value.
    at_most: u64,
    /// The largest average that is at most the value.
    below: f64,
    /// The smallest average above the value.
    above: f64,
}

impl Walsh {
    /// Takes the averages of finite values.
    pub(crate) fn new(values: &[f64]) -> Walsh {
        let mut halves: Vec<f64> = values.iter().map(|value| value / 2.0).collect();
        halves.sort_unstable_by(f64::total_cmp);
        Walsh { halves }
    }

    /// Returns the number of averages.
    pub(crate) fn count(&self) -> u64 {
        let n = self.halves.len() as u64;
        n * (n + 1) / 2
    }

    /// Returns the `k`-th smallest average, from 1; `None` if there is none.
    pub(crate) fn nth(&self, k: u64) -> Option<f64> {
        if k == 0 || k > self.count() {
            return None;
        }
        // Both ends are averages, and the answer is neither below `low` nor above `high`. Each step
        // moves an end to an average on the right side of a value between the ends. The value is
        // where the answer would be if the averages were evenly spread, plus and minus a margin in
        // turn, so that both ends close in; the margin shrinks with the steps. If this does not
        // suffice, halving the numbers between the ends takes 64 steps at most.
        let mut low = 2.0 * self.halves[0];
        let mut high = 2.0 * self.halves[self.halves.len() - 1];
        let (mut below_low, mut to_high) = (0, self.count());
        // The most averages to list: as many as a step looks at.
        let listed_max = self.halves.len() as u64;
        for step in 0i32.. {
            if low >= high {
                break;
            }
            if to_high - below_low <= listed_max {
                return self.nth_between(low, high, (k - below_low) as usize);
            }
            let share = (k - below_low) as f64 / (to_high - below_low) as f64;
            let margin = MARGIN * 0.25f64.powi(step / 2);
            let share = if step % 2 == 0 { share + margin } else { share - margin };
            let even = low + (high - low) * share;
            // Halve instead if the difference overflows or rounds to an end.
            let value = if step < EVEN_STEPS && low <= even && even < high {
                even
            } else {
                middle(low, high)
            };
            let split = self.split(value);
            if split.at_most >= k {
                (high, to_high) = (split.below, split.at_most);
            } else {
                (low, below_low) = (split.above, split.at_most);
            }
        }
        Some(low)
    }

    /// Returns the number of averages that are at most a value.
    pub(crate) fn at_most(&self, value: f64) -> u64 {
        self.split(value).at_most
    }

    /// Returns the number of averages below a value.
    pub(crate) fn below(&self, value: f64) -> u64 {
        // Opposite signs reverse the order; the mirrored count is of averages at least as large.
        let mirrored = Walsh { halves: self.halves.iter().rev().map(|half| -half).collect() };
        self.count() - mirrored.split(-value).at_most
    }

    /// Returns the averages on both sides of a value.
    fn split(&self, value: f64) -> Split {
        let halves = &self.halves;
        let mut split = Split { at_most: 0, below: f64::NEG_INFINITY, above: f64::INFINITY };
        let (mut i, mut j) = (0, halves.len());
        // If the i-th and the last of the others add up to at most `value`, so does the i-th with
        // each between. The code has no jump, because no processor could predict one here.
        while i < j {
            let average = halves[i] + halves[j - 1];
            let fits = average <= value;
            split.at_most += if fits { (j - i) as u64 } else { 0 };
            split.below = if fits && average > split.below { average } else { split.below };
            split.above = if !fits && average < split.above { average } else { split.above };
            i += usize::from(fits);
            j -= usize::from(!fits);
        }
        split
    }

    /// Lists the averages from `low` to `high`, and returns the `k`-th smallest of them, from 1.
    fn nth_between(&self, low: f64, high: f64, k: usize) -> Option<f64> {
        let halves = &self.halves;
        let mut listed = Vec::with_capacity(halves.len());
        let (mut begin, mut end) = (halves.len(), halves.len());
        for (i, &first) in halves.iter().enumerate() {
            while begin > i && first + halves[begin - 1] >= low {
                begin -= 1;
            }
            while end > i && first + halves[end - 1] > high {
                end -= 1;
            }
            listed.extend(halves[begin.max(i)..end.max(i)].iter().map(|second| first + second));
        }
        let (_, nth, _) = listed.select_nth_unstable_by(k - 1, f64::total_cmp);
        Some(*nth)
    }

    /// Returns the median of the averages: the Hodges-Lehmann estimate.
    pub(crate) fn median(&self) -> Option<f64> {
        let count = self.count();
        let low = self.nth(count.div_ceil(2))?;
        if !count.is_multiple_of(2) {
            return Some(low);
        }
        // The next average upwards may be equal.
        let split = self.split(low);
        let high = if split.at_most > count / 2 { low } else { split.above };
        Some(summary::midpoint(low, high))
    }
}

/// Returns a number from `low` to just below `high` that halves the floating-point numbers between.
fn middle(low: f64, high: f64) -> f64 {
    let sum = i128::from(position(low)) + i128::from(position(high));
    let position = (sum >> 1) as i64;
    f64::from_bits((position ^ sign_fill(position)) as u64)
}

/// Returns a number's position among all floating-point numbers (as in `f64::total_cmp`).
fn position(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ sign_fill(bits)
}

/// Returns all bits except the sign's for a negative number, and 0 for others.
fn sign_fill(bits: i64) -> i64 {
    (((bits >> 63) as u64) >> 1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn listed(values: &[f64]) -> Vec<f64> {
        let mut averages = Vec::new();
        for i in 0..values.len() {
            for j in i..values.len() {
                averages.push(values[i] / 2.0 + values[j] / 2.0);
            }
        }
        summary::sorted(&averages)
    }

    fn check(values: &[f64]) {
        let (walsh, listed) = (Walsh::new(values), listed(values));
        assert_eq!(walsh.count(), listed.len() as u64);
        for (index, average) in listed.iter().enumerate() {
            assert_eq!(walsh.nth(index as u64 + 1), Some(*average), "{index} of {values:?}");
        }
        assert_eq!(walsh.nth(0), None);
        assert_eq!(walsh.nth(walsh.count() + 1), None);
        assert_eq!(walsh.median(), summary::median(&listed));
    }

    #[test]
    fn extremes() {
        check(&[]);
        check(&[0.0]);
        check(&[-0.0, 0.0, 0.0]);
        check(&[f64::MAX, f64::MAX, f64::MIN, 1e-300, -1e-300]);
        check(&[1e-9, 1e-3, -1e-6, 1e9]);
    }

    #[test]
    fn the_middle_is_between() {
        for (low, high) in [
            (-1.0, 1.0),
            (0.0, f64::MIN_POSITIVE),
            (1.0, 1.0 + f64::EPSILON),
            (f64::MIN, f64::MAX),
            (-0.0, 5e-324),
        ] {
            let middle = middle(low, high);
            assert!(low <= middle && middle < high, "{low} {middle} {high}");
        }
    }

    proptest! {
        #[test]
        fn every_order_statistic_is_that_of_the_list(values in prop::collection::vec(any::<f64>().prop_filter("finite", |v| v.is_finite()), 1..14)) {
            check(&values);
        }

        #[test]
        fn with_many_ties_too(values in prop::collection::vec((-3i32..4).prop_map(f64::from), 1..14)) {
            check(&values);
        }
    }
}
