//! One store, several recordings and several processes.

use crate::lab::{Lab, Started, TINY};

#[test]
fn two_processes_record_into_one_store_at_once() {
    let lab = Lab::new();
    // The first run of each waits until both recordings are under way.
    lab.script(
        "work",
        "touch here.$1\nwhile [ ! -e here.one ] || [ ! -e here.two ]; do sleep 0.01; done",
    );
    let start = |name: &str| {
        let (a, b) = (format!("./work {name} a"), format!("./work {name} b"));
        lab.start(&["compare", &a, &b, "-n", "20", "--name", name, "--format", "csv"])
    };
    let (one, two) = (start("one"), start("two"));
    for ended in [one.end().expect(0), two.end().expect(0)] {
        assert_eq!(ended.stdout.lines().count(), 1 + 42);
    }
    let recordings = lab.recordings();
    assert_eq!(recordings.len(), 2);
    for recording in recordings {
        assert_eq!((&recording["state"], &recording["runs"]), (&"finished".into(), &42.into()));
        let id = recording["id"].as_str().unwrap();
        let slots: Vec<String> = (0..42).map(|slot| slot.to_string()).collect();
        assert_eq!(lab.column(id, "run"), slots);
        let name = recording["experiment"].as_str().unwrap();
        let document = lab.json(&["show", id, "--json"]);
        assert_eq!(document["opcost"]["plan"]["experiment"], name);
    }
}

#[test]
fn many_processes_create_one_store() {
    let lab = Lab::new();
    std::fs::create_dir_all(lab.path("deep/er")).unwrap();
    let args = [&["--store", "deep/er/store.sqlite"][..], &TINY].concat();
    let started: Vec<_> = (0..6).map(|_| lab.start(&args)).collect();
    for child in started {
        child.end().expect(0);
    }
    let list = lab.json(&["--store", "deep/er/store.sqlite", "list", "recordings", "--json"]);
    let runs: Vec<u64> =
        list.as_array().unwrap().iter().map(|head| head["runs"].as_u64().unwrap()).collect();
    assert_eq!(runs, [4; 6]);
}

#[test]
fn a_recording_is_shown_while_it_is_made() {
    let lab = Lab::new();
    lab.script(
        "work",
        "echo run >> made\n[ $(wc -l < made) -ne 5 ] || echo $$ > waiting\n\
         while [ -e waiting ]; do sleep 0.01; done",
    );
    let recorder = lab.start(&["compare", "./work a", "./work b", "-n", "4", "--warmup", "0"]);
    lab.wait_for("waiting");
    for format in ["text", "json", "markdown", "csv", "benchfmt"] {
        lab.output(&["show", "last", "--format", format]);
    }
    let document = lab.json(&["show", "--json"]);
    assert_eq!(document["opcost"]["state"], "running");
    assert_eq!(lab.runs("last").len(), 4);
    assert!(lab.output(&["show"]).contains("4 of 8 runs"));
    assert_eq!(lab.recordings()[0]["state"], "running");
    std::fs::remove_file(lab.path("waiting")).unwrap();
    recorder.end().expect(0);
    assert_eq!(lab.json(&["show", "--json"])["opcost"]["state"], "finished");
    assert_eq!(lab.runs("last").len(), 8);
}

#[test]
fn recordings_are_found_by_identifier_beginning_or_last() {
    let lab = Lab::new();
    lab.output(&[&TINY[..], &["--name", "first"]].concat());
    let named = |id: &str| {
        lab.json(&["show", id, "--json"])["opcost"]["experiment"].as_str().unwrap().to_string()
    };
    let id = |number: usize| lab.recordings()[number]["id"].as_str().unwrap().to_string();
    // With one recording, any beginning of its identifier names it.
    assert_eq!(named(&id(0)[..1]), "first");
    lab.output(&[&TINY[..], &["--name", "second"]].concat());
    let (first, second) = (id(0), id(1));
    assert_eq!(named(&first), "first");
    assert_eq!(named(&second), "second");
    assert_eq!(named("last"), "second");
    assert!(lab.output(&["show"]).contains(&second), "last is what is shown without a name");
    let same = first.bytes().zip(second.bytes()).take_while(|(a, b)| a == b).count();
    assert_eq!(named(&second[..=same]), "second");
    for ambiguous in [&first[..same], ""] {
        let parts = ["begins 2 recordings", &first, &second, "give more of it"];
        lab.run(&["show", ambiguous]).expect(2).says(&parts);
        lab.run(&["resume", ambiguous]).expect(2).says(&parts);
    }
    for none in ["nothing", "LAST", "%"] {
        let parts = [format!("no recording '{none}'"), "opcost list recordings".into()];
        lab.run(&["show", none]).expect(2).says(&[&parts[0], &parts[1]]);
    }
    let list = lab.output(&["list", "recordings"]);
    assert!(list.find(&first).unwrap() < list.find(&second).unwrap(), "the newest last: {list}");
}
