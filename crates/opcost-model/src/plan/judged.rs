//! The metrics of a plan that have a verdict.
//!
//! **opcost judges one of two clocks.** Elapsed time and time stamp counter measure the same thing; two verdicts on it would
//! be two chances of a false alarm. opcost stores the counter, and judges it only as the primary metric.

use super::EventPlan;
use opcost_record::{Domain, METRICS, MetricKey};
use opcost_source::source::{self, Scope};

/// The judged metrics of runs with these events.
pub fn metrics_judged(events: &[EventPlan], scope: Scope, primary: &MetricKey) -> Vec<MetricKey> {
    let others = METRICS
        .iter()
        .filter(|row| source::reads_always(row, scope))
        .map(|row| MetricKey::new(row.name, Domain::All, row.source));
    let all = others.chain(events.iter().map(|event| event.key.clone()));
    all.filter(|key| is_judged(key, primary)).collect()
}

/// See [`Plan::judges`].
pub fn is_judged(key: &MetricKey, primary: &MetricKey) -> bool {
    const CLOCKS: [&str; 2] = ["wall", "tsc"];
    match CLOCKS.contains(&primary.name.as_str()) {
        true => !CLOCKS.contains(&key.name.as_str()) || key.name == primary.name,
        false => key.name != CLOCKS[1],
    }
}
