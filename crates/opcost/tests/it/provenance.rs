//! Labels, commits, and the command that makes a recording again.

use crate::lab::Lab;
use serde_json::Value;
use std::process::Command;

/// Runs git in the lab; `None` without git.
fn git(lab: &Lab, words: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    git.current_dir(lab.dir()).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words);
    let output = git.env("GIT_CONFIG_GLOBAL", "/dev/null").output().ok()?;
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().trim().to_string())
}

#[test]
fn a_label_is_shown_wherever_recordings_are() {
    let lab = Lab::new();
    let args = ["measure", "-n", "2", "true", "--name", "nightly", "--label", "v1.2 rc"];
    assert!(lab.output(&args).contains("  label v1.2 rc\n"));
    assert!(lab.output(&["show", "--format", "markdown"]).contains("- label v1.2 rc"));
    assert!(lab.output(&["list", "recordings"]).contains("v1.2 rc"));
    assert_eq!(lab.recordings()[0]["label"], "v1.2 rc");
    assert!(lab.output(&["history", "nightly"]).contains("  v1.2 rc\n"));
    let history = lab.json(&["history", "nightly", "--json"]);
    assert_eq!(history["series"][0]["points"][0]["label"], "v1.2 rc");
    lab.output(&["report", "last", "--html", "page.html"]);
    assert!(lab.read("page.html").contains("label v1.2 rc"));
    // An experiment file can have a label, too.
    lab.write("x.toml", "label = 'from a file'\n[[variant]]\ncommand = 'true'\n");
    let shown = lab.json(&["run", "x.toml", "-n", "1", "--json"]);
    assert_eq!(shown["opcost"]["plan"]["label"], "from a file");
}

#[test]
fn inside_a_repository_a_recording_carries_the_commit_of_each_variant() {
    let lab = Lab::new();
    if git(&lab, &["init", "--quiet"]).is_none() {
        crate::skip::skip!("there is no git here");
        return;
    }
    let measure = || lab.json(&["measure", "-n", "1", "true", "--name", "n", "--json"]);
    let revision = |shown: &Value| shown["opcost"]["plan"]["variants"][0]["revision"].clone();
    assert_eq!(revision(&measure()), Value::Null, "nothing is committed yet");
    lab.write("file", "1");
    git(&lab, &["add", "file"]);
    git(&lab, &["commit", "-qm", "one"]);
    let commit = git(&lab, &["rev-parse", "HEAD"]).unwrap();
    let clean = revision(&measure());
    assert_eq!((&clean["commit"], &clean["dirty"]), (&commit.as_str().into(), &false.into()));
    lab.write("file", "2");
    assert_eq!(revision(&measure())["dirty"], true);
    let short = &commit[..12];
    assert!(
        lab.output(&["show"])
            .contains(&format!("commit {short} with changes that are not committed"))
    );
    assert!(lab.output(&["list", "recordings"]).contains(&format!("{short}+")));
    let history = lab.output(&["history", "n"]);
    assert!(
        history.contains(&format!("commit {short}\n"))
            && history.contains(&format!("commit {short}+\n")),
        "{history}"
    );
    // Two checkouts, two commits.
    git(&lab, &["commit", "-qam", "two"]);
    git(&lab, &["worktree", "add", "-q", "old", &commit]);
    lab.write(
        "two.toml",
        "[[variant]]\nname='old'\ncommand='true'\ncwd='old'\n[[variant]]\nname='new'\ncommand='false'\n",
    );
    let shown = lab.json(&["run", "two.toml", "-n", "2", "-i", "--json"]);
    let variants = &shown["opcost"]["plan"]["variants"];
    assert_eq!(variants[0]["revision"]["commit"], commit.as_str());
    let newest = git(&lab, &["rev-parse", "HEAD"]).unwrap();
    assert_eq!(variants[1]["revision"]["commit"], newest.as_str());
}

#[test]
fn the_command_that_was_given_makes_the_same_plan_again() {
    let lab = Lab::new();
    let shown = lab.json(&[
        "compare",
        "-w",
        "syscall:ops=2000",
        "-w",
        "syscall:ops=2000,seccomp=on",
        "-n",
        "3",
        "--json",
    ]);
    let plan = &shown["opcost"]["plan"];
    let command = plan["invocation"].as_str().unwrap();
    assert!(command.starts_with("opcost compare -w") && command.contains("--seed "), "{command}");
    let words = shlex::split(command).unwrap();
    let words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let again = lab.json(&words);
    assert_eq!(again["opcost"]["plan"]["blocks"], plan["blocks"]);
    assert_eq!(again["opcost"]["plan"]["variants"], plan["variants"]);
}
