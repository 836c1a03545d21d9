use super::*;

use opcost_record::{CountingTime, Reading, Report, Sample};
use opcost_sys::budget::LIMIT_BYTES;
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const CREATED_NS: u64 = 1_700_000_000_000_000_000;

/// A temporary folder and the path of a store in it.
fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.sqlite");
    (dir, path)
}

fn machine() -> MachineState {
    MachineState { kernel_release: Some("6.1".into()), ..MachineState::default() }
}

/// A plan of two variants; the resolver wrote the file for two pairs.
fn plan_of(pairs: u32) -> Plan {
    let mut plan: Plan = serde_json::from_str(include_str!("plan.json")).unwrap();
    plan.pairs = pairs;
    plan.blocks = plan.blocks.iter().cycle().take(pairs as usize).cloned().collect();
    plan
}

fn begin(path: &Path, plan: &Plan) -> RecordingWriter {
    Store::open_for_writing(path).unwrap().begin(plan, &machine(), CREATED_NS).unwrap()
}

fn record(slot: u32) -> Record {
    Record {
        slot,
        variant: (slot % 2) as u16,
        block: slot.checked_sub(2).map(|run| run / 4),
        started_unix_ns: CREATED_NS + u64::from(slot),
        outcome: Outcome::Finished,
        exit_code: Some(0),
        ops: Some(1000),
        samples: vec![],
        invariants: vec![Invariant { name: "ops-mmap".into(), value: "17".into() }],
    }
}

/// Unpacks the contents of an exported file.
fn unpacked_here(bytes: &[u8], scratch: &Path) -> Result<Store, StoreError> {
    let path = scratch.join("file");
    fs::write(&path, bytes).unwrap();
    unpacked(&path, fs::File::open(&path).unwrap(), scratch, LIMIT_BYTES)
}

#[test]
fn a_recording_s_values_are_drawn_from_the_budget() {
    let (dir, theirs, _) = stored(2000);
    let (_dir, here, id) = stored(8);
    let mut store = Store::open_for_writing(&here).unwrap();
    // Any program holds more than a MiB, so one of the many rows exceeds the limit.
    let shown = dir.path().join("named-by-the-user");
    let few = Store::open_foreign(&theirs, &shown, 1 << 20).unwrap();
    let error = store.take_over(&few, CREATED_NS).unwrap_err();
    assert!(matches!(error.kind, StoreErrorKind::Exceeded(_)), "{error}");
    assert_eq!(error.path, shown);
    let ids: Vec<String> = store.list().unwrap().into_iter().map(|head| head.id).collect();
    assert_eq!(ids, [id]);
    let enough = Store::open_foreign(&theirs, &shown, 64 << 30).unwrap();
    assert_eq!(store.take_over(&enough, CREATED_NS).unwrap().len(), 1);
}

/// A store with one recording of `runs` runs with two metrics each; returns its file and identifier.
fn stored(runs: u32) -> (TempDir, PathBuf, String) {
    let (dir, path) = place();
    let mut writer = begin(&path, &plan_of(20));
    for slot in 0..runs {
        let reading =
            |name, value| Reading::plain(MetricKey::new(name, Domain::All, "clock"), value);
        let report = Report {
            readings: vec![reading("wall", 1_000_000 + u64::from(slot)), reading("tsc", 7)],
            ..Report::default()
        };
        let samples = writer.samples(&report);
        writer.append(&[(Record { samples, ..record(slot) }, None)]).unwrap();
    }
    let id = writer.id().to_string();
    writer.end(State::Interrupted).unwrap();
    (dir, path, id)
}

fn open_error(path: &Path) -> StoreErrorKind {
    let reading = Store::open_for_reading(path).err().expect("an error").kind;
    let writing = Store::open_for_writing(path).err().expect("an error").kind;
    assert_eq!(reading, writing);
    reading
}

fn failure() -> impl Strategy<Value = Failure> {
    prop_oneof![
        (any::<i32>(), any::<Option<String>>())
            .prop_map(|(code, stderr)| Failure::ExitStatus { code, stderr }),
        any::<i32>().prop_map(|signal| Failure::Signal { signal, stderr: None }),
        any::<u64>().prop_map(|limit_ms| Failure::Timeout { limit_ms, stderr: None }),
        any::<String>().prop_map(|detail| Failure::Work { detail }),
    ]
}

fn reading() -> impl Strategy<Value = Reading> {
    let key = ("[a-e]", 0..3usize, "[xy]", "[wt]").prop_map(|(name, domain, source, region)| {
        MetricKey { name, domain: Domain::NAMES[domain].0, source, region }
    });
    (key, any::<u64>(), any::<Option<(u64, u64)>>()).prop_map(|(key, value, time)| Reading {
        key,
        value,
        time: time.map(|(enabled_ns, running_ns)| CountingTime { enabled_ns, running_ns }),
    })
}

fn invariant() -> impl Strategy<Value = Invariant> {
    ("[a-c]", "[0-3]").prop_map(|(name, value)| Invariant { name, value })
}

/// The contents of a run, without its place in the schedule.
fn run() -> impl Strategy<Value = (Report, Record)> {
    (
        prop::collection::vec(reading(), 0..6),
        prop::collection::vec(invariant(), 0..3),
        any::<Option<u64>>(),
        any::<(Option<u32>, u64, Option<i32>)>(),
        prop::option::of(failure()),
        0..2u16,
    )
        .prop_map(
            |(readings, invariants, ops, (block, started, exit_code), failure, variant)| {
                let record = Record {
                    slot: 0,
                    variant,
                    block,
                    started_unix_ns: started,
                    outcome: failure.map_or(Outcome::Finished, Outcome::Failed),
                    exit_code,
                    ops,
                    samples: vec![],
                    invariants: invariants.clone(),
                };
                (Report { ops, readings, invariants }, record)
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// One writer appends the first runs; a second writer resumes and appends the rest.
    #[test]
    fn what_is_appended_is_read_back(
        runs in prop::collection::vec((run(), prop::option::of(profile::tests::profile())), 1..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let (_dir, path) = place();
        let plan = plan_of(20);
        let mut writer = begin(&path, &plan);
        let id = writer.id().to_string();
        let cut = cut.index(runs.len());
        let mut expected: Vec<(Record, Vec<Reading>)> = Vec::new();
        let mut profiles = Vec::new();
        for (slot, ((report, run), profile)) in runs.into_iter().enumerate() {
            if slot == cut {
                writer.end(State::Interrupted).unwrap();
                let store = Store::open_for_writing(&path).unwrap();
                let (resumed, before) = store.resume(&id, &machine()).unwrap();
                prop_assert_eq!(before.records.len(), slot);
                writer = resumed;
            }
            let samples = writer.samples(&report);
            let record = Record { slot: slot as u32, samples, ..run };
            writer.append(&[(record.clone(), profile.clone())]).unwrap();
            expected.push((record, report.readings));
            profiles.extend(profile.map(|profile| (slot as u32, profile)));
        }
        let read = writer.end(State::Failed).unwrap().read(&id).unwrap();
        let again = Store::open_for_reading(&path).unwrap().read("last").unwrap();
        for recording in [read, again] {
            prop_assert_eq!(&recording.plan, &plan);
            prop_assert_eq!(recording.state, State::Failed);
            prop_assert_eq!(recording.created_unix_ns, CREATED_NS);
            prop_assert_eq!(&recording.machine, &vec![machine(), machine()]);
            prop_assert_eq!(&recording.profiles, &profiles);
            prop_assert_eq!(recording.records.len(), expected.len());
            for (record, (wanted, readings)) in recording.records.iter().zip(&expected) {
                prop_assert_eq!(record, wanted);
                let named: Vec<Reading> = record
                    .samples
                    .iter()
                    .map(|Sample { metric, value, time }| Reading {
                        key: recording.dictionary.key(*metric).unwrap().clone(),
                        value: *value,
                        time: *time,
                    })
                    .collect();
                prop_assert_eq!(&named, readings);
            }
        }
    }

    #[test]
    fn no_damage_makes_reading_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let (_dir, path, _) = stored(12);
        let mut bytes = fs::read(&path).unwrap();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        fs::write(&path, &bytes).unwrap();
        if let Ok(store) = Store::open_for_reading(&path) {
            let _ = store.list();
            let _ = store.read("last");
        }
    }
}

#[test]
fn an_absent_or_empty_file_is_an_empty_store() {
    let (_dir, path) = place();
    assert_eq!(Store::open_for_reading(&path).err().unwrap().kind, StoreErrorKind::Absent);
    assert!(!path.exists(), "reading creates nothing");
    fs::write(&path, "").unwrap();
    assert_eq!(Store::open_for_reading(&path).err().unwrap().kind, StoreErrorKind::Absent);
    begin(&path, &plan_of(2));
    assert_eq!(Store::open_for_reading(&path).unwrap().list().unwrap().len(), 1);
}

#[test]
fn other_files_are_told_apart_and_left_alone() {
    let (dir, path, _) = stored(1);
    let with_pragma = |pragma: &str| {
        let copy = dir.path().join("copy.sqlite");
        fs::copy(&path, &copy).unwrap();
        let connection = Connection::open(&copy).unwrap();
        connection.execute_batch(&format!("PRAGMA journal_mode=delete; {pragma}")).unwrap();
        drop(connection);
        let before = fs::read(&copy).unwrap();
        let kind = open_error(&copy);
        assert!(before == fs::read(&copy).unwrap(), "{pragma}: the file was changed");
        kind
    };
    let newer = StoreErrorKind::Newer { found: 99, known: 4 };
    assert_eq!(with_pragma("PRAGMA user_version=99"), newer);
    assert_eq!(with_pragma("PRAGMA application_id=1"), StoreErrorKind::Foreign);
    assert_eq!(with_pragma("PRAGMA application_id=0"), StoreErrorKind::Foreign);
    assert_eq!(
        with_pragma("PRAGMA application_id=0; PRAGMA user_version=0"),
        StoreErrorKind::Foreign
    );
    let text = dir.path().join("text");
    fs::write(&text, "just a text, longer than the header of a database is\n".repeat(20)).unwrap();
    assert!(matches!(open_error(&text), StoreErrorKind::Corrupt(_)));
    assert!(matches!(open_error(dir.path()), StoreErrorKind::CannotOpen(_)));
}

#[test]
fn names_that_sqlite_would_take_for_something_else_are_files() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["file:x.sqlite?mode=memory", "a%20b#c?.sqlite"] {
        let path = dir.path().join(name);
        begin(&path, &plan_of(2));
        assert!(path.is_file(), "{name}");
        assert_eq!(Store::open_for_reading(&path).unwrap().list().unwrap().len(), 1);
    }
}

#[test]
fn many_may_create_one_store_at_once() {
    for _ in 0..10 {
        let (_dir, path) = place();
        let plan = plan_of(2);
        let go = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    go.wait();
                    let mut writer = begin(&path, &plan);
                    writer.append(&[(record(0), None)]).unwrap();
                    writer.end(State::Finished).unwrap();
                });
            }
        });
        let heads = Store::open_for_reading(&path).unwrap().list().unwrap();
        assert_eq!(heads.len(), 8);
        assert!(heads.iter().all(|head| head.runs == 1 && head.state == State::Finished));
    }
}

#[test]
fn another_that_is_just_creating_the_store_is_waited_for() {
    let (_dir, path) = place();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| Store::open_for_writing(&path).map(|_| ()));
        // Long enough for the writer to meet the lock; if the writer is slower, the test tests nothing.
        std::thread::sleep(std::time::Duration::from_millis(300));
        other.execute_batch("COMMIT").unwrap();
        writer.join().unwrap().unwrap();
    });
}

#[test]
fn a_slot_is_stored_once_and_the_second_writer_changes_nothing() {
    let (_dir, path, id) = stored(2);
    let resume = || Store::open_for_writing(&path).unwrap().resume(&id, &machine()).unwrap().0;
    let (mut first, mut second) = (resume(), resume());
    first.append(&[(record(2), None)]).unwrap();
    let late = Record { ops: Some(5), ..record(2) };
    let error = second.append(&[(late, None)]).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::InUse { recording: id.clone(), slot: 2 });
    assert!(error.to_string().contains("another opcost is working on it"), "{error}");
    first.append(&[(record(3), None)]).unwrap();
    first.end(State::Finished).unwrap();
    let recording = second.end(State::Failed).unwrap().read(&id).unwrap();
    assert_eq!(recording.state, State::Finished, "the first one's word stands");
    assert_eq!(recording.records[2], record(2));
    assert_eq!(recording.records.len(), 4);
    assert_eq!(recording.machine.len(), 3, "each that resumed noted the machine's state");
}

#[test]
fn a_reader_sees_whole_runs_while_they_are_written() {
    let (_dir, path) = place();
    let mut writer = begin(&path, &plan_of(500));
    let id = writer.id().to_string();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while seen < 300 {
                // Each run has its own metric and its own set of invariants.
                let recording = Store::open_for_reading(&path).unwrap().read(&id).unwrap();
                for record in &recording.records {
                    let key = recording.dictionary.key(record.samples[0].metric).unwrap();
                    assert_eq!(key.name, record.invariants[0].value);
                }
                assert!(recording.records.len() >= seen);
                seen = recording.records.len();
            }
        });
        for slot in 0..300 {
            let name = format!("m{slot}");
            let key = MetricKey::new(&name, Domain::All, "clock");
            let report = Report { readings: vec![Reading::plain(key, 1)], ..Report::default() };
            let samples = writer.samples(&report);
            let invariants = vec![Invariant { name: "i".into(), value: name }];
            writer.append(&[(Record { samples, invariants, ..record(slot) }, None)]).unwrap();
        }
        reader.join().unwrap();
    });
}

#[test]
fn recordings_are_found_by_identifier_prefix_or_last() {
    let (_dir, path) = place();
    let plan = plan_of(2);
    let ids: Vec<String> = (0..12).map(|_| begin(&path, &plan).id().to_string()).collect();
    let store = Store::open_for_reading(&path).unwrap();
    assert_eq!(store.read("last").unwrap().id, ids[11]);
    assert_eq!(store.read(&ids[3]).unwrap().id, ids[3]);
    let listed: Vec<String> = store.list().unwrap().into_iter().map(|head| head.id).collect();
    assert_eq!(listed, ids, "the newest last");
    let error = store.read(&ids[0][..7]).unwrap_err();
    let StoreErrorKind::Ambiguous(_, many) = &error.kind else { panic!("{error}") };
    assert_eq!(many.len(), 12);
    assert!(error.to_string().contains("begins 12 recordings"), "{error}");
    assert!(error.to_string().contains(", …; give more of it"), "{error}");
    for none in ["nothing", "%", "_", "last "] {
        let kind = StoreErrorKind::NoRecording(none.into());
        assert_eq!(store.read(none).unwrap_err().kind, kind);
    }
}

#[test]
fn only_what_is_not_complete_is_resumed() {
    let (_dir, path) = place();
    let plan = plan_of(2);
    let mut writer = begin(&path, &plan);
    let id = writer.id().to_string();
    for slot in 0..plan.slot_count() as u32 {
        writer.append(&[(record(slot), None)]).unwrap();
    }
    writer.end(State::Finished).unwrap();
    let store = Store::open_for_writing(&path).unwrap();
    let error = store.resume(&id, &machine()).err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Complete(id.clone()));
    let recording = Store::open_for_reading(&path).unwrap().read(&id).unwrap();
    assert_eq!((recording.state, recording.machine.len()), (State::Finished, 1));
}

#[test]
fn rows_that_do_not_fit_together_are_damage() {
    for change in [
        "UPDATE runs SET variant = 7 WHERE slot = 3",
        "UPDATE runs SET invariants = 9 WHERE slot = 3",
        "UPDATE runs SET invariants = -1 WHERE slot = 3",
        "UPDATE runs SET samples = x'02ff' WHERE slot = 3",
        "UPDATE runs SET failure = '{}' WHERE slot = 3",
        "UPDATE runs SET ops = 'many' WHERE slot = 3",
        "UPDATE metrics SET domain = 'guest'",
        "UPDATE invariants SET items = '[1]'",
        "UPDATE recordings SET state = 'lost'",
        "UPDATE recordings SET plan = '{'",
        "UPDATE recordings SET machine = x'ff'",
        "INSERT INTO profiles VALUES (1, 3, x'28b52ffd', NULL)",
        "INSERT INTO profiles VALUES (1, 3, 'text', NULL)",
        // Contents that are possible but were never written.
        "UPDATE runs SET samples = x'00c1843d0207' WHERE slot = 3",
        "UPDATE runs SET ops = 1001 WHERE slot = 3",
        "DELETE FROM runs WHERE slot = 3",
        "UPDATE runs SET block = 1 WHERE slot = 3",
        "UPDATE runs SET exit_code = NULL WHERE slot = 3",
        "UPDATE runs SET started_unix_ns = started_unix_ns + 1 WHERE slot = 3",
        "UPDATE metrics SET name = 'well' WHERE id = 0",
        "UPDATE invariants SET items = replace(items, '17', '18')",
        "UPDATE recordings SET plan = replace(plan, ':2', ':3')",
    ] {
        let (_dir, path, id) = stored(5);
        Connection::open(&path).unwrap().execute_batch(change).unwrap();
        let error = Store::open_for_reading(&path).unwrap().read(&id).err();
        let kind = error.map(|error| error.kind);
        assert!(matches!(kind, Some(StoreErrorKind::Damaged { .. })), "{change}: {kind:?}");
    }
    let (_dir, path, _) = stored(5);
    let error = || Store::open_for_reading(&path).unwrap().read("last").unwrap_err().to_string();
    let sql = "INSERT INTO profiles VALUES (1, 3, x'ff', NULL)";
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    assert!(error().contains("the profile of run 3: it has no checksum"), "{}", error());
    let sum = checksum([&3i64.to_le_bytes(), &[0xff]]);
    let sql = format!("UPDATE profiles SET checksum = {sum}");
    Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
    assert!(error().contains("profile: "), "{}", error());
}

#[test]
fn a_damaged_recording_hides_no_other() {
    for change in
        ["plan = '{'", "state = 'lost'", "runs_at_end = 7", "plan = replace(plan, ':2', ':3')"]
    {
        let (_dir, path, whole) = stored(5);
        let damaged = begin(&path, &plan_of(4)).id().to_string();
        let sql = format!("UPDATE recordings SET {change} WHERE id = '{damaged}'");
        Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
        let mut store = Store::open_for_writing(&path).unwrap();
        let listed = store.list_all().unwrap();
        assert_eq!(listed.heads.iter().map(|head| &head.id).collect::<Vec<_>>(), [&whole]);
        assert_eq!(listed.damaged.len(), 1, "{change}");
        assert_eq!(listed.damaged[0].id.as_ref(), Some(&damaged));
        assert_eq!(store.read(&whole).unwrap().records.len(), 5);
        let said = store.read(&damaged).unwrap_err().to_string();
        assert!(said.contains(&format!("recording {damaged} is damaged")), "{said}");
        store.forget(&[damaged], true).unwrap();
        assert!(store.list_all().unwrap().damaged.is_empty());
    }
}

/// A store as version 1 created it.
fn stored_by_version_1(runs: u32) -> (TempDir, PathBuf, String) {
    let (dir, path, id) = stored(runs);
    let sql = "DROP TABLE profiles; ALTER TABLE runs DROP COLUMN checksum;
        ALTER TABLE invariants DROP COLUMN checksum; ALTER TABLE metrics DROP COLUMN checksum;
        ALTER TABLE recordings DROP COLUMN checksum;
        ALTER TABLE recordings DROP COLUMN arrived_unix_ns;
        ALTER TABLE recordings DROP COLUMN runs_at_end; PRAGMA user_version = 1; PRAGMA journal_mode = delete";
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    (dir, path, id)
}

#[test]
fn a_store_of_version_1_is_read_as_it_is() {
    let (_dir, path, id) = stored_by_version_1(5);
    let before = fs::read(&path).unwrap();
    let recording = Store::open_for_reading(&path).unwrap().read(&id).unwrap();
    assert_eq!((recording.records.len(), recording.profiles.len()), (5, 0));
    assert!(fs::read(&path).unwrap() == before, "the file was changed");
}

#[test]
fn a_store_of_version_1_is_brought_up_when_it_is_added_to() {
    let (_dir, path, id) = stored_by_version_1(5);
    let profile = Profile {
        functions: vec![opcost_record::Function::new("f", "m")],
        contexts: vec![],
        ..Profile::default()
    };
    // Two processes may upgrade the store at the same time.
    let stores = [(); 2].map(|()| Store::open_for_writing(&path).unwrap());
    for (slot, store) in (5..).zip(stores) {
        let (mut writer, _) = store.resume(&id, &machine()).unwrap();
        writer.append(&[(record(slot), Some(profile.clone()))]).unwrap();
        writer.end(State::Interrupted).unwrap();
    }
    let recording = Store::open_for_reading(&path).unwrap().read(&id).unwrap();
    assert_eq!(recording.records.len(), 7);
    assert_eq!(recording.profiles, [(5, profile.clone()), (6, profile)]);
}

#[test]
fn a_store_of_version_1_that_is_brought_up_has_every_checksum() {
    let (_dir, path, id) = stored_by_version_1(5);
    let as_it_was = Store::open_for_reading(&path).unwrap().read(&id).unwrap();
    let store = Store::open_for_writing(&path).unwrap();
    assert_eq!(store.read(&id).unwrap().records, as_it_was.records);
    for table in ["recordings", "runs", "metrics", "invariants"] {
        let query = format!("SELECT count(*) FROM {table} WHERE checksum IS NULL");
        let lacking: i64 = store.sql(|sql| sql.query_row(&query, [], |row| row.get(0))).unwrap();
        assert_eq!(lacking, 0, "{table}");
        let sql = format!("UPDATE {table} SET checksum = NULL");
        store.sql(|connection| connection.execute_batch(&sql)).unwrap();
        let error = store.read(&id).unwrap_err().to_string();
        assert!(error.contains("it has no checksum"), "{table}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// A damaged or forged file of somebody else's adds whole recordings or nothing, and never changes one that is here.
    #[test]
    fn no_foreign_bytes_change_what_is_here(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..16),
        end in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (dir, theirs, _) = stored(40);
        Connection::open(&theirs).unwrap().execute_batch("PRAGMA journal_mode = delete").unwrap();
        let mut bytes = fs::read(&theirs).unwrap();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes.truncate(end.map_or(bytes.len(), |end| end.index(bytes.len())));
        let forged = [&b"opcost-recording 1\n"[..], &zstd::encode_all(&*bytes, 1).unwrap()].concat();
        let (_dir, here, id) = stored(8);
        let mut store = Store::open_for_writing(&here).unwrap();
        let before = store.read(&id).unwrap();
        if let Ok(unpacked) = unpacked_here(&forged, dir.path()) {
            let _ = store.take_over(&unpacked, CREATED_NS);
        }
        let after = store.read(&id).unwrap();
        prop_assert_eq!((before.records, before.plan, before.machine), (after.records, after.plan, after.machine));
        for head in store.list().unwrap() {
            store.read(&head.id).unwrap();
        }
    }
}

#[test]
fn of_runs_that_are_stored_together_all_are_or_none() {
    let (_dir, path, id) = stored(2);
    let store = Store::open_for_writing(&path).unwrap();
    let (mut writer, _) = store.resume(&id, &machine()).unwrap();
    let set = |slot, value: &str| {
        let invariants = vec![Invariant { name: "bytes".into(), value: value.into() }];
        (Record { invariants, ..record(slot) }, None)
    };
    // The second run's slot is already stored.
    let error = writer.append(&[set(2, "new"), set(1, "newer")]).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::InUse { recording: id.clone(), slot: 1 });
    // The sets of invariants were not stored either.
    writer.append(&[set(2, "new"), set(3, "newer")]).unwrap();
    let recording = Store::open_for_reading(&path).unwrap().read(&id).unwrap();
    assert_eq!(recording.records.len(), 4);
    assert_eq!(recording.records[2..], [set(2, "new").0, set(3, "newer").0]);
}

#[test]
fn a_run_that_is_not_stored_leaves_no_profile() {
    let (_dir, path, id) = stored(3);
    let store = Store::open_for_writing(&path).unwrap();
    let (mut writer, _) = store.resume(&id, &machine()).unwrap();
    // The slot is already stored.
    writer.append(&[(record(2), Some(Profile::default()))]).unwrap_err();
    let recording = Store::open_for_reading(&path).unwrap().read(&id).unwrap();
    assert_eq!(recording.profiles, []);
}

#[test]
fn two_recordings_of_one_identifier_are_not_mixed_up() {
    let (dir, here, id) = stored(8);
    // A copy that was resumed independently.
    let there = dir.path().join("copy.sqlite");
    fs::copy(&here, &there).unwrap();
    let store = Store::open_for_writing(&there).unwrap();
    let (mut writer, _) = store.resume(&id, &machine()).unwrap();
    writer.append(&[(record(8), None)]).unwrap();
    writer.end(State::Interrupted).unwrap();
    let open = |path: &Path| Store::open_for_writing(path).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let packed = open(&here).pack(&id, scratch.path()).unwrap();
    let arrive = |store: &Path| {
        let unpacked = unpacked_here(&packed, scratch.path()).unwrap();
        open(store).take_over(&unpacked, CREATED_NS)
    };
    assert_eq!(arrive(&here).unwrap(), [(id.clone(), Arrival::Known)]);
    assert_eq!(arrive(&there).unwrap_err().kind, StoreErrorKind::Taken(id));
    assert_eq!(open(&there).read("last").unwrap().records.len(), 9);
}

#[test]
fn an_identifier_s_beginning_finds_what_begins_so_and_nothing_else() {
    let (_dir, path, _) = stored(1);
    let mut store = Store::open_for_writing(&path).unwrap();
    let ids = ["a-1", "a-12", "a-2", "b"];
    for id in ids {
        let writer = store.begin(&plan_of(1), &machine(), CREATED_NS).unwrap();
        let made = writer.id().to_string();
        drop(writer);
        store = Store::open_for_writing(&path).unwrap();
        let rename = "UPDATE recordings SET id = ?1 WHERE id = ?2";
        store.sql(|sql| sql.execute(rename, [id, &made])).unwrap();
    }
    for (beginning, whole) in [("a-1", "a-1"), ("a-12", "a-12"), ("a-2", "a-2"), ("b", "b")] {
        assert_eq!(store.whole_id(beginning).unwrap(), whole);
    }
    let kind = |beginning: &str| store.whole_id(beginning).unwrap_err().kind;
    let many = ids[..3].iter().map(ToString::to_string).collect();
    assert_eq!(kind("a-"), StoreErrorKind::Ambiguous("a-".into(), many));
    for nothing in ["a-3", "ba", "%", "a_1", "\u{10ffff}"] {
        assert_eq!(kind(nothing), StoreErrorKind::NoRecording(nothing.into()));
    }
    let plan = |query: &str| -> Vec<String> {
        let explained = format!("EXPLAIN QUERY PLAN {query}");
        let rows = |sql: &Connection| -> rusqlite::Result<Vec<String>> {
            sql.prepare(&explained)?.query_map(["a"], |row| row.get(3))?.collect()
        };
        store.sql(rows).unwrap()
    };
    let steps = plan(BY_BEGINNING);
    assert!(steps.iter().all(|step| step.starts_with("SEARCH")), "{steps:?}");
}

/// Whoever removes or replaces the file takes the recording with it, and nobody would find it afterwards.
#[test]
fn a_store_that_is_removed_or_replaced_ends_the_recording() {
    for replaced in [false, true] {
        let (_dir, path) = place();
        let mut writer = begin(&path, &plan_of(20));
        writer.append(&[(record(0), None)]).unwrap();
        let other = path.with_extension("other");
        if replaced {
            std::fs::copy(&path, &other).unwrap();
            std::fs::rename(&other, &path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
        let id = writer.id().to_string();
        let error = writer.append(&[(record(1), None)]).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Gone(id));
        // The store at its place is left alone.
        assert!(writer.end(State::Failed).is_ok());
        let (_dir, path) = place();
        let writer = begin(&path, &plan_of(20));
        std::fs::remove_file(&path).unwrap();
        assert!(writer.end(State::Finished).is_err());
    }
}
