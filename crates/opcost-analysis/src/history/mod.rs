//! Recordings of one experiment over time: a series for each metric, its change points, and whether the environment changed at the
//! same time.
//!
//! Old results show trends and give no verdicts: a verdict needs both versions in one recording.
//!
//! **`history` still reports a level shift when the program was rebuilt.** For `opcost history` the environment is kernel,
//! microcode, CPU, settings and opcost. People keep a history to notice changes of programs and kernels under test.

use crate::comparison::limit::Limit;
use crate::comparison::two_recordings::{SurroundingChanges, surrounding_changes};
use crate::comparison::{Comparison, Figures, Row, compare, interval};
use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_model::plan::Revision;
use opcost_model::recording::{Recording, State};
use opcost_record::nearest::did_you_mean;
use opcost_record::{Better, Unit};
use opcost_stats::change_point::{change_points, values_min};
use opcost_stats::summary;
use serde::Serialize;

/// Level of the change points of a series.
const LEVEL: f64 = 0.05;

/// The metrics and the variant to show.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Metrics, by the names that tables show; empty for the primary metric.
    pub metrics: Vec<String>,
    /// The variant; `None` for the baseline.
    pub variant: Option<String>,
}

/// An experiment over time.
#[derive(Clone, Debug, Serialize)]
pub struct History {
    /// The experiment.
    pub experiment: String,
    /// The variant.
    pub variant: String,
    /// One series for each metric asked for.
    pub series: Vec<Series>,
}

impl History {
    /// Whether the last change of level of any series is a regression.
    pub fn regressed(&self) -> bool {
        self.regressed_by(None)
    }

    /// Whether the last change of level of any series is a regression by more than a limit.
    pub fn regressed_by(&self, limit: Option<Limit>) -> bool {
        let beyond = |change: &SeriesChange| {
            let ratio = change.change_ratio.map_or(f64::INFINITY, f64::abs);
            let size = (change.after - change.before).abs();
            limit.is_none_or(|limit| limit.is_exceeded(ratio, size))
        };
        self.series
            .iter()
            .filter_map(|series| series.changes.last())
            .any(|change| change.outcome == Outcome::Regression && beyond(change))
    }
}

/// One metric over time.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The metric, as tables show it.
    pub metric: String,
    /// The unit of the figures.
    pub unit: Unit,
    /// The direction that is better.
    pub better: Better,
    /// Whether the figures are per operation.
    pub per_op: bool,
    /// One point for each recording, the oldest first.
    pub points: Vec<Point>,
    /// The changes of the level.
    pub changes: Vec<SeriesChange>,
    /// Notes on what the series cannot show, with the reason.
    pub notes: Vec<String>,
}

/// One recording.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Identifier of the recording.
    pub recording: String,
    /// The time when the recording began, or when imported figures were made; nanoseconds since the Unix epoch.
    pub created_unix_ns: u64,
    /// The figure: the median, or the mean of imported means; `None` if there is no figure.
    pub value: Option<f64>,
    /// The figure's interval at 95 %; `None` if there are too few runs.
    pub interval: Option<(f64, f64)>,
    /// Number of runs; 0 if unknown.
    pub n: usize,
    /// Differences of the environment from the recording before.
    pub environment: Vec<String>,
    /// Differences of the work from the recording before: rebuilt programs.
    pub work: Vec<String>,
    /// The label that the user gave the recording.
    pub label: Option<String>,
    /// The commit of the variant's sources.
    pub revision: Option<Revision>,
    /// Why there is no figure, or a remark on the figure.
    pub note: Option<String>,
}

/// A change of the level of a series.
#[derive(Clone, Debug, Serialize)]
pub struct SeriesChange {
    /// Index of the first point after the change.
    pub point: usize,
    /// Mean of the level before the change.
    pub before: f64,
    /// Mean of the level after the change.
    pub after: f64,
    /// after/before − 1; `None` if before is 0.
    pub change_ratio: Option<f64>,
    /// p of the permutation test.
    pub p: f64,
    /// The kind of the change.
    pub outcome: Outcome,
    /// Changes of the environment at the change, or one recording earlier or later.
    pub explained_by: Vec<String>,
}

/// The kind of a change of level.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The figure became worse, and the environment did not change at the same time.
    Regression,
    /// The figure became better, and the environment did not change at the same time.
    Improvement,
    /// The level changed, and neither direction is better.
    Shift,
    /// The environment changed, so the change says nothing about the work.
    Environment,
}

/// The history of recordings of one experiment.
///
/// The recordings are sorted by date. The result depends on the recordings alone.
///
/// # Errors
/// There is no recording, or no recording has the metric or the variant.
pub fn history(mut recordings: Vec<Recording>, question: &Question) -> Result<History> {
    recordings.sort_by_key(|recording| recording.created_unix_ns);
    let Some(newest) = recordings.last() else {
        return Err(fail(Status::Usage, "there is no recording of this experiment"));
    };
    let experiment = newest.plan.experiment.clone();
    let names = || {
        recordings
            .iter()
            .rev()
            .flat_map(|r| r.plan.variants.iter().map(|variant| variant.name.as_str()))
    };
    let variant = match &question.variant {
        Some(name) if names().any(|known| known == name) => name.clone(),
        Some(name) => {
            let near = did_you_mean(name, names());
            let why = format!("--variant {name}: no recording of '{experiment}' has it{near}");
            return Err(fail(Status::Usage, why));
        }
        None => newest.plan.variants[0].name.clone(),
    };
    let comparisons: Vec<Comparison> =
        recordings.iter().map(|recording| compare(recording).0).collect();
    let metrics = match question.metrics.as_slice() {
        [] => vec![primary(&comparisons)?],
        asked => asked.to_vec(),
    };
    let steps: Vec<SurroundingChanges> = recordings
        .windows(2)
        .map(|pair| surrounding_changes(&pair[0], &pair[1], &variant))
        .collect();
    let series = metrics
        .iter()
        .map(|metric| series(metric, &variant, &recordings, &comparisons, &steps))
        .collect::<Result<_>>()?;
    Ok(History { experiment, variant, series })
}

/// The primary metric of the newest recording that has one.
fn primary(comparisons: &[Comparison]) -> Result<String> {
    let rows = comparisons.iter().rev().flat_map(|comparison| &comparison.rows);
    rows.into_iter().find(|row| row.primary).map(|row| row.label.clone()).ok_or_else(|| {
        fail(Status::Usage, "no recording has its primary metric; name one with --metric")
    })
}

fn series(
    metric: &str,
    variant: &str,
    recordings: &[Recording],
    comparisons: &[Comparison],
    steps: &[SurroundingChanges],
) -> Result<Series> {
    let row = |comparison: &Comparison| -> Option<Row> {
        comparison.rows.iter().find(|row| row.label == metric || row.key.label() == metric).cloned()
    };
    let Some(newest) = comparisons.iter().rev().find_map(row) else {
        let labels = comparisons.iter().flat_map(|comparison| &comparison.rows);
        let near = did_you_mean(metric, labels.map(|row| row.label.as_str()));
        return Err(fail(Status::Usage, format!("--metric {metric}: no recording has it{near}")));
    };
    let points: Vec<Point> = recordings
        .iter()
        .zip(comparisons)
        .enumerate()
        .map(|(index, (recording, comparison))| {
            let step = index.checked_sub(1).map(|before| &steps[before]);
            point(recording, comparison, row(comparison).as_ref(), &newest, variant, step)
        })
        .collect();
    let with_value: Vec<usize> =
        (0..points.len()).filter(|index| points[*index].value.is_some()).collect();
    let values: Vec<f64> = points.iter().filter_map(|point| point.value).collect();
    // The seed is fixed, so the same recordings always give the same result.
    let found = change_points(&values, LEVEL, 1);
    let mut ends: Vec<usize> = found.iter().map(|change| change.index).collect();
    ends.push(values.len());
    let mut start = 0;
    let changes = found.iter().enumerate().map(|(number, change)| {
        let levels = [&values[start..change.index], &values[change.index..ends[number + 1]]];
        start = change.index;
        let [before, after] = levels.map(|level| summary::mean(level).unwrap_or(f64::NAN));
        // The test may place a change one recording too early or too late.
        let near = change.index.saturating_sub(1)..=(change.index + 1).min(values.len() - 1);
        let explained_by: Vec<String> = near
            .filter(|index| *index > 0)
            .flat_map(|index| with_value[index - 1] + 1..=with_value[index])
            .flat_map(|index| points[index].environment.iter().cloned())
            .collect();
        let outcome = match (explained_by.is_empty(), newest.better, after > before) {
            (false, ..) => Outcome::Environment,
            (_, Better::Neither, _) => Outcome::Shift,
            (_, Better::Lower, true) | (_, Better::Higher, false) => Outcome::Regression,
            _ => Outcome::Improvement,
        };
        let change_ratio = (before != 0.0).then(|| after / before - 1.0);
        let (point, p) = (with_value[change.index], change.p);
        SeriesChange { point, before, after, change_ratio, p, outcome, explained_by }
    });
    let changes: Vec<SeriesChange> = changes.collect();
    let notes = notes(&points, &values);
    Ok(Series {
        metric: newest.label.clone(),
        unit: newest.unit,
        better: newest.better,
        per_op: newest.per_op,
        points,
        changes,
        notes,
    })
}

fn point(
    recording: &Recording,
    comparison: &Comparison,
    row: Option<&Row>,
    newest: &Row,
    variant: &str,
    step: Option<&SurroundingChanges>,
) -> Point {
    let place = recording.plan.variants.iter().position(|known| known.name == variant);
    let figures = row.zip(place).and_then(|(row, place)| row.values[place].as_ref());
    // A recording that exact counts settled is as good as a complete one.
    let complete = matches!(recording.state, State::Finished | State::StoppedSettled);
    let interrupted = (!complete)
        .then(|| format!("{}, {} runs", recording.state.word(), recording.records.len()));
    let (figures, note) = match (place, row, figures) {
        (None, ..) => (None, Some(format!("it has no variant '{variant}'"))),
        (_, None, _) | (.., None) => (None, Some(format!("it has no {}", newest.label))),
        _ if comparison.refused() => (None, Some("its runs are not comparable".to_string())),
        (_, Some(row), _) if (row.unit, row.per_op) != (newest.unit, newest.per_op) => {
            (None, Some("its figures are in another unit".to_string()))
        }
        (_, _, Some(figures)) if figures.multiplexed > 0 => {
            (None, Some("its counter was multiplexed".to_string()))
        }
        (_, _, Some(figures)) => (Some(figures), interrupted),
    };
    Point {
        recording: recording.id.clone(),
        created_unix_ns: recording.created_unix_ns,
        value: figures.map(Figures::center),
        interval: figures.and_then(interval),
        n: figures.map_or(0, |figures| figures.n),
        environment: step.map(|step| step.environment.clone()).unwrap_or_default(),
        work: step.map(|step| step.work.clone()).unwrap_or_default(),
        label: recording.plan.label.clone(),
        revision: place.and_then(|place| recording.plan.variants[place].revision.clone()),
        note,
    }
}

/// The limits of such a series, in words.
fn notes(points: &[Point], values: &[f64]) -> Vec<String> {
    let mut notes = Vec::new();
    let needed = values_min(LEVEL);
    let both = "to judge two versions, compare them in one recording";
    match values.len() {
        0 => notes.push("no recording has a figure, so there is no series".to_string()),
        1 => notes
            .push(format!("one figure is no series: whether it changed cannot be said; {both}")),
        few if few < needed => notes.push(format!(
            "{few} figures: a change of level can be told from noise from {needed} on; {both}"
        )),
        _ => {}
    }
    let missing = points.len() - values.len();
    if missing > 0 && !values.is_empty() {
        notes.push(format!(
            "{missing} of {} recordings have no figure and are left out",
            points.len()
        ));
    }
    notes
}
