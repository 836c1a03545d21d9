//! What `script/test` ends with: the count of passed, failed and skipped tests in a log.

use std::path::Path;
use std::process::{Command, Output};

fn count(log: &str) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), log).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../script/count-tests");
    Command::new(script).arg(file.path()).output().unwrap()
}

fn counted(log: &str) -> String {
    let output = count(log);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_skipped_test_is_not_a_passed_one() {
    let one = "test a::b ... ok\nSKIPPED: crate-x: a::c: no tool here: not found\n\
               test a::c ... ok\ntest result: ok. 2 passed; 0 failed; 0 ignored\n";
    assert_eq!(counted(one), "1 passed, 0 failed, 1 skipped\n");
    // Another build of the same program skips a test of its own.
    assert_eq!(counted(&one.repeat(3)), "3 passed, 0 failed, 3 skipped\n");
    assert_eq!(counted(""), "0 passed, 0 failed, 0 skipped\n");
}

#[test]
fn a_test_is_counted_once_and_in_the_middle_of_a_line() {
    // With one thread libtest writes the name before the test runs.
    let log = "test q ... SKIPPED: x: q: no tool\nok\nSKIPPED: x: q: nor another\n\
               SKIPPED: x: r: none\ntest r ... ok\nnot run: x: a benchmark's tool\n\
               test s ... FAILED\ntest result: FAILED. 4 passed; 1 failed; 0 ignored\n";
    assert_eq!(counted(log), "2 passed, 1 failed, 2 skipped\n");
    // What a test prints about others is no line of its own: no crate and test are named.
    let quoted = "the last line says SKIPPED: 3 of them\ntest result: ok. 1 passed; 0 failed\n";
    assert_eq!(counted(quoted), "1 passed, 0 failed, 0 skipped\n");
}

#[test]
fn a_log_that_was_cut_short_is_refused() {
    let output = count("SKIPPED: x: q: no tool\n");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("1 tests were skipped and only 0 passed: the log is cut short"),
        "{said}"
    );
}
