//! One function between its callers and its callees, on two sides.
//!
//! A caller is charged with the function's own cost during its calls. A callee is charged with its inclusive cost below calls of
//! the function. The callees and the function's own cost there add up to the function's inclusive cost. A function that calls
//! itself is its own callee; the cost below the inner call belongs to the inner call.

use super::call_tree::CallTree;
use super::functions::{NO_CALLER, Sides};
use opcost_record::Function;
use std::collections::BTreeMap;

/// A function with its callers and callees.
#[derive(Clone, Debug)]
pub struct FunctionContext {
    /// The function.
    pub function: Function,
    /// Cost of its own instructions.
    pub own: Sides,
    /// Calls.
    pub calls: Sides,
    /// The inclusive cost.
    pub inclusive: Sides,
    /// The function's own cost below its outermost calls: `inclusive` less all callees.
    pub own_outermost: Sides,
    /// The callers, each with the function's own cost during its calls; the largest changes first.
    pub callers: Vec<ContextRow>,
    /// The callees with their inclusive costs; the largest changes first.
    pub callees: Vec<ContextRow>,
}

/// A caller or a callee.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextRow {
    /// Its symbol, or [`NO_CALLER`].
    pub symbol: String,
    /// Its module; empty for [`NO_CALLER`].
    pub module: String,
    /// Calls from this caller or of this callee.
    pub calls: Sides,
    /// The cost.
    pub cost: Sides,
}

/// Calls and cost of each side.
type Sum = [[u64; 2]; 2];

/// The function with this number in a tree of two sides.
pub fn function_context(tree: &CallTree, function: usize) -> FunctionContext {
    let naming = tree.naming();
    let mut inside = vec![false; tree.nodes.len()];
    let [mut own, mut inclusive, mut own_outermost] = [Sum::default(); 3];
    let mut callers: BTreeMap<Option<usize>, Sum> = BTreeMap::new();
    let mut callees: BTreeMap<usize, Sum> = BTreeMap::new();
    for (at, node) in tree.nodes.iter().enumerate() {
        let pair = |counts: &[u64]| [counts[0], counts[1]];
        let (calls, cost) = (pair(&node.calls), pair(&node.own));
        let parent = node.parent.map(|parent| &tree.nodes[parent]);
        let below = node.parent.is_some_and(|parent| inside[parent]);
        if node.function == function {
            add(&mut own, calls, cost);
            let caller = callers.entry(parent.map(|parent| parent.function)).or_default();
            add(caller, calls, cost);
            if !below {
                add(&mut inclusive, calls, pair(&node.inclusive));
                add(&mut own_outermost, calls, cost);
            }
        }
        let outermost = |parent: usize| {
            let above = tree.nodes[parent].parent;
            tree.nodes[parent].function == function && above.is_none_or(|above| !inside[above])
        };
        if node.parent.is_some_and(outermost) {
            add(callees.entry(node.function).or_default(), calls, pair(&node.inclusive));
        }
        inside[at] = below || node.function == function;
    }
    let sides = |counts: [u64; 2]| {
        let [one, two] = [0, 1].map(|side| tree.per_op(side, counts[side]));
        Sides::of([one, two])
    };
    let row = |known: Option<usize>, [calls, cost]: Sum| {
        let function = known.map(|known| &tree.functions[known]);
        ContextRow {
            symbol: function.map_or(NO_CALLER.into(), |one| naming.symbol(one).into_owned()),
            module: function.map_or("", |function| &function.module).to_string(),
            calls: sides(calls),
            cost: sides(cost),
        }
    };
    FunctionContext {
        function: Function::new(
            naming.symbol(&tree.functions[function]),
            &tree.functions[function].module,
        ),
        own: sides(own[1]),
        calls: sides(own[0]),
        inclusive: sides(inclusive[1]),
        own_outermost: sides(own_outermost[1]),
        callers: sorted(callers.into_iter().map(|(caller, sum)| row(caller, sum))),
        callees: sorted(callees.into_iter().map(|(callee, sum)| row(Some(callee), sum))),
    }
}

fn add(sum: &mut Sum, calls: [u64; 2], cost: [u64; 2]) {
    for side in 0..2 {
        sum[0][side] += calls[side];
        sum[1][side] += cost[side];
    }
}

fn sorted(rows: impl Iterator<Item = ContextRow>) -> Vec<ContextRow> {
    let mut rows: Vec<ContextRow> = rows.collect();
    rows.sort_by(|one, two| {
        let key = |row: &ContextRow| (row.cost.change.abs(), row.cost.value.abs());
        let (one_key, two_key) = (key(one), key(two));
        let by_size = two_key.0.total_cmp(&one_key.0).then(two_key.1.total_cmp(&one_key.1));
        by_size.then_with(|| (&one.symbol, &one.module).cmp(&(&two.symbol, &two.module)))
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::call_tree::fixture::tree;
    use crate::comparison::call_tree::tests::any_tree;
    use proptest::prelude::*;

    fn check(rows: &[ContextRow], expected: &[(&str, [f64; 2], [f64; 2])]) {
        let seen: Vec<(&str, [f64; 2], [f64; 2])> = rows
            .iter()
            .map(|row| {
                let pair = |sides: &Sides| [sides.value_baseline, sides.value];
                (row.symbol.as_str(), pair(&row.calls), pair(&row.cost))
            })
            .collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn callers_and_callees_of_a_function_are_told_apart() {
        // Each side has 1,000 operations.
        let tree = tree(
            &["off", "on"],
            &[
                (None, "main", &[(1000, 0), (1000, 0)]),
                (Some(0), "read", &[(2000, 8000), (2000, 8000)]),
                (Some(1), "copy", &[(1000, 3000), (3000, 9000)]),
                (Some(2), "fault", &[(0, 0), (1000, 500)]),
                (Some(0), "copy", &[(1000, 4000), (1000, 4000)]),
                (Some(4), "copy", &[(1000, 1000), (1000, 2000)]),
                (Some(5), "fault", &[(1000, 250), (1000, 250)]),
            ],
        );
        let is_copy = |function: &Function| function.symbol == "copy";
        let copy = tree.functions.iter().position(is_copy).unwrap();
        let context = function_context(&tree, copy);
        let pair = |sides: Sides| [sides.value_baseline, sides.value];
        assert_eq!(pair(context.own), [8.0, 15.0]);
        assert_eq!(pair(context.calls), [3.0, 5.0]);
        assert_eq!(pair(context.inclusive), [8.25, 15.75]);
        assert_eq!(pair(context.own_outermost), [7.0, 13.0]);
        check(
            &context.callers,
            &[
                ("read", [1.0, 3.0], [3.0, 9.0]),
                ("copy", [1.0, 1.0], [1.0, 2.0]),
                ("main", [1.0, 1.0], [4.0, 4.0]),
            ],
        );
        // The cost below the inner call belongs to the inner call.
        check(
            &context.callees,
            &[("copy", [1.0, 1.0], [1.25, 2.25]), ("fault", [0.0, 1.0], [0.0, 0.5])],
        );
    }

    proptest! {
        #[test]
        fn callees_and_own_cost_are_the_whole_and_callers_the_own_cost(tree in any_tree()) {
            for function in 0..tree.functions.len() {
                let context = function_context(&tree, function);
                let callees: f64 = context.callees.iter().map(|row| row.cost.change).sum();
                let parts = callees + context.own_outermost.change;
                prop_assert!((parts - context.inclusive.change).abs() < 1e-6);
                let callers: f64 = context.callers.iter().map(|row| row.cost.change).sum();
                prop_assert!((callers - context.own.change).abs() < 1e-6);
                let calls: f64 = context.callers.iter().map(|row| row.calls.value).sum();
                prop_assert!((calls - context.calls.value).abs() < 1e-6);
            }
        }
    }
}
