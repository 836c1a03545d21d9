//! Totals that are the same in every run; they are compared without a test.

use std::num::NonZeroU64;

/// The count of a run: a raw total, and the number of operations that it is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Total {
    /// The raw integer.
    pub value: u64,
    /// The operations; 1 for a command, and for a metric that does not grow with operations.
    pub ops: NonZeroU64,
}

impl Total {
    /// Returns the figure per operation.
    pub fn per_op(self) -> f64 {
        self.value as f64 / self.ops.get() as f64
    }
}

/// Whether a metric is the same in every run of a variant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exactness {
    /// Each variant has two or more runs, all alike within the variant: the difference between the
    /// variants is exact, and has no p-value.
    Exact {
        /// The total of every run of the baseline.
        baseline: Total,
        /// The total of every run of the variant.
        variant: Total,
    },
    /// Runs of a variant differ, or a variant has fewer than two runs to show that they do not.
    Varies,
}

/// Tells whether all runs of the baseline are alike, and all runs of the variant.
///
/// Runs are alike if they counted the same total for the same number of operations.
pub fn exact(baseline: &[Total], variant: &[Total]) -> Exactness {
    match (only(baseline), only(variant)) {
        (Some(baseline), Some(variant)) => Exactness::Exact { baseline, variant },
        _ => Exactness::Varies,
    }
}

/// Returns the total of two or more runs, if all have the same.
fn only(runs: &[Total]) -> Option<Total> {
    let first = *runs.first()?;
    (runs.len() >= 2 && runs.iter().all(|run| *run == first)).then_some(first)
}

impl Exactness {
    /// Returns the change of the figure per operation of exact totals, variant/baseline − 1.
    ///
    /// The integers are compared, so equal figures give 0 and small changes of large totals lose
    /// nothing. `None` if runs vary, or if the baseline counted 0 and the variant did not.
    pub fn change_ratio(&self) -> Option<f64> {
        let Exactness::Exact { baseline, variant } = self else {
            return None;
        };
        // The common denominator is baseline.ops · variant.ops; each product is below 2^128.
        let was = u128::from(baseline.value) * u128::from(variant.ops.get());
        let is = u128::from(variant.value) * u128::from(baseline.ops.get());
        if is == was {
            return Some(0.0);
        }
        let size = is.abs_diff(was) as f64;
        let change = if is > was { size } else { -size };
        (was > 0).then(|| change / was as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn total(value: u64, ops: u64) -> Total {
        Total { value, ops: NonZeroU64::new(ops).unwrap() }
    }

    #[test]
    fn alike_runs_are_exact() {
        let got = exact(&[total(1000, 10); 2], &[total(1100, 10); 3]);
        assert_eq!(got, Exactness::Exact { baseline: total(1000, 10), variant: total(1100, 10) });
        assert_eq!(got.change_ratio(), Some(0.1));
        assert_eq!(total(1957, 1000).per_op(), 1.957);
    }

    #[test]
    fn one_run_or_one_difference_is_not() {
        let alike = [total(7, 1); 3];
        for other in [
            vec![],
            vec![total(7, 1)],
            vec![total(7, 1), total(8, 1)],
            vec![total(7, 1), total(7, 1), total(14, 2)],
        ] {
            assert_eq!(exact(&alike, &other), Exactness::Varies, "{other:?}");
            assert_eq!(exact(&other, &alike), Exactness::Varies, "{other:?}");
        }
        assert_eq!(Exactness::Varies.change_ratio(), None);
    }

    #[test]
    fn changes_are_per_operation() {
        let change = |baseline, variant| exact(&[baseline; 2], &[variant; 2]).change_ratio();
        assert_eq!(change(total(1, 3), total(2, 6)), Some(0.0));
        assert_eq!(change(total(100, 10), total(100, 20)), Some(-0.5));
        assert_eq!(change(total(0, 1), total(0, 9)), Some(0.0));
        assert_eq!(change(total(0, 1), total(1, 1)), None);
        assert_eq!(change(total(1, 1), total(0, 1)), Some(-1.0));
        // One more in 2⁶⁰ is below the resolution of a quotient minus 1, but is kept.
        let many = 1 << 60;
        assert_eq!(change(total(many, 1), total(many + 1, 1)), Some(0.5f64.powi(60)));
        assert_eq!(change(total(u64::MAX, u64::MAX), total(1, 1)), Some(0.0));
    }

    proptest! {
        #[test]
        fn the_change_is_the_quotient_less_one(a in 1u64..1_000_000, b in 0u64..1_000_000, m in 1u64..1000, n in 1u64..1000) {
            let (baseline, variant) = (total(a, m), total(b, n));
            let change = exact(&[baseline; 2], &[variant; 2]).change_ratio().unwrap();
            prop_assert!((change - (variant.per_op() / baseline.per_op() - 1.0)).abs() < 1e-9 * (1.0 + change));
        }
    }
}
