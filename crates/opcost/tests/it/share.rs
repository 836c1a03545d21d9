//! `--share`: no private name is left in any field, format or file, and the figures stay.

use crate::lab::{Lab, files};
use crate::made;
use crate::settings::{full, places};
use opcost_analysis::comparison::compare;
use opcost_import::import::parsed::Input;
use opcost_import::import::{Options, ReadFile, assemble, read};
use opcost_model::plan::{BuildPlan, HostPlan, Target};
use opcost_model::recording::{MachineState, PrivateNames, Recording};
use opcost_record::{Dictionary, Failure, Function, Invariant, Module, Outcome, Reading};
use opcost_report::render::{FORMATS, Style, View, render};
use opcost_sys::budget::Budget;
use serde_json::{Value, json};
use std::path::Path;

const FOLDER: &str = "/home/zoe-planted/vault-planted/deep-planted";
const SENTENCE: &str = "in /home/zoe-planted/vault-planted/deep-planted/x.txt of zoe-planted on host-planted: value-planted9";

/// Every text in a recording, as JSON.
fn texts(made: &Recording) -> String {
    let outcomes: Vec<&Failure> = made
        .records
        .iter()
        .filter_map(|record| match &record.outcome {
            Outcome::Failed(failure) => Some(failure),
            Outcome::Finished => None,
        })
        .collect();
    let invariants: Vec<_> = made.records.iter().map(|record| &record.invariants).collect();
    let functions: Vec<_> = made.profiles.iter().map(|(_, profile)| &profile.functions).collect();
    let modules: Vec<_> = made.profiles.iter().map(|(_, profile)| &profile.modules).collect();
    json!([made.plan, made.machine, made.dictionary.keys(), outcomes, invariants, functions])
        .to_string()
        + &format!("{modules:?} {}", made.id)
}

fn shared(made: &Recording) -> Recording {
    let mut names = PrivateNames::new(&["zoe-planted".into()], &["host-planted".into()]);
    names.learn(made).unwrap();
    names.replacer().recording(made).unwrap()
}

/// Recordings of each machine.
fn recordings() -> Vec<Recording> {
    let mut host = made::plan(&["off", "on"], 2);
    host.target = Target::Host(HostPlan {
        build: Some(BuildPlan { command: "make".into(), blocks: 1 }),
        ..Default::default()
    });
    host.variants[0].env = vec![("MODE".into(), "fast".into())];
    let host = made::recording(host, |_| vec![Reading::plain(made::key("wall", "clock"), 7)]);
    let text =
        r#"{"results": [{"command": "a", "times": [1, 2]}, {"command": "b", "times": [2, 3]}]}"#;
    let input = Input { path: Path::new("x.json"), text, budget: &Budget::default() };
    let (format, parsed) = read(&input, None).unwrap();
    let file = ReadFile { label: "a".into(), path: "a".into(), format, parsed };
    let imported = assemble(&[file], &Options::default()).unwrap();
    let imported = Recording {
        plan: imported.plan,
        machine: vec![imported.machine],
        dictionary: Dictionary::default(),
        records: Vec::new(),
        profiles: Vec::new(),
        ..host.clone()
    };
    vec![full(), host, imported]
}

#[test]
fn no_name_planted_in_any_field_is_left() {
    let mut planted = 0;
    for made in recordings() {
        let plan = serde_json::to_value(&made.plan).unwrap();
        let machine = serde_json::to_value(&made.machine).unwrap();
        for (is_plan, stored) in [(true, plan), (false, machine)] {
            let mut all = Vec::new();
            places(&stored, String::new(), &mut all);
            for place in all {
                let own = stored.pointer(&place).unwrap();
                let old = match own {
                    Value::String(text) => text.as_str(),
                    // A field that is absent may hold a text.
                    Value::Null => "",
                    _ => continue,
                };
                let plants = [
                    format!("{old} {SENTENCE}"),
                    format!("{FOLDER}/kept"),
                    "value-planted9".into(),
                ];
                for text in plants {
                    let mut changed = stored.clone();
                    *changed.pointer_mut(&place).unwrap() = json!(text);
                    let mut with = made.clone();
                    // Words that a type fixes take no other text.
                    if is_plan {
                        let Ok(plan) = serde_json::from_value(changed) else { continue };
                        with.plan = plan;
                    } else {
                        let Ok(machine) = serde_json::from_value(changed) else { continue };
                        with.machine = machine;
                    }
                    with.plan.variants[1.min(made.plan.variants.len() - 1)]
                        .env
                        .push(("KEY".into(), "value-planted9".into()));
                    if !texts(&with).contains(&text) {
                        continue;
                    }
                    planted += 1;
                    let left = texts(&shared(&with));
                    assert!(!left.contains("planted"), "{place}: {text} left in {left}");
                }
            }
        }
    }
    assert!(planted > 250, "only {planted} names could be planted");
}

/// A recording with names in its runs, metrics and functions.
fn with_names_in_runs() -> Recording {
    let mut made = full();
    made.plan.variants[0].env = vec![("KEY".into(), "value-planted9".into())];
    let mut keys = made.dictionary.keys().to_vec();
    keys[0].region = format!("{FOLDER}/r");
    made.dictionary = Dictionary::from_keys(keys);
    made.records[0].invariants = vec![Invariant { name: FOLDER.into(), value: SENTENCE.into() }];
    let last = made.records.len() - 1;
    made.records[last].outcome = Outcome::Failed(Failure::Work { detail: SENTENCE.into() });
    let (_, profile) = &mut made.profiles[0];
    profile.functions[0] = Function {
        symbol: format!("<{FOLDER}/x.rs as A>::f"),
        module: format!("{FOLDER}/prog"),
        source: Some(format!("{FOLDER}/x.c")),
        mangled: Some(SENTENCE.into()),
    };
    let module = Module {
        path: format!("{FOLDER}/prog"),
        soname: Some(format!("{FOLDER}/libx.so")),
        program: true,
    };
    profile.modules = vec![module];
    made
}

#[test]
fn no_format_shows_a_name_in_runs_metrics_or_functions() {
    let made = with_names_in_runs();
    assert!(texts(&made).matches("planted").count() > 20);
    let shared = shared(&made);
    assert!(!texts(&shared).contains("planted"), "{}", texts(&shared));
    let function = &shared.profiles[0].1.functions[0];
    assert_eq!(function.module, "/home/user-1/folder-1/folder-2/prog");
    assert_eq!(shared.profiles[0].1.modules[0].path, function.module, "one name, one word");
    for state in &shared.machine {
        let MachineState { boot_id, boot_parameters, cpu_flags, .. } = state;
        assert_eq!((boot_id, boot_parameters, cpu_flags), (&None, &None, &None));
    }
    for (format, text) in FORMATS.iter().zip(rendered(&shared)) {
        assert!(text.is_none_or(|text| !text.contains("planted")), "{}", format.name);
    }
}

/// A recording in each format that can hold it.
fn rendered(recording: &Recording) -> Vec<Option<String>> {
    let (comparison, warnings) = compare(recording);
    let style = Style::plain();
    let view = View { recording, comparison: &comparison, warnings: &warnings, style: &style };
    FORMATS.iter().map(|format| render(format.name, &view).ok()).collect()
}

#[test]
fn figures_stay_and_so_does_what_is_not_private() {
    let mut figures = 0;
    for made in recordings() {
        let shared = shared(&made);
        let place = FORMATS.iter().position(|format| format.name == "json").unwrap();
        let [own, theirs] = [&made, &shared].map(|recording| {
            let text = rendered(recording).swap_remove(place).unwrap();
            serde_json::from_str::<Value>(&text).unwrap()["opcost"]["metrics"].clone()
        });
        figures += own.as_array().unwrap().len();
        assert_eq!(own, theirs);
        let without_values = |recording: &Recording| {
            let mut plan = recording.plan.clone();
            plan.variants.iter_mut().for_each(|variant| variant.env.clear());
            plan
        };
        assert_eq!(without_values(&made), without_values(&shared));
    }
    assert!(figures > 1);
}

#[test]
fn pages_formats_and_exported_recordings_are_shared_without_names() {
    let lab = Lab::new();
    let folder = lab.path("alice-planted/secret-planted");
    std::fs::create_dir_all(&folder).unwrap();
    let run = |args: &[&str]| {
        let mut command = lab.command(args);
        let ended = command.current_dir(&folder).output().unwrap();
        let said =
            [&ended.stdout, &ended.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert!(ended.status.success(), "{args:?}: {said:?}");
        said
    };
    std::fs::copy("/bin/cat", folder.join("tool")).unwrap();
    std::fs::write(folder.join("data.txt"), "1\n").unwrap();
    run(&[
        "compare",
        "-q",
        "-n",
        "2",
        "--warmup=0",
        "--env",
        "KEY=hunter2planted",
        "--env",
        "N=7",
        "--input",
        "data.txt",
        "--label",
        "by hunter2planted",
        "./tool -u",
        "./tool -n",
    ]);
    let own = run(&["report", "--html", "-"])[0].clone();
    assert!(
        own.contains("secret-planted") && own.contains("hunter2planted"),
        "names are there to be found"
    );
    let said = run(&["report", "--share", "--html", "share.html"])[1].clone();
    for part in ["values of --env: KEY = value-", "secret-planted = folder-"] {
        assert!(said.contains("replaced for others: ") && said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("hunter2planted"), "{said}");
    let page = std::fs::read_to_string(folder.join("share.html")).unwrap();
    let mut all = vec![page];
    all.extend(
        FORMATS.iter().map(|format| run(&["show", "--share", "--format", format.name])[0].clone()),
    );
    run(&["show", "--share", "-q", "--export-json", "share.json", "--export-markdown", "share.md"]);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    all.extend([read("share.json"), read("share.md")]);
    for text in &all {
        assert!(!text.contains("planted"), "{text}");
    }
    run(&["export", "--share", "-q", "-o", "share.opcost"]);
    let store = lab.path("theirs.sqlite");
    let theirs = store.to_str().unwrap();
    run(&["--store", theirs, "import", "share.opcost"]);
    let shown: Value =
        serde_json::from_str(&run(&["--store", theirs, "show", "--json"])[0]).unwrap();
    let mine: Value = serde_json::from_str(&run(&["show", "--json"])[0]).unwrap();
    assert_eq!(shown["opcost"]["metrics"][0]["values"], mine["opcost"]["metrics"][0]["values"]);
    assert!(!shown.to_string().contains("planted") && shown.to_string().contains("value-1"));
    for path in
        files(&lab.dir()).iter().filter(|path| path.to_string_lossy().contains("theirs.sqlite"))
    {
        let bytes = std::fs::read(path).unwrap();
        assert!(!bytes.windows(7).any(|part| part == b"planted"), "{}", path.display());
    }
}
