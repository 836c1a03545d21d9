//! Functions whose own instructions differ alike in every layout, beside totals that layouts move further.

use crate::made::emulated::{Tree, plan, recording};
use opcost_analysis::comparison::function_changes::{ExactPart, exact_division};
use opcost_analysis::comparison::{
    Comparison, FunctionComparison, FunctionRow, FunctionVerdict, Verdict, compare,
};
use opcost_model::plan::Slot;
use opcost_model::recording::Recording;
use opcost_record::Profile;
use proptest::prelude::*;

/// The operations of a run in made recordings.
const OPS: u64 = 1000;

/// The cost of the allocator in a layout: a second mode in one layout of four, in the second variant in one of three.
fn bimodal(slot: &Slot) -> u64 {
    let block = u64::from(slot.block.unwrap_or(0));
    let rare = match slot.variant {
        0 => block.is_multiple_of(4),
        _ => block % 3 == 1,
    };
    90_000 + 7 * block + if rare { 195_000 } else { 0 }
}

/// A recording of a system call in which `do_mmap` costs `more` a call in the second variant, beside an allocator that layouts move.
fn made(pairs: u32, more: i64) -> Recording {
    recording(plan(&["off", "on"], pairs), 0, |slot| {
        let own = if slot.variant == 1 { 500 + more } else { 500 };
        (profile(OPS, own.unsigned_abs(), bimodal(slot)), vec![])
    })
}

fn profile(calls: u64, own_per_call: u64, allocator: u64) -> Profile {
    let mut tree = Tree::default();
    let parent = tree.kernel(None, "do_syscall_64", calls, 20_000);
    tree.kernel(parent, "do_mmap", calls, calls * own_per_call);
    tree.kernel(parent, "free_pcppages_bulk", 3, allocator);
    tree.grown()
}

fn only(comparison: &Comparison) -> &FunctionComparison {
    let [functions] = comparison.functions.as_slice() else { panic!("not one comparison") };
    functions
}

fn row<'a>(functions: &'a FunctionComparison, symbol: &str) -> &'a FunctionRow {
    functions.rows.iter().find(|row| row.symbol == symbol).expect(symbol)
}

fn near(one: f64, two: f64) -> bool {
    (one - two).abs() < 1e-9 * (1.0 + one.abs() + two.abs())
}

#[test]
fn layouts_hide_the_total_and_not_the_function() {
    for (more, shown) in [(7, "+7"), (-7, "−7")] {
        let (comparison, _) = compare(&made(12, more));
        assert_ne!(comparison.rows[0].changes[0].verdict, Verdict::Changed);
        let functions = only(&comparison);
        let mmap = row(functions, "do_mmap");
        assert_eq!(
            (mmap.verdict, mmap.reason.as_str(), mmap.ci),
            (FunctionVerdict::Changed, "exact: alike in each of 12 layouts", None)
        );
        let exact = mmap.exact_difference.unwrap();
        assert_eq!((exact.layouts, exact.per_call), (12, Some(more as f64)));
        assert!(near(mmap.own.change, more as f64));
        let allocator = row(functions, "free_pcppages_bulk");
        assert_eq!(allocator.exact_difference, None);
        assert_ne!(allocator.verdict, FunctionVerdict::Changed);
        let part = functions.exact_part().unwrap();
        assert_eq!((part.functions, part.layouts), (1, 12));
        assert!(near(part.change, more as f64), "{part:?}");
        assert!(near(part.change + part.rest, functions.total.change), "{part:?}");
        let said = format!(
            "do_mmap {shown} a call in each of 12 layouts, nothing else deterministic changed"
        );
        assert!(comparison.conclusions[0].ends_with(&said), "{:?}", comparison.conclusions);
        let division = exact_division(functions).unwrap();
        for part in [
            &format!("Deterministic: {shown} of the "),
            "alike in each of 12 layouts",
            "differs from layout to layout, most in free_pcppages_bulk.",
        ] {
            assert!(division.contains(part), "{division}");
        }
        assert!(functions.shifted());
    }
}

#[test]
fn a_total_that_answers_by_itself_needs_no_clause() {
    let made = recording(plan(&["off", "on"], 12), 0, |slot| {
        (profile(OPS, 500 + 7 * u64::from(slot.variant), 90_000), vec![])
    });
    let (comparison, _) = compare(&made);
    assert_eq!(comparison.rows[0].changes[0].verdict, Verdict::Changed);
    assert!(!comparison.conclusions[0].contains("a call"), "{:?}", comparison.conclusions);
    assert_eq!(
        exact_division(only(&comparison)).unwrap(),
        "Deterministic: all of the +7 instructions/op, alike in each of 12 layouts (do_mmap +7 a call)."
    );
}

#[test]
fn a_function_that_one_layout_moves_is_not_exact() {
    let made = recording(plan(&["off", "on"], 12), 0, |slot| {
        let odd = u64::from(slot.block == Some(5) && slot.variant == 1);
        (profile(OPS, 500 + 7 * u64::from(slot.variant) + odd, bimodal(slot)), vec![])
    });
    let (comparison, _) = compare(&made);
    let functions = only(&comparison);
    assert_eq!(row(functions, "do_mmap").exact_difference, None);
    let part = functions.exact_part().unwrap();
    assert_eq!((part.functions, part.change), (0, 0.0));
    assert_eq!(part.rest, functions.total.change);
    assert!(!comparison.conclusions[0].contains("layouts, nothing else"));
    let division = exact_division(functions).unwrap();
    assert!(
        division.starts_with("Deterministic: no function changed alike in each of 12 layouts; "),
        "{division}"
    );
}

#[test]
fn each_call_may_differ_alike_though_layouts_move_the_calls() {
    let made = recording(plan(&["off", "on"], 12), 0, |slot| {
        let calls = OPS + 10 * u64::from(slot.block.unwrap_or(0));
        (profile(calls, 500 + 7 * u64::from(slot.variant), bimodal(slot)), vec![])
    });
    let (comparison, _) = compare(&made);
    let exact = row(only(&comparison), "do_mmap").exact_difference.unwrap();
    assert_eq!((exact.layouts, exact.per_call), (12, Some(7.0)));
    assert!(comparison.conclusions[0].contains("do_mmap +7 a call in each of 12 layouts"));
}

#[test]
fn new_functions_gone_ones_and_other_numbers_of_calls_have_words() {
    let made = recording(plan(&["off", "on"], 12), 0, |slot| {
        let mut tree = Tree::default();
        let parent = tree.kernel(None, "do_syscall_64", OPS, 20_000);
        match slot.variant {
            0 => tree.kernel(parent, "old_check", OPS, 5 * OPS),
            _ => tree.kernel(parent, "new_check", 2 * OPS, 12 * OPS),
        };
        let more = u64::from(slot.variant);
        tree.kernel(parent, "kmalloc", (1 + more) * OPS, (40 + 38 * more) * OPS);
        tree.kernel(parent, "free_pcppages_bulk", 3, bimodal(slot));
        (tree.grown(), vec![])
    });
    let (comparison, _) = compare(&made);
    let functions = only(&comparison);
    assert_eq!(row(functions, "kmalloc").exact_difference.unwrap().per_call, None);
    let division = exact_division(functions).unwrap();
    assert!(
        division.contains(
            "(kmalloc +38/op (calls +1/op: +40, cheaper: −2), new_check (new, 6 a call) and old_check (gone, \
             5 a call before))"
        ),
        "{division}"
    );
    assert!(near(functions.exact_part().unwrap().change, 38.0 + 12.0 - 5.0));
}

#[test]
fn two_layouts_show_it_and_one_does_not() {
    let (comparison, _) = compare(&made(2, 7));
    let exact = row(only(&comparison), "do_mmap").exact_difference.unwrap();
    assert_eq!((exact.layouts, exact.per_call), (2, Some(7.0)));
    let mut one = made(2, 7);
    one.records.retain(|run| run.block != Some(1));
    let (comparison, _) = compare(&one);
    let functions = only(&comparison);
    assert_eq!(row(functions, "do_mmap").exact_difference, None);
    assert_eq!(functions.exact_part(), None);
    assert_eq!(exact_division(functions), None);
}

#[test]
fn equal_sides_and_refused_runs_have_no_exact_change() {
    let (comparison, _) = compare(&made(12, 0));
    let functions = only(&comparison);
    assert_eq!(functions.exact_part().unwrap().functions, 0);
    assert!(!comparison.conclusions[0].contains("deterministic"));
    let mut refused = made(12, 7);
    refused.records[5].invariants =
        vec![opcost_record::Invariant { name: "op-stream-hash".into(), value: "other".into() }];
    let (comparison, _) = compare(&refused);
    assert_eq!(only(&comparison).exact_part(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever varies, the exact part and the rest are the total's change, and every exact function differs alike in each layout.
    #[test]
    fn the_exact_part_and_the_rest_add_up(
        costs in prop::collection::vec(prop::array::uniform2(0u64..40), 1..8),
        varies in prop::collection::vec(any::<bool>(), 8),
        pairs in 2u32..7,
        unattributed in 0u64..5,
    ) {
        let own = |function: usize, slot: &Slot| {
            let noise = u64::from(slot.block.unwrap_or(0) * 3 % 5) * u64::from(slot.variant + 1);
            costs[function][usize::from(slot.variant)] + if varies[function] { noise } else { 0 }
        };
        let made = recording(plan(&["off", "on"], pairs), unattributed, |slot| {
            let mut tree = Tree::default();
            for function in 0..costs.len() {
                tree.kernel(None, &format!("f{function}"), 1, own(function, slot));
            }
            tree.kernel(None, "always", 1, 1_000_000);
            (tree.grown(), vec![])
        });
        let (comparison, _) = compare(&made);
        let functions = only(&comparison);
        let ExactPart { change, rest, functions: count, layouts } = functions.exact_part().unwrap();
        prop_assert_eq!(layouts, pairs as usize);
        prop_assert_eq!(count, functions.exact_rows().count());
        prop_assert!(near(change + rest, functions.total.change), "{} {} {:?}", change, rest, functions.total);
        for (function, costs) in costs.iter().enumerate().filter(|(at, _)| !varies[*at]) {
            if costs[0] != costs[1] {
                let row = row(functions, &format!("f{function}"));
                prop_assert_eq!(row.verdict, FunctionVerdict::Changed);
                let change = costs[1] as f64 - costs[0] as f64;
                prop_assert!(near(row.own.change * OPS as f64, change));
            }
        }
    }
}
