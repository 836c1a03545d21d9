//! `opcost measure`: one command by itself, and against another recording of the same work.

use crate::lab::Lab;
use serde_json::Value;

fn figure<'a>(document: &'a Value, metric: &str) -> &'a Value {
    let figures = document["opcost"]["figures"].as_array().unwrap();
    figures.iter().find(|figure| figure["metric"] == metric).unwrap_or_else(|| panic!("{metric}"))
}

#[test]
fn a_command_is_measured_with_every_metric_and_its_spread() {
    let lab = Lab::new();
    let document = lab.json(&["measure", "-n", "8", "--warmup=0", "true", "--json"]);
    assert_eq!(document["results"].as_array().unwrap().len(), 1);
    assert_eq!(document["results"][0]["times"].as_array().unwrap().len(), 8);
    assert_eq!(document["opcost"]["metrics"], Value::Array(vec![]), "nothing is compared");
    for metric in ["wall", "task-clock", "user-time", "page-faults", "minor-faults"] {
        let figure = figure(&document, metric);
        assert_eq!((&figure["n"], &figure["variant"]), (&8.into(), &"true".into()));
        let of = |name: &str| figure[name].as_f64().unwrap_or_else(|| panic!("{name}: {figure}"));
        assert!(of("min") <= of("ci_low") && of("ci_low") <= of("median"), "{figure}");
        assert!(of("median") <= of("ci_high") && of("ci_high") <= of("max"), "{figure}");
        assert_eq!(of("ci_level"), 0.95);
    }
    let conclusion = document["opcost"]["conclusions"][0].as_str().unwrap();
    assert!(
        conclusion.starts_with("true: wall ") && conclusion.ends_with("8 runs"),
        "{conclusion}"
    );
    // One run is too few for an interval, and the conclusion says so.
    let one = lab.json(&["measure", "-n", "1", "true", "--json"]);
    assert_eq!(figure(&one, "wall")["ci_low"], Value::Null);
    assert!(one["opcost"]["conclusions"][0].as_str().unwrap().contains("too few runs"));
}

#[test]
fn what_was_measured_is_shown_in_every_format_and_kept_in_history() {
    let lab = Lab::new();
    let text = lab.output(&["measure", "-n", "6", "--name", "nightly", "-w", "syscall:ops=2000"]);
    assert!(text.contains("· 6 runs ·") && text.contains("median"), "{text}");
    assert!(text.contains("our own loop/op") && text.contains("our"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.contains("pairs"), "{text}");
    assert_eq!(lab.output(&["show"]), text);
    let markdown = lab.output(&["show", "--format", "markdown"]);
    assert!(
        markdown.contains("| metric | median | ± | interval | lowest … highest |"),
        "{markdown}"
    );
    assert!(lab.output(&["show", "--format", "percent"]).contains("nothing to compare it with"));
    assert_eq!(lab.output(&["show", "--format", "csv"]).lines().count(), 1 + 7);
    let lines = lab.output(&["show", "--format", "benchfmt"]);
    assert_eq!(lines.lines().filter(|line| line.starts_with("BenchmarkNightly/")).count(), 6);
    lab.output(&["report", "last", "--html", "page.html"]);
    let page = lab.read("page.html");
    assert!(page.contains("Metrics of syscall") && page.contains("lowest … highest"), "{page}");
    let history = lab.json(&["history", "nightly", "--json"]);
    assert!(history["series"][0]["points"][0]["value"].as_f64().unwrap() > 0.0);
    // The experiment file that opcost writes measures again.
    lab.output(&["measure", "-n", "3", "true", "--save-experiment", "again.toml"]);
    assert!(lab.output(&["run", "again.toml"]).contains("· 3 runs ·"));
}

#[test]
fn without_a_number_at_least_ten_runs_are_made_and_more_until_the_time_is_spent() {
    let lab = Lab::new();
    let plan = lab.json(&["measure", "true", "--dry-run", "--json"]);
    assert_eq!(
        (&plan["stop"]["budget_ms"], &plan["stop"]["blocks_min"]),
        (&3000.into(), &10.into())
    );
    let text = lab.output(&["measure", "true", "--dry-run"]);
    assert!(text.contains("3 s are spent, and 10 runs are made"), "{text}");
    // A budget given by the user has no minimum number of runs.
    let plan = lab.json(&["measure", "true", "--budget", "5s", "--dry-run", "--json"]);
    assert_eq!(
        (&plan["stop"]["budget_ms"], &plan["stop"]["blocks_min"]),
        (&5000.into(), &0.into())
    );
    let plan = lab.json(&["measure", "true", "-n", "7", "--dry-run", "--json"]);
    assert_eq!((&plan["pairs"], &plan["stop"]["budget_ms"]), (&7.into(), &Value::Null));
    assert_eq!(plan["blocks"].as_array().unwrap().len(), 7);
}

#[test]
fn what_is_about_two_variants_is_refused() {
    let lab = Lab::new();
    let refused = |args: &[&str], parts: &[&str]| {
        lab.run(&[&["measure"], args].concat()).expect(2).says(parts);
    };
    refused(&[], &["there is nothing to run", "name a command"]);
    refused(&["true", "false"], &["these are 2: true, false", "opcost compare"]);
    refused(&["true", "--until-width", "1%"], &["--until-width", "-n", "--budget"]);
    refused(&["true", "--fail-on", "regression"], &["nothing to be worse than", "opcost history"]);
    refused(&["-w", "copy", "--in-process"], &["--in-process", "no code path to exchange"]);
    refused(&["true", "-n", "0"], &["give 1 to 1,000,000 runs"]);
    lab.run(&["compare", "true"]).expect(2).says(&["two or more variants", "opcost measure"]);
}

#[test]
fn two_recordings_of_the_same_work_are_compared_with_the_limits_said() {
    let lab = Lab::new();
    let id = |document: Value| document["opcost"]["recording"].as_str().unwrap().to_string();
    let workload = |filter: &str| {
        let work = format!("syscall:ops=2000,seccomp={filter}");
        id(lab.json(&["measure", "-n", "9", "-w", &work, "--json"]))
    };
    let (one, two, other) = (workload("off"), workload("off"), workload("on"));
    let document = lab.json(&["diff", &one, &two, "--json"]);
    let metrics = document["metrics"].as_array().unwrap();
    let wall = metrics.iter().find(|metric| metric["metric"] == "wall").unwrap();
    assert_eq!((&wall["baseline"], &wall["variant"]), (&one.as_str().into(), &two.as_str().into()));
    assert!(wall["value_baseline"].as_f64().unwrap() > 0.0, "{wall}");
    let faults = metrics.iter().find(|metric| metric["metric"] == "page-faults").unwrap();
    assert_eq!(faults["verdict"], "unchanged", "{faults}");
    let text = lab.output(&["diff", &one, &two]);
    assert!(text.contains("made at different times") && text.contains("opcost compare"), "{text}");
    // On a busy machine a rule advises real-time priority.
    let said = text.replace("real-time", "");
    assert!(!said.contains(" real"), "a drift between the two is not excluded: {text}");
    lab.run(&["diff", &one, &other]).expect(3).says(&["seccomp is off and on", "--allow work"]);
    lab.output(&["diff", &one, &other, "--allow", "work", "--allow", "invariants"]);
    let mail = lab.output(&["diff", &one, &two, "--format", "mail"]);
    assert!(mail.starts_with("Subject: ") && mail.contains("wall/op"), "{mail}");
    // The callers of a function need profiles.
    lab.run(&["diff", &one, &two, "--function", "main"]).expect(2).says(&["profile"]);
}
