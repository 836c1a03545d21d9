//! The change that each commit of a series made: a table for a terminal, for a mail, and JSON.

use super::side_words;
use crate::render::Style;
use crate::render::page::{BOLD, DIM, GREEN, PLAIN, Page, RED, align, fit};
use anyhow::Result;
use opcost_base::number::grouped;
use opcost_gate::gate::exact::{ExactChange, list};
use opcost_gate::gate::series::{Series, Step, as_figure};
use opcost_record::Better;
use opcost_record::printable::printable;
use serde_json::json;
use unicode_width::UnicodeWidthStr;

/// Width of a mail, in columns.
const MAIL_WIDTH: usize = 72;
/// Minimum width of a subject, in columns.
const SUBJECT_WIDTH_MIN: usize = 16;
/// Functions named for a commit, at most.
const FUNCTIONS_SHOWN: usize = 3;
/// Version of the JSON format.
const SCHEMA: u32 = 1;

/// The table for a terminal.
pub fn text(series: &Series, style: &Style) -> String {
    let mut page = Page::new(style);
    render(series, &mut page);
    page.into_text()
}

/// The table for a cover letter, in 72 columns.
pub fn mail(series: &Series) -> String {
    let mut page = Page::tight(&Style { width: MAIL_WIDTH, ..Style::plain() });
    render(series, &mut page);
    page.into_text()
}

fn render(series: &Series, page: &mut Page) {
    let commits = match series.rows.len() {
        1 => "1 commit".to_string(),
        many => format!("{} commits", grouped(many as u64)),
    };
    page.wrap(
        BOLD,
        "",
        &format!("series · {} · {commits} after {}", series.range, side_words(&series.base)),
    );
    let (changed, still) = series.changed();
    for figure in changed {
        page.line("");
        table(page, series, figure);
    }
    if !still.is_empty() {
        let names: Vec<String> = still.iter().map(|figure| name(series, *figure)).collect();
        page.line("");
        page.wrap(PLAIN, "  ", &format!("No commit changed: {}.", names.join(", ")));
    }
    let reasons = series.reasons();
    if !reasons.is_empty() {
        page.line("");
    }
    for (why, commits) in reasons {
        let first = why.lines().next().unwrap_or_default();
        page.wrap(DIM, "  ", &format!("{}: {first}", commits.join(", ")));
    }
    for note in &series.notes {
        page.line("");
        page.wrap(DIM, "  ", note);
    }
}

fn name(series: &Series, figure: usize) -> String {
    let figure = &series.figures[figure];
    format!("{} {}", figure.case, figure.metric)
}

/// A change as a count and as a share.
fn cells(series: &Series, figure: usize, step: &Step) -> [String; 2] {
    match step {
        Step::Unknown(_) => ["?".into(), String::new()],
        Step::Changed { change: 0, .. } => ["=".into(), String::new()],
        Step::Changed { change, from, .. } => {
            let sign = if *change < 0 { '−' } else { '+' };
            let size = u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX);
            let report = as_figure(&series.figures[figure], *change, *from);
            let share = report.ratio().and_then(|_| report.change_words()).unwrap_or_default();
            [format!("{sign}{}", grouped(size)), share]
        }
    }
}

fn color(better: Better, step: &Step) -> anstyle::Style {
    match (better, step) {
        (
            _,
            Step::Unknown(_)
            | Step::Changed { within_floor: true, .. }
            | Step::Changed { change: 0, .. },
        ) => DIM,
        (Better::Lower, Step::Changed { change, .. }) if *change < 0 => GREEN,
        (Better::Higher, Step::Changed { change, .. }) if *change > 0 => GREEN,
        _ => RED,
    }
}

/// Writes one figure: a row for each commit, and the sum.
fn table(page: &mut Page, series: &Series, figure: usize) {
    let of = &series.figures[figure];
    let base = of
        .base
        .as_ref()
        .map_or("not known at the base".into(), |base| format!("{} at the base", grouped(*base)));
    page.wrap(BOLD, "  ", &format!("{}: {base}", name(series, figure)));
    let (steps, total) = (series.steps(figure), series.total(figure));
    let steps: Vec<(&Step, [String; 2])> =
        steps.iter().map(|step| (step, cells(series, figure, step))).collect();
    let sum = cells(series, figure, &total);
    let width = |at: usize| {
        let cells = steps.iter().map(|(_, cells)| cells[at].width());
        cells.chain([sum[at].width()]).max().unwrap_or(0)
    };
    let widths = [width(0), width(1)];
    let ids: Vec<&str> =
        series.rows.iter().map(|row| opcost_kernel::short_commit(&row.side.commit)).collect();
    let id_width = ids.iter().map(|id| id.width()).max().unwrap_or(0).max("all".len());
    let room =
        page.width.saturating_sub(id_width + widths[0] + widths[1] + 10).max(SUBJECT_WIDTH_MIN);
    let mut line = |id: &str, cells: &[String; 2], step: &Step, subject: &str, below: &str| {
        let figures = format!("{}  {}", align(&cells[0], widths[0]), align(&cells[1], widths[1]));
        let subject = fit_subject(subject, room);
        let painted = page.paint(color(of.better, step), &figures);
        page.line(&format!("    {}  {painted}  {subject}", fit(id, id_width)));
        if !below.is_empty() {
            page.wrap(DIM, &" ".repeat(id_width + 6), below);
        }
    };
    for ((row, id), (step, cells)) in series.rows.iter().zip(&ids).zip(&steps) {
        let exact: Vec<&ExactChange> = row.functions[figure].iter().collect();
        line(id, cells, step, &row.side.subject, &list(&exact, FUNCTIONS_SHOWN));
    }
    line("all", &sum, &total, "", "");
    if let Some(floor) = of.floor.filter(|floor| floor.most > 0) {
        let words = format!("layouts alone move it by up to {}", floor.words(of.unit));
        page.wrap(DIM, "    ", &words);
    }
}

fn fit_subject(subject: &str, room: usize) -> String {
    let subject = printable(subject);
    if subject.width() <= room {
        return subject;
    }
    let mut cut = String::new();
    for char in subject.chars() {
        if cut.width() + 2 > room {
            break;
        }
        cut.push(char);
    }
    cut + "…"
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
