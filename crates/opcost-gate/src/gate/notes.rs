//! Figures that a gate keeps as notes of commits, in the format of baseline files, and their history.

use super::baseline::{Baseline, BaselineError, BaselineFigure};
use super::key::KeyDifference;
use opcost_record::printable::printable;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Figures by case and metric.
type Figures = BTreeMap<(String, String), BaselineFigure>;

/// Adds figures to the text of a commit's note; other figures in an earlier note stay.
///
/// # Errors
/// The earlier note is not opcost's.
pub fn noted(earlier: Option<&str>, figures: Figures) -> Result<String, BaselineError> {
    let mut baseline = earlier.map_or_else(|| Ok(Baseline::default()), Baseline::parse)?;
    baseline.figures.extend(figures);
    Ok(baseline.format())
}

/// A case's figures over commits.
#[derive(Clone, Debug, Default)]
pub struct NotesHistory {
    /// The case.
    pub case: String,
    /// One series for each metric.
    pub series: Vec<NotesSeries>,
    /// All cases that the notes have.
    pub known: Vec<String>,
}

/// One metric over commits, the oldest first.
#[derive(Clone, Debug)]
pub struct NotesSeries {
    /// The metric.
    pub metric: String,
    /// The commits that have the metric.
    pub points: Vec<NotesPoint>,
}

/// One figure of one commit.
#[derive(Clone, Debug)]
pub struct NotesPoint {
    /// The commit's full hash.
    pub commit: String,
    /// The first line of the commit's message.
    pub subject: String,
    /// The count.
    pub value: u64,
    /// The count of the previous commit with the metric, or why the two counts cannot be compared; `None` for the first commit.
    pub before: Option<Result<u64, String>>,
}

impl NotesHistory {
    /// The history of a case's figures.
    ///
    /// `commits`: hash, subject and note, the oldest first; `metrics`: the metrics asked for, empty for all. Also returns the
    /// commits whose notes cannot be read, with the reason.
    pub fn of(
        commits: &[(&str, &str, &str)],
        case: &str,
        metrics: &[String],
    ) -> (NotesHistory, Vec<(String, String)>) {
        let mut unreadable = Vec::new();
        let mut known = BTreeSet::new();
        let mut series: BTreeMap<String, Vec<(NotesPoint, BaselineFigure)>> = BTreeMap::new();
        for (commit, subject, note) in commits {
            let baseline = match Baseline::parse(note) {
                Ok(baseline) => baseline,
                Err(error) => {
                    unreadable.push((commit.to_string(), error.to_string()));
                    continue;
                }
            };
            for ((of_case, metric), figure) in baseline.figures {
                known.insert(of_case.clone());
                if of_case != case || !metrics.is_empty() && !metrics.contains(&metric) {
                    continue;
                }
                let points = series.entry(metric).or_default();
                let before = points.last().map(|(_, last)| compared(last, &figure));
                let (commit, subject) = (commit.to_string(), printable(subject));
                let point = NotesPoint { commit, subject, value: figure.value, before };
                points.push((point, figure));
            }
        }
        let series = series.into_iter().map(|(metric, points)| NotesSeries {
            metric,
            points: points.into_iter().map(|(point, _)| point).collect(),
        });
        let history = NotesHistory {
            case: case.to_string(),
            series: series.collect(),
            known: known.into_iter().collect(),
        };
        (history, unreadable)
    }

    /// The JSON for programs.
    pub fn json(&self) -> String {
        let point = |point: &NotesPoint| {
            let before = point.before.as_ref().and_then(|before| before.as_ref().ok());
            let why = point.before.as_ref().and_then(|before| before.as_ref().err());
            json!({
                "commit": point.commit,
                "subject": point.subject,
                "value": point.value,
                "before": before,
                "not_comparable": why,
            })
        };
        let series = |series: &NotesSeries| {
            let points: Vec<Value> = series.points.iter().map(point).collect();
            json!({"metric": series.metric, "points": points})
        };
        let all: Vec<Value> = self.series.iter().map(series).collect();
        format!("{:#}\n", json!({"schema": 1, "case": self.case, "series": all}))
    }
}

/// The earlier of two counts, or why the counts cannot be compared.
fn compared(before: &BaselineFigure, now: &BaselineFigure) -> Result<u64, String> {
    let differences = before.key.obstacles(&now.key);
    if differences.is_empty() {
        return Ok(before.value);
    }
    let word = |side: &Option<String>| side.as_deref().map_or("none".into(), printable);
    let described = |KeyDifference { part, baseline, now }: &KeyDifference| {
        format!("{} was {} and is {}", printable(part), word(baseline), word(now))
    };
    Err(differences.iter().map(described).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::key::FigureKey;

    fn note(earlier: Option<&str>, figures: &[(&str, &str, u64, &str)]) -> String {
        let figures = figures.iter().map(|(case, metric, value, cpu)| {
            let key = FigureKey::new([("cpu", *cpu)]);
            let figure = BaselineFigure { value: *value, floor: None, key };
            ((case.to_string(), metric.to_string()), figure)
        });
        noted(earlier, figures.collect()).unwrap()
    }

    #[test]
    fn a_note_keeps_the_figures_of_other_cases() {
        let one = note(None, &[("a", "instructions", 1, "max"), ("b", "instructions", 2, "max")]);
        let two = note(Some(&one), &[("b", "instructions", 3, "max")]);
        let expected =
            "opcost-baseline 2\n\na instructions 1 - cpu=max\n\nb instructions 3 - cpu=max\n";
        assert_eq!(two, expected);
        assert!(noted(Some("hello"), Figures::new()).is_err());
    }

    #[test]
    fn commits_have_rows_and_other_keys_are_not_compared() {
        let notes = [
            note(None, &[("a", "instructions", 1000, "max")]),
            note(None, &[("a", "instructions", 1000, "max"), ("b", "loads", 7, "max")]),
            note(None, &[("a", "instructions", 1100, "max")]),
            note(None, &[("a", "instructions", 1200, "Nehalem")]),
            "hello".to_string(),
        ];
        let ids = ["1".repeat(40), "2".repeat(40), "3".repeat(40), "4".repeat(40), "5".repeat(40)];
        let commits: Vec<(&str, &str, &str)> = ids
            .iter()
            .zip(&notes)
            .map(|(id, note)| (id.as_str(), "A change", note.as_str()))
            .collect();
        let (history, unreadable) = NotesHistory::of(&commits, "a", &[]);
        assert_eq!(unreadable.len(), 1);
        assert_eq!(history.known, ["a", "b"]);
        let shown: Value = serde_json::from_str(&history.json()).unwrap();
        let points = &shown["series"][0]["points"];
        assert_eq!((&points[2]["before"], &points[2]["value"]), (&json!(1000), &json!(1100)));
        assert!(points[0]["before"].is_null() && points[0]["not_comparable"].is_null());
        assert_eq!(points[3]["not_comparable"], "cpu was max and is Nehalem");
        assert!(NotesHistory::of(&commits, "a", &["loads".into()]).0.series.is_empty());
    }
}
