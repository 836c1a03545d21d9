//! Names and commands with arbitrary bytes: nothing that is printed moves a terminal's cursor.

use crate::lab::Lab;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Asserts that a text has no control characters but line ends, and no bidirectional overrides.
#[track_caller]
fn check_harmless(what: &str, text: &str) {
    let bad = text
        .chars()
        .find(|c| (c.is_control() && *c != '\n') || ('\u{202a}'..='\u{202e}').contains(c));
    assert_eq!(bad, None, "{what}: {text:?}");
}

#[test]
fn control_characters_in_names_are_escaped_wherever_they_are_shown() {
    let lab = Lab::new();
    let evil = "a\x1b[2J\x07\u{202e}b\rc";
    let named = format!("{evil}=true '\x1b[8m'");
    let args = ["compare", "--variant", &named, "--variant", "b=true", "-n", "2", "--warmup=0"];
    let named = ["--name", evil, "--label", evil, "--question", evil];
    let ended = lab.run(&[&args[..], &named].concat()).expect(0);
    check_harmless("compare", &ended.stdout);
    check_harmless("compare's errors", &ended.stderr);
    assert!(ended.stdout.contains("a\\u{1b}[2J\\u{7}\\u{202e}b\\u{d}c"), "{}", ended.stdout);
    for format in ["text", "markdown", "percent", "csv", "benchfmt", "html"] {
        check_harmless(format, &lab.output(&["show", "--format", format]));
    }
    check_harmless("the list", &lab.output(&["list", "recordings"]));
    check_harmless("the plan", &lab.output(&[&args[..], &["--dry-run"]].concat()));
    // A user may give the name as it was given first.
    let asked = ["show", "--export-folded", "x", "--variant", evil];
    assert!(!lab.run(&asked).stderr.contains("no such variant"));
    let failing = format!("{evil}=false");
    let args = ["compare", "--variant", &failing, "--variant", "b=true", "-n", "2"];
    check_harmless("an error", &lab.run(&args).expect(4).stderr);
    check_harmless("an error", &lab.run(&["show", evil]).expect(2).stderr);
}

#[test]
fn a_command_that_is_no_utf8_runs_as_it_is() {
    let lab = Lab::new();
    let script = lab.script("bytes", "printf %s \"$1\" > out");
    let mut line = script.as_os_str().to_os_string();
    line.push(OsStr::from_bytes(b" 'caf\xe9 x'"));
    let mut command = lab.command(&["measure", "-n", "2", "--warmup=0"]);
    let output = command.arg(&line).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("caf\\xe9 x"), "{said}");
    assert_eq!(std::fs::read(lab.path("out")).unwrap(), b"caf\xe9 x");
    // The store and a file give the same bytes again.
    std::fs::remove_file(lab.path("out")).unwrap();
    check_harmless("the list", &lab.output(&["list", "recordings"]));
    let mut command = lab.command(&["measure", "-n", "2", "--save-experiment", "x.toml"]);
    assert!(command.arg(&line).status().unwrap().success());
    lab.output(&["run", "x.toml"]);
    assert_eq!(std::fs::read(lab.path("out")).unwrap(), b"caf\xe9 x");
}

#[test]
fn long_commands_are_shortened_in_lists() {
    let lab = Lab::new();
    let long = format!("true {}", "x".repeat(300));
    lab.output(&["compare", &long, &format!("{long}y"), "-n", "2", "--warmup=0"]);
    let list = lab.output(&["list", "recordings"]);
    assert!(list.lines().all(|line| line.chars().count() <= 100), "{list}");
    assert!(list.contains("…") && list.contains("xy"), "{list}");
    let json = lab.recordings();
    assert_eq!(json[0]["variants"][0], long.as_str());
}

#[test]
fn names_in_files_of_other_tools_are_escaped() {
    let lab = Lab::new();
    let result = |name: &str| format!(r#"{{"command": "{name}", "times": [0.1, 0.2, 0.3]}}"#);
    let evil = "a\\u001b[2J\\u202e";
    let text = format!(r#"{{"results": [{}, {}]}}"#, result(evil), result("b"));
    lab.write("x.json", text);
    let shown = lab.output(&["import", "x.json"]);
    check_harmless("import", &shown);
    assert!(shown.contains("a\\u{1b}[2J\\u{202e}"), "{shown}");
    for format in ["markdown", "csv", "benchfmt", "html"] {
        check_harmless(format, &lab.output(&["show", "--format", format]));
    }
}
