//! What a run costs besides the operations that it printed: the program's start and end.
//!
//! **Code that both runs called as often, for different numbers of operations, is no part of an operation.** If operations are
//! dearer, a run of a fixed time does fewer, so its start weighs more in each of them: that moves the change of a figure by
//! the start's share times the change of the number. Contexts below interrupts and threads of the kernel follow the time, not the
//! number, and are left out.

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

/// Calls and own instructions of each context, by its number in `known`.
fn contexts<'p>(
    profile: &'p Profile,
    domain: Domain,
    known: &mut HashMap<(u32, &'p str, &'p str), u32>,
) -> HashMap<u32, (u64, u64)> {
    let (mut numbers, mut amounts) = (Vec::new(), HashMap::new());
    for context in &profile.contexts {
        let function = &profile.functions[context.function as usize];
        let in_kernel = function.module == KERNEL;
        let above = match context.parent {
            Some(parent) => numbers[parent as usize],
            None if in_kernel => None,
            None => Some(0),
        };
        let number = above.map(|above| {
            let next = known.len() as u32 + 1;
            *known.entry((above, &function.symbol, &function.module)).or_insert(next)
        });
        numbers.push(number);
        let counts = match domain {
            Domain::All => true,
            Domain::Kernel => in_kernel,
            Domain::User => !in_kernel,
        };
        if let Some(number) = number.filter(|_| counts) {
            let (calls, cost) = amounts.entry(number).or_insert((0, 0));
            (*calls, *cost) = (*calls + context.calls, *cost + context.cost);
        }
    }
    amounts
}

/// Weighs what the runs cost besides their operations; `None` if their numbers of operations are nearly the same.
///
/// `domain`: that of the metric, which counts instructions.
pub(super) fn weigh(sides: [Side<'_>; 2], domain: Domain) -> Option<Besides> {
    let [one, other] = sides.map(|side| side.operations as f64);
    let change = (other / one - 1.0).abs();
    if !(OPERATIONS_CHANGE_MIN..).contains(&change) {
        return None;
    }
    let mut known = HashMap::new();
    let [of_one, of_other] = sides.map(|side| contexts(side.profile, domain, &mut known));
    let mut costs = [0.0; 2];
    for (number, (calls, cost)) in &of_one {
        let Some((other_calls, other_cost)) = of_other.get(number) else { continue };
        let moved = (*other_cost as f64 - *cost as f64).abs();
        // A context that control only jumped into has no calls. Loops run in functions that are called once.
        let alike = if *calls > 0 { moved < *cost as f64 * change / 2.0 } else { moved == 0.0 };
        if calls == other_calls && alike {
            costs[0] += *cost as f64;
            costs[1] += *other_cost as f64;
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

    /// A program of `operations` system calls, each of `each` instructions in the kernel, with a start of 20,000 there.
    fn run(operations: u64, each: u64) -> Profile {
        let names = [
            ("_start", "x"),
            ("execve", KERNEL),
            ("main", "x"),
            ("getppid", KERNEL),
            ("asm_sysvec_apic_timer_interrupt", KERNEL),
        ];
        let context = |parent, function, calls, cost| Context { parent, function, calls, cost };
        Profile {
            functions: names.map(|(name, file)| Function::new(name, file)).to_vec(),
            contexts: vec![
                context(None, 0, 1, 5_000),
                context(Some(0), 1, 1, 20_000),
                context(Some(0), 2, 1, operations * 10),
                context(Some(2), 3, operations, operations * each),
                context(None, 4, 5, 9_000),
            ],
            ..Profile::default()
        }
    }

    #[test]
    fn a_start_is_told_from_operations_and_its_weight_is_exact() {
        let (one, other) = (run(10_000, 100), run(8_000, 114));
        let side =
            |profile, operations, count: u64| Side { profile, operations, count: count as f64 };
        let sides = [side(&one, 10_000, 1_020_000), side(&other, 8_000, 8_000 * 114 + 20_000)];
        let found = weigh(sides, Domain::Kernel).unwrap();
        let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
        close(found.changes[1], 0.14);
        close(found.changes[0], (114.0 + 2.5) / 102.0 - 1.0);
        close(found.share, 20_000.0 / 932_000.0);
        close(found.shift(), found.changes[0] - found.changes[1]);
        let user = weigh([side(&one, 10_000, 105_000), side(&other, 8_000, 85_000)], Domain::User);
        close(user.unwrap().changes[1], 0.0);
        let all = [side(&one, 10_000, 1_134_000), side(&other, 8_000, 1_026_000)];
        close(weigh(all, Domain::All).unwrap().share, 25_000.0 / 1_026_000.0);
        let same = [side(&one, 10_000, 1_020_000), side(&other, 9_950, 1_020_000)];
        assert_eq!(weigh(same, Domain::Kernel), None);
    }
}
