//! pytest-benchmark: it runs the function more and more often until that takes long enough (`_calibrate_timer`), with a timer that can be
//! named. A run that takes half of that is followed by one with twice the iterations.
//!
//! The timer is opcost's own, so only the framework's readings are numbered. The first measure the timer's precision: one, and three for each of five points.

use super::{Framework, Subject, all, unknown_readings, value_after};
use crate::clock::{LONG_NS, Orders, Window};
use crate::runner::{Invocation, Runner, Trial};
use anyhow::{Context, Result};
use opcost_base::exit::{Status, WithStatus};

pub(super) const ROW: Framework = Framework {
    name: "pytest-benchmark",
    driven: "`--benchmark-timer`; runs of 16, 32, 64 and 128 iterations without the garbage collector",
    tried: &["3.2.2"],
    // Python's programs are known by their command.
    recognise: |_| None,
    list,
    trials,
    counts: all,
    only_steady: false,
};

/// The readings that measure the timer's precision (`compute_timer_precision`).
const PRECISION: u64 = 1 + 5 * 3;

/// A module for both: pytest's plugin that names the tests with a benchmark and keeps the wanted one, and the timer.
const MODULE: &str = r#"import ctypes
import os

def timer():
    return reading()


try:
    reading = ctypes.CDLL(None).opcost_bench_time
    reading.restype = ctypes.c_double
except AttributeError:
    pass


def pytest_collection_modifyitems(items):
    wanted = os.environ.get("OPCOST_BENCH_TEST")
    if wanted:
        items[:] = [item for item in items if item.nodeid == wanted]


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
        .and_then(|()| std::fs::write(&file, MODULE))
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
    let steps = vec![(1, 1_000_000), (PRECISION + 1, 500_010_000)];
    let iterations = |reading: u64| -> Result<Option<u64>> {
        let _ = std::fs::remove_file(&report);
        let long = std::iter::once((reading, LONG_NS));
        let steps = steps.iter().copied().chain(long).collect();
        let orders = Orders { steps, window: None, named: true };
        runner.probe(&invocation, &orders)?;
        let text = std::fs::read_to_string(&report).unwrap_or_default();
        Ok(value_after(&text, "\"iterations\"").and_then(|number| number.parse().ok()))
    };
    // Runs end at the first great step: the first one if its end is that step, else the second.
    if (iterations(PRECISION + 2)?, iterations(PRECISION + 3)?) != (Some(1), Some(2)) {
        return Err(unknown_readings(
            "its first run does not begin where it should, or it chooses its iterations itself (pedantic)",
        ));
    }
    // Python has the numbers below 257 ready, and makes others anew for its loop.
    let trial = |power: u32| {
        let first = PRECISION + 1 + 2 * u64::from(power);
        let orders = Orders {
            window: Some(Window::between(first, first + 1)),
            named: true,
            steps: steps.clone(),
        };
        Trial { invocation: invocation.clone(), orders: Some(orders), iterations: 1 << power }
    };
    Ok([4, 5, 6, 7].map(trial).to_vec())
}
