//! google-benchmark: it runs one iteration, then ten times as many until they take long enough (src/benchmark_runner.cc).
//!
//! A timer reads two clocks when it starts, and two when it stops: `Timer` (src/thread_timer.h). A clock that makes one great step
//! within a run makes that run the last one, and the report says how many iterations it had.

use super::{Framework, Subject, contains, exact, literal, unknown_readings, value_after};
use crate::clock::{LONG_NS, Orders, Window};
use crate::runner::{Counted, Runner, Trial};
use anyhow::Result;
use opcost_base::exit::{Status, fail};

pub(super) const ROW: Framework = Framework {
    name: "google-benchmark",
    driven: "`--benchmark_filter` and opcost's clock; runs of 1, 10, 100 and 1000 iterations, without paused parts",
    tried: &["1.7.1"],
    recognise: |bytes| {
        (contains(bytes, "_ZN9benchmark8internal") || contains(bytes, "benchmark_list_tests"))
            .then_some(None)
    },
    list,
    trials,
    steadiness: exact,
    is_interpreted: false,
};

/// A step that is too short for any run.
const SHORT_NS: u64 = 100;

fn list(runner: &Runner<'_>, subject: &Subject) -> Result<Vec<String>> {
    let printed = runner.printed(&subject.invocation.with(["--benchmark_list_tests=true"]))?;
    Ok(printed.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

fn trials(runner: &Runner<'_>, subject: &Subject, name: &str, _: usize) -> Result<Vec<Trial>> {
    if name.contains("/manual_time") {
        return Err(fail(Status::WorkFailed, "it measures its time itself (UseManualTime)"));
    }
    if name.contains("/threads:") && !name.ends_with("/threads:1") {
        return Err(fail(
            Status::WorkFailed,
            "it runs several threads, whose turns differ in each run",
        ));
    }
    let invocation = subject.invocation.with([
        format!("--benchmark_filter=^{}$", literal(name)),
        "--benchmark_format=json".into(),
        "--benchmark_repetitions=1".into(),
    ]);
    let ending_at = |reading: u64| -> Result<(u64, u64)> {
        let orders = Orders { steps: vec![(1, SHORT_NS), (reading, LONG_NS)], ..Orders::default() };
        let probe = runner.probe(&invocation, &orders)?;
        let iterations =
            value_after(&probe.printed, "\"iterations\"").and_then(|text| text.parse().ok());
        let iterations =
            iterations.ok_or_else(|| unknown_readings("its report has no number of iterations"))?;
        Ok((iterations, probe.readings))
    };
    let mut trials: Vec<Trial> = Vec::new();
    let fixed = name.split('/').any(|part| part.starts_with("iterations:"));
    let (first, end) = ending_at(1)?;
    let mut ends = vec![(first, end)];
    while ends.len() < 4 && !fixed {
        let before = ends[ends.len() - 1];
        // The first reading after a timer has read both clocks.
        let next = ending_at(before.1 + 3)?;
        if next.0 <= before.0 || next.1 < before.1 + 4 {
            return Err(unknown_readings(&format!(
                "its runs have {} and {} iterations",
                before.0, next.0
            )));
        }
        ends.push(next);
    }
    if fixed {
        return Err(fail(
            Status::WorkFailed,
            "its number of iterations is fixed (Iterations), so set-up cannot be told from iterations",
        ));
    }
    // How many clocks are read before the benchmark begins.
    let mut before = end - end_of_first(end);
    for (iterations, end) in ends {
        let window = Window { first: before + 1, last: end, period: 4, on: 1, off: 2 };
        let orders =
            Orders { steps: vec![(1, SHORT_NS)], window: Some(window), ..Orders::default() };
        trials.push(Trial {
            invocation: invocation.clone(),
            window: Counted::Clock(orders),
            iterations,
        });
        before = end;
    }
    Ok(trials)
}

/// The readings of the first run, which has one iteration: whole timers; the rest is before it.
fn end_of_first(end: u64) -> u64 {
    end - end % 4
}
