//! The process that does a workload, which runs on any Linux.

use assert_cmd::Command;
use opcost_record::request::GuestRequest;
use opcost_record::wire::{self, WireError};
use std::fs;

fn work(request: &str) -> (String, Option<i32>) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), request).unwrap();
    let mut guest = Command::new(env!("CARGO_BIN_EXE_guest-init"));
    let output = guest.arg("work").arg(file.path()).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

fn workload(name: &str, params: &[(&str, &str)]) -> String {
    let params = params.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    GuestRequest::Workload { name: name.into(), params, seed: 7, env: Vec::new() }.format()
}

#[test]
fn a_workload_is_done_and_reported_without_readings() {
    let (text, code) = work(&workload("syscall", &[("ops", "100")]));
    let report = wire::parse(&text).unwrap();
    assert_eq!((code, report.ops, report.readings.len()), (Some(0), Some(100), 0));
    assert!(report.invariants.iter().any(|invariant| invariant.name == "op-stream-hash"));
}

#[test]
fn what_cannot_be_done_is_reported_as_an_error() {
    let fault = |request: &str| match work(request) {
        (text, Some(1)) => match wire::parse(&text) {
            Err(WireError::Reported(error)) => error,
            other => panic!("{other:?}"),
        },
        (_, code) => panic!("{code:?}"),
    };
    assert!(
        fault(&workload("lunch", &[])).starts_with("unknown workload 'lunch'; this guest has ")
    );
    assert!(fault(&workload("syscall", &[("ops", "x")])).contains("ops"));
    assert!(fault(&GuestRequest::Symbols.format()).contains("not for a workload"));
    assert!(fault("opcost-request 0\n").contains("different versions"));
}

#[test]
fn outside_of_a_guest_it_says_what_it_is() {
    let output = Command::new(env!("CARGO_BIN_EXE_guest-init")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("opcost starts it"));
}
