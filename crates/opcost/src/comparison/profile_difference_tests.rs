//! Tests of differences of profiles in files.

use super::*;
use opcost_profile::losses::Losses;
use opcost_profile::read::about::{About, EventAbout};
use opcost_profile::read::{callgrind, sampled};
use opcost_profile::symbolise::Growth;
use proptest::prelude::*;

/// A profile of these stacks, each with its samples of one cost.
fn profile(event: &str, each: u64, stacks: &[(&[&str], u64)]) -> ReadProfile {
    let mut growth = Growth::default();
    for (stack, samples) in stacks {
        let function = |symbol: &&str| Function::new(*symbol, "/bin/w");
        let stack: Vec<_> = stack.iter().map(|symbol| (function(symbol), false)).collect();
        for _ in 0..*samples {
            growth.add(&stack, each);
        }
    }
    let about = About {
        event: event.into(),
        sampling: Some(EventAbout { clock: true, ..EventAbout::default() }),
        ..About::default()
    };
    sampled(about, growth.grown(Losses::default()))
}

fn counted(text: &str) -> ReadProfile {
    let (about, table) = callgrind::read(text, None).unwrap();
    ReadProfile { about, table, sampled: None }
}

fn compare(
    one: &ReadProfile,
    two: &ReadProfile,
    ops: [Option<u64>; 2],
) -> Result<ProfileDifference, ProfileDifferenceError> {
    let side = |name, profile, ops| ProfileOf { name, profile, ops };
    profile_difference([side("a", one, ops[0]), side("b", two, ops[1])], &[], &[])
}

fn row<'d>(difference: &'d ProfileDifference, symbol: &str) -> &'d ProfileRow {
    difference.rows.iter().find(|row| row.function.symbol == symbol).unwrap()
}

#[test]
fn twice_the_samples_of_the_same_are_no_change_of_shares() {
    let stacks: [(&[&str], u64); 2] = [(&["main", "read"], 300), (&["main"], 100)];
    let one = profile("cpu-clock", 1000, &stacks);
    let twice = stacks.map(|(stack, samples)| (stack, 2 * samples));
    let two = profile("cpu-clock", 1000, &twice);
    let shares = compare(&one, &two, [None, None]).unwrap();
    assert_eq!(shares.measure, Measure::Share);
    assert!(shares.rows.iter().all(|row| !row.changed && row.change == 0.0));
    // For the same number of operations it is twice the cost.
    let per_op = compare(&one, &two, [Some(100), Some(100)]).unwrap();
    let read = row(&per_op, "read");
    assert_eq!((read.value, read.changed), ([3000.0, 6000.0], true));
    assert_eq!(read.callers, [("main".to_string(), 3000.0)]);
    assert_eq!((per_op.total.value, per_op.total.changed), ([4000.0, 8000.0], true));
    // For twice as many it is the same, also where a sample stands for less.
    let per_op = compare(&one, &two, [Some(100), Some(200)]).unwrap();
    assert!(per_op.rows.iter().all(|row| row.p_adjusted == Some(1.0)));
    let finer = profile("cpu-clock", 500, &twice);
    let per_op = compare(&one, &finer, [Some(100), Some(100)]).unwrap();
    assert!(per_op.rows.iter().all(|row| row.p_adjusted == Some(1.0) && row.change == 0.0));
}

#[test]
fn what_appeared_and_vanished_is_judged_by_its_samples() {
    let one = profile(
        "cpu-clock",
        1,
        &[(&["main"], 500), (&["main", "old"], 40), (&["main", "f.part.0"], 5)],
    );
    let two =
        profile("cpu-clock", 1, &[(&["main"], 500), (&["main", "new"], 3), (&["main", "f"], 5)]);
    let difference = compare(&one, &two, [None, None]).unwrap();
    let [old, new, f] = ["old", "new", "f"].map(|name| row(&difference, name));
    assert_eq!((old.samples, old.changed), (Some([40, 0]), true));
    assert_eq!((new.samples, new.changed), (Some([0, 3]), false));
    // A part that the compiler split off is its function.
    assert_eq!(f.samples, Some([5, 5]));
    let sum: f64 = difference.rows.iter().map(|row| row.change).sum();
    assert!(sum.abs() < 1e-12);
}

#[test]
fn counted_costs_are_exact() {
    let text =
        |own: u64| format!("events: Ir\nob=/a/w\nfn=f\n1 {own}\nfn=g\n1 7\ntotals: {}\n", own + 10);
    let one = counted(&text(100));
    let two = counted(&text(101).replace("/a/w", "/b/w"));
    let difference = compare(&one, &two, [None, None]).unwrap();
    let f = row(&difference, "f");
    assert_eq!((f.value, f.p_adjusted, f.changed), ([100.0, 101.0], None, true));
    assert!(!row(&difference, "g").changed);
    let unattributed = difference.unattributed.as_ref().unwrap();
    assert_eq!((unattributed.cost, difference.total.change), ([3, 3], 1.0));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let clock = profile("cpu-clock", 1, &[(&["main"], 5)]);
    let cycles = profile("cycles:u", 1, &[(&["main"], 5)]);
    let error = compare(&clock, &cycles, [None, None]).unwrap_err();
    assert!(error.to_string().contains("a has the event cpu-clock and b has cycles:u"), "{error}");
    assert_eq!(error.status(), Status::NotComparable);
    let side = |name, profile| ProfileOf { name, profile, ops: None };
    let sides = [side("a", &clock), side("b", &cycles)];
    let waived = profile_difference(sides, &[EVENT_RULE.to_string()], &[]).unwrap();
    assert!(waived.notes[0].contains("waived"));
    let counted = counted("events: cpu-clock\nfn=f\n1 1\n");
    let error = compare(&counted, &clock, [None, None]).unwrap_err().to_string();
    assert!(error.starts_with("b was sampled and a was counted"), "{error}");
    let empty = profile("cpu-clock", 1, &[]);
    let error = compare(&clock, &empty, [None, None]).unwrap_err();
    assert_eq!(error, ProfileDifferenceError::Empty("b".into()));
}

proptest! {
    #[test]
    fn the_parts_add_up(
        drawn in prop::collection::vec((0u64..60, 0u64..60), 2..20), ops in 1u64..1000
    ) {
        let names: Vec<String> = (0..drawn.len()).map(|at| format!("f{at}")).collect();
        let side = |second: bool| {
            let stacks: Vec<_> = drawn.iter().zip(&names).map(|((one, two), name)| {
                (vec![name.as_str()], if second { *two } else { *one } + 1)
            }).collect();
            let stacks: Vec<(&[&str], u64)> =
                stacks.iter().map(|(stack, samples)| (&stack[..], *samples)).collect();
            profile("cpu-clock", 10, &stacks)
        };
        let difference = compare(&side(false), &side(true), [Some(ops), Some(ops)]).unwrap();
        let sum: f64 = difference.rows.iter().map(|row| row.change).sum();
        prop_assert!((sum - difference.total.change).abs() < 1e-6);
        let p: Vec<f64> = difference.rows.iter().filter_map(|row| row.p_adjusted).collect();
        prop_assert_eq!(p.len(), difference.rows.len());
        for row in &difference.rows {
            prop_assert!(!row.changed || row.p_adjusted <= Some(FALSE_SHARE));
        }
    }
}
