//! opcost's own JSON, exported from every machine and imported again, shows the same figures.

use crate::busy::Busy;
use crate::lab::{Lab, TINY};
use crate::made;
use crate::made::emulated::count;
use opcost_analysis::comparison::compare;
use opcost_model::recording::Recording;
use opcost_record::Reading;
use opcost_report::render::{self, Style, View};
use serde_json::Value;

/// The parts that must be equal: each metric of each variant with all its figures.
fn figures(document: &Value) -> Vec<String> {
    let row = |figure: &Value| {
        let fields =
            ["metric", "domain", "per_op", "variant", "n", "median", "mean", "sd", "min", "max"];
        let fields = fields.map(|field| match figure[field].as_f64() {
            // Sums of the same numbers in another order differ in the last digits.
            Some(number) => format!("{number:.9e}"),
            None => figure[field].to_string(),
        });
        // An import reads ticks as a count.
        let unit = figure["unit"].as_str().unwrap().replace("ticks", "1");
        format!("{} {unit} {}", fields.join(" "), figure["better"])
    };
    let mut rows: Vec<String> =
        document["opcost"]["figures"].as_array().unwrap().iter().map(row).collect();
    rows.sort();
    rows
}

/// Imports an export, and asserts that both documents show the same.
#[track_caller]
fn round_trip(lab: &Lab, exported: &str) {
    let first: Value = serde_json::from_str(exported).unwrap();
    lab.write("exported.json", exported);
    let again = lab.json(&["import", "--json", "exported.json"]);
    assert_eq!(figures(&first), figures(&again));
    assert!(figures(&first).len() > 1, "{first}");
    let names = |document: &Value| {
        let variants = document["opcost"]["variants"].as_array().unwrap().clone();
        variants.iter().map(|variant| variant["name"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&first), names(&again));
    let primary = |document: &Value| {
        let figures = document["opcost"]["figures"].as_array().unwrap().clone();
        figures.iter().find(|one| one["primary"] == true).map(|one| one["metric"].to_string())
    };
    assert_eq!(primary(&first), primary(&again));
    let source = &again["opcost"]["imported"]["sources"][0];
    assert_eq!((&source["format"], &source["tool"]), (&"opcost".into(), &"opcost".into()));
    assert_eq!(again["opcost"]["experiment"], first["opcost"]["experiment"]);
    // The import can be exported and imported again.
    let shown = lab.output(&["show", "last", "--format", "json"]);
    lab.write("shown.json", shown);
    let third = lab.json(&["import", "--json", "shown.json"]);
    assert_eq!(figures(&third), figures(&again));
}

fn exported(recording: &Recording) -> String {
    let (comparison, warnings) = compare(recording);
    let style = Style::plain();
    let view = View { recording, comparison: &comparison, warnings: &warnings, style: &style };
    render::render("json", &view).unwrap()
}

#[test]
fn workloads_of_the_host_come_back() {
    let lab = Lab::new();
    lab.run(&[&TINY[..], &["--export-json", "made.json"]].concat()).expect(0);
    round_trip(&lab, &lab.read("made.json"));
}

#[test]
fn commands_come_back() {
    let lab = Lab::new();
    let args =
        ["compare", "true", "sh -c :", "-n", "4", "--warmup=0", "--export-json", "made.json"];
    lab.run(&args).expect(0);
    round_trip(&lab, &lab.read("made.json"));
}

#[test]
fn a_single_command_comes_back_and_two_are_compared() {
    let lab = Lab::new();
    for name in ["one.json", "two.json"] {
        lab.run(&["measure", "true", "-n", "6", "--export-json", name]).expect(0);
    }
    round_trip(&lab, &lab.read("one.json"));
    let json = lab.json(&["import", "--json", "old=one.json", "new=two.json"]);
    assert_eq!(json["opcost"]["variants"][1]["name"], "new");
    let metrics = json["opcost"]["metrics"].as_array().unwrap();
    let wall = metrics.iter().find(|metric| metric["metric"] == "wall").unwrap();
    assert!(wall["p_adjusted"].is_number(), "{wall}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn paths_within_one_process_come_back() {
    let lab = Lab::new();
    let paths = ["copy:ops=2000,path=rep-movsq", "copy:ops=2000,path=unrolled-8"];
    let args = ["compare", "--in-process", "-w", paths[0], "-w", paths[1], "-n", "4", "--warmup=0"];
    lab.run(&[&args[..], &["--export-json", "made.json"]].concat()).expect(0);
    round_trip(&lab, &lab.read("made.json"));
}

#[test]
fn periods_of_an_attached_program_come_back() {
    let (lab, Some(busy)) = (Lab::new(), Busy::run(1, "")) else { return };
    let pid = busy.pid().to_string();
    let args = ["attach", &pid, "--key", "slow", "--to", "on", "--pairs", "4", "--period", "2ms"];
    lab.run(&[&args[..], &["--export-json", "made.json"]].concat()).expect(0);
    round_trip(&lab, &lab.read("made.json"));
}

#[test]
fn guests_of_the_emulated_machine_come_back() {
    let plan = made::emulated::plan(&["off", "on"], 8);
    let recording = made::emulated::recording(plan, 80, |slot| {
        let variant = u64::from(slot.variant);
        let mut tree = made::emulated::Tree::default();
        let main = tree.add(None, "main", "/bin/opcost-guest", 1, 7000 + 40 * variant);
        tree.kernel(main, "do_syscall_64", 1000, 40_000);
        (tree.grown(), vec![count("branches", 9000 + variant), count("page-faults", 12)])
    });
    let lab = Lab::new();
    round_trip(&lab, &exported(&recording));
    let json = lab.json(&["import", "--json", "exported.json"]);
    // Counts that are the same in every run are exact after the import, too.
    let metrics = json["opcost"]["metrics"].as_array().unwrap();
    let branches = metrics.iter().find(|metric| metric["metric"] == "branches").unwrap();
    assert_eq!((&branches["exact"], &branches["verdict"]), (&true.into(), &"changed".into()));
    let omitted = json["opcost"]["imported"]["omitted"].to_string();
    assert!(omitted.contains("costs by function"), "{omitted}");
}

#[test]
fn exports_without_runs_have_their_medians_and_no_verdict() {
    let recording = made::recording(made::plan(&["off", "on"], 8), |slot| {
        let wall = 5000 + 7 * u64::from(slot.slot) + 900 * u64::from(slot.variant);
        vec![Reading::plain(made::key("wall", "clock"), wall)]
    });
    let mut document: Value = serde_json::from_str(&exported(&recording)).unwrap();
    for figure in document["opcost"]["figures"].as_array_mut().unwrap() {
        figure["values"] = Value::Null;
    }
    let lab = Lab::new();
    lab.write("made.json", document.to_string());
    let json = lab.json(&["import", "--json", "made.json"]);
    let metric = &json["opcost"]["metrics"][0];
    assert_eq!(metric["value"], document["opcost"]["metrics"][0]["value"]);
    assert_eq!(
        (&metric["verdict"], &metric["reason"]),
        (&"inconclusive".into(), &"no spread given".into())
    );
    let omitted = json["opcost"]["imported"]["omitted"].to_string();
    assert!(omitted.contains("medians only"), "{omitted}");
}
