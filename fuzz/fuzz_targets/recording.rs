//! A recording in a file of somebody else's: edits of a store's bytes. The store is of version 2, whose rows have no checksums,
//! so edits reach the readers of plans, runs and profiles. Whatever arrives, the recording that was here before stays as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_analysis::comparison::compare;
use opcost_import::import::parsed::Input;
use opcost_import::import::{Options, ReadFile, assemble, read};
use opcost_model::recording::{MachineState, Recording, State};
use opcost_record::{
    AddressCost, Context, Function, MetricKey, Outcome, Profile, Reading, Record, Report,
};
use opcost_report::render::{FORMATS, Style, View, render};
use opcost_store::store::Store;
use opcost_sys::budget::{Budget, LIMIT_BYTES};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

struct Stores {
    _folder: tempfile::TempDir,
    /// The bytes of a sound store.
    theirs: Vec<u8>,
    edited: PathBuf,
    mine: PathBuf,
    kept: Recording,
}

static STORES: LazyLock<Mutex<Stores>> = LazyLock::new(|| Mutex::new(stores()));

/// A store with one recording: imported figures, a run with a sample, a profile.
fn made(path: &Path, name: &str) -> Recording {
    let result = |name: &str| format!(r#"{{"command": "{name}", "times": [0.1, 0.2, 0.3]}}"#);
    let text = format!(r#"{{"results": [{}, {}]}}"#, result(name), result("b"));
    let input = Input { path: Path::new("x.json"), text: &text, budget: &Budget::default() };
    let (format, parsed) = read(&input, None).expect("hyperfine's results");
    let file = ReadFile { label: "a".into(), path: "a".into(), format, parsed };
    let made = assemble(&[file], &Options::default()).expect("figures");
    let store = Store::open_for_writing(path).expect("a store");
    let mut writer = store.begin(&made.plan, &made.machine, 1).expect("a recording");
    let key = MetricKey::new("wall", opcost_record::Domain::All, "clock");
    let report = Report { readings: vec![Reading::plain(key, 7)], ..Report::default() };
    let record = Record {
        slot: 0,
        variant: 0,
        block: Some(0),
        started_unix_ns: 1,
        outcome: Outcome::Finished,
        exit_code: Some(0),
        ops: Some(3),
        samples: writer.samples(&report),
        invariants: Vec::new(),
    };
    let profile = Profile {
        functions: vec![Function::new("main", "/bin/work")],
        contexts: vec![Context { parent: None, function: 0, calls: 1, cost: 10 }],
        addresses: vec![AddressCost { function: 0, address: 0x401136, executions: 10, cost: 10 }],
        ..Profile::default()
    };
    writer.append(&[(record, Some(profile))]).expect("a run");
    writer.note_machine(&MachineState::default()).expect("a machine");
    let id = writer.id().to_string();
    let store = writer.end(State::Finished).expect("an end");
    store.read(&id).expect("what was written")
}

fn stores() -> Stores {
    let shared = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(if shared.exists() { shared } else { Path::new("/tmp") });
    let folder = folder.expect("a folder");
    let path = |name: &str| folder.path().join(name);
    made(&path("theirs.sqlite"), "theirs");
    let connection = rusqlite::Connection::open(path("theirs.sqlite")).expect("a store");
    let tables = ["recordings", "metrics", "invariants", "runs", "profiles"];
    let mut older = String::from("PRAGMA journal_mode = delete;");
    for table in tables {
        older += &format!("ALTER TABLE {table} DROP COLUMN checksum;");
    }
    older += "ALTER TABLE recordings DROP COLUMN arrived_unix_ns; ALTER TABLE recordings DROP COLUMN runs_at_end;
              PRAGMA user_version = 2; VACUUM;";
    connection.execute_batch(&older).expect("an older store");
    drop(connection);
    let theirs = std::fs::read(path("theirs.sqlite")).expect("a store");
    let kept = made(&path("mine.sqlite"), "mine");
    let mine = path("mine.sqlite");
    let edited = path("edited.sqlite");
    let stores = Stores { theirs, edited, mine, kept, _folder: folder };
    let sound = stores.theirs.clone();
    std::fs::write(&stores.edited, &sound).expect("room");
    let arrived = Store::open_foreign(&stores.edited, &stores.edited, LIMIT_BYTES)
        .and_then(|theirs| Store::open_for_writing(&stores.mine)?.take_over(&theirs, 1));
    assert_eq!(
        arrived.as_ref().map(Vec::len).ok(),
        Some(1),
        "the unedited store is refused: {arrived:?}"
    );
    stores
}

impl Stores {
    /// Reads a store as `opcost import` and `show` do; returns how many recordings were taken over.
    fn arrive(&self, bytes: &[u8]) -> usize {
        std::fs::write(&self.edited, bytes).expect("room");
        let Ok(theirs) = Store::open_foreign(&self.edited, &self.edited, LIMIT_BYTES) else {
            return 0;
        };
        for head in theirs.list().unwrap_or_default() {
            let Ok(recording) = theirs.read(&head.id) else { continue };
            let (comparison, warnings) = compare(&recording);
            let style = Style::plain();
            let view = View {
                recording: &recording,
                comparison: &comparison,
                warnings: &warnings,
                style: &style,
            };
            for format in FORMATS {
                // A figure may be beyond what a format can write.
                let _ = render(format.name, &view);
            }
        }
        let mut mine = Store::open_for_writing(&self.mine).expect("a store");
        let arrived = mine.take_over(&theirs, 1).map_or(0, |arrived| arrived.len());
        let kept = mine.read(&self.kept.id).expect("the recording that was here");
        assert_eq!((&kept.plan, &kept.records), (&self.kept.plan, &self.kept.records));
        assert_eq!((&kept.machine, &kept.profiles), (&self.kept.machine, &self.kept.profiles));
        let heads = mine.list().expect("the list");
        let others = heads.into_iter().map(|head| head.id).filter(|id| *id != self.kept.id);
        mine.forget(&others.collect::<Vec<_>>(), false).expect("room is given back");
        arrived
    }
}

fn locked() -> MutexGuard<'static, Stores> {
    STORES.lock().unwrap_or_else(PoisonError::into_inner)
}

fuzz_target!(|bytes: &[u8]| {
    let stores = locked();
    let mut file = stores.theirs.clone();
    // Each edit: a place, and the byte that is written there; the last bytes cut the file.
    let edits = bytes.chunks_exact(4);
    let rest = edits.remainder();
    for edit in edits {
        let place = u32::from_le_bytes([edit[0], edit[1], edit[2], 0]) as usize % file.len();
        file[place] = edit[3];
    }
    if let [cut, _, ..] = rest {
        let length = file.len() - usize::from(*cut) * file.len() / 256;
        file.truncate(length);
    }
    stores.arrive(&file);
});
