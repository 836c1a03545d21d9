//! One operation step by step: against a tree of calls written down by hand, gdb and objdump.

use crate::lab::{Lab, compile};
use crate::needs;
use serde_json::Value;
use std::process::Command;

/// The paths part in `work`, at the comparison with 7: `fast` calls `leaf` once, `slow` three times.
const PROGRAM: &str = r#"
static volatile int sink;
__attribute__((noinline)) int leaf(int n) { sink += n; return sink; }
__attribute__((noinline)) int check(int n) { return leaf(n) + 1; }
__attribute__((noinline)) int fast(int n) { return leaf(n) ^ 3; }
__attribute__((noinline)) int slow(int n) { return leaf(n) + leaf(n + 1) + leaf(n + 2); }
__attribute__((noinline)) int work(int mode) {
    int r = check(mode);
    if (mode == 7)
        r += slow(r);
    else
        r += fast(r);
    return r + leaf(r);
}
int main(int count, char **words) { return work(words[1][0] - '0') == 12345; }
"#;

const COMPARE: [&str; 10] =
    ["compare", "-q", "--machine", "emulated", "--seed", "1", "--pairs", "1", "--warmup", "0"];

fn lines(steps: &Value) -> Vec<(u64, String, String, [Option<u64>; 2])> {
    let of = |line: &Value| {
        let word = |name: &str| line[name].as_str().unwrap().to_string();
        let totals = [line["total_baseline"].as_u64(), line["total"].as_u64()];
        (line["depth"].as_u64().unwrap(), word("kind"), word("function"), totals)
    };
    steps["lines"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn a_known_tree_parts_at_the_known_branch() {
    if !needs::programs(&["gcc", "objdump"]) || !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    compile(&lab, "tree", PROGRAM, &["-g", "-O1", "-fno-inline"]);
    let run = ["--kernel", "none", "--steps", "./tree 1", "./tree 7"];
    lab.run(&[&COMPARE[..], &run].concat()).expect(0);
    let json = lab.json(&["show", "last", "--json"]);
    let steps = &json["opcost"]["steps"][0];
    // The steps add up to the instructions, to the digit.
    let metrics = json["opcost"]["metrics"].as_array().unwrap();
    let counted = metrics.iter().find(|one| one["metric"] == "instructions").unwrap();
    for side in ["baseline", "variant"] {
        let value = if side == "variant" { "value" } else { "value_baseline" };
        assert_eq!(steps[side]["instructions"].as_f64(), counted[value].as_f64(), "{side}");
        assert_eq!(steps[side]["beyond"], 0);
    }
    let all = lines(steps);
    let at = all.iter().position(|line| line.2 == "work").unwrap();
    let (depth, ..) = all[at];
    let inside: Vec<(u64, &str, &str)> = all[at + 1..]
        .iter()
        .take_while(|line| line.0 > depth)
        .map(|line| (line.0 - depth, line.1.as_str(), line.2.as_str()))
        .collect();
    assert_eq!(
        inside,
        [
            (1, "same", "check"),
            (1, "baseline", "fast"),
            (2, "baseline", "leaf"),
            (1, "variant", "slow"),
            (2, "variant", "leaf"),
            (2, "again", "leaf"),
            (1, "same", "leaf"),
        ]
    );
    let [same, again] = [all[at + 1].3, all[at + 6].3];
    assert_eq!(same[0], same[1]);
    assert_eq!(again[1].unwrap(), 2 * all[at + 5].3[1].unwrap(), "two more of them");
    let parting = &steps["parting"];
    assert_eq!((&parting["after"], &parting["why"]), (&"check".into(), &"branch".into()));
    assert_eq!(parting["path"].as_array().unwrap().last().unwrap(), "work");
    let [one, other] = ["baseline", "variant"].map(|side| &parting[side]);
    assert_eq!((&one["next"], &other["next"]), (&"fast".into(), &"slow".into()));
    let branches = [&one["branch"], &other["branch"]];
    assert_ne!(branches[0]["taken"], branches[1]["taken"]);
    assert_eq!(branches.map(|one| &one["line"]), [&Value::from("tree.c:9"); 2]);
    assert_eq!(branches[0]["values"], serde_json::json!(["0x1", "0x7"]));
    assert_eq!(branches[1]["values"], serde_json::json!(["0x7", "0x7"]));
    // objdump has that branch at that address, behind the comparison with 7.
    let dump = Command::new("objdump")
        .args(["-d", "--no-show-raw-insn", "--disassemble=work"])
        .arg(lab.path("tree"))
        .output()
        .unwrap();
    let dump = String::from_utf8(dump.stdout).unwrap();
    let address = branches[0]["address"].as_str().unwrap().trim_start_matches("0x").to_string();
    let code: Vec<&str> = dump.lines().collect();
    let place = code.iter().position(|line| line.trim_start().starts_with(&format!("{address}:")));
    let place = place.unwrap_or_else(|| panic!("{address}: {dump}"));
    assert!(code[place].contains("\tj"), "{}", code[place]);
    assert!(
        code[..place]
            .iter()
            .rev()
            .take(3)
            .any(|line| line.contains("cmp") && line.contains("$0x7"))
    );
    let text = lab.output(&["show", "last"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("◀ parts") && text.contains("comparing 0x7 with 0x7"), "{text}");
    let page = lab.path("page.html");
    lab.run(&["show", "last", "--export-html", page.to_str().unwrap()]).expect(0);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("every step") && page.contains("<details>"));
    let text = lab.output(&["show", "last", "--steps"]);
    assert!(text.contains("slow") && !text.contains("recording"), "{text}");
    exported(&lab, &["show", "last", "--variant", "2"], counted["value"].as_f64().unwrap() as u64);
}

/// Checks that the trace of an operation lasts as long as it has instructions, and that calls lie inside their callers.
fn exported(lab: &Lab, show: &[&str], instructions: u64) {
    let trace = lab.json(&[show, &["--export-chrome", "-"]].concat());
    let events = trace["traceEvents"].as_array().unwrap();
    let calls: Vec<(u64, u64, u64)> = events
        .iter()
        .filter(|event| event["ph"] == "X")
        .map(|event| {
            let number = |name: &str| event[name].as_u64().unwrap();
            (number("ts"), number("dur"), event["args"]["own"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(calls.iter().map(|(_, _, own)| own).sum::<u64>(), instructions);
    let (start, length, _) = *calls.last().unwrap();
    assert_eq!((start, length), (0, instructions));
    assert!(calls.iter().all(|(start, length, _)| start + length <= instructions));
}

#[test]
fn the_calls_of_a_function_are_operations_of_a_command() {
    if !needs::programs(&["gcc"]) || !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    compile(&lab, "tree", PROGRAM, &["-g", "-O1", "-fno-inline"]);
    let with = |steps: &str| {
        lab.run(&[&COMPARE[..], &["--kernel", "none", steps, "./tree 1", "./tree 7"]].concat())
    };
    with("--steps=work").expect(0);
    let steps = &lab.json(&["show", "last", "--json"])["opcost"]["steps"][0];
    let all = lines(steps);
    assert_eq!((all[0].0, all[0].2.as_str()), (0, "work"));
    assert_eq!(steps["parting"]["path"], serde_json::json!(["work"]));
    // `leaf` is called by `check`, by `fast` or three times by `slow`, and by `work`.
    with("--steps=leaf:3").expect(0);
    let steps = &lab.json(&["show", "last", "--json"])["opcost"]["steps"][0];
    for (side, calls) in [("baseline", 3), ("variant", 5)] {
        let of = |name: &str| steps[side][name].as_u64().unwrap();
        assert_eq!((of("operation"), of("told_apart"), of("alike")), (3, calls, calls));
    }
    let said = with("--steps=leaf:4").expect(4).stderr;
    assert!(said.contains("--steps=leaf:4: the work calls it 3 times; give 1 to 3"), "{said}");
    let said = with("--steps=leave").expect(4).stderr;
    assert!(said.contains("the work never calls a function of that name"), "{said}");
}

#[test]
fn a_system_call_is_one_operation_of_many() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let run = [
        "--kernel",
        &kernel,
        "-w",
        "syscall:ops=200,call=getppid",
        "-w",
        "syscall:ops=200,call=read",
    ];
    lab.run(&[&COMPARE[..], &run, &["--steps=150", "--allow", "invariants"]].concat()).expect(0);
    let json = lab.json(&["show", "last", "--json"]);
    let steps = &json["opcost"]["steps"][0];
    for side in ["baseline", "variant"] {
        let of = |name: &str| steps[side][name].as_u64().unwrap();
        assert_eq!((of("operation"), of("told_apart"), of("operations")), (150, 200, 200));
        assert!(of("alike") > 150, "{}", steps[side]);
        // Nearly all operations are alike, so one has the instructions of the mean but for the loop's ends.
        assert_eq!(of("instructions"), of("median"));
    }
    let all = lines(steps);
    assert!(all.iter().any(|(_, kind, name, _)| kind == "variant" && name.ends_with("sys_read")));
    assert!(all.iter().any(|(_, kind, name, _)| kind == "both" && name == "do_syscall_64"));
    let instructions = steps["variant"]["instructions"].as_u64().unwrap();
    exported(&lab, &["show", "last", "--variant", "2"], instructions);
    let beyond = lab.run(&[&COMPARE[..], &run, &["--steps=201"]].concat());
    let beyond = beyond.expect(4).stderr;
    assert!(beyond.contains("--steps=201") && beyond.contains("give 1 to 200"), "{beyond}");
}

#[test]
fn steps_that_cannot_be_had_are_refused_with_the_reason() {
    if !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    let refused = |args: &[&str], status: i32, words: &str| {
        let said = lab.run(args).expect(status).stderr;
        assert!(said.contains(words), "{args:?}: {said}");
    };
    refused(&["compare", "--steps", "true", "false"], 2, "--machine emulated");
    refused(
        &["compare", "--machine", "emulated", "--steps=0", "true", "false"],
        2,
        "from 1, median",
    );
    let both = ["compare", "--machine", "emulated", "--steps", "--no-functions", "true", "false"];
    refused(&both, 2, "--no-functions");
    let record = ["measure", "-q", "--machine", "emulated", "--kernel", "none", "-n", "1", "true"];
    lab.run(&record).expect(0);
    refused(&["show", "last", "--steps"], 2, "record it with --machine emulated --steps");
    refused(&["show", "last", "--export-chrome", "-"], 2, "has no steps");
    lab.run(&[&record[..], &["--steps"]].concat()).expect(0);
    assert!(lab.output(&["show", "last"]).contains("step by step: the whole run"));
}
