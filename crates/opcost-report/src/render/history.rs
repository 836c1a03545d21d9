//! A history as a document and as JSON.

use anyhow::Result;
use opcost_analysis::history::{History, Outcome, Point, Series, SeriesChange};
use opcost_base::number::{figures, percent};
use opcost_base::time::date;
use opcost_page::document::{Block, Cell, Column, Document, Mark, Row, Table, Tone};
use serde_json::json;

/// Version of the JSON.
const SCHEMA: u32 = 1;

/// The history as JSON.
pub fn json(history: &History) -> Result<String> {
    let document = json!({
        "schema": SCHEMA,
        "experiment": history.experiment,
        "variant": history.variant,
        "regressed": history.regressed(),
        "series": history.series,
    });
    opcost_base::json::document(&document, "history")
}

/// The history for people.
pub fn document(history: &History) -> Document {
    let mut document = Document::default();
    for series in &history.series {
        document.gap();
        self::series(&mut document, history, series);
    }
    document
}

fn series(document: &mut Document, history: &History, series: &Series) {
    let per_op = if series.per_op { "/op" } else { "" };
    let heading = [
        history.experiment.clone(),
        format!("{}{per_op} of '{}'", series.metric, history.variant),
        match series.points.len() {
            1 => "1 recording".to_string(),
            n => format!("{n} recordings"),
        },
    ];
    document.blocks.push(Block::Title(heading.join(" · ")));
    let values = series.points.iter().map(|point| point.value);
    document.blocks.push(Block::Figure(values.collect()));
    document.gap();
    let row = |(index, point): (usize, &Point)| {
        let changes = series.changes.iter().filter(|change| change.point == index);
        row(series, point, &changes.collect::<Vec<_>>())
    };
    document.table(Table {
        caption: None,
        columns: vec![
            Column::fixed("date (UTC)"),
            Column::fixed("recording"),
            Column::fixed("figure"),
            Column::optional("interval", 1),
            Column::fixed("from here"),
            Column::below("change"),
            Column::below("of"),
            Column::below("environment"),
            Column::below("work"),
            Column::below("note"),
        ],
        rows: series.points.iter().enumerate().map(row).collect(),
    });
    document.gap();
    conclusion(document, series);
    for note in &series.notes {
        document.say(Mark::Doubt, note);
    }
}

/// A recording; `changes`: the changes of level that begin with it.
fn row(series: &Series, point: &Point, changes: &[&SeriesChange]) -> Row {
    let value = point.value.map_or("–".into(), |value| figures(&[value], series.unit).remove(0));
    let interval = match (point.value, point.interval) {
        // Both ends are in the unit of the larger, which is printed once.
        (Some(_), Some((low, high))) => figures(&[low, high], series.unit).join(" … "),
        _ => String::new(),
    };
    let commit = point.revision.as_ref().map(|revision| format!("commit {}", revision.short()));
    let of: Vec<String> = point.label.iter().cloned().chain(commit).collect();
    let texts = changes.iter().map(|change| change_text(series, change)).collect::<Vec<_>>();
    let marked = |mark: &str, differences: &[String]| {
        Cell::text(
            differences.iter().map(|what| format!("{mark} {what}")).collect::<Vec<_>>().join("; "),
        )
    };
    Row::of(vec![
        Cell::text(date(point.created_unix_ns)),
        Cell::text(&point.recording),
        Cell::figure(value),
        Cell::figure(interval),
        changes.last().map_or(Cell::Empty, |change| {
            let (word, tone) = level(change.outcome);
            Cell::verdict(if change.after < change.before { "▼" } else { "▲" }, word, tone)
        }),
        Cell::text(texts.join("; ")),
        Cell::text(of.join(", ")),
        marked("!", &point.environment),
        marked("*", &point.work),
        Cell::text(point.note.clone().unwrap_or_default()),
    ])
}

/// A change of level in words.
pub fn change_text(series: &Series, change: &SeriesChange) -> String {
    let levels = figures(&[change.before, change.after], series.unit);
    format!(
        "{} ({} → {}, p {:.3}): {}",
        change.change_ratio.map_or("changed".to_string(), percent),
        levels[0],
        levels[1],
        change.p,
        words(change)
    )
}

fn words(change: &SeriesChange) -> String {
    match change.outcome {
        Outcome::Regression => "worse, with no known change of the environment".to_string(),
        Outcome::Improvement => "better, with no known change of the environment".to_string(),
        Outcome::Shift => "another level, with no known change of the environment".to_string(),
        Outcome::Environment => {
            format!("the environment changed with it ({})", change.explained_by.join("; "))
        }
    }
}

fn level(outcome: Outcome) -> (&'static str, Tone) {
    match outcome {
        Outcome::Regression => ("worse", Tone::Worse),
        Outcome::Improvement => ("better", Tone::Better),
        Outcome::Shift => ("another level", Tone::Strong),
        Outcome::Environment => ("environment", Tone::Unsure),
    }
}

/// Adds the conclusion about the end of a series.
fn conclusion(document: &mut Document, series: &Series) {
    let Some(last) = series.changes.last() else {
        if series.notes.is_empty() {
            document.say(Mark::Conclusion, format!("{}: no change of level found", series.metric));
        }
        return;
    };
    let from = date(series.points[last.point].created_unix_ns);
    let ratio = last.change_ratio.map_or("changed".to_string(), percent);
    let verdict = match last.outcome {
        Outcome::Regression => "a regression that the environment does not explain",
        Outcome::Improvement => "an improvement that the environment does not explain",
        Outcome::Shift => "a shift that the environment does not explain",
        Outcome::Environment => "not counted: the environment changed with it",
    };
    document.say(Mark::Conclusion, format!("{} {ratio} since {from}: {verdict}", series.metric));
}
