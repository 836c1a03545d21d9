//! The test of a function's change: by blocks, or by the runs of two recordings. Two recordings share no block, but on the emulated
//! machine they may share layouts.

use opcost_model::plan::Plan;
use opcost_stats::{power, rank, rank_sum, summary};

/// The kind of the observations of a function.
#[derive(Clone, Copy)]
pub(super) enum Design<'a> {
    /// Means of the same units of a plan on both sides: the signed-rank test of their differences.
    Units(&'a Plan),
    /// Runs of two recordings, paired by layout: the signed-rank test.
    Layouts,
    /// Runs of two recordings: the rank-sum test.
    Runs,
}

impl Design<'_> {
    /// Describes two sides that differ in no observation.
    pub(super) fn same(self) -> &'static str {
        match self {
            Design::Units(_) => "the same in every block",
            Design::Layouts => "the same in every layout",
            Design::Runs => "the same in every run",
        }
    }

    /// The average distance of the observations, whichever side is higher. This distance does not depend on the labels that the
    /// test exchanges.
    pub(super) fn size(self, observations: &[Vec<f64>; 2]) -> f64 {
        let sizes: Vec<f64> = match self {
            Design::Units(_) | Design::Layouts => {
                differences(observations).iter().map(|d| d.abs()).collect()
            }
            Design::Runs => {
                let all = observations.concat();
                // The computed mean of equal figures may differ from them by rounding, so it is not computed.
                if all.iter().all(|value| *value == all[0]) {
                    return 0.0;
                }
                let mean = summary::mean(&all).unwrap_or(0.0);
                // Each of two levels is half their distance from the middle, hence the factor 2.
                all.iter().map(|value| 2.0 * (value - mean).abs()).collect()
            }
        };
        summary::mean(&sizes).unwrap_or(0.0)
    }

    /// The two-sided p-value.
    pub(super) fn p(self, observations: &[Vec<f64>; 2]) -> f64 {
        match self {
            Design::Units(_) | Design::Layouts => rank::p(&differences(observations)),
            Design::Runs => rank_sum::p(&observations[0], &observations[1]),
        }
    }

    /// The smallest p that this many observations can give.
    pub(super) fn p_floor(self, observations: &[Vec<f64>; 2]) -> f64 {
        match self {
            Design::Units(_) | Design::Layouts => rank::p_floor(observations[0].len()),
            Design::Runs => rank_sum::p_floor(observations[0].len(), observations[1].len()),
        }
    }

    /// The interval of the change at a confidence level; `None` if there are too few observations.
    pub(super) fn interval(self, observations: &[Vec<f64>; 2], level: f64) -> Option<(f64, f64)> {
        match self {
            Design::Units(_) | Design::Layouts => rank::interval(&differences(observations), level),
            Design::Runs => rank_sum::interval(&observations[0], &observations[1], level),
        }
    }

    /// The number of pairs, layouts or runs that would reach `level` in `tests` tests, as text.
    pub(super) fn needs(self, level: f64, tests: usize) -> String {
        match self {
            Design::Units(plan) => {
                format!("needs {} pairs", plan.pairs_of_units(power::blocks_min(level, tests)))
            }
            Design::Layouts => format!("needs {} layouts", power::blocks_min(level, tests)),
            Design::Runs => {
                let runs = rank_sum::runs_min(level / tests.max(1) as f64);
                format!("needs {runs} runs of each")
            }
        }
    }
}

fn differences([one, two]: &[Vec<f64>; 2]) -> Vec<f64> {
    one.iter().zip(two).map(|(one, two)| two - one).collect()
}
