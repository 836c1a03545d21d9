//! Plans for the emulated machine.

use crate::resolve::fixture::{FakeSurroundings, experiment};
use crate::resolve::resolve;
use opcost_base::exit::{Status, status_of};
use opcost_kernel::KernelSpec;
use opcost_model::experiment::{Experiment, KernelRecipe, Seed, Variant};
use opcost_model::plan::{Aslr, EmulationPlan, MachineKind, Plan};
use opcost_record::Architecture;

fn one_workload() -> Variant {
    Variant { workload: Some("syscall".into()), ..Variant::default() }
}

fn emulated(variants: Vec<Variant>) -> Experiment {
    Experiment {
        machine: Some(MachineKind::Emulated),
        kernel: vec!["a".into()],
        seed: Some(Seed::Number(1)),
        variants,
        ..Experiment::default()
    }
}

fn plan(experiment: &Experiment) -> Plan {
    resolve(experiment, &FakeSurroundings::default()).unwrap()
}

fn refusal(experiment: &Experiment) -> String {
    let error = resolve(experiment, &FakeSurroundings::default()).unwrap_err();
    assert_eq!(status_of(&error), Some(Status::Usage), "{error:#}");
    format!("{error:#}")
}

#[test]
fn kernels_given_twice_are_two_variants_of_one_work() {
    let asked =
        Experiment { kernel: vec!["a".into(), "b".into()], ..emulated(vec![one_workload()]) };
    let plan = plan(&asked);
    let names: Vec<&str> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let guest = plan.variants[1].guest.as_ref().unwrap();
    assert_eq!(guest.kernel, Some(KernelSpec::Image("/boot/b".into())));
    assert_eq!((guest.memory_mib, guest.cpu_model.as_str()), (1024, "EPYC-Rome-v2"));
    assert_eq!(plan.aslr, Aslr::Fixed);
    assert_eq!(plan.primary.label(), "instructions-synchronous:k");
}

#[test]
fn what_a_path_of_the_kernel_costs_decides_where_kernels_differ() {
    let primary = |asked: Experiment| plan(&asked).primary.label();
    let two = || vec!["x".to_string(), String::new()];
    let work = || emulated(vec![one_workload()]);
    let synchronous = "instructions-synchronous:k";
    assert_eq!(primary(Experiment { boot: two(), ..work() }), synchronous);
    let models = vec!["max".to_string(), "max,-erms".to_string()];
    assert_eq!(primary(Experiment { cpu_model: models, ..work() }), synchronous);
    // A command has code of its own that depends on the CPU, and maybe on nothing of the kernel.
    let line = Some(opcost_model::experiment::Command::Line("/bin/true".into()));
    let one_command = Variant { command: line, ..Variant::default() };
    let command = |work: Experiment| Experiment { variants: vec![one_command.clone()], ..work };
    let models = vec!["max".to_string(), "max,-erms".to_string()];
    let by_cpu = Experiment { cpu_model: models, ..work() };
    assert_eq!(primary(command(by_cpu)), "instructions");
    assert_eq!(primary(command(Experiment { boot: two(), ..work() })), synchronous);
    let totals = Experiment { boot: two(), no_functions: true, ..work() };
    assert_eq!(primary(totals), "instructions");
    let asked = Some("instructions:k".to_string());
    assert_eq!(primary(Experiment { boot: two(), primary: asked, ..work() }), "instructions:k");
    assert_eq!(primary(emulated(vec![one_workload(), one_workload()])), "instructions");
    assert_eq!(primary(work()), "instructions");
}

#[test]
fn one_kernel_booted_two_ways_is_a_comparison() {
    let boots = vec!["mitigations=off".to_string(), String::new()];
    let asked = Experiment { boot: boots, ..emulated(vec![one_workload()]) };
    let names: Vec<String> =
        plan(&asked).variants.into_iter().map(|variant| variant.name).collect();
    assert_eq!(names, ["mitigations=off", "default"]);
}

#[test]
fn several_cpus_have_figures_of_their_own_where_every_variant_has_them() {
    let figures = |asked: &Experiment| {
        let metrics = plan(asked).metrics().into_iter().map(|key| key.name);
        metrics.filter(|name| name.contains("cpu") || name == "halts").collect::<Vec<_>>()
    };
    let boots = vec!["quiet".to_string(), String::new()];
    let two = || Experiment { boot: boots.clone(), ..emulated(vec![one_workload()]) };
    assert_eq!(figures(&two()), Vec::<String>::new());
    let all = Experiment { cpus: Some(2), ..two() };
    assert_eq!(figures(&all), ["halts", "cpu-turns", "instructions-cpu0", "instructions-cpu1"]);
    let guest = plan(&all).variants[0].guest.clone().unwrap();
    assert_eq!(guest.describe(), "kernel a, boot options quiet, 1024 MiB, 2 CPUs");
    let own = Variant { cpus: Some(4), ..one_workload() };
    let some = emulated(vec![one_workload(), own]);
    assert_eq!(plan(&some).variants[1].name, "CPUs=4");
    assert_eq!(figures(&some), Vec::<String>::new());
}

#[test]
fn disks_given_twice_are_two_variants_and_a_machine_has_room_for_its_own() {
    let disks = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    let asked =
        |texts: &[&str]| Experiment { disk: disks(texts), ..emulated(vec![one_workload()]) };
    let two = plan(&asked(&["ext4:64M", "ext4,data=journal:64M"]));
    let names: Vec<&str> = two.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["ext4:64M", "ext4,data=journal:64M"]);
    let guest = two.variants[1].guest.as_ref().unwrap();
    assert_eq!(guest.describe(), "kernel a, 1024 MiB, disk ext4,data=journal:64M in memory");
    let own = Variant { disk: Some("ext2:1G".into()), memory_mib: Some(2048), ..one_workload() };
    let plan = plan(&emulated(vec![one_workload(), own.clone()]));
    assert_eq!(plan.variants[0].name, "MiB=1024 no disk");
    let without = Experiment { kernel: vec!["none".into()], ..emulated(vec![one_workload()]) };
    let command = Variant {
        command: Some(opcost_model::experiment::Command::Line("/bin/true".into())),
        ..Variant::default()
    };
    for (asked, why) in [
        (asked(&["ext4:64M", "ext5:64M"]), "no file system 'ext5' can be made here"),
        (asked(&["ext4:600M", "ext4:64M"]), "or give --memory-mib 1200"),
        (
            Experiment { machine: None, kernel: Vec::new(), ..asked(&["ext4:64M", "ext2:64M"]) },
            "'disk' is for the emulated machine; add --machine emulated",
        ),
        (
            Experiment {
                disk: disks(&["ext4:64M"]),
                variants: vec![command.clone(), command],
                ..without
            },
            "--disk has no meaning with --kernel none",
        ),
    ] {
        assert!(refusal(&asked).contains(why), "{}", refusal(&asked));
    }
}

#[test]
fn a_known_cpu_is_the_emulators_nearest_model() {
    let like = |names: &[&str]| Experiment {
        like: names.iter().map(ToString::to_string).collect(),
        ..emulated(vec![one_workload()])
    };
    let models = |asked: &Experiment| -> Vec<String> {
        let variants = plan(asked).variants;
        variants.into_iter().map(|variant| variant.guest.unwrap().cpu_model).collect()
    };
    assert_eq!(models(&like(&["skylake", "host"])), ["Skylake-Client-v3", "Haswell-v4"]);
    let own = Variant { cpu_model: Some("max".into()), name: Some("own".into()), ..one_workload() };
    let mixed = Experiment { variants: vec![one_workload(), own.clone()], ..like(&["zen3"]) };
    assert_eq!(models(&mixed), ["EPYC-Milan-v1", "max"]);
    let own = Variant { like: Some("zen".into()), ..own };
    let twice = Experiment { cpu_model: vec!["max".into()], ..like(&["zen3"]) };
    for asked in [twice, emulated(vec![one_workload(), own])] {
        assert!(refusal(&asked).contains("both name the emulated CPU"), "{}", refusal(&asked));
    }
    assert!(refusal(&like(&["zen9"])).contains("--like zen9: unknown CPU (did you mean zen"));
    let host = Experiment { machine: None, kernel: Vec::new(), ..like(&["zen"]) };
    assert!(refusal(&host).contains("'like' is for the emulated machine"), "{}", refusal(&host));
}

#[test]
fn several_variants_take_one_kernel_each_and_keep_their_own() {
    let own = Variant { kernel: Some("c".into()), name: Some("own".into()), ..one_workload() };
    let asked =
        Experiment { kernel: vec!["a".into(), "b".into()], ..emulated(vec![one_workload(), own]) };
    let plan = plan(&asked);
    let kernels: Vec<&str> = plan
        .variants
        .iter()
        .map(|variant| variant.guest.as_ref().unwrap().kernel_name.as_str())
        .collect();
    assert_eq!(kernels, ["a", "c"]);
    let three = Experiment { kernel: vec!["a".into(); 3], ..asked };
    assert!(refusal(&three).contains("--kernel is given 3 times for 2 variants"));
}

#[test]
fn kernels_beside_a_tree_are_its_revisions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.toml");
    let text = "machine = \"emulated\"\nkernel = [\"v1\", \"HEAD\"]\nkernel-tree = \"linux\"\n\
                kernel-config = \"my.config\"\n[[variant]]\nworkload = \"syscall\"\n";
    std::fs::write(&file, text).unwrap();
    std::fs::write(folder.path().join("my.config"), "").unwrap();
    let asked = Experiment::read(&file, &[], &Experiment::default()).unwrap();
    let made = plan(&asked);
    let names: Vec<&str> = made.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["v1", "HEAD"]);
    let Some(KernelSpec::Revision(revision)) = &made.variants[1].guest.as_ref().unwrap().kernel
    else {
        panic!("no revision");
    };
    // Paths in a file are relative to the file.
    assert_eq!(revision.tree, folder.path().join("linux"));
    assert_eq!(revision.config, [folder.path().join("my.config")]);
    assert_eq!((revision.name.as_str(), revision.commit.as_str()), ("HEAD", "c0ffee of HEAD"));
    // A repetition boots the same commit, whatever HEAD is by then.
    let again = made.to_experiment().unwrap();
    assert_eq!(again.kernel_tree, Some(folder.path().join("linux")));
    assert_eq!(again.kernel_config, [folder.path().join("my.config")]);
    assert_eq!(again.variants[1].kernel.as_deref(), Some("c0ffee of HEAD"));
    // A file or a package is not taken for a revision.
    let mixed = Experiment { kernel: vec!["/boot/a".into(), "HEAD".into()], ..asked };
    let kernel = plan(&mixed).variants[0].guest.clone().unwrap().kernel;
    assert_eq!(kernel, Some(KernelSpec::Image("/boot/a".into())));
    let lonely = Experiment { kernel_config: vec!["x".into()], ..emulated(vec![one_workload()]) };
    assert!(refusal(&lonely).contains("--kernel-config: it configures revisions"));
}

#[test]
fn one_pair_is_enough_for_exact_counts() {
    let asked = |pairs| Experiment {
        boot: vec!["x".into(), "y".into()],
        pairs: Some(pairs),
        ..emulated(vec![one_workload()])
    };
    let one = plan(&asked(1));
    assert_eq!((one.pairs, one.blocks.len(), one.slot_count()), (1, 1, 4));
    assert_eq!(one.stop.look_pairs, None, "a number of pairs is a number of pairs");
    assert!(refusal(&asked(0)).contains("--pairs 0: give 1 to"));
    let until = plan(&Experiment { until_settled: true, ..asked(30) });
    assert_eq!((until.pairs, until.stop.look_pairs), (30, Some(5)));
    let width = Experiment {
        until_settled: true,
        until_width: Some(opcost_model::plan::Width { ratio: 0.01 }),
        ..asked(30)
    };
    assert!(refusal(&width).contains("--until-settled: --until-width looks at"));
    let host = Experiment { until_settled: true, ..crate::resolve::fixture::experiment(2, 8) };
    let why = resolve(&host, &FakeSurroundings::default()).unwrap_err().to_string();
    assert!(why.contains("counts of this host vary"), "{why}");
    let host = crate::resolve::fixture::experiment(2, 1);
    let why = resolve(&host, &FakeSurroundings::default()).unwrap_err().to_string();
    assert!(why.contains("--pairs 1: give 2 to"), "{why}");
}

#[test]
fn blocks_hold_each_variant_once_with_a_seed_and_padding_of_their_own() {
    let boots = vec!["x".to_string(), "y".to_string()];
    let plan = plan(&Experiment { boot: boots, ..emulated(vec![one_workload()]) });
    assert_eq!(plan.blocks.len() as u32, plan.pairs);
    assert_eq!(plan.pairs, plan.fewest_pairs);
    assert_eq!(plan.stop.look_pairs, Some(5));
    assert!(plan.blocks.iter().all(|block| block.order.len() == 2));
    let first = &plan.blocks[0];
    assert!(plan.blocks[1..].iter().all(|block| block.guest_seed != first.guest_seed));
    assert!(plan.blocks.iter().any(|block| block.padding_bytes != first.padding_bytes));
    assert!(plan.blocks.iter().all(|block| block.padding_bytes < 256));
    // A warm-up run repeats a run, so its inputs must be the same.
    for slot in plan.slots().filter(|slot| slot.block.is_none()) {
        assert_eq!(slot.guest_seed, first.guest_seed);
        assert_eq!(slot.padding_bytes, first.padding_bytes);
    }
    assert_eq!(plan.slots().filter(|slot| slot.block.is_none()).count(), 2);
}

#[test]
fn recipes_are_found_by_name_and_need_a_fragment() {
    let recipe = KernelRecipe {
        config: vec!["base.config".into()],
        patch: vec!["/p".into()],
        llvm: true,
        ..KernelRecipe::default()
    };
    let boots = vec!["x".to_string(), "y".to_string()];
    let mut asked = Experiment { boot: boots, ..emulated(vec![one_workload()]) };
    asked.kernels.insert("a".into(), recipe);
    let plan = plan(&asked);
    let Some(KernelSpec::Recipe(recipe)) = &plan.variants[0].guest.as_ref().unwrap().kernel else {
        panic!("{:?}", plan.variants[0].guest);
    };
    assert_eq!(recipe.config, [std::path::PathBuf::from("/base.config")]);
    assert_eq!(recipe.patches, [std::path::PathBuf::from("/p")]);
    assert_eq!(recipe.toolchain, opcost_kernel::Toolchain::Llvm);
    let again = plan.to_experiment().unwrap();
    assert!(again.kernels["a"].llvm && again.kernels["a"].cc.is_none());
    asked.kernels.insert("a".into(), KernelRecipe::default());
    assert!(refusal(&asked).contains("[kernels.a] has no config"));
    let both = KernelRecipe {
        config: vec!["base.config".into()],
        llvm: true,
        cc: Some("gcc-11".into()),
        ..KernelRecipe::default()
    };
    asked.kernels.insert("a".into(), both);
    assert!(refusal(&asked).contains("[kernels.a] has llvm and cc"));
}

#[test]
fn a_core_is_modelled_whole_or_its_caches_and_predictors_alone() {
    let boots = vec!["x".to_string(), "y".to_string()];
    let asked = Experiment { boot: boots, model: true, ..emulated(vec![one_workload()]) };
    let emulation = plan(&asked).emulation().unwrap().clone();
    assert!(emulation.model && emulation.core.is_some() && emulation.timed_core().is_none());
    for (asked, why) in [
        (Experiment { cycles: true, ..asked.clone() }, "leave one of them out"),
        (Experiment { cpus: Some(2), ..asked.clone() }, "leave --cpus out"),
        (
            Experiment { model: false, cache: vec!["l1d=48K:12".into()], ..asked.clone() },
            "cache 'l1d=48K:12' says which cache the modelled core has; add cycles",
        ),
    ] {
        assert!(refusal(&asked).contains(why), "{}", refusal(&asked));
    }
    let with = |cache: &str| Experiment { cache: vec![cache.into()], ..asked.clone() };
    let core = |asked: &Experiment| plan(asked).emulation().unwrap().core.clone().unwrap();
    let [usual, same, other] =
        [asked.clone(), with("l1d=32K:8:64"), with("llc=8M:16")].map(|asked| core(&asked));
    assert_eq!(usual.fingerprint, same.fingerprint);
    assert_ne!(usual.fingerprint, other.fingerprint);
    assert!(other.text.contains("bytes = 8388608\nways = 16") || other.text.contains("8388608"));
    for (text, why) in [
        ("l1d", "NAME=SIZE:WAYS"),
        ("l4=1K:1", "there are l1i, l1d, l2 and llc"),
        ("l1d=32K", "NAME=SIZE:WAYS"),
        ("l1d=33K:8", "power of two"),
        ("l1d=32K:0", "cache.l1.ways"),
        ("l1d=x:8", "no number"),
        ("l1d=96K:8:48", "lines have 64 bytes"),
        ("llc=4096M:16", "cache.l3.bytes"),
    ] {
        let said = refusal(&with(text));
        assert!(said.contains(why), "{text}: {said}");
    }
}

#[test]
fn plans_of_earlier_versions_with_models_of_caches_are_read() {
    let earlier = |model: &str| {
        let text = format!(r#"{{"model": {model}, "jobs": 1, "pack": []}}"#);
        let plan: EmulationPlan = serde_json::from_str(&text).unwrap();
        (plan.model, plan.core.is_some())
    };
    let shape = r#"{"size_bytes": 32768, "ways": 8, "line_bytes": 64}"#;
    let shapes = format!(r#"{{"l1i": {shape}, "l1d": {shape}, "llc": {shape}}}"#);
    assert_eq!([earlier("null"), earlier(&shapes)], [(false, false), (true, false)]);
}

#[test]
fn what_has_no_meaning_is_refused() {
    let host = Experiment { model: true, ..experiment(2, 2) };
    assert!(refusal(&host).contains("'model' is for the emulated machine"));
    let host = Experiment { model: false, pack_used: true, ..host };
    assert!(refusal(&host).contains("'pack-used' is for the emulated machine"));
    let host = Experiment { cycles_one_in: Some(16), ..experiment(2, 2) };
    assert!(refusal(&host).contains("'cycles-one-in' is for the emulated machine"));
    let host = Experiment { no_functions: true, ..experiment(2, 2) };
    assert!(refusal(&host).contains("'no-functions' is for the emulated machine"));
    let host = Experiment { addresses: true, ..experiment(2, 2) };
    assert!(refusal(&host).contains("'addresses' is for the emulated machine"));
    let host = Experiment { kernel: vec!["a".into()], ..experiment(2, 2) };
    assert!(refusal(&host).contains("'kernel' is for the emulated machine"));
    let mut host = Experiment { tree: Some("/usr".into()), ..experiment(2, 2) };
    assert!(refusal(&host).contains("'tree' is for the emulated machine"));
    host.variants[1].tree = host.tree.take();
    assert!(refusal(&host).contains("'tree' is for the emulated machine"));

    let two = || emulated(vec![one_workload(), one_workload()]);
    let without_kernel = Experiment { kernel: vec!["none".into()], ..two() };
    assert!(refusal(&without_kernel).contains("needs a kernel to work on"));
    let events = Experiment { events: vec!["cycles".into()], ..two() };
    assert!(refusal(&events).contains("--event is for counters of this host"));
    let primary = Experiment {
        primary: Some("wall".into()),
        boot: vec!["x".into(), "y".into()],
        ..emulated(vec![one_workload()])
    };
    assert!(
        refusal(&primary).contains("not counted on this emulated machine; there are instructions,")
    );
    let sliced = |one_in| Experiment { cycles: true, cycles_one_in: Some(one_in), ..two() };
    for (asked, why) in [
        (Experiment { cpus: Some(9), ..two() }, "--cpus 9: give 1 to 8"),
        (Experiment { cpus: Some(0), ..two() }, "--cpus 0"),
        (Experiment { memory_mib: Some(1), ..two() }, "--memory-mib 1"),
        (Experiment { jobs: Some(0), ..two() }, "--jobs 0"),
        (Experiment { cycles_one_in: Some(16), ..two() }, "cycles-one-in 16: it says how many"),
        (Experiment { no_functions: true, ..sliced(16) }, "'cycles' needs more"),
        (Experiment { no_functions: true, model: true, ..two() }, "'model' needs more"),
        (Experiment { no_functions: true, addresses: true, ..two() }, "'addresses' needs more"),
        (Experiment { addresses: true, ..sliced(16) }, "'cycles' needs more"),
        (sliced(1), "cycles-one-in 1: give a number from 2 to 1000"),
        (sliced(1001), "cycles-one-in 1001: give a number from 2 to 1000"),
        (Experiment { tree: Some("/none".into()), ..two() }, "folder '/none' is not a directory"),
        (Experiment { boot: vec!["a\nb".into()], ..two() }, "one line"),
        (Experiment { pack_used: true, ..two() }, "--pack-used is for commands: workload syscall"),
    ] {
        assert!(refusal(&asked).contains(why), "{}", refusal(&asked));
    }
}

#[test]
fn commands_without_a_kernel_are_counted_in_user_mode() {
    let command = |line: &str| Variant {
        command: Some(opcost_model::experiment::Command::Line(line.into())),
        ..Variant::default()
    };
    let two = || emulated(vec![command("/bin/true"), command("/bin/true -x")]);
    let asked = Experiment { kernel: vec!["none".into()], ..two() };
    let plan = plan(&asked);
    assert_eq!(plan.primary.label(), "instructions:u");
    assert!(!plan.boots_kernels());
    assert!(plan.metrics().iter().all(|key| key.name != "page-faults"));
    let several = Experiment { cpus: Some(2), ..asked.clone() };
    assert!(refusal(&several).contains("--cpus has no meaning with --kernel none, since"));
    let moved = Experiment { tree: Some("/usr".into()), ..asked.clone() };
    assert!(refusal(&moved).contains("--tree has no meaning with --kernel none, since"));
    let packing = Experiment { pack_used: true, ..asked };
    assert!(refusal(&packing).contains("--pack-used has no meaning with --kernel none, since"));
    let mixed = Variant { kernel: Some("a".into()), ..command("/bin/true -y") };
    let alone = Variant { kernel: Some("none".into()), ..command("/bin/true") };
    let asked = Experiment { kernel: Vec::new(), ..emulated(vec![alone, mixed]) };
    assert!(refusal(&asked).contains("some variants boot a kernel and others do not"));
}

#[test]
fn commands_run_in_a_guest_with_what_they_use_where_no_kernel_is_chosen() {
    let command = |line: &str| Variant {
        command: Some(opcost_model::experiment::Command::Line(line.into())),
        ..Variant::default()
    };
    let two = || emulated(vec![command("/bin/true"), command("/bin/true -x")]);
    let used = |asked: &Experiment| plan(asked).emulation().unwrap().pack_used;
    let asked = Experiment { kernel: Vec::new(), ..two() };
    let guest = plan(&asked).variants[1].guest.clone().unwrap();
    assert_eq!(guest.kernel, Some(KernelSpec::Image("/boot/command".into())));
    assert!(used(&asked));
    assert!(!used(&Experiment { pack_only: true, ..asked.clone() }));
    assert!(!used(&Experiment { kernel: vec!["a".into()], ..two() }));
    // A repetition runs the same way.
    let again = plan(&asked).to_experiment().unwrap();
    assert_eq!(again.variants[0].kernel.as_deref(), Some("command"));
    assert!(again.pack_used);
}

#[test]
fn guests_are_booted_once_where_the_variants_boot_the_same() {
    let once = |asked: &Experiment| plan(asked).emulation().unwrap().booted_once;
    let same = Experiment { kernel: vec!["a".into()], ..emulated(vec![one_workload()]) };
    assert!(once(&same));
    assert!(!once(&Experiment { fresh_boots: true, ..same.clone() }));
    // A boot leaves a state to each of several CPUs, which shifts comparisons but not a variant alone.
    let on_two = |variants| {
        once(&Experiment { kernel: vec!["a".into()], cpus: Some(2), ..emulated(variants) })
    };
    assert!(on_two(vec![one_workload()]) && !on_two(vec![one_workload(), one_workload()]));
    for other in [
        Experiment { kernel: vec!["a".into(), "b".into()], ..same.clone() },
        Experiment { boot: vec!["quiet".into(), "nosmap".into()], ..same.clone() },
    ] {
        assert!(!once(&other));
    }
}

#[test]
fn variants_of_two_architectures_stand_beside_each_other() {
    let of = |architecture| Variant { architecture: Some(architecture), ..one_workload() };
    let [x86, arm] = [Architecture::X86_64, Architecture::Aarch64].map(of);
    let all = [&x86, &arm, &x86, &arm].map(Clone::clone);
    let asked = Experiment { kernel: vec!["a".into()], ..emulated(all.to_vec()) };
    let plan = plan(&asked);
    let models: Vec<_> =
        plan.variants.iter().map(|one| one.guest.clone().unwrap().cpu_model).collect();
    assert_eq!(models, ["EPYC-Rome-v2", "neoverse-n1", "EPYC-Rome-v2", "neoverse-n1"]);
    assert_eq!(plan.comparisons(), [(0, 1), (0, 2), (1, 3)]);
    let apart: Vec<_> = plan.comparisons().into_iter().map(|sides| plan.apart(sides)).collect();
    assert_eq!(apart, [Some("other architecture"), None, None]);
    assert!(!plan.emulation().unwrap().booted_once);
}

#[test]
fn an_arm64_guest_has_its_own_cpu_and_only_what_exists_there() {
    let arm = Experiment {
        kernel: vec!["a".into()],
        architecture: Some(Architecture::Aarch64),
        ..emulated(vec![one_workload()])
    };
    let guest = plan(&arm).variants[0].guest.clone().unwrap();
    assert_eq!(
        (guest.architecture, guest.cpu_model.as_str()),
        (Architecture::Aarch64, "neoverse-n1")
    );
    assert_eq!(guest.describe(), "kernel a, 1024 MiB, arm64 architecture");
    let again = plan(&plan(&arm).to_experiment().unwrap());
    let repeated = again.variants[0].guest.clone().unwrap();
    assert_eq!((repeated.settings, repeated.cpu_model), (guest.settings, guest.cpu_model));
    let once = |asked: &Experiment| plan(asked).emulation().unwrap().booted_once;
    let model = |model: &str| Experiment { cpu_model: vec![model.into()], ..arm.clone() };
    assert!(once(&arm) && once(&model("cortex-a72")) && !once(&model("max,pauth=off")));
    let line = Some(opcost_model::experiment::Command::Line("/bin/true".into()));
    let alone = Experiment {
        kernel: vec!["none".into()],
        variants: vec![Variant { command: line, ..Variant::default() }],
        ..arm.clone()
    };
    let guest = plan(&alone).variants[0].guest.clone().unwrap();
    assert_eq!((guest.kernel, guest.cpu_model.as_str()), (None, "neoverse-n1"));
    for (asked, why) in [
        (
            Experiment {
                variants: vec![Variant {
                    workload: Some("immediate".into()),
                    ..Variant::default()
                }],
                ..arm.clone()
            },
            "--workload immediate: patchpoint puts values",
        ),
        (Experiment { cycles: true, ..arm.clone() }, "--cycles: the cores that opcost models"),
        (Experiment { model: true, ..arm.clone() }, "--model: the caches"),
        (
            Experiment { like: vec!["zen2".into()], ..arm.clone() },
            "--cpu-model neoverse-n1 (Graviton 2",
        ),
        (Experiment { cpus: Some(2), ..arm.clone() }, "--cpus: such guests have one CPU"),
        (Experiment { kernel: Vec::new(), ..arm.clone() }, "without --kernel"),
    ] {
        let said = refusal(&asked);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn roots_given_twice_are_two_variants_and_their_programs_are_not_looked_for_here() {
    let line = Some(opcost_model::experiment::Command::Line("no-such-program --do".into()));
    let work = || Variant { command: line.clone(), ..Variant::default() };
    let asked = |roots: &[&str], service: Option<&str>, ready: Option<&str>| Experiment {
        root: roots.iter().map(ToString::to_string).collect(),
        service: service.map(String::from).into_iter().collect(),
        ready: ready.map(String::from).into_iter().collect(),
        ..emulated(vec![work()])
    };
    let two = plan(&asked(&["/usr", "etc/"], Some("serve -p 80"), Some("port:80")));
    let names: Vec<&str> = two.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["usr", "etc"]);
    let guest = two.variants[1].guest.as_ref().unwrap();
    assert_eq!(guest.describe(), "kernel a, 1024 MiB, root /etc, service serve -p 80");
    assert_eq!(two.variants[1].cwd, None);
    let small = Experiment { kernel: Vec::new(), ..asked(&["/usr"], None, None) };
    assert!(!plan(&small).emulation().unwrap().pack_used);
    let mut elsewhere = asked(&["/usr"], None, None);
    elsewhere.cwd = Some("srv".into());
    let tree = Experiment { tree: Some("/".into()), ..asked(&["/usr"], None, None) };
    let none = Experiment { kernel: vec!["none".into()], ..asked(&["/usr"], None, None) };
    let workload = Experiment { variants: vec![one_workload()], ..asked(&["/usr"], None, None) };
    let mut rootless = asked(&[], Some("a"), Some("port:1"));
    rootless.variants[0].command = Some(opcost_model::experiment::Command::Line("true".into()));
    for (asked, why) in [
        (asked(&["/none"], None, None), "--root /none: cannot open '/none': No such file"),
        (rootless, "--service 'a': a service runs in a root; add --root"),
        (
            asked(&["/usr"], Some("a"), None),
            "--service 'a': say when it is ready with --ready port:NUMBER",
        ),
        (
            asked(&["/usr"], None, Some("port:1")),
            "--ready port:1: of which service? add --service CMD",
        ),
        (asked(&["/usr"], Some("a"), Some("80")), "--ready: '80' does not say how"),
        (asked(&["/usr"], Some("'a"), Some("port:1")), "it is empty, or has unbalanced quotes"),
        (asked(&["/usr", "/etc", "/"], Some("a"), Some("port:1")), ""),
        (elsewhere, "--cwd srv: give an absolute path in the root"),
        (tree, "--root /usr: the command's files are in the root; leave --tree out"),
        (none, "--root has no meaning with --kernel none"),
        (workload, "--root /usr: workload syscall needs no files"),
    ] {
        if why.is_empty() {
            assert_eq!(plan(&asked).variants.len(), 3);
            continue;
        }
        let refused = refusal(&asked);
        assert!(refused.contains(why), "{refused}");
    }
}
