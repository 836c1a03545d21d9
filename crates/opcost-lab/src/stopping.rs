//! When a recording has enough runs: its interval is narrow, its time is spent, or exact counts settle it.
//!
//! Significance never stops a recording, with one exception: a single look at exact counts, whose
//! share of the error rate is set aside beforehand (`opcost_stats::early`). Whoever looks again and
//! again until a test says "changed" finds a change in the end, whether there is one or not. The
//! width of an interval says next to nothing about its position (Chow & Robbins, "On the Asymptotic
//! Theory of Fixed-Width Sequential Confidence Intervals", Ann. Math. Statist. 36, 1965). The tests
//! of the statistics simulate the effect that remains.
//!
//! **The usual length of a host comparison looks at the clock alone.** opcost could also go on until the interval is useful.
//! But the interval depends on the differences, and looking at it costs a fifth of every level (the next point). The clock
//! sees only the sum of a block's runs. Exchanging the labels within the block does not change that sum, so the number of
//! blocks says nothing about their signs: the signed-rank test stays exact, and no error rate is set aside. opcost makes at
//! least twice the fewest pairs, as single pairs, and says what four times the time would find; the user decides about width.
//!
//! **Runs stop on width, at four fifths of every level.** opcost never stops because something is significant. Stopping at
//! the first narrow interval adds to error rates; simulations show how much, and the reduced levels pay for it in advance.

use opcost_base::number::percent;
use opcost_model::plan::{Plan, Slot, StopReason};
use opcost_model::recording::warm_up::disturbance;
use opcost_record::{Dictionary, MetricId, MetricKey, Outcome, Record};
use opcost_stats::multiple::Family;
use opcost_stats::schedule::next_look;
use opcost_stats::{Block, Paired, early};
use std::collections::BTreeSet;

/// After this many pairs with the same counts on both sides, no more are made.
const SAME_PAIRS: usize = 2;

/// The operations and all counts of a run.
type Counts = (Option<u64>, Vec<(MetricId, u64)>);

/// The figures of the primary metric so far, and when to look at them again.
pub struct Stopping<'a> {
    plan: &'a Plan,
    /// Block and figure of each finished run that has the metric, by variant.
    figures: Vec<Vec<(u32, f64)>>,
    /// The number of runs of each block that are not made yet.
    left: Vec<usize>,
    /// The number of whole blocks, from the first on.
    whole: usize,
    /// The number of whole blocks at the next look at the interval.
    next_look: usize,
    /// Block and counts of each finished run, by variant, if the plan looks at exact counts; a warm-up
    /// run has no block.
    counts: Vec<Vec<(Option<u32>, Counts)>>,
    /// Whether the first pair's answer is yet to be reported.
    answer_is_due: bool,
    /// Whether the one look at exact counts is yet to come.
    look_is_due: bool,
    /// The variants that failed.
    failed: BTreeSet<usize>,
    /// The warm-up runs until the primary metric is chosen, if they choose it.
    warm_up: Vec<Record>,
    /// The primary metric, once a compared run was made.
    primary: Option<&'a MetricKey>,
}

impl<'a> Stopping<'a> {
    /// Starts with nothing measured. The first look at the interval comes when every metric can be decided.
    pub fn new(plan: &'a Plan) -> Stopping<'a> {
        Stopping {
            plan,
            figures: vec![Vec::new(); plan.variants.len()],
            left: plan.blocks.iter().map(|block| block.order.len()).collect(),
            whole: 0,
            next_look: plan.blocks_of_pairs(plan.fewest_pairs).max(plan.stop.blocks_min) as usize,
            counts: vec![Vec::new(); plan.variants.len()],
            answer_is_due: true,
            look_is_due: true,
            failed: BTreeSet::new(),
            warm_up: Vec::new(),
            primary: None,
        }
    }

    /// Adds a run. The first compared run has the primary metric chosen by the warm-up runs before it.
    pub fn add(&mut self, record: &Record, dictionary: &Dictionary) {
        if self.plan.stop.look_pairs.is_some() && record.outcome == Outcome::Finished {
            let counts = record.samples.iter().map(|sample| (sample.metric, sample.value));
            self.counts[usize::from(record.variant)]
                .push((record.block, (record.ops, counts.collect())));
        }
        let Some(block) = record.block else {
            if self.primary.is_none() && self.plan.primary_if_busy.is_some() {
                self.warm_up.push(record.clone());
            }
            return;
        };
        self.count(block);
        let plan = self.plan;
        let warm_up = std::mem::take(&mut self.warm_up);
        let primary = self.primary.get_or_insert_with(|| {
            let if_busy = plan.primary_if_busy.as_ref();
            if_busy
                .filter(|_| disturbance(plan, dictionary, &warm_up).is_some())
                .unwrap_or(&plan.primary)
        });
        let sample = dictionary.id(primary).and_then(|metric| record.sample(metric));
        if let (Outcome::Finished, Some(sample)) = (&record.outcome, sample) {
            let ops = if primary.row().per_op { record.ops.unwrap_or(1) } else { 1 };
            let figure = sample.value as f64 / ops.max(1) as f64;
            self.figures[usize::from(record.variant)].push((block, figure));
        }
    }

    /// Counts no more on a variant that failed, of whose runs those in `missing` are not made.
    pub fn give_up(&mut self, variant: usize, missing: &[Slot]) {
        self.failed.insert(variant);
        let own = missing.iter().filter(|slot| usize::from(slot.variant) == variant);
        own.filter_map(Slot::compared_in).for_each(|block| self.count(block));
    }

    /// Takes a run from those that a block lacks.
    fn count(&mut self, block: u32) {
        let Some(left) = self.left.get_mut(block as usize) else { return };
        *left = left.saturating_sub(1);
        while self.left.get(self.whole) == Some(&0) {
            self.whole += 1;
        }
    }

    /// The comparisons that get a verdict.
    fn comparisons(&self) -> Vec<(usize, usize)> {
        let mut left = self.plan.comparisons_without(&self.failed);
        left.retain(|sides| self.plan.apart(*sides).is_none());
        left
    }

    /// The variants that did not fail.
    fn variants(&self) -> impl Iterator<Item = usize> {
        (0..self.plan.variants.len()).filter(|variant| !self.failed.contains(variant))
    }

    /// The first pair's answer about the primary metric, once the pair is made, if the plan looks
    /// at exact counts. Only the first answer is returned.
    pub fn first_answer(&mut self) -> Option<String> {
        self.plan.stop.look_pairs?;
        if self.whole == 0 || !self.answer_is_due || !self.repeats_itself() {
            return None;
        }
        self.answer_is_due = false;
        let figure = |side: usize| {
            let first = self.figures[side].iter().find(|(block, _)| *block == 0);
            first.map(|(_, figure)| *figure)
        };
        let of_pair = |(baseline, variant): (usize, usize)| {
            let (one, two) = (figure(baseline)?, figure(variant)?);
            let change = match one == two {
                true => "the same".to_string(),
                false if one == 0.0 => "changed".to_string(),
                false => percent(two / one - 1.0),
            };
            Some(format!("{} {change}", self.plan.variants[variant].name))
        };
        let changes: Vec<String> = self.comparisons().into_iter().filter_map(of_pair).collect();
        if changes.is_empty() {
            return None;
        }
        let label = self.plan.primary.label();
        Some(format!("one layout so far, exact: {label} of {}", changes.join(", ")))
    }

    /// The reason to stop now, after `elapsed_ns` of this session, if there is one; only after a
    /// whole unit of the test.
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
        if let Some(look_pairs) = stop.look_pairs {
            if self.whole >= SAME_PAIRS && self.is_same_throughout() {
                return Some(StopReason::Settled);
            }
            // The look always comes after the same blocks, so its error rate is that of one test.
            if self.whole >= look_pairs as usize && std::mem::take(&mut self.look_is_due) {
                let comparisons = self.comparisons();
                let level = early::LEVEL / comparisons.len() as f64;
                let mut settled =
                    comparisons.iter().map(|sides| self.is_settled(*sides, look_pairs, level));
                if self.repeats_itself() && settled.all(|settled| settled) {
                    return Some(StopReason::Settled);
                }
            }
        }
        let spent = stop.budget_ms.is_some_and(|budget_ms| elapsed_ns / 1_000_000 >= budget_ms);
        (spent && self.whole >= stop.blocks_min as usize).then_some(StopReason::Budget)
    }

    /// The counts of a variant's runs, by block.
    fn counts_of(&self, variant: usize) -> Vec<(u32, &Counts)> {
        let runs = self.counts[variant].iter();
        let mut runs: Vec<(u32, &Counts)> =
            runs.filter_map(|(block, counts)| Some(((*block)?, counts))).collect();
        runs.sort_by_key(|(block, _)| *block);
        runs
    }

    /// Whether every count of every block is the same in all variants.
    fn is_same_throughout(&self) -> bool {
        let mut counts = self.variants().map(|variant| self.counts_of(variant));
        let baseline = counts.next();
        counts.all(|counts| Some(counts) == baseline)
    }

    /// Whether each variant's warm-up run gave the same counts as the variant's run of the first block.
    fn repeats_itself(&self) -> bool {
        self.variants().all(|variant| {
            let of = |wanted: Option<u32>| {
                let run = self.counts[variant].iter().find(|(block, _)| *block == wanted);
                run.map(|(_, counts)| counts)
            };
            of(None).is_some() && of(None) == of(Some(0))
        })
    }

    /// Whether the primary metric of two variants is the same in each of the first blocks, or lies
    /// farther apart than layouts shift it.
    ///
    /// `level`: the level of one comparison.
    fn is_settled(&self, (baseline, variant): (usize, usize), blocks: u32, level: f64) -> bool {
        let figures = |side: usize| {
            let mut of = self.figures[side].clone();
            of.retain(|(block, _)| *block < blocks);
            of.sort_by_key(|(block, _)| *block);
            of
        };
        let [one, two] = [baseline, variant].map(figures);
        let plain = |of: &[(u32, f64)]| of.iter().map(|(_, figure)| *figure).collect::<Vec<f64>>();
        one == two || early::p(&plain(&one), &plain(&two)) <= level
    }

    /// The widest interval of any comparison; `None` if a comparison has no interval.
    fn widest(&self) -> Option<f64> {
        let comparisons = self.comparisons();
        let budget = self.plan.stop.error_budget();
        let alpha = budget.level_of_smallest(Family::Primary, comparisons.len());
        let mut widest = 0f64;
        for (baseline, variant) in comparisons {
            let units = self.plan.unit_of(self.whole as u32) as usize;
            let mut blocks = vec![Block::default(); units];
            let place = |block: u32| self.plan.unit_of(block) as usize;
            for &(block, figure) in &self.figures[baseline] {
                if let Some(unit) = blocks.get_mut(place(block)) {
                    unit.baseline.to_mut().push(figure);
                }
            }
            for &(block, figure) in &self.figures[variant] {
                if let Some(unit) = blocks.get_mut(place(block)) {
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
    use crate::resolve::fixture::{FakeSurroundings, experiment};
    use crate::resolve::resolve;
    use opcost_base::time::TimeLimit;
    use opcost_model::experiment::Experiment;
    use opcost_model::plan::MachineKind;
    use opcost_model::plan::Width;
    use opcost_model::plan::{HostPlan, Target};
    use opcost_record::{Domain, Sample};

    fn stopping(width_ratio: Option<f64>, budget_ms: Option<u64>) -> Plan {
        let asked = Experiment {
            until_width: width_ratio.map(|ratio| Width { ratio }),
            budget: budget_ms.map(|limit_ms| TimeLimit { limit_ms }),
            ..experiment(2, 400)
        };
        resolve(&asked, &FakeSurroundings::default()).unwrap()
    }

    /// Adds runs until it is time to stop; returns the number of runs and the reason, if there was one.
    fn check(
        plan: &Plan,
        ns_per_run: u64,
        value: impl Fn(u32) -> u64,
    ) -> (usize, Option<StopReason>) {
        let mut stopping = Stopping::new(plan);
        let dictionary = Dictionary::from_keys(vec![plan.primary.clone()]);
        for (made, slot) in plan.slots().filter(|slot| slot.block.is_some()).enumerate() {
            stopping.add(&run(&slot, &[value(slot.slot)]), &dictionary);
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

    /// A plan of 11 pairs on emulated machines that looks at exact counts after 5.
    fn settling() -> Plan {
        let asked = Experiment {
            machine: Some(MachineKind::Emulated),
            kernel: vec!["k".into()],
            ..Experiment { pairs: None, ..experiment(2, 0) }
        };
        let plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
        assert_eq!((plan.stop.look_pairs, plan.pairs >= 10), (Some(5), true));
        plan
    }

    fn run(slot: &Slot, counts: &[u64]) -> Record {
        let sample = |(metric, &value): (u16, &u64)| Sample { metric, value, time: None };
        Record {
            slot: slot.slot,
            variant: slot.variant,
            block: slot.compared_in(),
            started_unix_ns: 0,
            outcome: Outcome::Finished,
            exit_code: Some(0),
            ops: Some(1),
            samples: (0..).zip(counts).map(sample).collect(),
            invariants: Vec::new(),
        }
    }

    /// The primary metric and another.
    fn two_metrics(plan: &Plan) -> Dictionary {
        let other = MetricKey { name: "other".into(), ..plan.primary.clone() };
        Dictionary::from_keys(vec![plan.primary.clone(), other])
    }

    /// Pairs made until exact counts settle the plan, and whether they did; `count` gives the primary and another metric.
    fn settled_after(plan: &Plan, count: impl Fn(Option<u32>, u16) -> [u64; 2]) -> (u32, bool) {
        let mut stopping = Stopping::new(plan);
        for slot in plan.slots() {
            stopping.add(&run(&slot, &count(slot.block, slot.variant)), &two_metrics(plan));
            if let Some(reason) = stopping.reason(0) {
                assert_eq!(reason, StopReason::Settled);
                return (slot.block.map_or(0, |block| block + 1), true);
            }
        }
        (plan.pairs, false)
    }

    #[test]
    fn equal_counts_settle_it_after_two_pairs() {
        let plan = settling();
        let layout = |block: Option<u32>| u64::from(block.unwrap_or(0)) * 37 % 11;
        assert_eq!(settled_after(&plan, |block, _| [1000 + layout(block), 7]), (2, true));
        // Another metric differs, but the primary metric is the same at the look.
        let other = |block, variant: u16| [1000 + layout(block), 7 + u64::from(variant)];
        assert_eq!(settled_after(&plan, other), (5, true));
    }

    #[test]
    fn counts_that_lie_apart_settle_it_at_the_look() {
        let plan = settling();
        let counts = |more: u64| {
            move |block: Option<u32>, variant: u16| {
                let layout = u64::from(block.unwrap_or(0)) * 37 % 11;
                [1_000_000 + layout + more * u64::from(variant), 7]
            }
        };
        assert_eq!(settled_after(&plan, counts(5000)), (5, true));
        let mut stopping = Stopping::new(&plan);
        assert_eq!(stopping.first_answer(), None);
        for slot in plan.slots().take(4) {
            let counts = counts(5000)(slot.block, slot.variant);
            stopping.add(&run(&slot, &counts), &two_metrics(&plan));
        }
        let said = "one layout so far, exact: instructions of v1 +0.50 %";
        assert_eq!(stopping.first_answer().as_deref(), Some(said));
        assert_eq!(stopping.first_answer(), None, "said once");
        assert_eq!(settled_after(&plan, counts(3)), (plan.pairs, false), "layouts do as much");
        // Counts that do not repeat settle nothing.
        let drifting = |block: Option<u32>, variant: u16| {
            let [count, _] = counts(5000)(block, variant);
            [count + u64::from(block.is_none()), 7]
        };
        assert_eq!(settled_after(&plan, drifting), (plan.pairs, false));
    }

    #[test]
    fn the_width_is_that_of_the_metric_that_the_warm_up_runs_choose() {
        let plan = stopping(Some(0.001), None);
        let key = |name: &str, source: &str| MetricKey::new(name, Domain::All, source);
        let on_cpu = plan.primary_if_busy.clone().unwrap();
        let keys = vec![key("wall", "clock"), on_cpu, key("involuntary-switches", "rusage")];
        let dictionary = Dictionary::from_keys(keys);
        // Elapsed time varies by six times, time on a CPU by next to nothing.
        let wall = |slot: u32| 10_000_000 * (1 + u64::from(slot % 7));
        let stops = |turns: u64| {
            let mut stopping = Stopping::new(&plan);
            plan.slots().any(|slot| {
                let counts = [wall(slot.slot), 9_000_000 + u64::from(slot.slot % 5), turns];
                stopping.add(&run(&slot, &counts), &dictionary);
                stopping.reason(0) == Some(StopReason::Width)
            })
        };
        assert!(stops(4), "task-clock decides");
        assert!(!stops(0), "wall decides");
    }

    #[test]
    fn a_build_is_a_unit() {
        let mut plan = stopping(None, Some(1));
        let build = Some(opcost_model::plan::BuildPlan { command: "make".into(), blocks: 3 });
        plan.target = Target::Host(HostPlan { build, ..HostPlan::default() });
        assert_eq!(check(&plan, 1_000_000, |_| 7), (6, Some(StopReason::Budget)));
    }
}
