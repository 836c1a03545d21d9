//! One comment for a pull request; scripts find it again by its first line and edit it in place.

use super::functions::lines;
use super::{GateView, against_words, both, exact_words, side_words};
use crate::render::markdown::escape;
use opcost_gate::gate::report::{CaseReport, GateReport, GateVerdict, Outcome};
use opcost_record::printable::{Output, safe};
use std::fmt::Write as _;

/// The marker by which scripts find the comment.
const MARKER: &str = "<!-- opcost gate -->";

/// The most characters that GitHub accepts in a comment.
const CHARACTERS_MAX: usize = 65_536;

/// The note in place of the parts that have no room.
const CUT: &str =
    "\n\nThe rest has no room in a comment; the job's log and `--export-text` have it.\n";

pub(super) fn render(view: &GateView<'_>) -> String {
    let report = view.report;
    let mut text = format!("{MARKER}\n");
    let mark = match report.verdict() {
        GateVerdict::MayLand if !report.suite_changes.is_empty() => "⚠️",
        GateVerdict::MayLand => "✅",
        GateVerdict::NoAnswer => "❔",
        GateVerdict::Exceeded | GateVerdict::Failed => "❌",
    };
    let to_do = report.to_do();
    let nothing = if to_do.is_empty() && report.verdict() == GateVerdict::MayLand {
        " Nothing has to be done."
    } else {
        ""
    };
    let headline = report.headline();
    let headline = headline.lines().next().unwrap_or_default();
    let _ = writeln!(text, "{mark} **{}**{nothing}", escape(headline));
    for sentence in &to_do {
        let _ = writeln!(text, "\n{}", with_code(sentence));
    }
    if view.soft && report.verdict() != GateVerdict::MayLand {
        text.push_str("\nThe check passes all the same (`--soft`).\n");
    }
    table(&mut text, report);
    let mut details: Vec<String> = Vec::new();
    for (cases, verdict, words) in report.failures() {
        if verdict != GateVerdict::MayLand {
            let summary = format!("{}: what failed", cases.join(", "));
            let words = safe(&words, Output::MarkdownFence);
            details.push(folded(&summary, &format!("```\n{words}\n```\n")));
        }
    }
    details.extend(report.cases.iter().filter_map(of_functions));
    details.push(folded("Reproduction and environment", &reproduction(report)));
    let room = CHARACTERS_MAX - CUT.chars().count();
    // The most important parts come first; behind the first part that has no room, all are left out.
    let mut used = text.chars().count();
    let mut is_cut = used > room;
    if is_cut {
        text = text.chars().take(room).collect();
    }
    for part in details {
        let length = part.chars().count();
        if is_cut || used + length > room {
            is_cut = true;
            continue;
        }
        used += length;
        text.push_str(&part);
    }
    if is_cut {
        text.push_str(CUT);
    }
    text
}

/// A sentence with the command or trailer behind its first colon as code.
fn with_code(sentence: &str) -> String {
    match sentence.split_once(": ") {
        Some((words, code)) => format!("{}: `{}`", escape(words), code_of(code)),
        None => escape(sentence),
    }
}

/// A text as code.
fn code_of(text: &str) -> String {
    safe(text, Output::MarkdownCode)
}

fn table(text: &mut String, report: &GateReport) {
    let shown: Vec<_> =
        report.figures().filter(|(_, figure)| figure.outcome.is_worth_a_row()).collect();
    if !shown.is_empty() {
        text.push_str(
            "\n| case | metric | baseline | tip | change | |\n|:---|:---|---:|---:|---:|:---|\n",
        );
    }
    for (case, figure) in shown {
        let [baseline, value] = both(figure.baseline, figure.value, figure.unit);
        let change = figure.change_words().unwrap_or_default();
        let words = match figure.outcome {
            Outcome::Exceeded => format!("**{}**", escape(&figure.words())),
            _ => escape(&figure.words()),
        };
        let (name, metric) = (escape(&case.name), escape(&figure.metric));
        let _ = writeln!(text, "| {name} | {metric} | {baseline} | {value} | {change} | {words} |");
    }
    let rest: Vec<String> = report
        .figures()
        .filter(|(_, figure)| !figure.outcome.is_worth_a_row())
        .map(|(case, figure)| format!("{} {}", case.name, figure.metric))
        .collect();
    if !rest.is_empty() {
        let _ = writeln!(text, "\nWithout a change: {}.", escape(&rest.join(", ")));
    }
    for words in report.cases.iter().filter_map(exact_words) {
        let _ = writeln!(text, "\n{}.", escape(&words));
    }
    for orphan in &report.orphans {
        let orphan = escape(orphan);
        let _ = writeln!(text, "\n{orphan}: the baseline has it, and the suite has no such case.");
    }
    for trailer in report.accepted() {
        let _ = writeln!(text, "\n{} accepts: `{}`", trailer.commit, code_of(&trailer.text));
    }
    for note in &report.notes {
        let _ = writeln!(text, "\nNote: {}.", escape(note));
    }
}

fn folded(summary: &str, body: &str) -> String {
    format!(
        "\n<details><summary>{}</summary>\n\n{body}\n</details>\n",
        safe(summary, Output::MarkdownHtml)
    )
}

fn of_functions(case: &CaseReport) -> Option<String> {
    let functions = case.functions.as_ref()?;
    let (total, lines) = lines(functions);
    let mut body = String::from("| function | change | called from |\n|:---|---:|:---|\n");
    for line in lines {
        let callers = escape(&line.callers.join(", "));
        let _ = writeln!(body, "| {} | {} | {callers} |", escape(&line.name), line.change);
    }
    let summary = format!("Where {total} {} of {} come from", functions.unit(), case.name);
    Some(folded(&summary, &body))
}

fn reproduction(report: &GateReport) -> String {
    let mut body = format!(
        "{} → {}\n\n",
        escape(&against_words(&report.against)),
        escape(&side_words(&report.tip))
    );
    let command = match &report.against {
        opcost_gate::gate::report::Against::Base(side) => {
            format!("opcost gate --base {} --tip {}", side.commit, report.tip.commit)
        }
        opcost_gate::gate::report::Against::Baseline { path } => {
            format!("opcost gate --baseline {path} --tip {}", report.tip.commit)
        }
    };
    let _ = writeln!(body, "```\n{}\n```", safe(&command, Output::MarkdownFence));
    for case in report.cases.iter().filter(|case| !case.work.is_empty()) {
        let ids: Vec<&str> = case.recordings.iter().flatten().map(String::as_str).collect();
        let _ = writeln!(
            body,
            "- {}: `{}`, recorded as {}",
            escape(&case.name),
            code_of(&case.work),
            ids.join(" and ")
        );
    }
    let mut keys: Vec<String> = Vec::new();
    for case in &report.cases {
        let parts: Vec<String> =
            case.key.parts().map(|(name, value)| format!("{name} {value}")).collect();
        let key = parts.join(", ");
        if !key.is_empty() && !keys.contains(&key) {
            keys.push(key);
        }
    }
    for key in keys {
        let _ = writeln!(body, "\n{}", escape(&key));
    }
    let _ = writeln!(body, "\nopcost {}", env!("CARGO_PKG_VERSION"));
    body
}
