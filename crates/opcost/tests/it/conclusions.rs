//! The answer in one sentence: the primary metric, and the words on other metrics.

use crate::made::{key, plan, recording};
use opcost_analysis::comparison::{Comparison, compare};
use opcost_model::plan::Slot;
use opcost_record::Reading;
use opcost_record::metric::EMULATOR;
use opcost_stats::Random;

/// A comparison of two metrics, instructions and wall; `primary` names one of them.
fn of_two_kinds(primary: &str, instructions: f64, wall: f64) -> Comparison {
    let mut random = Random::new(5);
    let mut plan = plan(&["off", "on"], 22);
    plan.primary = match primary {
        "wall" => key("wall", "clock"),
        name => key(name, "perf_event"),
    };
    let factor = |slot: &Slot, factor| if slot.variant == 1 { factor } else { 1.0 };
    let made = recording(plan, |slot| {
        let count = 1e9 * factor(slot, instructions) + random.below(1000) as f64;
        let time = 2e5 * factor(slot, wall) * (1.0 + 0.01 * random.unit_f64());
        vec![
            Reading::plain(key("wall", "clock"), time as u64),
            Reading::plain(key("instructions", "perf_event"), count as u64),
        ]
    });
    compare(&made).0
}

#[test]
fn one_sentence_reconciles_counts_and_time() {
    // The words on the metric of the other kind.
    let check = |primary, instructions, wall, expected: &str| {
        let comparison = of_two_kinds(primary, instructions, wall);
        let [conclusion] = comparison.conclusions.as_slice() else { panic!("one comparison") };
        assert!(conclusion.contains(expected), "{conclusion}");
        // Three lines of 80 columns, the mark included.
        assert!(conclusion.chars().count() <= 3 * 77, "{conclusion}");
    };
    check("instructions", 1.104, 1.0, "confidence); no change in wall found, 0.");
    check("instructions", 1.104, 1.2, "confidence); wall +19.");
    check("instructions", 1.104, 1.2, "%, real as well");
    check("instructions", 1.104, 0.9, "%, real: more instructions in less time");
    check("instructions", 0.9, 1.1, "; yet wall +");
    check("instructions", 0.9, 1.1, "%, real: fewer instructions in more time");
    check("instructions", 1.0, 1.0, "would have been; nor in wall, 0.");
    check("instructions", 1.0, 1.1, "would have been; yet wall +");
    check("wall", 1.0001, 1.0, "would have been; yet instructions +0.01");
    check("wall", 1.2, 0.9, "; yet instructions +20.00 %, real: more instructions in less time");
    check("wall", 1.0, 1.1, "confidence); no change in instructions found, ");
}

/// A comparison of several times; the variant takes `factors` times as much.
fn of_times(primary: &str, factors: &[(&str, &str, f64)]) -> Comparison {
    let mut random = Random::new(8);
    let mut plan = plan(&["off", "on"], 22);
    let source = factors.iter().find(|(name, ..)| *name == primary).unwrap().1;
    plan.primary = key(primary, source);
    let made = recording(plan, |slot| {
        let read = |(name, source, factor): &(&str, &str, f64)| {
            let factor = if slot.variant == 1 { *factor } else { 1.0 };
            // Wall has large noise, as from waiting for others, so it shows least.
            let noise = if *name == "wall" { 0.3 } else { 0.01 };
            let value = 2e5 * factor * (1.0 + noise * random.unit_f64());
            Reading::plain(key(name, source), value as u64)
        };
        factors.iter().map(read).collect()
    });
    compare(&made).0
}

/// Time has several metrics: if the primary one shows no change and another does, the conclusion
/// names the other and how it would decide.
#[test]
fn another_time_that_changed_is_named_and_proposed() {
    let check = |primary: &str, factors: &[(&str, &str, f64)], expected: &[&str], never: &str| {
        let comparison = of_times(primary, factors);
        let [conclusion] = comparison.conclusions.as_slice() else { panic!("one comparison") };
        for expected in expected {
            assert!(conclusion.contains(expected), "no '{expected}' in {conclusion}");
        }
        assert!(!conclusion.contains(never), "{conclusion}");
    };
    let (wall, clock) = (("wall", "clock", 1.0), ("task-clock", "perf_event", 1.05));
    let user = ("user-time", "rusage", 1.06);
    check(
        "wall",
        &[wall, clock, user],
        &[
            "no change in wall found; ",
            "; yet task-clock +",
            " %, user-time +",
            " %, real: run again with --primary task-clock to let it decide",
        ],
        "nor in",
    );
    check("wall", &[wall, ("task-clock", "perf_event", 1.0)], &["no change in wall found"], "yet");
    // Two metrics that agree need no words; two that contradict each other do.
    let slower = ("wall", "clock", 2.0);
    check("wall", &[slower, clock], &["wall +"], "task-clock");
    let busier = ("task-clock", "perf_event", 0.9);
    check("wall", &[slower, busier], &["; yet task-clock −", " %, real"], "run again");
    // Beside counts, the conclusion names the time that changed, not the first time.
    let count = ("instructions", "perf_event", 1.1);
    check("instructions", &[count, wall, clock], &["; task-clock +", "real as well"], "wall");
}

/// The time stamp counter and the clock measure the same: only one of them is judged.
#[test]
fn one_clock_is_judged() {
    let clocks = [("wall", "clock", 1.0), ("tsc", "tsc", 1.1)];
    let rows = |primary| -> Vec<String> {
        of_times(primary, &clocks).rows.iter().map(|row| row.label.clone()).collect()
    };
    assert_eq!((rows("wall"), rows("tsc")), (vec!["wall".to_string()], vec!["tsc".to_string()]));
}

#[test]
fn a_formula_of_earlier_versions_is_not_shown() {
    let mut plan = plan(&["off", "on"], 22);
    plan.primary = key("instructions", EMULATOR);
    let made = recording(plan, |slot| {
        let (variant, block) = (u64::from(slot.variant), u64::from(slot.block.unwrap_or(0)));
        let count = |name, value| Reading::plain(key(name, EMULATOR), value);
        vec![
            count("estimated-cycles", 58_000_000 - 37_000_000 * variant + block),
            count("instructions", 8_000_000 + 4_000_000 * variant + block),
        ]
    });
    let rows = compare(&made).0.rows;
    assert_eq!(rows.iter().map(|row| row.label.as_str()).collect::<Vec<_>>(), ["instructions"]);
}
