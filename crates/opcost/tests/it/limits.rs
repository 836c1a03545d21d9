//! The verdict of `--fail-on` on a comparison, and the exit status.

use crate::lab::Lab;
use crate::made::emulated::{self, Tree};
use crate::made::{key, plan, recording};
use opcost_analysis::comparison::limit::{FailOn, LimitError, exceeded};
use opcost_analysis::comparison::{Comparison, compare};
use opcost_record::Reading;

fn limits(texts: &[&str]) -> Vec<FailOn> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// A comparison with wall 10 % and memory 4 KiB up, task-clock alike, faults from none to 5.
fn comparison() -> Comparison {
    let made = recording(plan(&["off", "on"], 22), |slot| {
        let (variant, wobble) = (u64::from(slot.variant), u64::from(slot.slot * 37 % 11));
        let read = |name, source, value| Reading::plain(key(name, source), value);
        vec![
            read("wall", "clock", 100_000 + 10_000 * variant + 10 * wobble),
            read("task-clock", "perf_event", 100_000 + 10 * wobble),
            read("major-faults", "rusage", 5 * variant * (1 + wobble)),
            read("peak-rss", "rusage", 3_000_000 + 4096 * variant),
        ]
    });
    compare(&made).0
}

#[track_caller]
fn check(comparison: &Comparison, texts: &[&str], expected: &[&str]) {
    let found = exceeded(comparison, &limits(texts)).unwrap().exceeded;
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "no '{expected}' in {found}");
    }
}

#[test]
fn a_change_fails_if_it_is_real_worse_and_beyond_its_limit() {
    let comparison = comparison();
    check(&comparison, &["regression"], &["on against off: wall +"]);
    check(&comparison, &["regression=5%"], &["wall +10.00 %, more than 5.00 %"]);
    check(&comparison, &["regression=20%"], &[]);
    // The change is ten nanoseconds an operation, as in the row.
    check(&comparison, &["regression=9ns"], &["more than 9 ns"]);
    check(&comparison, &["regression=11ns"], &[]);
    // Either part of a limit is enough to allow the change.
    check(&comparison, &["regression=5% or 11ns"], &[]);
    check(&comparison, &["regression=20% or 9ns"], &[]);
    check(&comparison, &["regression=5% or 9ns"], &["more than 5.00 % or 9 ns"]);
    check(&comparison, &["task-clock"], &[]);
    check(&comparison, &["peak-rss=4KiB"], &[]);
    check(&comparison, &["peak-rss=4000"], &["peak-rss +0.14 %, more than 3.906 KiB"]);
    // Above a baseline of 0, every share is exceeded.
    check(&comparison, &["major-faults=1000%"], &["major-faults"]);
    check(&comparison, &["regression", "peak-rss", "task-clock"], &["wall", "peak-rss"]);
}

#[test]
fn what_is_better_does_not_fail() {
    let made = recording(plan(&["off", "on"], 22), |slot| {
        let wall = 100_000 - 10_000 * u64::from(slot.variant) + u64::from(slot.slot % 7);
        vec![Reading::plain(key("wall", "clock"), wall)]
    });
    check(&compare(&made).0, &["regression", "wall=0%"], &[]);
}

#[test]
fn limits_of_what_is_not_there_are_errors() {
    let comparison = comparison();
    let error = |text: &str| exceeded(&comparison, &limits(&[text])).unwrap_err();
    assert!(matches!(error("cycles=1%"), LimitError::NoMetric { .. }));
    let text = error("wall=4KiB").to_string();
    assert_eq!(text, "--fail-on wall: its figures are times, and the limit is bytes");
    assert_eq!(error("functions"), LimitError::NoFunctions);
}

#[test]
fn what_cannot_be_judged_is_said() {
    let few = recording(plan(&["off", "on"], 4), |slot| {
        vec![Reading::plain(key("wall", "clock"), 1000 + u64::from(slot.slot))]
    });
    let found = exceeded(&compare(&few).0, &limits(&["regression"])).unwrap();
    assert!(found.exceeded.is_empty());
    assert_eq!(found.undecided, ["on against off: wall cannot be judged: needs 7 pairs"]);
}

#[test]
fn functions_have_limits_too() {
    let made = emulated::recording(emulated::plan(&["off", "on"], 16), 0, |slot| {
        let (variant, block) = (u64::from(slot.variant), u64::from(slot.block.unwrap_or(0)));
        let mut tree = Tree::default();
        let main = tree.add(None, "main", "/bin/work", 1, 900_000 + block);
        tree.kernel(main, "grown", 1, 50_000 + 20_000 * variant);
        tree.kernel(main, "shrunk", 1, 50_000 - 30_000 * variant);
        (tree.grown(), vec![])
    });
    let (comparison, _) = compare(&made);
    check(&comparison, &["functions"], &["grown +20 (+2.00 % of all)"]);
    check(&comparison, &["functions=1%"], &["more than 1.00 %"]);
    check(&comparison, &["functions=3%"], &[]);
    check(&comparison, &["functions=25"], &[]);
    // The total got cheaper.
    check(&comparison, &["regression"], &[]);
}

const SAMPLES: &str = "variant,metric,value,unit
old,wall,100,ms\nold,wall,101,ms\nold,wall,102,ms\nold,wall,103,ms\nold,wall,104,ms\nold,wall,105,ms
new,wall,110,ms\nnew,wall,111,ms\nnew,wall,112,ms\nnew,wall,113,ms\nnew,wall,114,ms\nnew,wall,115,ms
";

#[test]
fn the_exit_status_says_whether_a_limit_is_exceeded() {
    let lab = Lab::new();
    lab.write("samples.csv", SAMPLES);
    let import = |limit: &str| lab.run(&["import", "samples.csv", "--fail-on", limit]);
    import("regression").expect(1).says(&["opcost: worse: new against old: wall +9."]);
    import("regression=5%").expect(1).says(&["more than 5.00 %"]);
    import("regression=20%").expect(0);
    import("wall=5ms").expect(1);
    import("wall=50ms").expect(0);
    import("walls")
        .expect(2)
        .says(&["there is no such metric; give regression, functions, or one of wall"]);
    import("wall=5 parsecs").expect(2).says(&["'5 parsecs' is no limit", "2ms"]);
    let show = |limits: &[&str]| lab.run(&[&["show"], limits].concat());
    show(&["--fail-on", "wall=20%", "--fail-on", "regression=1ms"]).expect(1);
    // The mistake is found before any run is made.
    let early = ["compare", "true", "false", "--fail-on", "wal=1%"];
    lab.run(&early).expect(2).says(&["no such metric (did you mean wall?)"]);
}
