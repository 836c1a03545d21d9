//! A history as text and as JSON.

use crate::render::Style;
use crate::render::page::{BOLD, DIM, GREEN, PLAIN, Page, RED, YELLOW, align};
use anyhow::Result;
use opcost_analysis::history::{History, Outcome, Point, Series, SeriesChange};
use opcost_base::number::{figures, percent};
use opcost_base::time::date;
use opcost_page::writer::text::sparkline;
use opcost_record::Unit;
use serde_json::json;
use unicode_width::UnicodeWidthStr;

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
pub fn text(history: &History, style: &Style) -> String {
    let mut page = Page::new(style);
    for (index, series) in history.series.iter().enumerate() {
        if index > 0 {
            page.line("");
        }
        self::series(&mut page, history, series);
    }
    page.into_text()
}

fn series(page: &mut Page, history: &History, series: &Series) {
    let per_op = if series.per_op { "/op" } else { "" };
    let heading = [
        history.experiment.clone(),
        format!("{}{per_op} of '{}'", series.metric, history.variant),
        match series.points.len() {
            1 => "1 recording".to_string(),
            n => format!("{n} recordings"),
        },
    ];
    page.wrap(BOLD, "", &heading.join(" · "));
    let values: Vec<Option<f64>> = series.points.iter().map(|point| point.value).collect();
    for line in sparkline(&values, page.width.saturating_sub(2)) {
        page.line(&format!("  {line}"));
    }
    page.line("");
    let head =
        format!("  {:<16} {:<14} {:>12} {:>26}", "date (UTC)", "recording", "figure", "interval");
    let head = page.paint(BOLD, &head);
    page.line(&head);
    for (index, point) in series.points.iter().enumerate() {
        for change in series.changes.iter().filter(|change| change.point == index) {
            self::change(page, series, change);
        }
        self::point(page, series.unit, point);
    }
    page.line("");
    conclusion(page, series);
    for note in &series.notes {
        page.wrap(YELLOW, "! ", note);
    }
}

fn point(page: &mut Page, unit: Unit, point: &Point) {
    let (low, high) = point.interval.unwrap_or((f64::NAN, f64::NAN));
    let value = point.value.map_or("–".to_string(), |value| figures(&[value], unit).remove(0));
    let interval = match (point.value, point.interval) {
        // Both ends are in the unit of the larger, which is printed once.
        (Some(_), Some(_)) => figures(&[low, high], unit).join(" … "),
        _ => String::new(),
    };
    let line = format!(
        "  {:<16} {:<14} {} {}",
        date(point.created_unix_ns),
        point.recording,
        align(&value, 12),
        align(&interval, 26.max(interval.width()))
    );
    page.line(&line);
    let commit = point.revision.as_ref().map(|revision| format!("commit {}", revision.short()));
    let of: Vec<String> = point.label.iter().cloned().chain(commit).collect();
    if !of.is_empty() {
        page.wrap(DIM, "    ", &of.join(", "));
    }
    for difference in &point.environment {
        page.wrap(DIM, "    ! ", difference);
    }
    for difference in &point.work {
        page.wrap(DIM, "    * ", difference);
    }
    if let Some(note) = &point.note {
        page.wrap(DIM, "    ", note);
    }
}

/// Writes a line above the first recording after a change.
fn change(page: &mut Page, series: &Series, change: &SeriesChange) {
    page.wrap(color(change.outcome), "  ── ", &change_text(series, change));
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

fn color(outcome: Outcome) -> anstyle::Style {
    match outcome {
        Outcome::Regression => RED,
        Outcome::Improvement => GREEN,
        Outcome::Shift => PLAIN,
        Outcome::Environment => YELLOW,
    }
}

/// Writes the conclusion about the end of a series.
fn conclusion(page: &mut Page, series: &Series) {
    let Some(last) = series.changes.last() else {
        if series.notes.is_empty() {
            page.wrap(BOLD, "→ ", &format!("{}: no change of level found", series.metric));
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
    page.wrap(BOLD, "→ ", &format!("{} {ratio} since {from}: {verdict}", series.metric));
}
