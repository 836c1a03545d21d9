//! The cost of each run by function and by immediate caller, from its profile.

use super::symbol::folded;
use crate::sampling;
use crate::store::Recording;
use opcost_record::{Domain, Function, MetricKey, Outcome, Profile, Record, metric::EMULATOR};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// What a recording's profiles are profiles of: user mode alone where nothing else is counted.
pub(super) fn profiled_metric(recording: &Recording) -> MetricKey {
    if is_sampled(recording) {
        return sampling::metric();
    }
    let key = |domain| MetricKey::new("instructions", domain, EMULATOR);
    let whole = key(Domain::All);
    match recording.dictionary.id(&whole) {
        Some(_) => whole,
        None => key(Domain::User),
    }
}

/// Whether a recording's profiles are of samples.
pub(super) fn is_sampled(recording: &Recording) -> bool {
    recording.plan.sampling.is_some()
}

/// What a recording's profiles have, in words: `instructions`.
pub(super) fn profiled_unit(recording: &Recording) -> String {
    match is_sampled(recording) {
        true => SAMPLED_UNIT.into(),
        false => profiled_metric(recording).label(),
    }
}

/// What a sampled profile has: samples times the time between them.
pub(super) const SAMPLED_UNIT: &str = "ns of sampled task-clock";

/// A finished run of a block that has both a profile and the metric's count.
#[derive(Clone)]
pub(super) struct ProfiledRun<'a> {
    pub(super) variant: usize,
    /// The unit of the test that its block belongs to.
    pub(super) unit: u32,
    /// Operations; `None` for a command.
    pub(super) ops: Option<u64>,
    /// The metric as it was counted.
    pub(super) total: u64,
    pub(super) profile: Cow<'a, Profile>,
}

/// A sampled profile that is no more than the metric it explains: each sample stands for a whole
/// period, though a run rarely ends with one.
fn capped(profile: &Profile, total: u64) -> Cow<'_, Profile> {
    let sum = profile.total();
    if sum <= total {
        return Cow::Borrowed(profile);
    }
    let mut capped = profile.clone();
    for context in &mut capped.contexts {
        // Rounded down, so that the sum stays below; a share of a u64 is one.
        context.cost = (u128::from(context.cost) * u128::from(total) / u128::from(sum)) as u64;
    }
    Cow::Owned(capped)
}

/// The runs of a recording that have profiles, in the order of the schedule.
pub(super) fn profiled_runs(recording: &Recording) -> Vec<ProfiledRun<'_>> {
    let Some(metric) = recording.dictionary.id(&profiled_metric(recording)) else {
        return Vec::new();
    };
    let by_slot: HashMap<u32, &Record> =
        recording.records.iter().map(|record| (record.slot, record)).collect();
    let plan = &recording.plan;
    recording
        .profiles
        .iter()
        .filter_map(|(slot, profile)| {
            let record = by_slot.get(slot).filter(|run| run.outcome == Outcome::Finished)?;
            let total = record.sample(metric)?.value;
            Some(ProfiledRun {
                variant: record.variant.into(),
                unit: plan.unit_of(record.block?),
                ops: record.ops,
                total,
                profile: match is_sampled(recording) {
                    true => capped(profile, total),
                    false => Cow::Borrowed(profile),
                },
            })
        })
        .collect()
}

/// Number of a function in [`Attribution::functions`].
pub(super) type FunctionId = u32;

/// Cost of one function in one run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Cost {
    /// Of its own instructions.
    pub(super) own: u64,
    /// Times it was called.
    pub(super) calls: u64,
    /// The same by immediate caller; `None` where none is known.
    pub(super) callers: BTreeMap<Option<FunctionId>, Edge>,
}

/// What a function costs when one caller calls it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Edge {
    /// Cost of the function's own instructions.
    pub(super) own: u64,
    /// Calls.
    pub(super) calls: u64,
}

/// A run with a profile, by function.
#[derive(Clone, Debug)]
pub(super) struct AttributedRun {
    pub(super) variant: usize,
    /// The unit of the test that its block belongs to.
    pub(super) unit: u32,
    /// Operations; 1 for a command.
    pub(super) ops: u64,
    /// The metric as it was counted.
    pub(super) total: u64,
    /// What the profile has of it.
    pub(super) attributed: u64,
    pub(super) costs: BTreeMap<FunctionId, Cost>,
}

/// The runs of a recording by function.
#[derive(Clone, Debug, Default)]
pub(super) struct Attribution {
    /// Functions by number, with [`folded`] symbols.
    pub(super) functions: Vec<Function>,
    pub(super) runs: Vec<AttributedRun>,
}

impl Attribution {
    /// Takes the runs of one recording that have profiles.
    pub(super) fn of(recording: &Recording) -> Attribution {
        let [attribution] = Attribution::of_each([recording]);
        attribution
    }

    /// Takes the runs of several recordings, whose functions have the same numbers.
    pub(super) fn of_each<const N: usize>(recordings: [&Recording; N]) -> [Attribution; N] {
        let (mut functions, mut numbers) = (Vec::new(), HashMap::new());
        let mut made = recordings.map(|recording| {
            let run = |run: ProfiledRun<'_>| AttributedRun {
                variant: run.variant,
                unit: run.unit,
                ops: run.ops.unwrap_or(1).max(1),
                total: run.total,
                attributed: run.profile.total(),
                costs: costs(&run.profile, &mut functions, &mut numbers),
            };
            let runs = profiled_runs(recording).into_iter().map(run).collect();
            Attribution { functions: Vec::new(), runs }
        });
        for attribution in &mut made {
            attribution.functions = functions.clone();
        }
        made
    }
}

/// The costs of one profile; functions that are new get their numbers.
fn costs(
    profile: &Profile,
    functions: &mut Vec<Function>,
    numbers: &mut HashMap<Function, FunctionId>,
) -> BTreeMap<FunctionId, Cost> {
    let mut number = |function: &Function| {
        let source = Function {
            symbol: folded(&function.symbol).to_string(),
            module: function.module.clone(),
        };
        *numbers.entry(source.clone()).or_insert_with(|| {
            functions.push(source);
            (functions.len() - 1) as FunctionId
        })
    };
    let ids: Vec<FunctionId> = profile.functions.iter().map(&mut number).collect();
    let mut costs: BTreeMap<FunctionId, Cost> = BTreeMap::new();
    for context in &profile.contexts {
        let id = ids[context.function as usize];
        // A part that the compiler split off is not called by its function but is it.
        let splits = |caller: &&opcost_record::Context| {
            ids[caller.function as usize] == id && caller.function != context.function
        };
        let parent =
            |of: &opcost_record::Context| of.parent.map(|at| &profile.contexts[at as usize]);
        let mut caller = parent(context);
        let inner = caller.as_ref().is_some_and(splits);
        while let Some(part) = caller.filter(splits) {
            caller = parent(part);
        }
        let caller = caller.map(|caller| ids[caller.function as usize]);
        let cost = costs.entry(id).or_default();
        let calls = if inner { 0 } else { context.calls };
        cost.own += context.cost;
        cost.calls += calls;
        let edge = cost.callers.entry(caller).or_default();
        edge.own += context.cost;
        edge.calls += calls;
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::Context;

    fn profile(functions: &[&str], contexts: &[(Option<u32>, u32, u64, u64)]) -> Profile {
        Profile {
            functions: functions
                .iter()
                .map(|symbol| Function { symbol: symbol.to_string(), module: "m".into() })
                .collect(),
            contexts: contexts
                .iter()
                .map(|&(parent, function, calls, cost)| Context { parent, function, calls, cost })
                .collect(),
        }
    }

    /// Each line is "symbol own×calls: caller own×calls, …".
    fn check(profile: &Profile, expected: &[&str]) {
        let mut functions = Vec::new();
        let costs = costs(profile, &mut functions, &mut HashMap::new());
        let name = |id: FunctionId| functions[id as usize].symbol.as_str();
        let line = |(id, cost): (&FunctionId, &Cost)| {
            let callers = cost.callers.iter();
            let callers: Vec<String> = callers
                .map(|(by, edge)| format!("{} {}×{}", by.map_or("-", name), edge.own, edge.calls))
                .collect();
            format!("{} {}×{}: {}", name(*id), cost.own, cost.calls, callers.join(", "))
        };
        assert_eq!(costs.iter().map(line).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn samples_never_explain_more_than_there_is() {
        let tree = profile(&["main"], &[(None, 0, 0, 10), (Some(0), 0, 0, 20), (None, 0, 0, 3)]);
        assert!(matches!(capped(&tree, 33), Cow::Borrowed(_)));
        let costs: Vec<u64> =
            capped(&tree, 22).contexts.iter().map(|context| context.cost).collect();
        assert_eq!(costs, [6, 13, 2]);
        assert_eq!(capped(&tree, 0).total(), 0);
    }

    #[test]
    fn cost_is_split_by_immediate_caller() {
        let tree = profile(
            &["main", "read", "copy"],
            &[(None, 0, 1, 10), (Some(0), 1, 5, 20), (Some(1), 2, 5, 7), (Some(0), 2, 2, 3)],
        );
        check(
            &tree,
            &["main 10×1: - 10×1", "read 20×5: main 20×5", "copy 10×7: main 3×2, read 7×5"],
        );
    }

    #[test]
    fn split_parts_belong_to_their_function_and_recursion_is_a_call() {
        let tree = profile(
            &["main", "read", "read.part.0", "read.part.0.cold"],
            &[
                (None, 0, 1, 10),
                (Some(0), 1, 5, 20),
                (Some(1), 2, 4, 30),
                (Some(2), 3, 1, 2),
                (Some(2), 2, 1, 9),
            ],
        );
        check(&tree, &["main 10×1: - 10×1", "read 61×6: main 52×5, read 9×1"]);
    }
}
