//! The cost of each run by function and by immediate caller, from its profile.

use super::symbol::folded;
use crate::store::Recording;
use opcost_record::{Domain, Function, MetricKey, Profile, Record, metric::EMULATOR};
use std::collections::{BTreeMap, HashMap};

/// What a recording's profiles are profiles of: user mode alone where nothing else is counted.
pub(super) fn profiled_metric(recording: &Recording) -> MetricKey {
    let key = |domain| MetricKey::new("instructions", domain, EMULATOR);
    let whole = key(Domain::All);
    match recording.dictionary.id(&whole) {
        Some(_) => whole,
        None => key(Domain::User),
    }
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
    /// `own` by immediate caller; `None` where none is known.
    pub(super) callers: BTreeMap<Option<FunctionId>, u64>,
}

/// One finished run of a block that has a profile.
#[derive(Clone, Debug)]
pub(super) struct AttributedRun {
    pub(super) variant: usize,
    pub(super) block: u32,
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
    /// Takes the finished runs of blocks that have both a profile and the metric's count.
    pub(super) fn of(recording: &Recording, finished: &[Vec<&Record>]) -> Attribution {
        let mut attribution = Attribution::default();
        let Some(metric) = recording.dictionary.id(&profiled_metric(recording)) else {
            return attribution;
        };
        if recording.profiles.is_empty() {
            return attribution;
        }
        let by_slot: HashMap<u32, &Record> =
            finished.iter().flatten().map(|record| (record.slot, *record)).collect();
        let mut numbers = HashMap::new();
        for (slot, profile) in &recording.profiles {
            let record = by_slot.get(slot).and_then(|record| Some((record, record.block?)));
            let Some((record, block)) = record else { continue };
            let Some(sample) = record.sample(metric) else { continue };
            attribution.runs.push(AttributedRun {
                variant: record.variant.into(),
                block,
                ops: record.ops.unwrap_or(1).max(1),
                total: sample.value,
                attributed: profile.total(),
                costs: costs(profile, &mut attribution.functions, &mut numbers),
            });
        }
        attribution
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
        cost.own += context.cost;
        cost.calls += if inner { 0 } else { context.calls };
        *cost.callers.entry(caller).or_default() += context.cost;
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

    /// Each line is "symbol own×calls: caller own, …".
    fn check(profile: &Profile, expected: &[&str]) {
        let mut functions = Vec::new();
        let costs = costs(profile, &mut functions, &mut HashMap::new());
        let name = |id: FunctionId| functions[id as usize].symbol.as_str();
        let line = |(id, cost): (&FunctionId, &Cost)| {
            let callers = cost.callers.iter();
            let callers: Vec<String> =
                callers.map(|(by, own)| format!("{} {own}", by.map_or("-", name))).collect();
            format!("{} {}×{}: {}", name(*id), cost.own, cost.calls, callers.join(", "))
        };
        assert_eq!(costs.iter().map(line).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn cost_is_split_by_immediate_caller() {
        let tree = profile(
            &["main", "read", "copy"],
            &[(None, 0, 1, 10), (Some(0), 1, 5, 20), (Some(1), 2, 5, 7), (Some(0), 2, 2, 3)],
        );
        check(&tree, &["main 10×1: - 10", "read 20×5: main 20", "copy 10×7: main 3, read 7"]);
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
        check(&tree, &["main 10×1: - 10", "read 61×6: main 52, read 9"]);
    }
}
