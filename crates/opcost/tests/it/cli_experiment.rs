//! From the user's input to the plan: experiment files, overrides, seeds, `--dry-run`.

use crate::lab::{self, Lab};
use serde_json::Value;

const TWO: &str = "\
question = 'Is it dearer?'
pairs = 2
warmup = 0

[[variant]]
name = 'plain'
workload = 'syscall'
params = { ops = 2000 }

[[variant]]
name = 'filtered'
workload = 'syscall'
params = { ops = 2000, seccomp = true }
";

/// Runs an experiment file; asserts that it is refused with status 2 and these words.
#[track_caller]
fn check(text: &str, options: &[&str], parts: &[&str]) {
    let lab = Lab::new();
    lab.write("x.toml", text);
    lab.run(&[&["run", "x.toml"], options].concat()).expect(2).says(parts);
    assert!(!lab.store().exists());
}

#[test]
fn a_file_that_cannot_be_read() {
    let lab = Lab::new();
    lab.run(&["run", "none.toml"]).expect(2).says(&["'none.toml'", "No such file"]);
    lab.run(&["run", "."]).expect(2).says(&["'.'", "directory"]);
    lab.write("x.toml", b"pairs = 2\xff\n");
    lab.run(&["run", "x.toml"]).expect(2).says(&["'x.toml'", "UTF-8"]);
    lab.run(&["run"]).expect(2).says(&["FILE"]);
}

#[test]
fn a_scan_makes_a_variant_of_each_value() {
    let lab = Lab::new();
    lab.write("a1", "");
    lab.write("a2", "");
    let scan = ["compare", "-n", "2", "-P", "n", "1", "2", "-L", "option", "-e,-s", "-q"];
    let hooks = ["--prepare", "test -e a{n}", "--save-experiment", "scan.toml"];
    lab.run(&[&scan[..], &hooks, &["test {option} a{n}", "-i"]].concat()).expect(0);
    assert!(lab.read("scan.toml").contains("[[scan]]"), "{}", lab.read("scan.toml"));
    let made = lab.json(&["run", "scan.toml", "--json"]);
    let results = made["results"].as_array().unwrap();
    let told = |result: &Value| {
        let parameters = &result["parameters"];
        let text = |value: &Value| value.as_str().unwrap().to_string();
        [&result["command"], &parameters["n"], &parameters["option"]].map(text)
    };
    let expected = [("1", "-e"), ("1", "-s"), ("2", "-e"), ("2", "-s")]
        .map(|(n, option)| [format!("test {option} a{n}"), n.to_string(), option.to_string()]);
    assert_eq!(results.iter().map(told).collect::<Vec<_>>(), expected);
    // The experiment that a report prints for repetition has the values, too.
    let again = &made["opcost"]["plan"]["variants"][3];
    assert_eq!(again["scanned"]["option"], "-s");
    assert_eq!(again["prepare"], "test -e a2");
    check(
        "scan = [{ name = 'n', min = 1 }]\n[[variant]]\ncommand = 'f {n}'\n",
        &[],
        &["'n'", "greatest"],
    );
    check("scan = [{ name = 'n', max = 1, stop = 2 }]\n", &[], &["line 1", "stop"]);
}

#[test]
fn errors_in_a_file_name_the_place_and_what_was_expected() {
    check("pairs = \n", &[], &["x.toml", "line 1"]);
    check("[[variant]\n", &[], &["x.toml", "line 1, column 11"]);
    check(
        "pairs = 2\npairz = 3\n",
        &[],
        &["line 2, column 1", "unknown field `pairz` (did you mean pairs?)"],
    );
    check("pairs = 'two'\n", &[], &["line 1, column 9", "expected u32"]);
    check("seed = -1\n", &[], &["line 1, column 8", "a whole number from 0 on, or \"random\""]);
    check("timeout = '5 parsecs'\n", &[], &["line 1, column 11", "parsecs", "30s"]);
    check("aslr = 'off'\n", &[], &["line 1", "`off`", "fixed", "randomised", "inherit"]);
    check("[[variant]]\ncomand = 'x'\n", &[], &["line 2, column 1", "comand", "command"]);
    check("[[variant]]\ncommand = 3\n", &[], &["line 2", "a command line or a list of arguments"]);
    let both = TWO.replace("ops = 2000 }", "ops = 2000 }\ncommand = 'true'");
    check(&both, &[], &["variant plain", "both a command and a workload"]);
    let neither = TWO.replace("workload = 'syscall'\n", "");
    check(&neither, &[], &["variant plain", "neither a command nor a workload"]);
    let for_command = "[[variant]]\ncommand = 'true'\nparams = { ops = 1 }\n".repeat(2);
    check(&for_command, &[], &["variant 1", "parameters are for workloads"]);
}

#[test]
fn overrides_that_fail_name_themselves() {
    check(TWO, &["--set", "pairs"], &["--set pairs", "KEY=VALUE"]);
    check(TWO, &["--set", "pairz=3"], &["--set pairz=3", "unknown field `pairz`"]);
    check(TWO, &["--set", "pairs=many"], &["--set pairs=many", "expected u32"]);
    check(TWO, &["--set", "pairs.x=1"], &["--set pairs.x=1", "'pairs' has no fields"]);
    check(
        TWO,
        &["--set", "variant.third.params.ops=1"],
        &["no variant 'third'; there are: plain, filtered"],
    );
    check(TWO, &["--set", "variant.2.name=x"], &["no variant '2'"]);
    check(TWO, &["--set", "variant.plain.params.opps=1"], &["variant plain", "'opps'", "'ops'"]);
}

#[track_caller]
fn plan(lab: &Lab, args: &[&str]) -> Value {
    lab.json(&[args, &["--dry-run", "--json"]].concat())
}

#[test]
fn a_file_becomes_a_plan_and_a_recording() {
    let lab = Lab::new();
    lab.write("dear.toml", TWO);
    let planned = plan(&lab, &["run", "dear.toml"]);
    assert!(!lab.store().exists(), "--dry-run records nothing");
    assert_eq!(planned["experiment"], "dear", "named after its file");
    assert_eq!(planned["question"], "Is it dearer?");
    assert_eq!(planned["pairs"], 2);
    assert_eq!(planned["warmup"], 0);
    assert_eq!(planned["blocks"].as_array().unwrap().len(), 2);
    assert_eq!(planned["variants"][1]["name"], "filtered");
    let mut document = lab.json(&["run", "dear.toml", "--seed", "5", "--json"]);
    let made = document["opcost"]["plan"].as_object_mut().unwrap();
    let command = made.shift_remove("invocation").unwrap();
    assert_eq!(command, "opcost run dear.toml --seed 5 --json");
    assert_eq!(document["opcost"]["plan"], plan(&lab, &["run", "dear.toml", "--seed", "5"]));
    assert_eq!(document["opcost"]["question"], "Is it dearer?");
}

#[test]
fn overrides_and_flags_go_over_the_file_flags_last() {
    let lab = Lab::new();
    lab.write("x.toml", TWO);
    let sets = [
        "pairs=6",
        "primary=task-clock",
        "variant.filtered.params.seccomp=cached",
        "variant.0.params.ops=77",
        "timeout=3",
        "name=\"y\"",
        "environment=randomised",
    ];
    let mut args = vec!["run", "x.toml", "--pairs", "4", "--warmup", "2", "-e", "page-faults"];
    for set in sets {
        args.extend(["--set", set]);
    }
    let plan = plan(&lab, &args);
    assert_eq!(plan["pairs"], 4, "the flag wins");
    assert_eq!(plan["warmup"], 2);
    assert_eq!(plan["primary"]["name"], "task-clock");
    assert_eq!(plan["timeout_ms"], 3000);
    assert_eq!(plan["experiment"], "y");
    assert_eq!(plan["environment"], "randomised");
    let params = |variant: usize| plan["variants"][variant]["work"]["params"].to_string();
    assert!(params(0).contains("[\"ops\",\"77\"]"), "{}", params(0));
    assert!(params(1).contains("[\"seccomp\",\"cached\"]"), "{}", params(1));
    let asked = |what: &str| -> Vec<String> {
        let events = plan[what].as_array().unwrap().iter();
        events.map(|event| event["key"]["name"].as_str().unwrap().to_string()).collect()
    };
    // If the kernel lets nobody count page faults, they are still in the plan.
    let mut names = [asked("events"), asked("unavailable")].concat();
    names.sort();
    assert_eq!(names, ["page-faults", "task-clock"], "the primary metric is counted, too");
}

#[test]
fn the_plan_of_a_seed_is_always_the_same() {
    let lab = Lab::new();
    let of = |seed: &str| {
        let args = ["compare", "-w", "syscall", "-w", "syscall:seccomp=on", "-n", "40"];
        lab.output(&[&args[..], &["--seed", seed, "--dry-run", "--json"]].concat())
    };
    assert_eq!(of("17"), of("17"));
    let (one, two): (Value, Value) =
        (serde_json::from_str(&of("1")).unwrap(), serde_json::from_str(&of("2")).unwrap());
    assert_ne!(one["blocks"], two["blocks"]);
    // Without `--seed`, a seed is drawn, and the drawn seed gives the same plan again.
    let drawn = plan(&lab, &["compare", "true", "false", "-n", "40"]);
    let seed = drawn["seed"].to_string();
    assert_eq!(plan(&lab, &["compare", "true", "false", "-n", "40", "--seed", &seed]), drawn);
    assert!(!lab.store().exists());
}

#[test]
fn the_order_of_running_is_the_planned_one() {
    let lab = Lab::new();
    lab.script("work", "echo $1 >> order");
    let args = ["compare", "./work A", "./work B", "./work C", "-n", "4", "--warmup", "1"];
    let planned = plan(&lab, &[&args[..], &["--seed", "3"]].concat());
    lab.output(&[&args[..], &["--seed", "3"]].concat());
    let mut expected: Vec<String> = ["A", "B", "C"].map(String::from).to_vec();
    for block in planned["blocks"].as_array().unwrap() {
        for variant in block["order"].as_array().unwrap() {
            expected.push(["A", "B", "C"][variant.as_u64().unwrap() as usize].into());
        }
        // Each variant is to run behind itself, too.
        expected.push(expected[expected.len() - 1].clone());
    }
    assert_eq!(lab.lines("order"), expected);
}

#[test]
fn dry_run_for_people_tells_what_would_happen() {
    let lab = Lab::new();
    let planned = |pairs: &str| {
        let args =
            ["compare", "-w", "syscall", "-w", "syscall:seccomp=on", "-n", pairs, "--dry-run"];
        lab.output(&[&args[..], &["--seed", "9", "--cpu", &lab::first_cpu()]].concat())
    };
    let text = planned("6");
    for part in ["seccomp=on", "primary", "wall", "seed", "9", "pinned to CPU", "warm-up"] {
        assert!(text.contains(part), "no '{part}' in:\n{text}");
    }
    let order = |text: &str| -> Vec<String> {
        let order = text.lines().find_map(|line| line.strip_prefix("order")).unwrap();
        order.split_whitespace().map(str::to_string).collect()
    };
    let blocks = order(&text);
    assert_eq!(blocks.len(), 6);
    assert!(blocks.iter().all(|block| ["AB", "BA"].contains(&block.as_str())), "{blocks:?}");
    let blocks = order(&planned("32"));
    assert!(["ABBA", "BAAB"].contains(&blocks[0].as_str()), "{blocks:?}");
    assert!(!lab.store().exists());
}

#[test]
fn a_saved_experiment_gives_the_same_plan() {
    let lab = Lab::new();
    let cpu = lab::first_cpu();
    let cases: [&[&str]; 3] = [
        &["-w", "mmap:ops=2000,touch=0.1", "--variant", "often=workload:mmap:ops=2000,touch=0.9"],
        &["true", "sh -c 'exit 0'", "--variant", "third=sh -c \"echo 'a b'\""],
        &[
            "--variant",
            "a=true",
            "--variant",
            "b=sh -c :",
            "--env",
            "A=1",
            "--env",
            "B= 2 ",
            "--cwd",
            "/",
            "--shell",
            "--aslr",
            "inherit",
            "--environment",
            "randomised",
            "--timeout",
            "1500ms",
            "-i",
            "--show-output",
            "-e",
            "page-faults,task-clock",
            "-e",
            "cs",
            "--primary",
            "task-clock",
            "--allow",
            "steal",
            "--setup",
            "true",
            "--prepare",
            "echo \"'\"",
            "--conclude",
            ":",
            "--cleanup",
            ":",
            "--name",
            "all",
            "--question",
            "Which?\nAnd why?",
            "--warmup",
            "3",
            "--pairs-of-variants",
            "all",
            "--cpu",
            &cpu,
            "--machine",
            "host",
        ],
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let file = format!("saved{number}.toml");
        let args = [&["compare"], case, &["-n", "4", "--seed", "7"]].concat();
        let saved = lab.output(&[&args[..], &["--save-experiment", &file]].concat());
        assert_eq!(saved, "");
        let mut expected = plan(&lab, &args);
        let read = plan(&lab, &["run", &file]);
        if !case.contains(&"--name") {
            // The name of the file is the name of its experiment.
            expected["experiment"] = read["experiment"].clone();
        }
        assert_eq!(read, expected, "{}", lab.read(&file));
    }
    assert!(!lab.store().exists());
    let args = ["compare", "true", "false", "--save-experiment", "none/x.toml"];
    lab.run(&args).expect(5).says(&["none/x.toml"]);
}

#[test]
fn named_variants_have_settings_of_their_own() {
    let lab = Lab::new();
    lab.script("work", "echo \"$1 $COMMON $OWN $(pwd)\" >> \"$LOG\"");
    std::fs::create_dir(lab.path("sub")).unwrap();
    let dir = lab.dir();
    let dir = dir.display();
    lab.write(
        "x.toml",
        format!(
            "pairs = 2\nwarmup = 0\nseed = 1\nprepare = 'echo prepare all $OWN $(pwd) >> \"$LOG\"'\n\
             env = ['COMMON=c', 'LOG={dir}/log']\n\
             [[variant]]\nname = 'one'\ncommand = ['../work', 'two words']\ncwd = 'sub'\n\
             env = {{ OWN = '1' }}\n\
             [[variant]]\nname = 'two'\ncommand = './work again'\n\
             env = {{ OWN = '2', COMMON = 'd' }}\nprepare = 'echo prepare two >> \"$LOG\"'\n"
        ),
    );
    let document = lab.json(&["run", "x.toml", "--json"]);
    let names: Vec<&str> = document["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["command"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["one", "two"]);
    let one = [format!("prepare all 1 {dir}/sub"), format!("two words c 1 {dir}/sub")];
    let two = ["prepare two".to_string(), format!("again d 2 {dir}")];
    let expected: Vec<String> = lab
        .column("last", "variant")
        .into_iter()
        .flat_map(|name| if name == "one" { one.clone() } else { two.clone() })
        .collect();
    assert_eq!(expected.len(), 8);
    assert_eq!(lab.lines("log"), expected);
}

#[test]
fn a_plan_in_json_is_the_same_by_either_option() {
    let lab = Lab::new();
    let args = ["compare", "-w", "syscall", "-w", "syscall:seccomp=on", "--seed", "3", "--dry-run"];
    let by_format = lab.output(&[&args[..], &["--format", "json"]].concat());
    assert_eq!(by_format, lab.output(&[&args[..], &["--json"]].concat()));
}

#[test]
fn an_experiment_that_could_not_run_is_not_saved() {
    let lab = Lab::new();
    let args = ["compare", "true", "--save-experiment", "x.toml"];
    lab.run(&args).expect(2).says(&["two or more variants, 1 given"]);
    assert!(!lab.path("x.toml").exists());
}

/// Twelve runs a side decide every metric, and eight the primary one, whatever their values.
#[test]
fn twelve_pairs_decide_every_metric_and_eight_the_primary_one() {
    let lab = Lab::new();
    let metrics = |pairs: &str| {
        // On a busy machine runs of so different lengths may cost more behind one another.
        let waived = ["--allow", "carry-over", "--json"];
        let args = ["compare", "-n", pairs, "sleep 0.002", "sleep 0.02"];
        let document = lab.json(&[&args[..], &waived].concat());
        document["opcost"]["metrics"].as_array().unwrap().clone()
    };
    for metric in metrics("12") {
        assert_ne!(metric["verdict"], "inconclusive", "{metric}");
        assert!(metric["pairs_needed"].is_null(), "{metric}");
    }
    for metric in metrics("8").iter().filter(|metric| metric["primary"] == true) {
        assert_ne!(metric["verdict"], "inconclusive", "{metric}");
        assert!(metric["ci_low"].is_number(), "{metric}");
    }
}

#[test]
fn a_comparison_sets_fields_as_a_file_does() {
    let lab = Lab::new();
    let saved = |more: &[&str]| {
        let words =
            [&["compare", "true", "/bin/true", "--save-experiment", "x.toml"], more].concat();
        lab.run(&words).expect(0);
        lab.read("x.toml")
    };
    let text = saved(&["--set", "pairs=9", "--set", "cwd=/tmp", "--set", "variant.1.name=two"]);
    for line in ["pairs = 9", "cwd = \"/tmp\"", "name = \"two\""] {
        assert!(text.contains(line), "no {line} in {text}");
    }
    assert!(saved(&["--set", "pairs=9", "-n", "7"]).contains("pairs = 7"));
    for command in ["compare", "measure"] {
        let words = [command, "true", "--set", "pairz=3"];
        lab.run(&words).expect(2).says(&["--set pairz=3: unknown field `pairz`"]);
    }
}
