use super::*;
use crate::resolve::fixture::{FakeSurroundings, experiment, in_process, script};
use crate::resolve::resolve;
use opcost_model::experiment::{Experiment, Seed};
use opcost_model::plan::IgnoredStatuses;
use opcost_record::{Domain, Invariant, MetricKey};
use std::fmt::Write as _;

/// Makes the first run of a plan, with a script in place of the workloads' process; descriptor 3 is
/// the request, 4 the report.
fn run_scripted(plan: &Plan, text: &str) -> RunEnd {
    run_several(plan, 1, text).pop().unwrap()
}

/// Does the same for the first runs of a plan's first process.
fn run_several(plan: &Plan, runs: usize, text: &str) -> Vec<RunEnd> {
    let dir = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::none();
    let mut host = Host::new(plan, Rc::new(LivePerf::default()), &interrupt).unwrap();
    host.own_program = script(dir.path(), "work", &format!("#!/bin/sh\n{text}\n"));
    let measured = plan.slots().filter(|slot| slot.block.is_some() || plan.in_process.is_none());
    let slots: Vec<Slot> = measured.take(runs).collect();
    let together = host.run_together(plan, &plan.groups(&slots, 1)[0]).unwrap();
    let Together::Made { processes, learned: false, .. } = together else { panic!("{together:?}") };
    processes.concat()
}

/// The command of a shell that sends these bytes as a report.
fn sends(bytes: &[u8]) -> String {
    let mut octal = String::new();
    bytes.iter().for_each(|byte| write!(octal, "\\{byte:03o}").unwrap());
    format!("printf '{octal}' >&4")
}

/// The same for a report.
fn reports(report: &Report) -> String {
    sends(&report.encode())
}

fn plan(asked: Experiment) -> Plan {
    resolve(&asked, &FakeSurroundings::default()).unwrap()
}

#[track_caller]
fn check_failure(text: &str, expected: &Failure) {
    let end = run_scripted(&plan(experiment(2, 2)), text);
    assert_eq!(end.outcome, Outcome::Failed(expected.clone()));
    assert!(end.report.invariants.is_empty() && end.report.ops.is_none());
}

#[test]
fn a_report_reaches_the_run() {
    let wall = Reading::plain(MetricKey::new("wall", Domain::All, "clock"), 7);
    let sent = Report { readings: vec![wall.clone()], ..report(1) };
    let end = run_scripted(&plan(experiment(2, 2)), &reports(&sent));
    assert_eq!((end.outcome, end.exit_code), (Outcome::Finished, Some(0)));
    assert_eq!(end.report.ops, Some(5));
    assert_eq!(end.report.readings[0], wall);
    assert_eq!(end.report.invariants, sent.invariants);
}

#[test]
fn requests_and_reports_may_be_longer_than_a_pipe() {
    let mut plan = plan(experiment(2, 2));
    let event = plan.events[0].clone();
    plan.events = vec![event; 3000];
    // The script writes the report before it reads the request.
    let text = format!("{}; cat <&3 > /dev/null", reports(&report(20_000)));
    let end = run_scripted(&plan, &text);
    assert_eq!(end.outcome, Outcome::Finished);
    assert_eq!(end.report.invariants.len(), 20_000);
}

#[test]
fn the_request_is_what_the_plan_says() {
    let dir = tempfile::tempdir().unwrap();
    let seen = dir.path().join("seen");
    let mut asked = experiment(2, 2);
    asked.variants[0].params.insert("ops".into(), opcost_model::experiment::Scalar::Integer(77));
    let plan = plan(Experiment { seed: Some(Seed::Number(99)), ..asked });
    run_scripted(&plan, &format!("cat <&3 > '{}'", seen.display()));
    let request: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(seen).unwrap()).unwrap();
    assert_eq!((&request["workload"], &request["seed"]), (&"syscall".into(), &99.into()));
    assert!(request["params"].to_string().contains("[\"ops\",\"77\"]"));
    assert_eq!(request["events"].as_array().unwrap().len(), plan.events.len());
}

#[test]
fn how_a_workload_died_says_more_than_what_it_did_not_send() {
    check_failure("kill -9 $$", &Failure::Signal { signal: 9, stderr: None });
    check_failure(
        &format!("{}; kill -9 $$", sends(&report(1).encode()[..20])),
        &Failure::Signal { signal: 9, stderr: None },
    );
    check_failure("exit 3", &Failure::ExitStatus { code: 3, stderr: None });
    let asked = Experiment { ignore_failure: IgnoredStatuses::All, ..experiment(2, 2) };
    let end = run_scripted(&plan(asked), "exit 3");
    let Outcome::Failed(Failure::Work { detail }) = end.outcome else { panic!("{end:?}") };
    assert!(detail.contains("no report"), "a status that is ignored makes no report: {detail}");
}

#[test]
fn a_report_that_is_none_is_a_failure_of_the_work() {
    for (text, part) in [
        ("exit 0".to_string(), "sent no report"),
        ("echo hello >&4".to_string(), "starts with 'hello'"),
        (sends(&report(1).encode()[..20]), "cut short"),
        (sends(&Report::encode_error("no room")), "no room"),
    ] {
        let end = run_scripted(&plan(experiment(2, 2)), &text);
        let Outcome::Failed(Failure::Work { detail }) = &end.outcome else { panic!("{end:?}") };
        assert!(detail.contains(part), "{text}: {detail}");
        assert_eq!(end.exit_code, Some(0));
    }
}

#[test]
fn a_workload_beyond_its_time_is_killed() {
    let plan = plan(Experiment { timeout: "20ms".parse().ok(), ..experiment(2, 2) });
    let end = run_scripted(&plan, "sleep 1000 & sleep 1000");
    assert_eq!(end.outcome, Outcome::Failed(Failure::Timeout { limit_ms: 20, stderr: None }));
    assert_eq!(end.exit_code, None);
}

/// An experiment whose processes make six runs.
fn six_runs() -> Experiment {
    Experiment { blocks_per_process: Some(3), ..in_process(6) }
}

/// A report of a run with so many invariants.
fn report(invariants: usize) -> Report {
    let invariant = |number| Invariant { name: format!("n{number}"), value: "v".into() };
    let invariants = (0..invariants).map(invariant).collect();
    Report { ops: Some(5), readings: Vec::new(), invariants }
}

#[test]
fn one_process_reports_each_of_its_runs_and_the_machine_is_told_of_once() {
    let one = reports(&report(1));
    let ends = run_several(&plan(in_process(2)), 2, &format!("{one}; {one}"));
    for end in &ends {
        assert_eq!(
            (&end.outcome, end.exit_code, end.report.ops),
            (&Outcome::Finished, Some(0), Some(5))
        );
        assert_eq!(end.started_unix_ns, ends[0].started_unix_ns);
    }
    let told =
        |end: &RunEnd| end.report.readings.iter().any(|reading| reading.key.name == "run-window");
    assert!(told(&ends[0]) && !told(&ends[1]));
}

#[test]
fn the_paths_of_a_process_are_those_of_its_runs_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let seen = dir.path().join("seen");
    let plan = plan(six_runs());
    let paths: Vec<String> = plan
        .slots()
        .filter(|slot| slot.block.is_some())
        .take(6)
        .map(|slot| plan.variants[usize::from(slot.variant)].work.path().unwrap().to_string())
        .collect();
    let ends = run_several(&plan, 6, &format!("cat <&3 > '{}'", seen.display()));
    assert_eq!(ends.len(), 6);
    let request: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(seen).unwrap()).unwrap();
    assert_eq!(request["paths"], serde_json::json!(paths));
    assert_eq!(request["workload"], "copy");
}

#[test]
fn of_a_process_that_fails_in_mid_block_what_was_done_is_kept() {
    let one = reports(&report(1));
    let failing = format!("{one}; {}", sends(&Report::encode_error("no room")));
    let ends = run_several(&plan(six_runs()), 3, &failing);
    assert_eq!((&ends[0].outcome, ends[0].report.ops), (&Outcome::Finished, Some(5)));
    for end in &ends[1..] {
        let failure = Failure::Work { detail: "no room".into() };
        assert_eq!(end.outcome, Outcome::Failed(failure));
        assert_eq!(end.report.ops, None);
    }
    // A killed process may have reported anything.
    let ends = run_several(&plan(six_runs()), 3, &format!("{one}; kill -9 $$"));
    for end in ends {
        assert_eq!(end.outcome, Outcome::Failed(Failure::Signal { signal: 9, stderr: None }));
    }
}
