//! Stores that are newer, foreign, damaged or no stores: status 5, the file named and unchanged.

use crate::lab::{Lab, TINY};
use rusqlite::Connection;
use std::fs;
use std::path::Path;

/// Asserts that every command that opens the store refuses it with status 5 and these words, names
/// it, and leaves it unchanged.
#[track_caller]
fn check(lab: &Lab, store: &Path, parts: &[&str]) {
    let name = store.to_str().unwrap();
    let before = fs::read(store).ok();
    let commands: [&[&str]; 4] =
        [&TINY, &["show", "last"], &["resume", "last"], &["list", "recordings"]];
    for args in commands {
        let ended = lab.run(&[&["--store", name], args].concat()).expect(5).says(parts);
        assert!(ended.stderr.contains(&format!("store '{name}'")), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
    assert!(fs::read(store).ok() == before, "the file was changed");
}

/// A lab with a recording whose store is several pages long.
fn recorded() -> Lab {
    let lab = Lab::new();
    lab.output(&["compare", "true", "sh -c :", "-n", "30", "--warmup", "0"]);
    lab
}

fn execute(store: &Path, sql: &str) {
    Connection::open(store).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn a_store_of_a_newer_version() {
    let lab = recorded();
    execute(&lab.store(), "PRAGMA user_version = 99");
    let parts = ["written by a newer opcost", "schema 99", "update opcost", "nothing was changed"];
    check(&lab, &lab.store(), &parts);
    execute(&lab.store(), "PRAGMA user_version = 4");
    lab.output(&["show"]);
}

#[test]
fn a_database_of_something_else() {
    let lab = Lab::new();
    let other = lab.path("other.db");
    execute(&other, "CREATE TABLE birds(name TEXT); INSERT INTO birds VALUES ('wren')");
    check(&lab, &other, &["not opcost's", "--store", "nothing was changed"]);
    execute(&other, "PRAGMA user_version = 1");
    check(&lab, &other, &["not opcost's"]);
}

#[test]
fn a_file_that_is_no_database() {
    let lab = Lab::new();
    let text = lab.write("notes.txt", "Some notes, a few hundred bytes of them.\n".repeat(20));
    check(&lab, &text, &["not a database", "another with --store"]);
}

#[test]
fn a_folder_or_a_file_in_place_of_a_folder() {
    let lab = Lab::new();
    fs::create_dir(lab.path("folder")).unwrap();
    check(&lab, &lab.path("folder"), &["it is a folder"]);
    lab.write("file", "x");
    let within = lab.path("file/store");
    let parts = ["cannot be created", "folder", "OPCOST_STORE"];
    lab.run(&[&["--store", within.to_str().unwrap()][..], &TINY].concat()).expect(5).says(&parts);
}

#[test]
fn a_damaged_header() {
    let lab = recorded();
    let mut bytes = fs::read(lab.store()).unwrap();
    bytes[..16].copy_from_slice(b"SQLite formar 3\0");
    fs::write(lab.store(), &bytes).unwrap();
    check(&lab, &lab.store(), &["damaged or not a database", "restore a copy"]);
    // Cut off in the middle of the first page.
    fs::write(lab.store(), &bytes[..700]).unwrap();
    check(&lab, &lab.store(), &["damaged or not a database"]);
}

#[test]
fn any_damaged_page_is_told_and_nothing_panics() {
    let lab = recorded();
    let whole = fs::read(lab.store()).unwrap();
    let page_bytes = usize::from(u16::from_be_bytes([whole[16], whole[17]]));
    let pages = whole.len() / page_bytes;
    assert!(pages >= 8, "{pages} pages");
    let mut told = 0;
    for page in 1..pages {
        let mut bytes = whole.clone();
        bytes[page * page_bytes..(page + 1) * page_bytes].fill(0xa5);
        fs::write(lab.store(), &bytes).unwrap();
        for args in [&["show"][..], &["list", "recordings"]] {
            let ended = lab.run(args);
            match ended.status {
                // Not every command reads every page, and a list leaves out damaged recordings.
                Some(0) => told += usize::from(ended.stdout.contains("is damaged and left out")),
                Some(5) => {
                    told += 1;
                    let stderr = &ended.stderr;
                    assert!(stderr.contains("damaged"), "page {page}: {stderr}");
                    assert!(stderr.contains("store.sqlite"), "page {page}: {stderr}");
                }
                status => panic!("page {page}, {args:?}: {status:?}\n{}", ended.stderr),
            }
        }
        assert!(fs::read(lab.store()).unwrap() == bytes, "the file was changed");
    }
    assert!(told >= pages, "of {pages} pages, only {told} commands told of damage");
}

#[test]
fn runs_cut_off_a_store_are_told() {
    let lab = recorded();
    let whole = fs::read(lab.store()).unwrap();
    fs::write(lab.store(), &whole[..whole.len() - 8192]).unwrap();
    lab.run(&["show"]).expect(5).says(&["store.sqlite", "damaged"]);
}

#[test]
fn a_store_is_made_in_its_folder_and_reading_makes_nothing() {
    let lab = Lab::new();
    let deep = ["--store", "a/b c/store.sqlite"];
    lab.run(&[&deep[..], &["show"]].concat()).expect(5).says(&["nothing recorded yet"]);
    lab.run(&[&deep[..], &["resume"]].concat()).expect(5).says(&["nothing recorded yet"]);
    lab.run(&[&deep[..], &["list", "recordings"]].concat()).expect(5).says(&["opcost compare"]);
    assert!(!lab.exists("a"));
    fs::create_dir_all(lab.path("a/b c")).unwrap();
    lab.output(&[&deep[..], &TINY].concat());
    assert!(lab.exists("a/b c/store.sqlite") && !lab.store().exists());
    lab.output(&[&deep[..], &["show"]].concat());
}

#[test]
fn an_empty_file_becomes_a_store() {
    let lab = Lab::new();
    lab.write("store.sqlite", "");
    lab.run(&["show"]).expect(5).says(&["nothing recorded yet"]);
    lab.output(&TINY);
    lab.output(&["show"]);
}

#[test]
fn without_a_store_given_the_data_folder_is_used() {
    let lab = Lab::new();
    let mut command = lab.command(&TINY);
    command.env_remove("OPCOST_STORE").env("XDG_DATA_HOME", lab.path("data"));
    assert!(command.status().unwrap().success());
    assert!(lab.exists("data/opcost/recordings.sqlite"));
    let mut command = lab.command(&TINY);
    command.env_remove("OPCOST_STORE").env_remove("XDG_DATA_HOME").env("HOME", lab.path("home"));
    assert!(command.status().unwrap().success());
    assert!(lab.exists("home/.local/share/opcost/recordings.sqlite"));
    // An empty variable names no store, as empty XDG variables name no folder.
    let mut command = lab.command(&TINY);
    command.env("OPCOST_STORE", "").env("XDG_DATA_HOME", lab.path("other"));
    assert!(command.status().unwrap().success());
    assert!(lab.exists("other/opcost/recordings.sqlite"));
}

#[test]
fn a_damaged_recording_is_named_and_hides_no_other() {
    let lab = recorded();
    let ids = |lab: &Lab| -> Vec<String> {
        let ids = lab.recordings().into_iter().map(|head| head["id"].as_str().unwrap().to_string());
        ids.collect()
    };
    let first = ids(&lab).remove(0);
    let experiment = lab.recordings()[0]["experiment"].as_str().unwrap().to_string();
    lab.output(&TINY);
    execute(&lab.store(), &format!("UPDATE recordings SET plan = '{{' WHERE id = '{first}'"));
    let list = lab.output(&["list", "recordings"]);
    assert!(list.contains("syscall  seccomp=off | seccomp=on"), "{list}");
    assert!(list.contains(&format!("! recording {first} is damaged and left out")), "{list}");
    let listed = lab.recordings();
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().any(|head| head["id"] == first.as_str() && head["damaged"].is_string()));
    lab.run(&["show", &first])
        .expect(5)
        .says(&[&format!("recording {first} is damaged"), "opcost forget"]);
    // Its experiment is known, so it is missing from that experiment's history alone.
    let none = format!("no recording of '{experiment}' can be read");
    lab.run(&["history", &experiment])
        .expect(2)
        .says(&[&format!("recording {first} is damaged"), &none]);
    assert!(!lab.run(&["history", "syscall"]).expect(0).stderr.contains(&first));
    lab.output(&["forget", "--running", &first]);
    assert_eq!(ids(&lab).len(), 1);
}

#[test]
fn figures_that_changed_in_the_store_are_never_shown() {
    let lab = recorded();
    execute(&lab.store(), "UPDATE runs SET ops = 5 WHERE slot = 3");
    lab.run(&["show"]).expect(5).says(&["run 3: its checksum does not fit"]);
}
