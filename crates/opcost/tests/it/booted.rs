//! Guests that boot once: their kept states, and damage to them.

use crate::lab::{Ended, Lab, Started, wait_until};
use crate::needs;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The arguments of a comparison in a guest.
fn words<'a>(kernel: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let first = ["compare", "--machine", "emulated", "--kernel", kernel, "--seed", "1"];
    let pairs: &[&str] = if more.contains(&"--pairs") { &[] } else { &["--pairs", "1"] };
    let then = ["-w", "copy:ops=50,path=sse2", "-w", "copy:ops=50,path=rep-movsb"];
    [&first[..], pairs, &then, &["--json"], more].concat()
}

/// Starts a comparison in a guest, with its cache in the lab's folder.
fn begin(lab: &Lab, kernel: &str, more: &[&str]) -> Child {
    let mut command = lab.command(&words(kernel, more));
    command.env("XDG_CACHE_HOME", lab.path("cache")).spawn().unwrap()
}

fn compare(lab: &Lab, kernel: &str, more: &[&str]) -> Ended {
    begin(lab, kernel, more).end()
}

/// The folders of the kept states.
fn states(lab: &Lab) -> Vec<PathBuf> {
    let folders = fs::read_dir(lab.path("cache/opcost/booted")).into_iter().flatten().flatten();
    folders.map(|entry| entry.path()).filter(|path| path.join("state.json").is_file()).collect()
}

/// The name and both figures of each metric.
fn values(ended: &Ended) -> Vec<[Value; 3]> {
    let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
    let metrics = shown["opcost"]["metrics"].as_array().unwrap().iter();
    let of = |metric: &Value| ["metric", "value_baseline", "value"].map(|key| metric[key].clone());
    metrics.map(of).collect()
}

fn made(state: &Path) -> Value {
    let text = fs::read_to_string(state.join("state.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["made_unix_ns"].clone()
}

const QUICK: [&str; 2] = ["--warmup", "0"];

#[test]
fn a_state_is_made_once_told_from_another_and_equals_a_boot() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    // The warm-up run booted by itself; the note says that it gave the same counts.
    let first = compare(&lab, &kernel, &["--verbose"]).expect(0);
    let first_values = values(&first);
    // The phases of guests that boot and of guests that continue from a state are told apart.
    let times = |phase: &str| {
        let row = first.stderr.lines().find_map(|line| line.trim_start().strip_prefix(phase));
        row.and_then(|row| row.split_whitespace().next()?.parse::<u32>().ok())
    };
    let phases = [
        ("a guest boots whose state is kept", 1),
        ("guests boot, up to their first word", 1),
        ("QEMU reads the kept state", 3),
        ("guests set up and do their work", 4),
        ("guests report and end, the plugin too", 4),
    ];
    for (phase, expected) in phases {
        assert_eq!(times(phase), Some(expected), "{phase}: {}", first.stderr);
    }
    let first = first_values;
    let [state] = &states(&lab)[..] else { panic!("{:?}", states(&lab)) };
    assert!(state.join("checked").is_file());
    let whole = made(state);
    assert_eq!(values(&compare(&lab, &kernel, &QUICK).expect(0)), first);
    assert_eq!(made(state), whole);

    // The description of another state is here. The opcost that makes the state anew is killed meanwhile.
    let description = state.join("state.json");
    let text = fs::read_to_string(&description).unwrap();
    let key = state.file_name().unwrap().to_str().unwrap();
    fs::write(&description, text.replace(key, &key.chars().rev().collect::<String>())).unwrap();
    let half_made = state.with_extension("making");
    let killed = begin(&lab, &kernel, &QUICK);
    wait_until("a state that is being made", || half_made.join("memory").is_file().then_some(()));
    killed.signal(libc::SIGKILL);
    assert_eq!(killed.end().status, None);
    assert!(half_made.is_dir() && !state.exists());

    // Two comparisons that need the same state make it once.
    let both = [0, 1].map(|_| begin(&lab, &kernel, &QUICK)).map(|one| one.end().expect(0));
    assert!(both.iter().all(|one| values(one) == first));
    let waited = |one: &&Ended| one.stderr.contains("another opcost is making it: waiting");
    assert_eq!(both.iter().filter(waited).count(), 1);
    let makes = |one: &&Ended| one.stderr.contains("to keep its state");
    assert_eq!(both.iter().filter(makes).count(), 1);
    assert!(!half_made.exists());
    assert_ne!(made(state), whole);

    // A guest whose memory is lost dies, and its state is removed.
    let mut memory = File::options().read(true).write(true).open(state.join("memory")).unwrap();
    let length = memory.metadata().unwrap().len();
    // QEMU checks the firmware in the first MiB, and refuses a state without it.
    let mut firmware = vec![0; 1 << 20];
    memory.read_exact(&mut firmware).unwrap();
    memory.set_len(0).and_then(|()| memory.set_len(length)).unwrap();
    memory.write_all_at(&firmware, 0).unwrap();
    let died = compare(&lab, &kernel, &QUICK).expect(4);
    let removed =
        "it went on from a kept state; the kept state is removed: run this again, or with";
    died.says(&["the guest", removed]);
    assert!(!state.exists());
}

#[test]
fn a_state_that_vanishes_between_runs_is_still_gone_on_from() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let comparison = begin(&lab, &kernel, &["--pairs", "3"]);
    // Both variants use the state, and the second warm-up run has continued from it.
    let state = wait_until("a state that agreed with a boot", || {
        states(&lab).into_iter().find(|state| state.join("checked").is_file())
    });
    // To remove the files one by one fails if a run notes its use meanwhile.
    fs::rename(&state, lab.path("gone")).unwrap();
    fs::remove_dir_all(lab.path("gone")).unwrap();
    comparison.end().expect(0);
    assert!(states(&lab).is_empty(), "it had no reason to make another");
}

#[test]
fn states_are_listed_and_removed() {
    let lab = Lab::new();
    let kernel = |more: &[&str]| {
        let mut command = lab.command(&["kernel"]);
        command.args(more).env("XDG_CACHE_HOME", lab.path("cache")).spawn().unwrap().end()
    };
    let says = |more: &[&str], part: &str| {
        let said = kernel(more).expect(0).stdout;
        assert!(said.contains(part), "{said}");
    };
    says(&["list", "--states"], "no states of booted guests are kept");
    let description = r#"{"key": "0123456789abcdef", "kernel": "k", "kernel_digest": "d", "emulator": "7.2",
        "machine": "max, 512 MiB", "made_unix_ns": 1, "memory_bytes": 1, "devices_digest": "d"}"#;
    let place = "cache/opcost/booted/0123456789abcdef";
    lab.write(&format!("{place}/state.json"), description);
    lab.write(&format!("{place}/memory"), "m");
    lab.write("cache/opcost/booted/fedcba.making/memory", "m");
    says(&["list"], "1 kept state of booted guests");
    says(&["list", "--states"], "max, 512 MiB");
    kernel(&["forget", "nope"]).expect(5).says(&["no kernel 'nope' in the cache"]);
    says(&["forget", "--states"], "removed 1 kept state of booted guests");
    assert!(!lab.exists(place) && !lab.exists("cache/opcost/booted/fedcba.making"));
}

/// Runs a comparison with its cache on a mount of its own; a skip message and `None` if mounting is not allowed.
fn compare_on(lab: &Lab, mount: &str, kernel: &str) -> Option<Ended> {
    let may = |words: &&&[&str]| {
        let mut asked = Command::new("unshare");
        let asked = asked.args(**words).args(["mount", "-t", "tmpfs", "none", "/tmp"]);
        asked.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let ways = [&["--mount"][..], &["--map-root-user", "--mount"]];
    let Some(way) = ways.iter().find(may) else {
        crate::skip::skip!("nothing may be mounted here (unshare --mount)");
        return None;
    };
    fs::create_dir_all(lab.path("cache")).unwrap();
    let line = format!("{mount} && exec \"$OPCOST\" \"$@\"");
    let mut command = lab.shell("exec unshare \"$@\"");
    command.arg("sh").args(*way).args(["sh", "-c", &line, "sh"]);
    command.args(words(kernel, &QUICK)).env("XDG_CACHE_HOME", lab.path("cache"));
    Some(command.spawn().unwrap().end())
}

#[test]
fn a_cache_that_is_full_or_cannot_be_written_to_is_said_and_every_run_boots() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let Some(full) =
        compare_on(&lab, "mount -t tmpfs -o size=8m none \"$XDG_CACHE_HOME\"", &kernel)
    else {
        return;
    };
    let full = full.expect(0).says(&[
        "no state of a guest with kernel",
        "can be kept: there is no room for the guest's memory in '",
        "free some, or put the cache elsewhere (XDG_CACHE_HOME)",
    ]);
    let unwritable = "mount --bind \"$XDG_CACHE_HOME\" \"$XDG_CACHE_HOME\" && \
                      mount -o remount,bind,ro \"$XDG_CACHE_HOME\"";
    let unwritable = compare_on(&lab, unwritable, &kernel).unwrap().expect(0);
    assert_eq!(values(&unwritable), values(&full));
    unwritable.says(&["no state of a guest with kernel", "Read-only file system"]);
}

#[test]
fn files_that_no_initramfs_holds_are_whole_in_the_guest_and_their_counts_repeat() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let data: Vec<u8> =
        (0..40u32 << 20).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    lab.write("data", data);
    let here = lab.shell("cksum data").spawn().unwrap().end().expect(0).stdout;
    let first = ["measure", "--machine", "emulated", "--kernel", &kernel, "--seed", "1", "-n", "1"];
    let measure = |more: &[&str]| {
        let args = [&first[..], &["--show-output", "--json", "cksum data"], more].concat();
        let mut command = lab.command(&args);
        command.env("XDG_CACHE_HOME", lab.path("cache")).spawn().unwrap().end()
    };
    let counts = |more: &[&str]| {
        let ended = measure(more).expect(0);
        // Each run's output comes first.
        let (printed, json) = ended.stdout.split_at(ended.stdout.find('{').unwrap());
        assert!(printed.starts_with(&here) && printed.lines().all(|line| line == here.trim_end()));
        let shown: Value = serde_json::from_str(json).unwrap();
        let figures = shown["opcost"]["figures"].as_array().unwrap();
        let value = |domain| {
            let is_it = |row: &&Value| row["metric"] == "instructions" && row["domain"] == domain;
            figures.iter().find(is_it).unwrap()["median"].as_f64().unwrap()
        };
        ["all", "user"].map(value)
    };
    // 40 MiB and a program with its libraries need some 170 MiB as an initramfs. The warm-up run boots by itself, and is compared with the kept state.
    let small = ["--memory-mib", "160"];
    let kept = counts(&[&small[..], &["--warmup", "1"]].concat());
    assert_eq!(counts(&[&small[..], &["--warmup", "0"]].concat()), kept);
    let fresh = || counts(&[&small[..], &["--warmup", "0", "--fresh-boots"]].concat());
    assert_eq!(fresh(), fresh());
    // With more memory the files come in the initramfs. The work finds the same, and the kernel other lists of pages.
    let [all, user] = counts(&["--memory-mib", "176", "--warmup", "0"]);
    assert_eq!(user, kept[1]);
    assert!((all / kept[0] - 1.0).abs() < 2e-3, "{all} {kept:?}");
    let parts = [
        "MiB that are packed into the guest",
        "its memory of 96 MiB: give it --memory-mib 128 or more",
    ];
    measure(&["--memory-mib", "96"]).expect(2).says(&parts);
}
