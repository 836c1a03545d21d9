//! Helpers for tests: work in a process of its own, with one thread and filters that end with the process.

use crate::measure::measure;
use crate::spec::WorkloadSpec;
use crate::work::Meter;
use opcost_record::Report;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The time limit of a task, in seconds; no test's work takes a tenth of it.
const STUCK_S: u32 = 300;

/// Runs `task` in a forked process; returns its text, or how the process ended.
pub(crate) fn in_child(task: impl FnOnce() -> String) -> Result<String, String> {
    bytes_of_child(|| task().into_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
}

/// Does the same for a task that returns bytes.
pub(crate) fn bytes_of_child(task: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, String> {
    let mut ends = [0; 2];
    // SAFETY: two writable descriptors.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    assert_eq!(made, 0);
    // SAFETY: both descriptors were just made and have no other owner.
    let (mut reader, mut writer) =
        unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: the child runs the task and ends; glibc and musl keep their allocators usable in the child.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: the alarm ends this process only. Tasks that wait for each other for ever then fail the test.
        unsafe { libc::alarm(STUCK_S) };
        let status = match catch_unwind(AssertUnwindSafe(task)) {
            Ok(bytes) => i32::from(writer.write_all(&bytes).is_err()),
            Err(_) => 101,
        };
        // SAFETY: _exit does not return.
        unsafe { libc::_exit(status) };
    }
    drop(writer);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    let mut status = 0;
    // SAFETY: the process is this process's child, and `status` is writable.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    match status {
        0 => Ok(bytes),
        _ => Err(format!("wait status {status:#x}")),
    }
}

/// A meter that counts nothing.
pub(crate) struct NoMeter;

impl Meter for NoMeter {
    fn start(&mut self, _region: &'static str) {}
    fn stop(&mut self, _region: &'static str) {}
}

/// Measures a workload in a process of its own; returns the report, or the error's text.
pub(crate) fn measured(
    spec: &WorkloadSpec,
    given: &[(&str, &str)],
    seed: u64,
) -> Result<Report, String> {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let params = spec.resolve(&given).map_err(|error| error.to_string())?;
    let report = bytes_of_child(|| match measure(spec, &params, seed, &mut NoMeter) {
        Ok(done) => {
            Report { ops: Some(done.ops), readings: done.figures, invariants: done.invariants }
                .encode()
        }
        Err(error) => Report::encode_error(&error.to_string()),
    })?;
    Report::decode(&report).map_err(|error| error.to_string())
}

/// Returns parameters of so little work that tests can afford every workload.
pub(crate) fn tiny(spec: &WorkloadSpec) -> &'static [(&'static str, &'static str)] {
    match spec.name {
        "build" => &[("ops", "1"), ("files", "1"), ("functions", "1")],
        _ => &[("ops", "100")],
    }
}

/// Whether this machine lacks a program that a workload starts; if so, skips the test with the reason.
pub(crate) fn lacks_tool(spec: &WorkloadSpec) -> bool {
    let Some(programs) = spec.programs else { return false };
    let environment: Vec<_> = std::env::vars_os().collect();
    let lacks = programs(&spec.resolve(&[]).unwrap(), &environment).err();
    if let Some(error) = &lacks {
        crate::skip::skip!("{} has no tool here: {error}", spec.name);
    }
    lacks.is_some()
}

/// Returns the value of an invariant.
pub(crate) fn value<'a>(report: &'a Report, name: &str) -> &'a str {
    let found = report.invariants.iter().find(|invariant| invariant.name == name);
    &found.unwrap_or_else(|| panic!("no invariant {name} in {report:?}")).value
}
