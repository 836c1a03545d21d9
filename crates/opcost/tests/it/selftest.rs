//! The self-test: the sums over its reports, and the command as a user runs it.

use crate::lab::Lab;
use crate::made::{key, plan, recording};
use opcost_analysis::comparison::{Comparison, Severity, compare};
use opcost_analysis::selftest::{Tallied, Tally};
use opcost_record::{Invariant, Reading};

/// A report in which the second side takes `factor` times as long.
fn report(factor: f64) -> Comparison {
    let made = recording(plan(&["off", "on"], 22), |slot| {
        let factor = if slot.variant == 1 { factor } else { 1.0 };
        // The noise is 1 %, the same for both sides.
        let noise = 1.0 + f64::from(slot.slot * 7 % 11) / 1000.0;
        vec![
            Reading::plain(key("wall", "clock"), (1e6 * factor * noise) as u64),
            Reading::plain(key("task-clock", "perf_event"), (1e6 * factor * noise) as u64),
            Reading::plain(key("page-faults", "perf_event"), 3),
        ]
    });
    compare(&made).0
}

/// A report that the ledger refuses.
fn refused() -> Comparison {
    let mut made = recording(plan(&["off", "on"], 22), |slot| {
        vec![Reading::plain(key("wall", "clock"), 1000 + u64::from(slot.slot))]
    });
    made.records[5].invariants =
        vec![Invariant { name: "op-stream-hash".into(), value: "0".into() }];
    compare(&made).0
}

fn tallied(must_find: bool, reports: &[(u32, &Comparison)]) -> Tallied {
    let mut tally = Tally::new(must_find, &[10_000, 50_000]);
    for (planted, comparison) in reports {
        tally.add(*planted, comparison);
    }
    tally.finish()
}

#[test]
fn alarms_on_the_same_work_are_counted_by_report_and_by_metric() {
    let (quiet, loud) = (report(1.0), report(1.2));
    let all = tallied(false, &[(0, &quiet), (0, &loud), (0, &quiet), (0, &quiet)]);
    // Two metrics of one report are one alarm.
    assert_eq!((all.same.alarms.count, all.same.alarms.of, all.reports()), (1, 4, 4));
    let metrics: Vec<(&str, u64, u64, bool)> = all
        .same
        .metrics
        .iter()
        .map(|m| (m.metric.as_str(), m.alarms, m.exact, m.mde_ratio.is_some()))
        .collect();
    let expected = [("wall", 1, 0, true), ("task-clock", 1, 0, true), ("page-faults", 0, 4, false)];
    assert_eq!(metrics, expected);
    let mde = all.same.metrics[0].mde_ratio.unwrap();
    assert!(0.0 < mde && mde < 0.02, "{mde}");
    // One alarm in four reports decides nothing about a rate of one in twenty; four in four exceed it.
    assert!(!all.passed && all.failures.is_empty());
    let all = tallied(false, &[(0, &loud); 4]);
    assert_eq!(all.failures, ["more false alarms than one report in 20"]);
    assert!(!all.passed && all.same.alarms.low.unwrap() > 0.05);
}

#[test]
fn planted_changes_are_found_missed_or_turned_round() {
    let (quiet, up, down) = (report(1.0), report(1.2), report(0.8));
    let reports = [(0, &quiet), (10_000, &up), (10_000, &quiet), (10_000, &down), (50_000, &up)];
    let all = tallied(false, &reports);
    let one = &all.planted[0];
    assert_eq!((one.change_ratio, one.metric.as_str()), (0.01, "wall"));
    assert_eq!((one.found.count, one.found.of, one.wrong_way), (1, 3, 1));
    assert_eq!(one.also_in, [("task-clock".to_string(), 1)]);
    let estimate = one.estimate_ratio.unwrap();
    assert!(estimate.abs() < 0.01, "the median of +20 %, 0 and −20 %: {estimate}");
    assert_eq!((all.planted[1].found.count, all.planted[1].found.of), (1, 1));
    assert!(all.failures.is_empty(), "what noise hides is no failure");
    assert_eq!(tallied(true, &reports).failures, ["a planted change of an exact count was missed"]);
    let found = tallied(true, &[(0, &quiet), (10_000, &up), (50_000, &up)]);
    assert!(found.failures.is_empty() && !found.passed);
}

#[test]
fn few_reports_do_not_pass() {
    let (quiet, loud) = (report(1.0), report(1.2));
    let of = |quiets: usize, louds: usize| {
        let reports = [vec![(0, &quiet); quiets], vec![(0, &loud); louds]].concat();
        let all = tallied(false, &reports);
        assert!(all.failures.is_empty());
        (all.passed, all.needed)
    };
    // 0.025^(1/17) = 0.805: 17 quiet reports exclude rates above 20 % (Clopper and Pearson).
    assert_eq!(of(1, 0), (false, Some(17)));
    assert_eq!(of(16, 0), (false, Some(17)));
    assert_eq!(of(17, 0), (true, None));
    let (passed, needed) = of(17, 1);
    assert!(!passed && needed.is_some_and(|needed| (20..40).contains(&needed)), "{needed:?}");
}

#[test]
fn doubts_are_counted_by_rule() {
    let quiet = report(1.0);
    let mut doubted = quiet.clone();
    doubted.ledger.iter_mut().find(|entry| entry.rule == "load").unwrap().severity =
        Severity::Doubtful;
    let all = tallied(false, &[(0, &doubted), (10_000, &quiet), (50_000, &doubted)]);
    assert_eq!(all.doubts, [("load".to_string(), 2)]);
    assert!(all.failures.is_empty());
}

#[test]
fn reports_without_a_verdict_are_no_evidence() {
    let (refused, up) = (refused(), report(1.2));
    let all = tallied(true, &[(0, &refused), (10_000, &up), (50_000, &refused)]);
    assert_eq!((all.same.alarms.of, all.same.refused, all.same.alarms.low), (0, 1, None));
    assert_eq!((all.planted[1].found.of, all.planted[1].refused), (0, 1));
    assert_eq!(
        all.failures,
        [
            "no report on the same work gave verdicts",
            "a planted change of an exact count was missed"
        ]
    );
}

#[test]
fn the_host_is_tested_in_the_time_given() {
    let lab = Lab::new();
    // The time suffices for one report of each kind, which is not enough to fail.
    let args = ["selftest", "--seconds", "0.001", "--seed", "3", "-n", "4"];
    let text = lab.run(&args).expect(3).stdout;
    let (head, work) = (text.lines().next().unwrap(), text.lines().nth(1).unwrap());
    assert!(head.starts_with("self-test · this host · 4 pairs a report · 4 reports"), "{text}");
    assert!(
        head.ends_with("seed 3") && work.trim_start().starts_with("syscall:ops=20000"),
        "{text}"
    );
    for line in ["  +1.00 %  found in wall by", "  +5.00 %  found in wall by", "→ undecided: "] {
        assert!(text.contains(line), "no '{line}' in {text}");
    }
    assert!(!lab.store().exists(), "its recordings are not the user's");

    let json = lab.run(&[&args[..], &["--json", "true"]].concat()).expect(3).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["work"], &json["planted"]), (&"true".into(), &serde_json::json!([])));
    assert_eq!(json["same"]["alarms"]["of"], 1);
    assert_eq!((&json["machine"], &json["passed"]), (&"host".into(), &false.into()));
    assert_eq!(json["needed"], 17);
}

#[test]
fn what_cannot_be_tested_is_said() {
    let lab = Lab::new();
    for seconds in ["0", "-1", "many", "1e9"] {
        lab.run(&["selftest", &format!("--seconds={seconds}")])
            .expect(2)
            .says(&["give seconds, 0.001 to 2,600,000"]);
    }
    for percent in ["0", "0.001", "101", "-1"] {
        lab.run(&["selftest", &format!("--plant={percent}")])
            .expect(2)
            .says(&["give percent of the work, 0.01 to 100"]);
    }
    lab.run(&["selftest", "true", "--plant", "1"]).expect(2).says(&["cannot be used with"]);
    lab.run(&["selftest", "--cpu", "9999"]).expect(2).says(&["--cpu 9999"]);
    lab.run(&["selftest", "nonexistent-program"]).expect(4).says(&["nonexistent-program"]);
    lab.run(&["selftest", "false", "--seconds=0.001"]).expect(4).says(&["false", "status 1"]);
}
