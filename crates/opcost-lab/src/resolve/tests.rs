use super::fixture::{FakeSurroundings, commands, experiment, plan, script};
use super::*;
use crate::load::Load;
use opcost_base::exit::{Status, status_of};
use opcost_base::time::TimeLimit;
use opcost_model::experiment::{Command, Experiment, Scalar, Seed, Variant};
use opcost_model::plan::{MachineKind, PairsOfVariants, Priority, Slot};
use opcost_record::MetricKey;
use opcost_stats::Budget;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

fn refused(experiment: &Experiment, surroundings: &FakeSurroundings) -> (Option<Status>, String) {
    let error = resolve(experiment, surroundings).unwrap_err();
    (status_of(&error), format!("{error:#}"))
}

#[track_caller]
fn check_refused(experiment: &Experiment, status: Status, parts: &[&str]) {
    let (found, text) = refused(experiment, &FakeSurroundings::default());
    assert_eq!(found, Some(status), "{text}");
    for part in parts {
        assert!(text.contains(part), "no '{part}' in: {text}");
    }
}

proptest! {
    #[test]
    fn every_variant_runs_as_often_as_asked_in_pairs_or_mirrored_blocks(
        variants in 2usize..6,
        pairs in 2u32..60,
        warmup in 0u32..4,
        seed in any::<u64>(),
    ) {
        let asked =
            Experiment { seed: Some(Seed::Number(seed)), warmup: Some(warmup), ..experiment(variants, pairs) };
        let plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
        prop_assert_eq!(&plan, &resolve(&asked, &FakeSurroundings::default()).unwrap());
        let mirrored = pairs >= 32 && pairs >= 2 * plan.fewest_pairs;
        for (number, block) in plan.blocks.iter().enumerate() {
            let (first, second) = block.order.split_at(variants);
            let mut sorted = first.to_vec();
            sorted.sort();
            prop_assert_eq!(sorted, (0..variants as u16).collect::<Vec<_>>());
            // An odd number of pairs leaves half a block at the end.
            let half = pairs % 2 == 1 && number + 1 == plan.blocks.len();
            let mirror: Vec<u16> = first.iter().rev().copied().collect();
            prop_assert_eq!(second, if half || !mirrored { &[][..] } else { &mirror[..] });
        }
        for units in 0..plan.blocks.len() as u32 {
            prop_assert_eq!(plan.blocks_of_pairs(plan.pairs_of_units(units)), units);
        }
        let slots: Vec<Slot> = plan.slots().collect();
        prop_assert_eq!(slots.len(), plan.slot_count());
        let mut runs: HashMap<(u16, bool), u32> = HashMap::new();
        for (number, slot) in slots.iter().enumerate() {
            prop_assert_eq!(slot.slot as usize, number);
            if !slot.is_left_out {
                *runs.entry((slot.variant, slot.block.is_some())).or_default() += 1;
            }
        }
        for variant in 0..variants as u16 {
            prop_assert_eq!(runs.get(&(variant, true)), Some(&pairs));
            prop_assert_eq!(runs.get(&(variant, false)).copied().unwrap_or(0), warmup);
        }
        // Several variants follow themselves too seldom by chance.
        let left_out = slots.iter().filter(|slot| slot.is_left_out).count();
        prop_assert_eq!(left_out, if variants > 2 { plan.blocks.len() } else { 0 });
        let blocks: Vec<Option<u32>> = slots.iter().map(|slot| slot.block).collect();
        prop_assert!(blocks.is_sorted(), "warm-up first, then block by block");
    }
}

#[test]
fn another_seed_gives_another_order() {
    let order = |seed| {
        let asked = Experiment { seed: Some(Seed::Number(seed)), ..experiment(2, 40) };
        resolve(&asked, &FakeSurroundings::default()).unwrap().blocks
    };
    assert_ne!(order(1), order(2));
    let drawn = Experiment { seed: None, ..experiment(2, 40) };
    assert_eq!(resolve(&drawn, &FakeSurroundings::default()).unwrap().seed, 4711);
    // Exact counts must be the same everywhere.
    let emulated = |seed| {
        let machine = Some(opcost_model::plan::MachineKind::Emulated);
        let asked = Experiment { seed, machine, ..experiment(2, 2) };
        resolve(&asked, &FakeSurroundings::default()).unwrap().seed
    };
    assert_eq!([emulated(None), emulated(Some(Seed::RANDOM))], [1, 4711]);
}

#[test]
fn padding_is_drawn_for_each_block_and_only_where_asked() {
    use opcost_model::plan::EnvironmentPolicy;
    let asked =
        Experiment { environment: Some(EnvironmentPolicy::Randomised), ..experiment(2, 20) };
    let padded = resolve(&asked, &FakeSurroundings::default()).unwrap();
    assert!(padded.blocks.windows(2).any(|two| two[0].padding_bytes != two[1].padding_bytes));
    assert!(plan(2, 20).blocks.iter().all(|block| block.padding_bytes == 0));
    // The order for a seed does not depend on padding.
    let orders = |plan: &Plan| -> Vec<Vec<u16>> {
        plan.blocks.iter().map(|block| block.order.clone()).collect()
    };
    assert_eq!(orders(&padded), orders(&plan(2, 20)));
}

#[test]
fn a_plan_survives_its_file_format() {
    let plan = plan(3, 5);
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
}

#[test]
fn three_variants_are_compared_with_the_baseline_or_all() {
    assert_eq!(plan(3, 2).comparisons(), [(0, 1), (0, 2)]);
    let all = Experiment { pairs_of_variants: Some(PairsOfVariants::All), ..experiment(3, 2) };
    let all = resolve(&all, &FakeSurroundings::default()).unwrap();
    assert_eq!(all.comparisons(), [(0, 1), (0, 2), (1, 2)]);
    assert!(all.fewest_pairs >= plan(3, 2).fewest_pairs, "more tests need no fewer pairs");
}

#[test]
fn counts_out_of_range_are_usage_errors() {
    for pairs in [0, 1, 1_000_001] {
        check_refused(&experiment(2, pairs), Status::Usage, &["--pairs", "2 to 1,000,000"]);
    }
    check_refused(&experiment(0, 2), Status::Usage, &["nothing to run", "[[variant]]"]);
    check_refused(&experiment(1, 0), Status::Usage, &["--pairs 0", "1 to 1,000,000 runs"]);
    check_refused(&experiment(10_001, 2), Status::Usage, &["10001 variants", "10000"]);
    let warmup = Experiment { warmup: Some(u32::MAX), ..experiment(2, 2) };
    check_refused(&warmup, Status::Usage, &["--warmup", "1,000,000"]);
    let cpu = Experiment { cpu: Some(1), ..experiment(2, 2) };
    check_refused(&cpu, Status::Usage, &["--cpu 1", "[0, 2]"]);
    let cpu = Experiment { cpu: Some(2), ..experiment(2, 2) };
    assert_eq!(resolve(&cpu, &FakeSurroundings::default()).unwrap().cpu, Some(2));
}

#[test]
fn time_on_a_cpu_decides_on_a_busy_machine_unless_the_user_names_a_metric() {
    let load = |percent| Load { average: 0.0, cpus: 2, waiting_percent: Some(percent) };
    let primary = |experiment: Experiment, percent| {
        let here = FakeSurroundings { load: Some(load(percent)), ..FakeSurroundings::default() };
        let plan = resolve(&experiment, &here).unwrap();
        let if_busy = plan.primary_if_busy.as_ref().map(MetricKey::label);
        (plan.primary.label(), load(percent).advice(&plan).is_some(), if_busy)
    };
    let plain = || experiment(2, 2);
    let on_cpu = || "task-clock".to_string();
    assert_eq!(primary(plain(), 1.0), ("wall".into(), false, Some(on_cpu())));
    assert_eq!(primary(plain(), 50.0), (on_cpu(), true, None));
    let unwarmed = Experiment { warmup: Some(0), ..plain() };
    assert_eq!(primary(unwarmed, 1.0), ("wall".into(), false, None));
    let named = || Experiment { primary: Some("wall".into()), ..plain() };
    assert_eq!(primary(named(), 1.0), ("wall".into(), false, None));
    assert_eq!(primary(named(), 50.0), ("wall".into(), true, None));
    let owned = Experiment { priority: Some(Priority::RealTime), ..plain() };
    assert_eq!(primary(owned, 50.0), ("wall".into(), false, None));
    let others = Experiment { events: vec!["page-faults".into()], ..plain() };
    assert_eq!(primary(others, 50.0), ("wall".into(), true, None));
}

#[test]
fn real_time_priority_is_pinned_or_refused() {
    let asked = |cpu| Experiment { priority: Some(Priority::RealTime), cpu, ..experiment(2, 2) };
    let plan = resolve(&asked(None), &FakeSurroundings::default()).unwrap();
    assert_eq!((plan.real_time(), plan.cpu), (true, Some(2)));
    let plan = resolve(&asked(Some(0)), &FakeSurroundings::default()).unwrap();
    assert_eq!((plan.real_time(), plan.cpu), (true, Some(0)));
    for (no_real_time, words) in [
        (NoRealTime::Forbidden, "this user may not set real-time priority; run opcost as root"),
        (NoRealTime::Unlimited, "sched_rt_runtime_us=950000"),
        (NoRealTime::OneCpu, "allow a second CPU"),
    ] {
        let here = FakeSurroundings { no_real_time: Some(no_real_time), ..Default::default() };
        let (status, error) = refused(&asked(None), &here);
        assert_eq!(status, Some(Status::Missing));
        assert!(error.contains(words), "{error}");
        assert!(resolve(&experiment(2, 2), &here).is_ok());
    }
}

#[test]
fn a_refused_primary_metric_is_missing_and_says_why() {
    let refused_events = &["cycles", "cycles:u"];
    let surroundings = FakeSurroundings { refused: refused_events, ..FakeSurroundings::default() };
    let asked = Experiment { primary: Some("cycles".into()), ..experiment(2, 2) };
    let (status, text) = refused(&asked, &surroundings);
    assert_eq!(status, Some(Status::Missing));
    assert!(text.contains("cycles cannot be counted here: no such counter; buy one"), "{text}");
    // If the event is one of many, it is listed as unavailable and is no error.
    let plan = resolve(&experiment(2, 2), &surroundings).unwrap();
    assert_eq!(plan.unavailable.len(), 1);
    assert_eq!(plan.unavailable[0].key.label(), "cycles");
    assert!(plan.events.iter().all(|event| event.key.label() != "cycles"));
    let plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
    assert_eq!(plan.primary.label(), "cycles");
    let none = Experiment { primary: Some("cykles".into()), ..experiment(2, 2) };
    check_refused(&none, Status::Usage, &["--primary", "cykles", "cycles"]);
    let condition = Experiment { primary: Some("steal".into()), ..experiment(2, 2) };
    check_refused(&condition, Status::Usage, &["--primary steal"]);
}

#[test]
fn variants_are_named_by_what_differs() {
    let mut asked = experiment(2, 2);
    for (variant, seccomp) in asked.variants.iter_mut().zip([false, true]) {
        variant.name = None;
        variant.params.insert("seccomp".into(), Scalar::Switch(seccomp));
    }
    let plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
    let names: Vec<&str> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["seccomp=off", "seccomp=on"]);
    for variant in &mut asked.variants {
        variant.params.clear();
    }
    // A variant without any difference is compared with itself.
    let plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
    let names: Vec<&str> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["syscall", "syscall (2)"]);
    for variant in &mut asked.variants {
        variant.name = Some("same".into());
    }
    check_refused(&asked, Status::Usage, &["two variants are named 'same'", "--variant"]);
}

#[test]
fn a_command_is_found_from_its_working_directory_and_made_absolute() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    script(&root, "sub/tool", "#!/bin/sh\n");
    script(&root, "bin/other", "#!/bin/sh\n");
    let surroundings = FakeSurroundings {
        path: Some(root.join("bin").into_os_string()),
        dir: root.clone(),
        ..FakeSurroundings::default()
    };
    let asked = Experiment { cwd: Some("sub".into()), ..commands(&["./tool 'a b' c", "other"]) };
    let plan = resolve(&asked, &surroundings).unwrap();
    let WorkPlan::Command { program, argv, line } = &plan.variants[0].work else { panic!() };
    assert_eq!(*program, root.join("sub/tool"));
    assert_eq!(*argv, ["./tool", "a b", "c"]);
    assert_eq!(line, "./tool 'a b' c");
    assert_eq!(plan.variants[0].cwd, Some(root.join("sub")));
    let WorkPlan::Command { program, .. } = &plan.variants[1].work else { panic!() };
    assert_eq!(*program, root.join("bin/other"));
    assert_eq!(plan.experiment, "tool");
    assert_eq!(plan.hooks.cwd, Some(root.clone()));

    let (status, text) = refused(&commands(&["./tool", "other"]), &surroundings);
    assert_eq!(status, Some(Status::WorkFailed));
    assert!(text.contains("variant 1") && text.contains("./tool"), "{text}");
    let nowhere = Experiment { cwd: Some("none".into()), ..commands(&["other", "other"]) };
    let (status, text) = refused(&nowhere, &surroundings);
    assert_eq!(status, Some(Status::Usage));
    assert!(text.contains("is not a directory"), "{text}");
}

#[test]
fn commands_that_cannot_be_split_are_usage_errors() {
    check_refused(&commands(&["", "a"]), Status::Usage, &["variant 1", "the command is empty"]);
    check_refused(&commands(&["a 'b", "a"]), Status::Usage, &["unbalanced quotes", "a 'b"]);
    let mut both = experiment(2, 2);
    both.variants[1].command = Some(opcost_model::experiment::Command::Line("true".into()));
    check_refused(&both, Status::Usage, &["variant v1", "both a command and a workload"]);
    let mut none = experiment(2, 2);
    none.variants[1].workload = None;
    check_refused(&none, Status::Usage, &["variant v1", "neither"]);
    let mut other = experiment(2, 2);
    other.variants[1].workload = Some("mmap".into());
    check_refused(&other, Status::Usage, &["same kind of work", "syscall", "mmap"]);
}

#[test]
fn environment_variables_need_names() {
    let asked = Experiment { env: vec!["=x".into()], ..experiment(2, 2) };
    check_refused(&asked, Status::Usage, &["--env =x", "KEY=VALUE"]);
    let mut asked = experiment(2, 2);
    asked.variants[1].env = BTreeMap::from([("A=B".into(), "x".into())]);
    check_refused(&asked, Status::Usage, &["variant v1", "'A=B'"]);
    let mut asked = experiment(2, 2);
    asked.env = vec!["A=1".into(), "B=x=y".into()];
    asked.variants[1].env = BTreeMap::from([("A".into(), "2".into())]);
    let plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
    let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
    assert_eq!(plan.variants[0].env, [pair("A", "1"), pair("B", "x=y")]);
    assert_eq!(plan.variants[1].env.last(), Some(&pair("A", "2")));
}

#[test]
fn a_time_limit_is_kept_in_milliseconds() {
    let asked = Experiment { timeout: Some(TimeLimit { limit_ms: 1500 }), ..experiment(2, 2) };
    let plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
    assert_eq!(plan.timeout_ms, Some(1500));
}

#[test]
fn where_the_kernel_may_not_be_counted_its_user_part_is_and_that_is_said() {
    let refused = &["cycles", "page-faults", "context-switches", "branches:k", "branches"];
    let surroundings = FakeSurroundings { refused, ..FakeSurroundings::default() };
    let mut wanted = experiment(2, 2);
    wanted.events =
        vec!["cycles,page-faults,context-switches,branches:k,branches,branches:u".into()];
    let plan = resolve(&wanted, &surroundings).unwrap();
    let labels: Vec<String> = plan.events.iter().map(|event| event.key.label()).collect();
    // Switches happen in the kernel: a user part of them would be a 0 that nobody counted.
    assert_eq!(labels, ["cycles:u", "page-faults:u", "branches:u"]);
    let reasons: Vec<String> = plan
        .unavailable
        .iter()
        .map(|missing| format!("{}: {}", missing.key.label(), missing.reason))
        .collect();
    assert_eq!(
        reasons,
        [
            "cycles: no such counter; cycles:u is counted instead",
            "page-faults: no such counter; page-faults:u is counted instead",
            "context-switches: no such counter",
            "branches:k: no such counter",
            "branches: no such counter; branches:u is counted instead",
        ]
    );
}

#[test]
fn a_metric_that_is_not_read_around_this_kind_of_work_is_unavailable() {
    let mut wanted = experiment(2, 2);
    wanted.events = vec!["tsc,wall,task-clock".into()];
    let of_workloads = resolve(&wanted, &FakeSurroundings::default()).unwrap();
    assert_eq!(of_workloads.unavailable, []);
    for (variant, line) in wanted.variants.iter_mut().zip(["/bin/true a", "/bin/true b"]) {
        *variant = Variant { command: Some(Command::Line(line.into())), ..Variant::default() };
    }
    let of_commands = resolve(&wanted, &FakeSurroundings::default()).unwrap();
    let labels: Vec<String> =
        of_commands.unavailable.iter().map(|missing| missing.key.label()).collect();
    assert_eq!(labels, ["tsc"]);
}

#[test]
fn few_pairs_are_units_of_their_own() {
    let planned = |pairs: Option<u32>, change: &dyn Fn(&mut Experiment)| {
        let mut asked = Experiment { pairs, ..commands(&["/bin/a", "/bin/b"]) };
        for variant in &mut asked.variants {
            variant.command = None;
            variant.workload = Some("syscall".into());
        }
        asked.variants[0].name = Some("a".into());
        asked.variants[1].name = Some("b".into());
        change(&mut asked);
        let plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
        let singles = plan.blocks.iter().take_while(|block| block.order.len() == 2).count();
        (plan.pairs, plan.fewest_pairs, singles as u32, plan.blocks.len() as u32)
    };
    let as_is = |_: &mut Experiment| {};
    let (usual, fewest, singles, units) = planned(None, &as_is);
    assert!(fewest <= 12, "{fewest}");
    // Without a number of pairs, time ends the recording, but not before twice the fewest pairs are made, as single pairs.
    assert_eq!((usual, singles), (1000, 2 * fewest));
    assert_eq!(units, singles + (1000 - singles) / 2);
    assert_eq!(planned(Some(12), &as_is), (12, fewest, 12, 12));
    assert_eq!(planned(Some(31), &as_is), (31, fewest, 31, 31));
    assert_eq!(planned(Some(32), &as_is), (32, fewest, 0, 16));
    // A plan that may stop early can decide from the fewest pairs on.
    let budget = |asked: &mut Experiment| asked.budget = "1s".parse().ok();
    assert_eq!(
        planned(None, &budget),
        (2000, fewest, fewest, fewest + (2000 - fewest).div_ceil(2))
    );
    // Builds are the units: as many as decide, and mirrored blocks if there is room.
    let rebuild = |asked: &mut Experiment| {
        asked.rebuild = Some("make".into());
        asked.blocks_per_build = Some(3);
    };
    let (usual, fewest_built, singles, blocks) = planned(None, &rebuild);
    assert_eq!((usual, fewest_built), (1000, 3 * fewest));
    assert_eq!((singles, blocks), (0, 500));
    assert_eq!(
        planned(Some(fewest_built), &rebuild),
        (fewest_built, fewest_built, fewest_built, fewest_built)
    );
    // Many comparisons share one error rate: if blocks cannot decide them all, single pairs can.
    let many = |asked: &mut Experiment| {
        let first = asked.variants[0].clone();
        asked.variants =
            (0..400).map(|n| Variant { name: Some(format!("v{n}")), ..first.clone() }).collect();
    };
    let resolved = |pairs| {
        let mut asked = Experiment { pairs: Some(pairs), ..experiment(2, 2) };
        many(&mut asked);
        resolve(&asked, &FakeSurroundings::default()).unwrap()
    };
    let fewest = resolved(32).fewest_pairs;
    assert!((17..32).contains(&fewest), "{fewest}");
    assert_eq!(resolved(32).blocks[0].order.len(), 400);
    assert_eq!(resolved(2 * fewest).blocks[0].order.len(), 800);
}

#[test]
fn the_clock_ends_comparisons_of_which_no_number_is_asked() {
    let stop = |change: &dyn Fn(&mut Experiment)| {
        let mut asked = Experiment { pairs: None, ..experiment(2, 2) };
        change(&mut asked);
        let plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
        let least = plan.pairs_of_blocks(plan.stop.blocks_min);
        (plan.stop.budget_ms, least, plan.stop.error_budget() == Budget::default())
    };
    // Three seconds for each variant; time does not depend on the difference, so no error rate is set aside.
    assert_eq!(stop(&|_| {}), (Some(6_000), 22, true));
    assert_eq!(stop(&|asked| asked.min_runs = Some(30)), (Some(6_000), 30, true));
    let third = |asked: &mut Experiment| {
        let third = Variant { name: Some("third".into()), ..asked.variants[0].clone() };
        asked.variants.push(third);
    };
    assert_eq!(stop(&third), (Some(9_000), 24, true));
    // A mirrored block is always completed.
    assert_eq!(stop(&|asked| asked.min_runs = Some(40)), (Some(6_000), 41, true));
    let build = |asked: &mut Experiment| asked.rebuild = Some("make".into());
    assert_eq!(stop(&build), (Some(6_000), 22, true));
    // A limit given by the user replaces the default.
    assert_eq!(stop(&|asked| asked.budget = "1s".parse().ok()), (Some(1_000), 0, true));
    assert_eq!(stop(&|asked| asked.pairs = Some(9)), (None, 0, true));
    assert_eq!(stop(&|asked| asked.until_width = "1%".parse().ok()), (None, 0, false));
    let emulated = |asked: &mut Experiment| {
        asked.machine = Some(MachineKind::Emulated);
        asked.kernel = vec!["k".into()];
    };
    assert_eq!(stop(&emulated), (None, 0, false), "counts are settled by themselves");
    let least = |runs, change: fn(&mut Experiment), parts: &[&str]| {
        let mut asked = Experiment { min_runs: Some(runs), pairs: None, ..experiment(2, 2) };
        change(&mut asked);
        check_refused(&asked, Status::Usage, parts);
    };
    least(0, |_| {}, &["--min-runs 0", "give 1 or more"]);
    least(9, |asked| asked.pairs = Some(20), &["--min-runs 9", "all runs are made anyway"]);
    let capped = |asked: &mut Experiment| {
        asked.pairs = Some(20);
        asked.budget = "1s".parse().ok();
    };
    least(21, capped, &["--min-runs 21", "no more than 20 are made"]);
}

#[test]
fn of_two_clocks_one_is_judged() {
    let names = |primary: &str| {
        let asked = Experiment { primary: Some(primary.into()), ..experiment(2, 2) };
        let plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
        let clocks = ["wall", "tsc"];
        let names = plan.metrics().into_iter().map(|key| key.name);
        names.filter(|name| clocks.contains(&name.as_str())).collect::<Vec<_>>()
    };
    assert_eq!(names("wall"), ["wall"]);
    assert_eq!(names("task-clock"), ["wall"]);
    assert_eq!(names("tsc"), ["tsc"]);
}

/// Figures that a workload reports about its work must be decided too.
#[test]
fn figures_of_workloads_are_counted() {
    let fewest = |params: &[(&str, &str)]| {
        let mut asked = experiment(2, 2);
        for variant in &mut asked.variants {
            variant.workload = Some("lock".into());
            for (key, value) in params {
                variant.params.insert(key.to_string(), Scalar::Text(value.to_string()));
            }
        }
        resolve(&asked, &FakeSurroundings::default()).unwrap().fewest_pairs
    };
    assert_eq!((fewest(&[]), fewest(&[("threads", "2"), ("scale", "on")])), (11, 12));
}

/// Files and suites name a workload as the command line does, with `params` for the rest.
#[test]
fn a_workload_in_a_file_may_have_its_parameters_behind_a_colon() {
    let work = |workload: &str, params: &[(&str, i64)]| {
        let mut asked = experiment(2, 2);
        for variant in &mut asked.variants {
            variant.workload = Some(workload.into());
            variant.params = params
                .iter()
                .map(|(key, value)| (key.to_string(), Scalar::Integer(*value)))
                .collect();
        }
        resolve(&asked, &FakeSurroundings::default()).map(|plan| plan.variants[0].work.clone())
    };
    let apart = work("mmap", &[("ops", 2000), ("pages", 8)]).unwrap();
    assert_eq!(work("mmap:ops=2000,pages=8", &[]).unwrap(), apart);
    assert_eq!(work("mmap:ops=2000", &[("pages", 8)]).unwrap(), apart);
    for (workload, why) in [
        ("mmap:ops", "workload mmap:ops: 'ops' is not KEY=VALUE"),
        ("mmap:pages=1,pages=2", "workload mmap:pages=1,pages=2: pages is given twice"),
        ("mmap:pages=1", "workload mmap:pages=1: pages is also in params; keep one"),
    ] {
        let error = format!("{:#}", work(workload, &[("pages", 8)]).unwrap_err());
        assert!(error.contains(why), "{error}");
    }
}
