//! JUnit's XML: a test case for each figure; a figure that could not be compared is skipped.

use super::{GateView, both};
use opcost_gate::gate::report::{CaseReport, FigureReport, GateVerdict};
use opcost_record::printable::{Output, safe};
use std::fmt::Write as _;

pub(super) fn render(view: &GateView<'_>) -> String {
    let report = view.report;
    let (mut failures, mut errors, mut skipped, mut tests) = (0, 0, 0, 0);
    let mut body = String::new();
    for case in &report.cases {
        if let Some(words) = case.failure_words() {
            tests += 1;
            let element = match case.verdict() {
                GateVerdict::Failed => {
                    errors += 1;
                    Some("error")
                }
                GateVerdict::NoAnswer => {
                    skipped += 1;
                    Some("skipped")
                }
                _ => None,
            };
            open(&mut body, case, "all");
            close(&mut body, element, &words, "");
        }
        for figure in &case.figures {
            tests += 1;
            let element = match figure.outcome.verdict() {
                GateVerdict::Exceeded => {
                    failures += 1;
                    Some("failure")
                }
                GateVerdict::NoAnswer => {
                    skipped += 1;
                    Some("skipped")
                }
                _ => None,
            };
            open(&mut body, case, &figure.name());
            close(&mut body, element, &words(figure), &out(figure));
        }
    }
    for orphan in &report.orphans {
        tests += 1;
        skipped += 1;
        let _ = writeln!(body, "    <testcase classname=\"opcost.{}\" name=\"all\">", xml(orphan));
        close(&mut body, Some("skipped"), "the suite has no such case", "");
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"opcost gate\" tests=\"{tests}\" \
         failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\">\n{body}  </testsuite>\n</testsuites>\n"
    )
}

fn words(figure: &FigureReport) -> String {
    match figure.change_words() {
        Some(change) => format!("{change}: {}", figure.words()),
        None => figure.words(),
    }
}

fn out(figure: &FigureReport) -> String {
    let [baseline, value] = both(figure.baseline, figure.value, figure.unit);
    format!("baseline {baseline}, tip {value}: {}", words(figure))
}

fn open(body: &mut String, case: &CaseReport, name: &str) {
    let (class, name) = (xml(&case.name), xml(name));
    let _ = writeln!(body, "    <testcase classname=\"opcost.{class}\" name=\"{name}\">");
}

fn close(body: &mut String, element: Option<&str>, words: &str, out: &str) {
    if let Some(element) = element {
        let first = words.lines().next().unwrap_or_default();
        let _ = writeln!(
            body,
            "      <{element} message=\"{}\">{}</{element}>",
            xml(first),
            xml(words)
        );
    }
    if !out.is_empty() {
        let _ = writeln!(body, "      <system-out>{}</system-out>", xml(out));
    }
    body.push_str("    </testcase>\n");
}

/// A text in an element or an attribute.
fn xml(text: &str) -> String {
    safe(text, Output::Xml)
}
