//! Events in a program while it is attached to: stops, forks, new threads, executing another program.

use crate::made::Busy;
use patchpoint_attach::AttachError;
use patchpoint_attach::body;
use patchpoint_attach::change::Change;
use patchpoint_attach::guardian::{self, Undo};
use patchpoint_attach::process::{Process, Purpose};
use patchpoint_attach::stop::StopError;
use patchpoint_attach::survey::{Key, Survey};
use patchpoint_attach::target::Restored;
use patchpoint_attach::writes::Side;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const FOUND: &str = "slow=0 rounds=4 wide=7 step=identity mode=0";
const SLOW: &str = "slow=1 rounds=4 wide=7 step=identity mode=0";

/// The process, its survey, and the change of `slow` to on.
fn opened(busy: &Busy) -> (Process, Survey, Change) {
    let process = Process::open(busy.pid(), Purpose::Change).unwrap();
    let survey = process.survey().unwrap();
    let slow = slow(&survey);
    let change =
        Change::plan(&survey, slow, &[body::state_with(&process, &survey, slow, 1)]).unwrap();
    (process, survey, change)
}

fn slow(survey: &Survey) -> &Key {
    survey.keys.iter().find(|key| key.name == "slow").unwrap()
}

fn send(pid: i32, signal: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status();
    assert!(sent.unwrap().success());
}

/// The state letters of a process's threads.
fn states(pid: i32) -> Vec<char> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stat = |path: std::path::PathBuf| fs::read_to_string(path.join("stat")).unwrap();
    threads
        .map(|thread| stat(thread.unwrap().path()))
        .map(|stat| stat.rsplit_once(") ").unwrap().1.chars().next().unwrap())
        .collect()
}

#[test]
fn one_that_job_control_stopped_is_changed_and_stays_stopped() {
    let Some(mut busy) = Busy::run(3, "") else { return };
    let (process, survey, change) = opened(&busy);
    let stopped = || states(busy.pid()).iter().all(|state| *state == 'T');
    send(busy.pid(), "STOP");
    while !stopped() {
        std::thread::yield_now();
    }
    for (from, to) in [(Side::FOUND, Side::ASKED), (Side::ASKED, Side::FOUND)] {
        process.apply(&change, from, to, |_| ()).unwrap();
        // Each thread stops again on its way back to the program.
        while !stopped() {
            std::thread::yield_now();
        }
    }
    assert_eq!(process.survey().unwrap().keys, survey.keys);
    process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap();
    send(busy.pid(), "CONT");
    assert_eq!(busy.ask("see"), SLOW);
    process.restore(&change).unwrap();
    assert_eq!(busy.ask("check"), "check 0");
}

#[test]
fn one_that_makes_threads_all_the_time_is_changed_back_and_forth() {
    let Some(mut busy) = Busy::run(2, "") else { return };
    let (process, _, change) = opened(&busy);
    assert_eq!(busy.ask("storm"), "storm 0");
    for round in 0..100 {
        process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap();
        assert_eq!(busy.ask("see"), SLOW, "round {round}");
        process.apply(&change, Side::ASKED, Side::FOUND, |_| ()).unwrap();
        assert_eq!(busy.ask("see"), FOUND, "round {round}");
    }
    assert_eq!(busy.ask("check"), "check 0");
}

#[test]
fn processes_that_it_forked_with_the_change_are_put_back_too() {
    let Some(mut busy) = Busy::run(2, "") else { return };
    let (process, survey, change) = opened(&busy);
    let fork = |busy: &mut Busy| {
        let pid = busy.ask("fork").parse().unwrap();
        Process::open(pid, Purpose::Look).unwrap()
    };
    let before = fork(&mut busy);
    process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap();
    let meanwhile = [fork(&mut busy), fork(&mut busy)];
    for child in &meanwhile {
        assert_eq!(slow(&child.survey().unwrap()).state.value, 1);
    }
    assert_eq!(process.restore(&change).unwrap(), Restored::Done { forked: 2 });
    for child in meanwhile.iter().chain([&before]) {
        assert_eq!(child.survey().unwrap().keys, survey.keys);
    }
    assert_eq!(process.restore_forked(&change), 0);
    assert_eq!(busy.ask("check"), "check 0");
}

#[test]
fn one_that_executes_another_program_is_not_touched_any_more() {
    let Some(mut busy) = Busy::run(2, "") else { return };
    let (process, _, change) = opened(&busy);
    process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap();
    assert_eq!(busy.ask("exec"), "exec");
    while process.is_alive() {
        std::thread::yield_now();
    }
    let error = process.apply(&change, Side::ASKED, Side::FOUND, |_| ()).unwrap_err();
    let AttachError::OtherProgram { name, .. } = &error else { panic!("{error}") };
    assert_eq!(name, "sleep");
    assert!(error.to_string().contains("executes another program now (sleep)"), "{error}");
    assert_eq!(process.restore(&change).unwrap(), Restored::Gone);
    let anew = Process::open(busy.pid(), Purpose::Look).unwrap();
    assert!(matches!(anew.survey(), Err(AttachError::NotUsed { .. })));
}

#[test]
fn one_with_a_thread_that_nothing_interrupts_is_given_up_and_unchanged() {
    let Some(mut busy) = Busy::run(2, "") else { return };
    let (process, survey, change) = opened(&busy);
    assert_eq!(busy.ask("vfork"), "vfork 0");
    while !states(busy.pid()).contains(&'D') {
        std::thread::yield_now();
    }
    let error = process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap_err();
    assert!(matches!(error, AttachError::Stop(StopError::TooSlow { .. })), "{error}");
    assert!(error.to_string().contains("something that no signal interrupts"), "{error}");
    assert_eq!(busy.ask("see"), FOUND);
    assert_eq!(process.survey().unwrap().keys, survey.keys);
}

/// A variable with an [`Undo`]: the next test starts itself with it, as the program that changes a
/// process and never lets it go, and kills that program.
const HELD: &str = "OPCOST_ATTACH_TEST_HELD";

fn hold_in_the_middle_of_a_change(undo: &str) {
    let undo: Undo = serde_json::from_str(undo).unwrap();
    let process = Process::open(undo.pid, Purpose::Change).unwrap();
    let hold = |_: &[i32]| {
        // Bypasses the test harness, which captures output.
        fs::write("/proc/self/fd/2", "held\n").unwrap();
        loop {
            std::thread::park();
        }
    };
    process.apply(&undo.change, Side::FOUND, Side::ASKED, hold).unwrap();
}

#[test]
fn a_changer_that_is_killed_in_mid_flip_leaves_a_program_that_runs_and_can_be_restored() {
    if let Ok(undo) = std::env::var(HELD) {
        return hold_in_the_middle_of_a_change(&undo);
    }
    let Some(mut busy) = Busy::run(4, "") else { return };
    let (process, survey, change) = opened(&busy);
    let started_ticks = process.started_ticks;
    let undo = Undo { pid: busy.pid(), started_ticks, key: "slow".into(), change };
    let undo = serde_json::to_string(&undo).unwrap() + "\n";
    let mut changer = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "meanwhile::a_changer_that_is_killed_in_mid_flip_leaves_a_program_that_runs_and_can_be_restored",
        ])
        .env(HELD, undo.trim_end())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(changer.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    assert_eq!(states(busy.pid()), ['t'; 5]);
    changer.kill().unwrap();
    changer.wait().unwrap();
    assert_eq!(busy.ask("see"), SLOW);
    // The guardian does this when its owner's end of the pipe closes.
    let mut said = Vec::new();
    let restored = guardian::serve(undo.as_bytes(), &mut said).unwrap();
    assert_eq!((restored, said.as_slice()), (Some(Restored::Done { forked: 0 }), &b"ready\n"[..]));
    assert_eq!(process.survey().unwrap().keys, survey.keys);
    assert_eq!(busy.ask("check"), "check 0");
}
