//! Different work in the variants: status 3 and no verdict, unless the rule is waived.

use crate::lab::{Lab, TINY};
use serde_json::Value;

const DIFFERENT: [&str; 8] = [
    "compare",
    "-w",
    "mmap:ops=2000,touch=0.1",
    "-w",
    "mmap:ops=2000,touch=0.9",
    "-n",
    "4",
    "--warmup=0",
];

fn entry<'a>(document: &'a Value, rule: &str) -> &'a Value {
    let ledger = document["opcost"]["ledger"].as_array().unwrap();
    ledger.iter().find(|entry| entry["rule"] == rule).unwrap()
}

fn verdicts(document: &Value) -> Vec<&str> {
    let metrics = document["opcost"]["metrics"].as_array().unwrap();
    let counted = metrics.iter().filter(|metric| metric["verdict"] != "unavailable");
    counted.map(|metric| metric["verdict"].as_str().unwrap()).collect()
}

#[test]
fn different_work_gets_no_verdict() {
    let lab = Lab::new();
    let text = lab.run(&DIFFERENT).expect(3).stdout;
    for part in ["not comparable", "the work was not the same", "op-stream-hash", "page-faults"] {
        assert!(text.contains(part), "no '{part}' in:\n{text}");
    }
    // On a busy machine a rule advises real-time priority.
    let said = text.replace("real-time", "");
    assert!(!said.contains("real") && !said.contains("no change ≥"), "{text}");
    // All runs were made and are kept.
    assert_eq!(lab.recordings()[0]["state"], "finished");
    let document: Value =
        serde_json::from_str(&lab.run(&["show", "--json"]).expect(3).stdout).unwrap();
    let refused = verdicts(&document);
    assert!(refused.len() > 8);
    assert!(refused.iter().all(|verdict| *verdict == "not_comparable"), "{refused:?}");
    for metric in document["opcost"]["metrics"].as_array().unwrap() {
        assert_ne!(metric["reason"], "", "{metric}");
    }
    let rule = entry(&document, "invariants");
    assert_eq!((&rule["severity"], &rule["waived"]), (&"refuse".into(), &false.into()));
    // The status says so in every format; --fail-on does not change the status.
    for format in ["text", "json", "markdown", "csv", "benchfmt"] {
        lab.run(&["show", "--format", format]).expect(3);
    }
    lab.run(&["show", "--fail-on", "regression"]).expect(3);
}

#[test]
fn the_rule_can_be_waived_and_that_is_said() {
    let lab = Lab::new();
    lab.run(&DIFFERENT).expect(3);
    let text = lab.output(&["show", "--allow", "invariants"]);
    assert!(text.contains("waived"), "{text}");
    let document = lab.json(&["show", "--allow", "invariants", "--json"]);
    assert!(verdicts(&document).iter().all(|verdict| *verdict != "not_comparable"));
    let rule = entry(&document, "invariants");
    assert_eq!((&rule["severity"], &rule["waived"]), (&"refuse".into(), &true.into()));
    // Waiving the rule once does not change the recording, and waiving another rule does not help.
    lab.run(&["show"]).expect(3);
    lab.run(&["show", "--allow", "steal"]).expect(3);
    // A rule waived before the runs stays waived.
    lab.run(&[&DIFFERENT[..], &["--allow", "invariants"]].concat()).expect(0);
    lab.run(&["show"]).expect(0);
}

#[test]
fn different_numbers_of_operations_are_different_work() {
    let lab = Lab::new();
    let args = ["compare", "-w", "syscall:ops=2000", "-w", "syscall:ops=2001", "-n", "2"];
    let ended = lab.run(&args).expect(3);
    assert!(ended.stdout.contains("2000") && ended.stdout.contains("2001"), "{}", ended.stdout);
}

#[test]
fn the_same_work_is_found_to_be_the_same() {
    let lab = Lab::new();
    lab.run(&TINY).expect(0);
    let document = lab.json(&["show", "--json"]);
    assert_eq!(entry(&document, "invariants")["severity"], "fine");
    let invariants = document["opcost"]["invariants"].as_array().unwrap();
    assert!(invariants.iter().any(|row| row["name"] == "op-stream-hash"));
    assert!(invariants.iter().all(|row| row["holds"] == true));
    // The seed determines the work: another seed gives another stream, the same for both variants.
    let hash = |seed: &str| {
        let args = ["compare", "-w", "mmap:ops=500", "-w", "mmap:ops=500,seccomp=on", "-n", "2"];
        let document = lab.json(&[&args[..], &["--seed", seed, "--json"]].concat());
        let rows = document["opcost"]["invariants"].as_array().unwrap().clone();
        rows.iter().find(|row| row["name"] == "op-stream-hash").unwrap()["values"].clone()
    };
    assert_eq!(hash("1"), hash("1"));
    assert_ne!(hash("1"), hash("2"));
}

#[test]
fn a_program_that_changes_meanwhile_is_seen() {
    let lab = Lab::new();
    lab.script("work", "[ ! -e fail ] || exit 1\necho run >> made");
    let args = ["compare", "./work a", "./work b", "-n", "2", "--warmup", "0"];
    // Two runs, then a failure.
    let stop = "[ ! -e made ] || [ $(wc -l < made) -lt 2 ] || touch fail";
    lab.run(&[&args[..], &["--prepare", stop]].concat()).expect(4);
    lab.script("work", "exit 0 # another program");
    lab.run(&["resume"]).expect(3);
    let document: Value =
        serde_json::from_str(&lab.run(&["show", "--json"]).expect(3).stdout).unwrap();
    let rule = entry(&document, "machine");
    assert_eq!(rule["severity"], "refuse");
    assert!(rule["detail"].as_str().unwrap().contains("/work was changed"), "{rule}");
    lab.run(&["show", "--allow", "machine"]).expect(0);
}
