//! What runs now and how long it will take, on standard error.

use crate::plan::{Plan, Slot};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use opcost_record::printable::printable;
use std::io::IsTerminal;

/// Who is told how the runs go.
pub trait Progress {
    /// The runs begin; `done` of them were made earlier.
    fn begin(&mut self, plan: &Plan, done: usize);
    /// One run begins, or several at the same time, each given with its variant's name.
    fn next(&mut self, runs: &[(&Slot, &str)]);
    /// The first runs say something already.
    fn say(&mut self, line: &str);
    /// The runs have ended.
    fn end(&mut self);
}

/// Says nothing.
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _: &Plan, _: usize) {}
    fn next(&mut self, _: &[(&Slot, &str)]) {}
    fn say(&mut self, _: &str) {}
    fn end(&mut self) {}
}

/// A bar on a terminal.
struct Bar {
    bar: ProgressBar,
    /// Runs in flight.
    begun: usize,
}

/// A bar where standard error is a terminal, else nothing.
pub fn for_terminal(quiet: bool) -> Box<dyn Progress> {
    if quiet || !std::io::stderr().is_terminal() {
        return Box::new(Silent);
    }
    Box::new(Bar { bar: ProgressBar::hidden(), begun: 0 })
}

impl Progress for Bar {
    fn begin(&mut self, plan: &Plan, done: usize) {
        let style =
            ProgressStyle::with_template("  {bar:24} {pos}/{len} runs · {eta} left · {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar =
            ProgressBar::new(plan.slot_count() as u64).with_style(style).with_position(done as u64);
        // Drawn between runs only, and seldom: a bar redrawn by a thread would disturb the run.
        self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(4));
        self.bar.reset_eta();
        self.begun = 0;
    }

    fn next(&mut self, runs: &[(&Slot, &str)]) {
        let done = std::mem::replace(&mut self.begun, runs.len());
        self.bar.inc(done as u64);
        let what = |(slot, variant): &(&Slot, &str)| match slot.block {
            None => format!("{} (warm-up)", printable(variant)),
            Some(_) => printable(variant),
        };
        self.bar.set_message(runs.iter().map(what).collect::<Vec<_>>().join(" | "));
        if done == 0 {
            self.bar.tick();
        }
    }

    fn say(&mut self, line: &str) {
        self.bar.println(format!("  {}", printable(line)));
    }

    fn end(&mut self) {
        self.bar.finish_and_clear();
    }
}
