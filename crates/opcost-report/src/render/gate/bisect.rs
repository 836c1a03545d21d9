//! The result of a bisection, as a document and as JSON.

use super::exactly;
use super::functions::{lines, table as functions_table};
use anyhow::Result;
use opcost_base::number::{figure, grouped, magnitude};
use opcost_gate::gate::bisect::{
    Alone, BisectStep, Bisection, Check, EarlyEnd, Suspect, SuspectKind, UntestableSuspects,
    telling_line,
};
use opcost_page::document::{Cell, Column, Document, MailHead, Mark, Row as Line, Table, Tone};
use opcost_record::{Better, Unit};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Functions of a step named in its row, at most.
const FUNCTIONS_SHOWN: usize = 3;
/// Suspects of a step that are all named in its row, at most.
const SUSPECTS_SHOWN: usize = 6;
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

/// The report of a search: every step with its change, and the answer.
pub fn document(bisection: &Bisection) -> Document {
    let [good, bad] = &bisection.ends;
    let mut document =
        Document::titled(format!("bisect · {} · {} → {}", bisection.case, good.name(), bad.name()));
    heading(&mut document, bisection);
    document.gap();
    table(&mut document, bisection);
    for step in bisection.steps.iter().flat_map(all) {
        details(&mut document, step);
    }
    ending(&mut document, bisection);
    document.gap();
    document.say(Mark::None, "To see it again:");
    document.code("sh", vec![bisection.command.clone()]);
    let tone = if bisection.steps.is_empty() { Tone::Unsure } else { Tone::Strong };
    document.answer(Mark::Conclusion, tone, &format!("{}.", capital(&bisection.headline())));
    document.mail = Some(mail_head(bisection));
    document
}

/// The head of the report of a regression as a mail.
fn mail_head(bisection: &Bisection) -> MailHead {
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
    let authors = culprits.iter().filter_map(|step| step.suspects[0].author.as_deref());
    let authors: BTreeSet<&str> =
        authors.map(|author| author.rsplit_once(", ").map_or(author, |(name, _)| name)).collect();
    let introduced = |step: &BisectStep| match step.culprit() {
        Some(suspect) if step.inside.is_empty() => {
            let digits = suspect.id.get(..MAIL_DIGITS).unwrap_or(&suspect.id);
            Some(format!("#regzbot introduced: {digits}"))
        }
        _ => None,
    };
    let steps = bisection.steps.iter().filter(|_| bisection.kind == SuspectKind::Commit);
    MailHead {
        subject: format!("[{worse}] {} of {}: {amount}{by}", figure.name, bisection.case),
        cc: authors.into_iter().map(str::to_string).collect(),
        trailers: steps.flat_map(all).filter_map(introduced).collect(),
    }
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

fn heading(document: &mut Document, bisection: &Bisection) {
    let known = match bisection.known {
        0 => String::new(),
        known => format!(", {known} of them before"),
    };
    let (work, points, counted) = (&bisection.work, bisection.points, bisection.counted);
    let words = bisection.kind.words(points);
    document.say(Mark::Note, format!("{work} · {points} {words}, {counted} counts{known}"));
    let unit = bisection.figure.unit;
    let [from, to] = bisection.figure.values.map(|value| exactly(value as f64, unit));
    let floor =
        bisection.figure.floor.filter(|floor| floor.most > 0).map_or(String::new(), |floor| {
            format!("; layouts alone move it by up to {}", floor.words(unit))
        });
    document.gap();
    let change = bisection.change();
    let text = format!(
        "{}: {from} → {to}, {} ({}){floor}",
        bisection.figure.name,
        amount(bisection, change),
        share(bisection, bisection.figure.values[0], change)
    );
    document.say(Mark::Item(0), text);
}

fn tone(bisection: &Bisection, change: i128) -> Tone {
    match (bisection.figure.better, change) {
        (_, 0) => Tone::Plain,
        (Better::Lower, ..0) | (Better::Higher, 1..) => Tone::Better,
        (Better::Neither, _) => Tone::Plain,
        _ => Tone::Worse,
    }
}

/// A row of the table: an indented identifier, a change, and words.
fn row(
    bisection: &Bisection,
    (depth, id): (usize, &str),
    from: u64,
    change: i128,
    title: &str,
    more: String,
) -> Line {
    Line {
        depth,
        ..Line::toned(
            tone(bisection, change),
            vec![
                Cell::text(id),
                Cell::Figure(amount(bisection, change)),
                Cell::Figure(share(bisection, from, change)),
                Cell::Brief(title.to_string()),
                Cell::text(more),
            ],
        )
    }
}

fn rows(bisection: &Bisection, step: &BisectStep, depth: usize) -> Vec<Line> {
    let mut more = Vec::new();
    if !step.functions.is_empty() {
        let shown = step.functions.iter().take(FUNCTIONS_SHOWN);
        let mut shown: Vec<String> =
            shown.map(|(name, change)| format!("{name} {}", signed(*change))).collect();
        let others = step.functions.len().saturating_sub(FUNCTIONS_SHOWN);
        shown.extend((others > 0).then(|| format!("{others} more")));
        more.push(shown.join(", "));
    }
    let floor = bisection.figure.floor.map_or(0, |floor| floor.most);
    match step.alone {
        Some(Alone::Moves(alone)) if (alone - step.change).unsigned_abs() > u128::from(floor) => {
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
    let (id, title) = match &step.suspects[..] {
        [one] => (one.name().to_string(), one.title.clone()),
        many => {
            let names: Vec<String> = many.iter().map(Suspect::shown).collect();
            more.push(match (&names[..], step.is_open) {
                (names, false) if names.len() <= SUSPECTS_SHOWN => names.join(", "),
                ([first, .., last], _) => format!("{first} … {last}"),
                (names, _) => names.concat(),
            });
            let words = bisection.kind.words(step.count);
            let why = if step.is_open { "not counted yet" } else { "that could not be told apart" };
            (format!("one of {}", grouped(step.count as u64)), format!("{words} {why}"))
        }
    };
    let more = more.join("; ");
    let mut rows = vec![row(bisection, (depth, &id), step.from, step.change, &title, more)];
    for inner in &step.inside {
        rows.extend(self::rows(bisection, inner, depth + 1));
    }
    if let (Some(of_merge), false) =
        (step.of_merge.filter(|change| *change != 0), step.inside.is_empty())
    {
        let of = (depth + 1, "merge");
        rows.push(row(bisection, of, step.from, of_merge, "the merge itself", String::new()));
    }
    rows
}

/// Every step with its change; the changes add up to the whole.
fn table(document: &mut Document, bisection: &Bisection) {
    let mut rows: Vec<Line> =
        bisection.steps.iter().flat_map(|step| self::rows(bisection, step, 0)).collect();
    let from = bisection.figure.values[0];
    if bisection.rest != 0 {
        let title = format!("moves of at most {} each", grouped(bisection.figure.least_step));
        rows.push(row(bisection, (0, "rest"), from, bisection.rest, &title, String::new()));
    }
    let all = row(bisection, (0, "all"), from, bisection.change(), "", String::new());
    rows.push(Line { strong: true, ..all });
    document.table(Table {
        caption: None,
        columns: vec![
            Column::fixed(""),
            Column::fixed("change"),
            Column::fixed("share"),
            Column::fixed("subject"),
            Column::below("functions"),
        ],
        rows,
    });
}

/// Adds the result of checking a culprit.
fn details(document: &mut Document, step: &BisectStep) {
    let (Some(check), Some(suspect)) = (&step.check, step.culprit()) else { return };
    document.section(suspect.shown());
    if let Some(author) = &suspect.author {
        document.say(Mark::Note, format!("by {author}"));
    }
    let Check { recording, conclusion, confirmed, functions, differences } = check;
    let stored =
        if recording.is_empty() { String::new() } else { format!(" (recording {recording})") };
    document.say(Mark::Item(0), format!("checked: {conclusion}{stored}"));
    if *confirmed == Some(false) {
        let why =
            "other layouts do not move it so: the step above is of the layout of the search only";
        document.say_in(Mark::Item(0), Tone::Unsure, why);
    }
    for line in differences {
        document.say_in(Mark::Item(0), Tone::Unsure, line);
    }
    let Some(functions) = functions else { return };
    let (total, lines) = lines(functions);
    document.say(Mark::None, format!("where {total} {} come from", functions.unit()));
    document.table(functions_table(lines));
}

fn ending(document: &mut Document, bisection: &Bisection) {
    let is_open = bisection.steps.iter().any(|step| step.is_open);
    let left = (is_open || bisection.ended.is_some()).then(|| {
        let explained = magnitude(bisection.explained);
        match &bisection.ended {
            Some(EarlyEnd::Interrupted) => format!(
                "interrupted when {explained} of the change was explained; the same command goes on from there"
            ),
            Some(EarlyEnd::ComputerChanged(_)) => format!(
                "ended when {explained} of the change was explained, since this computer changed; the same command \
                 counts the ends again and goes on"
            ),
            None => format!(
                "{explained} of the change is explained; --top N or --explain 100% searches the rest"
            ),
        }
    });
    if !bisection.untestable.is_empty() || !bisection.notes.is_empty() || left.is_some() {
        document.gap();
    }
    for group in &bisection.untestable {
        document.say(Mark::Note, untestable(bisection, group));
    }
    for note in bisection.notes.iter().chain(&left) {
        document.say(Mark::Note, format!("note: {note}"));
    }
}

/// A group of suspects that could not be tested, in a paragraph.
fn untestable(bisection: &Bisection, group: &UntestableSuspects) -> String {
    let words = bisection.kind.words(2);
    let first = group.why.lines().next().unwrap_or_default();
    let said = telling_line(&group.why).map_or(String::new(), |line| format!(" ({line})"));
    let who = match (&group.tried[..], group.count) {
        ([one], _) => one.name().to_string(),
        ([one, .., other], count) if count == group.tried.len() => {
            format!("the {count} {words} from {} to {}", one.name(), other.name())
        }
        ([one, .., other], count) => format!(
            "the {} {words} from {} to {} (tried: {})",
            grouped(count as u64),
            one.name(),
            other.name(),
            group.tried.len()
        ),
        ([], _) => String::new(),
    };
    format!("{who} could not be tested: {first}{said}")
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
        "explained": bisection.explained,
        "interrupted": bisection.ended == Some(EarlyEnd::Interrupted),
        "computer_changed": match &bisection.ended {
            Some(EarlyEnd::ComputerChanged(why)) => Some(why),
            _ => None,
        },
        "steps": bisection.steps.iter().map(step).collect::<Vec<_>>(),
        "untestable": bisection.untestable.iter().flat_map(|group| {
            group.tried.iter().map(|of| json!({ "suspect": suspect(of), "why": group.why }))
        }).collect::<Vec<_>>(),
        "untestable_groups": bisection.untestable.iter().map(|group| json!({
            "first": group.tried.first().map(suspect),
            "last": group.tried.last().map(suspect),
            "count": group.count,
            "tried": group.tried.len(),
            "why": group.why,
        })).collect::<Vec<_>>(),
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
                    "name": line.name(),
                    "change": line.change,
                    "why": line.why,
                    "callers": line.callers,
                })).collect::<Vec<_>>(),
            })
        })
    };
    json!({
        "suspects": step.suspects.iter().map(suspect).collect::<Vec<_>>(),
        "suspects_count": step.count,
        "open": step.is_open,
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
