//! Tests of the workload's process, which runs on any Linux.

use assert_cmd::Command;
use opcost_record::Report;
use opcost_record::message::{Fault, MessageError};
use opcost_record::request::{GuestJob, GuestRequest};
use std::fs;

fn work(request: &[u8]) -> (Vec<u8>, Option<i32>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), request).unwrap();
    let mut guest = Command::new(env!("CARGO_BIN_EXE_guest-init"));
    let output = guest.arg("work").arg(file.path()).output().unwrap();
    (output.stdout, output.status.code())
}

fn workload(name: &str, params: &[(&str, &str)]) -> Vec<u8> {
    paths(name, params, &[])
}

fn paths(name: &str, params: &[(&str, &str)], paths: &[&str]) -> Vec<u8> {
    let paths = paths.iter().map(|path| path.to_string()).collect();
    let params = params.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let (name, env) = (name.into(), Vec::new());
    GuestRequest::from(GuestJob::Workload { name, params, seed: 7, paths, env }).encode()
}

#[test]
fn a_workload_is_done_and_reported_without_readings() {
    let (sent, code) = work(&workload("syscall", &[("ops", "100")]));
    let report = Report::decode(&sent).unwrap();
    assert_eq!((code, report.ops, report.readings.len()), (Some(0), Some(100), 0));
    assert!(report.invariants.iter().any(|invariant| invariant.name == "op-stream-hash"));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn each_path_of_a_request_has_a_report() {
    let (sent, code) = work(&paths("copy", &[("ops", "50")], &["rep-movsb", "sse2", "rep-movsb"]));
    assert_eq!(code, Some(0));
    let (reports, error) = Report::decode_all(&sent);
    assert_eq!((reports.len(), error), (3, None));
    assert!(reports.iter().all(|report| *report == reports[0] && report.ops == Some(50)));
    let (sent, code) = work(&paths("copy", &[("ops", "50")], &["sse2", "teleport"]));
    assert_eq!(code, Some(1));
    let error = Report::decode(&sent).unwrap_err().to_string();
    assert!(error.contains("no path 'teleport'"), "{error}");
}

#[test]
fn figures_of_the_work_are_reported_but_no_times() {
    let params = [("ops", "200"), ("threads", "2"), ("oversubscribe", "on"), ("scale", "on")];
    let (sent, code) = work(&workload("lock", &params));
    assert_eq!(code, Some(0), "{:?}", Report::decode(&sent));
    let readings = Report::decode(&sent).unwrap().readings;
    let names: Vec<&str> = readings.iter().map(|reading| reading.key.name.as_str()).collect();
    assert_eq!(names, ["lock-handovers", "lock-run-max", "task-fairness-ppm"]);
}

#[test]
fn what_cannot_be_done_is_reported_as_an_error() {
    let fault = |request: &[u8]| match work(request) {
        (sent, Some(1)) => match Report::decode(&sent) {
            Err(MessageError { fault: Fault::Reported(error), .. }) => error,
            other => panic!("{other:?}"),
        },
        (_, code) => panic!("{code:?}"),
    };
    assert!(
        fault(&workload("lunch", &[])).starts_with("unknown workload 'lunch'; this guest has ")
    );
    assert!(fault(&workload("syscall", &[("ops", "x")])).contains("ops"));
    assert!(fault(&GuestRequest::from(GuestJob::Symbols).encode()).contains("not for a workload"));
    assert!(fault(b"opcost-request 0\n").contains("different versions"));
}

#[test]
fn outside_of_a_guest_it_says_what_it_is() {
    let output = Command::new(env!("CARGO_BIN_EXE_guest-init")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("opcost starts it"));
}
