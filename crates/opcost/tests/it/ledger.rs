//! The ledger's rules about conditions: each with runs that make the rule fire and runs that do not.

use crate::lab::{Lab, first_cpu};
use crate::made::{key, plan, recording};
use opcost_analysis::comparison::{LedgerEntry, Severity, compare};
use opcost_model::plan::{Aslr, HostPlan, Priority, Slot, Target, WorkPlan};
use opcost_model::recording::{MachineState, ProgramState, Recording};
use opcost_record::Reading;

/// A recording of 22 pairs in which every run has these figures beside its 10 ms of wall time.
fn made(read: impl Fn(&Slot) -> Vec<(&'static str, &'static str, u64)>) -> Recording {
    let mut made = recording(plan(&["off", "on"], 22), |slot| {
        let wall = ("wall", "clock", 10_000_000 + u64::from(slot.slot));
        let figures = read(slot).into_iter().chain([wall]);
        figures.map(|(name, source, value)| Reading::plain(key(name, source), value)).collect()
    });
    made.machine[0].cpus_online = Some("0-1".into());
    made
}

/// One condition, over a window of 20 ms.
fn condition(name: &'static str, value: impl Fn(&Slot) -> u64) -> Recording {
    made(|slot| vec![("run-window", "conditions", 20_000_000), (name, "conditions", value(slot))])
}

fn entry(recording: &Recording, rule: &str) -> LedgerEntry {
    let (comparison, _) = compare(recording);
    let entry = comparison.ledger.iter().find(|entry| entry.rule == rule);
    entry.unwrap_or_else(|| panic!("no rule {rule}")).clone()
}

/// Asserts that the rule accepts one recording, doubts the other for this reason, and can be waived.
#[track_caller]
fn check(rule: &str, content: &Recording, doubted: &Recording, reason: &str) {
    let fine = entry(content, rule);
    assert_eq!(fine.severity, Severity::Fine, "{}", fine.detail);
    assert!(fine.known, "{}", fine.detail);
    let doubt = entry(doubted, rule);
    assert_eq!((doubt.severity, doubt.waived), (Severity::Doubtful, false), "{}", doubt.detail);
    assert!(doubt.detail.contains(reason), "{}", doubt.detail);
    let mut waived = doubted.clone();
    waived.plan.allow = vec![rule.to_string()];
    assert!(entry(&waived, rule).waived);
    assert!(!compare(doubted).0.refused(), "doubts leave the verdict standing");
}

#[test]
fn others_at_work_are_load() {
    let runnable = |tasks: u64| condition("machine-runnable", move |_| tasks);
    // opcost itself is one of the two tasks. Three other tasks on two CPUs are more than one for each CPU.
    check("load", &runnable(2), &runnable(4), "3.0 other tasks could run, on average, on 2 CPUs");
    let mut unknown = runnable(9);
    unknown.machine[0].cpus_online = None;
    let unknown = entry(&unknown, "load");
    assert_eq!((unknown.severity, unknown.known), (Severity::Fine, false));
}

#[test]
fn what_waits_is_pressure() {
    let pressed = |name, us: u64| condition(name, move |_| us * 1000);
    // 10 % of 20 ms is the limit for CPUs and disks, 1 % for memory.
    for (name, below, above, what) in [
        ("cpu-pressure", 2000, 2010, "tasks waited for a CPU in 10.1 %"),
        ("memory-pressure", 200, 220, "tasks waited for memory in 1.1 %"),
        ("io-pressure", 2000, 10_000, "tasks waited for a disk in 50.0 %"),
    ] {
        check("pressure", &pressed(name, below), &pressed(name, above), what);
    }
    // A sum above the whole window was reported late.
    assert!(entry(&pressed("cpu-pressure", 30_000), "pressure").detail.contains("100.0 %"));
}

#[test]
fn heat_is_doubted_once_it_slows_a_cpu() {
    let throttled =
        |slot: u32| condition("thermal-throttles", move |run| u64::from(run.slot == slot));
    let reason = "because of heat 1 times, in 1 of 44 runs";
    // Slot 0 is a warm-up run, which is not compared.
    check("throttling", &throttled(0), &throttled(9), reason);
}

#[test]
fn a_quota_that_stops_the_work_is_doubted() {
    // 1 % of 20 ms is the limit; heat is not counted here.
    let stalled = |us: u64| condition("quota-stall", move |_| us * 1000);
    let doubted = entry(&stalled(210), "throttling");
    assert!(doubted.detail.contains("stopped the work in 1.1 % of the time"), "{}", doubted.detail);
    assert!(!entry(&stalled(200), "throttling").detail.contains("quota"));
}

#[test]
fn clock_rates_may_differ_neither_between_variants_nor_much_within() {
    let rates = |rate: fn(&Slot) -> u64| condition("cpu-frequency-khz", rate);
    let steady = rates(|slot| 3_000_000 + u64::from(slot.slot) * 1000);
    let unlike = rates(|slot| 3_000_000 - u64::from(slot.variant) * 100_000);
    check("frequency", &steady, &unlike, "3000 MHz in 'off', 2900 MHz in 'on'");
    // Both variants are affected: both runs of every second block are slower.
    let wild = rates(|slot| 3_000_000 - u64::from(slot.block.unwrap_or(0) % 2) * 400_000);
    check("frequency", &steady, &wild, "varied by 14.3 % between runs");
}

#[test]
fn a_busy_sibling_is_doubted() {
    let busy = |us: u64| condition("sibling-busy", move |_| us * 1000);
    check("siblings", &busy(0), &busy(5000), "busy 25.0 % of the time");
}

#[test]
fn moves_are_doubted_where_variants_differ() {
    let moves =
        |of: fn(&Slot) -> u64| made(move |slot| vec![("cpu-migrations", "perf_event", of(slot))]);
    let alike = moves(|slot| u64::from(slot.slot % 3));
    let apart = moves(|slot| 2 * u64::from(slot.variant) + u64::from(slot.slot % 2));
    check("migrations", &alike, &apart, "times a run: 0.5 in 'off' against 2.5 in 'on'");
    let mut pinned = apart;
    pinned.plan.cpu = Some(1);
    assert_eq!(entry(&pinned, "migrations").detail, "every run stayed on CPU 1");
}

#[test]
fn cold_caches_are_doubted() {
    let faults =
        |of: fn(&Slot) -> u64| made(move |slot| vec![("major-faults", "rusage", of(slot))]);
    let seldom = faults(|slot| u64::from(slot.slot == 7));
    let cold = faults(|slot| u64::from(slot.variant) * 3);
    check("faults", &seldom, &cold, "times a run: 3.0 in 'on'");
}

#[test]
fn a_recording_beside_another_is_doubted() {
    let others = |of: fn(&Slot) -> u64| {
        made(move |slot| {
            let others = ("other-recordings", "conditions", of(slot));
            vec![("machine-runnable", "conditions", 2), others]
        })
    };
    check(
        "load",
        &others(|_| 0),
        &others(|slot| u64::from(slot.slot % 2)),
        "make recordings one after the other",
    );
}

#[test]
fn load_does_not_matter_to_runs_with_real_time_priority() {
    let mut busy = condition("machine-runnable", |_| 9);
    assert_eq!(entry(&busy, "load").severity, Severity::Doubtful);
    busy.plan.target =
        Target::Host(HostPlan { priority: Priority::RealTime, ..HostPlan::default() });
    assert_eq!(entry(&busy, "load").severity, Severity::Fine);
}

#[test]
fn turns_of_others_are_doubted_by_their_rate() {
    let switches =
        |of: fn(&Slot) -> u64| made(move |slot| vec![("involuntary-switches", "rusage", of(slot))]);
    // Runs take 10 ms: one switch in ten runs is 10 a second, one in each run is 100.
    let seldom = switches(|slot| u64::from(slot.slot % 10 == 9));
    check("switches", &seldom, &switches(|_| 1), "100 turns a second");
}

#[test]
fn a_layout_that_nothing_randomises_is_doubted() {
    let randomised = |level: &str| {
        let mut made = made(|_| vec![]);
        made.plan.aslr = Aslr::Randomised;
        made.machine[0].randomize_va_space = Some(level.into());
        made
    };
    check("layout", &randomised("2"), &randomised("0"), "this kernel randomises nothing");
    let mut fixed = randomised("0");
    fixed.plan.aslr = Aslr::Fixed;
    assert_eq!(entry(&fixed, "layout").severity, Severity::Fine);
}

/// Two commands with programs of these hashes.
fn programs(hashes: [&str; 2], arguments: [&str; 2]) -> Recording {
    let mut made = made(|_| vec![]);
    for (side, (hash, argument)) in hashes.into_iter().zip(arguments).enumerate() {
        let path = format!("/build/{side}/tool");
        let argv = [format!("{side}/tool"), argument.to_string()];
        let line = argv.join(" ");
        made.plan.variants[side].work = WorkPlan::Command {
            program: path.clone().into(),
            argv: argv.iter().map(Into::into).collect(),
            line,
        };
        made.machine[0].programs.push(ProgramState {
            path: path.into(),
            length_bytes: 3,
            sha256: hash.into(),
            sizes: None,
        });
    }
    made
}

#[test]
fn a_copy_of_the_same_program_is_doubted() {
    let same = programs(["aa", "aa"], ["x", "x"]);
    check("program", &programs(["aa", "bb"], ["x", "x"]), &same, "'off' and 'on' are the same");
    // Other arguments or another environment make a question of their own.
    assert_eq!(entry(&programs(["aa", "aa"], ["x", "y"]), "program").severity, Severity::Fine);
    let mut env = same.clone();
    env.plan.variants[1].env.push(("MODE".into(), "fast".into()));
    assert_eq!(entry(&env, "program").severity, Severity::Fine);
    // Two variants with one and the same file test the machine, which is also fine.
    let mut one_file = same;
    one_file.plan.variants[1].work = one_file.plan.variants[0].work.clone();
    assert_eq!(entry(&one_file, "program").severity, Severity::Fine);
}

#[test]
fn a_clock_that_is_set_back_or_exchanged_is_doubted() {
    let even = made(|_| vec![]);
    let mut back = even.clone();
    back.records[20].started_unix_ns -= 3_600_000_000_000;
    check("clock", &even, &back, "set back 1 time while recording");
    let mut exchanged = even.clone();
    exchanged.machine[0].clocksource = Some("tsc".into());
    exchanged
        .machine
        .push(MachineState { clocksource: Some("hpet".into()), ..exchanged.machine[0].clone() });
    check("clock", &even, &exchanged, "tsc → hpet");
}

#[test]
fn a_program_that_changes_meanwhile_is_refused() {
    let lab = Lab::new();
    lab.script("work", "echo >> runs; [ $(wc -l < runs) = 3 ] && echo : >> work; :");
    let ended = lab.run(&["compare", "./work a", "./work b", "-n", "2"]).expect(3);
    let expected = format!("the program {} was changed", lab.path("work").display());
    let text = ended.stdout.replace("\n  ", " ").replace('\n', " ");
    assert!(text.contains(&expected), "{}", ended.stdout);
    let allowed = lab.output(&["show", "--allow", "machine"]);
    assert!(allowed.contains("waived (machine)"), "{allowed}");
}

#[test]
fn conditions_are_stored_with_every_run() {
    let lab = Lab::new();
    lab.output(&["compare", "true", "sh -c :", "-n", "2", "--cpu", &first_cpu()]);
    for name in ["conditions run-window [ns]", "conditions machine-runnable"] {
        let values = lab.column("last", name);
        assert_eq!(values.len(), 6, "warm-up runs, too");
        assert!(values.iter().all(|value| value.parse::<u64>().unwrap() > 0), "{name}: {values:?}");
    }
    if !std::path::Path::new("/proc/pressure/cpu").exists() {
        crate::skip::skip!("this kernel has no /proc/pressure");
        return;
    }
    assert!(
        lab.column("last", "conditions cpu-pressure [ns]")
            .iter()
            .all(|value| value.parse::<u64>().is_ok())
    );
}
