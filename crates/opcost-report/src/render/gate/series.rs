//! The change that each commit of a series made, as a document and as JSON.

use super::side_words;
use anyhow::Result;
use opcost_base::number::grouped;
use opcost_gate::gate::exact::{ExactChange, list};
use opcost_gate::gate::series::{Series, Step, as_figure};
use opcost_page::document::{Cell, Column, Document, Mark, Row as Line, Table, Tone};
use opcost_record::Better;
use serde_json::json;

/// Functions named for a commit, at most.
const FUNCTIONS_SHOWN: usize = 3;
/// Version of the JSON format.
const SCHEMA: u32 = 1;

/// The report: a table for each figure that a commit changed.
pub fn document(series: &Series) -> Document {
    let commits = match series.rows.len() {
        1 => "1 commit".to_string(),
        many => format!("{} commits", grouped(many as u64)),
    };
    let after = side_words(&series.base);
    let mut document =
        Document::titled(format!("series · {} · {commits} after {after}", series.range));
    let (changed, still) = series.changed();
    for figure in changed {
        table(&mut document, series, figure);
    }
    if !still.is_empty() {
        let names: Vec<String> = still.iter().map(|figure| name(series, *figure)).collect();
        document.gap();
        document.say(Mark::Item(0), format!("No commit changed: {}.", names.join(", ")));
    }
    let reasons = series.reasons();
    if !reasons.is_empty() || !series.notes.is_empty() {
        document.gap();
    }
    for (why, commits) in reasons {
        let first = why.lines().next().unwrap_or_default();
        document.say(Mark::Note, format!("{}: {first}", commits.join(", ")));
    }
    for note in &series.notes {
        document.say(Mark::Note, note);
    }
    document
}

fn name(series: &Series, figure: usize) -> String {
    let figure = &series.figures[figure];
    format!("{} {}", figure.case, figure.metric)
}

/// The mark of a change that layouts alone can make; its row is grey, too.
const WITHIN_FLOOR: &str = "< layouts";

/// A change as a count and as a share, and its mark.
fn cells(series: &Series, figure: usize, step: &Step) -> [String; 3] {
    match step {
        Step::Unknown(_) => ["?".into(), String::new(), String::new()],
        Step::Changed { change: 0, .. } => ["=".into(), String::new(), String::new()],
        Step::Changed { change, from, within_floor } => {
            let sign = if *change < 0 { '−' } else { '+' };
            let size = u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX);
            let report = as_figure(&series.figures[figure], *change, *from);
            let share = report.ratio().and_then(|_| report.change_words()).unwrap_or_default();
            let mark = if *within_floor { WITHIN_FLOOR } else { "" };
            [format!("{sign}{}", grouped(size)), share, mark.into()]
        }
    }
}

fn tone(better: Better, step: &Step) -> Tone {
    match (better, step) {
        (
            _,
            Step::Unknown(_)
            | Step::Changed { within_floor: true, .. }
            | Step::Changed { change: 0, .. },
        ) => Tone::Quiet,
        (Better::Lower, Step::Changed { change, .. }) if *change < 0 => Tone::Better,
        (Better::Higher, Step::Changed { change, .. }) if *change > 0 => Tone::Better,
        _ => Tone::Worse,
    }
}

/// Adds one figure: a row for each commit, and the sum.
fn table(document: &mut Document, series: &Series, figure: usize) {
    let of = &series.figures[figure];
    let base = of
        .base
        .as_ref()
        .map_or("not known at the base".into(), |base| format!("{} at the base", grouped(*base)));
    document.section(format!("{}: {base}", name(series, figure)));
    let (steps, total) = (series.steps(figure), series.total(figure));
    let is_marked = |step: &Step| !cells(series, figure, step)[2].is_empty();
    let any_mark = steps.iter().chain([&total]).any(is_marked);
    let row = |id: &str, step: &Step, subject: &str, below: String| {
        let [change, share, mark] = cells(series, figure, step);
        let mut cells = vec![Cell::text(id), Cell::figure(change), Cell::figure(share)];
        cells.extend(any_mark.then(|| Cell::text(mark)));
        cells.extend([Cell::Brief(subject.to_string()), Cell::text(below)]);
        Line::toned(tone(of.better, step), cells)
    };
    let commits = series.rows.iter().zip(&steps).map(|(commit, step)| {
        let exact: Vec<&ExactChange> = commit.functions[figure].iter().collect();
        let id = opcost_kernel::short_commit(&commit.side.commit);
        row(id, step, &commit.side.subject, list(&exact, FUNCTIONS_SHOWN))
    });
    let all = Line { strong: true, ..row("all", &total, "", String::new()) };
    document.table(Table {
        caption: None,
        columns: [Column::fixed("commit"), Column::fixed("change"), Column::fixed("share")]
            .into_iter()
            .chain(any_mark.then(|| Column::fixed("floor")))
            .chain([Column::fixed("subject"), Column::below("functions")])
            .collect(),
        rows: commits.chain([all]).collect(),
    });
    if let Some(floor) = of.floor.filter(|floor| floor.most > 0) {
        let words = format!("layouts alone move it by up to {}", floor.words(of.unit));
        document.say(Mark::Note, words);
    }
}

/// Everything as JSON.
///
/// # Errors
/// None that is known.
pub fn json(series: &Series) -> Result<String> {
    let step = |step: &Step| match step {
        Step::Changed { change, from, within_floor } => json!({
            "change": *change as i64,
            "from": from,
            "within_floor": within_floor,
        }),
        Step::Unknown(why) => json!({ "unknown": why }),
    };
    let figures = (0..series.figures.len()).map(|at| {
        let figure = &series.figures[at];
        json!({
            "case": figure.case,
            "metric": figure.metric,
            "unit": figure.unit.symbol(),
            "base": figure.base.as_ref().ok(),
            "floor": figure.floor.map(|floor| floor.most),
            "floor_layouts": figure.floor.and_then(|floor| floor.layouts),
            "functions": series.rows.iter().map(|row| json!(row.functions[at])).collect::<Vec<_>>(),
            "steps": series.steps(at).iter().map(step).collect::<Vec<_>>(),
            "total": step(&series.total(at)),
        })
    });
    let value = json!({
        "schema": SCHEMA,
        "range": series.range,
        "base": series.base.commit,
        "commits": series.rows.iter().map(|row| json!({
            "commit": row.side.commit,
            "subject": row.side.subject,
        })).collect::<Vec<_>>(),
        "figures": figures.collect::<Vec<_>>(),
        "notes": series.notes,
    });
    opcost_base::json::document(&value, "the series")
}
