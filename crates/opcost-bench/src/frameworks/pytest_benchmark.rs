//! pytest-benchmark: it runs the function more and more often until that takes long enough (`_calibrate_timer`), with a timer that can be
//! named. A run that takes half of that is followed by one with twice the iterations.
//!
//! opcost's plugin gives every benchmark opcost's own timer, so only the framework's readings are numbered, and says how precise the timer
//! is, which the framework's versions measure with different numbers of readings. `pedantic` with a set-up runs single iterations: rounds
//! take their place.

use super::{Framework, Subject, exact, unknown_readings, value_after};
use crate::clock::{LONG_NS, Orders, Window};
use crate::runner::{Counted, Invocation, Runner, Trial};
use anyhow::{Context, Result};
use opcost_base::exit::{Status, WithStatus};

pub(super) const ROW: Framework = Framework {
    name: "pytest-benchmark",
    driven: "`--benchmark-timer`; runs of 16, 32, 64 and 128 iterations without the garbage collector",
    tried: &["3.2.2", "4.0.0", "5.3.1"],
    // Python's programs are known by their command.
    recognise: |_| None,
    list,
    trials,
    steadiness: exact,
    is_interpreted: true,
};

/// The rounds of a benchmark that has a set-up of its own.
const ROUNDS: u64 = 128;

/// The timer, and pytest's plugin that names the tests with a benchmark, keeps the wanted one, and takes the options that a test sets itself.
const MODULE: &str = r#"import ctypes
import os

import pytest
from pytest_benchmark.fixture import BenchmarkFixture


def timer():
    return reading()


try:
    reading = ctypes.CDLL(None).opcost_bench_time
    reading.restype = ctypes.c_double
except AttributeError:
    pass

# Versions measure the precision with different numbers of readings.
BenchmarkFixture._precisions[timer] = 1e-9
_pedantic = BenchmarkFixture.pedantic


def pedantic(self, target, args=(), kwargs=None, **options):
    if options.get("setup") or options.get("teardown"):
        options.update(rounds=ROUNDS, warmup_rounds=0, iterations=1)
        return _pedantic(self, target, args=args, kwargs=kwargs, **options)
    return self(target, *args, **(kwargs or {}))


BenchmarkFixture.pedantic = pedantic


@pytest.hookimpl(tryfirst=True)
def pytest_benchmark_generate_machine_info(config):
    # The framework asks the computer for seconds.
    return {"node": ""}


@pytest.hookimpl(tryfirst=True)
def pytest_benchmark_generate_commit_info(config):
    return {"id": ""}


def pytest_collection_modifyitems(items):
    wanted = os.environ.get("OPCOST_BENCH_TEST")
    if wanted:
        items[:] = [item for item in items if item.nodeid == wanted]
    for item in items:
        for mark in item.iter_markers("benchmark"):
            for name in [name for name in mark.kwargs if name != "group"]:
                del mark.kwargs[name]


def pytest_collection_finish(session):
    for item in session.items:
        if "benchmark" in getattr(item, "fixturenames", ()):
            print("opcost-bench", item.nodeid)
"#;

/// The program with opcost's module in its path.
fn with_module(runner: &Runner<'_>, subject: &Subject) -> Result<Invocation> {
    let folder = runner.folder().join("python");
    let file = folder.join("opcost_bench.py");
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&file, MODULE.replace("ROUNDS", &ROUNDS.to_string())))
        .with_context(|| format!("cannot write {}", file.display()))
        .status(Status::Missing)?;
    let mut invocation = subject.invocation.with(["-p", "no:cacheprovider"]);
    let mut path = folder.into_os_string();
    if let Some(others) = std::env::var_os("PYTHONPATH") {
        path.push(":");
        path.push(others);
    }
    invocation.variables.extend([
        ("PYTHONPATH".into(), path),
        ("PYTHONHASHSEED".into(), "0".into()),
        ("PYTHONDONTWRITEBYTECODE".into(), "1".into()),
    ]);
    Ok(invocation)
}

fn list(runner: &Runner<'_>, subject: &Subject) -> Result<Vec<String>> {
    let invocation =
        with_module(runner, subject)?.with(["-p", "opcost_bench", "--collect-only", "-q"]);
    let printed = runner.printed(&invocation)?;
    Ok(printed
        .lines()
        .filter_map(|line| line.strip_prefix("opcost-bench "))
        .map(str::to_owned)
        .collect())
}

fn trials(runner: &Runner<'_>, subject: &Subject, name: &str, _: usize) -> Result<Vec<Trial>> {
    let report = runner.folder().join("report.json");
    let mut invocation = with_module(runner, subject)?;
    invocation.variables.push(("OPCOST_BENCH_TEST".into(), name.into()));
    let invocation = invocation.with([
        "-p",
        "opcost_bench",
        "--benchmark-timer=opcost_bench.timer",
        "--benchmark-disable-gc",
        "--benchmark-warmup=off",
        "--benchmark-min-rounds=1",
        "--benchmark-max-time=0",
        "--benchmark-min-time=1",
        &format!("--benchmark-json={}", report.display()),
    ]);
    // Half of the least time, or a bit more, so that rounding does not matter.
    let steps = vec![(1, 500_010_000)];
    let number = |text: &str, key: &str| {
        value_after(text, key).and_then(|number| number.parse::<u64>().ok())
    };
    let probe = |reading: u64| -> Result<(Option<u64>, Option<u64>)> {
        let _ = std::fs::remove_file(&report);
        let long = std::iter::once((reading, LONG_NS));
        let steps = steps.iter().copied().filter(|(from, _)| *from < reading).chain(long).collect();
        let orders = Orders { steps, window: None, named: true };
        runner.probe(&invocation, &orders)?;
        let text = std::fs::read_to_string(&report).unwrap_or_default();
        Ok((number(&text, "\"iterations\""), number(&text, "\"rounds\"")))
    };
    let trial = |iterations: u64, window: Window| {
        let orders = Orders { window: Some(window), named: true, steps: steps.clone() };
        Trial { invocation: invocation.clone(), window: Counted::Clock(orders), iterations }
    };
    // Runs end at the first great step: the first one if its end is that step, else the second.
    match (probe(2)?, probe(3)?) {
        ((Some(1), Some(1)), (Some(2), Some(1))) => {}
        // Each round reads the timer twice, around one iteration.
        ((Some(1), Some(ROUNDS)), _) => {
            let rounds =
                |rounds: u64| Window { first: 1, last: 2 * rounds, period: 2, on: 0, off: 1 };
            return Ok([16, 32, 64, ROUNDS].map(|number| trial(number, rounds(number))).to_vec());
        }
        _ => {
            return Err(unknown_readings("its first run does not begin where it should"));
        }
    }
    // Python has the numbers below 257 ready, and makes others anew for its loop.
    let doubled = |power: u32| {
        let first = 1 + 2 * u64::from(power);
        trial(1 << power, Window::between(first, first + 1))
    };
    Ok([4, 5, 6, 7].map(doubled).to_vec())
}
