//! Catch2: each benchmark is first run once, then twice as often until that takes long enough (catch_run_for_at_least.hpp), behind some
//! 40,000 readings that measure the clock itself (catch_estimate_clock.hpp).
//!
//! A clock with steps of 0.1 ms satisfies each of these measurements at once. With steps of 1 s, each benchmark reads the clock 10,006
//! times: for one run, the clock's warm-up, and one sample. Benchmarks of a test case run in turn, so those before the wanted one get
//! such steps.

use super::{Framework, Subject, contains, exact, find, unknown_readings, value_after};
use crate::clock::{Orders, Window};
use crate::runner::{Counted, Runner, Trial};
use anyhow::Result;

pub(super) const ROW: Framework = Framework {
    name: "Catch2",
    driven: "test cases by name and opcost's clock; runs of 1, 8, 16 and 32 iterations",
    tried: &["2.13.10"],
    recognise: |bytes| {
        let is_ours =
            contains(bytes, "benchmark-samples") && contains(bytes, "A Catch2 test executable");
        is_ours.then(|| version(bytes))
    },
    list,
    trials,
    steadiness: exact,
    is_interpreted: false,
};

const SHORT_NS: u64 = 100_000;
const SECOND_NS: u64 = 1_000_000_000;

/// The readings that measure the clock: resolution twice, and its cost.
const ENVIRONMENT: u64 = 10_003 + 10_003 + 3 + 10_004 + 10_002;
/// The readings of a benchmark that one run satisfies.
const BENCHMARK: u64 = 2 + 10_002 + 2;

/// The most timers that run around a benchmark: its test case's and four sections'.
const TIMERS_MAX: u64 = 5;

/// What stands between a test case's name and its benchmark's.
const OF: &str = " / ";

fn version(bytes: &[u8]) -> Option<String> {
    let at = find(bytes, b"Catch v")? + "Catch v".len();
    let rest = &bytes[at..bytes.len().min(at + 16)];
    let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
    String::from_utf8(rest[..end].to_vec()).ok().filter(|text| !text.is_empty())
}

/// A test case's name as Catch2 takes it on its command line.
fn spec(case: &str) -> String {
    let mut quoted = String::from("\"");
    for char in case.chars() {
        if "\\,[]\"*".contains(char) {
            quoted.push('\\');
        }
        quoted.push(char);
    }
    quoted + "\""
}

fn invocation(subject: &Subject, case: &str) -> crate::runner::Invocation {
    subject.invocation.with([
        spec(case).as_str(),
        "-r",
        "xml",
        "--benchmark-samples",
        "1",
        "--benchmark-no-analysis",
    ])
}

/// The clock until the benchmark at a place begins, at a reading that may be wrong by a few.
fn quick() -> Orders {
    // The first second is behind the measurements of the clock, and before any benchmark has ended.
    Orders { steps: vec![(1, SHORT_NS), (ENVIRONMENT - 5, SECOND_NS)], ..Orders::default() }
}

fn benchmarks(xml: &str) -> Vec<String> {
    let names = xml.lines().filter(|line| line.contains("<BenchmarkResults "));
    names.filter_map(|line| Some(plain(value_after(line, "name=\"")?))).collect()
}

/// Text of XML without its entities.
fn plain(text: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (entity, char)| text.replace(entity, char))
}

fn list(runner: &Runner<'_>, subject: &Subject) -> Result<Vec<String>> {
    // Catch2 2 ends with the number of test cases that it lists.
    let spawn = subject.invocation.with(["--list-test-names-only", "*"]);
    let printed = runner.printed_of_any_status(&spawn)?;
    let mut names = Vec::new();
    for case in printed.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let probe = runner.probe(&invocation(subject, case), &quick())?;
        names
            .extend(benchmarks(&probe.printed).into_iter().map(|name| format!("{case}{OF}{name}")));
    }
    Ok(names)
}

fn trials(runner: &Runner<'_>, subject: &Subject, name: &str, _: usize) -> Result<Vec<Trial>> {
    let wrong = || unknown_readings("its test case has no such benchmark");
    let (case, benchmark) = name.split_once(OF).ok_or_else(wrong)?;
    let invocation = invocation(subject, case);
    let probe = runner.probe(&invocation, &quick())?;
    let place =
        benchmarks(&probe.printed).iter().position(|found| found == benchmark).ok_or_else(wrong)?;
    // The timers of the test case and of the sections around the benchmark each read the clock once before it begins.
    let mut timers = 1..=TIMERS_MAX;
    let (begin, mut steps) = loop {
        let Some(timers) = timers.next() else {
            return Err(unknown_readings("its first run does not begin where it should"));
        };
        let environment = ENVIRONMENT + timers;
        let begin = environment + place as u64 * BENCHMARK;
        // The reading that ends the first run, and no other, is too early: so a second run, of two iterations, is the last one.
        let mut steps = vec![(1, SHORT_NS)];
        if place > 0 {
            steps.push((environment + 1, SECOND_NS));
        }
        let mut shown = steps.clone();
        shown.extend([(begin + 2, SHORT_NS), (begin + 3, SECOND_NS)]);
        if shown[1].0 == begin + 2 {
            shown[1].0 = begin + 1;
        }
        let probe = runner.probe(&invocation, &Orders { steps: shown, ..Orders::default() })?;
        let of_line =
            probe.printed.lines().filter(|line| line.contains("<BenchmarkResults ")).nth(place);
        let estimated =
            of_line.and_then(|line| value_after(line, "estimatedDuration=\"")?.parse::<f64>().ok());
        if estimated == Some(SECOND_NS as f64 / 2.0) {
            break (begin, steps);
        }
    };
    steps.push((begin + 1, SHORT_NS));
    let trial = |doubled: u64| {
        let first = begin + 1 + 2 * doubled;
        let orders = Orders {
            steps: steps.clone(),
            window: Some(Window::between(first, first + 1)),
            ..Orders::default()
        };
        Trial {
            invocation: invocation.clone(),
            window: Counted::Clock(orders),
            iterations: 1 << doubled,
        }
    };
    Ok([0, 3, 4, 5].map(trial).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_are_read_from_the_report() {
        let xml =
            "<TestCase name=\"a\">\n <BenchmarkResults name=\"x &lt;int&gt;\" samples=\"1\">\n";
        assert_eq!(benchmarks(xml), ["x <int>"]);
        assert_eq!(spec("a, [b] \"c\""), "\"a\\, \\[b\\] \\\"c\\\"\"");
        assert_eq!(version(b"..Catch v2.13.10\0").as_deref(), Some("2.13.10"));
    }
}
