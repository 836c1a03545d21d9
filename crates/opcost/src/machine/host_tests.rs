use super::*;
use crate::experiment::Experiment;
use crate::plan::fixture::{FakeSurroundings, experiment, script};
use crate::plan::resolve;
use opcost_record::{Domain, Invariant, MetricKey};

/// Makes the first run of a plan whose workloads are performed by a script; descriptor 3 is the
/// request, 4 the report.
fn run_scripted(plan: &Plan, text: &str) -> RunEnd {
    let dir = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::none();
    let mut host = Host::new(plan, Rc::new(LivePerf::default()), &interrupt).unwrap();
    host.own_program = script(dir.path(), "work", &format!("#!/bin/sh\n{text}\n"));
    let slot = plan.slots().next().unwrap();
    host.run(plan, &slot).unwrap().expect("no interrupt can come")
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
    let text = "printf 'opcost-record 1\\nops 5\\nreading wall all clock work 7\\n\
                invariant hash ab\\nend 3\\n' >&4";
    let end = run_scripted(&plan(experiment(2, 2)), text);
    assert_eq!((end.outcome, end.exit_code), (Outcome::Finished, Some(0)));
    assert_eq!(end.report.ops, Some(5));
    let wall = Reading::plain(MetricKey::new("wall", Domain::All, "clock"), 7);
    assert_eq!(end.report.readings[0], wall);
    assert_eq!(end.report.invariants, [Invariant { name: "hash".into(), value: "ab".into() }]);
}

#[test]
fn requests_and_reports_may_be_longer_than_a_pipe() {
    let mut plan = plan(experiment(2, 2));
    let event = plan.events[0].clone();
    plan.events = vec![event; 3000];
    // The report is written before the request is read.
    let text = "{ echo opcost-record 1; i=0; while [ $i -lt 20000 ]; do echo invariant n$i v; \
                i=$((i + 1)); done; echo end 20000; } >&4; cat <&3 > /dev/null";
    let end = run_scripted(&plan, text);
    assert_eq!(end.outcome, Outcome::Finished);
    assert_eq!(end.report.invariants.len(), 20_000);
}

#[test]
fn the_request_is_what_the_plan_says() {
    let dir = tempfile::tempdir().unwrap();
    let seen = dir.path().join("seen");
    let mut asked = experiment(2, 2);
    asked.variants[0].params.insert("ops".into(), crate::experiment::Scalar::Integer(77));
    let plan = plan(Experiment { seed: Some(99), ..asked });
    run_scripted(&plan, &format!("cat <&3 > '{}'", seen.display()));
    let request: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(seen).unwrap()).unwrap();
    assert_eq!((&request["workload"], &request["seed"]), (&"syscall".into(), &99.into()));
    assert!(request["params"].to_string().contains("[\"ops\",\"77\"]"));
    assert_eq!(request["events"].as_array().unwrap().len(), plan.events.len());
}

#[test]
fn how_a_workload_died_says_more_than_what_it_did_not_send() {
    check_failure("kill -9 $$", &Failure::Signal { signal: 9 });
    check_failure("echo opcost-record 1 >&4; kill -9 $$", &Failure::Signal { signal: 9 });
    check_failure("exit 3", &Failure::ExitStatus { code: 3 });
    let asked = Experiment { ignore_failure: true, ..experiment(2, 2) };
    let end = run_scripted(&plan(asked), "exit 3");
    let Outcome::Failed(Failure::Work { detail }) = end.outcome else { panic!("{end:?}") };
    assert!(detail.contains("no report"), "a status that is ignored makes no report: {detail}");
}

#[test]
fn a_report_that_is_none_is_a_failure_of_the_work() {
    for (text, part) in [
        ("exit 0", "sent no report"),
        ("echo hello >&4", "starts with 'hello'"),
        ("echo opcost-record 1 >&4", "cut short"),
        ("printf '\\377' >&4", "no text"),
        ("printf 'opcost-record 1\\nerror no room\\nend 1\\n' >&4", "no room"),
    ] {
        let end = run_scripted(&plan(experiment(2, 2)), text);
        let Outcome::Failed(Failure::Work { detail }) = &end.outcome else { panic!("{end:?}") };
        assert!(detail.contains(part), "{text}: {detail}");
        assert_eq!(end.exit_code, Some(0));
    }
}

#[test]
fn a_workload_beyond_its_time_is_killed() {
    let plan = plan(Experiment { timeout: "20ms".parse().ok(), ..experiment(2, 2) });
    let end = run_scripted(&plan, "sleep 1000 & sleep 1000");
    assert_eq!(end.outcome, Outcome::Failed(Failure::Timeout { limit_ms: 20 }));
    assert_eq!(end.exit_code, None);
}
