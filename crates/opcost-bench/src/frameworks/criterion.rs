//! criterion: `--profile-time` runs the routine for a time without analysis (its book, "Profiling").
//!
//! The routine is first run once, which by the clock takes 6 s; a profile of 6·(n + 1) s then has n further iterations in one call. The
//! clock is read when a call begins and ends, and before and after each batch of iterations (src/bencher.rs).

use super::{
    Framework, Subject, contains, crate_version, exact, list_of_libtest, unknown_readings,
};
use crate::clock::{Orders, Window};
use crate::runner::{Counted, Runner, Trial};
use anyhow::Result;

pub(super) const ROW: Framework = Framework {
    name: "criterion",
    driven: "`--profile-time` and opcost's clock; the routine alone, without the set-up of iter_batched",
    tried: &["0.5.1"],
    recognise: |bytes| match crate_version(bytes, "criterion") {
        Some(version) => Some(Some(version)),
        // A copy of its sources has other paths.
        None => contains(bytes, "is a Criterion.rs benchmark").then_some(None),
    },
    list: list_of_libtest,
    trials,
    steadiness: exact,
    is_interpreted: false,
};

/// The clock's step. A call that reads it three times after its beginning takes longer than the second of criterion's warm-up.
const STEP_S: u64 = 2;
const CALL_S: u64 = 3 * STEP_S;

fn trials(runner: &Runner<'_>, subject: &Subject, name: &str, _: usize) -> Result<Vec<Trial>> {
    let with = |seconds: u64| {
        subject.invocation.with([
            "--bench",
            "--noplot",
            "--profile-time",
            &seconds.to_string(),
            "--exact",
            name,
        ])
    };
    let orders = Orders::step(STEP_S * 1_000_000_000);
    let readings =
        |seconds: u64| Ok::<u64, anyhow::Error>(runner.probe(&with(seconds), &orders)?.readings);
    let once = readings(1)?;
    if readings(2 * CALL_S)? != once + 4 {
        return Err(unknown_readings("it reads the clock more than four times for one iteration"));
    }
    let trial = |iterations: u64| {
        let seconds = CALL_S * (iterations + 1);
        // The call's own beginning is reading once + 1, its own end the last one.
        let window = Window { first: once + 2, last: readings(seconds)?, period: 2, on: 0, off: 1 };
        let orders = Orders { window: Some(window), ..orders.clone() };
        Ok(Trial { invocation: with(seconds), window: Counted::Clock(orders), iterations })
    };
    // Batches of one iteration have code of their own, and fewer than ten iterations make fewer batches.
    [1, 20, 40, 80].map(trial).into_iter().collect()
}
