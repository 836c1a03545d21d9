//! Carry-over: a run that costs more behind one variant than behind the other withholds the verdict, and `--block` avoids it.

use crate::lab::Lab;
use crate::made::{NoCounters, key, recording};
use opcost_analysis::comparison::{Change, Comparison, LedgerEntry, Severity, Verdict, compare};
use opcost_lab::resolve::resolve;
use opcost_model::experiment::{Experiment, Seed, Variant};
use opcost_model::plan::Plan;
use opcost_model::recording::Recording;
use opcost_record::Reading;
use opcost_stats::Random;

/// A plan of equal workloads of these names.
fn plan(names: &[&str], pairs: u32) -> Plan {
    planned(names, Some(pairs), None)
}

fn planned(names: &[&str], pairs: Option<u32>, block: Option<u32>) -> Plan {
    resolve(&experiment(names, pairs, block), &NoCounters).unwrap()
}

fn experiment(names: &[&str], pairs: Option<u32>, block: Option<u32>) -> Experiment {
    let variant = |name: &&str| Variant {
        name: Some(name.to_string()),
        workload: Some("syscall".into()),
        ..Variant::default()
    };
    Experiment {
        pairs,
        block,
        seed: Some(Seed::Number(1)),
        variants: names.iter().map(variant).collect(),
        ..Experiment::default()
    }
}

/// A recording of equal variants in which a run behind the first costs a fifth more wall time and CPU time, but no more faults.
fn carried(plan: Plan) -> Recording {
    let mut random = Random::new(3);
    let mut before = None;
    recording(plan, |slot| {
        let mut figure = |level: f64| (level * (1.0 + 0.02 * random.unit_f64())) as u64;
        let dearer = if before == Some(0) { 1.2 } else { 1.0 };
        before = Some(slot.variant);
        vec![
            Reading::plain(key("wall", "clock"), figure(200_000.0 * dearer)),
            Reading::plain(key("task-clock", "perf_event"), figure(190_000.0 * dearer)),
            Reading::plain(
                key("peak-rss", "rusage"),
                figure(900_000.0 + 90_000.0 * f64::from(slot.variant)),
            ),
        ]
    })
}

/// A recording of variants that leave nothing behind, of which the second takes a tenth longer.
fn slower(plan: Plan) -> Recording {
    let mut random = Random::new(4);
    recording(plan, |slot| {
        let level = 200_000.0 * (1.0 + 0.1 * f64::from(slot.variant));
        let mut figure = |share: f64| (level * share * (1.0 + 0.02 * random.unit_f64())) as u64;
        vec![
            Reading::plain(key("wall", "clock"), figure(1.0)),
            Reading::plain(key("task-clock", "perf_event"), figure(0.95)),
        ]
    })
}

fn change<'a>(comparison: &'a Comparison, name: &str, index: usize) -> &'a Change {
    let row = comparison.rows.iter().find(|row| row.key.name == name);
    &row.unwrap_or_else(|| panic!("no row {name}")).changes[index]
}

fn rule(comparison: &Comparison) -> &LedgerEntry {
    comparison.ledger.iter().find(|entry| entry.rule == "carry-over").unwrap()
}

#[test]
fn what_a_run_leaves_behind_withholds_the_verdict() {
    for pairs in [24, 60] {
        let (comparison, _) = compare(&carried(plan(&["A", "B"], pairs)));
        for name in ["wall", "task-clock"] {
            let change = change(&comparison, name, 0);
            assert_eq!(change.verdict, Verdict::Inconclusive, "{name} of {pairs} pairs");
            assert_eq!(change.reason, "carry-over; of runs behind their own variant");
            // Behind itself A costs a fifth more than B.
            let ratio = change.change_ratio.unwrap();
            assert!((ratio + 1.0 / 6.0).abs() < 0.01, "{name} of {pairs} pairs: {ratio}");
            assert!(change.ci.is_none() && change.p_adjusted.is_none());
        }
        assert_eq!(change(&comparison, "peak-rss", 0).verdict, Verdict::Changed);
        let entry = rule(&comparison);
        assert_eq!((entry.severity, entry.known), (Severity::Doubtful, true));
        for part in ["a run behind 'A' costs +", "--prepare sync", "--block 2", "the change is −16"]
        {
            assert!(entry.detail.contains(part), "{part} in {}", entry.detail);
        }
        let found: Vec<&str> = comparison
            .carry_over
            .iter()
            .filter(|test| test.found)
            .map(|test| test.metric.as_str())
            .collect();
        assert_eq!(found, ["wall", "task-clock"]);
        let carried = comparison.carry_over[0].change_ratio.unwrap();
        assert!((carried - 0.2).abs() < 0.02, "{carried}");
        assert!(
            comparison.conclusions[0].contains("inconclusive: carry-over"),
            "{:?}",
            comparison.conclusions
        );
    }
}

#[test]
fn a_change_that_a_carry_over_may_have_made_is_undecided() {
    // Too few pairs for the test, in which B is significantly dearer, though alone it is cheaper.
    let (comparison, _) = compare(&carried(plan(&["A", "B"], 8)));
    let wall = change(&comparison, "wall", 0);
    assert_eq!(wall.verdict, Verdict::Inconclusive);
    assert!(wall.change_ratio.unwrap() > 0.05 && wall.ci.is_none(), "{wall:?}");
    assert!(wall.reason.starts_with("carry-over not excluded; −1"), "{}", wall.reason);
    let entry = rule(&comparison);
    assert_eq!((entry.severity, entry.known), (Severity::Doubtful, true));
    for part in ["'B' against 'A': wall +", "each runs behind itself", "-n 32", "--block 2"] {
        assert!(entry.detail.contains(part), "{part} in {}", entry.detail);
    }
    let test = comparison.carry_over.iter().find(|test| test.metric == "wall").unwrap();
    let alone = test.alone_ratio.unwrap();
    assert!(!test.found && (alone + 1.0 / 6.0).abs() < 0.05, "{test:?}");
    // What no run leaves behind in this metric stands.
    assert_eq!(change(&comparison, "peak-rss", 0).verdict, Verdict::Changed);
    let mut waived = plan(&["A", "B"], 8);
    waived.allow = vec!["carry-over".into()];
    let (comparison, _) = compare(&carried(waived));
    assert!(rule(&comparison).waived);
    assert_eq!(change(&comparison, "wall", 0).verdict, Verdict::Changed);
}

#[test]
fn a_waived_carry_over_leaves_the_plain_verdict() {
    let mut asked = plan(&["A", "B"], 24);
    asked.allow = vec!["carry-over".into()];
    let (comparison, _) = compare(&carried(asked));
    assert_eq!(change(&comparison, "wall", 0).verdict, Verdict::Changed);
    assert!(rule(&comparison).waived && comparison.carry_over[0].found);
}

#[test]
fn without_a_carry_over_the_verdict_stands() {
    let (comparison, _) = compare(&slower(plan(&["A", "B"], 24)));
    assert_eq!(change(&comparison, "wall", 0).verdict, Verdict::Changed);
    assert_eq!((rule(&comparison).severity, rule(&comparison).known), (Severity::Fine, true));
    assert!(!comparison.carry_over[0].found && comparison.carry_over[0].blocks == 23);
}

#[test]
fn several_variants_repeat_the_last_run_of_each_block_and_witness_for_each_other() {
    let asked = plan(&["A", "B", "C"], 24);
    assert!(asked.repeats_last);
    assert_eq!(asked.slots().filter(|slot| slot.is_left_out).count(), 24);
    let made = carried(asked);
    let compared = made.records.iter().filter(|record| record.block.is_some()).count();
    assert_eq!(compared, 3 * 24);
    let (comparison, _) = compare(&made);
    for index in [0, 1] {
        let change = change(&comparison, "wall", index);
        assert_eq!(change.verdict, Verdict::Inconclusive, "{index}");
        let ratio = change.change_ratio.unwrap();
        assert!((ratio + 1.0 / 6.0).abs() < 0.01, "{index}: {ratio}");
    }
    let runs = comparison.ledger.iter().find(|entry| entry.rule == "runs").unwrap();
    assert_eq!(runs.detail, "all 72 runs finished");
}

#[test]
fn too_few_pairs_for_the_test_say_so() {
    let (comparison, _) = compare(&slower(plan(&["A", "B"], 8)));
    let entry = rule(&comparison);
    assert_eq!((entry.severity, entry.known), (Severity::Fine, false), "{entry:?}");
    let wall = change(&comparison, "wall", 0);
    assert_eq!(wall.verdict, Verdict::Changed, "{wall:?}");
    assert_eq!(entry.detail, "not known: 8 pairs cannot show it, 9 can");
    assert!(comparison.carry_over.is_empty());
    assert!(rule(&compare(&slower(plan(&["A", "B"], 9))).0).known);
    // One variant follows itself alone.
    let (alone, _) = compare(&carried(plan(&["A"], 24)));
    assert!(alone.ledger.iter().all(|entry| entry.rule != "carry-over"));
}

#[test]
fn runs_behind_their_own_variant_are_compared_alone() {
    let (comparison, warnings) = compare(&carried(planned(&["A", "B"], Some(24), Some(2))));
    let wall = change(&comparison, "wall", 0);
    assert_eq!((wall.verdict, wall.n_pairs), (Verdict::Changed, 24));
    assert!((wall.change_ratio.unwrap() + 1.0 / 6.0).abs() < 0.01);
    // A run that is left out is no run that is missing.
    assert!(
        comparison.ledger.iter().all(|entry| entry.severity == Severity::Fine),
        "{:?}",
        comparison.ledger
    );
    assert!(warnings.is_empty(), "{warnings:?}");
    assert!(rule(&comparison).detail.contains("--block"));
    // The pairs are whole blocks, and what each block compares is a unit.
    let four = planned(&["A", "B"], Some(25), Some(4));
    assert_eq!((four.pairs, four.blocks.len(), four.slot_count()), (27, 9, 2 + 9 * 8));
    let (comparison, _) = compare(&carried(four));
    let paired = change(&comparison, "wall", 0).paired.as_ref().unwrap();
    assert_eq!((paired.differences().len(), paired.n_pairs()), (9, 27));
    // By default the blocks are as many as the pairs of a plan without it.
    let usual = planned(&["A", "B"], None, Some(4));
    assert_eq!(usual.fewest_pairs % 3, 0);
    assert!(usual.pairs_of_blocks(usual.stop.blocks_min) >= usual.fewest_pairs);
}

#[test]
fn block_makes_runs_of_a_variant_behind_one_another() {
    let lab = Lab::new();
    lab.script("work", "echo $1 >> log");
    let args = [
        "compare",
        "--variant",
        "A=./work A",
        "--variant",
        "B=./work B",
        "-n",
        "6",
        "--warmup",
        "0",
    ];
    let json = lab.json(&[&args[..], &["--block", "3", "--json"]].concat());
    let log = lab.lines("log");
    // Three blocks of three and three runs, of which each first is left out.
    assert_eq!(log.len(), 18);
    assert!(log.chunks(3).all(|runs| runs.iter().all(|run| *run == runs[0])), "{log:?}");
    assert_eq!(json["opcost"]["plan"]["block"], 3);
    assert_eq!(json["opcost"]["variants"][0]["runs_finished"], 6);
    let ledger = json["opcost"]["ledger"].as_array().unwrap();
    let runs = ledger.iter().find(|entry| entry["rule"] == "runs").unwrap();
    assert_eq!(runs["detail"], "all 12 runs finished");
    let report = lab.output(&["plan", "seccomp", "--block", "3"]);
    assert!(report.contains("3 runs of a variant behind one another"), "{report}");
}

#[test]
fn block_is_refused_where_it_means_nothing() {
    let lab = Lab::new();
    let refused = |args: &[&str], why: &str| {
        lab.run(&[&["compare"], args].concat()).expect(2).says(&[why]);
    };
    refused(&["true", "false", "--block", "1"], "--block 1: give 2 to 1,000");
    let emulated = ["true", "false", "--block", "2", "--machine", "emulated"];
    refused(&emulated, "begins in the same state");
    lab.run(&["measure", "true", "--block", "2"]).expect(2).says(&["there is one variant"]);
    let shard = Experiment { shard: "1/2".parse().ok(), ..experiment(&["A", "B"], None, Some(2)) };
    let error = resolve(&shard, &NoCounters).unwrap_err().to_string();
    assert!(error.contains("--block 2: with --shard"), "{error}");
}
