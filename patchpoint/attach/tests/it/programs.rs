//! Programs of other kinds: in Rust, and of several shared objects.

use crate::made::{self, Busy};
use crate::others::{self, Killed};
use patchpoint_attach::AttachError;
use patchpoint_attach::body;
use patchpoint_attach::change::Change;
use patchpoint_attach::memory::Memory;
use patchpoint_attach::process::{Process, Purpose};
use patchpoint_attach::registry;
use patchpoint_attach::survey::{Key, Survey};
use patchpoint_attach::symbol;
use patchpoint_attach::target::Restored;
use patchpoint_attach::writes::Side;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

fn key<'a>(survey: &'a Survey, name: &str) -> &'a Key {
    survey.keys.iter().find(|key| key.name == name).unwrap()
}

fn plan(process: &Process, survey: &Survey, name: &str, asked: u64) -> Change {
    let key = key(survey, name);
    Change::plan(survey, key, &[body::state_with(process, survey, key, asked)]).unwrap()
}

/// The distinct states of a key's sites.
fn states(survey: &Survey, name: &str) -> Vec<&'static str> {
    let mut states: Vec<&str> = key(survey, name).sites.iter().map(|site| site.state).collect();
    states.dedup();
    states
}

#[test]
fn one_in_rust_is_changed_and_counts_its_operations() {
    let is_arm = cfg!(target_arch = "aarch64");
    if !cfg!(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux")) {
        return crate::skip::skip!("sites are patched on x86-64 and arm64 Linux only");
    }
    // Cargo builds examples with the tests, two folders above this test's program.
    let own = std::env::current_exe().unwrap();
    let program = own.parent().unwrap().parent().unwrap().join("examples/shapes");
    if !program.exists() {
        return crate::skip::skip!(
            "the example is built with all tests only, or by cargo build --examples"
        );
    }
    let mut shapes = Killed(Command::new(program).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(shapes.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("keys area, limit, tracing"), "{line}");
    let process = Process::open(shapes.0.id() as i32, Purpose::Change).unwrap();
    let survey = process.survey().unwrap();
    let functions = symbol::functions(&process, &process.mappings().unwrap(), |_| true).functions;
    let function = |name: &str| functions.iter().find(|known| known.name == name).unwrap().address;
    let cases = [
        ("area", function("ellipse"), "call"),
        ("area", function("width"), if is_arm { "nop" } else { "move" }),
        ("limit", 7, "immediate"),
        ("tracing", 1, "jump"),
    ];
    // On arm64 values are loads, and a key without sites is not listed.
    let listed = |case: &&(&str, u64, &str)| !is_arm || case.0 != "limit";
    for &(name, asked, state) in cases.iter().filter(listed) {
        // An unoptimised body of several instructions is called rather than inlined.
        let change = plan(&process, &survey, name, asked);
        process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap();
        let now = process.survey().unwrap();
        assert_eq!(
            (key(&now, name).state.value, states(&now, name)),
            (asked, vec![state]),
            "{name}"
        );
        let ops = || process.number(registry::ops_address(change.registry)).unwrap();
        let before = ops();
        while ops() == before {
            std::thread::yield_now();
        }
        assert_eq!(process.restore(&change).unwrap(), Restored::Done { forked: 0 });
        assert_eq!(process.survey().unwrap().keys, survey.keys, "{name}");
    }
}

#[test]
fn the_sites_of_all_shared_objects_change_with_their_key() {
    let Some(mut host) = others::host(None) else { return };
    assert_eq!(host.ask("open"), "open 0");
    let process = Process::open(host.pid(), Purpose::Change).unwrap();
    let survey = process.survey().unwrap();
    assert_eq!((survey.registries.len(), survey.registries[0].objects.len()), (1, 3));
    let number = key(&survey, "shared_number");
    // The program and the second plugin each have a key that stands for the first plugin's key.
    assert_eq!(number.imports.len(), 2);
    assert!(number.path.contains("plugin_first"), "{}", number.path);
    assert_eq!(host.ask("see"), "10120 10120 10120");
    let change = plan(&process, &survey, "shared_number", 34);
    for _ in 0..10 {
        process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap();
        assert_eq!(host.ask("see"), "10340 10340 10340");
        process.apply(&change, Side::ASKED, Side::FOUND, |_| ()).unwrap();
        assert_eq!(host.ask("see"), "10120 10120 10120");
    }
    assert_eq!(process.survey().unwrap().keys, survey.keys);
    assert_eq!(host.ask("check"), "check 0");
}

/// The names of the known `step_` functions, and whether a file has unknown names.
fn names(process: &Process) -> (Vec<String>, bool) {
    let found = symbol::functions(process, &process.mappings().unwrap(), |_| true);
    let steps = found.functions.into_iter().filter(|known| known.name.starts_with("step_"));
    (steps.map(|known| known.name).collect(), !found.unread.is_empty())
}

#[test]
fn functions_have_names_where_the_file_was_removed_or_replaced() {
    let (Some(program), Some(other)) = (made::program(), others::host_program()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    std::fs::copy(program, &path).unwrap();
    let busy = Busy::start(Command::new(&path).arg("1"));
    let process = Process::open(busy.pid(), Purpose::Look).unwrap();
    let known = names(&process);
    assert!(known.0.len() >= 7 && !known.1, "{known:?}");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(names(&process), known);
    std::fs::copy(other, &path).unwrap();
    assert_eq!(names(&process), known);
}

#[test]
fn functions_have_names_where_the_file_is_in_another_root_directory() {
    let Some(program) = others::static_program() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(program, folder.path().join("program")).unwrap();
    let mut command = Command::new("chroot");
    let Some(busy) = Busy::try_start(command.arg(folder.path()).args(["/program", "1"])) else {
        return crate::skip::skip!("cannot change the root directory here");
    };
    let process = Process::open(busy.pid(), Purpose::Look).unwrap();
    assert!(names(&process).0.contains(&"step_mix".to_string()));
    assert!(process.survey().unwrap().keys[0].path.ends_with("/program"));
}

/// Changes a key, opens or closes an object with sites of the key, and restores.
fn meet_another_object(how: Option<&str>) {
    let Some(mut host) = others::host(how) else { return };
    let process = Process::open(host.pid(), Purpose::Change).unwrap();
    for (event, before, after) in [
        ("open", "10120 10120 -1", "10120 10120 10120"),
        ("close", "10120 10120 10120", "10120 10120 -1"),
    ] {
        assert_eq!(host.ask("see"), before);
        let change = plan(&process, &process.survey().unwrap(), "shared_number", 34);
        process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap();
        assert_eq!(host.ask(event), format!("{event} 0"));
        let error = process.apply(&change, Side::ASKED, Side::FOUND, |_| ()).unwrap_err();
        assert!(matches!(error, AttachError::OtherObjects { .. }), "{error}");
        assert_eq!(process.restore(&change).unwrap(), Restored::Done { forked: 0 });
        assert_eq!(host.ask("see"), after);
        assert_eq!(host.ask("check"), "check 0");
    }
}

#[test]
fn an_object_that_comes_or_goes_meanwhile_ends_the_flipping_and_everything_is_restored() {
    meet_another_object(None);
}

#[test]
fn so_it_does_where_sites_read_their_keys() {
    meet_another_object(Some("plain"));
}
