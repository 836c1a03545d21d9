//! Variants inside one process, from the command line to the recording and back.

use crate::lab::{self, Lab, Started, wait_until};
use crate::made;
use opcost_analysis::comparison::{Severity, Verdict, compare as analyse};
use opcost_lab::resolve::resolve;
use opcost_model::experiment::{Experiment, Scalar, Seed, Variant};
use opcost_model::plan::{EmulationPlan, Plan, Slot, Target};
use opcost_record::Reading;
use opcost_record::metric::EMULATOR;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

const COMPARE: [&str; 8] = [
    "compare",
    "--in-process",
    "-w",
    "copy:ops=2000,path=rep-movsq",
    "-w",
    "copy:ops=2000,path=unrolled-8",
    "--warmup=1",
    "-q",
];

fn compare(lab: &Lab, more: &[&str]) -> lab::Ended {
    lab.run(&[&COMPARE[..], more].concat())
}

/// The start of every run; runs of one process share its start.
fn starts(lab: &Lab) -> Vec<String> {
    lab.column("last", "started_unix_ns")
}

#[cfg(target_arch = "x86_64")]
#[test]
fn each_block_is_made_in_a_process_and_each_run_is_a_record() {
    let lab = Lab::new();
    let ended = compare(&lab, &["-n", "24"]).expect(0);
    assert!(ended.stdout.contains("24 pairs · in 12 processes"), "{}", ended.stdout);
    let starts = starts(&lab);
    // Two warm-up runs, then twelve blocks of four.
    assert_eq!(starts.len(), 50);
    let sizes: Vec<usize> =
        starts.chunk_by(|one, other| one == other).map(<[String]>::len).collect();
    assert_eq!(sizes, [&[2][..], &[4; 12]].concat());
    let document = lab.json(&["show", "--json"]);
    let layout = document["opcost"]["ledger"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["rule"] == "layout")
        .unwrap();
    assert!(layout["detail"].as_str().unwrap().contains("in one process"), "{layout}");
    assert_eq!(document["opcost"]["plan"]["in_process"]["blocks"], 1);
    // The experiment file written from the plan makes such runs again.
    lab.run(&["report", "last", "--html", "page.html"]).expect(0);
    assert!(lab.read("page.html").contains("in-process = true"));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn several_blocks_share_a_process_where_that_is_asked_for() {
    let lab = Lab::new();
    // With so few pairs, each pair is a block.
    let ended = compare(&lab, &["-n", "8", "--blocks-per-process", "2"]).expect(0);
    assert!(ended.stdout.contains("8 pairs · in 4 processes"), "{}", ended.stdout);
    let starts = starts(&lab);
    let sizes: Vec<usize> =
        starts.chunk_by(|one, other| one == other).map(<[String]>::len).collect();
    assert_eq!(sizes, [2, 4, 4, 4, 4]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_killed_opcost_loses_the_process_in_flight_and_resumes_with_whole_ones() {
    let lab = Lab::new();
    // The work is long enough to be interrupted in the middle on any machine.
    let paths = ["rep-movsq", "unrolled-8"].map(|path| format!("copy:ops=1000000,path={path}"));
    let args = ["compare", "--in-process", "-w", &paths[0], "-w", &paths[1], "-n", "40"];
    let mut recorder = lab.start(&args);
    wait_until("two processes", || {
        let stored = lab.store().exists() && lab.recordings().first()?["runs"].as_u64()? >= 6;
        stored.then_some(())
    });
    recorder.signal(libc::SIGKILL);
    recorder.wait().unwrap();
    let runs = lab.recordings()[0]["runs"].as_u64().unwrap();
    assert_eq!((runs - 2) % 4, 0, "{runs} runs: whole blocks and the warm-up runs");
    lab.run(&["resume", "-q"]).expect(0);
    let starts = starts(&lab);
    assert_eq!(starts.len(), 82);
    let sizes = starts.chunk_by(|one, other| one == other).map(<[String]>::len);
    assert!(sizes.skip(1).all(|size| size == 4), "every block has a process");
}

#[test]
fn what_is_refused_says_what_to_do() {
    let lab = Lab::new();
    let refused = |args: &[&str], status: i32, parts: &[&str]| {
        lab.run(&[&["compare", "--in-process", "-n", "2"], args].concat())
            .expect(status)
            .says(parts);
    };
    refused(&["true", "false"], 2, &["a command has no code paths", "workloads that have: copy"]);
    refused(&["-w", "syscall", "-w", "syscall:unroll=4"], 2, &["syscall has no code paths"]);
    refused(&["-w", "copy", "-w", "copy:size=9"], 2, &["differ in path only", "size (48, 9)"]);
    let path = "--variant=b=workload:copy:procs=2,path=libc";
    refused(&["-w", "copy:procs=2", path], 2, &["procs=2; leave procs out"]);
    let bad = ["compare", "-w", "copy:path=teleport", "-w", "copy"];
    lab.run(&bad).expect(2).says(&["does not accept path=teleport", "rep-movsb"]);
}

#[test]
fn too_little_memory_is_said_with_what_is_needed() {
    let lab = Lab::new();
    let line = "ulimit -v 120000; exec $OPCOST compare -w copy:size=67108864,ops=1 \
                -w copy:size=67108864,ops=1,offset=0 -n 2";
    let ended = lab.shell(line).spawn().unwrap().end().expect(4);
    ended.says(&["map 134234112 bytes for source and destination", "'size'", "ulimit -v"]);
}

fn planned(seed: u64, blocks_per_process: u32) -> Plan {
    planned_pairs(24 * blocks_per_process, seed, blocks_per_process)
}

fn planned_pairs(pairs: u32, seed: u64, blocks_per_process: u32) -> Plan {
    let variant = |path: &str| Variant {
        name: Some(path.into()),
        workload: Some("copy".into()),
        params: [("path".to_string(), Scalar::Text("libc".into()))].into(),
        ..Variant::default()
    };
    let experiment = Experiment {
        pairs: Some(pairs),
        seed: Some(Seed::Number(seed)),
        in_process: true,
        blocks_per_process: Some(blocks_per_process),
        variants: vec![variant("one"), variant("other")],
        ..Experiment::default()
    };
    resolve(&experiment, &made::NoCounters).unwrap()
}

/// A number from 0 to 1 that depends on `what` alone.
fn chance(what: (u64, &str, u32)) -> f64 {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(what);
    hash as f64 / u64::MAX as f64
}

/// Whether a report on made-up runs calls any metric changed. Processes differ by up to a third. The
/// first run of a process is slower, and each process is faster than the process before. The second
/// variant takes `planted` times as long.
fn is_changed(seed: u64, blocks_per_process: u32, planted: f64) -> bool {
    let plan = planned(seed, blocks_per_process);
    let of_process = plan.clone();
    let unit = |slot: &Slot| slot.block.map(|block| of_process.unit_of(block));
    let (mut now, mut at) = (None, 0);
    let recording = made::recording(plan, |slot| {
        at = if unit(slot) == now { at + 1 } else { 0 };
        now = unit(slot);
        let process = 1.0 + chance((seed, "process", now.unwrap_or(u32::MAX))) / 3.0;
        let position = if at == 0 { 1.2 } else { 1.0 - 0.002 * f64::from(at) };
        let variant = if slot.variant == 1 { planted } else { 1.0 };
        let read = |name, source| {
            let noise = 1.0 + 0.004 * chance((seed, name, slot.slot));
            let value = 1e6 * process * position * variant * noise;
            Reading::plain(made::key(name, source), value as u64)
        };
        vec![read("wall", "clock"), read("task-clock", "perf_event")]
    });
    let (comparison, _) = analyse(&recording);
    assert!(!comparison.refused());
    let mut changes = comparison.rows.iter().flat_map(|row| &row.changes);
    changes.any(|change| change.verdict == Verdict::Changed)
}

#[test]
fn equal_paths_in_one_process_raise_false_alarms_as_rarely_as_stated() {
    for blocks_per_process in [1, 3] {
        let alarms = (0..200).filter(|seed| is_changed(*seed, blocks_per_process, 1.0)).count();
        // 5 % of 200, and three standard deviations; the seeds are fixed.
        assert!(alarms <= 19, "{blocks_per_process} blocks a process: {alarms} of 200");
    }
}

#[test]
fn a_change_far_smaller_than_what_processes_differ_by_is_found() {
    // One report in forty is undecided because of a carry-over that is not there.
    let found = (0..20).filter(|seed| is_changed(*seed, 3, 1.05)).count();
    assert!(found >= 18, "{found}");
}

/// The plan of `pairs` pairs on the emulated machine, two blocks in a process.
fn planned_emulated(pairs: u32) -> Plan {
    let mut plan = planned_pairs(pairs, 1, 2);
    plan.target = Target::Emulated(Box::new(EmulationPlan {
        model: false,
        core: None,
        cycles_one_in: None,
        jobs: 1,
        pack: Vec::new(),
        pack_used: false,
        no_functions: false,
        addresses: false,
        steps: None,
        count: Vec::new(),
        booted_once: false,
    }));
    plan.primary = made::key("instructions", EMULATOR);
    plan.events.clear();
    plan.unavailable.clear();
    plan
}

fn instructions(value: u64) -> Vec<Reading> {
    vec![Reading::plain(made::key("instructions", EMULATOR), value)]
}

#[test]
fn counts_that_one_boot_repeats_are_not_taken_for_exact_and_those_of_two_are() {
    let found = |pairs: u32, planted: u64| {
        let plan = planned_emulated(pairs);
        let recording =
            made::recording(plan, |slot| instructions(1000 + planted * u64::from(slot.variant)));
        let (comparison, warnings) = analyse(&recording);
        let change = comparison.rows[0].changes[0].clone();
        (
            comparison.rows[0].exact,
            change.verdict,
            warnings.is_empty(),
            comparison.heading.join(" · "),
        )
    };
    let (exact, verdict, silent, heading) = found(2, 50);
    assert_eq!((exact, verdict, silent), (false, Verdict::Inconclusive, false));
    assert!(heading.contains("in one process"), "{heading}");
    let (exact, verdict, silent, heading) = found(4, 50);
    assert_eq!((exact, verdict, silent), (true, Verdict::Changed, true));
    assert!(heading.contains("in 2 processes"), "{heading}");
    let (exact, verdict, silent, _) = found(4, 0);
    assert_eq!((exact, verdict, silent), (true, Verdict::Unchanged, true));
}

#[test]
fn a_repeated_process_is_compared_run_by_run_in_their_order() {
    let repeatable = |odd: Option<u32>| {
        let recording = made::recording(planned_emulated(8), |slot| {
            // Each run of a process costs more than the run before; all processes do the same.
            instructions(1000 + u64::from(slot.slot % 4) + u64::from(odd == Some(slot.slot)))
        });
        let (comparison, _) = analyse(&recording);
        let rule = comparison.ledger.into_iter().find(|entry| entry.rule == "repeatable").unwrap();
        (rule.severity, rule.detail)
    };
    let (severity, detail) = repeatable(None);
    assert_eq!(severity, Severity::Fine, "{detail}");
    assert!(detail.contains("in 4 repeated runs"), "{detail}");
    let (severity, detail) = repeatable(Some(3));
    assert_eq!(severity, Severity::Doubtful, "{detail}");
    assert!(detail.contains("differed by 1") && detail.contains("1,003 and 1,004"), "{detail}");
    // A run of the second process has nothing to repeat.
    assert_eq!(repeatable(Some(10)).0, Severity::Fine);
}
