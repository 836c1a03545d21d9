//! Every setting, and all surroundings on which counts depend, reach a gate's key, comparisons of two recordings, histories, the
//! experiment that makes a plan again, and docs/schema.json.

use crate::made::emulated::{self, Tree, count, kernel};
use opcost_analysis::comparison::call_tree::VariantOf;
use opcost_analysis::comparison::compare;
use opcost_analysis::comparison::two_recordings::compare_recordings;
use opcost_analysis::history::{Question, history};
use opcost_gate::gate::counts::key;
use opcost_kernel::KernelSpec;
use opcost_kernel::disk::DiskSpec;
use opcost_model::experiment::Experiment;
use opcost_model::guest_settings::GuestSettings;
use opcost_model::plan::service::ServicePlan;
use opcost_model::plan::{
    EmulationPlan, GuestPlan, Hooks, InProcessPlan, OutputPlan, Plan, Revision, Target,
    VariantPlan, WorkPlan,
};
use opcost_model::recording::settings::{self, Of};
use opcost_model::recording::{
    Alternatives, DataState, GuestBuild, GuestState, MachineState, ProgramState, Recording,
};
use opcost_record::Architecture;
use opcost_report::render::{Style, View, render};
use opcost_size::Totals;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Settings of a guest of which none has its default.
fn other_settings() -> GuestSettings {
    let rows = GuestSettings::stored().into_iter();
    let changed = rows.map(|row| {
        let is_read = |other: &Value| {
            let alone = json!({ row.name: other });
            serde_json::from_value::<GuestSettings>(alone).is_ok()
        };
        let other = others(&row.default).into_iter().find(is_read);
        (row.name.to_string(), other.unwrap_or_else(|| panic!("no other {}", row.name)))
    });
    serde_json::from_value(Value::Object(changed.collect())).unwrap()
}

/// A recording with a value for every setting. What it makes has all fields by name, so that a new one is given a value here.
pub(crate) fn full() -> Recording {
    let base = emulated::plan(&["off"], 2);
    let plan = Plan {
        experiment: base.experiment,
        question: base.question,
        label: Some("nightly".into()),
        invocation: Some("opcost run x.toml".into()),
        target: Target::Emulated(Box::new(EmulationPlan {
            model: true,
            core: None,
            cycles_one_in: Some(10),
            no_functions: true,
            addresses: true,
            steps: Some("3".parse().unwrap()),
            count: vec!["calls:main".parse().unwrap()],
            jobs: 1,
            pack: vec!["/etc/hosts".into()],
            pack_used: false,
            booted_once: false,
        })),
        variants: vec![VariantPlan {
            name: "off".into(),
            work: WorkPlan::Command {
                program: "/bin/work".into(),
                argv: vec!["work".into(), "1".into()],
                line: "work 1".into(),
            },
            env: vec![("MODE".into(), "fast".into())],
            cwd: Some("/srv".into()),
            input: Some("/srv/input".into()),
            output: Some(OutputPlan::File("/srv/output".into())),
            ops: Some("did ([0-9]+)".parse().unwrap()),
            prepare: Some("sync".into()),
            conclude: Some("sync -f".into()),
            setup: Some("make work".into()),
            cleanup: Some("rm work".into()),
            guest: Some(GuestPlan {
                kernel: Some(KernelSpec::Image("/boot/k".into())),
                kernel_name: "k".into(),
                boot: "quiet".into(),
                cpu_model: "max".into(),
                settings: other_settings(),
                disk: Some(DiskSpec::parse("ext4:64M").unwrap()),
                root: Some("/srv/root".into()),
                service: Some(ServicePlan {
                    line: "serve".into(),
                    ready: "port:80".parse().unwrap(),
                }),
            }),
            revision: Some(Revision { commit: "a".repeat(40), dirty: Some(false) }),
            tree: Some("/srv".into()),
            scanned: [("size".to_string(), "4096".to_string())].into(),
        }],
        pairs_of_variants: base.pairs_of_variants,
        primary: base.primary,
        primary_if_busy: base.primary_if_busy,
        events: base.events,
        unavailable: base.unavailable,
        pairs: base.pairs,
        fewest_pairs: base.fewest_pairs,
        stop: base.stop,
        in_process: Some(InProcessPlan { blocks: 2 }),
        block: None,
        repeats_last: base.repeats_last,
        shards: None,
        warmup: base.warmup,
        seed: base.seed,
        blocks: base.blocks,
        timeout_ms: Some(1000),
        cpu: Some(0),
        aslr: base.aslr,
        environment: base.environment,
        show_output: base.show_output,
        ignore_failure: base.ignore_failure,
        allow: base.allow,
        matches: Vec::new(),
        hooks: Hooks {
            setup: Some("make".into()),
            conclude: Some("sync".into()),
            cleanup: Some("make clean".into()),
            cwd: base.hooks.cwd,
        },
    };
    let mut made = emulated::recording(plan, 0, |_| {
        let mut tree = Tree::default();
        tree.add(None, "main", "/bin/work", 3, 1000);
        (tree.grown(), vec![count("loads", 7)])
    });
    let file = |path: &str| ProgramState {
        path: path.into(),
        length_bytes: 1,
        sha256: "ab".repeat(32),
        sizes: Some(Totals { text_bytes: 1, data_bytes: 1, bss_bytes: 1 }),
    };
    let text = |value: &str| Some(value.to_string());
    let weaknesses = BTreeMap::from([("meltdown".to_string(), "Mitigation: PTI".to_string())]);
    made.machine = vec![MachineState {
        opcost_version: "1".into(),
        kernel_release: text("6.1.0"),
        kernel_version: text("#1"),
        boot_id: text("a"),
        boot_parameters: text("quiet"),
        cpu_model: text("A CPU"),
        cpu_microcode: text("1"),
        cpu_flags: text("fpu"),
        cpus_online: text("0-1"),
        smt: text("on"),
        governor: text("performance"),
        turbo: Some(true),
        mitigations: weaknesses.clone(),
        randomize_va_space: text("2"),
        transparent_hugepage: text("always"),
        clocksource: text("tsc"),
        perf_event_paranoid: text("2"),
        nmi_watchdog: text("0"),
        memory_bytes: Some(1),
        load_average: text("0.1"),
        programs: ["/q", "/p", "/init", "/bin/work", "/lib/c"].map(file).into(),
        environment_bytes: vec![100],
        inherited_environment: text("7 variables (ab)"),
        data: vec![DataState { path: "/srv-data".into(), sha256: "ab".repeat(32) }],
        emulator_version: text("7.2"),
        shard: None,
        kernels: vec![kernel(0, "k", &["CONFIG_HZ=100".into()])],
        guest_build: None,
        guests: vec![GuestState {
            variant: 0,
            cpu_model: "max".into(),
            left_out: vec!["avx512f".into()],
            cpu_name: text("QEMU TCG CPU"),
            cpu_flags: text("fpu"),
            mitigations: Some(weaknesses),
            page_table_levels: Some(4),
            clocksource: text("tsc"),
            unknown_options: text("nosuch"),
            detected: vec!["Privileged Access Never".into()],
            alternatives: Some(Alternatives { all: 2, patched: 1 }),
            unnamed: vec!["switch".into()],
        }],
    }];
    made
}

/// Whether a difference is seen: by the key, the comparison, the history, the experiment that makes the plan again.
fn seen(before: &Recording, after: &Recording) -> [bool; 4] {
    let revision = settings::Revision {
        tree: Path::new("/src"),
        compiler: Some("cc 12"),
        other_tree: None,
        is_kernel: false,
    };
    let keyed = key(before, revision) != key(after, revision);
    let of = |recording| VariantOf { recording, variant: 0 };
    let compared = match compare_recordings([of(before), of(after)], &[]) {
        Err(_) => true,
        Ok(made) => made.notes.iter().any(|note| note.starts_with("between the recordings")),
    };
    let question = Question { variant: None, ..Question::default() };
    let shown = history(vec![before.clone(), after.clone()], &question).unwrap();
    let points = &shown.series[0].points;
    let noted = points.iter().any(|point| !(point.environment.is_empty() && point.work.is_empty()));
    let repeated = before.plan.to_experiment() != after.plan.to_experiment();
    [keyed, compared, noted, repeated]
}

/// The places of all values inside, as JSON pointers.
pub(crate) fn places(value: &Value, here: String, all: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, below)| places(below, format!("{here}/{name}"), all));
        }
        Value::Array(items) => {
            let numbered = items.iter().enumerate();
            numbered.for_each(|(index, below)| places(below, format!("{here}/{index}"), all));
        }
        _ => all.push(here),
    }
}

/// The fields that a part of a schema declares, below `here`, and that are in none of the values at that place.
fn absent(root: &Value, part: &Value, values: &[&Value], here: &str, fields: &mut Vec<String>) {
    if let Some(name) = part["$ref"].as_str() {
        return absent(root, root.pointer(&name[1..]).unwrap(), values, here, fields);
    }
    let either = ["anyOf", "oneOf"].iter().filter_map(|word| part[word].as_array()).flatten();
    either.for_each(|part| absent(root, part, values, here, fields));
    for (name, part) in part["properties"].as_object().into_iter().flatten() {
        let here = format!("{here}/{name}");
        let values: Vec<&Value> = values.iter().filter_map(|value| value.get(name)).collect();
        match &values[..] {
            [] => fields.push(here),
            values => absent(root, part, values, &here, fields),
        }
    }
    if part["items"].is_object() {
        let lists = values.iter().filter_map(|value| value.as_array());
        let values: Vec<&Value> = lists.flatten().collect();
        absent(root, &part["items"], &values, &format!("{here}/*"), fields);
    }
}

/// Other values in place of one; those that cannot be read there are passed over.
fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(is) => vec![json!(!is)],
        Value::Number(number) => vec![json!(number.as_u64().unwrap_or(0) + 1)],
        Value::String(text) => vec![
            json!(format!("{text}1")),
            json!("inherit"),
            json!("arm64"),
            json!("other ([0-9]+)"),
            json!("ext2:64M"),
            json!("port:81"),
        ],
        // A setting that is absent becomes a text, a number or a yes.
        Value::Null => vec![json!("more"), json!(5), json!(true)],
        _ => Vec::new(),
    }
}

/// The JSON that commands print of a recording.
fn document(made: &Recording) -> Value {
    let (comparison, warnings) = compare(made);
    let (comparison, warnings, style) = (&comparison, &warnings[..], &Style::plain());
    let text = render("json", &View { recording: made, comparison, warnings, style }).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Whether `place` is `known` or below it; a star stands for one name.
fn is_below(place: &str, known: &str) -> bool {
    let (mut place, known) = (place.split('/'), known.split('/'));
    known.into_iter().all(|name| place.next().is_some_and(|own| name == "*" || own == name))
}

/// Changes every value of a JSON text by itself and checks who sees it.
///
/// `all`: `v` for each reader that sees values, in the order of [`seen`]; `unseen`: the places that a reader need not see, which has
/// an `x`; with the reason.
fn check(
    what: &str,
    all: &str,
    stored: &Value,
    unseen: &[(&str, &str, &str)],
    read: &dyn Fn(Value) -> Option<Recording>,
) {
    let before = read(stored.clone()).unwrap();
    let mut found = Vec::new();
    places(stored, String::new(), &mut found);
    let mut faults = Vec::new();
    let mut used = BTreeSet::new();
    let schema = crate::schema::validator();
    for place in &found {
        let value = stored.pointer(place).unwrap();
        let after = others(value).into_iter().find_map(|other| {
            let mut changed = stored.clone();
            *changed.pointer_mut(place).unwrap() = other;
            let after = read(changed)?;
            // Some values mean the same.
            let same = serde_json::to_value(&after.plan).ok()
                == serde_json::to_value(&before.plan).ok()
                && after.machine == before.machine;
            (!same).then_some(after)
        });
        let Some(after) = after else { continue };
        let seen = seen(&before, &after);
        let listed = unseen.iter().find(|(known, ..)| is_below(place, known));
        used.extend(listed.map(|(known, ..)| *known));
        let expected = listed.map_or(all, |(_, marks, _)| *marks);
        let marks: String = seen.iter().map(|saw| if *saw { 'v' } else { 'x' }).collect();
        let hold =
            marks.chars().zip(expected.chars()).all(|(is, should)| should != 'v' || is == 'v');
        if !hold {
            faults.push(format!("{place}: {marks}, not {expected}"));
        }
        if let Err(fault) = schema.validate(&document(&after)) {
            faults
                .push(format!("{place}: docs/schema.json has {}: {fault}", fault.instance_path()));
        }
    }
    let idle: Vec<&str> =
        unseen.iter().map(|(known, ..)| *known).filter(|known| !used.contains(known)).collect();
    assert!(faults.is_empty(), "{what}:\n{}", faults.join("\n"));
    assert!(idle.is_empty(), "{what}: listed, and not there: {idle:?}");
}

#[test]
fn every_value_of_a_plan_that_counts_depend_on_is_seen_by_key_comparison_and_history() {
    let made = full();
    let stored = serde_json::to_value(&made.plan).unwrap();
    let unseen = [
        ("/experiment", "xxxv", "a name"),
        ("/question", "xxxv", "a name"),
        ("/label", "xxxv", "a name"),
        ("/invocation", "xxxx", "the experiment says the same"),
        ("/emulation/jobs", "xxxv", "counts do not depend on what runs beside them"),
        ("/emulation/no_functions", "xxxv", "totals have the same digits"),
        ("/emulation/addresses", "xxxv", "counts have the same digits"),
        ("/emulation/steps", "xxxv", "counts have the same digits"),
        ("/emulation/count", "xxxv", "counts have the same digits"),
        ("/emulation/booted_once", "xvvv", "a gate decides it"),
        ("/primary/source", "xxxx", "goes with the name"),
        ("/primary", "xxxv", "the choice of what is judged"),
        ("/primary_if_busy", "xxxx", "the metric that it chose is the plan's primary one"),
        ("/pairs", "xxxv", "the number of runs"),
        ("/fewest_pairs", "xxxx", "the number of runs"),
        ("/stop", "xxxx", "the number of runs"),
        ("/warmup", "xxxv", "the number of runs"),
        ("/seed", "vxxv", "comparisons pair the layouts of blocks, or test the seeds' spread"),
        ("/blocks", "xxxx", "the schedule"),
        ("/timeout_ms", "xxxv", "a limit"),
        ("/cpu", "xxxv", "of the host"),
        ("/show_output", "xxxv", "the variant has an output of its own"),
        ("/ignore_failure", "xxxv", "the choice of what is judged"),
        ("/hooks/conclude", "xxxv", "the variant has one of its own"),
        ("/hooks/cwd", "xxxx", "where a recording began"),
        ("/variants/0/name", "xxxv", "a name"),
        ("/variants/0/work/program", "vxxx", "a comparison sees the program's contents"),
        ("/variants/0/work/argv", "vxxv", "a comparison sees the line"),
        ("/variants/0/work/line", "xvvx", "a key has program and arguments"),
        ("/variants/0/cwd", "vxxv", "two checkouts lie in two folders"),
        ("/variants/0/guest/kernel", "xxxx", "the kernel's contents are seen"),
        ("/variants/0/guest/root", "xvvv", "its contents are in the key"),
        ("/variants/0/guest/kernel_name", "xvvx", "the kernel's contents are in the key"),
        ("/variants/0/revision", "xxxx", "is what is compared"),
        ("/variants/0/tree", "xxxv", "whether there is one is seen"),
        ("/variants/0/scanned", "xxxv", "the value is in the work"),
    ];
    check("plan", "vvvv", &stored, &unseen, &|value| {
        let plan: Plan = serde_json::from_value(value).ok()?;
        Some(Recording { plan, ..made.clone() })
    });
}

/// The parts of a gate's key that say which architecture was counted.
fn parts_of_architecture(made: &Recording) -> Vec<(String, String)> {
    let revision = settings::Revision {
        tree: Path::new("/src"),
        compiler: None,
        other_tree: None,
        is_kernel: false,
    };
    let parts = settings::key_parts(&Of { revision: Some(revision), ..Of::recording(made, 0) });
    let named = |(name, _): &(String, String)| name.starts_with("arch");
    parts.into_iter().filter(named).collect()
}

#[test]
fn baselines_of_one_architecture_keep_the_keys_from_before_there_were_two() {
    let mut made = full();
    let guest = made.plan.variants[0].guest.as_mut().unwrap();
    guest.settings = GuestSettings::default();
    let pair = |(name, value): (&str, &str)| (name.to_string(), value.to_string());
    assert_eq!(parts_of_architecture(&made), [("arch", "x86_64")].map(pair));
    let guest = made.plan.variants[0].guest.as_mut().unwrap();
    guest.settings.architecture = Architecture::Aarch64;
    let other = [("arch", "aarch64"), ("architecture", "arm64")];
    assert_eq!(parts_of_architecture(&made), other.map(pair));
}

#[test]
fn all_surroundings_that_counts_depend_on_are_seen_by_key_comparison_and_history() {
    let made = full();
    let stored = serde_json::to_value(&made.machine[0]).unwrap();
    let of_host = "the computer that emulates has no influence";
    let mut unseen: Vec<(&str, &str, &str)> = [
        "/kernel_release",
        "/kernel_version",
        "/boot_id",
        "/boot_parameters",
        "/cpu_model",
        "/cpu_microcode",
        "/cpu_flags",
        "/cpus_online",
        "/smt",
        "/governor",
        "/turbo",
        "/randomize_va_space",
        "/transparent_hugepage",
        "/clocksource",
        "/perf_event_paranoid",
        "/mitigations",
        "/nmi_watchdog",
        "/memory_bytes",
        "/load_average",
    ]
    .map(|place| (place, "xxx", of_host))
    .into();
    unseen.extend([
        ("/opcost_version", "xvv", "the way of counting is in the key"),
        ("/programs/*/length_bytes", "xxx", "goes with the contents"),
        ("/programs/*/path", "xxx", "contents tell files apart"),
        ("/programs/0/sha256", "xvv", "the emulator's version is in the key"),
        ("/programs/1/sha256", "xvv", "the way of counting is in the key"),
        ("/programs/2/sha256", "xvv", "the guest's init does the work of workloads only"),
        ("/programs/*/sizes", "xxx", "goes with the contents"),
        ("/environment_bytes", "xxx", "goes with the environment's contents"),
        ("/data/0/path", "xxx", "contents tell files apart"),
        ("/kernels/0/variant", "xxx", "whose kernel it is"),
        ("/kernels/0/name", "xxx", "the plan has it"),
        ("/kernels/0/release", "xxx", "goes with the contents"),
        ("/kernels/0/config", "xxx", "goes with the contents"),
        ("/kernels/0/sizes", "xxx", "goes with the contents"),
        ("/guests", "xxx", "follows from kernel, emulator and CPU model"),
    ]);
    check("machine", "vvv", &stored, &unseen, &|value| {
        let state: MachineState = serde_json::from_value(value).ok()?;
        Some(Recording { machine: vec![state], ..made.clone() })
    });
}

#[test]
fn every_field_of_an_experiment_is_a_setting_or_chooses_no_figure() {
    // The reader of the file names all fields that there are.
    let fields = |text: &str| -> BTreeSet<String> {
        let error = toml::from_str::<Experiment>(text).unwrap_err().to_string();
        let list = error.split("expected one of ").nth(1).unwrap_or_else(|| panic!("{error}"));
        list.split('`').skip(1).step_by(2).map(str::to_string).collect()
    };
    let all = &fields("nothing = 1") | &fields("[[variant]]\nnothing = 1");
    let settings: BTreeSet<&str> =
        settings::all().flat_map(|setting| setting.fields).copied().collect();
    let others = [
        "name",
        "question",
        "label",
        "pairs",
        "runs",
        "until-width",
        "until-settled",
        "budget",
        "min-runs",
        "warmup",
        "pairs-of-variants",
        "timeout",
        "machine",
        "ignore-failure",
        "events",
        "primary",
        "allow",
        "match",
        "no-functions",
        "addresses",
        "steps",
        "count",
        "jobs",
        "scan",
        "scanned",
        "variant",
    ];
    let unknown: Vec<&String> =
        all.iter().filter(|field| !settings.contains(field.as_str())).collect();
    let expected: BTreeSet<&str> = others.into();
    let unknown: BTreeSet<&str> = unknown.into_iter().map(String::as_str).collect();
    assert_eq!(unknown, expected, "a new field is in SETTINGS, or chooses no figure");
    let none: Vec<&&str> = settings.iter().filter(|field| !all.contains(**field)).collect();
    assert!(none.is_empty(), "SETTINGS has fields that no experiment has: {none:?}");
}

/// Plans and machines are what a recording stores; what commands compute of them is checked by the tests in `schema`.
#[test]
fn every_field_of_plans_and_machines_in_the_schema_is_one_that_recordings_have() {
    let made = full();
    let base = serde_json::to_value(&made.plan).unwrap();
    let planned = |others: Value| {
        let mut plan = base.clone();
        plan.as_object_mut().unwrap().extend(others.as_object().unwrap().clone());
        serde_json::to_value(serde_json::from_value::<Plan>(plan).unwrap()).unwrap()
    };
    let key = json!({"name": "wall", "domain": "all", "source": "clock", "region": "work"});
    let errors = json!({"error_median": 0.1, "error_p90": 0.2, "kernels": 3});
    let mut emulation = base["emulation"].clone();
    emulation["core"] = json!({
        "name": "a", "given": "a", "fingerprint": "1", "text": "", "caches": ["l1d=32K:8"], "file_fingerprint": "2",
        "validation": {
            "validated_on": "a CPU", "kernels": 9, "decides_from_ratio": 0.1, "high": errors, "medium": errors, "low": errors,
        },
    });
    let mut variant = base["variants"][0].clone();
    variant["work"] = json!({"kind": "workload", "name": "syscall", "params": [["ops", "1"]]});
    let event = json!({"key": key, "kind": 0, "config": 1, "config1": 0, "config2": 0, "pinned": false, "group": 0});
    let emulated = json!({
        "emulation": emulation, "variants": [variant], "primary_if_busy": key, "events": [event],
        "unavailable": [{"key": key, "reason": "no counters", "remedy": "none"}],
        "stop": {"width_ratio": 0.1, "budget_ms": 1, "blocks_min": 1, "look_pairs": 2},
        "block": 3, "repeats_last": true, "shards": {"of": 2, "index": 1, "blocks": 4}, "matches": ["a=b"], "allow": ["load"],
    });
    let host = json!({
        "machine": "host", "emulation": null, "build": {"command": "make", "blocks": 1}, "priority": "real-time",
        "sampling": {"frequency_hz": 99, "call_graph": "fp", "user_stack_bytes": 1},
    });
    let imported = json!({
        "machine": "imported", "emulation": null,
        "imported": {"sources": [], "metrics": [], "threads": 1, "omitted": [], "claims": [], "formulas": []},
    });
    let attached = json!({
        "machine": "attached", "emulation": null,
        "attachment": {"pid": 1, "key": "k", "period_ns": 1, "settle_ns": 1, "ops": "key"},
    });
    let plans = [&base, &planned(emulated), &planned(host), &planned(imported), &planned(attached)];
    let mut state = made.machine[0].clone();
    state.shard = Some(1);
    state.guest_build =
        Some(GuestBuild { packaged: true, rustc: Some("1".into()), glibc: Some("2".into()) });
    let state = serde_json::to_value(state).unwrap();
    let schema = crate::schema::schema();
    let mut fields = Vec::new();
    absent(&schema, &schema["$defs"]["plan"], &plans, "/plan", &mut fields);
    absent(&schema, &schema["$defs"]["machine"], &[&state], "/machine", &mut fields);
    assert!(fields.is_empty(), "docs/schema.json has what no recording has: {fields:?}");
}
