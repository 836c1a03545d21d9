//! The metrics of a plan that have a verdict.
//!
//! **opcost judges one of two clocks.** Elapsed time and time stamp counter measure the same thing; two verdicts on it would
//! be two chances of a false alarm. opcost stores the counter, and judges it only as the primary metric.
//!
//! **A metric that is added makes nobody's comparison longer.** A number of pairs is planned for the metrics that somebody
//! chose and for the side metrics in `PLANNED`; all side metrics share the level of these
//! ([`side_weights`]).

use super::{EventPlan, Plan};
use opcost_record::{Domain, Family, METRICS, MetricKey, WORK, WORKLOAD};
use opcost_source::source::{self, Scope};
use opcost_stats::multiple::side_weights;

/// The judged metrics of runs with these events.
pub fn metrics_judged(events: &[EventPlan], scope: Scope, primary: &MetricKey) -> Vec<MetricKey> {
    let others = METRICS
        .iter()
        .filter(|row| source::reads_always(row, scope))
        .map(|row| MetricKey::new(row.name, Domain::All, row.source));
    let all = others.chain(events.iter().map(|event| event.key.clone()));
    all.filter(|key| is_judged(key, primary)).collect()
}

/// The side metrics for which a number of pairs is planned. The list stays as it is when metrics are added.
const PLANNED: [&str; 15] = [
    "instructions-deferred",
    "instructions-tick",
    "instructions-deferred-after",
    "conditional-branches",
    "loads",
    "stores",
    "string-iterations",
    "page-faults",
    "interrupts",
    "system-calls",
    "minor-faults",
    "major-faults",
    "voluntary-switches",
    "involuntary-switches",
    "peak-rss",
];

/// Whether a metric is read without being asked for, and is none that people decide by.
///
/// `chosen`: the metrics that an option asks for.
pub fn is_side(key: &MetricKey, chosen: &[MetricKey]) -> bool {
    key.row().family == Family::Rest
        && key.source != WORKLOAD
        && key.region == WORK
        && !chosen.contains(key)
}

/// Whether a number of pairs is planned for the metric.
pub fn is_planned(key: &MetricKey, chosen: &[MetricKey]) -> bool {
    !is_side(key, chosen) || PLANNED.contains(&key.name.as_str())
}

/// The side metrics of a comparison, and the number of tests whose level they share.
#[derive(Clone, Debug)]
pub struct SideMetrics {
    chosen: Vec<MetricKey>,
    planned: usize,
}

impl SideMetrics {
    /// The side metrics of a recording's comparisons, or of one between recordings: those that no plan chose.
    pub fn of<const N: usize>(plans: [&Plan; N], comparisons: usize) -> SideMetrics {
        let chosen: Vec<MetricKey> = plans.iter().flat_map(|plan| plan.metrics_chosen()).collect();
        let all = plans.map(Plan::metrics);
        let planned = all[0].iter().filter(|key| {
            is_side(key, &chosen)
                && is_planned(key, &chosen)
                && all.iter().all(|of| of.contains(key))
        });
        SideMetrics { planned: planned.count() * comparisons, chosen }
    }

    /// Whether a metric is one of them.
    pub fn contains(&self, key: &MetricKey) -> bool {
        is_side(key, &self.chosen)
    }

    /// The weights of tests in their family ([`side_weights`]).
    pub fn weights(&self, is_side: &[bool]) -> Vec<f64> {
        side_weights(is_side, self.planned)
    }
}

/// See [`Plan::judges`].
pub fn is_judged(key: &MetricKey, primary: &MetricKey) -> bool {
    const CLOCKS: [&str; 2] = ["wall", "tsc"];
    match CLOCKS.contains(&primary.name.as_str()) {
        true => !CLOCKS.contains(&key.name.as_str()) || key.name == primary.name,
        false => key.name != CLOCKS[1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::metric::EMULATOR;

    #[test]
    fn a_number_of_pairs_is_planned_for_what_is_chosen_and_for_no_metric_that_comes_later() {
        let later = MetricKey::new("a-metric-of-tomorrow", Domain::All, EMULATOR);
        assert!(is_side(&later, &[]) && !is_planned(&later, &[]));
        assert!(is_planned(&later, std::slice::from_ref(&later)));
        let loads = MetricKey::new("loads", Domain::All, EMULATOR);
        assert!(is_side(&loads, &[]) && is_planned(&loads, &[]));
        for headline in ["branches", "cycles"] {
            assert!(!is_side(&MetricKey::new(headline, Domain::All, EMULATOR), &[]));
        }
        for name in PLANNED {
            assert!(METRICS.iter().any(|row| row.name == name && row.family == Family::Rest));
        }
    }
}
