//! From recordings to verdicts: known answers, the null, refusals.

mod made;

use made::{key, plan, recording};
use opcost::comparison::{Comparison, Row, Severity, Verdict, Warning, compare};
use opcost::store::Recording;
use opcost_record::{CountingTime, Failure, Invariant, Outcome, Reading};
use opcost_stats::Random;

fn row<'a>(comparison: &'a Comparison, name: &str) -> &'a Row {
    comparison
        .rows
        .iter()
        .find(|row| row.key.name == name)
        .unwrap_or_else(|| panic!("no row {name}"))
}

/// A noisy figure: `level` with up to 2 % on top, and now and then a spike of half as much again.
fn noisy(level: f64, random: &mut Random) -> u64 {
    let spike = if random.below(20) == 0 { 1.5 } else { 1.0 };
    (level * (1.0 + 0.02 * random.unit_f64()) * spike) as u64
}

/// A recording in which the second variant takes so many times as long.
fn changed_by(factor: f64, seed: u64) -> Recording {
    let mut random = Random::new(seed);
    recording(plan(&["off", "on"], 22), |slot| {
        let factor = if slot.variant == 1 { factor } else { 1.0 };
        vec![Reading::plain(key("wall", "clock"), noisy(200_000.0 * factor, &mut random))]
    })
}

#[test]
fn a_change_is_found_with_its_size() {
    let made = changed_by(1.10, 1);
    let (comparison, warnings) = compare(&made);
    let wall = row(&comparison, "wall");
    let change = &wall.changes[0];
    assert_eq!(change.verdict, Verdict::Changed);
    let (low, high) = change.ci.unwrap();
    assert!(low < 0.10 && 0.10 < high && high - low < 0.05, "{low} {high}");
    assert!(change.p_adjusted.unwrap() <= 0.05);
    assert_eq!((change.n_pairs, wall.per_op, wall.primary), (22, true, true));
    // 200,000 ns over 1,000 operations.
    assert!((200.0..206.0).contains(&wall.values[0].as_ref().unwrap().center()));
    assert!(comparison.regressed() && !comparison.refused());
    assert!(
        comparison.conclusions[0].contains("on against off: wall +"),
        "{:?}",
        comparison.conclusions
    );
    assert_eq!(warnings, []);
}

#[test]
fn an_improvement_is_no_regression() {
    let (comparison, _) = compare(&changed_by(0.9, 2));
    assert_eq!(row(&comparison, "wall").changes[0].verdict, Verdict::Changed);
    assert!(!comparison.regressed());
}

/// Nine metrics that do not change: the share of reports with any alarm stays within 5 %.
#[test]
fn equal_variants_raise_no_alarm() {
    const METRICS: [(&str, &str); 9] = [
        ("wall", "clock"),
        ("task-clock", "perf_event"),
        ("user-time", "rusage"),
        ("system-time", "rusage"),
        ("minor-faults", "rusage"),
        ("context-switches", "perf_event"),
        ("page-faults", "perf_event"),
        ("tsc", "tsc"),
        ("peak-rss", "rusage"),
    ];
    let (reports, mut alarms) = (400, 0);
    for seed in 0..reports {
        let mut random = Random::new(1000 + seed);
        let mut run = 0.0;
        let made = recording(plan(&["off", "on"], 22), |_| {
            // The machine drifts by 10 % over the recording.
            run += 1.0;
            let drift = 1.0 + 0.1 * run / 46.0;
            let reading = |(name, source): &(&str, &str)| {
                Reading::plain(key(name, source), noisy(100_000.0 * drift, &mut random))
            };
            METRICS.iter().map(reading).collect()
        });
        let (comparison, _) = compare(&made);
        let changed = |row: &Row| row.changes[0].verdict == Verdict::Changed;
        alarms += u32::from(comparison.rows.iter().any(changed));
    }
    // 5 % and three standard deviations of a share of 400.
    assert!(f64::from(alarms) / f64::from(reports as u32) < 0.083, "{alarms} of {reports}");
}

#[test]
fn no_change_comes_with_what_would_have_been_found() {
    let (comparison, _) = compare(&changed_by(1.0, 3));
    let change = &row(&comparison, "wall").changes[0];
    assert_eq!(change.verdict, Verdict::Unchanged);
    let mde = change.mde_ratio.unwrap();
    assert!(0.001 < mde && mde < 0.2, "{mde}");
    assert!(
        comparison.conclusions[0].contains("no change in wall found"),
        "{:?}",
        comparison.conclusions
    );
}

#[test]
fn too_few_pairs_are_inconclusive_and_say_how_many_are_needed() {
    let made = recording(plan(&["off", "on"], 4), |slot| {
        let value = 100_000 + u64::from(slot.variant) * 50_000 + u64::from(slot.slot);
        vec![Reading::plain(key("wall", "clock"), value)]
    });
    let (comparison, warnings) = compare(&made);
    let change = &row(&comparison, "wall").changes[0];
    assert_eq!((change.verdict, change.reason.as_str()), (Verdict::Inconclusive, "needs 14 pairs"));
    assert_eq!(warnings, [Warning::TooFewPairs { pairs: 4, fewest: 22 }]);
}

#[test]
fn exact_figures_are_compared_exactly() {
    let made = recording(plan(&["off", "on"], 22), |slot| {
        vec![
            Reading::plain(key("wall", "clock"), 1000 + u64::from(slot.slot)),
            Reading::plain(key("page-faults", "perf_event"), 559),
            Reading::plain(key("minor-faults", "rusage"), 559 + u64::from(slot.variant)),
        ]
    });
    let (comparison, _) = compare(&made);
    let same = row(&comparison, "page-faults");
    assert!(same.exact && same.changes[0].identical);
    assert_eq!(same.changes[0].verdict, Verdict::Unchanged);
    assert_eq!(same.changes[0].p_adjusted, None);
    let one_more = row(&comparison, "minor-faults");
    assert_eq!(one_more.changes[0].verdict, Verdict::Changed);
    assert_eq!(one_more.changes[0].change_ratio, Some(1.0 / 559.0));
    assert_eq!(one_more.changes[0].p_adjusted, None);
}

#[test]
fn a_baseline_of_zero_has_a_detectable_difference_instead_of_a_ratio() {
    let mut random = Random::new(4);
    let made = recording(plan(&["off", "on"], 22), |_| {
        vec![
            Reading::plain(key("wall", "clock"), noisy(1e6, &mut random)),
            Reading::plain(key("context-switches", "perf_event"), u64::from(random.below(8) == 0)),
        ]
    });
    let (comparison, _) = compare(&made);
    let change = &row(&comparison, "context-switches").changes[0];
    assert_eq!(
        (change.verdict, change.change_ratio, change.mde_ratio),
        (Verdict::Unchanged, None, None)
    );
    // Of 1,000 operations a run: one more in a run is the least there can be.
    assert!(change.mde_difference.unwrap() >= 0.001);
}

#[test]
fn what_would_have_been_found_is_no_less_than_one_in_a_run() {
    // One run in 44 has one migration: to the test any shift at all would stand out.
    let made = recording(plan(&["off", "on"], 22), |slot| {
        let migrations = u64::from(slot.slot == 20);
        vec![
            Reading::plain(key("wall", "clock"), 1000 + u64::from(slot.slot % 5)),
            Reading::plain(key("cpu-migrations", "perf_event"), migrations),
        ]
    });
    let (comparison, _) = compare(&made);
    let change = &row(&comparison, "cpu-migrations").changes[0];
    assert_eq!((change.verdict, change.mde_difference), (Verdict::Unchanged, Some(0.001)));
}

#[test]
fn different_work_is_refused_unless_waived() {
    let mut made = recording(plan(&["off", "on"], 22), |slot| {
        let wall = 1000 + u64::from(slot.variant) * 500 + u64::from(slot.slot);
        vec![
            Reading::plain(key("wall", "clock"), wall),
            Reading::plain(key("context-switches", "perf_event"), u64::from(slot.slot == 9)),
        ]
    });
    for record in made.records.iter_mut().filter(|record| record.variant == 1) {
        record.invariants = vec![Invariant { name: "op-stream-hash".into(), value: "ffff".into() }];
    }
    let (comparison, _) = compare(&made);
    assert!(comparison.refused());
    let change = &row(&comparison, "wall").changes[0];
    assert_eq!(change.verdict, Verdict::NotComparable);
    assert_eq!((change.p_adjusted, change.ci, change.mde_ratio), (None, None, None));
    // Nor is it said what would have been found, be it as a ratio or as a figure.
    assert_eq!(row(&comparison, "context-switches").changes[0].mde_difference, None);
    let expected = "not comparable: the work was not the same: op-stream-hash differs \
                    (8c5e1d0a in 'off', ffff in 'on')";
    assert_eq!(comparison.conclusions, [expected]);

    made.plan.allow = vec!["invariants".into()];
    let (comparison, _) = compare(&made);
    assert!(!comparison.refused());
    assert_eq!(row(&comparison, "wall").changes[0].verdict, Verdict::Changed);
    let entry = comparison.ledger.iter().find(|entry| entry.rule == "invariants").unwrap();
    assert_eq!((entry.severity, entry.waived), (Severity::Refuse, true));
}

#[test]
fn a_multiplexed_counter_is_not_judged_and_never_scaled() {
    let made = recording(plan(&["off", "on"], 22), |slot| {
        let running_ns = if slot.slot == 9 { 400 } else { 1000 };
        vec![
            Reading::plain(key("wall", "clock"), 1000 + u64::from(slot.slot)),
            Reading {
                key: key("cycles", "perf_event"),
                value: 5000,
                time: Some(CountingTime { enabled_ns: 1000, running_ns }),
            },
        ]
    });
    let (comparison, _) = compare(&made);
    let cycles = row(&comparison, "cycles");
    assert_eq!(cycles.changes[0].verdict, Verdict::NotComparable);
    assert!(
        cycles.changes[0].reason.starts_with("multiplexed in 1 of 44 runs"),
        "{}",
        cycles.changes[0].reason
    );
    assert_eq!(cycles.values[0].as_ref().unwrap().max, Some(5.0));
    assert_eq!(row(&comparison, "wall").changes[0].verdict, Verdict::Unchanged);
}

#[test]
fn failed_runs_are_counted_and_left_out() {
    let mut made = recording(plan(&["off", "on"], 22), |slot| {
        vec![Reading::plain(key("wall", "clock"), 1000 + u64::from(slot.slot % 7))]
    });
    let failed = made.records.iter().position(|record| record.block == Some(3)).unwrap();
    made.records[failed].outcome = Outcome::Failed(Failure::Signal { signal: 9 });
    made.records[failed].samples[0].value = 1_000_000_000;
    let (comparison, _) = compare(&made);
    let failed: usize = comparison.variants.iter().map(|variant| variant.runs_failed).sum();
    let finished: usize = comparison.variants.iter().map(|variant| variant.runs_finished).sum();
    assert_eq!((failed, finished), (1, 43));
    assert!(row(&comparison, "wall").values.iter().flatten().all(|side| side.max.unwrap() < 2.0));
    let entry = comparison.ledger.iter().find(|entry| entry.rule == "runs").unwrap();
    assert_eq!(
        (entry.severity, entry.detail.as_str()),
        (Severity::Doubtful, "43 of 44 runs finished")
    );
}

#[test]
fn a_variant_without_any_finished_run_is_refused() {
    let mut made = recording(plan(&["off", "on"], 4), |slot| {
        vec![Reading::plain(key("wall", "clock"), 1000 + u64::from(slot.slot))]
    });
    for record in made.records.iter_mut().filter(|record| record.variant == 1) {
        record.outcome = Outcome::Failed(Failure::ExitStatus { code: 1 });
    }
    let (comparison, _) = compare(&made);
    assert!(comparison.refused());
    assert_eq!(comparison.conclusions, ["not comparable: no finished run of 'on'"]);
}

#[test]
fn three_variants_are_each_compared_with_the_first() {
    let made = recording(plan(&["off", "on", "cached"], 24), |slot| {
        let value = 100_000 + u64::from(slot.variant) * 20_000 + u64::from(slot.slot);
        vec![Reading::plain(key("wall", "clock"), value)]
    });
    let (comparison, _) = compare(&made);
    assert_eq!(comparison.comparisons, [(0, 1), (0, 2)]);
    let ratios: Vec<i64> = row(&comparison, "wall")
        .changes
        .iter()
        .map(|change| (change.change_ratio.unwrap() * 100.0).round() as i64)
        .collect();
    assert_eq!(ratios, [20, 40]);
    assert_eq!(comparison.conclusions.len(), 2);
}

#[test]
fn an_unfinished_recording_says_how_to_go_on() {
    let mut made = recording(plan(&["off", "on"], 22), |slot| {
        vec![Reading::plain(key("wall", "clock"), 1000 + u64::from(slot.slot))]
    });
    made.records.truncate(20);
    let (comparison, warnings) = compare(&made);
    assert_eq!(row(&comparison, "wall").values[0].as_ref().unwrap().n, 9);
    assert_eq!(
        warnings[0].to_string(),
        "the recording stopped after 20 of 46 runs; continue it with: opcost resume 261121-c0ffee"
    );
}

#[test]
fn a_recording_without_runs_is_no_reason_to_panic() {
    let mut made = recording(plan(&["off", "on"], 22), |_| Vec::new());
    made.records.clear();
    let (comparison, _) = compare(&made);
    assert!(comparison.refused() && comparison.rows.is_empty());
}
