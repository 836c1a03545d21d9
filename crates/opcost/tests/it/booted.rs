//! Guests that are booted once: what is kept of them, and what becomes of damage to it.

use crate::lab::{Ended, Lab, Started};
use crate::needs;
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A comparison in a guest, its cache in the lab's folder.
fn compare(lab: &Lab, kernel: &str, more: &[&str]) -> Ended {
    let mut command = lab.command(&["compare", "--machine", "emulated", "--kernel", kernel]);
    command.args(["--seed", "1", "--pairs", "2", "--json"]);
    command.args(["-w", "copy:ops=50,path=sse2", "-w", "copy:ops=50,path=rep-movsb"]).args(more);
    command.env("XDG_CACHE_HOME", lab.path("cache"));
    command.spawn().unwrap().end()
}

/// The folders of the states that are kept.
fn states(lab: &Lab) -> Vec<PathBuf> {
    let folders = fs::read_dir(lab.path("cache/opcost/booted")).into_iter().flatten().flatten();
    folders.map(|entry| entry.path()).filter(|path| path.join("state.json").is_file()).collect()
}

/// What the recording says of each metric.
fn metrics(ended: &Ended) -> Value {
    let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
    shown["opcost"]["metrics"].clone()
}

fn made(state: &Path) -> Value {
    let text = fs::read_to_string(state.join("state.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["made_unix_ns"].clone()
}

#[test]
fn a_state_is_kept_once_told_from_damage_and_equals_a_boot() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    // Its warm-up run booted by itself; that it gave the same is what the note says.
    let first = compare(&lab, &kernel, &[]).expect(0);
    let [state] = &states(&lab)[..] else { panic!("{:?}", states(&lab)) };
    assert!(state.join("checked").is_file());
    let (first, whole) = (metrics(&first), made(state));
    let again = metrics(&compare(&lab, &kernel, &[]).expect(0));
    assert_eq!((&again, &made(state)), (&first, &whole));

    // What is cut short is made anew, and what was left by a killed opcost is in nobody's way.
    fs::create_dir_all(state.with_extension("making")).unwrap();
    let memory = File::options().write(true).open(state.join("memory")).unwrap();
    memory.set_len(1 << 20).unwrap();
    assert_eq!(metrics(&compare(&lab, &kernel, &[]).expect(0)), first);
    let whole_again = made(state);
    assert_ne!(whole_again, whole);
    let mut devices = fs::read(state.join("devices")).unwrap();
    devices[1000] ^= 1;
    fs::write(state.join("devices"), devices).unwrap();
    assert_eq!(metrics(&compare(&lab, &kernel, &[]).expect(0)), first);
    assert_ne!(made(state), whole_again);

    let kernel = |more: &[&str]| {
        let mut command = lab.command(&["kernel"]);
        command.args(more).env("XDG_CACHE_HOME", lab.path("cache")).spawn().unwrap().end()
    };
    let says = |more: &[&str], part: &str| {
        let said = kernel(more).expect(0).stdout;
        assert!(said.contains(part), "{said}");
    };
    says(&["list"], "1 kept state of booted guests");
    says(&["list", "--states"], "KERNEL");
    kernel(&["forget", "nope"]).expect(5).says(&["no kernel 'nope' in the cache"]);
    says(&["forget", "--states"], "removed 1 kept state of booted guests");
    assert_eq!(states(&lab).len(), 0);
}

#[test]
fn without_a_place_for_states_every_run_boots_and_says_so() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    lab.write("cache/opcost/booted", "");
    let ended = compare(&lab, &kernel, &["--warmup", "0"]).expect(0);
    assert!(ended.stderr.contains("no state of a guest with kernel"), "{}", ended.stderr);
    assert_eq!(metrics(&ended)[0]["verdict"], "changed");
}
