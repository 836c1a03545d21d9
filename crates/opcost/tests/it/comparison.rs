//! From recordings to verdicts: known answers, the null, refusals.

use crate::made;
use crate::made::{key, plan, recording};
use opcost_analysis::comparison::{Comparison, Row, Severity, Verdict, Warning, compare};
use opcost_model::plan::Slot;
use opcost_model::recording::Recording;
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

/// A recording in which the second variant takes `factor` times as long.
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

/// With nine metrics that do not change, the share of reports with any alarm stays within 5 %.
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
    let (reports, mut alarms) = (200, 0);
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
    // 5 % and three standard deviations of a share of 200.
    assert!(f64::from(alarms) / f64::from(reports as u32) < 0.097, "{alarms} of {reports}");
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
    assert_eq!((change.verdict, change.reason.as_str()), (Verdict::Inconclusive, "needs 7 pairs"));
    assert_eq!(change.pairs_needed, Some(7));
    // The warning counts the metrics that this report decides, not those of the plan.
    assert_eq!(warnings, [Warning::TooFewPairs { pairs: 4, fewest: 7 }]);
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
    // A run has 1,000 operations: the least change is one more in a run.
    assert!(change.mde_difference.unwrap() >= 0.001);
}

#[test]
fn what_would_have_been_found_is_no_less_than_one_in_a_run() {
    // One run in 44 has one migration: for the test alone, any shift would stand out.
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
    // The minimal detectable effect is also missing, as a ratio and as a figure.
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
    made.records[failed].outcome = Outcome::Failed(Failure::Signal { signal: 9, stderr: None });
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
        record.outcome = Outcome::Failed(Failure::ExitStatus { code: 1, stderr: None });
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

/// A metric that some runs lack is undecided for that reason, and more pairs would not help.
#[test]
fn a_metric_that_runs_lack_says_in_how_many_it_is() {
    let made = recording(plan(&["off", "on"], 12), |slot| {
        let wall = 1000 + u64::from(slot.variant) * 500 + u64::from(slot.slot);
        let mut read = vec![Reading::plain(key("wall", "clock"), wall)];
        if slot.block.is_some_and(|block| block < 5) {
            read.push(Reading::plain(key("peak-rss", "rusage"), wall));
        }
        read
    });
    let (comparison, warnings) = compare(&made);
    let change = &row(&comparison, "peak-rss").changes[0];
    assert_eq!(
        (change.verdict, change.reason.as_str()),
        (Verdict::Inconclusive, "in 5 of 12 pairs")
    );
    assert_eq!(warnings, []);
}

/// A comparison whose wall time is a function of the slot's number and noise, and its observations.
fn observed(wall: impl Fn(f64, f64) -> f64) -> (Comparison, Vec<String>) {
    let mut random = Random::new(6);
    let made = recording(plan(&["off", "on"], 60), |slot| {
        let noise = 0.01 * random.unit_f64();
        vec![Reading::plain(key("wall", "clock"), (2e5 * wall(f64::from(slot.slot), noise)) as u64)]
    });
    let (comparison, _) = compare(&made);
    let told = comparison.observed();
    (comparison, told)
}

#[test]
fn what_is_notable_of_the_runs_is_told_and_changes_nothing() {
    let check = |wall: fn(f64, f64) -> f64, begin: &str, end: &str| {
        let (comparison, told) = observed(wall);
        let [only] = told.as_slice() else { panic!("{told:?}") };
        assert!(only.starts_with(begin) && only.ends_with(end), "{only}");
        assert_eq!(row(&comparison, "wall").changes[0].verdict, Verdict::Unchanged);
        assert_eq!(row(&comparison, "wall").changes[0].n_pairs, 60);
    };
    assert_eq!(observed(|_, noise| 1.0 + noise).1, [""; 0]);
    check(
        |slot, noise| 1.0 + noise + 0.001 * slot,
        "drift over the recording: wall of 'off' +1",
        "; neighbours are compared, so little of it is left; a settled machine has less",
    );
    check(
        |slot, noise| 1.0 + noise + if slot < 14.0 { 0.012 } else { 0.0 },
        "the first runs differ: wall of 'off' +1.",
        "in the first 6; more --warmup would leave them out",
    );
    check(
        |slot, noise| 1.0 + noise + 0.05 * (slot / 4.0).sin(),
        "neighbouring runs are alike: wall of 'off' (r = 0.",
        "; the blocks allow for it; spread runs tell more",
    );
    check(
        |slot, noise| 1.0 + noise + if slot % 40.0 == 7.0 { 0.5 } else { 0.0 },
        "outliers: wall of 'o",
        "× the median; none was removed; opcost doctor says what disturbs",
    );
}

/// Equal, independent runs seldom have an observation.
#[test]
fn observations_of_nothing_are_as_rare_as_stated() {
    let (reports, mut alarms) = (300, 0);
    for seed in 0..reports {
        let mut random = Random::new(7000 + seed);
        let made = recording(plan(&["off", "on"], 22), |_| {
            let mut reading = |name, source| {
                let sum: f64 = (0..6).map(|_| random.unit_f64()).sum();
                Reading::plain(key(name, source), (1e6 * (1.0 + 0.01 * sum)) as u64)
            };
            vec![
                reading("wall", "clock"),
                reading("task-clock", "perf_event"),
                reading("user-time", "rusage"),
            ]
        });
        alarms += u32::from(!compare(&made).0.observations.is_empty());
    }
    // 5 % and three standard deviations of a share of 300.
    assert!(f64::from(alarms) / 300.0 < 0.088, "{alarms} of 300");
}

/// An emulated comparison whose second variant counts `more` instructions more in each block.
fn emulated_by(more: u64, layout: impl Fn(u64) -> u64) -> Comparison {
    let plan = made::emulated::plan(&["off", "on"], 16);
    let recording = made::emulated::recording(plan, 0, |slot| {
        let (block, variant) = (u64::from(slot.block.unwrap_or(0)), u64::from(slot.variant));
        let mut tree = made::emulated::Tree::default();
        tree.add(None, "main", "/bin/work", 1, 1_000_000 + layout(block) + more * variant);
        (tree.grown(), vec![])
    });
    compare(&recording).0
}

#[test]
fn a_count_that_changed_less_than_layouts_do_says_so() {
    let layout = |block: u64| block * 37 % 16 * 10;
    let small = emulated_by(9, layout);
    let change = &row(&small, "instructions").changes[0];
    assert_eq!(change.verdict, Verdict::Changed, "it is real for each seed");
    let floor = change.below_floor().unwrap();
    // Deviations from the median of 0, 10, … 150 have the median 40.
    let expected = 1.96 * 2f64.sqrt() * 40.0 / 0.674_489_750_196_081_7 / 1_000_075.0;
    assert!((floor - expected).abs() < 1e-9, "{floor} is not {expected}");
    assert!(change.reason.starts_with("real, but seeds and layouts alone shift it by up to 0.016"));
    assert!(
        small.conclusions[0].contains(
            ", but layouts alone shift it by up to 0.016 % (16 layouts); main +9 a call in each of 16 layouts"
        ),
        "{:?}",
        small.conclusions
    );
    let large = emulated_by(1000, layout);
    let change = &row(&large, "instructions").changes[0];
    assert_eq!((change.verdict, change.below_floor()), (Verdict::Changed, None));
    assert!(change.relevance_floor_ratio.is_some());
    // If layouts shift nothing, no change is too small.
    let exact = emulated_by(1, |_| 0);
    let change = &row(&exact, "instructions").changes[0];
    assert_eq!((change.verdict, change.below_floor()), (Verdict::Changed, None));
}

/// Every report finds a ten-thousandth more instructions, planted above the shift by seeds.
#[test]
fn a_ten_thousandth_of_a_count_is_found_every_time() {
    for seed in 0..50 {
        let comparison = emulated_by(100, |block| Random::new(seed).fork(block).below(10));
        let change = &row(&comparison, "instructions").changes[0];
        assert_eq!((change.verdict, change.below_floor()), (Verdict::Changed, None), "{seed}");
    }
}

#[test]
fn builds_are_the_units_where_something_is_built() {
    // The layout of each build makes it some 1 % faster or slower; all its blocks agree.
    const LAYOUTS: [f64; 8] = [0.015, -0.012, 0.009, -0.014, 0.011, -0.008, 0.013, -0.01];
    let made = |blocks: u32| {
        let mut plan = plan(&["off", "on"], 96);
        let build = Some(opcost_model::plan::BuildPlan { command: "make".into(), blocks });
        plan.target = opcost_model::plan::Target::Host(opcost_model::plan::HostPlan {
            build,
            ..Default::default()
        });
        recording(plan, |slot| {
            let layout = LAYOUTS[(slot.block.unwrap_or(0) / 6) as usize] * f64::from(slot.variant);
            let wall = 2e5 * (1.0 + layout) + f64::from(slot.slot % 7);
            vec![Reading::plain(key("wall", "clock"), wall as u64)]
        })
    };
    let (by_build, _) = compare(&made(6));
    let change = &row(&by_build, "wall").changes[0];
    assert_eq!(change.paired.as_ref().unwrap().differences().len(), 8, "48 blocks, 8 builds");
    assert_eq!(change.verdict, Verdict::Unchanged);
    assert!(by_build.heading.contains(&"8 builds".to_string()), "{:?}", by_build.heading);
    // Blocks taken as independent would claim eight times the information that there is.
    let (by_block, _) = compare(&made(1));
    let by_block = row(&by_block, "wall").changes[0].mde_ratio;
    assert!(by_block.is_none_or(|mde| mde < 0.7 * change.mde_ratio.unwrap()), "{by_block:?}");
}

#[test]
fn a_recording_that_its_plan_stopped_is_whole_and_says_why() {
    let mut made = recording(plan(&["off", "on"], 60), |slot| {
        vec![Reading::plain(key("wall", "clock"), 1000 + u64::from(slot.slot % 7))]
    });
    made.plan.stop.width_ratio = Some(0.005);
    made.records.truncate(2 + 4 * 14);
    made.state = opcost_model::recording::State::StoppedWidth;
    let (comparison, warnings) = compare(&made);
    assert_eq!(warnings, []);
    let stopped = comparison.stopped.as_deref();
    assert_eq!(stopped, Some("stopped after 28 pairs: the interval of wall is within 0.50 %"));
    assert!(comparison.heading.contains(&"28 pairs".to_string()), "{:?}", comparison.heading);
    assert!(comparison.ledger.iter().all(|entry| entry.severity == Severity::Fine));
    made.plan.stop.budget_ms = Some(60_000);
    made.records.truncate(2 + 4 * 5);
    made.state = opcost_model::recording::State::StoppedBudget;
    let (comparison, warnings) = compare(&made);
    let stopped = comparison.stopped.as_deref();
    assert_eq!(stopped, Some("stopped after 10 pairs: 60 s are spent"));
    // Five mirrored blocks were made; two more would decide the only metric.
    assert_eq!(warnings, [Warning::TooFewPairs { pairs: 10, fewest: 14 }]);
}

#[test]
fn a_recording_says_what_more_time_would_buy() {
    let stopped = |slower: u64, least: u32, made: usize| {
        let mut recording = recording(plan(&["off", "on"], 60), |slot| {
            let wobble = u64::from(slot.slot.wrapping_mul(2_654_435_761) % 101);
            let wall = 10_000 + wobble + slower * u64::from(slot.variant);
            vec![Reading::plain(key("wall", "clock"), wall)]
        });
        recording.plan.stop.budget_ms = Some(6_000);
        recording.plan.stop.blocks_min = least;
        recording.records.truncate(2 + 4 * made);
        recording.state = match made {
            30 => opcost_model::recording::State::Finished,
            _ => opcost_model::recording::State::StoppedBudget,
        };
        let (comparison, _) = compare(&recording);
        let change = &row(&comparison, "wall").changes[0];
        let half = change.mde_ratio.map(|mde| opcost_base::number::magnitude(mde / 2.0));
        (comparison.stopped.unwrap_or_default(), half.unwrap_or_default())
    };
    let (said, half) = stopped(0, 11, 20);
    let expected = format!("40 pairs: 6 s are spent; --budget 24s would find about {half} of wall");
    assert_eq!(said, format!("stopped after {expected}"));
    // Long runs are made in the least number, whatever time that takes.
    let (said, _) = stopped(0, 20, 20);
    assert!(said.contains("-n 160 would find about"), "{said}");
    let (said, _) = stopped(0, 11, 30);
    assert!(said.starts_with("all 60 pairs are made; -n 240 would find about"), "{said}");
    let (said, _) = stopped(900, 11, 20);
    assert!(said.ends_with("; --budget 24s would about halve the interval of wall"), "{said}");
}

/// Poor input: one run of each, no spread at all, nothing but zeros, a metric that some runs lack.
/// The report states the gaps and makes up no figure.
#[test]
fn poor_input_gives_no_figures() {
    let check = |read: &dyn Fn(&Slot) -> Option<u64>| {
        let made = recording(plan(&["off", "on"], 22), |slot| {
            let wall = read(slot).map(|value| Reading::plain(key("wall", "clock"), value));
            wall.into_iter().collect()
        });
        let (comparison, _) = compare(&made);
        for row in &comparison.rows {
            for change in &row.changes {
                let figures = [change.change_ratio, change.ratio_of_medians, change.mde_ratio];
                assert!(figures.iter().flatten().all(|figure| figure.is_finite()), "{change:?}");
            }
        }
        comparison
    };
    // No spread on either side.
    let equal = check(&|_| Some(500));
    assert!(row(&equal, "wall").changes[0].identical);
    let zeros = check(&|_| Some(0));
    let change = &row(&zeros, "wall").changes[0];
    assert_eq!((change.verdict, change.change_ratio), (Verdict::Unchanged, Some(0.0)));
    let from_zero = check(&|slot| Some(u64::from(slot.variant) * 7));
    let change = &row(&from_zero, "wall").changes[0];
    assert_eq!((change.verdict, change.change_ratio), (Verdict::Changed, None));
    // A third of the runs have no reading: their blocks are left out, and the other blocks are compared.
    let gaps = check(&|slot| (slot.slot % 3 != 0).then_some(1000 + u64::from(slot.slot % 5)));
    let wall = row(&gaps, "wall");
    assert!(wall.changes[0].n_pairs < 22 && wall.changes[0].n_pairs > 5);
    assert!(wall.values.iter().flatten().all(|side| side.n < 22));
    let one_side = check(&|slot| (slot.variant == 0).then_some(1000));
    let change = &row(&one_side, "wall").changes[0];
    assert_eq!(
        (change.verdict, change.reason.as_str()),
        (Verdict::Unavailable, "no finished run has it")
    );
}

#[test]
fn one_run_of_each_is_inconclusive_and_says_how_many_are_needed() {
    let mut made = recording(plan(&["off", "on"], 22), |slot| {
        vec![Reading::plain(key("wall", "clock"), 1000 + 500 * u64::from(slot.variant))]
    });
    made.records.retain(|record| record.block == Some(0));
    let first = made.records.iter().position(|record| record.variant == 1).unwrap();
    made.records.swap(0, first);
    let other = made.records.iter().position(|record| record.variant == 0).unwrap();
    made.records.swap(1, other);
    made.records.truncate(2);
    made.state = opcost_model::recording::State::Interrupted;
    let (comparison, _) = compare(&made);
    let change = &row(&comparison, "wall").changes[0];
    assert_eq!((change.verdict, change.n_pairs), (Verdict::Inconclusive, 1));
    assert_eq!(
        (change.ci, change.mde_ratio, change.reason.as_str()),
        (None, None, "needs 7 pairs")
    );
    assert!(comparison.observations.is_empty());
}

#[test]
fn comparisons_are_sorted_by_their_change_where_that_is_asked_for() {
    let made = recording(plan(&["off", "on", "cached"], 24), |slot| {
        let wall = [1000, 1500, 700][usize::from(slot.variant)] + u64::from(slot.slot % 7);
        vec![Reading::plain(key("wall", "clock"), wall)]
    });
    let (mut comparison, _) = compare(&made);
    let changes = |comparison: &Comparison| -> Vec<bool> {
        row(comparison, "wall")
            .changes
            .iter()
            .map(|change| change.change_ratio > Some(0.0))
            .collect()
    };
    assert_eq!(comparison.comparisons, [(0, 1), (0, 2)]);
    assert_eq!(changes(&comparison), [true, false]);
    comparison.sort_by_change();
    assert_eq!(comparison.comparisons, [(0, 2), (0, 1)]);
    assert_eq!(changes(&comparison), [false, true]);
    assert!(comparison.conclusions[0].starts_with("cached against off: wall −29"));
}
