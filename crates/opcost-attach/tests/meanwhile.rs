//! What a program may do while it is attached to: stop, fork, make threads, execute another program.

mod made;

use made::Busy;
use opcost_attach::AttachError;
use opcost_attach::body;
use opcost_attach::change::Change;
use opcost_attach::process::{Process, Purpose};
use opcost_attach::survey::{Key, Survey};
use opcost_attach::target::Restored;
use opcost_attach::writes::Side;
use std::fs;
use std::process::Command;

const FOUND: &str = "slow=0 rounds=4 wide=7 step=identity";
const SLOW: &str = "slow=1 rounds=4 wide=7 step=identity";

/// The process, what was found in it, and the change of `slow` to on.
fn opened(busy: &Busy) -> (Process, Survey, Change) {
    let process = Process::open(busy.pid(), Purpose::Change).unwrap();
    let survey = process.survey().unwrap();
    let slow = slow(&survey);
    let change = Change::plan(&survey, slow, &[body::asked(&process, slow, 1)]).unwrap();
    (process, survey, change)
}

fn slow(survey: &Survey) -> &Key {
    survey.keys.iter().find(|key| key.name == "slow").unwrap()
}

fn send(pid: i32, signal: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status();
    assert!(sent.unwrap().success());
}

/// The letters of the states of a process's threads.
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
        // Each thread stops anew on its way back to the program.
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
        assert_eq!(slow(&child.survey().unwrap()).state.slot, 1);
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
