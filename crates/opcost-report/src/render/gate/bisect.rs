//! The result of a bisection: for a terminal, as a mail, as JSON.

use super::exactly;
use super::functions::{lines, show_lines};
use crate::render::Style;
use crate::render::page::{BOLD, DIM, GREEN, PLAIN, Page, RED, YELLOW, align, fit};
use anyhow::Result;
use opcost_base::number::{figure, grouped};
use opcost_gate::gate::bisect::{Alone, BisectStep, Bisection, Check, Suspect, SuspectKind};
use opcost_record::printable::{Output, printable, safe};
use opcost_record::{Better, Unit};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use unicode_width::UnicodeWidthStr;

/// Width of a mail, in columns.
const MAIL_WIDTH: usize = 72;
/// Minimum width of a subject, in columns.
const SUBJECT_WIDTH_MIN: usize = 16;
/// Functions of a step named in its row, at most.
const FUNCTIONS_SHOWN: usize = 3;
/// Digits of a commit's hash in the kernel's mails.
const MAIL_DIGITS: usize = 12;
/// Version of the JSON format.
const SCHEMA: u32 = 1;

/// A change with its sign.
pub fn signed(change: i128) -> String {
    let size = u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX);
    match change {
        0 => "=".into(),
        ..0 => format!("−{}", grouped(size)),
        _ => format!("+{}", grouped(size)),
    }
}

/// The answer for a terminal.
pub fn text(bisection: &Bisection, style: &Style) -> String {
    let mut page = Page::new(style);
    contents(&mut page, bisection);
    let color = if bisection.steps.is_empty() { YELLOW } else { BOLD };
    page.wrap(color, "", &format!("{}.", capital(&bisection.headline())));
    page.into_text()
}

/// A report of a regression, in 72 columns.
pub fn mail(bisection: &Bisection) -> String {
    let mut page = Page::tight(&Style { width: MAIL_WIDTH, ..Style::plain() });
    let figure = &bisection.figure;
    let worse = match (figure.better, bisection.change() > 0) {
        (Better::Lower, true) | (Better::Higher, false) => "regression",
        (Better::Neither, _) => "change",
        _ => "improvement",
    };
    let amount = share(bisection, figure.values[0], bisection.change());
    let culprits: Vec<&BisectStep> = bisection.culprits().collect();
    let by = match &culprits[..] {
        [] => String::new(),
        [one] => format!(" by {}", one.suspects[0].shown()),
        many => format!(" by {} {}", many.len(), bisection.kind.words(many.len())),
    };
    page.line(&format!("Subject: [{worse}] {} of {}: {amount}{by}", figure.name, bisection.case));
    let authors = culprits.iter().filter_map(|step| step.suspects[0].author.as_deref());
    let authors: BTreeSet<&str> =
        authors.map(|author| author.rsplit_once(", ").map_or(author, |(name, _)| name)).collect();
    let mailboxes = authors.iter().map(|author| safe(author, Output::Mailbox));
    for mailbox in mailboxes.filter(|mailbox| !mailbox.is_empty()) {
        page.line(&format!("Cc: {mailbox}"));
    }
    page.line("");
    contents(&mut page, bisection);
    page.line("To see it again:");
    page.line(&format!("  {}", printable(&bisection.command)));
    if bisection.kind == SuspectKind::Commit {
        page.line("");
        for step in bisection.steps.iter().flat_map(all).filter(|step| step.inside.is_empty()) {
            if let [suspect] = &step.suspects[..] {
                let digits = suspect.id.get(..MAIL_DIGITS).unwrap_or(&suspect.id);
                page.line(&format!("#regzbot introduced: {digits}"));
            }
        }
    }
    page.into_text()
}

/// Writes the findings, step by step.
fn contents(page: &mut Page, bisection: &Bisection) {
    heading(page, bisection);
    page.line("");
    table(page, bisection);
    for step in bisection.steps.iter().flat_map(all) {
        details(page, step);
    }
    ending(page, bisection);
    page.line("");
}

/// A step and all steps within it.
fn all(step: &BisectStep) -> Vec<&BisectStep> {
    std::iter::once(step).chain(step.inside.iter().flat_map(all)).collect()
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// A change of the figure in its unit.
fn amount(bisection: &Bisection, change: i128) -> String {
    match (bisection.figure.unit, change) {
        (Unit::Count, _) | (_, 0) => signed(change),
        (unit, ..0) => format!("−{}", figure(change.unsigned_abs() as f64, unit)),
        (unit, _) => format!("+{}", figure(change as f64, unit)),
    }
}

fn share(bisection: &Bisection, from: u64, change: i128) -> String {
    let figure = bisection.as_figure(from, change);
    figure.change_words().unwrap_or_else(|| signed(change))
}

fn heading(page: &mut Page, bisection: &Bisection) {
    let [good, bad] = &bisection.ends;
    let heading = format!("bisect · {} · {} → {}", bisection.case, good.name(), bad.name());
    page.wrap(BOLD, "", &heading);
    let known = match bisection.known {
        0 => String::new(),
        known => format!(", {known} of them before"),
    };
    let points = bisection.points;
    let words = bisection.kind.words(points);
    page.wrap(
        DIM,
        "",
        &format!("{} · {points} {words}, {} counts{known}", bisection.work, bisection.counted),
    );
    let unit = bisection.figure.unit;
    let [from, to] = bisection.figure.values.map(|value| exactly(value as f64, unit));
    let floor =
        bisection.figure.floor.filter(|floor| floor.most > 0).map_or(String::new(), |floor| {
            format!("; layouts alone move it by up to {}", floor.words(unit))
        });
    page.line("");
    let change = bisection.change();
    page.wrap(
        PLAIN,
        "  ",
        &format!(
            "{}: {from} → {to}, {} ({}){floor}",
            bisection.figure.name,
            amount(bisection, change),
            share(bisection, bisection.figure.values[0], change)
        ),
    );
}

fn color(bisection: &Bisection, change: i128) -> anstyle::Style {
    match (bisection.figure.better, change) {
        (_, 0) => PLAIN,
        (Better::Lower, ..0) | (Better::Higher, 1..) => GREEN,
        (Better::Neither, _) => PLAIN,
        _ => RED,
    }
}

struct Row {
    id: String,
    change: i128,
    cells: [String; 2],
    title: String,
    more: Vec<String>,
}

fn rows(bisection: &Bisection, step: &BisectStep, depth: usize) -> Vec<Row> {
    let indent = "  ".repeat(depth);
    let cells = |change| [amount(bisection, change), share(bisection, step.from, change)];
    let mut more = Vec::new();
    if !step.functions.is_empty() {
        let shown = step.functions.iter().take(FUNCTIONS_SHOWN);
        let mut shown: Vec<String> =
            shown.map(|(name, change)| format!("{name} {}", signed(*change))).collect();
        let others = step.functions.len().saturating_sub(FUNCTIONS_SHOWN);
        shown.extend((others > 0).then(|| format!("{others} more")));
        more.push(shown.join(", "));
    }
    match step.alone {
        Some(Alone::Moves(alone)) if alone != step.change => {
            more.push(format!(
                "alone {}, the rest by what came before it",
                amount(bisection, alone)
            ));
        }
        Some(Alone::NeedsOthers) => {
            more.push("cannot be set alone: it needs what came before it".into());
        }
        Some(Alone::Moves(_)) | None => {}
    }
    let mut rows: Vec<Row> = match &step.suspects[..] {
        [one] => vec![Row {
            id: format!("{indent}{}", one.name()),
            change: step.change,
            cells: cells(step.change),
            title: one.title.clone(),
            more,
        }],
        many => {
            let words = bisection.kind.words(many.len());
            let ids = many.iter().map(Suspect::shown).collect::<Vec<_>>().join(", ");
            more.push(ids);
            vec![Row {
                id: format!("{indent}one of {}", many.len()),
                change: step.change,
                cells: cells(step.change),
                title: format!("{words} that could not be told apart"),
                more,
            }]
        }
    };
    for inner in &step.inside {
        rows.extend(self::rows(bisection, inner, depth + 1));
    }
    if let (Some(of_merge), false) =
        (step.of_merge.filter(|change| *change != 0), step.inside.is_empty())
    {
        rows.push(Row {
            id: format!("{indent}  merge"),
            change: of_merge,
            cells: cells(of_merge),
            title: "the merge itself".into(),
            more: Vec::new(),
        });
    }
    rows
}

/// Every step with its change; the changes add up to the whole.
fn table(page: &mut Page, bisection: &Bisection) {
    let mut rows: Vec<Row> =
        bisection.steps.iter().flat_map(|step| self::rows(bisection, step, 0)).collect();
    let from = bisection.figure.values[0];
    let sum = |id: &str, change: i128, title: &str| Row {
        id: id.into(),
        change,
        cells: [amount(bisection, change), share(bisection, from, change)],
        title: title.into(),
        more: Vec::new(),
    };
    if bisection.rest != 0 {
        let title = format!("moves of at most {} each", grouped(bisection.figure.least_step));
        rows.push(sum("rest", bisection.rest, &title));
    }
    rows.push(sum("all", bisection.change(), ""));
    let width = |of: &dyn Fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let id_width = width(&|row| row.id.width());
    let widths = [0, 1].map(|at| width(&|row: &Row| row.cells[at].width()));
    let room =
        page.width.saturating_sub(id_width + widths[0] + widths[1] + 8).max(SUBJECT_WIDTH_MIN);
    for row in &rows {
        let cells =
            format!("{}  {}", align(&row.cells[0], widths[0]), align(&row.cells[1], widths[1]));
        let cells = page.paint(color(bisection, row.change), &cells);
        let title =
            if row.title.width() > room { fit(&row.title, room) } else { row.title.clone() };
        page.line(&format!("  {}  {cells}  {title}", fit(&row.id, id_width)));
        for more in &row.more {
            page.wrap(DIM, &" ".repeat(id_width + 4), more);
        }
    }
}

/// Writes the result of checking a culprit.
fn details(page: &mut Page, step: &BisectStep) {
    let (Some(check), [suspect]) = (&step.check, &step.suspects[..]) else { return };
    page.line("");
    page.wrap(BOLD, "  ", &suspect.shown());
    if let Some(author) = &suspect.author {
        page.wrap(DIM, "    ", &format!("by {author}"));
    }
    let Check { recording, conclusion, confirmed, functions, differences } = check;
    let stored =
        if recording.is_empty() { String::new() } else { format!(" (recording {recording})") };
    page.wrap(PLAIN, "    ", &format!("checked: {conclusion}{stored}"));
    if *confirmed == Some(false) {
        let why =
            "other layouts do not move it so: the step above is of the layout of the search only";
        page.wrap(YELLOW, "    ", why);
    }
    for line in differences {
        page.wrap(YELLOW, "    ", line);
    }
    let Some(functions) = functions else { return };
    let (total, lines) = lines(functions);
    page.wrap(PLAIN, "    ", &format!("where {total} {} come from", functions.unit()));
    show_lines(page, lines, 6);
}

fn ending(page: &mut Page, bisection: &Bisection) {
    if !bisection.untestable.is_empty() {
        page.line("");
    }
    for (suspect, why) in &bisection.untestable {
        let first = why.lines().next().unwrap_or_default();
        page.wrap(DIM, "  ", &format!("{} could not be tested: {first}", suspect.name()));
    }
    if !bisection.notes.is_empty() {
        page.line("");
    }
    for note in &bisection.notes {
        page.wrap(DIM, "  note: ", note);
    }
}

/// Everything as JSON.
///
/// # Errors
/// None that is known.
pub fn json(bisection: &Bisection) -> Result<String> {
    let value = json!({
        "schema": SCHEMA,
        "case": bisection.case,
        "work": bisection.work,
        "good": suspect(&bisection.ends[0]),
        "bad": suspect(&bisection.ends[1]),
        "metric": bisection.figure.name,
        "unit": bisection.figure.unit.symbol(),
        "values": bisection.figure.values,
        "floor": bisection.figure.floor.map(|floor| floor.most),
        "floor_layouts": bisection.figure.floor.and_then(|floor| floor.layouts),
        "least_step": bisection.figure.least_step,
        "points": bisection.points,
        "counted": bisection.counted,
        "counted_before": bisection.known,
        "change": bisection.change() as i64,
        "rest": bisection.rest as i64,
        "steps": bisection.steps.iter().map(step).collect::<Vec<_>>(),
        "untestable": bisection.untestable.iter().map(|(of, why)| {
            json!({ "suspect": suspect(of), "why": why })
        }).collect::<Vec<_>>(),
        "notes": bisection.notes,
        "command": bisection.command,
        "answer": bisection.headline(),
    });
    opcost_base::json::document(&value, "the bisection")
}

fn suspect(suspect: &Suspect) -> Value {
    json!({ "id": suspect.id, "title": suspect.title, "author": suspect.author })
}

fn step(step: &BisectStep) -> Value {
    let functions = |check: &Check| {
        check.functions.as_ref().map(|functions| {
            let (total, lines) = lines(functions);
            json!({
                "change": total,
                "functions": lines.iter().map(|line| json!({
                    "name": line.name,
                    "change": line.change,
                    "callers": line.callers,
                })).collect::<Vec<_>>(),
            })
        })
    };
    json!({
        "suspects": step.suspects.iter().map(suspect).collect::<Vec<_>>(),
        "from": step.from,
        "change": step.change as i64,
        "alone": match step.alone {
            Some(Alone::Moves(alone)) => Some(alone as i64),
            Some(Alone::NeedsOthers) | None => None,
        },
        "needs_others": step.alone == Some(Alone::NeedsOthers),
        "functions": step.functions.iter().map(|(name, change)| {
            json!({ "name": name, "change": *change as i64 })
        }).collect::<Vec<_>>(),
        "inside": step.inside.iter().map(self::step).collect::<Vec<_>>(),
        "of_merge": step.of_merge.map(|change| change as i64),
        "check": step.check.as_ref().map(|check| json!({
            "recording": check.recording,
            "conclusion": check.conclusion,
            "confirmed": check.confirmed,
            "differences": check.differences,
            "functions": functions(check),
        })),
    })
}
