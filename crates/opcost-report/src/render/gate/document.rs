//! A gate's report as a document.

use super::functions::{lines, table as functions_table};
use super::{GateView, against_words, both, exact_words, side_words};
use opcost_analysis::comparison::FunctionRow;
use opcost_gate::gate::report::{CaseReport, FigureReport, GateReport, GateVerdict, Outcome};
use opcost_page::document::{Cell, Column, Document, Mark, Row as Line, Table, Tone};

/// The functions of a case for which the report says how to see their lines.
const ANNOTATED_MAX: usize = 2;

/// The report: what needs attention, where it comes from, and the answer.
pub fn document(view: &GateView<'_>) -> Document {
    let report = view.report;
    let sides = format!("{} → {}", against_words(&report.against), side_words(&report.tip));
    let mut document = Document::titled(format!("gate · {sides}"));
    let (worth, others): (Vec<_>, Vec<_>) =
        report.figures().partition(|(_, figure)| figure.outcome.is_worth_a_row());
    document.gap();
    document.table(table(&worth));
    for case in &report.cases {
        if let Some(words) = exact_words(case) {
            document.gap();
            document.say(Mark::None, words);
        }
        if let Some(words) = case.recounted_words() {
            document.gap();
            document.say(Mark::Note, words);
        }
        if let Some(why) = &case.functions_missing {
            document.gap();
            document.say(Mark::Note, format!("functions of {}: not known, since {why}", case.name));
        }
    }
    for orphan in &report.orphans {
        document.gap();
        let words = format!("{orphan}: the baseline has it, and the suite has no such case");
        document.say_in(Mark::None, Tone::Unsure, words);
    }
    let accepted = report.accepted();
    if !accepted.is_empty() || !report.notes.is_empty() {
        document.gap();
    }
    for trailer in accepted {
        document.say_code(Mark::Item(0), format!("{} accepts: ", trailer.commit), &trailer.text);
    }
    for note in &report.notes {
        document.say(Mark::Note, format!("note: {note}"));
    }
    for (cases, _, words) in report.failures() {
        let mut failure = Document::default();
        // A compiler's lines stay as they are.
        failure.code("", words.lines().map(str::to_string).collect());
        document.fold(format!("{}: what failed", cases.join(", ")), failure);
    }
    for case in &report.cases {
        of_functions(&mut document, case);
    }
    let mut unchanged = Document::default();
    unchanged.table(table(&others));
    document.fold("Without a change", unchanged);
    document.fold("Reproduction and environment", reproduction(report));
    answer(&mut document, view);
    document
}

fn answer(document: &mut Document, view: &GateView<'_>) {
    let report = view.report;
    let verdict = report.verdict();
    let to_do = report.to_do();
    document.answer(Mark::Conclusion, tone(verdict), &report.headline());
    if to_do.is_empty() && verdict == GateVerdict::MayLand {
        document.answer(Mark::None, Tone::Plain, "Nothing has to be done.");
    }
    for sentence in to_do {
        document.answer(Mark::None, Tone::Plain, &sentence);
    }
    if view.soft && verdict != GateVerdict::MayLand {
        let words =
            "The check passes all the same: the exit status is 0, since --soft was asked for.";
        document.answer(Mark::Note, Tone::Quiet, words);
    }
}

fn tone(verdict: GateVerdict) -> Tone {
    match verdict {
        GateVerdict::MayLand => Tone::Better,
        GateVerdict::NoAnswer => Tone::Unsure,
        GateVerdict::Exceeded | GateVerdict::Failed => Tone::Worse,
    }
}

fn table(figures: &[(&CaseReport, &FigureReport)]) -> Table {
    let row = |(case, figure): &(&CaseReport, &FigureReport)| {
        let [baseline, value] = both(figure.baseline, figure.value, figure.unit);
        let (sign, tone) = match figure.outcome {
            Outcome::Exceeded => ("▲", Tone::Worse),
            Outcome::Improved => ("▼", Tone::Better),
            Outcome::WithinLimit | Outcome::Accepted(_) => ("", Tone::Plain),
            _ if figure.outcome.is_worth_a_row() => ("", tone(figure.outcome.verdict())),
            _ => ("", Tone::Quiet),
        };
        Line::of(vec![
            Cell::text(&case.name),
            Cell::Name(figure.name(), String::new()),
            Cell::Figure(baseline),
            Cell::Figure(value),
            Cell::figure(figure.change_words().unwrap_or_default()),
            Cell::verdict(sign, figure.words(), tone),
        ])
    };
    Table {
        caption: None,
        columns: vec![
            Column::fixed("case"),
            Column::fixed("metric"),
            Column::fixed("baseline"),
            Column::fixed("tip"),
            Column::fixed("change"),
            Column::note("verdict"),
        ],
        rows: figures.iter().map(row).collect(),
    }
}

fn of_functions(document: &mut Document, case: &CaseReport) {
    let Some(functions) = &case.functions else { return };
    let (total, lines) = lines(functions);
    let place = case.place.as_ref();
    let place = place.map_or(String::new(), |place| format!(" ({}:{})", place.file, place.line));
    let mut parts = Document::default();
    parts.table(functions_table(lines));
    if let [Some(base), Some(tip)] = &case.recordings {
        let on_both = |row: &&FunctionRow| !row.appeared && !row.vanished;
        for row in functions.leading(ANNOTATED_MAX).0.iter().filter(on_both) {
            let name = shlex::try_quote(&row.symbol).unwrap_or_default();
            let words = format!("{} by line, if the case has addresses = true: ", row.symbol);
            let command = format!("opcost diff {base} {tip} --annotate={name} --store STORE");
            parts.say_code(Mark::Note, words, command);
        }
    }
    let unit = functions.unit();
    document.fold(format!("Where {total} {unit} of {} come from{place}", case.name), parts);
}

fn reproduction(report: &GateReport) -> Document {
    let mut document = Document::default();
    if let Some(words) = report.tip_words() {
        document.say(Mark::None, words);
    }
    document.code("sh", report.reproduction());
    if let Some((words, commands)) = report.culprit() {
        document.say(Mark::None, words);
        if !commands.is_empty() {
            document.code("sh", commands);
        }
    }
    for case in report.cases.iter().filter(|case| !case.work.is_empty()) {
        let ids: Vec<&str> = case.recordings.iter().flatten().map(String::as_str).collect();
        let words = format!("{}, recorded as {}: ", case.name, ids.join(" and "));
        document.say_code(Mark::Item(0), words, &case.work);
    }
    let mut counted: Vec<&str> =
        report.cases.iter().filter_map(|case| case.counted.as_deref()).collect();
    counted.sort_unstable();
    counted.dedup();
    counted.into_iter().for_each(|words| document.say(Mark::Item(0), words));
    let (all, own) = environment(&report.cases);
    for (names, parts) in [(String::new(), all)].into_iter().chain(own) {
        if !parts.is_empty() {
            document.say(Mark::Item(0), format!("{names}{}", parts.join(", ")));
        }
    }
    document.say(Mark::Item(0), format!("opcost {}", env!("CARGO_PKG_VERSION")));
    document
}

/// The parts of the keys that all counted cases have, and beside them what only some have, behind the names of these cases.
fn environment(cases: &[CaseReport]) -> (Vec<String>, Vec<(String, Vec<String>)>) {
    let parts = |case: &CaseReport| -> Vec<String> {
        case.key.parts().map(|(name, value)| format!("{name} {value}")).collect()
    };
    let keys: Vec<(&str, Vec<String>)> = cases
        .iter()
        .map(|case| (case.name.as_str(), parts(case)))
        .filter(|(_, parts)| !parts.is_empty())
        .collect();
    let Some((_, first)) = keys.first() else { return Default::default() };
    let is_of_all = |part: &&String| keys.iter().all(|(_, parts)| parts.contains(part));
    let all: Vec<String> = first.iter().filter(is_of_all).cloned().collect();
    let mut own: Vec<(Vec<&str>, Vec<String>)> = Vec::new();
    for (name, parts) in &keys {
        let parts: Vec<String> = parts.iter().filter(|part| !all.contains(part)).cloned().collect();
        match own.iter_mut().find(|(_, known)| *known == parts) {
            Some((names, _)) => names.push(name),
            None => own.push((vec![name], parts)),
        }
    }
    (
        all,
        own.into_iter().map(|(names, parts)| (format!("{}: ", names.join(", ")), parts)).collect(),
    )
}
