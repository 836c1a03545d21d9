//! Measures how long a busy program with four threads stands still when one of its sites is changed.
//!
//! The changing side measures from stopping the first thread to letting the last one go. The program
//! measures the longest time between two rounds of any thread in a window; windows with a change and
//! windows without one alternate.

#[path = "../tests/made/mod.rs"]
mod made;
#[path = "../../tests/skip.rs"]
mod skip;

use made::Busy;
use patchpoint_attach::body;
use patchpoint_attach::change::Change;
use patchpoint_attach::process::{Process, Purpose};
use patchpoint_attach::writes::Side;
use std::time::Duration;

const THREADS: u32 = 4;
/// Long compared with a change, and several of the scheduler's time slices.
const WINDOW: Duration = Duration::from_millis(20);

fn main() {
    // `cargo bench` passes `--bench`. `cargo test` does not: then the run is short.
    let whole = std::env::args().any(|argument| argument == "--bench")
        && !std::env::args().any(|argument| argument == "--tiny");
    let windows = if whole { 500 } else { 4 };
    let Some(mut busy) = Busy::run(THREADS, "") else { return };
    let process = Process::open(busy.pid(), Purpose::Change).unwrap();
    let survey = process.survey().unwrap();
    let key = survey.keys.iter().find(|key| key.name == "slow").unwrap();
    let change =
        Change::plan(&survey, key, &[body::state_with(&process, &survey, key, 1)]).unwrap();
    let mut stopped_ns = Vec::new();
    let mut longest_ns = [Vec::new(), Vec::new()];
    let mut side = Side::FOUND;
    for window in 0..2 * windows {
        busy.ask("stalls");
        let changes = window % 2 == 1;
        std::thread::sleep(WINDOW / 2);
        if changes {
            let other = if side == Side::FOUND { Side::ASKED } else { Side::FOUND };
            stopped_ns.push(process.apply(&change, side, other, |_| ()).unwrap().stopped_ns);
            side = other;
        }
        std::thread::sleep(WINDOW / 2);
        let stalls = busy.ask("stalls");
        let worst = stalls.split(' ').filter_map(|stall| stall.parse::<u64>().ok()).max();
        longest_ns[usize::from(changes)].extend(worst);
    }
    process.restore(&change).unwrap();
    println!("attach: a site of a program with {THREADS} busy threads changed {windows} times");
    show("all threads stopped, seen from outside", &mut stopped_ns);
    let [without, with] = &mut longest_ns;
    show("longest gap of any thread in 20 ms, nothing changed", without);
    show("longest gap of any thread in 20 ms, one change", with);
}

/// Quantiles and a histogram by powers of two.
fn show(what: &str, times_ns: &mut [u64]) {
    times_ns.sort_unstable();
    let at = |share: f64| times_ns[((times_ns.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    println!(
        "\n{what}\n  median {:.0} µs, 90 % {:.0} µs, 99 % {:.0} µs, most {:.0} µs",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    // Microseconds, rounded down to a power of two; below 1 counts as 1.
    let bucket = |time_ns: &u64| (time_ns / 1000).max(1).ilog2();
    let (Some(first), Some(last)) = (times_ns.first().map(bucket), times_ns.last().map(bucket))
    else {
        return;
    };
    for wanted in first..=last {
        let count = times_ns.iter().filter(|time_ns| bucket(time_ns) == wanted).count();
        let bar = "#".repeat((count * 40).div_ceil(times_ns.len()));
        println!("  from {:>6} µs  {count:>5}  {bar}", 1u64 << wanted);
    }
}
