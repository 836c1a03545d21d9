//! A thread that keeps one CPU busy and looks at the clock all the time.

use super::gaps::Gaps;
use super::{Heard, interrupts};
use opcost_sys::affinity::set_affinity;
use opcost_sys::clock::monotonic_ns;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Multiplications in a turn. With the reading of the clock, a turn takes some tenths of a
/// microsecond, so that ten turns are shorter than the shortest interrupt.
const TURN_STEPS: u64 = 64;
/// Turns from which the typical turn is learned.
const CALIBRATION_TURNS: usize = 4096;

/// Listens to a CPU for `duration`.
///
/// # Errors
/// The CPU cannot be used, for example because it has just gone offline.
pub(super) fn listen(root: &Path, cpu: usize, duration: Duration) -> io::Result<Heard> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            set_affinity(cpu)?;
            Ok(on_this_cpu(root, cpu, duration))
        });
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that listens died")))
    })
}

fn on_this_cpu(root: &Path, cpu: usize, duration: Duration) -> Heard {
    let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    // Calibration also brings this thread to the CPU and its code into the caches.
    let calibration = (0..CALIBRATION_TURNS).map(|_| turn(monotonic_ns()).1).collect();
    let read = || {
        let switches = switches(&text("proc/thread-self/status"));
        let stolen_ns = stolen_ns(&text("proc/stat"), cpu);
        (switches, stolen_ns, text("proc/interrupts"), text("proc/softirqs"))
    };
    let (switches, stolen_ns, hard, soft) = read();
    let mut gaps = Gaps::new(calibration);
    let mut now_ns = monotonic_ns();
    let end_ns = now_ns + duration.as_nanos() as u64;
    while now_ns < end_ns {
        let took_ns;
        (now_ns, took_ns) = turn(now_ns);
        gaps.turn(took_ns);
    }
    let (switches_after, stolen_ns_after, hard_after, soft_after) = read();
    let since = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
    Heard {
        gaps,
        switches: since(switches, switches_after),
        stolen_ns: since(stolen_ns, stolen_ns_after),
        interrupts: interrupts::since(&hard, &hard_after, cpu),
        softirqs: interrupts::since(&soft, &soft_after, cpu),
    }
}

/// Does a little work; returns the time afterwards, and the time since `begun_ns`.
#[inline]
fn turn(begun_ns: u64) -> (u64, u64) {
    let mut state = begun_ns;
    for _ in 0..TURN_STEPS {
        // Each step depends on the step before.
        state = black_box(state).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    black_box(state);
    let now_ns = monotonic_ns();
    (now_ns, now_ns - begun_ns)
}

/// How often another task ran although this thread wanted to go on, from the thread's status.
pub(super) fn switches(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// Time stolen from a CPU since boot, from `/proc/stat`: the eighth figure, in ticks of 10 ms.
pub(super) fn stolen_ns(stat: &str, cpu: usize) -> Option<u64> {
    const TICK_NS: u64 = 10_000_000;
    let line = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")))?;
    let ticks: u64 = line.split_whitespace().nth(7)?.parse().ok()?;
    Some(ticks * TICK_NS)
}
