//! Disks that are full or read-only: the file is named, and stored recordings stay readable.

use crate::lab::{Lab, Started, with_mounts};
use serde_json::Value;

/// Runs a script on mounts of its own; if mounting is not allowed, prints a skip message.
fn on_mounts(lab: &Lab, script: &str) -> bool {
    std::fs::create_dir(lab.path("disk")).unwrap();
    match with_mounts(lab, script) {
        Some(ended) => {
            ended.expect(0);
            true
        }
        None => {
            crate::skip::skip!("this user may not mount anything (unshare --mount)");
            false
        }
    }
}

#[test]
fn a_full_disk_stops_a_recording_and_loses_nothing() {
    let lab = Lab::new();
    // Room for the first recording, then for a few runs of the second, then for all of it.
    let script = r#"
        mount -t tmpfs -o size=8m none disk
        export OPCOST_STORE=disk/store.sqlite
        $OPCOST compare true 'sh -c :' -n 4 --seed 1 > /dev/null
        $OPCOST show --json > first.before
        head -c 16m /dev/zero > disk/filler || :
        truncate -s -128K disk/filler
        status=0
        $OPCOST compare true 'sh -c :' -n 100 --seed 1 --name second > full.out 2> full.err || status=$?
        echo $status > full.status
        df -k disk > df
        id=$(sed -n 's/.*"recording": "\(.*\)",/\1/p' first.before)
        $OPCOST show $id --json > first.after
        $OPCOST list recordings --json > list.full
        rm disk/filler
        $OPCOST resume last > /dev/null
        $OPCOST show last --format csv > second.csv
        $OPCOST list recordings --json > list.end
        $OPCOST show $id --json > first.end
    "#;
    if !on_mounts(&lab, script) {
        return;
    }
    assert_eq!(lab.read("full.status"), "5\n");
    let error = lab.read("full.err");
    for part in ["store 'disk/store.sqlite'", "the disk is full", "are kept"] {
        assert!(error.contains(part), "no '{part}' in: {error}");
    }
    assert_eq!(lab.read("first.after"), lab.read("first.before"));
    assert_eq!(lab.read("first.end"), lab.read("first.before"));
    let list = |name: &str| -> Value { serde_json::from_str(&lab.read(name)).unwrap() };
    let (full, end) = (list("list.full"), list("list.end"));
    assert_eq!(full[0]["state"], "finished");
    assert_eq!(full[1]["experiment"], "second");
    let stored = full[1]["runs"].as_u64().unwrap();
    assert!((1..202).contains(&stored), "{stored} runs fit");
    assert_eq!((&end[1]["runs"], &end[1]["state"]), (&202.into(), &"finished".into()));
    let mut reader = csv::Reader::from_path(lab.path("second.csv")).unwrap();
    let slots: Vec<String> = reader.records().map(|row| row.unwrap()[1].to_string()).collect();
    assert_eq!(slots, (0..202).map(|slot| slot.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_disk_without_any_room_is_read_and_not_written() {
    let lab = Lab::new();
    let script = r#"
        mount -t tmpfs -o size=400k none disk
        export OPCOST_STORE=disk/store.sqlite
        $OPCOST compare true 'sh -c :' -n 2 > /dev/null
        head -c 1m /dev/zero > disk/filler || :
        $OPCOST show --format csv > shown
        status=0
        $OPCOST compare true 'sh -c :' -n 2 > out 2> err || status=$?
        echo $status > status
        $OPCOST show --format csv > again
        $OPCOST --store disk/new.sqlite compare true 'sh -c :' -n 2 2> new.err || echo $? > new.status
    "#;
    if !on_mounts(&lab, script) {
        return;
    }
    assert_eq!(lab.lines("shown").len(), 7);
    assert_eq!(lab.read("again"), lab.read("shown"));
    for (status, error) in [("status", "err"), ("new.status", "new.err")] {
        assert_eq!(lab.read(status), "5\n");
        assert!(lab.read(error).contains("the disk is full"), "{}", lab.read(error));
    }
}

#[test]
fn a_read_only_disk_is_read_and_not_written() {
    let lab = Lab::new();
    let script = r#"
        mount -t tmpfs -o size=4m none disk
        $OPCOST --store disk/store.sqlite compare true 'sh -c :' -n 2 > /dev/null
        mount -o remount,bind,ro disk
        touch disk/x 2> /dev/null && exit 9
        export OPCOST_STORE=disk/store.sqlite
        $OPCOST show --format csv > shown
        $OPCOST list recordings > list
        for args in "compare true false" "resume last"; do
            status=0
            $OPCOST $args > out 2>> err || status=$?
            echo $status >> status
        done
        unset OPCOST_STORE
        XDG_DATA_HOME=$PWD/disk/new $OPCOST compare true false 2> new.err || echo $? >> status
    "#;
    if !on_mounts(&lab, script) {
        return;
    }
    assert_eq!(lab.lines("shown").len(), 7);
    assert_eq!(lab.lines("list").len(), 2);
    assert_eq!(lab.lines("status"), ["5", "5", "5"]);
    for line in lab.lines("err") {
        assert!(line.contains("store 'disk/store.sqlite'") && line.contains("writable"), "{line}");
    }
    let error = lab.read("new.err");
    assert!(error.contains("disk/new/opcost") && error.contains("Read-only"), "{error}");
}

#[test]
fn a_read_only_file_is_read_and_not_written() {
    let lab = Lab::new();
    // Permissions do not bind root; a read-only mount of this single file does.
    let script = r#"
        $OPCOST --store store.sqlite compare true 'sh -c :' -n 2 > /dev/null
        mount --bind store.sqlite store.sqlite
        mount -o remount,bind,ro store.sqlite
        $OPCOST --store store.sqlite show --format csv > shown
        status=0
        $OPCOST --store store.sqlite compare true 'sh -c :' -n 2 2> err || status=$?
        echo $status > status
        $OPCOST --store store.sqlite show --format csv > again
    "#;
    if !on_mounts(&lab, script) {
        return;
    }
    assert_eq!(lab.read("status"), "5\n");
    let error = lab.read("err");
    assert!(error.contains("store 'store.sqlite'") && error.contains("read-only"), "{error}");
    assert_eq!(lab.read("again"), lab.read("shown"));
}

#[test]
fn a_limit_of_file_sizes_is_named() {
    let lab = Lab::new();
    let line = "ulimit -f 50; exec $OPCOST compare true true -n 7 --quiet";
    lab.shell(line).spawn().unwrap().end().expect(5).says(&["store.sqlite", "ulimit -f"]);
}
