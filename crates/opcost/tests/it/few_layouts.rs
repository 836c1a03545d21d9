//! Exact counts in few layouts: one run a side gives an answer with its limits.

use crate::made::emulated::{Tree, count, plan, recording};
use opcost_analysis::comparison::limit::{FailOn, exceeded};
use opcost_analysis::comparison::{Change, Comparison, FunctionVerdict, Verdict, Warning, compare};
use opcost_model::plan::Slot;
use opcost_model::recording::{Recording, State};
use opcost_stats::Random;

/// A recording of `pairs` pairs; `cost` gives the cost of a run from its block and its variant.
/// Warm-up runs repeat the first block.
fn made(pairs: u32, mut cost: impl FnMut(u64, u64) -> u64) -> Recording {
    let mut plan = plan(&["off", "on"], pairs.max(2));
    plan.pairs = pairs;
    plan.blocks.truncate(pairs as usize);
    let mut costs = std::collections::HashMap::new();
    recording(plan, 0, |slot: &Slot| {
        let place = (u64::from(slot.block.unwrap_or(0)), u64::from(slot.variant));
        let cost = *costs.entry(place).or_insert_with(|| cost(place.0, place.1));
        let mut tree = Tree::default();
        let main = tree.add(None, "main", "/bin/work", 1, 1_000_000);
        tree.add(main, "work", "/bin/work", 10, cost);
        (tree.grown(), vec![count("loads", 5000 + cost)])
    })
}

fn primary(comparison: &Comparison) -> &Change {
    &comparison.rows.iter().find(|row| row.primary).unwrap().changes[0]
}

/// The limits of `--fail-on` that are exceeded, and those that are undecided.
fn limits(comparison: &Comparison, text: &str) -> (usize, usize) {
    let limits: Vec<FailOn> = vec![text.parse().unwrap()];
    let found = exceeded(comparison, &limits).unwrap();
    (found.exceeded.len(), found.undecided.len())
}

#[test]
fn one_run_a_side_says_by_how_much_and_where_from() {
    let made = made(1, |_, variant| 500_000 + 15_000 * variant);
    let (comparison, warnings) = compare(&made);
    let change = primary(&comparison);
    assert_eq!((change.verdict, change.n_pairs), (Verdict::FewLayouts, 1));
    assert!((change.change_ratio.unwrap() - 0.01).abs() < 1e-12, "{change:?}");
    // There is no test, so there is neither an interval nor a p-value.
    assert_eq!((change.ci, change.p_adjusted, change.mde_ratio), (None, None, None));
    assert_eq!((change.relevance_floor_ratio, change.reason.as_str()), (None, "exact, one layout"));
    let layouts = change.layouts.unwrap();
    let (least, most) = layouts.range.unwrap();
    assert_eq!((layouts.count, least), (1, most));
    assert_eq!(comparison.conclusions, ["on against off: instructions +1.00 %, exact, one layout"]);
    assert!(!warnings.iter().any(|one| matches!(one, Warning::TooFewPairs { .. })), "{warnings:?}");
    let functions = &comparison.functions[0];
    assert_eq!(functions.rows.len(), 2, "{functions:?}");
    let row = &functions.rows[0];
    assert_eq!((row.symbol.as_str(), row.verdict), ("work", FunctionVerdict::FewLayouts));
    assert_eq!((row.own.change, row.callers[0].symbol.as_str()), (15.0, "main"));
    assert_eq!(row.reason, "exact, one layout");
    // A limit says how much of a change may be the layout's. Without a limit, nobody can tell.
    assert!(!comparison.regressed());
    assert_eq!(limits(&comparison, "regression"), (0, 1));
    assert_eq!(limits(&comparison, "regression=0.5%"), (1, 0));
    assert_eq!(limits(&comparison, "regression=2%"), (0, 0));
    assert_eq!(limits(&comparison, "functions"), (0, 0));
    assert_eq!(limits(&comparison, "functions=0.5%"), (1, 0));
}

#[test]
fn counts_that_do_not_repeat_or_were_not_repeated_are_no_answer() {
    let mut made = made(1, |_, variant| 500_000 + 15_000 * variant);
    let loads = usize::from(made.dictionary.id(&count("loads", 0).key).unwrap());
    // The warm-up run of the second variant.
    let at = made.records[1].samples.iter().position(|one| usize::from(one.metric) == loads);
    made.records[1].samples[at.unwrap()].value += 1;
    let (comparison, _) = compare(&made);
    let verdict = |comparison: &Comparison, name: &str| {
        let row = comparison.rows.iter().find(|row| row.key.name == name).unwrap();
        (row.changes[0].verdict, row.changes[0].layouts.map(|layouts| layouts.count))
    };
    assert_eq!(verdict(&comparison, "loads"), (Verdict::Inconclusive, None));
    assert_eq!(verdict(&comparison, "instructions"), (Verdict::FewLayouts, Some(1)));
    made.plan.warmup = 0;
    let (comparison, _) = compare(&made);
    assert_eq!(verdict(&comparison, "instructions"), (Verdict::Inconclusive, None));
    assert_eq!(limits(&comparison, "regression=0.5%"), (0, 1));
}

#[test]
fn a_program_against_itself_is_the_same_to_the_instruction() {
    let said = [
        (1, "the same to the instruction, one layout"),
        (3, "the same to the instruction, in each of 3 layouts"),
        (12, "the same to the instruction, in each of 12 layouts"),
    ];
    for (pairs, said) in said {
        // Each seed has its own count, the same on both sides.
        let (comparison, _) = compare(&made(pairs, |block, _| 500_000 + 37 * block % 101));
        let change = primary(&comparison);
        assert_eq!((change.verdict, change.identical), (Verdict::Unchanged, true), "{pairs}");
        assert_eq!((change.change_ratio, change.p_adjusted), (Some(0.0), None));
        let said = format!("on against off: no change in instructions: {said}");
        assert_eq!(comparison.conclusions, [said]);
        assert!(!comparison.functions[0].shifted());
        assert_eq!(limits(&comparison, "regression"), (0, 0));
    }
    // One instruction more in one seed is a difference.
    let (comparison, _) = compare(&made(3, |block, variant| 500_000 + variant * (block / 2)));
    assert_eq!(primary(&comparison).verdict, Verdict::FewLayouts);
}

#[test]
fn a_few_pairs_show_the_range_and_five_the_floor() {
    let layout = |block: u64| block * 37 % 16 * 10;
    let (three, _) = compare(&made(3, |block, variant| {
        500_000 + layout(block) + variant * (15_000 + 150 * block)
    }));
    let change = primary(&three);
    assert_eq!((change.verdict, change.relevance_floor_ratio), (Verdict::FewLayouts, None));
    let said = "instructions +1.01 %, exact (+1.00 % … +1.02 % in 3 layouts)";
    assert!(three.conclusions[0].ends_with(said), "{:?}", three.conclusions);

    // A difference with the same size in every layout.
    let (even, _) = compare(&made(3, |block, variant| 500_000 + layout(block) + 15_000 * variant));
    let said = "instructions +1.00 %, exact (in each of 3 layouts); work +1,500 a call in each of 3 layouts, \
                nothing else changed";
    assert!(even.conclusions[0].ends_with(said), "{:?}", even.conclusions);

    // A change far beyond the shift by layouts: the two groups of counts do not overlap.
    let five = |more: u64, seed: u64| {
        let mut random = Random::new(seed);
        made(5, move |_, variant| 500_000 + random.below(100) + more * variant)
    };
    let (far, _) = compare(&five(15_000, 1));
    let change = primary(&far);
    assert_eq!((change.verdict, change.ci), (Verdict::Changed, None));
    assert!(change.p_adjusted.unwrap() <= 0.05, "{change:?}");
    let (floor, ratio) = (change.relevance_floor_ratio.unwrap(), change.change_ratio.unwrap());
    assert!(floor < 0.001 && ratio > 0.009, "{floor} {ratio}");
    assert!(far.conclusions[0].ends_with(", real (in each of 5 layouts)"), "{:?}", far.conclusions);
    assert_eq!(limits(&far, "regression"), (1, 0));
    // Other metrics were not tested.
    let loads = far.rows.iter().find(|row| row.key.name == "loads").unwrap();
    assert_eq!(loads.changes[0].verdict, Verdict::FewLayouts);

    let (near, _) = compare(&five(20, 2));
    let change = primary(&near);
    assert_eq!(change.verdict, Verdict::FewLayouts);
    assert!(change.below_floor().is_some(), "{change:?}");
    assert!(near.conclusions[0].contains(", but layouts alone shift it by up to"), "{near:?}");
}

#[test]
fn a_change_within_what_few_layouts_shift_is_said_to_be_theirs() {
    // A thread of the kernel takes the CPU in some layouts of one side: 45 instructions a switch.
    let (few, _) =
        compare(&made(3, |block, variant| 500_000 + 45 * u64::from(variant == 0 && block < 2)));
    let change = primary(&few);
    assert_eq!((change.verdict, change.relevance_floor_layouts), (Verdict::FewLayouts, 3));
    let floor = change.below_floor().unwrap();
    assert!((floor - 45.0 / 1_500_045.0).abs() < 1e-9, "{floor}");
    let said = "exact (−0.0030 % … +0 % in 3 layouts), but layouts alone shift it by up to 0.0030 % (3 layouts)";
    assert!(few.conclusions[0].contains(said), "{:?}", few.conclusions);

    // As much in every layout is not theirs, and one layout shows nothing of another.
    for pairs in [1, 3] {
        let (alike, _) = compare(&made(pairs, |_, variant| 500_000 + 45 * variant));
        assert_eq!(primary(&alike).relevance_floor_ratio, None, "{pairs}");
    }
}

#[test]
fn a_planned_look_decides_only_where_it_ended_the_recording() {
    let mut made = made(5, |block, variant| 500_000 + block * 7 % 11 + 15_000 * variant);
    made.plan.stop.look_pairs = Some(5);
    made.state = State::StoppedSettled;
    let (comparison, _) = compare(&made);
    assert_eq!(primary(&comparison).verdict, Verdict::Changed);
    assert!(primary(&comparison).p_adjusted.unwrap() <= 0.05);
    let stopped = comparison.stopped.unwrap();
    assert!(
        stopped.starts_with("stopped after 5 pairs: exact counts settle instructions"),
        "{stopped}"
    );
    made.state = State::Interrupted;
    assert_eq!(primary(&compare(&made).0).verdict, Verdict::FewLayouts);
}

/// Two builds of one program, each with layouts of its own: the share of five-pair reports that
/// call any change real stays within the primary metric's level.
#[test]
fn equal_programs_of_other_layouts_raise_no_alarm() {
    let reports = 600;
    let mut alarms = 0;
    for seed in 0..reports {
        let mut random = Random::new(5000 + seed);
        let made = made(5, |_, _| 500_000 + 400 * random.below(2) + random.below(30));
        let (comparison, _) = compare(&made);
        let changed = |change: &Change| change.verdict == Verdict::Changed;
        let mut changes = comparison.rows.iter().flat_map(|row| &row.changes);
        alarms += u32::from(changes.any(changed));
    }
    // 2.5 % and three standard deviations of a share of 600.
    assert!(f64::from(alarms) / (reports as f64) < 0.044, "{alarms} of {reports}");
}
