//! What a run costs besides the operations that it printed: the program's start and end.
//!
//! **Code that both runs called as often, for different numbers of operations, is no part of an operation.** If operations are
//! dearer, a run of a fixed time does fewer, so its start weighs more in each of them: that moves the change of a figure by
//! about the start's share times the change of the number. A loop over the operations is called once, too, but executes an
//! instruction or more for each. A context that one side alone has, or that control jumped into, is its caller's. Contexts below
//! interrupts and threads of the kernel follow the time, not the number, and are left out.

use opcost_record::profile::KERNEL;
use opcost_record::{Domain, Profile};
use std::collections::HashMap;

/// If the numbers of operations differ by less, nothing tells code besides the operations from theirs, and it moves nothing.
const OPERATIONS_CHANGE_MIN: f64 = 0.01;

/// A run of one side.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) profile: &'a Profile,
    pub(super) operations: u64,
    /// The metric's count in the whole run.
    pub(super) count: f64,
}

/// The weight of what two sides' runs cost besides their operations.
#[derive(Debug, PartialEq)]
pub(super) struct Besides {
    /// The larger of both sides' shares.
    pub(super) share: f64,
    /// The change of the figure, and that of the operations alone.
    pub(super) changes: [f64; 2],
}

impl Besides {
    /// How far the change is from that of the operations alone.
    pub(super) fn shift(&self) -> f64 {
        (self.changes[0] - self.changes[1]).abs()
    }
}

/// A chain of callers that both sides may have.
struct Chain {
    /// The number of the chain above; `None` at the top.
    above: Option<usize>,
    in_kernel: bool,
    /// Calls and own instructions of each side.
    calls: [u64; 2],
    costs: [u64; 2],
}

/// The chains of both sides, callers first, without those that begin in the kernel.
fn chains(profiles: [&Profile; 2]) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    let mut known = HashMap::new();
    for (side, profile) in profiles.into_iter().enumerate() {
        let mut numbers: Vec<Option<usize>> = Vec::new();
        for context in &profile.contexts {
            let function = &profile.functions[context.function as usize];
            let in_kernel = function.module == KERNEL;
            let above = context.parent.map(|parent| numbers[parent as usize]);
            let number = match above {
                Some(None) => None,
                None if in_kernel => None,
                above => {
                    let above = above.flatten();
                    let key = (above, function.symbol.as_str(), function.module.as_str());
                    Some(*known.entry(key).or_insert_with(|| {
                        chains.push(Chain { above, in_kernel, calls: [0; 2], costs: [0; 2] });
                        chains.len() - 1
                    }))
                }
            };
            numbers.push(number);
            if let Some(number) = number {
                chains[number].calls[side] += context.calls;
                chains[number].costs[side] += context.cost;
            }
        }
    }
    chains
}

/// Weighs what the runs cost besides their operations; `None` if their numbers of operations are nearly the same.
///
/// `domain`: that of the metric, which counts instructions.
pub(super) fn weigh(sides: [Side<'_>; 2], domain: Domain) -> Option<Besides> {
    let operations = sides.map(|side| side.operations);
    let [one, other] = operations.map(|number| number as f64);
    let change = (other / one - 1.0).abs();
    if !(OPERATIONS_CHANGE_MIN..).contains(&change) {
        return None;
    }
    let chains = chains(sides.map(|side| side.profile));
    let mut is_besides: Vec<bool> = Vec::with_capacity(chains.len());
    let mut costs = [0.0; 2];
    for Chain { above, in_kernel, calls, costs: own } in &chains {
        let may_loop = own.iter().zip(operations).any(|(cost, number)| *cost >= number);
        let besides = !may_loop
            && match calls.map(|calls| calls as f64) {
                [0.0, _] | [_, 0.0] => above.is_some_and(|above| is_besides[above]),
                [before, after] => (after / before - 1.0).abs() < change / 2.0,
            };
        is_besides.push(besides);
        let counts = match domain {
            Domain::All => true,
            Domain::Kernel => *in_kernel,
            Domain::User => !in_kernel,
        };
        if besides && counts {
            costs.iter_mut().zip(own).for_each(|(sum, cost)| *sum += *cost as f64);
        }
    }
    let counts = sides.map(|side| side.count);
    let change_of = |[before, after]: [f64; 2]| (after / other) / (before / one) - 1.0;
    let alone = [counts[0] - costs[0], counts[1] - costs[1]];
    let share = (costs[0] / counts[0]).max(costs[1] / counts[1]);
    let changes = [change_of(counts), change_of(alone)];
    (share.is_finite() && changes.iter().all(|change| change.is_finite()))
        .then_some(Besides { share, changes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::{Context, Function};

    /// A program of `operations` system calls, each of `each` instructions in the kernel, with a start that executes `start` there,
    /// a part of it in a function that only this run has.
    fn run(operations: u64, each: u64, start: u64, only: &str) -> Profile {
        let names = [
            ("_start", "x"),
            ("execve", KERNEL),
            ("main", "x"),
            ("getppid", KERNEL),
            ("asm_sysvec_apic_timer_interrupt", KERNEL),
            (only, KERNEL),
        ];
        let context = |parent, function, calls, cost| Context { parent, function, calls, cost };
        Profile {
            functions: names.map(|(name, file)| Function::new(name, file)).to_vec(),
            contexts: vec![
                context(None, 0, 1, 5_000),
                context(Some(0), 1, 1, start / 2),
                context(Some(1), 5, 70, start / 2),
                context(Some(0), 2, 1, operations * 10),
                context(Some(3), 3, operations, operations * each),
                // Called once for each operation, by one side alone.
                context(Some(4), 5, operations, 0),
                context(None, 4, 5, 9_000),
            ],
            ..Profile::default()
        }
    }

    #[test]
    fn a_start_is_told_from_operations_and_its_weight_is_exact() {
        let one = run(10_000, 100, 10_000, "retpoline");
        let other = run(8_000, 114, 12_000, "srso_return_thunk");
        let side =
            |profile, operations, count: u64| Side { profile, operations, count: count as f64 };
        let counts = [1_000_000 + 10_000, 8_000 * 114 + 12_000];
        let sides = [side(&one, 10_000, counts[0]), side(&other, 8_000, counts[1])];
        let found = weigh(sides, Domain::Kernel).unwrap();
        let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
        close(found.changes[1], 0.14);
        close(found.changes[0], (114.0 + 1.5) / 101.0 - 1.0);
        close(found.share, 12_000.0 / counts[1] as f64);
        close(found.shift(), (found.changes[0] - found.changes[1]).abs());
        let user = weigh([side(&one, 10_000, 105_000), side(&other, 8_000, 85_000)], Domain::User);
        close(user.unwrap().changes[1], 0.0);
        let all = [side(&one, 10_000, 1_124_000), side(&other, 8_000, 1_018_000)];
        close(weigh(all, Domain::All).unwrap().share, 17_000.0 / 1_018_000.0);
        let same = [side(&one, 10_000, counts[0]), side(&other, 9_950, counts[0])];
        assert_eq!(weigh(same, Domain::Kernel), None);
    }
}
