//! `opcost export` and `opcost import`: a recording travels as one file.

use crate::lab::{Lab, TINY};
use std::fs;

/// A lab with one recording in `first.opcost`, and its identifier.
fn exported() -> (Lab, String) {
    let lab = Lab::new();
    lab.output(&TINY);
    let id = lab.recordings()[0]["id"].as_str().unwrap().to_string();
    let ended = lab.run(&["export", "-o", "first.opcost"]).expect(0);
    assert!(
        ended.stderr.contains(&format!("recording {id} is in first.opcost")),
        "{}",
        ended.stderr
    );
    (lab, id)
}

#[test]
fn a_recording_arrives_to_the_last_digit() {
    let (lab, id) = exported();
    let shown = lab.output(&["show", "last", "--json"]);
    let other = ["--store", "other.sqlite"];
    let imported = lab.output(&[&other[..], &["import", "first.opcost", "--json"]].concat());
    assert_eq!(imported, shown);
    assert_eq!(lab.output(&[&other[..], &["show", &id, "--json"]].concat()), shown);
    let again = lab.run(&[&other[..], &["import", "first.opcost", "--json"]].concat()).expect(0);
    assert_eq!(again.stdout, shown);
    assert!(again.stderr.contains(&format!("recording {id} is in the store already")));
    // An imported recording can be exported again, as the same file.
    lab.output(&[&other[..], &["export", &id, "-q"]].concat());
    let [first, second] = ["first.opcost".to_string(), format!("{id}.opcost")]
        .map(|name| fs::read(lab.path(&name)).unwrap());
    assert_eq!(first, second);
    lab.run(&["export", "nothing"]).expect(2).says(&["no recording 'nothing'"]);
    lab.run(&["export", "-o", "no/folder"]).expect(5).says(&["cannot write 'no/folder'"]);
}

#[test]
fn a_damaged_file_is_named_and_nothing_is_stored() {
    let (lab, _) = exported();
    let whole = fs::read(lab.path("first.opcost")).unwrap();
    let refused = |contents: &[u8], parts: &[&str]| {
        fs::write(lab.path("bad.opcost"), contents).unwrap();
        lab.run(&["--store", "other.sqlite", "import", "bad.opcost"]).expect(5).says(parts);
        assert!(lab.output(&["--store", "other.sqlite", "list", "recordings"]).lines().count() < 3);
    };
    for end in [19, 30, whole.len() / 2, whole.len() - 1] {
        refused(&whole[..end], &["'bad.opcost'", "cut short or damaged"]);
    }
    for at in [25, whole.len() / 2, whole.len() - 2] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        refused(&damaged, &["'bad.opcost'", "cut short or damaged"]);
    }
    refused(&[&whole[..], b"more"].concat(), &["something follows its end"]);
    refused(
        &[b"opcost-recording 2\n", &whole[19..]].concat(),
        &["its version is 2", "update opcost"],
    );
    let empty = zstd::encode_all(&b"no store at all"[..], 1).unwrap();
    refused(&[&whole[..19], &empty].concat(), &["it holds no recording of opcost"]);
    lab.write("table.csv", "a,b\n1,2\n");
    lab.run(&["import", "first.opcost", "table.csv"])
        .expect(2)
        .says(&["'table.csv' is no recording"]);
    lab.run(&["import", "first.opcost", "--label", "x"])
        .expect(2)
        .says(&["--label is for results"]);
}

#[test]
fn a_folder_of_files_has_a_history() {
    let (lab, _) = exported();
    lab.output(&TINY);
    lab.output(&["export", "-q"]);
    let json = |args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&lab.output(&[&["history", "syscall", "--json"], args].concat()))
            .unwrap()
    };
    let (of_store, of_folder) = (json(&[]), json(&["--folder", "."]));
    assert_eq!(of_folder, of_store);
    lab.write("broken.opcost", "opcost-recording 1\n");
    let ended = lab.run(&["history", "syscall", "--json", "--folder", "."]).expect(0);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap(), of_store);
    assert!(ended.stderr.contains("broken.opcost is left out"), "{}", ended.stderr);
    fs::create_dir(lab.path("empty")).unwrap();
    let none = lab.run(&["history", "syscall", "--folder", "empty"]).expect(2);
    none.says(&["folder 'empty' has no file *.opcost"]);
}
