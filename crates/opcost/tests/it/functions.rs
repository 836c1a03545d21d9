//! Where a change comes from: functions, callers, the rest; and the rules for emulated runs.

use crate::made;
use crate::made::emulated::{Tree, count, kernel, plan, recording};
use opcost_analysis::comparison::{
    Comparison, FunctionComparison, FunctionRow, FunctionVerdict, NO_CALLER, Severity, Sides,
    Verdict, compare,
};
use opcost_model::plan::Slot;
use opcost_model::recording::Recording;
use opcost_record::{Failure, Invariant, Outcome, Profile};
use proptest::prelude::*;

/// A profile of `main` that calls `work`, with these costs in each run.
fn profile(main: u64, work: u64) -> Profile {
    let mut tree = Tree::default();
    let parent = tree.add(None, "main", "/bin/work", 1, main);
    tree.kernel(parent, "work", 1000, work);
    tree.grown()
}

/// The block of a run; a warm-up run repeats the run of the first block.
fn block(slot: &Slot) -> u64 {
    slot.block.unwrap_or(0).into()
}

/// A recording in which `work` costs `more` in the second variant, and `main` costs the same; the
/// phase of the ticks differs from block to block.
fn made(pairs: u32, more: u64) -> Recording {
    recording(plan(&["off", "on"], pairs), 0, |slot| {
        let more = if slot.variant == 1 { more + block(slot) % 3 } else { 0 };
        (profile(5000, 90_000 + 7 * block(slot) + more), vec![count("loads", 70_000 + more)])
    })
}

fn row<'a>(functions: &'a FunctionComparison, symbol: &str) -> &'a FunctionRow {
    functions
        .rows
        .iter()
        .find(|row| row.symbol == symbol)
        .unwrap_or_else(|| panic!("no function {symbol}"))
}

fn only(comparison: &Comparison) -> &FunctionComparison {
    let [functions] = comparison.functions.as_slice() else { panic!("not one comparison") };
    functions
}

fn near(one: f64, two: f64) -> bool {
    (one - two).abs() < 1e-9 * (1.0 + one.abs() + two.abs())
}

#[test]
fn a_change_is_found_in_its_function_with_its_callers() {
    let (comparison, warnings) = compare(&made(12, 2000));
    assert_eq!(warnings, []);
    let functions = only(&comparison);
    assert!(functions.per_op && functions.shifted());
    assert_eq!(functions.verdict, FunctionVerdict::Changed);
    // 2,000 more, and one more in the mean of 0, 1 and 2, over 1,000 operations.
    assert!(near(functions.total.change, 2.001), "{:?}", functions.total);
    let work = row(functions, "work");
    assert_eq!(functions.rows[0].symbol, "work", "what changed most is first");
    assert!(near(work.own.change, 2.001));
    assert_eq!((work.verdict, work.exact), (FunctionVerdict::Changed, false));
    let (low, high) = work.ci.unwrap();
    assert!(near(low, 2.0) || (2.0..2.001).contains(&low), "{low}");
    assert!(near(high, 2.002) || (2.001..2.002).contains(&high), "{high}");
    assert_eq!((work.appeared, work.vanished), (false, false));
    assert!(near(work.calls.value, 1.0) && near(work.calls.change, 0.0));
    let [caller] = work.callers.as_slice() else { panic!("{:?}", work.callers) };
    assert_eq!((caller.symbol.as_str(), caller.module.as_str()), ("main", "/bin/work"));
    assert!(near(caller.own.change, 2.001));
    let main = row(functions, "main");
    assert_eq!(
        (main.verdict, main.exact, main.own.change),
        (FunctionVerdict::Unchanged, true, 0.0)
    );
    assert_eq!(main.callers[0].symbol, NO_CALLER);
    assert_eq!(functions.unattributed, Sides::default());
}

#[test]
fn equal_variants_have_no_function_that_changed() {
    let made = recording(plan(&["off", "on"], 12), 0, |slot| {
        (profile(5000, 90_000 + 7 * block(slot)), vec![])
    });
    let (comparison, _) = compare(&made);
    let functions = only(&comparison);
    let work = row(functions, "work");
    let said = (work.verdict, work.reason.as_str(), work.exact);
    assert_eq!(said, (FunctionVerdict::Unchanged, "the same in every block", false));
    assert_eq!((work.own.change, functions.shifted()), (0.0, false));
}

#[test]
fn functions_are_tested_only_where_a_metric_changed() {
    // Two functions exchange costs that differ from layout to layout, and nothing else changes.
    let made = recording(plan(&["off", "on"], 12), 0, |slot| {
        let shift = (500 + block(slot)) * u64::from(slot.variant);
        (profile(5000 + shift, 90_000 + block(slot) - shift), vec![])
    });
    let (comparison, _) = compare(&made);
    let functions = only(&comparison);
    assert_eq!(functions.verdict, FunctionVerdict::Unchanged);
    assert_eq!(functions.total.change, 0.0);
    let main = row(functions, "main");
    // The mean of the blocks 0 to 11 is 5.5.
    assert!(near(main.own.change, 0.5055));
    let said = (main.verdict, main.reason.as_str(), main.ci);
    assert_eq!(said, (FunctionVerdict::Inconclusive, "no metric is known to have changed", None));
    assert!(!functions.shifted());
}

#[test]
fn too_few_pairs_say_how_many_are_needed() {
    let mut made = made(4, 2000);
    // No run was repeated, so the counts are not known to be exact.
    made.plan.warmup = 0;
    let (comparison, _) = compare(&made);
    let change = &comparison.rows[0].changes[0];
    // With one pair a block, as many pairs as blocks are needed.
    assert_eq!((change.verdict, change.n_pairs), (Verdict::Inconclusive, 4));
    assert_eq!(change.reason, "needs 7 pairs");
    let functions = only(&comparison);
    assert_eq!(row(functions, "work").verdict, FunctionVerdict::Inconclusive);
    assert!(functions.shifted(), "it is shown all the same");
}

#[test]
fn functions_appear_vanish_and_are_matched_by_their_sources_name() {
    let made = recording(plan(&["off", "on"], 12), 0, |slot| {
        let mut tree = Tree::default();
        let parent = tree.kernel(None, "do_syscall_64", 1000, 10_000 + block(slot));
        match slot.variant {
            0 => {
                let path = tree.kernel(parent, "entry_path.constprop.0", 1000, 4000);
                tree.kernel(path, "entry_path.part.0", 1000, 1000);
                tree.kernel(parent, "old_path", 1000, 700);
            }
            _ => {
                tree.kernel(parent, "entry_path.isra.3", 1000, 9000);
                tree.kernel(parent, "new_path", 500, 900);
                // A function of the same name outside the kernel.
                tree.add(parent, "old_path", "/lib/libc.so.6", 1, 1);
            }
        }
        (tree.grown(), vec![])
    });
    let (comparison, _) = compare(&made);
    let functions = only(&comparison);
    let path = row(functions, "entry_path");
    assert!(near(path.own.value_baseline, 5.0) && near(path.own.value, 9.0));
    assert!(near(path.calls.value_baseline, 1.0), "its part is not called: {:?}", path.calls);
    assert_eq!(path.callers.len(), 1);
    let new = row(functions, "new_path");
    assert_eq!((new.appeared, new.vanished), (true, false));
    assert!(near(new.own.change, 0.9) && near(new.calls.value, 0.5));
    let old = row(functions, "old_path");
    assert_eq!((old.appeared, old.vanished, old.module.as_str()), (false, true, "[kernel]"));
    assert!(functions.rows.iter().any(|row| row.module == "/lib/libc.so.6" && row.appeared));
    let tiny = functions.rows.iter().find(|row| row.module == "/lib/libc.so.6").unwrap();
    let said = (tiny.verdict, tiny.reason.as_str());
    assert_eq!(said, (FunctionVerdict::Changed, "exact: alike in each of 12 layouts"));
}

#[test]
fn what_no_function_is_charged_with_is_a_row() {
    let mut made = made(12, 0);
    let metric = made.dictionary.id(&made.plan.primary).unwrap();
    for record in made.records.iter_mut().filter(|record| record.variant == 1) {
        record.samples.iter_mut().find(|sample| sample.metric == metric).unwrap().value += 3000;
    }
    let (comparison, _) = compare(&made);
    let functions = only(&comparison);
    assert!(near(functions.unattributed.change, 3.0), "{:?}", functions.unattributed);
    assert_eq!(functions.unattributed.value_baseline, 0.0);
}

#[test]
fn runs_without_profile_or_partner_are_left_out() {
    let mut made = made(12, 2000);
    // A failed run and a missing profile, each in a block of its own.
    let lost: Vec<u32> =
        made.records.iter().filter(|run| run.block == Some(3)).map(|run| run.slot).collect();
    made.profiles.retain(|(slot, _)| *slot != lost[0]);
    let failed = made.records.iter_mut().find(|run| run.block == Some(5)).unwrap();
    failed.outcome = Outcome::Failed(Failure::Signal { signal: 9, stderr: None });
    let (comparison, _) = compare(&made);
    let functions = only(&comparison);
    // Blocks 3 and 5 would have added 0 and 2 to the mean of 0, 1, 2, ….
    assert!(near(functions.total.change, 2.001), "{:?}", functions.total);
    made.profiles.clear();
    assert!(compare(&made).0.functions.is_empty());
}

#[test]
fn a_refused_report_judges_no_function() {
    let mut made = made(12, 2000);
    made.records[5].invariants =
        vec![Invariant { name: "op-stream-hash".into(), value: "other".into() }];
    let (comparison, _) = compare(&made);
    assert!(comparison.refused());
    let rows = &only(&comparison).rows;
    assert!(rows.iter().all(|row| row.verdict == FunctionVerdict::NotComparable));
    assert_eq!(rows[0].reason, "refused by the ledger: invariants");
}

#[test]
fn the_first_rows_cover_most_and_the_others_are_summed() {
    let made = recording(plan(&["off", "on"], 12), 0, |slot| {
        let mut tree = Tree::default();
        for (place, size) in [50_000, 9000, 400, 100, 0].into_iter().enumerate() {
            let change = if place % 2 == 0 { size } else { 20_000 - size };
            let cost = [if place % 2 == 0 { 0 } else { 20_000 }, change][usize::from(slot.variant)];
            tree.kernel(None, &format!("f{place}"), 1, 1 + cost);
        }
        (tree.grown(), vec![])
    });
    let (comparison, _) = compare(&made);
    let functions = only(&comparison);
    let leading = |most| {
        let (rows, others, change) = functions.leading(most);
        assert!(near(change.value - change.value_baseline, change.change), "{change:?}");
        (rows.iter().map(|row| row.symbol.as_str()).collect::<Vec<_>>(), others, change.change)
    };
    let (rows, others, change) = leading(12);
    assert_eq!((rows, others), (vec!["f0", "f1"], 2), "95 % of what changed");
    assert!(near(change, 0.3), "{change}");
    let (rows, others, change) = leading(1);
    assert_eq!((rows, others), (vec!["f0"], 3));
    assert!(near(change, -8.7), "{change}");
}

/// The entry of a rule, if the rule is about this recording.
fn entry(recording: &Recording, rule: &str) -> Option<(Severity, String)> {
    let (comparison, _) = compare(recording);
    let found = comparison.ledger.into_iter().find(|entry| entry.rule == rule);
    found.map(|entry| (entry.severity, entry.detail))
}

#[test]
fn emulated_runs_must_repeat_to_the_last_digit() {
    let mut made = made(12, 2000);
    let said = "each variant gave the same counts to the last digit in 2 repeated runs";
    assert_eq!(entry(&made, "repeatable"), Some((Severity::Fine, said.into())));
    // Every count of the repeated run is one too many; the finding names the largest deviation.
    for sample in &mut made.records[1].samples {
        sample.value += 1;
    }
    let said = "'on' was repeated and loads (work) differed by 1 (0.0014 %): 72,000 and 72,001";
    assert_eq!(entry(&made, "repeatable"), Some((Severity::Doubtful, said.into())));
    made.records[1].samples.pop();
    let said = "'on' was repeated and loads (work) was counted only once";
    assert_eq!(entry(&made, "repeatable"), Some((Severity::Doubtful, said.into())));
    let warm: Vec<_> = made.records.drain(..2).collect();
    let said = "not checked: no run was repeated";
    assert_eq!(entry(&made, "repeatable"), Some((Severity::Fine, said.into())));
    made.records.splice(..0, warm);
    made.plan.warmup = 0;
    let said = "not checked (--warmup 0)";
    assert_eq!(entry(&made, "repeatable"), Some((Severity::Fine, said.into())));
}

#[test]
fn the_ledger_has_the_rules_of_the_machine() {
    let emulated = made(12, 0);
    let host = made::recording(made::plan(&["off", "on"], 4), |_| vec![]);
    for (rule, of_host, of_emulated) in [
        ("invariants", true, true),
        ("machine", true, true),
        ("environment", true, true),
        ("steal", true, false),
        ("multiplexing", true, false),
        ("repeatable", false, true),
    ] {
        let found = (entry(&host, rule).is_some(), entry(&emulated, rule).is_some());
        assert_eq!(found, (of_host, of_emulated), "{rule}");
    }
}

#[test]
fn an_emulated_recording_lacks_nothing_that_the_host_reads() {
    let (comparison, warnings) = compare(&made(12, 2000));
    assert_eq!((comparison.missing(), warnings), (vec![], vec![]));
    assert!(comparison.heading.contains(&"emulated machine".to_string()));
    assert!(
        comparison.conclusions[0].contains("instructions +2.1"),
        "{:?}",
        comparison.conclusions
    );
}

#[test]
fn another_computer_may_go_on_with_an_emulated_recording_but_not_with_another_kernel() {
    let mut made = made(12, 0);
    let config = ["CONFIG_HZ=100".to_string()];
    made.machine[0].kernels = vec![kernel(0, "small", &config), kernel(1, "other", &config)];
    let mut later = made.machine[0].clone();
    later.kernel_release = Some("6.12".into());
    made.machine.push(later);
    let said = "kernels and programs stayed the same";
    assert_eq!(entry(&made, "machine"), Some((Severity::Fine, said.into())));
    made.machine[1].kernels[1].digest = "f".repeat(64);
    let (severity, detail) = entry(&made, "machine").unwrap();
    assert_eq!(severity, Severity::Refuse);
    assert!(detail.ends_with("the kernel other was changed"), "{detail}");
}

#[test]
fn kernel_configurations_are_compared() {
    let mut made = made(12, 0);
    let config = |lines: &[&str]| lines.iter().map(|line| line.to_string()).collect::<Vec<_>>();
    let (one, two) = (config(&["CONFIG_HZ=100"]), config(&["CONFIG_HZ=250", "CONFIG_SMP=y"]));
    made.machine[0].kernels = vec![kernel(0, "a", &one), kernel(1, "b", &two)];
    let (comparison, _) = compare(&made);
    let [difference] = comparison.differences.as_slice() else { panic!("none") };
    assert_eq!((difference.baseline, difference.variant), (0, 1));
    assert_eq!(difference.lines, ["CONFIG_HZ: 100 → 250", "CONFIG_SMP: not set → y"]);
    made.machine[0].kernels[1].config = None;
    assert!(compare(&made).0.differences.is_empty(), "what is not known does not differ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any profile, the functions and the rest add up to the change of the metric, and the
    /// callers of a function add up to its own cost.
    #[test]
    fn the_parts_add_up(
        trees in prop::collection::vec(
            prop::collection::vec(
                (any::<Option<prop::sample::Index>>(), 0..12u8, 0..9u64, 0..1_000_000u64), 0..15,
            ),
            10,
        ),
        unattributed in 0..1000u64,
    ) {
        const NAMES: [&str; 12] =
            ["a", "a.cold", "a.isra.0", "b", "c", "c.part.0", "d", "e", "f", "g", "h", "i"];
        let made = recording(plan(&["off", "on"], 4), unattributed, |slot| {
            let mut tree = Tree::default();
            for (at, &(parent, name, calls, cost)) in trees[slot.slot as usize].iter().enumerate() {
                let parent = parent.filter(|_| at > 0).map(|parent| parent.index(at) as u32);
                tree.kernel(parent, NAMES[usize::from(name)], calls, cost);
            }
            (tree.grown(), vec![])
        });
        let (comparison, _) = compare(&made);
        let functions = only(&comparison);
        let add = |of: fn(&Sides) -> f64| {
            let sum: f64 = functions.rows.iter().map(|row| of(&row.own)).sum();
            (sum + of(&functions.unattributed), of(&functions.total))
        };
        for (parts, total) in
            [add(|sides| sides.value_baseline), add(|sides| sides.value), add(|sides| sides.change)]
        {
            prop_assert!((parts - total).abs() < 1e-6, "{} is not {}", parts, total);
        }
        for row in &functions.rows {
            let callers: f64 = row.callers.iter().map(|caller| caller.own.change).sum();
            prop_assert!((callers - row.own.change).abs() < 1e-6, "{:?}", row);
        }
        let (leading, _, others) = functions.leading(3);
        let shown: f64 = leading.iter().map(|row| row.own.change).sum();
        let sum = shown + others.change + functions.unattributed.change;
        prop_assert!((sum - functions.total.change).abs() < 1e-6);
        let sizes: Vec<f64> = functions.rows.iter().map(|row| row.own.change.abs()).collect();
        prop_assert!(sizes.is_sorted_by(|one, two| one >= two));
    }
}

#[test]
fn what_no_seed_moves_needs_no_test_on_the_emulated_machine_only() {
    use opcost_analysis::comparison::Verdict;
    let exact = |plan| {
        let recording = recording(plan, 0, |slot| {
            let mut tree = Tree::default();
            tree.kernel(None, "f", 1, 1000 + u64::from(slot.variant));
            (tree.grown(), vec![])
        });
        let row = compare(&recording).0.rows.remove(0);
        (row.changes[0].verdict, row.changes[0].p_adjusted)
    };
    // Two pairs are far too few for any test.
    assert_eq!(exact(plan(&["off", "on"], 2)), (Verdict::Changed, None));
    let mut of_host = plan(&["off", "on"], 2);
    of_host.target = opcost_model::plan::Target::Host(Default::default());
    assert_eq!(exact(of_host).0, Verdict::Inconclusive);
}
