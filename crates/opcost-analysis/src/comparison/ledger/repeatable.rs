//! Checks whether the emulated machine gives the same counts when a run is repeated.
//!
//! **An exact difference needs no test to be stated, only to be called real.** If one run a side has counts that repeat, the
//! verdict is "exact, one layout": anybody can reproduce the number, which says nothing about other layouts. `--fail-on`
//! without a limit therefore treats it as undecided.
//!
//! **Warm-up runs of the emulated machine repeat the first block's inputs.** The ledger's rule `repeatable` compares both to
//! the last digit, at the price of one run per variant. If processes make several runs, opcost repeats the whole first
//! process: a run's counts depend on the runs before it.

use crate::comparison::Severity;
use crate::comparison::ledger::{Evidence, Finding};
use opcost_base::number::{grouped, magnitude};
use opcost_model::recording::Recording;
use opcost_record::metric::EMULATOR;
use opcost_record::{MetricId, MetricKey, Outcome, Record};
use std::collections::HashMap;

/// Compares each warm-up run with the run of the first block that has the same seed and padding: every count of the emulator must
/// be the same integer. If one process makes several runs, the whole process was repeated, and the runs at the same place in each
/// process are compared.
pub(super) fn repeatable(evidence: &Evidence<'_>) -> Finding {
    let recording = evidence.recording;
    if recording.plan.warmup == 0 {
        return Finding::Seen(Severity::Fine, "not checked (--warmup 0)".into());
    }
    let pairs = repeated_runs(recording);
    if pairs.is_empty() {
        return Finding::Seen(Severity::Fine, "not checked: no run was repeated".into());
    }
    let keys = recording.dictionary.keys();
    let worst = pairs
        .iter()
        .flat_map(|&(repeat, first)| {
            let counted = keys.iter().enumerate().filter(|(_, key)| key.source == EMULATOR);
            counted.filter_map(move |(id, key)| Deviation::of(key, id as u16, repeat, first))
        })
        .max_by(|one, two| one.share().total_cmp(&two.share()));
    match worst {
        None => {
            let runs = pairs.len();
            let text = format!(
                "each variant gave the same counts to the last digit in {runs} repeated runs"
            );
            Finding::Seen(Severity::Fine, text)
        }
        Some(worst) => {
            let name = &recording.plan.variants[usize::from(worst.variant)].name;
            Finding::Seen(
                Severity::Doubtful,
                format!("'{name}' was repeated and {}", worst.describe()),
            )
        }
    }
}

/// Pairs each warm-up run with the run of the first block that it repeats.
fn repeated_runs(recording: &Recording) -> Vec<(&Record, &Record)> {
    let plan = &recording.plan;
    if plan.warmup == 0 {
        return Vec::new();
    }
    let finished = || recording.records.iter().filter(|run| run.outcome == Outcome::Finished);
    // The key is the variant; in processes that make several runs, the place in the first process.
    let warm_up_count = plan.warm_up_count() as u32;
    let round = (warm_up_count / plan.warmup).max(1);
    let place = |run: &Record| match (plan.in_process, run.block) {
        (None, _) => run.variant.into(),
        (Some(_), None) => run.slot % round,
        (Some(_), Some(_)) => run.slot.saturating_sub(warm_up_count),
    };
    let is_first = |run: &Record| run.block.is_some_and(|block| plan.unit_of(block) == 0);
    let first: HashMap<u32, &Record> =
        finished().filter(|run| is_first(run)).map(|run| (place(run), run)).collect();
    let repeated = finished().filter(|run| run.block.is_none());
    repeated.filter_map(|run| Some((run, *first.get(&place(run))?))).collect()
}

/// The repeated runs of an emulated recording, which show whether its counts repeat.
pub(crate) struct Repeats<'a> {
    by_variant: HashMap<usize, Vec<(&'a Record, &'a Record)>>,
}

impl<'a> Repeats<'a> {
    /// Finds the repeated runs of a recording.
    pub(crate) fn of(recording: &'a Recording) -> Repeats<'a> {
        let mut by_variant: HashMap<usize, Vec<_>> = HashMap::new();
        for (repeat, first) in repeated_runs(recording) {
            by_variant.entry(usize::from(repeat.variant)).or_default().push((repeat, first));
        }
        Repeats { by_variant }
    }

    /// Whether runs of the variant were repeated and gave the same integer of the metric each time.
    pub(crate) fn hold(&self, variant: usize, metric: MetricId) -> bool {
        let value = |run: &Record| run.sample(metric).map(|sample| sample.value);
        self.by_variant.get(&variant).is_some_and(|own| {
            own.iter().all(|(repeat, first)| {
                value(repeat).is_some() && value(repeat) == value(first) && repeat.ops == first.ops
            })
        })
    }
}

/// A count that differs between a run and its repetition.
struct Deviation<'a> {
    key: &'a MetricKey,
    variant: u16,
    /// The values in the first block and in the repetition; `None` if the run does not have the count.
    values: [Option<u64>; 2],
}

impl Deviation<'_> {
    fn of<'a>(
        key: &'a MetricKey,
        metric: u16,
        repeat: &Record,
        first: &Record,
    ) -> Option<Deviation<'a>> {
        let values = [first, repeat].map(|run| run.sample(metric).map(|sample| sample.value));
        (values[0] != values[1]).then_some(Deviation { key, variant: first.variant, values })
    }

    /// The difference as a share of the larger count; infinite if one count is missing.
    fn share(&self) -> f64 {
        match self.values {
            [Some(one), Some(two)] => one.abs_diff(two) as f64 / one.max(two) as f64,
            _ => f64::INFINITY,
        }
    }

    fn describe(&self) -> String {
        let label = self.key.label();
        let region = if self.key.is_of_program_region() { "its region" } else { &self.key.region };
        match self.values {
            [Some(one), Some(two)] => format!(
                "{label} ({region}) differed by {} ({}): {} and {}",
                grouped(one.abs_diff(two)),
                magnitude(self.share()),
                grouped(one),
                grouped(two)
            ),
            _ => format!("{label} ({region}) was counted only once"),
        }
    }
}
