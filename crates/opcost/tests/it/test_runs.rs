//! How `script/test` counts passed, failed and skipped tests in a log, and which tests it runs again.

use crate::lab::{Lab, root};
use crate::skip;
use std::process::{Command, Output};

fn count(log: &str) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), log).unwrap();
    Command::new(root().join("script/count-tests")).arg(file.path()).output().unwrap()
}

fn counted(log: &str) -> String {
    let output = count(log);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_test_is_skipped_once_in_one_line() {
    let line = skip::first_line("a-crate", "module::test", "no tool here:\n  not found\n");
    assert_eq!(line.as_deref(), Some("SKIPPED: a-crate: module::test: no tool here: not found\n"));
    assert_eq!(skip::first_line("a-crate", "module::test", "nor another"), None);
    assert!(skip::first_line("a-crate", "module::other", "no tool here").is_some());
}

#[test]
#[should_panic(expected = "skip! is called on the thread of a test")]
fn a_thread_without_a_tests_name_is_refused() {
    let thread = std::thread::spawn(|| skip::write_line("a-crate", "nobody's"));
    std::panic::resume_unwind(thread.join().unwrap_err());
}

#[test]
fn a_skipped_test_is_not_a_passed_one() {
    let one = "test a::b ... ok\nSKIPPED: crate-x: a::c: no tool here: not found\n\
               test a::c ... ok\ntest result: ok. 2 passed; 0 failed; 0 ignored\n";
    assert_eq!(counted(one), "1 passed, 0 failed, 1 skipped\n");
    // Each build of a program counts its own skipped test.
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
    // A skip message quoted by a test does not count: it names no crate and test.
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

/// A repository with the script that runs test programs, and a package. Its test programs print that they
/// ran, and fail while there is a file `broken`.
struct Package(Lab);

impl Package {
    fn new() -> Package {
        let lab = Lab::new();
        let script = lab.write("script/run-tests", "");
        std::fs::copy(root().join("script/run-tests"), script).unwrap();
        lab.write("crates/mine/data", "one");
        for name in ["opcost", "libopcost_emu.so", "opcost-guest", "opcost-gauge"] {
            lab.write(&format!("target/debug/{name}"), "first");
        }
        Package(lab)
    }

    /// Runs a test program as cargo does, with its dependencies; returns its status and its output.
    fn test(
        &self,
        program: &str,
        package: &str,
        inputs: &str,
        sources: &str,
    ) -> (Option<i32>, String) {
        let path = self.0.path("target/debug/deps").join(program);
        if !path.exists() {
            let text = "echo ran \"$@\"\ntest ! -e ../../broken";
            self.0.script(&format!("target/debug/deps/{program}"), text);
        }
        let output = Command::new(self.0.path("script/run-tests"))
            .arg(path)
            .current_dir(self.0.path("crates/mine"))
            .env("CARGO_PKG_NAME", package)
            .env("OPCOST_TEST_INPUTS", inputs)
            .env("OPCOST_TEST_SOURCES", sources)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }
}

#[test]
fn what_passed_runs_again_once_something_has_changed() {
    let package = Package::new();
    let ran = || (Some(0), "ran\n".to_string());
    let kept = (Some(0), "UNCHANGED since it passed, not run again: mine-unit\nran\n".to_string());
    let test = |inputs| package.test("unit-1a", "mine", inputs, "any");
    assert_eq!([test("a"), test("a"), test("b"), test("b")], [ran(), kept.clone(), ran(), kept]);
    package.0.write("crates/mine/data", "two");
    assert_eq!(test("b"), ran());
    // The same program of another build, and another program.
    let text = "echo ran another";
    package.0.script("target/debug/deps/unit-2b", text);
    let another = package.test("unit-2b", "mine", "b", "any");
    assert_eq!(another, (Some(0), "ran another\n".into()));
    assert_eq!(package.test("other-1a", "mine", "b", "any"), ran());
}

#[test]
fn a_changed_program_runs_the_tests_of_the_packages_that_start_it() {
    let package = Package::new();
    let runs = |name| !package.test("unit-1a", name, "a", "any").1.starts_with("UNCHANGED");
    let all = ["opcost", "opcost-emu", "mine"];
    assert_eq!(all.map(runs), [true; 3]);
    assert_eq!(all.map(runs), [false; 3]);
    package.0.write("target/debug/opcost", "second");
    assert_eq!(all.map(runs), [true, false, false]);
    package.0.write("target/debug/libopcost_emu.so", "second");
    assert_eq!(all.map(runs), [true, true, false]);
}

#[test]
fn what_failed_is_not_kept() {
    let package = Package::new();
    package.0.write("broken", "");
    let test = |program, name| package.test(program, name, "a", "a");
    for _ in 0..2 {
        assert_eq!(test("unit-1a", "mine"), (Some(1), "ran\n".into()));
        let (status, said) = test("it-1a", "opcost");
        assert_eq!((status, said.as_str()), (Some(1), "ran --skip house::\nran house::\n"));
    }
    std::fs::remove_file(package.0.path("broken")).unwrap();
    assert_eq!(test("unit-1a", "mine"), (Some(0), "ran\n".into()));
}

#[test]
fn a_changed_page_runs_the_tests_of_the_repository_alone() {
    let package = Package::new();
    let test = |sources| package.test("it-1a", "opcost", "a", sources);
    assert_eq!(test("a"), (Some(0), "ran --skip house::\nran house::\n".into()));
    let kept = "UNCHANGED since it passed, not run again: opcost-it\nran --skip house::\n";
    assert_eq!(test("b"), (Some(0), format!("{kept}ran house::\n")));
}
