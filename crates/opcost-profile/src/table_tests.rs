//! Tests of tables of functions.

use super::*;
use crate::symbolise::FunctionFacts;
use opcost_record::Context;
use proptest::prelude::*;

/// Makes a sampled profile of these contexts: parent, function, own cost.
fn sampled(contexts: &[(Option<u32>, u32, u64)]) -> Sampled {
    let functions = contexts.iter().map(|(_, function, _)| function + 1).max().unwrap_or(0);
    let function = |number| Function::new(format!("f{number}"), "m");
    let context = |(parent, function, cost): &(Option<u32>, u32, u64)| Context {
        parent: *parent,
        function: *function,
        calls: 0,
        cost: *cost,
    };
    Sampled {
        profile: Profile {
            functions: (0..functions).map(function).collect(),
            contexts: contexts.iter().map(context).collect(),
            ..Profile::default()
        },
        samples: contexts.iter().map(|(_, _, cost)| cost / 10).collect(),
        facts: vec![FunctionFacts::default(); functions as usize],
        ..Sampled::default()
    }
}

fn costs(table: &FunctionTable) -> Vec<(&str, u64, Option<u64>, Option<u64>)> {
    let row = |cost: &'_ FunctionCost| (cost.own, cost.inclusive, cost.samples);
    let rows = table.functions.iter().map(|cost| (cost.function.symbol.as_str(), row(cost)));
    rows.map(|(name, (own, inclusive, samples))| (name, own, inclusive, samples)).collect()
}

#[test]
fn recursion_counts_once() {
    // f0 → f1 → f2 → f1 → f1
    let made = sampled(&[
        (None, 0, 10),
        (Some(0), 1, 20),
        (Some(1), 2, 30),
        (Some(2), 1, 40),
        (Some(3), 1, 50),
    ]);
    let table = FunctionTable::of(&made);
    let expected = [
        ("f1", 110, Some(140), Some(11)),
        ("f2", 30, Some(120), Some(3)),
        ("f0", 10, Some(150), Some(1)),
    ];
    assert_eq!(costs(&table), expected);
    assert_eq!(table.total, 150);
    let callers: Vec<_> = table.callers(0).map(|edge| (edge.caller, edge.cost)).collect();
    assert_eq!(callers, [(Some(2), 140)]);
    let tree = caller_tree(&made, 1);
    let name = |tree: &CallerTree| (tree.function, tree.cost, tree.samples);
    assert_eq!(name(&tree), (1, 110, 11));
    assert_eq!(
        tree.callers.iter().map(name).collect::<Vec<_>>(),
        [(1, 50, 5), (2, 40, 4), (0, 20, 2)]
    );
}

proptest! {
    #[test]
    fn the_parts_add_up(
        drawn in prop::collection::vec((any::<prop::sample::Index>(), 0..5u32, 0..100u64), 1..40)
    ) {
        let contexts: Vec<_> = drawn.iter().enumerate().map(|(at, (parent, function, cost))| {
            (at.checked_sub(1).map(|_| parent.index(at) as u32), *function, *cost)
        }).collect();
        let made = sampled(&contexts);
        let table = FunctionTable::of(&made);
        prop_assert_eq!(table.functions.iter().map(|cost| cost.own).sum::<u64>(), table.total);
        for (at, cost) in table.functions.iter().enumerate() {
            let callers: u64 = table.callers(at).map(|edge| edge.cost).sum();
            prop_assert_eq!(Some(callers), cost.inclusive);
            prop_assert!(cost.inclusive >= Some(cost.own) && cost.inclusive <= Some(table.total));
        }
        for function in 0..made.profile.functions.len() as u32 {
            let tree = caller_tree(&made, function);
            let name = &made.profile.functions[function as usize];
            let row = table.functions.iter().find(|cost| cost.function == *name).unwrap();
            prop_assert_eq!(tree.cost, row.own);
            prop_assert!(tree.callers.iter().map(|caller| caller.cost).sum::<u64>() <= tree.cost);
        }
    }
}
