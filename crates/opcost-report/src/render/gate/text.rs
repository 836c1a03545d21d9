//! The answer for people, in 80 columns.

use super::functions::{lines, show_lines};
use super::{GateView, against_words, both, exact_words, side_words};
use crate::render::page::{BOLD, DIM, GREEN, PLAIN, Page, RED, YELLOW, align, fit};
use opcost_gate::gate::report::{CaseReport, FigureReport, GateVerdict, Outcome};
use opcost_record::printable::{Output, printable, safe};
use unicode_width::UnicodeWidthStr;

/// Maximum width of a case's or metric's name, in columns.
const NAME_WIDTH_MAX: usize = 24;

pub(super) fn render(view: &GateView<'_>) -> String {
    let report = view.report;
    let mut page = Page::new(view.style);
    let against = against_words(&report.against);
    let heading = format!("gate · {against} → {}", side_words(&report.tip));
    page.wrap(BOLD, "", &heading);
    if report.figures().next().is_some() {
        page.line("");
        table(&mut page, view);
    }
    for (cases, verdict, words) in report.failures() {
        page.line("");
        let words = safe(&words, Output::Message);
        let words = format!("{}: {words}", printable(&cases.join(", ")));
        for (at, line) in words.lines().enumerate() {
            match at {
                0 => page.wrap(color(verdict), "  ", line),
                // A compiler's lines stay as they are.
                _ => page.line(line),
            }
        }
    }
    for orphan in &report.orphans {
        page.line("");
        page.wrap(
            YELLOW,
            "  ",
            &format!("{orphan}: the baseline has it, and the suite has no such case"),
        );
    }
    for case in &report.cases {
        of_functions(&mut page, case);
        if let Some(words) = exact_words(case) {
            page.line("");
            page.wrap(PLAIN, "  ", &words);
        }
    }
    let differing = report.figures().filter(|(_, figure)| {
        matches!(
            figure.outcome,
            Outcome::NotComparable(_) | Outcome::Refused(_) | Outcome::Undecided(_)
        )
    });
    let differing: Vec<_> = differing.collect();
    if !differing.is_empty() {
        page.line("");
    }
    for (case, figure) in differing {
        page.wrap(PLAIN, "  ", &format!("{} {}: {}", case.name, figure.metric, figure.words()));
    }
    let accepted = report.accepted();
    if !accepted.is_empty() {
        page.line("");
    }
    for trailer in accepted {
        page.wrap(PLAIN, "  ", &format!("{} accepts: {}", trailer.commit, trailer.text));
    }
    if !report.notes.is_empty() {
        page.line("");
    }
    for note in &report.notes {
        page.wrap(DIM, "  note: ", note);
    }
    page.line("");
    page.wrap(color(report.verdict()), "", &report.headline());
    for sentence in report.to_do() {
        page.wrap(PLAIN, "", &sentence);
    }
    if view.soft && report.verdict() != GateVerdict::MayLand {
        page.wrap(DIM, "", "The exit status is 0, since --soft was asked for.");
    }
    page.into_text()
}

fn color(verdict: GateVerdict) -> anstyle::Style {
    match verdict {
        GateVerdict::MayLand => GREEN,
        GateVerdict::NoAnswer => YELLOW,
        GateVerdict::Exceeded | GateVerdict::Failed => RED,
    }
}

/// The words behind a figure; longer explanations stand below the table.
fn short_words(figure: &FigureReport) -> String {
    match &figure.outcome {
        Outcome::NotComparable(_) => "not comparable".into(),
        Outcome::Refused(_) => "refused".into(),
        Outcome::Undecided(_) => "undecided".into(),
        Outcome::Exceeded => format!("▲ {}", figure.words()),
        Outcome::Improved => format!("▼ {}", figure.words()),
        _ => figure.words(),
    }
}

fn table(page: &mut Page, view: &GateView<'_>) {
    struct Shown<'a> {
        case: &'a str,
        figure: &'a FigureReport,
        sides: [String; 2],
        change: String,
    }
    let mut last = "";
    let rows: Vec<Shown<'_>> = view
        .report
        .figures()
        .map(|(case, figure)| Shown {
            case: if std::mem::replace(&mut last, &case.name) == case.name {
                ""
            } else {
                &case.name
            },
            figure,
            sides: both(figure.baseline, figure.value, figure.unit),
            change: figure.change_words().unwrap_or_default(),
        })
        .collect();
    let width = |of: &dyn Fn(&Shown<'_>) -> usize, least: usize, most: usize| {
        rows.iter().map(of).max().unwrap_or(0).clamp(least, most)
    };
    let case_width = width(&|row| row.case.width(), 0, NAME_WIDTH_MAX);
    let metric_width = width(&|row| row.figure.metric.width(), 0, NAME_WIDTH_MAX);
    let side_width = width(
        &|row| row.sides.iter().map(|side| side.width()).max().unwrap_or(0),
        "baseline".len(),
        20,
    );
    let change_width = width(&|row| row.change.width(), "change".len(), 16);
    let head = format!(
        "  {}  {}  {}  {}  {}",
        fit("case", case_width),
        fit("", metric_width),
        align("baseline", side_width),
        align("tip", side_width),
        align("change", change_width),
    );
    page.line(&page.paint(DIM, &head));
    for row in &rows {
        let metric = page.name(&row.figure.metric, "", metric_width);
        let line = format!(
            "  {}  {}  {}  {}  {}",
            fit(row.case, case_width),
            fit(&metric, metric_width),
            align(&row.sides[0], side_width),
            align(&row.sides[1], side_width),
            align(&row.change, change_width),
        );
        let words = short_words(row.figure);
        let style = match row.figure.outcome {
            Outcome::Improved => GREEN,
            _ if row.figure.outcome.is_worth_a_row() => color(row.figure.outcome.verdict()),
            _ => DIM,
        };
        if line.width() + 2 + words.width() <= page.width {
            page.line(&format!("{line}  {}", page.paint(style, &words)));
        } else {
            page.line(&line);
            let indent = " ".repeat(case_width + 4);
            page.wrap(style, &indent, &words);
        }
    }
}

fn of_functions(page: &mut Page, case: &CaseReport) {
    if let Some(why) = &case.functions_missing {
        page.line("");
        page.wrap(DIM, "  ", &format!("functions of {}: not known, since {why}", case.name));
    }
    let Some(functions) = &case.functions else { return };
    let (total, lines) = lines(functions);
    page.line("");
    let place = case
        .place
        .as_ref()
        .map_or(String::new(), |place| format!(" ({}:{})", place.file, place.line));
    page.wrap(
        BOLD,
        "  ",
        &format!("where {total} {} of {} come from{place}", functions.unit(), case.name),
    );
    show_lines(page, lines, 4);
}
