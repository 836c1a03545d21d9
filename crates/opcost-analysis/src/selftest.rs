//! Sums up the reports of a self-test: comparisons in, figures out.

use crate::comparison::{Comparison, Row, Severity, Verdict};
use opcost_stats::{binomial, summary};
use serde::Serialize;
use std::time::Duration;

/// The share of reports on equal variants that may raise an alarm.
pub const FALSE_ALARMS_MAX: f64 = 0.05;
/// A self-test passes only if it has shown that no more than this share raises an alarm.
pub const EXCLUDED_MIN: f64 = 0.20;
/// Confidence level of the intervals of shares.
pub const LEVEL: f64 = 0.95;

/// The reports made so far.
pub struct Tally {
    must_find: bool,
    same: Same,
    planted: Vec<Planted>,
    /// The estimates of each planted change.
    estimates: Vec<Vec<f64>>,
    /// The smallest change that each report would have found, by metric.
    detectable: Vec<Vec<f64>>,
    doubts: Vec<(String, u64)>,
}

/// The results of all reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tallied {
    /// Reports with the same work on both sides.
    pub same: Same,
    /// Reports with a known amount of work on top on one side, by that amount.
    pub planted: Vec<Planted>,
    /// Rules of the ledger that doubted reports, with the number of reports.
    pub doubts: Vec<(String, u64)>,
    /// Whether every bar holds, and there are enough reports to say so.
    pub passed: bool,
    /// Reports on the same work that it takes to pass, if no more of them raise an alarm; `None` if
    /// there are enough.
    pub needed: Option<u64>,
    /// The bars that do not hold, in words.
    pub failures: Vec<String>,
}

/// How often something happened, with its interval at [`LEVEL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// The number of times that it happened.
    pub count: u64,
    /// The number of times that it could have happened.
    pub of: u64,
    /// The lowest probability that is not excluded; `None` without reports.
    pub low: Option<f64>,
    /// The highest probability that is not excluded; `None` without reports.
    pub high: Option<f64>,
}

/// Reports with the same work on both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Same {
    /// Reports that say of any metric that it changed.
    pub alarms: Share,
    /// Other reports, which the ledger refused.
    pub refused: u64,
    /// The figures of each metric, in the order of the tables.
    pub metrics: Vec<Metric>,
}

/// One metric over the reports with the same work on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// The metric's name.
    pub metric: String,
    /// Reports that say the metric changed.
    pub alarms: u64,
    /// Reports in which every run gave the same integer.
    pub exact: u64,
    /// Median, over the reports, of the smallest change that would have been found. Only reports
    /// count in which the metric varied and was not 0; `None` if there is no such report.
    pub mde_ratio: Option<f64>,
}

/// Reports with a known amount of work on top on one side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Planted {
    /// The work on top, as a share of the work.
    pub change_ratio: f64,
    /// The primary metric, in which the change is looked for.
    pub metric: String,
    /// Reports that found the change.
    pub found: Share,
    /// Reports that say the primary metric changed the other way.
    pub wrong_way: u64,
    /// Other reports, which the ledger refused.
    pub refused: u64,
    /// Median, over the reports, of the estimated change.
    pub estimate_ratio: Option<f64>,
    /// Other metrics that rose, with the number of reports that say so.
    pub also_in: Vec<(String, u64)>,
}

impl Tallied {
    /// The number of all reports, refused reports included.
    pub fn reports(&self) -> u64 {
        let planted = self.planted.iter().map(|planted| planted.found.of + planted.refused);
        self.same.alarms.of + self.same.refused + planted.sum::<u64>()
    }
}

impl Share {
    fn note(&mut self, happened: bool) {
        self.count += u64::from(happened);
        self.of += 1;
    }

    fn with_interval(self) -> Share {
        let interval = binomial::interval(self.count, self.of, LEVEL);
        Share { low: interval.map(|(low, _)| low), high: interval.map(|(_, high)| high), ..self }
    }

    /// The share itself; `None` without reports.
    pub fn share(&self) -> Option<f64> {
        (self.of > 0).then(|| self.count as f64 / self.of as f64)
    }
}

impl Tally {
    /// Starts without reports.
    ///
    /// `must_find`: whether missing a planted change once fails the test; `planted`: the changes
    /// that will come, in millionths of the work.
    pub fn new(must_find: bool, planted: &[u32]) -> Tally {
        let rows = planted.iter().map(|millionths| Planted {
            change_ratio: f64::from(*millionths) / 1e6,
            metric: String::new(),
            found: Share::default(),
            wrong_way: 0,
            refused: 0,
            estimate_ratio: None,
            also_in: Vec::new(),
        });
        Tally {
            must_find,
            same: Same::default(),
            planted: rows.collect(),
            estimates: vec![Vec::new(); planted.len()],
            detectable: Vec::new(),
            doubts: Vec::new(),
        }
    }

    /// Adds the report on two variants, the second with `planted` millionths of the work on top.
    ///
    /// # Panics
    /// The planted change was not announced.
    pub fn add(&mut self, planted: u32, comparison: &Comparison) {
        for entry in &comparison.ledger {
            if entry.severity == Severity::Doubtful {
                add_one(&mut self.doubts, &entry.rule);
            }
        }
        if planted == 0 {
            self.add_same(comparison);
            return;
        }
        let ratio = f64::from(planted) / 1e6;
        let at = self.planted.iter().position(|known| known.change_ratio == ratio);
        self.add_planted(at.expect("every planted change is announced"), comparison);
    }

    fn add_same(&mut self, comparison: &Comparison) {
        if comparison.refused() {
            self.same.refused += 1;
            return;
        }
        self.same.alarms.note(comparison.rows.iter().any(changed));
        for row in &comparison.rows {
            let known = self.same.metrics.iter().position(|metric| metric.metric == row.label);
            let at = known.unwrap_or_else(|| {
                self.same.metrics.push(Metric {
                    metric: row.label.clone(),
                    alarms: 0,
                    exact: 0,
                    mde_ratio: None,
                });
                self.detectable.push(Vec::new());
                self.detectable.len() - 1
            });
            let metric = &mut self.same.metrics[at];
            metric.alarms += u64::from(changed(row));
            metric.exact += u64::from(row.changes[0].identical);
            self.detectable[at].extend(row.changes[0].mde_ratio);
        }
    }

    fn add_planted(&mut self, at: usize, comparison: &Comparison) {
        let planted = &mut self.planted[at];
        if comparison.refused() {
            planted.refused += 1;
            return;
        }
        let primary = comparison.rows.iter().find(|row| row.primary);
        planted.found.note(primary.is_some_and(rose));
        for row in &comparison.rows {
            if row.primary {
                planted.metric.clone_from(&row.label);
                planted.wrong_way += u64::from(changed(row) && !rose(row));
                self.estimates[at].extend(row.changes[0].change_ratio);
            } else if rose(row) {
                add_one(&mut planted.also_in, &row.label);
            }
        }
    }

    /// Reports on the same work that it takes to pass, if no more of them raise an alarm; `None` if there are enough.
    pub fn needed(&self) -> Option<u64> {
        Some(reports_needed(self.same.alarms.count)).filter(|needed| self.same.alarms.of < *needed)
    }

    /// How long a self-test takes until it has enough reports, if the next ones take as long as those of `elapsed`.
    pub fn answers_after(&self, elapsed: Duration) -> Duration {
        match (self.needed(), self.same.alarms.of) {
            (Some(needed), made) if made > 0 => elapsed.mul_f64(needed as f64 / made as f64),
            _ => elapsed,
        }
    }

    /// The figures, and whether the bars hold.
    pub fn finish(mut self) -> Tallied {
        self.same.alarms = self.same.alarms.with_interval();
        for (metric, detectable) in self.same.metrics.iter_mut().zip(&self.detectable) {
            metric.mde_ratio = summary::median(detectable);
        }
        for (planted, estimates) in self.planted.iter_mut().zip(&self.estimates) {
            planted.found = planted.found.with_interval();
            planted.estimate_ratio = summary::median(estimates);
        }
        let mut failures = Vec::new();
        if self.same.alarms.low.is_some_and(|low| low > FALSE_ALARMS_MAX) {
            failures.push("more false alarms than one report in 20".to_string());
        }
        if self.same.alarms.of == 0 {
            failures.push("no report on the same work gave verdicts".to_string());
        }
        let missed = |planted: &Planted| planted.found.count < planted.found.of.max(1);
        if self.must_find && self.planted.iter().any(missed) {
            failures.push("a planted change of an exact count was missed".to_string());
        }
        let needed = self.needed();
        Tallied {
            same: self.same,
            planted: self.planted,
            doubts: self.doubts,
            passed: failures.is_empty() && needed.is_none(),
            needed,
            failures,
        }
    }
}

/// The fewest reports that exclude a rate above [`EXCLUDED_MIN`], if `alarms` of them raise an alarm.
fn reports_needed(alarms: u64) -> u64 {
    let excludes = |reports: &u64| {
        let interval = binomial::interval(alarms, *reports, LEVEL);
        interval.is_some_and(|(_, high)| high <= EXCLUDED_MIN)
    };
    // The upper end of the interval falls with every report.
    (alarms + 1..=alarms * 10 + 100).find(excludes).unwrap_or(u64::MAX)
}

fn add_one(counts: &mut Vec<(String, u64)>, name: &str) {
    match counts.iter_mut().find(|(known, _)| known == name) {
        Some((_, count)) => *count += 1,
        None => counts.push((name.to_string(), 1)),
    }
}

fn changed(row: &Row) -> bool {
    row.changes[0].verdict == Verdict::Changed
}

fn rose(row: &Row) -> bool {
    changed(row) && row.changes[0].change_ratio.is_some_and(|ratio| ratio > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_reports_answer_and_the_time_until_then_is_known() {
        let mut tally = Tally::new(false, &[]);
        let seconds = Duration::from_secs;
        assert_eq!((tally.needed(), tally.answers_after(seconds(9))), (Some(17), seconds(9)));
        tally.same.alarms.of = 14;
        assert_eq!((tally.needed(), tally.answers_after(seconds(28))), (Some(17), seconds(34)));
        tally.same.alarms.of = 17;
        assert_eq!((tally.needed(), tally.answers_after(seconds(28))), (None, seconds(28)));
        // An alarm asks for more reports.
        tally.same.alarms.count = 1;
        assert!(tally.needed() > Some(17));
    }
}
