//! nanobench: a benchmark is first run once, then ten times as often until that takes long enough (`IterationLogic`), with two readings
//! of the clock each time.
//!
//! With steps of ten seconds a benchmark is content with 11 epochs of one iteration. Benchmarks run in turn, so those before the wanted
//! one get such steps.

use super::{Framework, Subject, contains, exact, unknown_readings};
use crate::clock::{LONG_NS, Orders, Window};
use crate::runner::{Counted, Runner, Trial};
use anyhow::Result;

pub(super) const ROW: Framework = Framework {
    name: "nanobench",
    driven: "opcost's clock; runs of 1, 10, 100 and 1000 iterations",
    tried: &["4.6.0"],
    recognise: |bytes| contains(bytes, "NANOBENCH_ENDLESS").then_some(None),
    list,
    trials,
    steadiness: exact,
    is_interpreted: false,
};

/// The readings of a benchmark with 11 epochs.
const BENCHMARK: u64 = 2 * 11;

/// The names in the last column of the tables that the program prints.
fn names(printed: &str) -> Vec<String> {
    let rows = printed.lines().filter(|line| line.starts_with('|') && line.ends_with('`'));
    rows.filter_map(|row| Some(row.strip_suffix('`')?.rsplit_once("| `")?.1.to_owned())).collect()
}

fn list(runner: &Runner<'_>, subject: &Subject) -> Result<Vec<String>> {
    Ok(names(&runner.probe(&subject.invocation, &Orders::step(LONG_NS))?.printed))
}

fn trials(runner: &Runner<'_>, subject: &Subject, _: &str, place: usize) -> Result<Vec<Trial>> {
    let probe = runner.probe(&subject.invocation, &Orders::step(LONG_NS))?;
    let all = names(&probe.printed).len() as u64;
    let wrong = || unknown_readings("its first run does not begin where it should");
    // What measures the clock comes first; nothing reads the clock behind the last benchmark.
    let begin =
        probe.readings.checked_sub(all * BENCHMARK).ok_or_else(wrong)? + place as u64 * BENCHMARK;
    // If the reading that ends the first run is too early, there is one run more; at no other reading that makes a difference.
    let steps = vec![(1, LONG_NS), (begin + 2, 1), (begin + 3, LONG_NS)];
    let other = runner.probe(&subject.invocation, &Orders { steps, ..Orders::default() })?;
    if other.readings != probe.readings + 2 {
        return Err(wrong());
    }
    let trial = |power: u32| {
        let first = begin + 1 + 2 * u64::from(power);
        let steps = vec![(1, LONG_NS), (begin + 1, 1)];
        let orders =
            Orders { steps, window: Some(Window::between(first, first + 1)), ..Orders::default() };
        Trial {
            invocation: subject.invocation.clone(),
            window: Counted::Clock(orders),
            iterations: 10u64.pow(power),
        }
    };
    Ok([0, 1, 2, 3].map(trial).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_last_column() {
        let table = "|  ns/op | total | sorts\n|---:|---:|:---\n|  1.0 |  0.1 | `sort 100`\n| 2.0 | 0.1 | `a | b`\n";
        assert_eq!(names(table), ["sort 100", "a | b"]);
    }
}
