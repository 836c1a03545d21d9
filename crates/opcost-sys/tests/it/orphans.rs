//! Processes that commands leave behind. Orphans belong to the whole process, so the test runs in a process of its own: this test
//! program again, with one test chosen and a variable set.

use opcost_sys::interrupt::Interrupt;
use opcost_sys::orphans::{Left, Orphanage};
use opcost_sys::spawn::{Spawn, Status};
use std::fs;
use std::process::Command;

const VARIABLE: &str = "OPCOST_SYS_ORPHANS_CASE";

fn run(script: &str) {
    let spawn = Spawn::new("/bin/sh", ["sh".into(), "-c".into(), script.into()]);
    let exit = spawn.hold().unwrap().release().unwrap().wait(None, &Interrupt::none()).unwrap();
    assert_eq!(exit.status, Status::Code(0), "{script}");
}

fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn what_is_left_behind_is_found_and_ended() {
    if std::env::var_os(VARIABLE).is_none() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "orphans::what_is_left_behind_is_found_and_ended", "--nocapture"]);
        let output = command.env(VARIABLE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let mut orphanage = Orphanage::open().unwrap();
    run("true");
    assert_eq!(orphanage.end_left().unwrap(), Left::default());
    run("sleep 1000 & sleep 1000 & sleep 1000 &");
    assert_eq!(orphanage.end_left().unwrap(), Left { alive: 3, remaining: 0 });
    // A process in a session of its own, with a child.
    let pids = file("pids");
    run(&format!(
        "setsid sh -c 'sleep 1000 & echo $! >{0}; sleep 1000' & while ! [ -s {0} ]; do :; done",
        pids.display()
    ));
    assert_eq!(orphanage.end_left().unwrap(), Left { alive: 3, remaining: 0 });
    assert!(!lives(&fs::read_to_string(&pids).unwrap()));
    // A process that ended by itself does not count as left behind, and leaves no zombie.
    run("true & wait; (true &)");
    let left = orphanage.end_left().unwrap();
    assert!(left.alive <= 1, "{left:?}");
    // A process started in a pause stays.
    orphanage.pause().unwrap();
    run(&format!("sleep 1000 & echo $! >{}", file("kept").display()));
    orphanage.resume().unwrap();
    run("true");
    assert_eq!(orphanage.end_left().unwrap(), Left::default());
    let kept = fs::read_to_string(file("kept")).unwrap();
    assert!(lives(&kept));
    // SAFETY: the process was started above.
    unsafe { libc::kill(kept.trim().parse().unwrap(), libc::SIGKILL) };
}
