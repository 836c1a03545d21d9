//! GitHub's workflow commands: an error for each figure beyond its limit, at the line of the function that
//! added most, if that line is known.

use super::GateView;
use opcost_gate::gate::report::GateVerdict;
use opcost_record::printable::{Output, safe};
use std::fmt::Write as _;

pub(super) fn render(view: &GateView<'_>) -> String {
    let mut text = String::new();
    let mut say = |command: &str, place: &str, title: &str, words: &str| {
        let title = property(title);
        let _ = writeln!(
            text,
            "::{command} {place}title={title}::{}",
            safe(words, Output::WorkflowText)
        );
    };
    // A soft gate passes whatever it finds, so it reports no errors.
    let beyond = if view.soft { "warning" } else { "error" };
    for case in &view.report.cases {
        let place = case.place.as_ref().map_or(String::new(), |place| {
            format!("file={},line={},", property(&place.file), place.line)
        });
        if let Some(words) = case.failure_words() {
            let command = match case.verdict() {
                GateVerdict::Failed => beyond,
                GateVerdict::MayLand => "notice",
                _ => "warning",
            };
            say(command, "", &format!("opcost: {}", case.name), &words);
        }
        for figure in &case.figures {
            let command = match figure.outcome.verdict() {
                GateVerdict::Exceeded => beyond,
                GateVerdict::NoAnswer => "warning",
                _ => continue,
            };
            let change =
                figure.change_words().map_or(String::new(), |change| format!("{change}: "));
            let title = format!("opcost: {} {}", case.name, figure.name());
            say(command, &place, &title, &format!("{change}{}", figure.words()));
        }
    }
    for orphan in &view.report.orphans {
        say(
            "warning",
            "",
            &format!("opcost: {orphan}"),
            "the baseline has it, and the suite has no such case",
        );
    }
    text
}

/// The value of a command's property.
fn property(text: &str) -> String {
    safe(text, Output::WorkflowProperty)
}
