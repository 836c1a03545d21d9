//! Two recordings of the same work, metric by metric.

use crate::made::emulated::{self, Tree, count};
use crate::made::{key, plan, recording};
use opcost_analysis::comparison::call_tree::VariantOf;
use opcost_analysis::comparison::recorded_profiles::{DifferenceError, difference};
use opcost_analysis::comparison::two_recordings::{RecordingsComparison, compare_recordings};
use opcost_analysis::comparison::{FunctionVerdict, Verdict};
use opcost_model::recording::Recording;
use opcost_record::{MetricKey, Reading};

fn compare(
    one: &Recording,
    two: &Recording,
    allow: &[&str],
) -> Result<RecordingsComparison, DifferenceError> {
    let of = |recording| VariantOf { recording, variant: 0 };
    let allow: Vec<String> = allow.iter().map(|rule| rule.to_string()).collect();
    compare_recordings([of(one), of(two)], &allow)
}

fn refused(one: &Recording, two: &Recording) -> (String, String) {
    match compare(one, two, &[]) {
        Err(DifferenceError::Refused { rule, detail }) => (rule, detail),
        other => panic!("{other:?}"),
    }
}

/// A recording of this host whose runs take about `wall_ns`.
fn of_host(id: &str, wall_ns: u64) -> Recording {
    let made = recording(plan(&["off"], 12), |slot| {
        let wobble = u64::from(slot.slot * 37 % 11);
        vec![
            Reading::plain(key("wall", "clock"), wall_ns + 100 * wobble),
            Reading::plain(key("minor-faults", "rusage"), 56 + wall_ns / 100_000),
        ]
    });
    Recording { id: id.into(), ..made }
}

/// A recording of an emulated machine whose counts vary with the seed by multiples of `shift`.
fn of_emulator(id: &str, instructions: u64, shift: u64) -> Recording {
    let made = emulated::recording(emulated::plan(&["off"], 6), 0, |slot| {
        let mut tree = Tree::default();
        let cost = instructions + shift * u64::from(slot.slot % 5);
        tree.add(None, "main", "/bin/work", 3, cost);
        (tree.grown(), vec![count("loads", 7)])
    });
    Recording { id: id.into(), ..made }
}

/// A recording of an emulated machine whose layouts move a count by thousands, the same way each time;
/// the warm-up run repeats the first layout.
fn in_layouts(id: &str, instructions: u64, layouts: u32) -> Recording {
    let mut plan = emulated::plan(&["off"], layouts);
    for (number, block) in plan.blocks.iter_mut().enumerate() {
        block.guest_seed = 100 + number as u32;
    }
    let made = emulated::recording(plan, 0, |slot| {
        let layout = u64::from(slot.block.unwrap_or(0));
        let mut tree = Tree::default();
        let main = tree.add(None, "main", "/bin/work", 3, 5_000_000 + layout * 7919 % 5000);
        tree.add(main, "helper", "/bin/work", 1, instructions + layout % 3);
        (tree.grown(), vec![])
    });
    Recording { id: id.into(), ..made }
}

#[test]
fn runs_of_one_layout_are_compared_with_each_other() {
    let primary = |made: &RecordingsComparison| made.comparison.rows[0].changes[0].clone();
    let of = |recording| VariantOf { recording, variant: 0 };
    let functions = |one, two| difference([of(one), of(two)], &[]).unwrap().functions;
    let one = in_layouts("one", 100_000, 6);
    // Equal counts are unchanged, however far layouts move them.
    let same = in_layouts("two", 100_000, 6);
    let change = primary(&compare(&one, &same, &[]).unwrap());
    assert!(change.identical && change.mde_ratio.is_none(), "{change:?}");
    assert_eq!((change.verdict, change.reason.as_str()), (Verdict::Unchanged, "same, 6 layouts"));
    assert_eq!(functions(&one, &same).verdict, FunctionVerdict::Unchanged);
    // A difference in every layout is exact, and the function with the difference is named.
    let more = in_layouts("two", 112_000, 6);
    let made = compare(&one, &more, &[]).unwrap();
    let change = primary(&made);
    assert_eq!((change.verdict, change.n_pairs), (Verdict::FewLayouts, 6));
    assert!(change.reason.starts_with("exact, 6 layouts"), "{change:?}");
    assert!(made.comparison.conclusions[0].contains("exact"), "{:?}", made.comparison.conclusions);
    let changed = functions(&one, &more);
    assert_eq!(changed.verdict, FunctionVerdict::FewLayouts);
    let row = &changed.rows[0];
    assert_eq!((row.symbol.as_str(), row.verdict), ("helper", FunctionVerdict::Changed));
    assert_eq!(row.exact_difference.unwrap().layouts, 6);
    // With enough layouts, the change is decided.
    let [one, more] =
        [("one", 100_000), ("two", 112_000)].map(|(id, cost)| in_layouts(id, cost, 12));
    assert_eq!(primary(&compare(&one, &more, &[]).unwrap()).verdict, Verdict::Changed);
    assert_eq!(functions(&one, &more).rows[0].verdict, FunctionVerdict::Changed);
    // Runs in different layouts are not compared layout by layout.
    let mut elsewhere = in_layouts("two", 112_000, 12);
    elsewhere.plan.blocks[3].guest_seed = 7;
    assert_eq!(primary(&compare(&one, &elsewhere, &[]).unwrap()).layouts, None);
    // Counts that do not repeat are no counts of a layout.
    let mut unsteady = in_layouts("two", 112_000, 12);
    let sample = &mut unsteady.records[0].samples[0];
    sample.value += 1;
    assert_eq!(primary(&compare(&one, &unsteady, &[]).unwrap()).layouts, None);
}

#[test]
fn on_the_host_figures_differ_and_nothing_is_called_real() {
    let (one, two) = (of_host("one", 100_000), of_host("two", 200_000));
    let made = compare(&one, &two, &[]).unwrap();
    let comparison = &made.comparison;
    assert_eq!(
        (comparison.variants[0].name.as_str(), comparison.variants[1].name.as_str()),
        ("one", "two")
    );
    for row in &comparison.rows {
        assert_eq!((row.changes[0].verdict, row.changes[0].found()), (Verdict::Changed, "differs"));
    }
    let [conclusion] = comparison.conclusions.as_slice() else { panic!("one comparison") };
    assert!(conclusion.contains("wall +") && conclusion.contains(", differs ("), "{conclusion}");
    assert!(!conclusion.contains("real"), "{conclusion}");
    assert!(made.notes.iter().any(|note| note.contains("made at different times")), "{made:?}");
    let same = compare(&one, &of_host("two", 100_000), &[]).unwrap();
    assert_eq!(same.comparison.rows[0].changes[0].verdict, Verdict::Unchanged);
}

#[test]
fn on_the_emulated_machine_counts_are_compared_as_they_are() {
    let exact = compare(&of_emulator("one", 5000, 0), &of_emulator("two", 5001, 0), &[]).unwrap();
    let row = &exact.comparison.rows[0];
    assert!(row.exact && row.primary);
    assert_eq!((row.changes[0].verdict, row.changes[0].p_adjusted), (Verdict::Changed, None));
    assert_eq!(row.changes[0].found(), "real");
    assert!(exact.notes.is_empty(), "{:?}", exact.notes);
    let same = compare(&of_emulator("one", 5000, 0), &of_emulator("two", 5000, 0), &[]).unwrap();
    assert!(same.comparison.rows[0].changes[0].identical);
    // If seeds shift counts, runs are the units of the test.
    let tested = compare(&of_emulator("one", 5000, 3), &of_emulator("two", 6000, 3), &[]).unwrap();
    let change = &tested.comparison.rows[0].changes[0];
    assert_eq!(change.verdict, Verdict::Changed);
    assert!(change.p_adjusted.unwrap() <= 0.05 && change.ci.unwrap().0 > 0.0, "{change:?}");
}

#[test]
fn figures_that_have_nothing_in_common_are_refused_by_a_rule_that_can_be_waived() {
    let (host, emulated) = (of_host("one", 1000), of_emulator("two", 1000, 0));
    let (rule, detail) = refused(&host, &emulated);
    assert_eq!(rule, "machine");
    assert!(detail.contains("this host") && detail.contains("emulated machine"), "{detail}");
    let mut elsewhere = of_host("two", 1000);
    elsewhere.machine[0].cpu_model = Some("Another CPU".into());
    assert_eq!(
        refused(&host, &elsewhere),
        ("machine".into(), "the CPU differs: A CPU and Another CPU".into())
    );
    let waived = compare(&host, &elsewhere, &["machine"]).unwrap();
    assert!(waived.notes.iter().any(|note| note.ends_with("(machine, waived)")), "{waived:?}");
    // An updated kernel is noted, and refuses nothing.
    let mut updated = of_host("two", 1000);
    updated.machine[0].kernel_release = Some("6.2.0".into());
    let noted = compare(&host, &updated, &[]).unwrap();
    let kernel = "between the recordings: kernel: 6.1.0 → 6.2.0";
    assert!(noted.notes.iter().any(|note| note == kernel), "{noted:?}");
    let mut other = of_host("two", 1000);
    other.records[1].invariants[0].value = "ffff".into();
    assert_eq!(refused(&host, &other).0, "invariants");
}

#[test]
fn metrics_that_come_later_take_no_level_from_those_that_somebody_chose() {
    let side =
        ["minor-faults", "major-faults", "voluntary-switches", "involuntary-switches", "peak-rss"];
    let later: Vec<String> =
        (0..20).map(|number| format!("a-metric-of-tomorrow-{number}")).collect();
    let of = |id: &str, more: u64, later: &[String]| {
        let plan = plan(&["off"], 12);
        let chosen = plan.events.iter().map(|event| event.key.clone());
        let chosen = chosen.filter(|key| key.name == "context-switches").collect::<Vec<_>>();
        let others = side.iter().copied().chain(later.iter().map(String::as_str));
        let keys: Vec<_> =
            chosen.into_iter().chain(others.map(|name| key(name, "rusage"))).collect();
        let made = recording(plan, |slot| {
            let wobble = u64::from(slot.slot * 37 % 11);
            let read = |key: &MetricKey| Reading::plain(key.clone(), 1000 + more + wobble);
            let wall = Reading::plain(key("wall", "clock"), 58_000 + 100 * wobble);
            keys.iter().map(read).chain([wall]).collect()
        });
        Recording { id: id.into(), ..made }
    };
    let level = |later: &[String], name: &str| {
        let made = compare(&of("one", 0, later), &of("two", 1, later), &[]).unwrap();
        let row = made.comparison.rows.into_iter().find(|row| row.key.name == name).unwrap();
        1.0 - row.changes[0].ci_level
    };
    let [before, after] = [&[], &later[..]].map(|later| level(later, "context-switches"));
    assert!((before - after).abs() < 1e-12 && before > 0.0, "{before} {after}");
    // All 25 side metrics share what the five had.
    let [before, after] = [&[], &later[..]].map(|later| level(later, "peak-rss"));
    assert!((before / after - 5.0).abs() < 1e-9, "{before} {after}");
}
