//! Hostile names through every writer and every message. Formats come from the tables and from the declarations of the command
//! line, so a new format or option is covered without being listed here.

use crate::gate_formats::{bisection, everything, series};
use crate::lab::{Ended, Lab};
use crate::made::emulated::{Tree, kernel, plan, recording};
use crate::profiles::stored;
use clap::CommandFactory;
use opcost::cli::Cli;
use opcost_analysis::comparison::call_tree::{CallTree, VariantOf};
use opcost_analysis::comparison::{Comparison, compare};
use opcost_gate::gate::report::{CaseFailure, GateReport};
use opcost_model::recording::{MachineState, Recording};
use opcost_page::writer;
use opcost_record::Function;
use opcost_record::steps::{Step, StepBranch, StepCall, StepHow, Steps};
use opcost_report::render::gate::{GATE_FORMATS, GateView, bisect, series as series_page};
use opcost_report::render::profile::PROFILE_FORMATS;
use opcost_report::render::{FORMATS, Style, View};
use opcost_steps::Side;
use proptest::prelude::*;
use serde_json::Value;
use std::io::Read;

/// Others write such things into names: commands to terminals, spreadsheets, browsers, GitHub and its runners, new lines that look like
/// opcost's own, and text that is not seen or runs backwards.
const PIECES: &[&str] = &[
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\u{9b}31m",
    "\r",
    "\t",
    "\x08",
    "\x7f",
    "\u{85}",
    "\nFORGED line",
    "\n::forged::command",
    "##[forged]",
    "::forged::",
    "\u{2028}FORGED",
    "\u{2029}",
    "\u{202e}",
    "\u{2066}",
    "\u{61c}",
    "\u{200b}",
    "\u{200d}",
    "\u{feff}",
    "\u{ad}",
    "\u{e0041}",
    "\u{fffe}",
    "=cmd|' /C calc'!A0",
    "+1",
    "-1+1",
    "@everyone",
    " @SUM(A1)",
    "https://evil.example",
    "www.evil.example",
    "fixes #1",
    "|",
    "\\|",
    "\\",
    "`",
    "```",
    "**bold**",
    "<script>alert(1)</script>",
    "<!--",
    "-->",
    "&#8238;",
    "&lt;",
    "[a](https://evil.example)",
    "![](x)",
    "# heading",
    "%0A",
    "%",
    ";",
    ",",
    "\"",
    "'",
    "{}",
    "$x$",
    "~~gone~~",
    " ",
    "  ",
    "ä",
    "测量",
    "e\u{301}",
    "name",
    "0",
];

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(PIECES).prop_map(str::to_string),
        1 => any::<char>().prop_map(String::from),
    ];
    // A line that begins a text is no forged line.
    let texts = prop::collection::vec(piece, 1..7).prop_map(|pieces| pieces.concat());
    texts.prop_filter("begins a line", |text| !text.trim_start().starts_with("FORGED"))
}

/// Whether a reader would not see a character although it acts; by Unicode's properties, not by opcost's table.
fn is_hidden(char: char) -> bool {
    let ranges = [
        '\u{0}'..='\u{9}',
        '\u{b}'..='\u{1f}',
        '\u{7f}'..='\u{9f}',
        '\u{ad}'..='\u{ad}',
        '\u{61c}'..='\u{61c}',
        '\u{200b}'..='\u{200f}',
        '\u{2028}'..='\u{202e}',
        '\u{2060}'..='\u{206f}',
        '\u{feff}'..='\u{feff}',
        '\u{fffe}'..='\u{ffff}',
        '\u{e0000}'..='\u{e007f}',
    ];
    ranges.iter().any(|range| range.contains(&char))
}

/// A text without Markdown's code, whose contents mean nothing: opcost's code stands between single backticks or fences.
fn without_code(text: &str) -> String {
    let mut shown = String::new();
    for part in text.split("\n```").step_by(2) {
        let (mut code, mut escaped) = (false, false);
        for char in part.chars() {
            match (char, code) {
                ('`', true) => code = false,
                ('`', false) if !escaped => code = true,
                (_, true) => {}
                _ => shown.push(char),
            }
            escaped = char == '\\' && !escaped && !code;
        }
        shown.push('\n');
    }
    shown
}

/// The marks of cells in a row of Markdown: each `|` without a backslash of its own.
fn cell_marks(row: &str) -> usize {
    let (mut marks, mut escaped) = (0, false);
    for char in row.chars() {
        match char {
            '\\' => escaped = !escaped,
            _ => {
                marks += usize::from(char == '|' && !escaped);
                escaped = false;
            }
        }
    }
    marks
}

/// The format of standard error.
const MESSAGE: &str = "message";

/// Asserts that nothing in an output of this format does what a name says.
#[track_caller]
fn check(format: &str, output: &[u8]) {
    if output.starts_with(b"\x1f\x8b") {
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(output).read_to_end(&mut unpacked).unwrap();
        // A binary format: only whole sequences can be looked for.
        for piece in PIECES.iter().filter(|piece| piece.chars().any(is_hidden) && piece.len() > 2) {
            let found = unpacked.windows(piece.len()).any(|bytes| bytes == piece.as_bytes());
            assert!(!found, "{format} has {piece:?}");
        }
        return;
    }
    let text = std::str::from_utf8(output).unwrap_or_else(|error| panic!("{format}: {error}"));
    let hidden = text.chars().find(|char| is_hidden(*char));
    assert_eq!(hidden, None, "{format}: {text:?}");
    // A line break is a space in XML and in a page, and nobody prints pages to a log.
    let xml = text.starts_with("<?xml") || text.starts_with("<svg");
    let page = text.starts_with("<!DOCTYPE");
    for line in text.lines() {
        let begin = line.trim_start();
        // A message may contain another program's lines; they are indented.
        let line = if format == MESSAGE { line } else { begin };
        let forged = (line.starts_with("FORGED") && !xml && !page)
            || (begin.starts_with("::forged") && !page);
        assert!(!forged && !line.contains("##[forged"), "{format}: {line:?} in {text}");
    }
    if text.starts_with(['{', '[']) && text.trim_end().ends_with(['}', ']']) {
        let parsed: Result<Value, _> = serde_json::from_str(text);
        assert!(parsed.is_ok(), "{format}: {parsed:?} in {text}");
    }
    if page || xml {
        assert!(!text.contains("<script>alert"), "{format}: {text}");
    }
    if format.contains("csv") {
        let mut cells = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
        for cell in cells
            .records()
            .flat_map(|row| row.unwrap().iter().map(str::to_string).collect::<Vec<_>>())
        {
            let formula = cell.trim_start().starts_with(['=', '+', '-', '@']);
            assert!(!formula || cell.parse::<f64>().is_ok(), "{format}: {cell:?}");
        }
    }
    if format.contains("markdown") {
        let shown = without_code(text);
        for live in ["@everyone", "@SUM", "https://evil", "www.evil", " #1", "&#8238;"] {
            let found = shown.match_indices(live).any(|(at, _)| !shown[..at].ends_with('\\'));
            assert!(!found, "{format} has {live}: {text}");
        }
        for (at, _) in shown.match_indices("<script") {
            assert!(shown[..at].ends_with('\\'), "{format}: {text}");
        }
        let mut marks = None;
        for line in shown.lines() {
            match line.starts_with('|') {
                false => marks = None,
                true => assert_eq!(
                    *marks.get_or_insert(cell_marks(line)),
                    cell_marks(line),
                    "{format}: {line:?} in {text}"
                ),
            }
        }
    }
}

/// A recording in which every text that somebody else chooses is hostile.
fn poisoned(evil: &str) -> Recording {
    let mut made = recording(plan(&["off", "on"], 12), 30, |slot| {
        let mut tree = Tree::default();
        let main = tree.add(None, &format!("{evil}main"), &format!("/bin/{evil}"), 1, 1000);
        let fault = tree.kernel(main, evil, 10, 4000 + 1000 * u64::from(slot.variant));
        tree.add(fault, &format!("{evil}<T>"), evil, 10, 2000 + u64::from(slot.variant) * 70);
        (tree.grown(), vec![])
    });
    made.plan.experiment = evil.into();
    for text in [&mut made.plan.question, &mut made.plan.label, &mut made.plan.invocation] {
        *text = Some(evil.into());
    }
    for (number, variant) in made.plan.variants.iter_mut().enumerate() {
        variant.name = format!("{evil}{number}");
    }
    let mut state = made.machine[0].clone();
    state.kernels = vec![kernel(0, evil, &[evil.into()]), kernel(1, &format!("{evil}1"), &[])];
    // Each text of the machine's state, whatever its field, but the digests, of which the beginning is shown.
    let mut value = serde_json::to_value(&state).unwrap();
    poison(&mut value, evil);
    made.machine[0] = serde_json::from_value::<MachineState>(value).unwrap();
    made
}

fn poison(value: &mut Value, evil: &str) {
    match value {
        Value::String(text) => *text = evil.into(),
        Value::Array(values) => values.iter_mut().for_each(|value| poison(value, evil)),
        Value::Object(fields) => {
            let of_text =
                fields.iter_mut().filter(|(name, _)| !name.contains("digest") && *name != "config");
            of_text.for_each(|(_, value)| poison(value, evil));
        }
        _ => {}
    }
}

fn poisoned_gate(evil: &str) -> GateReport {
    let mut report = everything();
    report.tip.name = evil.into();
    report.tip.subject = evil.into();
    if let Some(branch) = &mut report.branch {
        branch.head.subject = evil.into();
    }
    report.orphans = vec![evil.into()];
    report.notes = vec![evil.into()];
    for change in &mut report.suite_changes {
        for text in [&mut change.case, &mut change.setting, &mut change.from, &mut change.to] {
            *text = evil.into();
        }
    }
    for case in &mut report.cases {
        case.name = format!("{evil}{}", case.name);
        case.work = evil.into();
        case.counted = Some(evil.into());
        if let Some(recount) = &mut case.recounted {
            recount.written.subject = evil.into();
            for difference in &mut recount.differences {
                (difference.part, difference.now) = (evil.into(), Some(evil.into()));
            }
        }
        if let Some(place) = &mut case.place {
            place.file = evil.into();
        }
        for figure in &mut case.figures {
            figure.metric = format!("{}{evil}", figure.metric);
        }
        for row in case.functions.iter_mut().flat_map(|functions| &mut functions.rows) {
            row.symbol = evil.into();
            row.callers.iter_mut().for_each(|caller| caller.symbol = evil.into());
        }
    }
    // Other lines of a failure are another program's, indented.
    report.cases[1].failure = Some(CaseFailure::Failed(evil.replace('\n', "_")));
    report
}

fn view_of<'a>(recording: &'a Recording, comparison: &'a Comparison, style: &'a Style) -> View<'a> {
    View { recording, comparison, warnings: &[], style }
}

/// Steps of a function and a branch with this name.
fn poisoned_steps(evil: &str) -> (Vec<Function>, Steps) {
    let call = StepCall {
        function: Some(0),
        how: StepHow::Call,
        entry: 0,
        steps: vec![Step::Branch { branch: 0, taken: true, values: None }, Step::Own(1)],
    };
    let branches = vec![StepBranch { function: 0, address: 0, text: evil.into() }];
    (vec![Function::new(evil, evil)], Steps { calls: vec![call], branches, ..Steps::default() })
}

proptest! {
    // A case is some 70 outputs.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]


    #[test]
    fn no_name_does_anything_in_any_format(evil in hostile()) {
        let made = poisoned(&evil);
        let (comparison, _) = compare(&made);
        let style = Style::plain();
        for format in FORMATS {
            let text = opcost_report::render::render(format.name, &view_of(&made, &comparison, &style)).unwrap();
            check(format.name, text.as_bytes());
        }
        let report = poisoned_gate(&evil);
        for format in GATE_FORMATS {
            let view = GateView { report: &report, style: &style, soft: false };
            check(format.name, opcost_report::render::gate::render(format.name, &view).unwrap().as_bytes());
        }
        let sides = [0, 1].map(|variant| VariantOf { recording: &made, variant });
        let tree = CallTree::of(&sides).unwrap();
        for format in PROFILE_FORMATS {
            if format.render_steps.is_none() {
                check(format.name, &format.render(&tree).unwrap());
            }
        }
        let (functions, steps) = poisoned_steps(&evil);
        let side = Side { name: &evil, functions: &functions, steps: &steps };
        for format in PROFILE_FORMATS.iter().filter_map(|format| format.render_steps) {
            check("steps", &format(&side).unwrap());
        }
        for document in [opcost_steps::whole(&opcost_steps::alone(side)), opcost_steps::tree_of(&opcost_steps::compare([side; 2]))] {
            check("steps", writer::text::text(&document, &style).as_bytes());
        }
        let mut series = series();
        series.range = evil.clone();
        series.base.name = evil.clone();
        series.notes = vec![evil.clone()];
        series.rows.iter_mut().for_each(|row| row.side.subject = evil.clone());
        let json = series_page::json(&series).unwrap();
        for text in [writer::text::text(&series_page::document(&series), &style), writer::mail::mail(&series_page::document(&series), &Style::plain()), json] {
            check("series", text.as_bytes());
        }
        let mut bisection = bisection();
        bisection.case = evil.clone();
        bisection.command = evil.clone();
        bisection.notes = vec![evil.clone()];
        for step in &mut bisection.steps {
            for suspect in &mut step.suspects {
                suspect.title = evil.clone();
                suspect.author = Some(format!("{evil} <{evil}>, 2026-01-02"));
            }
        }
        let (mail, json) = (writer::mail::mail(&bisect::document(&bisection), &Style::plain()), bisect::json(&bisection).unwrap());
        let head: Vec<&str> = mail.lines().take_while(|line| !line.is_empty()).collect();
        prop_assert!(head.iter().all(|line| ["Subject: ", "Cc: ", "         "].iter().any(|name| line.starts_with(name))), "{mail}");
        for text in [writer::text::text(&bisect::document(&bisection), &style), mail, json] {
            check("bisect", text.as_bytes());
        }
    }
}

/// Every character of [`PIECES`] that the arguments of a program can have.
fn worst() -> String {
    PIECES.concat()
}

#[test]
fn no_name_in_a_store_does_anything_in_any_command() {
    let lab = Lab::new();
    let mut made = poisoned(&worst());
    // A stored profile has no such characters: one that has them is damaged.
    let functions = made.profiles.iter_mut().flat_map(|(_, profile)| &mut profile.functions);
    for function in functions {
        for text in [&mut function.symbol, &mut function.module] {
            *text = text.replace(['\t', '\r', '\n'], "");
        }
    }
    let ids = [stored(&lab, &made), stored(&lab, &made)];
    let run = |words: &[&str]| {
        let Ended { stdout, stderr, .. } = lab.run(words);
        check(&words.join(" "), stdout.as_bytes());
        check(MESSAGE, stderr.as_bytes());
    };
    let command = Cli::command();
    let (mut shown, experiment) = (0, worst());
    let showing: [&[&str]; 4] =
        [&["show"], &["report", "--html", "-"], &["diff", "last"], &["history", &experiment]];
    for words in showing {
        let options = command.find_subcommand(words[0]).unwrap().get_arguments();
        lab.run(words).expect(0);
        run(words);
        for option in options.filter_map(|option| Some((option.get_long()?, option))) {
            let long = format!("--{}", option.0);
            if option.0 == "json" {
                run(&[words, &[&long]].concat());
                shown += 1;
            } else if option.0 == "format" {
                for format in option.1.get_possible_values() {
                    run(&[words, &[&long, format.get_name()]].concat());
                    shown += 1;
                }
            } else if option.0.starts_with("export-") {
                for number in 0..2 {
                    let chosen = format!("{}{number}", worst());
                    let asked = [words, &[&long, "out", "--variant", &chosen]].concat();
                    if words[0] != "show" || !lab.run(&asked).stderr.is_empty() {
                        lab.run(&[words, &[&long, "out"]].concat());
                    }
                    if let Ok(bytes) = std::fs::read(lab.path("out")) {
                        check(&long, &bytes);
                        shown += 1;
                    }
                }
            }
        }
    }
    assert!(shown > 13, "only {shown} outputs were looked at");
    for words in [
        &["list", "recordings"][..],
        &["list", "recordings", "--json"],
        &["forget", "--dry-run", &ids[0]],
        &["export", &ids[0], "-o", "x"],
    ] {
        run(words);
    }
    // The same file arrives from elsewhere, and what its resumption would run is shown.
    let other = Lab::new();
    std::fs::copy(lab.path("x"), other.path("x")).expect("the file that was exported");
    for words in [&["import", "x"][..], &["resume", &ids[1]]] {
        let Ended { stdout, stderr, .. } = other.run(words);
        check(&words.join(" "), stdout.as_bytes());
        check(MESSAGE, stderr.as_bytes());
    }
}

#[test]
fn no_argument_does_anything_in_any_message() {
    let lab = Lab::new();
    let command = Cli::command();
    // A name of a file has no slash; the name of a program that does not exist comes last.
    let evil = worst().replace('/', "_");
    let mut asked = 0;
    for subcommand in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        let name = subcommand.get_name();
        let long = |option: &clap::Arg| {
            Some(format!("--{}", option.get_long()?)).filter(|_| option.get_action().takes_values())
        };
        let options: Vec<String> = subcommand.get_arguments().filter_map(long).collect();
        let mut check_run = |words: &[&str]| {
            let Ended { stdout, stderr, .. } = lab.run(words);
            check(MESSAGE, stderr.as_bytes());
            check(name, stdout.as_bytes());
            asked += 1;
        };
        check_run(&[name, &evil]);
        // An option whose value is refused ends the command before it does anything.
        for option in &options {
            let value = format!("{option}={evil}");
            check_run(&[name, &value, "/nonexistent/\n::forged::", &evil]);
        }
    }
    assert!(asked > 100, "only {asked} commands were tried");
}
