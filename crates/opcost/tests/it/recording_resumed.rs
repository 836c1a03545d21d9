//! Resuming recordings: complete, failed, from elsewhere, and by two processes at once.

use crate::lab::{self, Lab, Started};

#[test]
fn a_complete_recording_is_not_resumed() {
    let lab = Lab::new();
    lab.output(&lab::TINY);
    let id = lab.recordings()[0]["id"].as_str().unwrap().to_string();
    let before = lab.output(&["show", "--json"]);
    let parts = [format!("recording {id} is complete"), format!("opcost show {id}")];
    for name in ["last", &id] {
        lab.run(&["resume", name]).expect(2).says(&[&parts[0], &parts[1]]);
    }
    assert_eq!(lab.output(&["show", "--json"]), before);
}

#[test]
fn a_recording_that_failed_is_gone_on_with_after_the_failed_run() {
    let lab = Lab::new();
    lab.script("work", "echo run >> made\n[ ! -e broken ] || [ $(wc -l < made) -ne 4 ]");
    lab.write("broken", "");
    let args = ["compare", "./work a", "./work b", "-n", "4", "--warmup", "0"];
    lab.run(&args).expect(4).says(&["run 3 of recording", "status 1"]);
    assert_eq!(lab.recordings()[0]["state"], "failed");
    std::fs::remove_file(lab.path("broken")).unwrap();
    let ended = lab.run(&["resume"]).expect(0);
    // The failed run was made once more for its standard error, and is not made again.
    assert_eq!(lab.lines("made").len(), 9);
    let slots: Vec<String> = (0..8).map(|slot| slot.to_string()).collect();
    assert_eq!(lab.column("last", "run"), slots);
    let outcomes = lab.column("last", "outcome");
    let failed: Vec<usize> = (0..8).filter(|run| outcomes[*run] != "finished").collect();
    assert_eq!(failed, [3]);
    assert!(ended.stdout.contains("7 of 8 runs finished"), "it is told: {}", ended.stdout);
    assert_eq!(lab.recordings()[0]["state"], "finished");
}

#[test]
fn a_hook_that_failed_is_tried_again() {
    let lab = Lab::new();
    let args = ["compare", "true", "sh -c :", "-n", "2", "--prepare", "test -e ready"];
    let ended = lab.run(&args).expect(4);
    assert_eq!(ended.stderr.matches("recording").count(), 1, "{}", ended.stderr);
    ended.says(&["run 0 of recording", "--prepare 'test -e ready' failed"]);
    lab.write("ready", "");
    lab.run(&["resume"]).expect(0);
    assert_eq!(lab.column("last", "outcome"), ["finished"; 6]);
}

#[test]
fn a_recording_is_resumed_from_any_folder() {
    let lab = Lab::new();
    lab.script("work", "echo run >> made\n[ -e ready ] || [ $(wc -l < made) -ne 2 ]");
    let hooks = ["--prepare", "echo p >> prepared", "--cleanup", "echo c >> cleaned"];
    let args = [&["compare", "./work a", "./work b", "-n", "2", "--warmup", "0"], &hooks[..]];
    lab.run(&args.concat()).expect(4);
    lab.write("ready", "");
    lab.write("elsewhere/work", "not this one");
    let mut resume = lab.command(&["resume"]);
    resume.current_dir(lab.path("elsewhere")).spawn().unwrap().end().expect(0);
    // The failed run was made once more for its standard error.
    assert_eq!(lab.lines("made").len(), 5);
    assert_eq!(lab.lines("prepared").len(), 5);
    assert_eq!(lab.lines("cleaned").len(), 2);
    let left: Vec<_> = std::fs::read_dir(lab.path("elsewhere")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn of_two_that_resume_one_recording_one_is_told_and_nothing_is_lost() {
    let lab = Lab::new();
    let waits = "echo $$ >> here\nwhile [ ! -e free ]; do sleep 0.01; done";
    lab.script("work", &format!("echo run >> made\n[ $(wc -l < made) -ne 3 ] || exit 1\n{waits}"));
    // Two runs, then a failure.
    lab.write("free", "");
    let args = ["compare", "./work a", "./work b", "-n", "6", "--warmup", "0"];
    lab.run(&args).expect(4).says(&["run 2 of recording"]);
    let id = lab.recordings()[0]["id"].as_str().unwrap().to_string();
    std::fs::remove_file(lab.path("free")).unwrap();
    std::fs::remove_file(lab.path("here")).unwrap();
    // Both processes reach the same run, and continue together.
    let (one, two) = (lab.start(&["resume", &id]), lab.start(&["resume", &id]));
    lab::wait_until("two runs at once", || {
        (lab.exists("here") && lab.lines("here").len() == 2).then_some(())
    });
    lab.write("free", "");
    let mut ended = [one.end(), two.end()];
    ended.sort_by_key(|ended| ended.status);
    let [first, second] = ended;
    first.expect(0);
    let told = format!("run 3 of recording {id}");
    second.expect(5).says(&[&told, "another opcost is working on it", "store.sqlite"]);
    let slots: Vec<String> = (0..12).map(|slot| slot.to_string()).collect();
    assert_eq!(lab.column(&id, "run"), slots);
    assert_eq!(lab.recordings()[0]["state"], "finished", "whichever ended last");
    assert_eq!(lab.json(&["show", "--json"])["opcost"]["state"], "finished");
}

#[test]
fn exports_are_checked_before_a_recording_is_resumed() {
    let lab = Lab::new();
    lab.script("work", "echo run >> made\n[ $(wc -l < made) -ne 1 ]");
    lab.run(&["compare", "./work a", "./work b", "-n", "2"]).expect(4);
    let args = ["resume", "--export-json", "none/out.json"];
    lab.run(&args).expect(2).says(&["--export-json", "there is no folder 'none'"]);
    assert_eq!(lab.lines("made").len(), 1, "no run was made");
    lab.run(&["resume", "--export-json", "out.json"]).expect(0);
    let exported: serde_json::Value = serde_json::from_str(&lab.read("out.json")).unwrap();
    assert_eq!(exported["opcost"]["state"], "finished");
}
