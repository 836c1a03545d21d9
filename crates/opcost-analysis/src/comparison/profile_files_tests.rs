//! Tests of differences of profiles in files.

use super::*;
use crate::comparison::FunctionVerdict;
use opcost_profile::losses::Losses;
use opcost_profile::read::about::{About, EventAbout};
use opcost_profile::read::{callgrind, sampled};
use opcost_profile::symbolise::ProfileBuilder;
use opcost_sys::budget::Budget;
use proptest::prelude::*;

/// A profile of these stacks, each with its samples of one cost.
fn profile(event: &str, each: u64, stacks: &[(&[&str], u64)]) -> ReadProfile {
    let mut growth = ProfileBuilder::default();
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
    let (about, table, code) = callgrind::read(text, [], None, &Budget::default()).unwrap();
    ReadProfile { about, table, sampled: None, code }
}

fn compare(
    one: &ReadProfile,
    two: &ReadProfile,
    ops: [Option<u64>; 2],
) -> Result<ProfileDifference, ProfileDifferenceError> {
    let side = |name, profile, ops| [ProfileOf { name, profile, ops }];
    let sides = [side("a", one, ops[0]), side("b", two, ops[1])];
    profile_difference([&sides[0], &sides[1]], names(), &[], &[])
}

fn names() -> [String; 2] {
    ["a".into(), "b".into()]
}

/// Several files a side, whose operations are unknown.
fn compare_files(one: &[ReadProfile], two: &[ReadProfile]) -> ProfileDifference {
    let sides = [one, two].map(|files| {
        let of = |profile| ProfileOf { name: "file", profile, ops: None };
        files.iter().map(of).collect::<Vec<_>>()
    });
    profile_difference([&sides[0], &sides[1]], names(), &[], &[]).unwrap()
}

fn values(row: &FunctionRow) -> [f64; 2] {
    [row.own.value_baseline, row.own.value]
}

fn samples(row: &FunctionRow) -> Option<[u64; 2]> {
    row.in_files.unwrap().samples
}

fn row<'d>(difference: &'d ProfileDifference, symbol: &str) -> &'d FunctionRow {
    difference.functions.rows.iter().find(|row| row.symbol == symbol).unwrap()
}

#[test]
fn the_files_own_name_makes_no_other_command() {
    let of = |command: &str| {
        let mut made = profile("cpu-clock", 1000, &[(&["main"], 9)]);
        made.about.command = Some(command.into());
        made
    };
    let noted = |one: (&str, &str), two: (&str, &str)| {
        let made = [of(one.1), of(two.1)];
        let side = |name, profile| [ProfileOf { name, profile, ops: None }];
        let sides = [side(one.0, &made[0]), side(two.0, &made[1])];
        let difference = profile_difference([&sides[0], &sides[1]], names(), &[], &[]).unwrap();
        difference.notes.iter().any(|note| note.contains("commands differ"))
    };
    let first = ("old/1.data", "perf record -g -o 1.data ./work 5");
    assert!(!noted(first, ("2.data", "perf record -g -o 2.data ./work 5")));
    assert!(noted(first, ("2.data", "perf record -g -o 2.data ./work 6")));
}

#[test]
fn twice_the_samples_of_the_same_are_no_change_of_shares() {
    let stacks: [(&[&str], u64); 2] = [(&["main", "read"], 300), (&["main"], 100)];
    let one = profile("cpu-clock", 1000, &stacks);
    let twice = stacks.map(|(stack, samples)| (stack, 2 * samples));
    let two = profile("cpu-clock", 1000, &twice);
    let shares = compare(&one, &two, [None, None]).unwrap();
    assert_eq!(shares.measure, Measure::Share);
    assert!(
        shares.functions.rows.iter().all(|row| !row.verdict.is_found() && row.own.change == 0.0)
    );
    // For the same number of operations the cost is twice as high.
    let per_op = compare(&one, &two, [Some(100), Some(100)]).unwrap();
    let read = row(&per_op, "read");
    assert_eq!((values(read), read.verdict), ([3000.0, 6000.0], FunctionVerdict::Differs));
    let callers = read.callers.iter().map(|caller| (caller.symbol.as_str(), caller.own.change));
    assert_eq!(callers.collect::<Vec<_>>(), [("main", 3000.0)]);
    let total = (values(&per_op.total), per_op.total.verdict);
    assert_eq!(total, ([4000.0, 8000.0], FunctionVerdict::Differs));
    // For twice as many operations the cost is the same, even if a sample stands for less.
    let per_op = compare(&one, &two, [Some(100), Some(200)]).unwrap();
    assert!(per_op.functions.rows.iter().all(|row| row.p_adjusted == Some(1.0)));
    let finer = profile("cpu-clock", 500, &twice);
    let per_op = compare(&one, &finer, [Some(100), Some(100)]).unwrap();
    assert!(
        per_op
            .functions
            .rows
            .iter()
            .all(|row| row.p_adjusted == Some(1.0) && row.own.change == 0.0)
    );
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
    assert_eq!((samples(old), old.verdict), (Some([40, 0]), FunctionVerdict::Differs));
    assert_eq!((samples(new), new.verdict), (Some([0, 3]), FunctionVerdict::Inconclusive));
    // A part that the compiler split off counts as its function.
    assert_eq!(samples(f), Some([5, 5]));
    let sum: f64 = difference.functions.rows.iter().map(|row| row.own.change).sum();
    assert!(sum.abs() < 1e-12);
}

#[test]
fn a_part_that_the_compiler_split_off_is_not_called_by_its_function() {
    let of = |samples| {
        let parts: &[&str] = &["main", "f", "f.part.0"];
        profile("cpu-clock", 1, &[(&["main"], 100), (&["main", "f"], 20), (parts, samples)])
    };
    let difference = compare(&of(30), &of(200), [Some(1), Some(1)]).unwrap();
    let f = row(&difference, "f");
    assert_eq!((samples(f), f.verdict), (Some([50, 220]), FunctionVerdict::Differs));
    let callers = f.callers.iter().map(|caller| (caller.symbol.as_str(), caller.own.change));
    assert_eq!(callers.collect::<Vec<_>>(), [("main", 170.0)]);
}

#[test]
fn counted_costs_are_exact() {
    let text =
        |own: u64| format!("events: Ir\nob=/a/w\nfn=f\n1 {own}\nfn=g\n1 7\ntotals: {}\n", own + 10);
    let one = counted(&text(100));
    let two = counted(&text(101).replace("/a/w", "/b/w"));
    let difference = compare(&one, &two, [None, None]).unwrap();
    let f = row(&difference, "f");
    assert_eq!(
        (values(f), f.p_adjusted, f.verdict),
        ([100.0, 101.0], None, FunctionVerdict::Differs)
    );
    assert_eq!(row(&difference, "g").verdict, FunctionVerdict::Unchanged);
    assert_eq!(difference.judged, Judged::Exact);
    let unattributed = difference.unattributed.as_ref().unwrap();
    assert_eq!((unattributed.in_files.unwrap().cost, difference.total.own.change), ([3, 3], 1.0));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let clock = profile("cpu-clock", 1, &[(&["main"], 5)]);
    let cycles = profile("cycles:u", 1, &[(&["main"], 5)]);
    let error = compare(&clock, &cycles, [None, None]).unwrap_err();
    assert!(error.to_string().contains("a has the event cpu-clock and b has cycles:u"), "{error}");
    assert_eq!(error.status(), Status::NotComparable);
    let side = |name, profile| [ProfileOf { name, profile, ops: None }];
    let sides = [side("a", &clock), side("b", &cycles)];
    let allowed = [EVENT_RULE.to_string()];
    let waived = profile_difference([&sides[0], &sides[1]], names(), &allowed, &[]).unwrap();
    assert!(waived.notes[0].contains("waived"));
    let counted = counted("events: cpu-clock\nfn=f\n1 1\n");
    let error = compare(&counted, &clock, [None, None]).unwrap_err().to_string();
    assert!(error.starts_with("b was sampled and a was counted"), "{error}");
    let empty = profile("cpu-clock", 1, &[]);
    let error = compare(&clock, &empty, [None, None]).unwrap_err();
    assert_eq!(error, ProfileDifferenceError::Empty("b".into()));
    let error = profile_difference([&sides[0], &[]], names(), &[], &[]).unwrap_err();
    assert_eq!(error.to_string(), "the variant has no file; give one or more");
}

/// One file a side cannot show how runs differ from each other. Nothing is called changed, however far apart the two files are.
#[test]
fn one_file_a_side_never_shows_a_change() {
    let one = profile("cpu-clock", 1, &[(&["main"], 900), (&["main", "f"], 100)]);
    let two = profile("cpu-clock", 1, &[(&["main"], 100), (&["main", "f"], 900)]);
    for ops in [[None; 2], [Some(10); 2], [Some(10), Some(500)]] {
        let difference = compare(&one, &two, ops).unwrap();
        assert_eq!(difference.judged, Judged::Sampling);
        for row in difference.functions.rows.iter().chain([&difference.total]) {
            assert_ne!(row.verdict, FunctionVerdict::Changed, "{row:?}");
        }
        assert_eq!(row(&difference, "f").verdict, FunctionVerdict::Differs);
        assert!(difference.notes.iter().any(|note| note.contains("give several files a side")));
    }
    let counted = |own: u64| counted(&format!("events: Ir\nfn=f\n1 {own}\ntotals: {own}\n"));
    let difference = compare(&counted(5), &counted(6), [None, None]).unwrap();
    assert_eq!(difference.total.verdict, FunctionVerdict::Differs);
}

/// Where shares are shown, a part of all samples is judged: the rest of a large part is small, and tells.
#[test]
fn a_large_share_is_judged_by_what_it_leaves() {
    let of = |f: u64| profile("cpu-clock", 1, &[(&["main"], 10_000 - f), (&["main", "f"], f)]);
    let (one, two) = (of(9_000), of(9_150));
    let shares = compare(&one, &two, [None; 2]).unwrap();
    assert_eq!(row(&shares, "f").verdict, FunctionVerdict::Differs);
    assert_eq!(row(&shares, "main").verdict, FunctionVerdict::Differs);
    // The work of 10,000 samples is no fixed whole where operations are known.
    let rates = compare(&one, &two, [Some(10); 2]).unwrap();
    assert_eq!(row(&rates, "f").verdict, FunctionVerdict::Inconclusive);
}

/// Profiles of one program whose samples are drawn independently: at most one pair in 20 has a function that differs.
#[test]
fn samples_of_equal_shares_seldom_differ() {
    let random = opcost_stats::Random::new(6);
    let (mut shares, mut rates) = (0, 0);
    const TIMES: u64 = 400;
    for time in 0..TIMES {
        let mut random = random.fork(time);
        // One function has most samples, and the others have ever fewer.
        let mut draw = |samples: u64| {
            let mut counts = [0u64; 30];
            for _ in 0..samples {
                let at =
                    if random.unit_f64() < 0.6 { 0.0 } else { random.unit_f64().powi(2) * 30.0 };
                counts[at as usize] += 1;
            }
            let names: Vec<String> = (0..30).map(|at| format!("f{at}")).collect();
            let stacks: Vec<_> = names.iter().map(|name| [name.as_str()]).collect();
            let stacks: Vec<(&[&str], u64)> =
                stacks.iter().map(|stack| &stack[..]).zip(counts).collect();
            profile("cpu-clock", 1, &stacks)
        };
        let (one, two) = (draw(2000), draw(1500));
        let any = |ops: [Option<u64>; 2]| {
            let pair = compare(&one, &two, ops).unwrap();
            let differs = |row: &FunctionRow| row.verdict == FunctionVerdict::Differs;
            u32::from(pair.functions.rows.iter().any(differs))
        };
        shares += any([None; 2]);
        rates += any([Some(2000), Some(1500)]);
    }
    println!("{shares} pairs with a difference by shares, {rates} by rates, of {TIMES}");
    // 5 % and four standard deviations.
    assert!(shares <= 37 && rates <= 37, "{shares} {rates}");
}

/// A run of a program whose functions take their shares only roughly, like real runs: each function's samples vary by more than
/// sampling. `shift`: the factor on the first function's cost.
fn run(shift: f64, random: &mut opcost_stats::Random) -> ReadProfile {
    const FUNCTIONS: usize = 40;
    let names: Vec<String> = (0..FUNCTIONS).map(|at| format!("f{at}")).collect();
    let stacks: Vec<(Vec<&str>, u64)> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let mean = 400.0 / (at + 1) as f64 * if at == 0 { shift } else { 1.0 };
            let spread = 0.75 + 0.5 * random.unit_f64();
            (vec![name.as_str()], (mean * spread) as u64)
        })
        .collect();
    let stacks: Vec<(&[&str], u64)> =
        stacks.iter().map(|(stack, samples)| (&stack[..], *samples)).collect();
    profile("cpu-clock", 1, &stacks)
}

#[test]
fn equal_programs_of_several_files_are_seldom_called_changed() {
    let (mut alarms, mut differing, times) = (0, 0, 200);
    let random = opcost_stats::Random::new(4);
    for time in 0..times {
        let mut random = random.fork(time);
        let files: Vec<ReadProfile> = (0..16).map(|_| run(1.0, &mut random)).collect();
        let difference = compare_files(&files[..8], &files[8..]);
        assert_eq!(difference.judged, Judged::Files);
        let changed = |row: &FunctionRow| row.verdict == FunctionVerdict::Changed;
        alarms += u32::from(difference.functions.rows.iter().any(changed));
        let pair = compare(&files[0], &files[8], [None, None]).unwrap();
        differing += u32::from(
            pair.functions.rows.iter().any(|row| row.verdict == FunctionVerdict::Differs),
        );
    }
    // 5 % and four standard deviations of a share of 200; with one file a side, one in four differs.
    assert!(alarms <= 22, "{alarms} of {times}");
    assert!(differing > 30, "{differing} of {times}");
    println!("{alarms} false alarms by files, {differing} differences of two, of {times}");
}

#[test]
fn a_change_of_several_files_is_found_with_its_interval_and_fewer_say_how_many_are_needed() {
    let mut random = opcost_stats::Random::new(5);
    let mut side = |shift: f64, files: usize| -> Vec<ReadProfile> {
        (0..files).map(|_| run(shift, &mut random)).collect()
    };
    let (one, two) = (side(1.0, 8), side(2.5, 8));
    let difference = compare_files(&one, &two);
    let f0 = row(&difference, "f0");
    assert_eq!(f0.verdict, FunctionVerdict::Changed, "{f0:?}");
    let (low, high) = f0.ci.unwrap();
    assert!(0.0 < low && low <= f0.own.change && f0.own.change <= high, "{f0:?}");
    assert!(difference.ci_level.unwrap() > 0.95);
    assert!(difference.notes.is_empty(), "{:?}", difference.notes);
    // Interval and verdict follow one rule.
    for row in &difference.functions.rows {
        let outside = row.ci.is_some_and(|(low, high)| low > 0.0 || high < 0.0);
        assert_eq!(row.verdict == FunctionVerdict::Changed, outside, "{row:?}");
    }
    let few = compare_files(&one[..3], &two[..3]);
    let f0 = row(&few, "f0");
    assert_eq!(f0.verdict, FunctionVerdict::Inconclusive);
    assert_eq!(f0.reason, "needs 7 files a side");
    assert_eq!(f0.in_files.unwrap().files_needed, Some(7));
    // A function that is almost never seen is not tested, so it makes no other level stricter.
    let rare = few.functions.rows.iter().filter(|row| row.reason == "too few samples");
    assert!(rare.clone().all(|row| row.p_adjusted.is_none()));
}

#[test]
fn counted_files_that_agree_are_exact_and_others_are_tested() {
    let counted =
        |own: u64| counted(&format!("events: Ir\nfn=f\n1 {own}\nfn=g\n1 7\ntotals: {}\n", own + 7));
    let agreeing = compare_files(&[counted(5), counted(5)], &[counted(6), counted(6)]);
    let f = row(&agreeing, "f");
    assert_eq!((f.verdict, f.p_adjusted, f.own.change), (FunctionVerdict::Changed, None, 1.0));
    assert_eq!(row(&agreeing, "g").verdict, FunctionVerdict::Unchanged);
    let varying = compare_files(&[counted(5), counted(6)], &[counted(6), counted(7)]);
    assert_eq!(row(&varying, "f").verdict, FunctionVerdict::Inconclusive);
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
        let sum: f64 = difference.functions.rows.iter().map(|row| row.own.change).sum();
        prop_assert!((sum - difference.total.own.change).abs() < 1e-6);
        let p: Vec<f64> = difference.functions.rows.iter().filter_map(|row| row.p_adjusted).collect();
        prop_assert_eq!(p.len(), difference.functions.rows.len());
        for row in &difference.functions.rows {
            prop_assert!(!row.verdict.is_found() || row.p_adjusted <= Some(FALSE_SHARE));
        }
    }
}
