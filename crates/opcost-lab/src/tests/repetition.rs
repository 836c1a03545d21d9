use crate::resolve::fixture::{FakeSurroundings, commands, experiment};
use crate::resolve::resolve;
use opcost_base::time::TimeLimit;
use opcost_model::experiment::*;
use opcost_model::plan::*;
use opcost_model::plan::{ImportPlan, Target};
use std::collections::BTreeMap;

/// Checks that a plan's experiment, written to a file and read back, gives the same plan. The experiment names the metric that
/// decided, so the warm-up runs choose none.
fn check(experiment: &Experiment, surroundings: &FakeSurroundings) -> String {
    let plan = resolve(experiment, surroundings).unwrap();
    let text = plan.to_experiment().unwrap().to_toml().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &text).unwrap();
    let read = Experiment::read(file.path(), &[], &Experiment::default()).unwrap();
    let plan = Plan { primary_if_busy: None, ..plan };
    assert_eq!(resolve(&read, surroundings).unwrap(), plan, "{text}");
    text
}

fn here() -> FakeSurroundings {
    FakeSurroundings { path: Some("/bin:/usr/bin".into()), ..FakeSurroundings::default() }
}

#[test]
fn workloads_come_again_with_their_seed_and_every_default() {
    let text = check(&Experiment { seed: None, ..experiment(3, 6) }, &here());
    check(&Experiment { block: Some(3), ..experiment(2, 6) }, &here());
    assert!(text.contains("seed = 4711") && text.contains("warmup = 1"), "{text}");
    assert!(!text.contains("events"), "the usual ones need no mention: {text}");
}

#[test]
fn commands_come_again_with_hooks_environment_and_shell() {
    let mut written = commands(&["true 'a b'", "true | cat"]);
    written.shell = Some("/bin/sh".into());
    written.env = vec!["A=1".into(), "A=2".into(), "B=<&>\"'".into()];
    written.variants[1].env = [("C".to_string(), "3".to_string())].into();
    written.variants[1].prepare = Some("sync".into());
    written.prepare = vec!["true".into()];
    written.setup = vec!["make".into()];
    written.cleanup = vec!["make clean".into(), "rm x".into()];
    written.conclude = vec!["".into(), "sync".into()];
    written.rebuild = Some("make -B".into());
    written.blocks_per_build = Some(2);
    written.timeout = Some(TimeLimit { limit_ms: 1500 });
    written.until_width = Some(Width { ratio: 0.005 });
    written.cpu = Some(2);
    written.variants[0].name = Some("one".into());
    written.variants[1].name = Some("two".into());
    let plan = resolve(&written, &here()).unwrap();
    let again = resolve(&plan.to_experiment().unwrap(), &here()).unwrap();
    // A variable that was set twice is set once, to its final value. The line of a command for a shell is written with the
    // shell.
    for (one, two) in plan.variants.iter().zip(&again.variants) {
        let last: BTreeMap<_, _> = one.env.iter().cloned().collect();
        assert_eq!(two.env.iter().cloned().collect::<BTreeMap<_, _>>(), last);
        let (WorkPlan::Command { argv: one, .. }, WorkPlan::Command { argv: two, .. }) =
            (&one.work, &two.work)
        else {
            panic!("commands became something else");
        };
        assert_eq!(one, two);
    }
    let rest = |plan: Plan| Plan { variants: vec![], primary_if_busy: None, ..plan };
    assert_eq!(rest(again), rest(plan));
}

#[test]
fn the_usual_length_comes_again() {
    let usual = |variants| Experiment { pairs: None, ..experiment(variants, 2) };
    // The last case ends in the middle of a mirrored block.
    let many = Experiment { min_runs: Some(40), ..usual(2) };
    for (written, least) in [(usual(1), 10), (usual(2), 22), (many, 41)] {
        let text = check(&written, &here());
        assert!(text.contains(&format!("min-runs = {least}\n")), "{text}");
    }
}

#[test]
fn events_come_again_with_groups_and_modifiers_refused_ones_included() {
    let mut written = experiment(2, 4);
    written.events =
        vec!["task-clock,cycles:uD,{branches,branch-misses}:k".into(), "r01c2:D,cs".into()];
    let text = check(&written, &FakeSurroundings { refused: &["r01c2"], ..here() });
    assert!(text.contains("{branches:k,branch-misses:k}"), "{text}");
    assert!(text.contains("cycles:uD"), "{text}");
}

#[test]
fn emulated_machines_come_again_with_their_kernels() {
    let mut written = experiment(2, 4);
    written.machine = Some(MachineKind::Emulated);
    written.kernel = vec!["/boot/a".into(), "made".into()];
    written.kernels.insert(
        "made".into(),
        KernelRecipe { config: vec!["/k/base.config".into()], ..KernelRecipe::default() },
    );
    written.boot = vec!["quiet".into()];
    written.variants[0].memory_mib = Some(1024);
    written.variants[0].cpus = Some(2);
    written.variants[1].disk = Some("ext4,data=journal:64M".into());
    // Revisions of a gate: each has its own tree at the same path in the guests.
    written.tree = Some("/usr".into());
    let text = check(&written, &here());
    assert_eq!(text.matches("tree = \"/usr\"").count(), 1, "{text}");
    written.variants[1].tree = Some("/usr/bin".into());
    let text = check(&written, &here());
    assert_eq!(text.matches("tree = ").count(), 2, "{text}");
}

#[test]
fn roots_come_again_with_their_services() {
    let mut written = commands(&["client 1", "client 2"]);
    (written.machine, written.kernel) = (Some(MachineKind::Emulated), vec!["/boot/a".into()]);
    written.root = vec!["/usr".into(), "/usr/bin".into()];
    written.service = vec!["serve -p 80".into()];
    written.ready = vec!["port:80".into(), "file:/run/up".into()];
    let text = check(&written, &here());
    assert_eq!(text.matches("service = \"serve -p 80\"").count(), 2, "{text}");
}

#[test]
fn a_modelled_core_comes_again_as_it_was_named() {
    let mut written = experiment(2, 4);
    written.machine = Some(MachineKind::Emulated);
    (written.cycles, written.core) = (true, Some("zen5".into()));
    written.cycles_one_in = Some(16);
    let text = check(&written, &here());
    assert!(text.contains("cycles = true\ncycles-one-in = 16\ncore = \"zen5\"\n"), "{text}");
    (written.cycles, written.cycles_one_in, written.model) = (false, None, true);
    written.cache = vec!["l1d=48K:12:64".into()];
    let text = check(&written, &here());
    assert!(
        text.contains("model = true\ncore = \"zen5\"\ncache = [\"l1d=48K:12:64\"]\n"),
        "{text}"
    );
}

#[test]
fn totals_come_again_without_functions_and_addresses_with_them() {
    let mut written = experiment(2, 4);
    (written.machine, written.no_functions) = (Some(MachineKind::Emulated), true);
    let text = check(&written, &here());
    assert!(text.contains("no-functions = true\n"), "{text}");
    (written.no_functions, written.addresses) = (false, true);
    assert!(check(&written, &here()).contains("\naddresses = true\n"));
}

#[test]
fn imported_figures_are_made_by_no_experiment() {
    let plan = resolve(&experiment(2, 4), &here()).unwrap();
    assert_eq!(
        Plan { target: Target::Imported(ImportPlan::default()), ..plan }.to_experiment(),
        None
    );
}
