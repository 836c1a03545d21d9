//! `opcost attach` on real programs: the lists and measurements of opcost, and that the program is
//! afterwards as it was found, whatever happens to opcost.

use crate::busy::{self, Busy};
use crate::lab::{Ended, Lab, OPCOST, Started, wait_until};
use patchpoint_attach::stop::Stopped;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

const FOUND: &str = "slow=0 rounds=4 wide=7 step=identity mode=0";

fn attach(lab: &Lab, busy: &Busy, more: &[&str]) -> Ended {
    lab.run(&[&["attach", &busy.pid().to_string()], more].concat())
}

/// Asserts that sites and keys are as they were found, by the library's own check, too.
#[track_caller]
fn assert_untouched(busy: &mut Busy) {
    assert_eq!(busy.ask("see"), FOUND);
    assert_eq!(busy.ask("check"), "check 0");
    assert_eq!(busy.ask("see"), FOUND);
}

#[test]
fn keys_and_sites_are_listed() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(2, "")) else { return };
    let text = attach(&lab, &busy, &[]).expect(0).stdout;
    for part in
        ["3 threads · 6 keys", "counts its operations", "step (call) = step_identity", "nop  "]
    {
        assert!(text.contains(part), "no '{part}' in {text}");
    }
    let listed = lab.json(&["attach", &busy.pid().to_string(), "--json"]);
    let site = &listed["sites"][0];
    assert_eq!((&listed["schema"], &site["key"]), (&1.into(), &"churned".into()));
    for field in ["kind", "address", "object", "state", "bytes_original", "bytes_now"] {
        assert!(site[field].is_string(), "{field} in {site}");
    }
    assert_untouched(&mut busy);
}

#[test]
fn a_site_is_compared_live_per_operation_and_the_recording_can_be_shown_again() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(2, "")) else { return };
    let more = ["--key", "slow", "--to", "on", "--pairs", "30", "--period", "5ms", "--seed", "1"];
    let ended = attach(&lab, &busy, &more).expect(0);
    ended.says(&["'slow' was changed", "is as it was found"]);
    assert_untouched(&mut busy);
    let shown = lab.json(&["show", "last", "--json"]);
    let opcost = &shown["opcost"];
    assert_eq!(opcost["plan"]["machine"], "attached");
    let metrics = opcost["metrics"].as_array().unwrap();
    for name in ["wall", "task-clock"] {
        let metric = metrics.iter().find(|metric| metric["metric"] == name).unwrap();
        assert_eq!((&metric["per_op"], &metric["n_pairs"]), (&true.into(), &30.into()), "{metric}");
        assert!(metric["value"].as_f64().unwrap() > 0.0, "{metric}");
    }
    let names = &opcost["plan"]["variants"];
    assert_eq!((&names[0]["name"], &names[1]["name"]), (&"slow=off".into(), &"slow=on".into()));
    // 60 periods, and a warm-up of each side; a batch of the program is 256 operations.
    let ops = lab.column("last", "ops");
    assert_eq!(ops.len(), 62);
    assert!(ops.iter().all(|ops| ops.parse::<u64>().is_ok_and(|ops| ops > 0 && ops % 256 == 0)));
    lab.run(&["resume", "last"]).expect(2).says(&["begin anew with opcost attach"]);
}

#[test]
fn figures_are_per_second_where_no_operation_is_counted() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(1, "quiet")) else { return };
    let more =
        ["--key", "rounds", "--to", "5", "--pairs", "4", "--period", "2ms", "--format", "json"];
    let ended = attach(&lab, &busy, &more).expect(0);
    let shown: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let metrics = shown["opcost"]["metrics"].as_array().unwrap();
    let labels: Vec<&str> =
        metrics.iter().map(|metric| metric["metric"].as_str().unwrap()).collect();
    assert!(!labels.contains(&"wall"), "{labels:?}");
    let text = lab.output(&["show", "last"]);
    assert!(text.contains("task-clock/s") && text.contains("figures are per second"), "{text}");
    assert_untouched(&mut busy);
    let more = ["--key", "rounds", "--to", "5", "--primary", "wall"];
    attach(&lab, &busy, &more).expect(2).says(&["the program counts no operations to divide by"]);
}

#[test]
fn a_call_is_changed_by_the_functions_name() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(1, "")) else { return };
    let more = ["--key", "step", "--to", "step_mix", "--pairs", "4", "--period", "2ms"];
    let ended = attach(&lab, &busy, &more).expect(0);
    assert!(ended.stdout.contains("step=step_identity"), "{}", ended.stdout);
    assert!(!ended.stderr.contains("note:"), "{}", ended.stderr);
    assert_untouched(&mut busy);
}

#[test]
fn several_values_are_compared_with_the_one_that_was_found_in_one_recording() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(2, "")) else { return };
    let more = ["--key", "step", "--to", "step_zero", "--to", "step_mix,step_plus", "--pairs", "4"];
    let more = [&more[..], &["--period", "2ms", "--format", "json"]].concat();
    let ended = attach(&lab, &busy, &more).expect(0);
    let ended = ended.says(&["'step' was changed", "is as it was found"]);
    assert_untouched(&mut busy);
    let shown: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let names: Vec<&str> = shown["opcost"]["plan"]["variants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variant| variant["name"].as_str().unwrap())
        .collect();
    let values = ["step_identity", "step_zero", "step_mix", "step_plus"];
    assert_eq!(names, values.map(|value| format!("step={value}")));
    // Each value is compared with the first; each has 4 periods and a warm-up.
    let text = lab.output(&["show", "last"]);
    assert!(values.iter().all(|value| text.contains(value)), "{text}");
    assert_eq!(lab.column("last", "ops").len(), 20);
    for (key, two, says) in [
        ("rounds", "5,5", "--to 5 is given twice for 'rounds'"),
        ("rounds", "5,4", "'rounds' is 4 already"),
        ("step", "step_mix,step_mix", "--to step_mix is given twice for 'step'"),
        ("step", "step_mix,step_identity", "'step' is step_identity already"),
    ] {
        attach(&lab, &busy, &["--key", key, "--to", two]).expect(2).says(&[says]);
    }
}

#[test]
fn a_dry_run_changes_nothing() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(1, "")) else { return };
    let ended = attach(&lab, &busy, &["--key", "slow", "--to", "on", "--dry-run"]).expect(0);
    assert!(ended.stdout.contains("slow=on"), "{}", ended.stdout);
    assert!(!lab.exists("store.sqlite"));
    assert_untouched(&mut busy);
}

/// Runs the command that opcost prints for the way back.
fn back(lab: &Lab, said: &Ended) -> Ended {
    let line = said.stdout.lines().find_map(|line| line.strip_prefix("back: opcost ")).unwrap();
    lab.run(&line.split(' ').collect::<Vec<_>>())
}

#[test]
fn a_key_can_be_set_and_left_set_and_set_back() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(2, "")) else { return };
    for (key, to, then) in [
        ("slow", "on", "slow=1 rounds=4 wide=7 step=identity mode=0"),
        ("rounds", "-3", "slow=0 rounds=-3 wide=7 step=identity mode=0"),
        ("step", "step_mix", "slow=0 rounds=4 wide=7 step=mix mode=0"),
        ("mode", "2", "slow=0 rounds=4 wide=7 step=identity mode=2"),
    ] {
        let kept = attach(&lab, &busy, &["--key", key, "--to", to, "--keep"]).expect(0);
        assert!(kept.stdout.contains(&format!("'{key}' was ")), "{}", kept.stdout);
        assert!(kept.stdout.contains("sites written"), "{}", kept.stdout);
        assert_eq!(busy.ask("see"), then);
        let again = attach(&lab, &busy, &["--key", key, "--to", to, "--keep"]).expect(0);
        assert!(again.stdout.contains("already; nothing was changed"), "{}", again.stdout);
        assert_eq!(busy.ask("see"), then);
        back(&lab, &kept).expect(0);
        assert_eq!(busy.ask("see"), FOUND);
    }
    let pid = busy.pid().to_string();
    let kept = lab.json(&["attach", &pid, "--key", "slow", "--to", "on", "--keep", "--json"]);
    assert_eq!((&kept["value_before"], &kept["value"]), (&"off".into(), &"on".into()));
    assert_eq!((&kept["changed"], &kept["sites"]), (&true.into(), &kept["sites_written"]));
    // The kept value is the program's own value from then on.
    assert_eq!(busy.ask("check"), "check 0");
    assert!(!lab.exists("store.sqlite"));
    for (more, says) in [
        (&["--key", "rounds", "--to", "5,6", "--keep"][..], "give the one to keep"),
        (&["--key", "rounds", "--to", "5", "--keep", "--pairs", "4"], "cannot be used with"),
        (&["--keep"], "--key"),
    ] {
        attach(&lab, &busy, more).expect(2).says(&[says]);
    }
    assert_eq!(busy.ask("see"), FOUND);
}

#[test]
fn what_is_kept_is_read_by_sites_that_were_never_patched() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(1, "plain")) else { return };
    let kept = attach(&lab, &busy, &["--key", "slow", "--to", "on", "--keep"]).expect(0);
    assert!(kept.stdout.contains("0 of 2 sites written, the others read"), "{}", kept.stdout);
    assert_eq!(busy.ask("see"), "slow=1 rounds=4 wide=7 step=identity mode=0");
    back(&lab, &kept).expect(0);
    assert_untouched(&mut busy);
}

/// A command run by a user who is not root; if that is impossible, a skip message and `None`.
fn as_nobody(command: &[&str]) -> Option<Command> {
    let who = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let tried = Command::new("setpriv").args(who).arg("true").output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        crate::skip::skip!("cannot become another user here (setpriv)");
        return None;
    }
    let mut nobody = Command::new("setpriv");
    nobody.args(who).args(command).current_dir("/");
    Some(nobody)
}

#[test]
fn its_own_user_finds_the_functions_of_a_program_whose_file_was_removed() {
    let Some(program) = busy::program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    std::fs::copy(program, &path).unwrap();
    for path in [folder.path(), &path] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let Some(mut command) = as_nobody(&[path.to_str().unwrap(), "1"]) else { return };
    let mut busy = Busy::start(&mut command);
    std::fs::remove_file(&path).unwrap();
    let pid = busy.pid().to_string();
    let set = [OPCOST, "attach", &pid, "--key", "step", "--to", "step_mix", "--keep"];
    let ended = as_nobody(&set).unwrap().output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(busy.ask("see"), "slow=0 rounds=4 wide=7 step=mix mode=0");
    assert_eq!(busy.ask("check"), "check 0");
}

#[test]
fn what_is_asked_wrongly_is_refused_by_name() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(1, "")) else { return };
    let cases: [(&[&str], &str); 9] = [
        (&["--key", "slwo", "--to", "on"], "did you mean slow"),
        (&["--key", "slow@libnone.so", "--to", "on"], "give one of them"),
        (&["--key", "slow", "--to", "42"], "'slow' is a branch; give on or off"),
        (&["--key", "rounds", "--to", "on"], "'rounds' is a value of 4 bytes"),
        (&["--key", "rounds", "--to", "0x100000000"], "the number is too large"),
        (&["--key", "step", "--to", "step_mx"], "did you mean step_mix"),
        (&["--key", "step", "--to", "0x10"], "no code of the process is at that address"),
        (&["--key", "mode", "--to", "3"], "give a number from 0 to 2"),
        (&["--key", "slow", "--to", "off"], "'slow' is off already"),
    ];
    for (more, says) in cases {
        attach(&lab, &busy, more).expect(2).says(&[says]);
    }
    attach(&lab, &busy, &["--key", "slow"]).expect(2);
    assert_untouched(&mut busy);
}

#[test]
fn processes_that_cannot_be_changed_are_refused_by_name() {
    let lab = Lab::new();
    // Above the highest process number of any kernel (PID_MAX_LIMIT).
    lab.run(&["attach", "99999999"]).expect(4).says(&["there is no process 99999999"]);
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let ended = lab.run(&["attach", &other.id().to_string()]);
    other.kill().unwrap();
    other.wait().unwrap();
    ended.expect(4).says(&["does not use patchpoint"]);
    let Some(mut busy) = Busy::run(1, "") else { return };
    let traced = Stopped::stop(busy.pid()).unwrap();
    let ended = attach(&lab, &busy, &["--key", "slow", "--to", "on"]).expect(5);
    ended.says(&[&format!("is traced by process {} already", std::process::id())]);
    drop(traced);
    assert_untouched(&mut busy);
}

#[test]
fn without_the_right_nothing_is_changed() {
    let Some(mut busy) = Busy::run(1, "") else { return };
    let pid = busy.pid().to_string();
    let tried = [OPCOST, "attach", &pid, "--key", "slow", "--to", "on"];
    let Some(mut tried) = as_nobody(&tried) else { return };
    let tried = tried.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let ended = tried.end();
    let ended = ended.expect(5).says(&[
        "no right to",
        "nothing was changed in it",
        &format!("process {}", busy.pid()),
    ]);
    assert_eq!(ended.stderr.matches("Permission denied").count(), 1, "{}", ended.stderr);
    assert_untouched(&mut busy);
}

/// Starts opcost and returns in the middle of a measurement, with the site changed.
fn measuring(lab: &Lab, busy: &mut Busy) -> std::process::Child {
    let pid = busy.pid().to_string();
    let more = ["--key", "slow", "--to", "on", "--pairs", "500", "--period", "200ms"];
    let running = lab.start(&[&["attach", pid.as_str()][..], &more].concat());
    wait_until("the site to be changed", || (busy.ask("see") != FOUND).then_some(()));
    running
}

#[test]
fn a_guardian_restores_the_program_when_opcost_is_killed() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(4, "")) else { return };
    let running = measuring(&lab, &mut busy);
    running.signal(libc::SIGKILL);
    assert_eq!(running.end().status, None);
    wait_until("the guardian", || (busy.ask("see") == FOUND).then_some(()));
    assert_untouched(&mut busy);
}

#[test]
fn an_interrupt_restores_the_program_and_shows_what_was_measured() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(2, "")) else { return };
    let running = measuring(&lab, &mut busy);
    running.signal(libc::SIGINT);
    running.end().expect(130).says(&["interrupted after", "is as it was found"]);
    assert_untouched(&mut busy);
}

#[test]
fn a_program_that_ends_meanwhile_is_said_to() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(2, "")) else { return };
    let running = measuring(&lab, &mut busy);
    drop(busy);
    running.end().expect(4).says(&["has ended"]);
}

#[test]
fn a_program_that_changes_the_key_itself_keeps_its_own_value() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(1, "")) else { return };
    let pid = busy.pid().to_string();
    let more = ["--key", "rounds", "--to", "5", "--pairs", "500", "--period", "100ms"];
    let running = lab.start(&[&["attach", pid.as_str()][..], &more].concat());
    wait_until("the site to be changed", || busy.ask("see").contains("rounds=5").then_some(()));
    assert_eq!(busy.ask("own 77"), "own 0");
    running.end().expect(4).says(&["it is left as it is"]);
    assert_eq!(busy.ask("see"), "slow=0 rounds=77 wide=7 step=identity mode=0");
}

#[test]
fn a_debugger_that_comes_meanwhile_ends_it_and_the_guardian_waits_for_its_end() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(2, "")) else { return };
    let mut running = measuring(&lab, &mut busy);
    // Stopping fails while opcost itself traces the program.
    let debugger = wait_until("a stop", || Stopped::stop(busy.pid()).ok());
    wait_until("opcost's end", || running.try_wait().unwrap());
    drop(debugger);
    // The guardian writes to the same stream, so the messages end when the guardian ends.
    let traced = format!("is traced by process {} already", std::process::id());
    running.end().expect(4).says(&[&traced, "the process is as it was found"]);
    wait_until("the guardian", || (busy.ask("see") == FOUND).then_some(()));
    assert_untouched(&mut busy);
}

#[test]
fn a_program_that_executes_another_one_meanwhile_is_said_to() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(2, "")) else { return };
    let running = measuring(&lab, &mut busy);
    assert_eq!(busy.ask("exec"), "exec");
    running.end().expect(4).says(&["executes another program now (sleep)"]);
}

#[test]
fn what_a_program_forks_meanwhile_is_put_back_with_it() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(2, "")) else { return };
    let running = measuring(&lab, &mut busy);
    let child = busy.ask("fork");
    // SIGKILL leaves the restoring to the guardian; the fork may have happened with the site changed or not.
    running.signal(libc::SIGKILL);
    running.end();
    wait_until("the guardian", || (busy.ask("see") == FOUND).then_some(()));
    let slow = |listed: &serde_json::Value| {
        let keys = listed["keys"].as_array().unwrap();
        keys.iter().find(|key| key["key"] == "slow").unwrap()["value"].clone()
    };
    wait_until("the child", || {
        (slow(&lab.json(&["attach", &child, "--json"])) == "off").then_some(())
    });
    assert_untouched(&mut busy);
}

#[test]
fn a_program_that_job_control_stopped_is_said_to_count_nothing_and_stays_as_it_was() {
    let (lab, Some(mut busy)) = (Lab::new(), Busy::run(2, "")) else { return };
    let pid = busy.pid().to_string();
    let send = |signal: &str| {
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    };
    // Before its first operation, a program seems to count none.
    wait_until("an operation", || {
        lab.json(&["attach", &pid, "--json"])["ops"].as_u64().filter(|ops| *ops > 0)
    });
    send("-STOP");
    let more = ["--key", "slow", "--to", "on", "--pairs", "4", "--period", "2ms"];
    attach(&lab, &busy, &more).expect(4).says(&["it is idle, or stopped"]);
    send("-CONT");
    assert_untouched(&mut busy);
}
