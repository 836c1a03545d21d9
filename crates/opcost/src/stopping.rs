//! When a recording has enough: its interval is narrow, or its time is spent.
//!
//! It never stops because something is significant: who looks again and again until a test says
//! "changed" finds a change in the end, whether there is one or not. How wide an interval is says
//! next to nothing about where it lies (Chow & Robbins, "On the Asymptotic Theory of Fixed-Width
//! Sequential Confidence Intervals", Ann. Math. Statist. 36, 1965); what remains is simulated in
//! the tests of the statistics.

use crate::plan::{Plan, StopReason};
use opcost_record::{Outcome, Record};
use opcost_stats::multiple::Family;
use opcost_stats::schedule::next_look;
use opcost_stats::{Block, Paired};

/// What has been measured of the primary metric so far, and when to look at it again.
pub struct Stopping<'a> {
    plan: &'a Plan,
    /// Block, variant and figure of each finished run that has the metric.
    figures: Vec<(u32, u16, f64)>,
    /// Runs of each block that are not made yet.
    left: Vec<usize>,
    /// Blocks that are whole, from the first on.
    whole: usize,
    /// Whole blocks at which the interval is looked at next.
    next_look: usize,
}

impl<'a> Stopping<'a> {
    /// Nothing measured yet. The interval is looked at as soon as every metric can be decided.
    pub fn new(plan: &'a Plan) -> Stopping<'a> {
        Stopping {
            plan,
            figures: Vec::new(),
            left: plan.blocks.iter().map(|block| block.order.len()).collect(),
            whole: 0,
            next_look: plan.blocks_of_pairs(plan.fewest_pairs) as usize,
        }
    }

    /// Adds a run; `value` is its raw integer of the primary metric, if it has one.
    pub fn add(&mut self, record: &Record, value: Option<u64>) {
        let Some(block) = record.block else { return };
        let Some(left) = self.left.get_mut(block as usize) else { return };
        *left = left.saturating_sub(1);
        while self.left.get(self.whole) == Some(&0) {
            self.whole += 1;
        }
        if let (Outcome::Finished, Some(value)) = (&record.outcome, value) {
            let ops = if self.plan.primary.row().per_op { record.ops.unwrap_or(1) } else { 1 };
            self.figures.push((block, record.variant, value as f64 / ops.max(1) as f64));
        }
    }

    /// Whether to stop now, after `elapsed_ns` of this session; only after a whole unit of the
    /// test.
    pub fn reason(&mut self, elapsed_ns: u64) -> Option<StopReason> {
        let stop = &self.plan.stop;
        let unit = self.plan.blocks_per_unit() as usize;
        let begun = self.left.get(self.whole).zip(self.plan.blocks.get(self.whole));
        let begun = begun.is_some_and(|(left, block)| *left < block.order.len());
        if self.whole == 0 || begun || !self.whole.is_multiple_of(unit) {
            return None;
        }
        if let Some(width_ratio) = stop.width_ratio
            && self.whole >= self.next_look
        {
            self.next_look = next_look(self.whole);
            if self.widest().is_some_and(|widest| widest <= width_ratio) {
                return Some(StopReason::Width);
            }
        }
        let spent = stop.budget_ms.is_some_and(|budget_ms| elapsed_ns / 1_000_000 >= budget_ms);
        (spent && self.whole >= stop.blocks_min as usize).then_some(StopReason::Budget)
    }

    /// The widest interval of any comparison; `None` if one has none.
    fn widest(&self) -> Option<f64> {
        let comparisons = self.plan.comparisons();
        let budget = self.plan.stop.error_budget();
        let alpha = budget.level_of_smallest(Family::Primary, comparisons.len());
        let mut widest = 0f64;
        for (baseline, variant) in comparisons {
            let units = self.plan.unit_of(self.whole as u32) as usize;
            let mut blocks = vec![Block::default(); units];
            for &(block, of, figure) in &self.figures {
                let Some(unit) = blocks.get_mut(self.plan.unit_of(block) as usize) else {
                    continue;
                };
                if usize::from(of) == baseline {
                    unit.baseline.to_mut().push(figure);
                } else if usize::from(of) == variant {
                    unit.variant.to_mut().push(figure);
                }
            }
            let (low, high) = Paired::new(&blocks).ok()?.interval_ratio(1.0 - alpha)?;
            widest = widest.max(high - low);
        }
        Some(widest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::plan::Width;
    use crate::plan::{HostPlan, Target};
    use crate::resolve::fixture::{FakeSurroundings, experiment};
    use crate::resolve::resolve;
    use crate::time::TimeLimit;

    fn stopping(width_ratio: Option<f64>, budget_ms: Option<u64>) -> Plan {
        let asked = Experiment {
            until_width: width_ratio.map(|ratio| Width { ratio }),
            budget: budget_ms.map(|limit_ms| TimeLimit { limit_ms }),
            ..experiment(2, 400)
        };
        resolve(&asked, &FakeSurroundings::default()).unwrap()
    }

    /// Adds runs until it is time to stop; how many were made and why, if it was.
    fn check(
        plan: &Plan,
        ns_per_run: u64,
        value: impl Fn(u32) -> u64,
    ) -> (usize, Option<StopReason>) {
        let mut stopping = Stopping::new(plan);
        for (made, slot) in plan.slots().filter(|slot| slot.block.is_some()).enumerate() {
            let record = Record {
                slot: slot.slot,
                variant: slot.variant,
                block: slot.block,
                started_unix_ns: 0,
                outcome: Outcome::Finished,
                exit_code: Some(0),
                ops: None,
                samples: Vec::new(),
                invariants: Vec::new(),
            };
            stopping.add(&record, Some(value(slot.slot)));
            let reason = stopping.reason(made as u64 * ns_per_run);
            if reason.is_some() {
                return (made + 1, reason);
            }
        }
        (plan.slot_count() - 2 * plan.warmup as usize, None)
    }

    #[test]
    fn it_stops_after_a_whole_block_when_the_interval_is_narrow() {
        let wobble = |slot: u32| 1_000_000 + u64::from(slot.wrapping_mul(2_654_435_761) % 40_000);
        let fewest = 2 * stopping(Some(0.05), None).fewest_pairs as usize;
        let (loose, reason) = check(&stopping(Some(0.05), None), 0, wobble);
        assert_eq!((loose, reason), (fewest, Some(StopReason::Width)), "as soon as it may");
        let (tight, reason) = check(&stopping(Some(0.005), None), 0, wobble);
        assert_eq!(reason, Some(StopReason::Width));
        assert!(tight > loose && tight < 800, "{tight}");
        assert!((tight - loose).is_multiple_of(4), "{tight}: mirrored blocks follow");
        assert_eq!(check(&stopping(Some(1e-6), None), 0, wobble), (800, None));
    }

    #[test]
    fn it_stops_after_a_whole_block_when_the_time_is_spent() {
        let (made, reason) = check(&stopping(None, Some(10)), 1_000_000, |_| 7);
        // Ten milliseconds are over at the eleventh run; its block ends with the twelfth.
        assert_eq!((made, reason), (12, Some(StopReason::Budget)));
        assert_eq!(check(&stopping(None, None), 1_000_000, |_| 7), (800, None));
    }

    #[test]
    fn a_significant_change_is_no_reason_to_stop() {
        // Far apart, and far too noisy to be narrow.
        let value = |slot: u32| 1_000_000 * (1 + u64::from(slot % 7));
        assert_eq!(check(&stopping(Some(0.0001), None), 0, value), (800, None));
    }

    #[test]
    fn a_build_is_a_unit() {
        let mut plan = stopping(None, Some(1));
        let build = Some(crate::plan::BuildPlan { command: "make".into(), blocks: 3 });
        plan.target = Target::Host(HostPlan { build, sampling: None });
        assert_eq!(check(&plan, 1_000_000, |_| 7), (6, Some(StopReason::Budget)));
    }
}
