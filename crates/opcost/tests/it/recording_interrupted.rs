//! Recordings that are interrupted: finished runs are kept, no process runs on, and each recording can be resumed.

use crate::lab::{Ended, Lab, Started, wait_gone, wait_until};
use std::os::unix::process::CommandExt;
use std::process::Child;

/// Ten runs; the fifth waits, with a process below it, unless the file `free` exists.
const COMPARE: [&str; 7] =
    ["compare", "./work a", "./work b", "-n", "4", "--cleanup", "echo clean >> cleaned"];
const SLOTS: usize = 10;
const FIFTH_WAITS: &str = "\
echo run >> made
if [ $(wc -l < made) -eq 5 ] && [ ! -e free ]; then
    sleep 1000 &
    echo $! > below
    echo $$ > waiting
    exec sleep 1000
fi";

/// A lab in which a recording waits in its fifth run.
fn waiting() -> (Lab, Child) {
    let lab = Lab::new();
    lab.script("work", FIFTH_WAITS);
    let recorder = lab.start(&COMPARE);
    lab.wait_for("waiting");
    (lab, recorder)
}

/// Asserts that the recording holds the first four runs, resumes it, and asserts that it holds every run once.
#[track_caller]
fn check_kept_and_resumed(lab: &Lab, state: &str) {
    let shown = lab.run(&["show"]).expect(0).stdout;
    assert!(shown.contains("4 of 10 runs") && shown.contains("opcost resume"), "{shown}");
    assert_eq!(lab.column("last", "run"), ["0", "1", "2", "3"]);
    assert_eq!(lab.recordings()[0]["state"], state);
    let planned = lab.json(&["show", "--json"])["opcost"]["plan"].clone();
    lab.write("free", "");
    lab.run(&["resume"]).expect(0);
    let slots: Vec<String> = (0..SLOTS).map(|slot| slot.to_string()).collect();
    assert_eq!(lab.column("last", "run"), slots);
    assert_eq!(lab.recordings().len(), 1);
    assert_eq!(lab.recordings()[0]["state"], "finished");
    // Four runs, the lost run, and six more.
    assert_eq!(lab.lines("made").len(), 4 + 1 + 6);
    let document = lab.json(&["show", "--json"]);
    assert_eq!(document["opcost"]["plan"], planned);
    let of_plan: Vec<u64> = (0..2)
        .chain(planned["blocks"].as_array().unwrap().iter().flat_map(|block| {
            block["order"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap())
        }))
        .collect();
    let names: Vec<String> =
        of_plan.iter().map(|v| ["./work a", "./work b"][*v as usize].into()).collect();
    assert_eq!(lab.column("last", "variant"), names, "each run is the variant that was planned");
}

#[track_caller]
fn check_interrupted(lab: &Lab, ended: Ended) {
    let id = lab.recordings()[0]["id"].as_str().unwrap().to_string();
    let ended = ended.expect(130).says(&[
        "interrupted after 4 of 10 runs",
        &format!("opcost show {id}"),
        &format!("opcost resume {id}"),
    ]);
    assert!(ended.stdout.contains("4 of 10 runs"), "what there is is shown: {}", ended.stdout);
    // Both processes ended before opcost did, or had at least received a signal.
    wait_gone(&lab.read("waiting"));
    wait_gone(&lab.read("below"));
    assert_eq!(lab.lines("cleaned"), ["clean"], "cleanup runs all the same");
}

#[test]
fn a_run_during_which_opcost_was_stopped_is_made_again() {
    let (lab, recorder) = waiting();
    recorder.signal(libc::SIGSTOP);
    lab.write("free", "");
    let pid = lab.read("waiting").trim().parse().unwrap();
    // SAFETY: kill takes integers only; opcost is stopped, so the process that it waits for keeps its number.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    recorder.signal(libc::SIGCONT);
    recorder.end().expect(0);
    assert_eq!(lab.lines("made").len(), SLOTS + 1);
    assert_eq!(lab.recordings()[0]["state"], "finished");
}

#[test]
fn an_interrupt_loses_the_run_in_flight_only() {
    let (lab, recorder) = waiting();
    recorder.signal(libc::SIGINT);
    check_interrupted(&lab, recorder.end());
    check_kept_and_resumed(&lab, "interrupted");
}

#[test]
fn a_request_to_end_is_an_interrupt_too() {
    let (lab, recorder) = waiting();
    recorder.signal(libc::SIGTERM);
    check_interrupted(&lab, recorder.end());
    check_kept_and_resumed(&lab, "interrupted");
}

#[test]
fn the_interrupt_key_reaches_the_whole_group() {
    let lab = Lab::new();
    lab.script("work", FIFTH_WAITS);
    let recorder = lab.command(&COMPARE).process_group(0).spawn().unwrap();
    lab.wait_for("waiting");
    interrupt_group(&recorder);
    check_interrupted(&lab, recorder.end());
    check_kept_and_resumed(&lab, "interrupted");
}

/// Interrupts the process group, as a terminal does when its interrupt key is pressed.
fn interrupt_group(leader: &Child) {
    // SAFETY: kill takes integers only; the group is the child's own.
    assert_eq!(unsafe { libc::kill(-(leader.id() as i32), libc::SIGINT) }, 0);
}

#[test]
fn a_killed_opcost_leaves_its_store_whole_and_no_process() {
    let (lab, mut recorder) = waiting();
    recorder.signal(libc::SIGKILL);
    recorder.wait().unwrap();
    // The command itself dies with opcost; opcost cannot reach the process that the command started.
    wait_gone(&lab.read("waiting"));
    let below: i32 = lab.read("below").trim().parse().unwrap();
    // SAFETY: kill takes integers only; this is the process that the script named, still asleep.
    unsafe { libc::kill(below, libc::SIGKILL) };
    assert!(!lab.exists("cleaned"), "nobody was left to clean up");
    check_kept_and_resumed(&lab, "running");
}

#[test]
fn a_workload_dies_with_opcost_too() {
    let lab = Lab::new();
    let args =
        ["compare", "-w", "syscall:ops=1000000000000", "-w", "syscall:seccomp=on", "-n", "2"];
    let mut recorder = lab.start(&args);
    let pid = recorder.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    let child = wait_until("the process of the workload", || {
        let children = std::fs::read_to_string(&children).ok()?;
        let child = children.split_whitespace().next()?.to_string();
        let line = std::fs::read_to_string(format!("/proc/{child}/cmdline")).ok()?;
        line.contains("work-process").then_some(child)
    });
    recorder.signal(libc::SIGKILL);
    recorder.wait().unwrap();
    wait_gone(&child);
    assert_eq!(lab.recordings()[0]["runs"], 0);
    assert_eq!(lab.run(&["show"]).expect(3).stderr, "");
}

#[test]
fn an_interrupt_before_the_first_run_is_kept_for_later() {
    let lab = Lab::new();
    lab.script("work", "[ -e free ] || { echo $$ > waiting; exec sleep 1000; }");
    let recorder = lab.start(&["compare", "./work a", "./work b", "-n", "2"]);
    lab.wait_for("waiting");
    recorder.signal(libc::SIGINT);
    let ended = recorder.end().expect(130).says(&["interrupted after 0 of 6 runs"]);
    assert_eq!(ended.stdout, "", "there is nothing to show");
    lab.write("free", "");
    lab.run(&["resume"]).expect(0);
    assert_eq!(lab.recordings()[0]["runs"], 6);
}

#[test]
fn an_interrupt_of_a_recording_that_the_time_ends_names_no_number_of_runs() {
    let lab = Lab::new();
    lab.script(
        "work",
        "echo >> made; [ $(wc -l < made) -lt 9 ] || { echo $$ > waiting; exec sleep 1000; }",
    );
    let recorder = lab.start(&["compare", "./work a", "./work b"]);
    lab.wait_for("waiting");
    recorder.signal(libc::SIGINT);
    let ended = recorder.end().expect(130).says(&["interrupted after 8 runs; all are stored"]);
    assert!(ended.stdout.contains("the recording stopped after 8 runs;"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("2,000") && !ended.stdout.contains("2000"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("runs finished"), "{}", ended.stdout);
}

#[test]
fn an_interrupt_during_a_hook_is_no_failure_of_the_hook() {
    for hook in ["setup", "prepare", "conclude"] {
        let lab = Lab::new();
        let text = "[ -e free ] || { echo $$ > waiting; exec sleep 1000; }";
        let flag = format!("--{hook}");
        let args = ["compare", "true", "sh -c :", "-n", "2", &flag, text];
        let own = ["--cleanup", "echo clean >> cleaned", "--cleanup", "echo too >> cleaned"];
        let args = [&args[..], &own].concat();
        let recorder = lab.command(&args).process_group(0).spawn().unwrap();
        lab.wait_for("waiting");
        interrupt_group(&recorder);
        recorder.end().expect(130).says(&["interrupted after 0 of 6 runs"]);
        wait_gone(&lab.read("waiting"));
        assert_eq!(lab.lines("cleaned"), ["clean", "too"], "--{hook}");
        assert_eq!(lab.recordings()[0]["state"], "interrupted", "--{hook}");
        lab.write("free", "");
        lab.run(&["resume"]).expect(0);
        assert_eq!(lab.recordings()[0]["runs"], 6, "--{hook}");
    }
}

#[test]
fn an_interrupt_that_was_ignored_stays_ignored() {
    let lab = Lab::new();
    lab.script("work", "echo $$ > waiting\nwhile [ ! -e free ]; do sleep 0.01; done");
    // SIGHUP is ignored, as under nohup.
    let line = "trap '' HUP; exec $OPCOST compare './work a' './work b' -n 2";
    let recorder = lab.shell(line).spawn().unwrap();
    lab.wait_for("waiting");
    recorder.signal(libc::SIGHUP);
    lab.write("free", "");
    recorder.end().expect(0);
    assert_eq!(lab.recordings()[0]["state"], "finished");
}

#[test]
fn what_takes_long_is_announced_where_there_is_no_terminal() {
    let said = |more: &[&str]| {
        let lab = Lab::new();
        let long =
            ["compare", "-n", "500", "--prepare", "echo . >>made", "sleep 0.05", "sleep 0.06"];
        let recorder = lab.command(&[&long[..], more].concat()).spawn().unwrap();
        // Two warm-up runs come first, then runs that are compared.
        wait_until("a few runs", || {
            (lab.exists("made") && lab.lines("made").len() > 4).then_some(())
        });
        recorder.signal(libc::SIGINT);
        recorder.end().expect(130).stderr
    };
    let estimate = "opcost: 1000 runs of some ";
    let announced = said(&[]);
    assert!(announced.contains(estimate) && announced.contains(" will take about "), "{announced}");
    assert!(!said(&["--quiet"]).contains(estimate));
}
