//! docs/schema.json describes the JSON of comparisons: documents that commands write are checked against it.

use crate::busy::Busy;
use crate::lab::{Ended, Lab, TINY};
use crate::needs;
use jsonschema::Validator;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;

const SCHEMA: &str = include_str!("../../../../docs/schema.json");

pub(crate) fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

pub(crate) fn validator() -> Validator {
    jsonschema::validator_for(&schema()).unwrap()
}

/// Asserts that a document is valid by the schema.
#[track_caller]
pub(crate) fn check(document: &Value) {
    let faults: Vec<String> = validator()
        .iter_errors(document)
        .map(|error| format!("{}: {error:.300}", error.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The document that a command printed.
#[track_caller]
fn printed(ended: &Ended) -> Value {
    let document = serde_json::from_str(&ended.stdout);
    document.unwrap_or_else(|error| panic!("no JSON ({error}): {ended:?}"))
}

fn recorded(lab: &Lab) -> Value {
    lab.run(&TINY).expect(0);
    lab.json(&["show", "last", "--json"])
}

/// A JSON text without an object that has a name twice; readers of JSON take either.
struct Distinct;

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Distinct, D::Error> {
        from.deserialize_any(Distinct)
    }
}

impl<'de> Visitor<'de> for Distinct {
    type Value = Distinct;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part of a schema")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Distinct, A::Error> {
        let mut names = BTreeSet::new();
        while let Some((name, Distinct)) = fields.next_entry::<String, Distinct>()? {
            if !names.insert(name.clone()) {
                return Err(Error::custom(format!("`{name}` is there twice")));
            }
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Distinct, A::Error> {
        while items.next_element::<Distinct>()?.is_some() {}
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Distinct, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Distinct, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Distinct, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Distinct, E> {
        Ok(self)
    }
}

#[test]
fn the_schema_is_one() {
    let schema = schema();
    let faults = jsonschema::meta::validate(&schema);
    assert!(faults.is_ok(), "{faults:?}");
    let twice = |text: &str| serde_json::from_str::<Distinct>(text).err().map(|e| e.to_string());
    assert_eq!(twice(SCHEMA), None);
    assert!(twice(r#"{"a": [{"b": 1, "b": 2}]}"#).unwrap().starts_with("`b` is there twice"));
}

#[test]
fn commands_on_the_host() {
    let lab = Lab::new();
    let program = lab.script("a \"b\" <c>", "exit 3");
    let program = format!("'{}'", program.display());
    for args in [
        &["compare", "true", "sh -c :", "-n", "8", "--label", "x", "--cpu", "0"][..],
        &[
            "compare",
            "true",
            "false",
            "sh -c 'exit 3'",
            "-i",
            "-n",
            "2",
            "--pairs-of-variants",
            "all",
        ],
        &[
            "compare",
            "true",
            &program,
            "-i",
            "-n",
            "2",
            "--prepare",
            ":",
            "--setup",
            "true",
            "--timeout",
            "9s",
        ],
        &["compare", "true", "sh -c :", "--until-width", "50%", "--budget", "1s", "--match", "a=b"],
        &["compare", "-L", "n", "1,2", "sh -c 'exit {n}'", "-i", "-n", "2"],
        &["measure", "true", "-n", "6", "-q"],
        &["measure", "true", "-n", "1"],
        &["compare", "cat", "cat -", "-n", "2", "--input", "/dev/null", "--output", "out"],
        &["compare", "true", "-n", "2", "--output", "null", "--output", "pipe"],
        &[
            "compare",
            "true",
            "sh -c :",
            "--min-runs",
            "2",
            "--budget",
            "1ms",
            "--sort",
            "mean-time",
        ],
    ] {
        let ended = lab.run(&[args, &["--json"]].concat());
        let document = printed(&ended);
        check(&document);
        assert_eq!(document["opcost"]["plan"]["machine"], "host");
    }
}

#[test]
fn workloads_exports_and_recordings_shown_again() {
    let lab = Lab::new();
    let document = recorded(&lab);
    check(&document);
    let exported = ["show", "last", "--export-json", "-", "--export-csv", "runs.csv"];
    assert_eq!(lab.json(&exported), document);
    assert!(lab.exists("runs.csv"));
    lab.run(&["show", "last", "-q", "--export-json", "file.json"]).expect(0);
    check(&serde_json::from_str(&lab.read("file.json")).unwrap());
    check(&printed(&lab.run(&["measure", "-w", "copy:ops=200", "-n", "6", "--json"])));
    let paths =
        ["-w", "copy:ops=200,path=rep-movsb", "-w", "copy:ops=200", "--in-process", "-n", "4"];
    check(&printed(&lab.run(&[&["compare"][..], &paths, &["--json"]].concat())));
}

#[test]
fn sampled_functions() {
    let lab = Lab::new();
    let spin = "sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'";
    let pair = ["--variant", &format!("one={spin}"), "--variant", &format!("two={spin} x")];
    let ended = lab.run(&[&["compare", "--profile", "-n", "2", "--json"][..], &pair].concat());
    if ended.status == Some(5) {
        crate::skip::skip!("no samples can be taken here");
        return;
    }
    let document = printed(&ended);
    check(&document);
    assert!(document["opcost"]["functions"].as_array().is_some_and(|rows| !rows.is_empty()));
    let alone = printed(&lab.run(&["measure", "--profile", "-n", "6", "--json", spin]));
    check(&alone);
    assert!(alone["opcost"]["function_costs"]["functions"].is_array());
}

#[test]
fn imported_figures() {
    let lab = Lab::new();
    lab.write("one.txt", "BenchmarkA-2 100 1200 ns/op\nBenchmarkA-2 100 1300 ns/op\n");
    lab.write("two.txt", "BenchmarkA-2 100 1500 ns/op\nBenchmarkA-2 100 1400 ns/op\n");
    let document = printed(&lab.run(&["import", "one.txt", "two.txt", "--json"]));
    check(&document);
    assert_eq!(document["opcost"]["plan"]["machine"], "imported");
}

#[test]
fn running_programs() {
    let (lab, Some(busy)) = (Lab::new(), Busy::run(1, "")) else { return };
    let pid = busy.pid().to_string();
    let args = ["attach", &pid, "--key", "rounds", "--to", "5", "--pairs", "4", "--period", "2ms"];
    let document = printed(&lab.run(&[&args[..], &["--format", "json"]].concat()));
    check(&document);
    assert_eq!(document["opcost"]["plan"]["machine"], "attached");
}

#[test]
fn programs_that_are_emulated() {
    if !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    let args = [
        "compare",
        "true",
        "sh -c :",
        "--machine",
        "emulated",
        "--kernel",
        "none",
        "-n",
        "4",
        "--json",
    ];
    let document = printed(&lab.run(&args).expect(0));
    check(&document);
    assert_eq!(document["opcost"]["plan"]["machine"], "emulated");
    check(&printed(
        &lab.run(&["measure", "true", "--machine", "emulated", "--kernel", "none", "--json"])
            .expect(0),
    ));
}

#[test]
fn guests_that_are_emulated() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let work = [
        "-w",
        "syscall:ops=2000",
        "-w",
        "syscall:ops=2000,seccomp=on",
        "-n",
        "2",
        "--warmup",
        "0",
        "--model",
    ];
    let machine = ["--machine", "emulated", "--kernel", &kernel, "--json"];
    let document = printed(&lab.run(&[&["compare"][..], &work, &machine].concat()).expect(0));
    check(&document);
    assert!(document["opcost"]["functions"].as_array().is_some_and(|rows| !rows.is_empty()));
}

/// Collects the pointer to every object of a document.
fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.push(at.to_string());
            for (name, value) in fields {
                objects(
                    value,
                    &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate().take(2) {
                objects(item, &format!("{at}/{place}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn a_missing_field_a_misspelt_one_and_one_of_another_type_are_found() {
    let lab = Lab::new();
    let document = recorded(&lab);
    let validator = validator();
    assert!(validator.is_valid(&document));
    let mut places = Vec::new();
    objects(&document, "", &mut places);
    assert!(places.len() > 30, "{places:?}");
    // Documents have these fields only if there is something to say.
    let optional = [
        "/opcost/plan/label",
        "/opcost/plan/invocation",
        "/opcost/per_megabyte",
        "/opcost/imported",
    ];
    let is_optional = |at: &str, name: &str| {
        let of_variant = at.starts_with("/opcost/plan/variants/") && name == "revision";
        let remedy = at.starts_with("/opcost/metrics/") && name == "remedy";
        let sizes = at.starts_with("/opcost/machine/programs/") && name == "sizes";
        // Fields of hyperfine, which imported figures may lack.
        let times = at.starts_with("/results/") && !["command", "exit_codes"].contains(&name);
        let said = optional.contains(&format!("{at}/{name}").as_str());
        of_variant || remedy || sizes || times || said
    };
    for at in &places {
        // The fields of this object are names of weaknesses.
        if at == "/opcost/machine/mitigations" {
            continue;
        }
        let names: Vec<String> =
            document.pointer(at).unwrap().as_object().unwrap().keys().cloned().collect();
        for name in names {
            let mut misspelt = document.clone();
            let fields = misspelt.pointer_mut(at).unwrap().as_object_mut().unwrap();
            let value = fields.remove(&name).unwrap();
            if !is_optional(at, &name) {
                assert!(!validator.is_valid(&misspelt), "{at}/{name} may be missing");
            }
            let fields = misspelt.pointer_mut(at).unwrap().as_object_mut().unwrap();
            fields.insert(format!("{name}s"), value);
            assert!(!validator.is_valid(&misspelt), "{at}/{name}s is taken for a field");
            let mut other = document.clone();
            *other.pointer_mut(at).unwrap().get_mut(&name).unwrap() = json!({"": [1.5]});
            assert!(!validator.is_valid(&other), "{at}/{name} may be anything");
        }
    }
}
