//! The fuzz targets in `fuzz/`, compiled with the tests: a renamed function breaks this build, not the next fuzzing a month later. Each
//! runs on real files, whole and cut, and on random bytes.

// A target is the root of its own program for cargo-fuzz.
#![allow(unused_attributes)]

use crate::lab::{OPCOST, files, root};
use crate::needs;
use proptest::prelude::*;
use std::process::Command;

#[path = "../../../../fuzz/fuzz_targets/annotate.rs"]
mod annotate;
#[path = "../../../../fuzz/fuzz_targets/arm64.rs"]
mod arm64;
#[path = "../../../../fuzz/fuzz_targets/attach.rs"]
mod attach;
#[path = "../../../../fuzz/fuzz_targets/baseline.rs"]
mod baseline;
#[path = "../../../../fuzz/fuzz_targets/elf.rs"]
mod elf;
#[path = "../../../../fuzz/fuzz_targets/events.rs"]
mod events;
#[path = "../../../../fuzz/fuzz_targets/experiment.rs"]
mod experiment;
#[path = "../../../../fuzz/fuzz_targets/import.rs"]
mod import;
#[path = "../../../../fuzz/fuzz_targets/kallsyms.rs"]
mod kallsyms;
#[path = "../../../../fuzz/fuzz_targets/message.rs"]
mod message;
#[path = "../../../../fuzz/fuzz_targets/perf_data.rs"]
mod perf_data;
#[path = "../../../../fuzz/fuzz_targets/profile_text.rs"]
mod profile_text;
#[path = "../../../../fuzz/fuzz_targets/recording.rs"]
mod recording;
#[path = "../../../../fuzz/fuzz_targets/regions.rs"]
mod regions;
#[path = "../../../../fuzz/fuzz_targets/ring.rs"]
mod ring;
#[path = "../../../../fuzz/fuzz_targets/root.rs"]
mod root_of_guest;
#[path = "../../../../fuzz/fuzz_targets/session.rs"]
mod session;
#[path = "../../../../fuzz/fuzz_targets/size.rs"]
mod size;
#[path = "../../../../fuzz/fuzz_targets/suite.rs"]
mod suite;

/// An input that libfuzzer would make of bytes; `None` if these bytes make none.
pub(crate) trait Input<'a>: Sized {
    fn read(bytes: &'a [u8]) -> Option<Self>;
}

impl<'a> Input<'a> for &'a [u8] {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        Some(bytes)
    }
}

impl<'a> Input<'a> for &'a str {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok()
    }
}

impl Input<'_> for (bool, u64, Vec<u64>) {
    fn read(bytes: &[u8]) -> Option<Self> {
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let words: Vec<u64> = words.collect();
        let (mask, words) = words.split_first()?;
        Some((bytes[0] & 1 == 0, *mask, words.to_vec()))
    }
}

/// Takes the place of libfuzzer's macro: a function that runs the target's body.
#[macro_export]
macro_rules! fuzz_target {
    (|$input:ident: $kind:ty| $body:block) => {
        pub(crate) fn run(bytes: &[u8]) {
            let Some($input) = <$kind as $crate::fuzz::Input>::read(bytes) else { return };
            $body
        }
    };
}

const TARGETS: [fn(&[u8]); 19] = [
    annotate::run,
    arm64::run,
    attach::run,
    baseline::run,
    elf::run,
    events::run,
    experiment::run,
    import::run,
    kallsyms::run,
    message::run,
    perf_data::run,
    profile_text::run,
    recording::run,
    regions::run,
    ring::run,
    root_of_guest::run,
    session::run,
    size::run,
    suite::run,
];

#[test]
fn every_fuzz_target_takes_real_files() {
    let targets = std::fs::read_dir(root().join("fuzz/fuzz_targets")).unwrap().count();
    assert_eq!(targets, TARGETS.len(), "a fuzz target is missing from this test's table");
    let folders =
        ["crates/opcost-profile/tests/data", "crates/opcost/tests/imports", "experiments"];
    let found = folders.map(|folder| files(&root().join(folder))).concat();
    assert!(found.len() > 60);
    for path in found {
        let bytes = std::fs::read(&path).unwrap();
        let bytes = &bytes[..bytes.len().min(20_000)];
        for length in [bytes.len(), bytes.len() / 2, bytes.len() / 7] {
            TARGETS.iter().for_each(|run| run(&bytes[..length]));
        }
    }
}

#[test]
fn no_report_makes_a_comment_say_more_than_its_writer() {
    if !needs::programs(&["python3"]) {
        return;
    }
    let fuzzer = root().join("fuzz/comment.py");
    let ended = Command::new("python3").arg(fuzzer).args(["--runs", "3000"]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(said.starts_with("3000 runs, ") && said.ends_with("nothing found\n"), "{said}");
}

/// Some of what `fuzz/run mutations` tries; the seed is fixed.
#[test]
fn no_mutation_of_a_hostile_file_ends_opcost_or_exceeds_its_budget() {
    if !needs::all() || !needs::programs(&["python3", "cc", "objcopy", "zstd"]) {
        return;
    }
    let fuzzer = root().join("fuzz/mutations.py");
    let mut command = Command::new("python3");
    command.arg(fuzzer).arg(OPCOST).args(["--mutations", "20", "--mebibytes", "1"]);
    let ended = command.args(["--seconds", "300"]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(said.ends_with(" runs, 0 faults\n"), "{said}");
}

proptest! {
    #[test]
    fn every_fuzz_target_takes_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400), text in ".{0,200}") {
        for run in TARGETS {
            run(&bytes);
            run(text.as_bytes());
        }
    }
}
