//! Progress of the runs and how long they will take, on standard error.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use opcost_base::message::{announce, draw};
use opcost_base::time::{about_in_words, time_in_words};
use opcost_model::plan::{Plan, Slot};
use opcost_record::printable::printable;
use std::io::IsTerminal;

/// Receives the progress of the runs.
pub trait Progress {
    /// The runs begin; `done` of them were made earlier.
    fn begin(&mut self, plan: &Plan, done: usize);
    /// One run begins, or several begin at the same time; each comes with its variant's name.
    fn next(&mut self, runs: &[(&Slot, &str)]);
    /// Reports `line`, an answer that the first runs already give.
    fn print_line(&mut self, line: &str);
    /// Announces how long the runs will take; called for long recordings only.
    fn estimate(&mut self, estimate: &Estimate);
    /// The runs have ended.
    fn end(&mut self);
}

/// How long runs will take.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Estimate {
    /// The expected time, in words.
    pub takes: String,
    /// Options of a recording command that would shorten the runs; empty if no option would.
    pub shorter: &'static str,
}

impl Estimate {
    fn line(&self, who: Who) -> String {
        match (who, self.shorter) {
            (Who::Recorder, shorter) if !shorter.is_empty() => format!("{}; {shorter}", self.takes),
            _ => self.takes.clone(),
        }
    }
}

/// The command that makes the runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Who {
    /// A command that records one experiment, with options for its length.
    Recorder,
    /// A command that determines the number of its runs itself.
    Gate,
}

/// Runs that take at least this long are announced, ms.
const LONG_MS: u64 = 10_000;

/// How long the `left` runs will take, as the `made` runs took `spent_ms`; `None` if they will not take long.
pub fn estimate(plan: &Plan, spent_ms: u64, made: usize, left: usize) -> Option<Estimate> {
    let each_ms = spent_ms as f64 / made.max(1) as f64;
    let all_ms = each_ms * left as f64;
    let budget_ms = plan.stop.budget_ms.map(|budget_ms| budget_ms as f64);
    // The plan makes at least this many runs, however long they take.
    let least = least_runs(plan).min(left);
    let takes_ms = budget_ms
        .map_or(all_ms, |budget_ms| all_ms.min(budget_ms.max(each_ms * least as f64)))
        as u64;
    if takes_ms < LONG_MS {
        return None;
    }
    let may_stop = plan.stop.width_ratio.is_some() || plan.stop.look_pairs.is_some();
    let overruns = least > 0 && takes_ms as f64 > budget_ms.unwrap_or(f64::INFINITY);
    let left = if overruns { least } else { left };
    let (at_most, shorter) = match (may_stop, budget_ms) {
        // With fewer runs, this shard's plan would differ from the other shards' plan.
        _ if plan.shard().is_some() => ("", ""),
        (false, None) => ("", "-n N makes fewer, --budget TIME ends sooner"),
        (false, Some(_)) if overruns => ("", "-n N makes fewer, --budget TIME ends sooner"),
        (_, Some(_)) => (" at most", ""),
        (true, None) => (" at most", "--budget TIME ends sooner"),
    };
    let each = match each_ms {
        0.0..1_000.0 => format!("{each_ms:.0} ms"),
        _ => format!("{:.1} s", each_ms / 1_000.0),
    };
    let (takes, plural) = (about_in_words(takes_ms), if left == 1 { "" } else { "s" });
    let takes = format!("{left} run{plural} of some {each} will take about {takes}{at_most}");
    Some(Estimate { takes, shorter })
}

/// The number of runs that a plan makes, however long they take.
fn least_runs(plan: &Plan) -> usize {
    let least = plan.stop.blocks_min;
    plan.slots().filter(|slot| slot.block.is_some_and(|block| block < least)).count()
}

/// The bar's text: how many of the runs are made, or with a budget, until when the recording goes on.
fn template(plan: &Plan) -> String {
    let Some(budget_ms) = plan.stop.budget_ms else {
        return "  {bar:24} {pos}/{len} runs · {eta} left · {wide_msg}".into();
    };
    let least = match least_runs(plan) {
        0 => String::new(),
        // The bar counts warm-up runs, too.
        runs => format!(" and {} runs", runs + plan.warmup as usize * plan.variants.len()),
    };
    let until = time_in_words(budget_ms);
    format!("  {{pos}} runs · {{elapsed}}, until {until}{least} · {{wide_msg}}")
}

/// Reports nothing.
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _: &Plan, _: usize) {}
    fn next(&mut self, _: &[(&Slot, &str)]) {}
    fn print_line(&mut self, _: &str) {}
    fn estimate(&mut self, _: &Estimate) {}
    fn end(&mut self) {}
}

/// Reports how long the runs will take, and nothing else.
struct Lines(Who);

impl Progress for Lines {
    fn begin(&mut self, _: &Plan, _: usize) {}
    fn next(&mut self, _: &[(&Slot, &str)]) {}
    fn print_line(&mut self, _: &str) {}
    fn estimate(&mut self, estimate: &Estimate) {
        announce!("{}", estimate.line(self.0));
    }
    fn end(&mut self) {}
}

/// A bar on a terminal.
struct Bar {
    bar: ProgressBar,
    who: Who,
    /// Runs in flight.
    begun: usize,
}

/// A bar if standard error is a terminal, else a line about long recordings; nothing if `quiet`.
pub fn on_stderr(quiet: bool, who: Who) -> Box<dyn Progress> {
    if quiet {
        return Box::new(Silent);
    }
    if !std::io::stderr().is_terminal() {
        return Box::new(Lines(who));
    }
    Box::new(Bar { bar: ProgressBar::hidden(), who, begun: 0 })
}

impl Progress for Bar {
    fn begin(&mut self, plan: &Plan, done: usize) {
        let style = ProgressStyle::with_template(&template(plan))
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar =
            ProgressBar::new(plan.slot_count() as u64).with_style(style).with_position(done as u64);
        // The bar is drawn between runs only, and seldom. A thread that redraws it would disturb the run.
        self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(4));
        draw(&self.bar);
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

    fn print_line(&mut self, line: &str) {
        self.bar.println(format!("  {}", printable(line)));
    }

    fn estimate(&mut self, estimate: &Estimate) {
        self.print_line(&estimate.line(self.who));
    }

    fn end(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::fixture;
    use opcost_model::plan::StopPlan;

    #[test]
    fn a_bar_shows_what_ends_the_recording() {
        let plan = fixture::plan(2, 8);
        assert!(template(&plan).contains("{pos}/{len} runs"));
        let of = |blocks_min| {
            let stop = StopPlan { budget_ms: Some(6_000), blocks_min, ..plan.stop.clone() };
            template(&Plan { stop, ..plan.clone() })
        };
        assert!(of(0).contains("{elapsed}, until 6 s ·"), "{}", of(0));
        assert!(of(8).contains("{elapsed}, until 6 s and 18 runs ·"), "{}", of(8));
    }

    #[test]
    fn what_takes_long_is_announced_with_what_makes_it_shorter() {
        let plan = fixture::plan(2, 8);
        let length = estimate(&plan, 2_000, 4, 380).unwrap();
        let said = length.line(Who::Recorder);
        let expected = "380 runs of some 500 ms will take about 3 min 10 s; -n N makes fewer, \
                        --budget TIME ends sooner";
        assert_eq!(said, expected);
        // A gate has no such options.
        let takes = "380 runs of some 500 ms will take about 3 min 10 s";
        assert_eq!(length.line(Who::Gate), takes);
        assert_eq!(estimate(&plan, 2_000, 4, 19), None);
        let of = |stop: StopPlan| {
            let plan = Plan { stop, ..plan.clone() };
            estimate(&plan, 6_000, 4, 100).unwrap().line(Who::Recorder)
        };
        let budget = of(StopPlan { budget_ms: Some(60_000), ..plan.stop.clone() });
        assert_eq!(budget, "100 runs of some 1.5 s will take about 1 min at most");
        // The usual length: 6 s, and at least as many runs as can decide.
        let usual = |each_ms: u64| {
            let stop = StopPlan { budget_ms: Some(6_000), blocks_min: 3, ..plan.stop.clone() };
            estimate(&Plan { stop, ..plan.clone() }, 4 * each_ms, 4, 1_000)
        };
        assert_eq!(usual(500), None);
        let slow = usual(10_000).unwrap();
        let least = plan.pairs_of_blocks(3) * 2;
        let expected = format!("{least} runs of some 10.0 s will take about ");
        assert!(slow.takes.starts_with(&expected), "{slow:?}");
        assert!(slow.shorter.contains("-n N makes fewer"), "{slow:?}");
        let settled = of(StopPlan { look_pairs: Some(5), ..plan.stop.clone() });
        assert!(settled.contains("about 2 min 30 s at most; --budget"), "{settled}");
    }
}
