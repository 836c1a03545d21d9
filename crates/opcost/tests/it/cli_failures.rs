//! Work that fails: status 4, a message with the cause and the remedy, and finished runs are kept.

use crate::lab::{Lab, Started, wait_gone};

/// Compares a command with `true`; asserts that this fails with status 4 and these words.
#[track_caller]
fn check(command: &str, options: &[&str], parts: &[&str]) -> Lab {
    let lab = Lab::new();
    let mut args = vec!["compare", command, "true", "-n", "2"];
    args.extend(options);
    lab.run(&args).expect(4).says(parts);
    lab
}

#[test]
fn a_command_that_is_not_there() {
    let lab = check("no-such-tool --x", &[], &["variant 1", "'no-such-tool'", "PATH"]);
    assert!(!lab.store().exists(), "nothing was run, nothing is recorded");
    check("./no-such-tool", &[], &["'./no-such-tool'", "no such file"]);
}

#[test]
fn what_vanishes_during_a_recording_is_named() {
    let ended = |removed: &str, options: &[&str], status: i32| {
        let lab = Lab::new();
        lab.write("input", "data");
        std::fs::create_dir(lab.path("folder")).unwrap();
        // The tenth run removes it, when every variant has run.
        let folder = lab.dir().display().to_string();
        let text =
            format!("cd {folder}; echo >> log; [ $(wc -l < log) -lt 10 ] || rm -r {removed}");
        lab.script("work", &text);
        let work = format!("{folder}/work");
        let args = ["compare", &work, &format!("{work} 1"), "-n", "20", "--warmup", "0"];
        let ended = lab.run(&[&args[..], options].concat()).expect(status);
        (ended, lab)
    };
    let (input, lab) = ended("input", &["--input", "input"], 3);
    input.says(&["input' vanished while the runs read it", "run again on a copy"]);
    assert_eq!(lab.recordings()[0]["state"], "failed");
    let (program, lab) = ended("work", &[], 4);
    program.says(&["run 10 of recording", "cannot run '", "/work'", "is not there"]);
    assert_eq!(lab.recordings()[0]["runs"], 10);
    let (folder, _lab) = ended("folder", &["--cwd", "folder"], 4);
    folder.says(&["run 10 of recording", "changing to its working directory failed"]);
    let (store, lab) = ended("*.sqlite*", &[], 5);
    store.says(&["the file was removed or replaced while recording", "run again"]);
    assert!(!lab.store().exists());
}

#[test]
fn a_command_that_cannot_be_executed() {
    let lab = Lab::new();
    lab.write("plain", "#!/bin/sh\n");
    std::fs::create_dir(lab.path("folder")).unwrap();
    lab.run(&["compare", "true", "./plain"]).expect(4).says(&["variant 2", "chmod +x"]);
    lab.run(&["compare", "true", "./folder"]).expect(4).says(&["'./folder' is a directory"]);
    // The search in PATH passes over files that cannot be executed.
    let good = lab.script("later/plain", "exit 0");
    lab.write("sooner/plain", "no program");
    let path = format!("{0}/sooner:{0}/later:/usr/bin:/bin", lab.dir().display());
    let mut both = lab.command(&["compare", "plain", "true", "-n", "2", "--dry-run", "--json"]);
    let ended = both.env("PATH", &path).spawn().unwrap().end().expect(0);
    let plan: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(plan["variants"][0]["work"]["program"], good.to_str().unwrap());
    let mut one = lab.command(&["compare", "plain", "true"]);
    let ended = one.env("PATH", lab.path("sooner")).spawn().unwrap().end();
    ended.expect(4).says(&["sooner/plain' is not executable"]);
}

#[test]
fn a_file_that_is_no_program() {
    let lab = Lab::new();
    lab.script("fine", "exit 0");
    std::fs::write(lab.path("fine"), "echo a script without its first line\n").unwrap();
    let parts = ["run 0 of recording", "variant './fine'", "without a '#!' line"];
    lab.run(&["compare", "./fine", "true", "-n", "2"]).expect(4).says(&parts);
    std::fs::write(lab.path("fine"), "#!/no/such/interpreter\n").unwrap();
    let parts = ["variant './fine'", "the interpreter it names"];
    lab.run(&["compare", "./fine", "true", "-n", "2"]).expect(4).says(&parts);
}

#[test]
fn a_relative_command_is_looked_up_in_its_working_directory() {
    let lab = Lab::new();
    lab.script("sub/tool", "pwd > where");
    lab.run(&["compare", "./tool", "true", "-n", "2"]).expect(4).says(&["'./tool'"]);
    lab.run(&["compare", "./tool", "true", "-n", "2", "--cwd", "sub"]).expect(0);
    assert_eq!(lab.lines("sub/where"), [lab.path("sub").to_str().unwrap()]);
}

#[test]
fn a_status_other_than_0() {
    let parts = ["variant 'sh -c 'exit 3''", "run 0 of recording", "status 3", "--show-output"];
    let lab = check("sh -c 'exit 3'", &[], &parts);
    let recording = &lab.recordings()[0];
    assert_eq!(recording["state"], "failed");
    assert_eq!(recording["runs"], 1, "the failed run is recorded, too");
    assert_eq!(lab.column("last", "exit_code"), ["3"]);
    assert!(lab.column("last", "outcome")[0].contains("status 3"));
}

#[test]
fn what_a_failed_run_printed_is_kept() {
    let lab = Lab::new();
    lab.script("work", "echo x >> made; printf 'b\\33[2Joom\\n' >&2; exit 3");
    let told =
        "go on nevertheless with --ignore-failure; on standard error it printed:\n  b\\u{1b}[2Joom";
    let failing = ["compare", "./work a", "true", "-n", "2"];
    let ended = lab.run(&failing).expect(4).says(&["status 3", told]);
    assert!(!ended.stderr.contains("--show-output"), "{}", ended.stderr);
    assert_eq!(lab.lines("made").len(), 1, "a warm-up run is not made again");
    // Runs that are compared write to /dev/null; the run is made again for its words, and recorded once.
    let ended = lab.run(&[&failing[..], &["--warmup", "0"]].concat()).expect(4);
    ended.says(&["status 3", told]);
    assert_eq!((lab.lines("made").len(), lab.recordings()[0]["runs"].as_u64()), (3, Some(1)));
    lab.script("other", "[ -e other.ran ] && exit 4; touch other.ran; echo once >&2; exit 3");
    let ended = lab.run(&["compare", "./other", "true", "-n", "2", "--warmup", "0"]).expect(4);
    let ended = ended.says(&["status 3", "--show-output"]);
    assert!(!ended.stderr.contains("once"), "{}", ended.stderr);
}

#[test]
fn listed_statuses_alone_are_ignored() {
    let lab = Lab::new();
    let run = |code: &str, ignored: &str| {
        let command = format!("sh -c 'exit {code}'");
        lab.run(&["compare", &command, "true", "-n", "2", ignored])
    };
    run("2", "--ignore-failure=1,2").expect(0);
    run("3", "-i=1,2").expect(4).says(&["status 3"]);
    run("3", "-i=all-non-zero").expect(0);
    run("3", "-i").expect(0);
    run("3", "-i=no").expect(2).says(&["'no' is no exit status from 0 to 255"]);
    // The list is kept for whoever goes on with the recording or repeats it.
    lab.write(
        "a.toml",
        "ignore-failure = [2]\npairs = 2\n[[variant]]\ncommand = 'sh -c \"exit 2\"'\n",
    );
    let plan = lab.json(&["run", "a.toml", "--dry-run", "--json"]);
    assert_eq!(plan["ignore_failure"], serde_json::json!([2]));
    lab.run(&["run", "a.toml"]).expect(0);
    lab.run(&["run", "a.toml", "-i=1"]).expect(4).says(&["status 2"]);
}

#[test]
fn one_variant_that_fails_does_not_end_a_scan() {
    let lab = Lab::new();
    lab.script("work", "echo $1 >> log; [ $1 != 3 ]");
    let args = ["compare", "-P", "n", "1", "4", "./work {n}", "-n", "2"];
    let ended = lab.run(&args).expect(4);
    let parts =
        ["variant './work 3', run 2 of recording", "status 1", "the other variants were compared"];
    ended.says(&parts);
    let shown = lab.json(&["show", "last", "--json"]);
    let opcost = &shown["opcost"];
    let rows = opcost["metrics"].as_array().unwrap().iter();
    let compared: Vec<&str> = rows
        .filter(|row| row["primary"] == true)
        .map(|row| row["variant"].as_str().unwrap())
        .collect();
    assert_eq!(compared, ["./work 2", "./work 4"], "{shown:#}");
    assert!(opcost["variants"][2]["failure"].as_str().unwrap().starts_with("run 2: it ended"));
    let text = lab.output(&["show"]);
    assert!(text.contains("failed: './work 3', run 2: it ended with status 1"), "{text}");
    let runs = lab.lines("log");
    let of = |value: &str| runs.iter().filter(|run| *run == value).count();
    assert_eq!(of("3"), 1);
    assert!(["1", "2", "4"].iter().all(|value| of(value) >= 3), "{runs:?}");
    assert_eq!(lab.recordings()[0]["state"], "finished");
    // A variant that takes too long is left out as well, in a comparison of three commands.
    let args = ["compare", "true", "sleep 1000", "sh -c :", "-n", "2", "--timeout", "2s"];
    lab.run(&args).expect(4).says(&["variant 'sleep 1000'", "longer than 2 s", "were compared"]);
    let text = lab.output(&["show"]);
    assert!(text.contains("sh -c : against true"), "{text}");
    // Without the baseline there is nothing to judge.
    let ended = lab.run(&["compare", "false", "true", "sh -c :", "-n", "2"]).expect(4);
    ended.says(&["variant 'false', run 0 of recording"]);
}

#[test]
fn a_signal() {
    let lab = check("sh -c 'kill -9 $$'", &[], &["signal 9 (SIGKILL)", "--show-output"]);
    assert_eq!(lab.column("last", "exit_code"), [""]);
    let parts = ["signal 11 (SIGSEGV)"];
    check("sh -c 'ulimit -c 0; kill -SEGV $$'", &["--ignore-failure"], &parts);
}

#[test]
fn a_time_limit_ends_the_whole_process_group() {
    let parts = ["longer than 50 ms", "--timeout"];
    check("sleep 1000", &["--timeout", "50ms"], &parts);
    // The timeout is long enough for the script to write its process numbers on any machine.
    let lab = Lab::new();
    lab.script("slow", "sleep 1000 &\necho $! > below\necho $$ > pid\nwait");
    lab.run(&["compare", "./slow", "true", "--timeout", "2s"]).expect(4).says(&["2 s"]);
    wait_gone(&lab.read("pid"));
    wait_gone(&lab.read("below"));
    assert!(lab.column("last", "outcome")[0].contains("2 s"));
}

#[test]
fn hooks_that_fail() {
    let told = |hook: &str| format!("--{hook} 'echo oh no >&2; exit 7' failed (exit status: 7)");
    for (hook, runs, made) in [("setup", 0, 0), ("prepare", 0, 0), ("conclude", 0, 1)] {
        let flag = format!("--{hook}");
        let lab = Lab::new();
        lab.script("work", "echo run >> made");
        let failing = ["compare", "./work a", "./work b", &flag, "echo oh no >&2; exit 7"];
        lab.run(&failing).expect(4).says(&[&told(hook), "oh no\n", "error output is above"]);
        assert_eq!(lab.recordings()[0]["runs"], runs, "--{hook}");
        assert_eq!(lab.recordings()[0]["state"], "failed", "--{hook}");
        assert_eq!(lab.exists("made"), made == 1, "--{hook}");
    }
    let lab = check("sh -c :", &["--cleanup", "echo oh no >&2; exit 7"], &[&told("cleanup")]);
    assert_eq!(lab.recordings()[0]["runs"], 6, "all runs were made before it");
}

#[test]
fn cleanup_follows_any_failure() {
    let cleanup = ["--cleanup", "touch cleaned"];
    for options in [&["--setup", "false"][..], &["--prepare", "false"], &["--conclude", "false"]] {
        let lab = check("sh -c :", &[options, &cleanup].concat(), &["failed"]);
        assert!(lab.exists("cleaned"), "{options:?}");
    }
    assert!(check("false", &cleanup, &["status 1"]).exists("cleaned"));
    // The failure of `--cleanup` is reported and hides no earlier failure.
    check("sh -c 'exit 9'", &["--cleanup", "exit 8"], &["status 9", "--cleanup 'exit 8' failed"]);
}

#[test]
fn a_workload_that_cannot_be_set_up_says_why() {
    let lab = Lab::new();
    // The workload reserves some 3 GB of addresses.
    let line = "ulimit -v 400000; exec $OPCOST compare -w mmap:neighbours=60000 -w mmap -n 2";
    let ended = lab.shell(line).spawn().unwrap().end().expect(4);
    assert_eq!(ended.stderr.matches("Cannot allocate memory").count(), 1, "{}", ended.stderr);
    let parts = ["variant 'neighbours=60000'", "the workload failed: cannot reserve", "ulimit -v"];
    ended.says(&parts);
}
