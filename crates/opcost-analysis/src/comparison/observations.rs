//! Observations about the runs beside the verdict: drift, similarity of neighbours, first runs, outliers.
//!
//! Observations remove no run and change no verdict: randomised blocks and ranks already allow for all of them. They say why an
//! interval is wide and what would make the interval narrower.

use super::carry_over::CARRY_OVER_RATE;
use super::{Comparison, Figures, Row};
use opcost_base::listing::few;
use opcost_base::number::percent;
use opcost_record::Family;
use opcost_stats::autocorrelation::autocorrelation;
use opcost_stats::drift::drift;
use opcost_stats::first_runs::first_runs;
use opcost_stats::multiple::holm;
use opcost_stats::outliers::outliers;
use serde::Serialize;
use std::collections::HashSet;

/// The probability that a report on independent, equal runs has any observation. [`CARRY_OVER_RATE`] of it is for carry-over; half
/// of the rest is for the primary metric, half for the headline metrics by Holm's method.
pub const OBSERVATION_RATE: f64 = 0.05;

/// The share of the rate for the primary metric, and that for the headline metrics.
const FAMILY_SHARE: f64 = (OBSERVATION_RATE - CARRY_OVER_RATE) / OBSERVATION_RATE / 2.0;

/// An observation about the runs of one variant in one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Observation {
    /// The kind of the observation.
    pub kind: ObservationKind,
    /// Heading of the metric.
    pub metric: String,
    /// Whether it is the primary metric.
    pub primary: bool,
    /// Name of the variant.
    pub variant: String,
    /// The size, as [`ObservationKind`] defines it.
    pub size: f64,
    /// The number of runs concerned: the first runs, the outliers, or all.
    pub runs: usize,
    /// The p-value, corrected for everything that was tested, on the scale of [`OBSERVATION_RATE`].
    pub p_adjusted: f64,
}

/// The kinds of observations.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ObservationKind {
    /// The figure rose or fell from the first run to the last; size: the change as a share of the median.
    Drift,
    /// Neighbouring runs are alike; size: their rank correlation.
    Autocorrelation,
    /// The first runs differ from the rest; size: the difference as a share of the rest's median.
    FirstRuns,
    /// Some runs are far from the others; size: the farthest as a multiple of the median.
    Outliers,
}

impl ObservationKind {
    /// Every kind, in the order of the report.
    const ALL: [ObservationKind; 4] = [
        ObservationKind::Drift,
        ObservationKind::FirstRuns,
        ObservationKind::Autocorrelation,
        ObservationKind::Outliers,
    ];

    /// The beginning of a sentence about this kind, and the advice; `alone`: the report has one variant, whose interval takes the
    /// runs as independent.
    fn words(self, alone: bool) -> (&'static str, &'static str) {
        match self {
            ObservationKind::Drift if alone => (
                "drift over the recording",
                "the median is that of a machine that changed meanwhile",
            ),
            ObservationKind::Autocorrelation if alone => (
                "neighbouring runs are alike",
                "intervals take runs as independent, so they are wider",
            ),
            ObservationKind::Drift => (
                "drift over the recording",
                "neighbours are compared, so little of it is left; a settled machine has less",
            ),
            ObservationKind::FirstRuns => {
                ("the first runs differ", "more --warmup would leave them out")
            }
            ObservationKind::Autocorrelation => {
                ("neighbouring runs are alike", "the blocks allow for it; spread runs tell more")
            }
            ObservationKind::Outliers => {
                ("outliers", "none was removed; opcost doctor says what disturbs")
            }
        }
    }
}

/// The observations about the runs, with rows and variants in the order of the tables.
pub(super) fn observations(rows: &[Row], variants: &[String]) -> Vec<Observation> {
    let mut observations = Vec::new();
    for primary in [true, false] {
        let family = rows.iter().filter(|row| match primary {
            true => row.primary,
            false => !row.primary && row.family == Family::Headline,
        });
        let mut found = Vec::new();
        for row in family.filter(|row| !row.exact) {
            for (figures, variant) in row.values.iter().zip(variants) {
                let Some(figures) = figures.as_ref().filter(|side| side.multiplexed == 0) else {
                    continue;
                };
                found.extend(looked_at(figures).map(|(kind, size, runs, p)| Observation {
                    kind,
                    metric: row.label.clone(),
                    primary,
                    variant: variant.clone(),
                    size,
                    runs,
                    p_adjusted: p,
                }));
            }
        }
        let p: Vec<f64> = found.iter().map(|observation| observation.p_adjusted).collect();
        for (observation, adjusted) in found.iter_mut().zip(holm(&p)) {
            // On the scale of the whole rate, whatever the metrics' share of the rate.
            observation.p_adjusted = (adjusted / FAMILY_SHARE).min(1.0);
        }
        found.retain(|observation| observation.p_adjusted <= OBSERVATION_RATE);
        observations.extend(found);
    }
    explained_once(observations)
}

/// Kind, size, runs and p of every test.
fn looked_at(figures: &Figures) -> impl Iterator<Item = (ObservationKind, f64, usize, f64)> {
    let (values, median) = (&figures.values, figures.center());
    let of_median = |figure: f64| if median == 0.0 { figure } else { figure / median };
    let all = values.len();
    let drift =
        drift(values).map(|drift| (ObservationKind::Drift, of_median(drift.change), all, drift.p));
    let first = first_runs(values).map(|first| {
        let size = match first.median_rest {
            0.0 => first.median_first,
            rest => first.median_first / rest - 1.0,
        };
        (ObservationKind::FirstRuns, size, first.count, first.p)
    });
    let alike = autocorrelation(values)
        .map(|alike| (ObservationKind::Autocorrelation, alike.lag_1, all, alike.p));
    let far = outliers(values)
        .map(|far| (ObservationKind::Outliers, of_median(far.farthest), far.count, far.p));
    [drift, first, alike, far].into_iter().flatten()
}

/// Removes observations that a drift explains: different first runs, similar neighbours.
fn explained_once(mut observations: Vec<Observation>) -> Vec<Observation> {
    let drifting: HashSet<(String, String)> = observations
        .iter()
        .filter(|observation| observation.kind == ObservationKind::Drift)
        .map(|observation| (observation.metric.clone(), observation.variant.clone()))
        .collect();
    observations.retain(|observation| {
        let explained = [ObservationKind::FirstRuns, ObservationKind::Autocorrelation];
        !explained.contains(&observation.kind)
            || !drifting.contains(&(observation.metric.clone(), observation.variant.clone()))
    });
    observations
}

impl Comparison {
    /// The observations as short sentences, one for each kind, about the primary metric; if the primary metric has no observation
    /// of the kind, about the first metric that has.
    pub fn observed(&self) -> Vec<String> {
        let of_kind = |kind| {
            let all: Vec<&Observation> =
                self.observations.iter().filter(|observation| observation.kind == kind).collect();
            let metric = &all.first()?.metric;
            let told: Vec<String> = all
                .iter()
                .filter(|observation| observation.metric == *metric)
                .map(|observation| describe(observation))
                .collect();
            let (begin, remedy) = kind.words(self.comparisons.is_empty());
            Some(format!("{begin}: {metric} of {}; {remedy}", few(&told)))
        };
        ObservationKind::ALL.into_iter().filter_map(of_kind).collect()
    }
}

/// `3.04 ×`; for a size far below one, with enough decimals to show two digits: `0.0025 ×`.
fn multiple(size: f64) -> String {
    if size == 0.0 {
        return "0, not".into();
    }
    let decimals = (1.0 - size.abs().log10().floor()).clamp(2.0, 12.0) as usize;
    format!("{size:.decimals$} ×")
}

fn describe(observation: &Observation) -> String {
    let Observation { variant, size, runs, .. } = observation;
    match observation.kind {
        ObservationKind::Drift => format!("'{variant}' {}", percent(*size)),
        ObservationKind::FirstRuns => format!("'{variant}' {} in the first {runs}", percent(*size)),
        ObservationKind::Autocorrelation => format!("'{variant}' (r = {size:.2})"),
        ObservationKind::Outliers => {
            let times = if *runs == 1 { "run" } else { "runs" };
            format!("'{variant}' {runs} {times}, the farthest {} the median", multiple(*size))
        }
    }
}
