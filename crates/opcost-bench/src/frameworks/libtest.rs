//! Rust's own `#[bench]`: the loops of library/test/src/bench.rs.
//!
//! One iteration is timed first. By a clock with steps of 2 ms, pairs of loops follow, of 50 samples of n and 50 samples of 5·n iterations
//! for n of 1, 2, 4, 8. Each sample reads the clock twice, each pair once before and once behind. The second loop of each pair counts: the
//! first one is another copy of the code.

use super::{Framework, Subject, contains, exact, list_of_libtest, unknown_readings};
use crate::clock::{LONG_NS, Orders, Window};
use crate::runner::{Counted, Runner, Trial};
use anyhow::Result;

pub(super) const ROW: Framework = Framework {
    name: "libtest",
    driven: "opcost's clock; samples of 5, 10, 20 and 40 iterations",
    tried: &["1.95.0"],
    recognise: |bytes| {
        let is_ours =
            contains(bytes, "4test5bench") || contains(bytes, "library/test/src/bench.rs");
        is_ours.then(|| rustc(bytes))
    },
    list: list_of_libtest,
    trials,
    steadiness: exact,
    is_interpreted: false,
};

/// The readings of a benchmark that one pair of loops satisfies: the suite's beginning and end, the first iteration's, the loops', and
/// those of 100 samples.
const READINGS: u64 = 2 + 2 + PAIR;
/// The readings of a pair of loops.
const PAIR: u64 = 2 + 2 * 100;

fn rustc(bytes: &[u8]) -> Option<String> {
    // The section .comment names the compiler.
    let at = super::find(bytes, b"rustc version ")? + "rustc version ".len();
    let rest = &bytes[at..bytes.len().min(at + 20)];
    let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
    String::from_utf8(rest[..end].to_vec()).ok()
}

fn trials(runner: &Runner<'_>, subject: &Subject, name: &str, _: usize) -> Result<Vec<Trial>> {
    let invocation = subject.invocation.with(["--bench", "--test-threads=1", "--exact", name]);
    let readings = runner.probe(&invocation, &Orders::step(LONG_NS))?.readings;
    if readings != READINGS {
        return Err(unknown_readings(&format!(
            "it reads the clock {readings} times in place of {READINGS}"
        )));
    }
    let trial = |pair: u64| {
        // The last sample of the pair's second loop.
        let (iterations, first) = (5 << pair, 203 + PAIR * pair);
        let orders =
            Orders { window: Some(Window::between(first, first + 1)), ..Orders::step(2_000_000) };
        Trial { invocation: invocation.clone(), window: Counted::Clock(orders), iterations }
    };
    Ok([0, 1, 2, 3].map(trial).to_vec())
}
