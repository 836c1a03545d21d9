//! `opcost forget`: recordings that are deleted, and the space that they free.

use crate::lab::{Lab, TINY, wait_until};

fn ids(lab: &Lab) -> Vec<String> {
    let recordings = lab.recordings();
    recordings.iter().map(|head| head["id"].as_str().unwrap().to_string()).collect()
}

/// A lab with `count` recordings, the oldest first.
fn recorded(count: usize) -> (Lab, Vec<String>) {
    let lab = Lab::new();
    for _ in 0..count {
        lab.output(&TINY);
    }
    let ids = ids(&lab);
    (lab, ids)
}

#[test]
fn what_is_forgotten_is_gone_and_the_rest_is_as_it_was() {
    let (lab, ids_before) = recorded(3);
    let kept = lab.output(&["show", &ids_before[2]]);
    let dry = lab.output(&["forget", &ids_before[0], "--dry-run"]);
    assert!(dry.contains(&ids_before[0]) && dry.contains("would forget 1 recording;"), "{dry}");
    assert_eq!(ids(&lab), ids_before);
    // A recording that is named twice is forgotten once.
    let text = lab.output(&["forget", &ids_before[0], &ids_before[1], &ids_before[0]]);
    assert!(text.contains("forgot 2 recordings; the store has"), "{text}");
    assert_eq!(ids(&lab), ids_before[2..]);
    assert_eq!(lab.output(&["show", &ids_before[2]]), kept);
    lab.run(&["show", &ids_before[0]]).expect(2).says(&["no recording"]);
    // Its number may be used again; no data of it is left.
    lab.output(&["forget", "last"]);
    lab.output(&TINY);
    assert_eq!(lab.runs("last").len(), 4);
}

#[test]
fn an_experiment_keeps_its_latest_recordings() {
    let (lab, ids_before) = recorded(4);
    lab.output(&["measure", "-n", "1", "true", "--name", "other"]);
    lab.output(&["forget", "--experiment", "syscall", "--keep", "1"]);
    let left = ids(&lab);
    assert_eq!((left.len(), &left[0]), (2, &ids_before[3]));
    lab.output(&["forget", "--experiment", "syscall", "--keep", "9"]);
    assert_eq!(ids(&lab).len(), 2, "there are no more than it keeps");
}

#[test]
fn a_compacted_store_is_smaller_and_whole() {
    let lab = Lab::new();
    lab.output(&["compare", "true", "false", "-i", "-n", "200"]);
    lab.output(&TINY);
    let first = ids(&lab).remove(0);
    let report = lab.json(&["forget", &first, "--json"]);
    assert_eq!(report["forgotten"][0], first.as_str());
    let (bytes, free) = (report["store_bytes"].as_u64(), report["free_bytes"].as_u64());
    assert!(free > Some(10_000) && free < bytes, "{report}");
    let text = lab.output(&["forget", "--compact"]);
    assert!(text.starts_with("the store has") && !text.contains("free"), "{text}");
    let compacted = lab.json(&["forget", "--compact", "--json"]);
    assert!(compacted["store_bytes"].as_u64() < bytes, "{compacted}");
    assert_eq!(std::fs::metadata(lab.store()).unwrap().len(), compacted["store_bytes"]);
    assert_eq!(lab.runs("last").len(), 4);
    // Reading and adding still work.
    lab.output(&TINY);
    assert_eq!(ids(&lab).len(), 2);
}

#[test]
fn a_recording_that_is_being_made_is_kept_unless_that_is_asked_for() {
    let lab = Lab::new();
    let mut recorder = lab.start(&["compare", "sleep 0.01", "sleep 0.011", "-n", "2000"]);
    wait_until("runs", || {
        let stored = lab.store().exists() && lab.recordings().first()?["runs"].as_u64()? >= 4;
        stored.then_some(())
    });
    lab.run(&["forget", "last"]).expect(2).says(&["is being made", "--running"]);
    assert_eq!(ids(&lab).len(), 1);
    lab.output(&["forget", "last", "--running"]);
    // Another recording gets its number, and later runs of the first are not mixed in.
    lab.output(&TINY);
    let status = recorder.wait().unwrap();
    assert_eq!(status.code(), Some(5));
    assert_eq!(lab.runs("last").len(), 4);
    assert_eq!(lab.recordings()[0]["state"], "finished");
}

#[test]
fn what_cannot_be_forgotten_says_why() {
    let lab = Lab::new();
    lab.run(&["forget", "last"]).expect(5).says(&["nothing recorded yet"]);
    assert!(!lab.store().exists(), "a store was made");
    lab.output(&TINY);
    lab.run(&["forget"]).expect(2).says(&["say which recordings", "--experiment", "--compact"]);
    lab.run(&["forget", "nonsense"]).expect(2).says(&["no recording 'nonsense'"]);
    let unknown = ["forget", "--experiment", "sycall"];
    lab.run(&unknown).expect(2).says(&["no recording of an experiment", "did you mean syscall?"]);
    assert_eq!(ids(&lab).len(), 1);
}
