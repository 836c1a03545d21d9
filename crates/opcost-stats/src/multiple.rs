//! Many tests in one report: adjusted p-values, and one error rate for all tests.

/// Returns the p-values adjusted by Holm's method, in the order given.
///
/// If every metric with an adjusted p of at most α is declared changed, the probability of even one
/// false alarm is at most α, whatever the dependence (Holm, "A Simple Sequentially Rejective Multiple
/// Test Procedure", Scandinavian Journal of Statistics 6, 1979). Each `p` is from 0 to 1.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![0.0; p.len()];
    let mut largest = 0f64;
    for (rank, index) in ascending(p).into_iter().enumerate() {
        largest = largest.max(((p.len() - rank) as f64 * p[index]).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

/// Returns the p-values adjusted by Benjamini and Hochberg's method, in the order given.
///
/// If every metric with an adjusted p of at most α is declared changed, the expected share of false
/// alarms among the declared is at most α, for independent or positively dependent tests
/// ("Controlling the False Discovery Rate", J. R. Statist. Soc. B 57, 1995). If nothing changed, this
/// share is the probability of any false alarm. Each `p` is from 0 to 1.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![0.0; p.len()];
    let mut smallest = 1f64;
    for (rank, index) in ascending(p).into_iter().enumerate().rev() {
        smallest = smallest.min(p.len() as f64 / (rank + 1) as f64 * p[index]);
        adjusted[index] = smallest;
    }
    adjusted
}

fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    order
}

/// A part of a report's tests with an error rate of its own.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Family {
    /// The primary metric, declared before the run: one test for each compared variant.
    Primary,
    /// The figures that people decide by.
    Headline,
    /// Every other metric; and the functions of a profile, adjusted apart from these if any metric
    /// changed.
    Rest,
}

impl Family {
    /// Every family, in the order of reports.
    pub const ALL: [Family; 3] = [Family::Primary, Family::Headline, Family::Rest];

    /// Returns the adjusted p-values of all tests of this family, in the order given: by Holm's
    /// method for [`Primary`](Family::Primary) and [`Headline`](Family::Headline), by Benjamini and
    /// Hochberg's for [`Rest`](Family::Rest).
    pub fn adjust(self, p: &[f64]) -> Vec<f64> {
        match self {
            Family::Primary | Family::Headline => holm(p),
            Family::Rest => benjamini_hochberg(p),
        }
    }

    /// Returns the level that decides for all tests of the family at once: [`adjust`](Self::adjust)
    /// at `level` declares changed exactly the metrics with a `p` of at most this level.
    ///
    /// Intervals of all members are stated at this level, so an interval holds 0 exactly if its
    /// metric was not declared. With R of m declared, the level is level/(m − R + 1) by Holm's method
    /// and R·level/m by Benjamini and Hochberg's; R counts as one if nothing was declared. Among the
    /// intervals of declared metrics, a share of at most `level` is expected to miss (Benjamini &
    /// Yekutieli, "False Discovery Rate-Adjusted Multiple Confidence Intervals for Selected
    /// Parameters", JASA 100, 2005; their level is the second, which is never below the first).
    pub fn decision_level(self, p: &[f64], level: f64) -> f64 {
        let tests = p.len().max(1);
        let declared = self.adjust(p).iter().filter(|adjusted| **adjusted <= level).count().max(1);
        match self {
            Family::Primary | Family::Headline => level / (tests - declared + 1) as f64,
            Family::Rest => level * declared as f64 / tests as f64,
        }
    }
}

/// Returns the weights by which the tests of a family draw on its level, in the order given; their mean is 1.
///
/// `is_side`: whether a test is a side test. At most `planned` side tests count as tests like any other. If there are more,
/// they share the level of `planned` tests, so further side tests leave every other test the level that it had. A test's
/// p-value over its weight is corrected as an unweighted one, and its level is the family's decision level times its weight
/// (Genovese, Roeder & Wasserman, "False Discovery Control with p-Value Weighting", Biometrika 93, 2006).
pub fn side_weights(is_side: &[bool], planned: usize) -> Vec<f64> {
    let side = is_side.iter().filter(|side| **side).count();
    let planned = planned.max(1);
    if side <= planned {
        return vec![1.0; is_side.len()];
    }
    let others = is_side.len() - side;
    let other = is_side.len() as f64 / (others + planned) as f64;
    let weight = |side_test: &bool| match side_test {
        true => other * planned as f64 / side as f64,
        false => other,
    };
    is_side.iter().map(weight).collect()
}

/// The error rate of a whole report, split over its families.
///
/// The levels add up: the probability that a report on two equal variants declares any change is at
/// most their sum (Bonferroni over families, [`Family::adjust`] within).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// The level of the primary metric.
    pub primary: f64,
    /// The level of all headline metrics together.
    pub headline: f64,
    /// The level of all other metrics together.
    pub rest: f64,
}

impl Default for Budget {
    /// 0.05 a report: 0.025 primary, 0.015 headline, 0.010 rest.
    fn default() -> Self {
        Budget { primary: 0.025, headline: 0.015, rest: 0.010 }
    }
}

impl Budget {
    /// Returns the budget for runs that stop at the first narrow interval: four fifths of every
    /// level, since repeated looks make false alarms and misses up to a fifth more frequent (by
    /// simulation, in the crate's tests).
    pub fn for_stopping_on_width(self) -> Budget {
        let Budget { primary, headline, rest } = self;
        Budget { primary: 0.8 * primary, headline: 0.8 * headline, rest: 0.8 * rest }
    }

    /// Returns the budget after a look that may have spent `spent` of the primary metric's level.
    pub fn after_early_look(self, spent: f64) -> Budget {
        Budget { primary: (self.primary - spent).max(0.0), ..self }
    }

    /// Returns the level of a family, with which its adjusted p-values are compared.
    pub fn level(&self, family: Family) -> f64 {
        match family {
            Family::Primary => self.primary,
            Family::Headline => self.headline,
            Family::Rest => self.rest,
        }
    }

    /// Returns the level that the smallest p of a family of `tests` tests must reach for any test to
    /// be declared changed: the family's level over `tests`, by either method.
    ///
    /// No tests count as one. This is the level of [`blocks_min`](crate::power::blocks_min), and of
    /// intervals if nothing was declared ([`Family::decision_level`]).
    pub fn level_of_smallest(&self, family: Family, tests: usize) -> f64 {
        self.level(family) / tests.max(1) as f64
    }

    /// Returns the error rate of the whole report.
    pub fn total(&self) -> f64 {
        self.primary + self.headline + self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The fifteen p-values of the example of Benjamini & Hochberg 1995.
    const P: [f64; 15] = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
        0.5719, 0.6528, 0.7590, 1.0,
    ];

    fn check(adjust: fn(&[f64]) -> Vec<f64>, expected: [f64; 15]) {
        let close = |got: &[f64], expected: &[f64]| {
            for (got, expected) in got.iter().zip(expected) {
                assert!((got - expected).abs() < 1e-8, "{got} is not {expected}");
            }
        };
        close(&adjust(&P), &expected);
        // The same values in another order: results follow their inputs.
        let order = [7, 0, 14, 3, 9, 1, 12, 5, 2, 13, 4, 8, 11, 6, 10];
        close(&adjust(&order.map(|i| P[i])), &order.map(|i| expected[i]));
    }

    #[test]
    fn holm_known_answer() {
        check(
            holm,
            [
                0.0015, 0.0056, 0.0247, 0.114, 0.2211, 0.278, 0.278, 0.278, 0.3213, 1.0, 1.0, 1.0,
                1.0, 1.0, 1.0,
            ],
        );
    }

    #[test]
    fn benjamini_hochberg_known_answer() {
        let adjusted = [
            0.0015,
            0.003,
            0.0095,
            0.035625,
            0.0603,
            0.06385714286,
            0.06385714286,
            0.0645,
            0.0765,
            0.486,
            0.58118181818,
            0.714875,
            0.75323076923,
            0.81321428571,
            1.0,
        ];
        check(benjamini_hochberg, adjusted);
        // The paper rejects four at 0.05; Bonferroni and Holm reject three.
        assert_eq!(adjusted.iter().filter(|&&p| p <= 0.05).count(), 4);
        assert_eq!(holm(&P).iter().filter(|&&p| p <= 0.05).count(), 3);
    }

    #[test]
    fn side_tests_share_what_was_planned_for_them() {
        let sides = |others: usize, side: usize| [vec![false; others], vec![true; side]].concat();
        assert_eq!(side_weights(&sides(3, 10), 10), vec![1.0; 13]);
        for (others, side, planned) in [(3, 11, 10), (1, 40, 5), (0, 7, 5), (4, 2, 0)] {
            let weights = side_weights(&sides(others, side), planned);
            let (tests, kept) = ((others + side) as f64, planned.max(1));
            assert!((weights.iter().sum::<f64>() - tests).abs() < 1e-9);
            // A test that is no side test has the level that it had with the planned number.
            for weight in &weights[..others] {
                assert!((0.01 / tests * weight - 0.01 / (others + kept) as f64).abs() < 1e-12);
            }
            let sum: f64 = weights[others..].iter().map(|weight| 0.01 / tests * weight).sum();
            assert!((sum - 0.01 * kept as f64 / (others + kept) as f64).abs() < 1e-12);
        }
    }

    #[test]
    fn none_and_one() {
        assert!(holm(&[]).is_empty() && benjamini_hochberg(&[]).is_empty());
        assert_eq!((holm(&[0.03]), benjamini_hochberg(&[0.03])), (vec![0.03], vec![0.03]));
    }

    #[test]
    fn the_default_budget() {
        let budget = Budget::default();
        assert!((budget.total() - 0.05).abs() < 1e-15);
        assert_eq!(budget.level_of_smallest(Family::Primary, 1), 0.025);
        assert_eq!(budget.level_of_smallest(Family::Headline, 6), 0.0025);
        assert_eq!(budget.level_of_smallest(Family::Rest, 40), 0.00025);
        assert_eq!(budget.level_of_smallest(Family::Rest, 0), 0.010);
    }

    #[test]
    fn one_level_decides_for_all() {
        let p = [0.001, 0.02, 0.004, 0.7];
        // Holm: 0.001 ≤ 0.05/4 and 0.004 ≤ 0.05/3, but 0.02 ≤ 0.05/2 as well; 0.7 is above 0.05.
        assert_eq!(Family::Headline.decision_level(&p, 0.05), 0.05 / 2.0);
        assert_eq!(Family::Headline.decision_level(&p, 0.01), 0.01 / 4.0);
        // Benjamini and Hochberg: three of four at 0.05, one of four at 0.004.
        assert!((Family::Rest.decision_level(&p, 0.05) - 0.0375).abs() < 1e-15);
        assert_eq!(Family::Rest.decision_level(&p, 0.004), 0.001);
        assert_eq!(Family::Rest.decision_level(&[0.9, 0.8], 0.05), 0.025);
        assert_eq!(Family::Primary.decision_level(&[], 0.025), 0.025);
    }

    proptest! {
        #[test]
        fn what_is_declared_is_what_the_deciding_level_refuses(
            p in prop::collection::vec((0.0..1.0f64).prop_map(|p| p.powi(4)), 1..30), level in 0.001..0.2f64,
        ) {
            for family in Family::ALL {
                let decisive = family.decision_level(&p, level);
                for (p, adjusted) in p.iter().zip(family.adjust(&p)) {
                    prop_assert_eq!(*p <= decisive, adjusted <= level, "{}", p);
                }
                // `level` times tests over tests may round up.
                let rounded = level * (1.0 + f64::EPSILON);
                prop_assert!(decisive <= rounded && decisive >= level / p.len() as f64);
            }
        }

        #[test]
        fn the_smallest_decides_at_level_over_tests(
            p in prop::collection::vec(0.001..=1.0f64, 1..30), pick in 0usize..30, over: bool,
        ) {
            // All others are above the level, so only the smallest p can be declared.
            let budget = Budget::default();
            for family in Family::ALL {
                let need = budget.level_of_smallest(family, p.len());
                let mut p: Vec<f64> = p.iter().map(|p| p.max(0.03)).collect();
                let pick = pick % p.len();
                p[pick] = if over { need * 1.001 } else { need * 0.999 };
                let declared = family.adjust(&p)[pick] <= budget.level(family);
                prop_assert_eq!(declared, !over);
            }
        }

        #[test]
        fn adjusting_keeps_order_and_never_lowers(p in prop::collection::vec(0.0..=1.0f64, 0..30)) {
            for family in Family::ALL {
                let adjusted = family.adjust(&p);
                for i in 0..p.len() {
                    prop_assert!(adjusted[i] >= p[i] && adjusted[i] <= 1.0);
                    for j in 0..p.len() {
                        prop_assert!(p[i] > p[j] || adjusted[i] <= adjusted[j]);
                    }
                }
            }
        }
    }
}
