//! Tests of kept states that are damaged, half made or refused, with shell scripts as QEMU.

use super::*;
use crate::machine::RunEnd;
use crate::machine::emulated::{Direct, Equipment, Tools};
use opcost_base::scratch::Scratch;
use opcost_model::guest_settings::GuestSettings;
use opcost_model::plan::Slot;
use opcost_record::metric::EMULATOR;
use opcost_record::{
    Architecture, Context, Domain, Function, MetricKey, Outcome, Profile, Reading, Report, WORK,
};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use tempfile::TempDir;

/// A QEMU that stops at once and writes a state of a few bytes.
///
/// `$memory` and `$devices` are the state's files.
const SAVES: &str = r#"
printf '{"QMP": {}}\n{"return": {}}\n{"return": {}}\n{"event": "STOP"}\n' >&3
read -r line <&3; read -r line <&3; read -r line <&3
line=${line##*exec:}
echo memory >"$memory"
BEFORE
echo devices | sh -c "${line%%\"*}"
printf '{"return": {}}\n{"data": {"status": "completed"}}\n{"return": {}}\n' >&3
"#;

fn equipment(qemu: PathBuf, version: &str) -> Rc<Equipment> {
    let tools = Tools {
        architecture: Architecture::X86_64,
        qemu,
        qemu_version: version.into(),
        plugin: PathBuf::new(),
        guest: PathBuf::new(),
    };
    Rc::new(Equipment {
        tools,
        plugin_arguments: Vec::new(),
        qemu_environment: Vec::new(),
        left_out: BTreeMap::new(),
    })
}

/// A folder for states, and an emulated machine whose QEMU is a script.
struct StateFolder {
    folder: TempDir,
}

impl StateFolder {
    fn new() -> StateFolder {
        StateFolder { folder: tempfile::tempdir().unwrap() }
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("abc")
    }

    fn emulated(&self, script: &str) -> Emulated<'static> {
        let qemu = self.folder.path().join("qemu");
        let find = r#"for one; do case $one in *mem-path=*) memory=${one##*mem-path=};; esac; done
                      devices=${memory%memory}devices"#;
        fs::write(&qemu, format!("#!/bin/sh\n{find}\n{script}\n")).unwrap();
        fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
        Emulated {
            interrupt: Box::leak(Box::new(Interrupt::none())),
            equipment: vec![equipment(qemu, "9.9.9")],
            direct: Vec::new(),
            core: None,
            prepared: Vec::new(),
            guests: Vec::new(),
            learned: false,
            inherited: None,
            environments: Vec::new(),
            jobs: 1,
            folder: Scratch::new().unwrap(),
            seconds: std::cell::RefCell::default(),
            watching: false,
        }
    }

    /// Makes a state with a script as QEMU; the error is the reason why there is none.
    fn make(&self, script: &str) -> Result<(), String> {
        let made = self.emulated(script).make(
            &kernel(),
            &guest(),
            Aslr::Fixed,
            (Path::new("/initrd"), None),
            &self.place(),
        );
        made.map_err(|not| match not {
            NotKept::Because(why) => why,
            NotKept::Interrupted => "interrupted".into(),
        })
    }

    /// Makes a complete state.
    fn made(&self) -> PathBuf {
        self.make(&SAVES.replace("BEFORE", "")).unwrap();
        assert!(open(&self.place()).is_some());
        self.place()
    }

    /// Makes a state to go on from.
    fn state(&self) -> BootedState {
        self.made();
        self.found()
    }

    /// Opens the existing state as any opcost does.
    fn found(&self) -> BootedState {
        BootedState {
            opened: open(&self.place()).unwrap(),
            folder: self.place(),
            _using: lock_file(self.folder.path(), "abc").unwrap(),
        }
    }

    /// Lets a QEMU go on from a new state.
    fn restore(&self, script: &str) -> Result<bool> {
        self.restore_from(&self.state(), script).0
    }

    /// Lets a QEMU go on from a state; also returns QEMU's messages.
    fn restore_from(&self, state: &BootedState, script: &str) -> (Result<bool>, String) {
        let interrupt = Box::leak(Box::new(Interrupt::none()));
        let words = ["sh", "-c", script].map(OsString::from);
        let files = Files::new(self.folder.path(), "run").unwrap();
        let mut spawn = Spawn::new(Path::new("/bin/sh"), words);
        spawn.pass_fds = state.passed().unwrap();
        let (mut flight, monitor) = launch(spawn, files, interrupt).unwrap();
        let restored = state.restore(&mut flight, monitor, interrupt);
        // If QEMU refused, its end was waited for already.
        if restored.is_ok() {
            flight.wait(Some(LIMIT), interrupt).unwrap();
        }
        (restored, flight.files.tail("stderr"))
    }

    /// Lets a QEMU refuse the state; returns the error.
    fn refuse(&self, script: &str) -> String {
        let error = self.restore(script).unwrap_err();
        assert!(!self.place().exists(), "the state is removed");
        error.to_string()
    }
}

fn kernel() -> Kernel {
    Kernel {
        name: "k".into(),
        image: "/k".into(),
        system_map: None,
        vmlinux: None,
        config: None,
        modules: None,
        digest: "d1".into(),
        release: None,
    }
}

fn guest() -> GuestPlan {
    with_memory(256)
}

fn with_memory(memory_mib: u32) -> GuestPlan {
    let settings = GuestSettings { memory_mib, ..GuestSettings::default() };
    GuestPlan { settings, ..GuestPlan::default() }
}

#[test]
fn another_emulator_processor_kernel_or_file_has_another_key() {
    let states = StateFolder::new();
    let mut emulated = states.emulated("");
    let key = |emulated: &Emulated<'_>, kernel, guest| {
        emulated.key(&kernel, &guest, Aslr::Fixed, b"files", None)
    };
    let mut keys = vec![key(&emulated, kernel(), guest())];
    assert_eq!(key(&emulated, kernel(), guest()), keys[0]);
    keys.push(emulated.key(&kernel(), &guest(), Aslr::Fixed, b"other files", None));
    keys.push(emulated.key(&kernel(), &guest(), Aslr::Randomised, b"files", None));
    keys.push(key(&emulated, Kernel { digest: "d2".into(), ..kernel() }, guest()));
    for other in [
        GuestPlan { cpu_model: "EPYC-Rome-v2,-avx2".into(), ..guest() },
        with_memory(512),
        GuestPlan { boot: "mitigations=off".into(), ..guest() },
    ] {
        keys.push(key(&emulated, kernel(), other));
    }
    // Another program that reports the same version of QEMU.
    keys.push(key(&states.emulated("exit 0"), kernel(), guest()));
    let qemu = emulated.equipment[0].tools.qemu.clone();
    emulated.equipment = vec![equipment(qemu, "9.9.10")];
    keys.push(key(&emulated, kernel(), guest()));
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count);
}

#[test]
fn only_what_was_written_for_its_key_is_whole() {
    let states = StateFolder::new();
    let damage = |what: &dyn Fn(&Path)| {
        let place = states.made();
        what(&place);
        assert!(open(&place).is_none());
    };
    damage(&|place| {
        File::options().write(true).open(place.join(MEMORY)).unwrap().set_len(3).unwrap()
    });
    damage(&|place| fs::write(place.join(DEVICES), "devicez\n").unwrap());
    damage(&|place| fs::write(place.join(DESCRIPTION), "{").unwrap());
    damage(&|place| fs::remove_file(place.join(DESCRIPTION)).unwrap());
    damage(&|place| fs::remove_file(place.join(MEMORY)).unwrap());
    // States of another key: first all files, then only the description.
    let other = states.folder.path().join("other");
    fs::rename(states.made(), &other).unwrap();
    assert!(open(&other).is_none());
    damage(&|place| {
        let text = fs::read_to_string(place.join(DESCRIPTION)).unwrap();
        fs::write(place.join(DESCRIPTION), text.replace("\"abc\"", "\"abd\"")).unwrap();
    });
    assert_eq!(kept(states.folder.path()).len(), 2, "both can be listed and forgotten");
}

#[test]
fn a_state_that_cannot_be_written_is_none_and_says_why() {
    let states = StateFolder::new();
    let cannot = |script: &str, said: &str| {
        let why = states.make(script).unwrap_err();
        assert!(why.contains(said), "{why}");
        let left = [states.place(), states.place().with_extension(MAKING)];
        assert!(left.iter().all(|path| !path.exists()), "{why}");
    };
    cannot("kill -BUS $$", "there is no room for the guest's memory in '");
    cannot("kill -KILL $$", "signal 9 ended the emulator");
    // QEMU writes its state to a full disk.
    cannot(&SAVES.replace("BEFORE", "ln -s /dev/full \"$devices\""), "No space left on device");
    let unwritable = SAVES.replace("BEFORE", "rm \"$memory\"");
    cannot(&unwritable, "abc.making': No such file or directory");
}

#[test]
fn what_a_killed_opcost_left_is_removed_unless_somebody_makes_it() {
    let states = StateFolder::new();
    let folder = states.folder.path();
    let whole = states.made();
    let [left, making] = ["left", "now"].map(|name| folder.join(name).with_extension(MAKING));
    for path in [&left, &making] {
        fs::create_dir_all(path).unwrap();
    }
    let locks = folder.join(LOCKS);
    let lock = opcost_kernel::lock(&locks, "now.making", &Interrupt::none(), &mut |_, _| {});
    sweep(folder);
    assert_eq!([left.exists(), making.exists(), whole.exists()], [false, true, true]);
    // A program that another test starts at this moment has the descriptor as well, so to close it here would not release the lock.
    lock.unwrap().unlock().unwrap();
    sweep(folder);
    assert!(!making.exists());
}

#[test]
fn a_qemu_that_does_not_go_on_says_why_and_costs_the_state() {
    let states = StateFolder::new();
    let refused = states.refuse(
        r#"printf '{"QMP": {}}\n{"return": {}}\n{"return": {}}\n{"return": {}}\n' >&3
           printf '{"data": {"status": "failed"}}\n' >&3
           for i in 1 2 3; do read -r line <&3; done
           echo 'load of migration failed: Invalid argument' >&2; exit 1"#,
    );
    for part in [
        "cannot go on from the kept state of a booted guest: the emulator refused migrate: it failed; \
         its status is 1",
        "load of migration failed: Invalid argument",
        "the kept state is removed: run this again, or with --fresh-boots",
    ] {
        assert!(refused.contains(part), "no '{part}' in: {refused}");
    }
    let killed = states.refuse("kill -KILL $$");
    assert!(killed.contains("the emulator ended; signal 9 ended it"), "{killed}");
}

#[test]
fn a_guest_that_dies_before_qemu_answers_went_on() {
    let states = StateFolder::new();
    let went_on = states.restore(
        r#"printf '{"QMP": {}}\n{"return": {}}\n{"return": {}}\n{"return": {}}\n' >&3
           printf '{"data": {"status": "completed"}}\n' >&3
           for i in 1 2 3 4; do read -r line <&3; done"#,
    );
    assert!(went_on.unwrap());
    assert!(states.place().exists(), "the state's fate is its guest's");
}

/// A QEMU that goes on from a state and prints the files' contents.
const GOES_ON: &str = r#"
printf '{"QMP": {}}\n{"return": {}}\n{"return": {}}\n' >&3
for i in 1 2 3; do read -r line <&3; done
line=${line##*exec:}
{ cat /proc/self/fd/4; sh -c "${line%%\"*}"; } >&2
printf '{"return": {}}\n{"data": {"status": "completed"}}\n{"return": {}}\n' >&3
"#;

#[test]
fn a_state_that_another_opcost_removes_or_replaces_is_gone_on_from() {
    let states = StateFolder::new();
    let (ours, others) = (states.state(), states.found());
    let goes_on = |state: &BootedState, read: &str| {
        let (restored, said) = states.restore_from(state, GOES_ON);
        assert_eq!((restored.unwrap(), said.as_str()), (true, read));
    };
    goes_on(&ours, "memory\ndevices\n");
    others.forget();
    assert!(!states.place().exists());
    goes_on(&ours, "memory\ndevices\n");
    // The second QEMU reads from the start, too: an open file keeps its position.
    goes_on(&ours, "memory\ndevices\n");

    // The holder of the first state neither removes nor vouches for the state in its place.
    let second = SAVES.replace("echo memory", "echo anew").replace("BEFORE", "");
    states.make(&second).unwrap();
    ours.forget();
    ours.set_checked();
    assert!(!states.found().is_checked());
    goes_on(&states.found(), "anew\ndevices\n");
    goes_on(&ours, "memory\ndevices\n");
    states.found().forget();
    assert!(!states.place().exists());
    assert_eq!(
        fs::read_dir(states.folder.path())
            .unwrap()
            .filter(|at| { at.as_ref().unwrap().path().extension() == Some(OsStr::new(MAKING)) })
            .count(),
        0,
        "nothing is left half removed"
    );
}

/// A run of `instructions` instructions, always with the same inputs.
fn run(slot: u32, instructions: u64) -> (Slot, Vec<RunEnd>) {
    let slot = Slot {
        slot,
        variant: 0,
        block: None,
        iteration: 0,
        padding_bytes: 3,
        guest_seed: 7,
        is_left_out: false,
    };
    let key = MetricKey {
        name: "instructions".into(),
        domain: Domain::All,
        source: EMULATOR.into(),
        region: WORK.into(),
    };
    let readings = vec![Reading::plain(key, instructions)];
    let report = Report { readings, ..Report::default() };
    let functions = ["wait", "work"].map(|name| Function::new(name, "x")).to_vec();
    let context = |function, cost| Context { parent: None, function, calls: 1, cost };
    let contexts = vec![context(0, 7), context(1, instructions - 7)];
    let profile = Some(Profile { functions, contexts, ..Profile::default() });
    let (outcome, exit_code) = (Outcome::Finished, Some(0));
    (slot, vec![RunEnd { started_unix_ns: 1, outcome, exit_code, report, profile }])
}

#[test]
fn a_state_that_agreed_with_a_boot_is_not_blamed_for_runs_that_do_not_repeat() {
    let states = StateFolder::new();
    let compare = |restored: &[u64]| {
        let state = states.state();
        let (slot, ends) = run(0, 100);
        let mut all = vec![Direct::of(&slot, &state, &[]).unwrap()];
        Direct::compare(&mut all, &slot, &ends, &state).unwrap();
        let mut later = restored.iter().enumerate();
        let compared = later.try_for_each(|(at, instructions)| {
            let (slot, ends) = run(at as u32 + 1, *instructions);
            Direct::compare(&mut all, &slot, &ends, &state)
        });
        (compared.map_err(|error| error.to_string()), state.is_checked(), states.place().exists())
    };
    let (error, ..) = compare(&[99, 100]);
    let error = error.unwrap_err();
    assert!(
        error.contains(
            "has 99 instructions, one that boots by itself has 100 instructions (-1 work):"
        ),
        "{error}"
    );
    assert!(!states.place().exists(), "a state that never agreed is removed");
    assert_eq!(compare(&[100, 100, 99]), (Ok(()), true, true));
}
