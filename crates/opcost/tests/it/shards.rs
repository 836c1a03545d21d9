//! `opcost run --shard`, `opcost gather`, `opcost plan --shards`, `opcost submit`: parts of a plan.

use crate::lab::{Lab, Started};
use crate::needs;
use serde_json::Value;
use std::fs;

/// Two commands that only start a process.
const COMMANDS: &str = "pairs = 6\nprimary = \"wall\"\n\
     [[variant]]\nname = \"one\"\ncommand = \"/bin/true\"\n\
     [[variant]]\nname = \"two\"\ncommand = \"/bin/true\"\nenv = { TWO = \"2\" }\n";

fn lab(experiment: &str) -> Lab {
    let lab = Lab::new();
    lab.write("x.toml", experiment);
    lab
}

/// Makes a shard in a store of its own.
fn made(lab: &Lab, shard: &str, store: &str) {
    let ended = lab.run(&["run", "x.toml", "--shard", shard, "--store", store]).expect(0);
    assert_eq!(ended.stdout, "");
    ended.says(&[&format!("shard {shard} is made")]);
}

/// A comparison without its names and times.
fn plain(mut shown: Value) -> Value {
    let opcost = shown["opcost"].as_object_mut().unwrap();
    for key in ["recording", "created_unix_ns"] {
        assert!(opcost.remove(key).is_some(), "{key}");
    }
    assert!(opcost["plan"].as_object_mut().unwrap().remove("invocation").is_some());
    shown
}

#[test]
fn gathered_shards_are_the_recording_of_one_machine() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = lab(&format!(
        "machine = \"emulated\"\nkernel = \"{kernel}\"\npairs = 3\n\
         [[variant]]\nname = \"one\"\nworkload = \"syscall\"\nparams = {{ ops = 500 }}\n\
         [[variant]]\nname = \"two\"\nworkload = \"syscall\"\nparams = {{ ops = 500, unroll = 16 }}\n"
    ));
    let whole = lab.json(&["run", "x.toml", "--json"]);
    made(&lab, "1/2", "first.sqlite");
    made(&lab, "2/2", "second.sqlite");
    lab.run(&["export", "--store", "second.sqlite", "-o", "second.opcost"]).expect(0);
    let gathered = lab.json(&["gather", "second.opcost", "first.sqlite", "--json"]);
    assert_eq!(gathered["opcost"]["state"], "finished");
    // It was made elsewhere, as far as this computer knows.
    assert!(lab.recordings().last().unwrap()["arrived_unix_ns"].is_u64());
    assert_eq!(plain(gathered), plain(whole));
    // Shards of another seed are parts of another plan.
    let other = ["run", "x.toml", "--shard", "2/2", "--store", "other.sqlite", "--seed", "2"];
    lab.run(&other).expect(0);
    lab.run(&["gather", "first.sqlite", "other.sqlite"]).expect(3).says(&[
        "'first.sqlite' and 'other.sqlite' are parts of different plans",
        "seed is 1 and 2",
    ]);
}

#[test]
fn on_the_host_a_computer_is_the_unit_of_the_test() {
    let lab = lab(COMMANDS);
    let stores = ["1.sqlite", "2.sqlite", "3.sqlite"];
    for (index, store) in (1..).zip(stores) {
        made(&lab, &format!("{index}/3"), store);
    }
    let again = ["run", "x.toml", "--shard", "3/3", "--store", "3.sqlite"];
    lab.run(&again).expect(0).says(&["shard 3/3 was made already"]);
    let shown = lab.json(&[&["gather"], &stores[..], &["--json"]].concat());
    let opcost = &shown["opcost"];
    assert_eq!(opcost["plan"]["shards"], serde_json::json!({ "of": 3, "blocks": 1 }));
    let rows = opcost["metrics"].as_array().unwrap();
    let wall = rows.iter().find(|row| row["metric"] == "wall").unwrap();
    assert_eq!((&wall["n_pairs"], &wall["verdict"]), (&6.into(), &"inconclusive".into()));
    let reason = wall["reason"].as_str().unwrap();
    assert!(reason.starts_with("needs ") && reason.ends_with(" computers"), "{reason}");
    let warnings = opcost["warnings"].to_string();
    assert!(warnings.contains("3 computers cannot decide every metric"), "{warnings}");
    let machine = opcost["ledger"].as_array().unwrap().iter().find(|row| row["rule"] == "machine");
    let detail = machine.unwrap()["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("3 computers, each a unit of the test, stayed as they were"),
        "{detail}"
    );
    let text = lab.output(&["show", "last"]);
    assert!(text.contains("on 3 computers"), "{text}");
    // A shard that is shown alone says so.
    let text = lab.output(&["show", "--store", "2.sqlite"]);
    assert!(text.contains("this is shard 2/3 of its plan, alone"), "{text}");
    // A missing shard is named, and nothing is stored.
    let before = lab.recordings().len();
    lab.run(&["gather", "1.sqlite", "3.sqlite"]).expect(5).says(&["shard 2 of 3 missing"]);
    fs::copy(lab.path("1.sqlite"), lab.path("copy.sqlite")).unwrap();
    lab.run(&[&["gather"], &stores[..], &["copy.sqlite"]].concat())
        .expect(2)
        .says(&["shard 1 is there twice, in '1.sqlite' and 'copy.sqlite'"]);
    let whole = lab.path("store.sqlite").display().to_string();
    lab.run(&["gather", &whole]).expect(2).says(&["has no shard of a plan"]);
    lab.run(&["gather", "nothing.sqlite"]).expect(5).says(&["nothing.sqlite"]);
    lab.write("cut.opcost", "opcost-recording 1\nabc");
    lab.run(&["gather", "cut.opcost"]).expect(5).says(&["cut short or damaged"]);
    assert_eq!(lab.recordings().len(), before);
}

#[test]
fn an_interrupted_shard_goes_on_and_a_failed_one_begins_anew() {
    let lab = lab("pairs = 4\n[[variant]]\nname = \"one\"\ncommand = \"./work\"\n\
         [[variant]]\nname = \"two\"\ncommand = \"./work\"\nenv = { TWO = \"2\" }\n");
    lab.script(
        "work",
        "echo run >> made; test $(wc -l < made) -ne 4 || kill -INT $PPID; sleep 0.05",
    );
    let run = ["run", "x.toml", "--shard", "2/2", "--store", "part.sqlite"];
    lab.run(&run).expect(130);
    let stored = |lab: &Lab| -> Vec<u64> {
        let listed = lab.json(&["list", "recordings", "--json", "--store", "part.sqlite"]);
        listed.as_array().unwrap().iter().map(|row| row["runs"].as_u64().unwrap()).collect()
    };
    let before = stored(&lab);
    assert!(before.len() == 1 && (1..6).contains(&before[0]), "{before:?}");
    lab.run(&["gather", "part.sqlite"]).expect(5).says(&["shard 1 of 2 missing"]);
    lab.script("work", "exit 3");
    lab.run(&run).expect(4);
    lab.script("work", "exit 0");
    lab.run(&run).expect(0).says(&["shard 2/2 is made"]);
    // The recording with the failed run stays, and a new recording has all: two warm-up runs and four runs.
    assert_eq!(stored(&lab).last(), Some(&6));
    lab.run(&["run", "x.toml", "--shard", "1/2", "--store", "other.sqlite"]).expect(0);
    lab.run(&["gather", "part.sqlite", "other.sqlite"]).expect(0);
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let lab = lab(COMMANDS);
    for (given, parts) in [
        (&["--shard", "0/2"][..], &["the shards of 2 are 1/2 to 2/2"][..]),
        (&["--shard", "3/2"], &["the shards of 2 are 1/2 to 2/2"]),
        (&["--shard", "x"], &["for example 3/8"]),
        (&["--shard", "1/2", "--warmup", "0"], &["--shard 1/2", "give --warmup 1 or more"]),
        (&["--shard", "1/2", "--until-width", "1%"], &["--until-width looks at all runs"]),
        (&["--shard", "1/2", "--budget", "3s"], &["--budget ends a recording anywhere"]),
        (&["--shard", "1/2", "--seed", "random"], &["name a number"]),
        (&["--shard", "1/2", "--rebuild", "true"], &["a build is the unit of the test"]),
        (&["--shard", "1/2", "--json"], &["a shard decides nothing alone", "opcost gather"]),
        (&["--shard", "1/2", "--fail-on", "regression"], &["a shard decides nothing alone"]),
    ] {
        lab.run(&[&["run", "x.toml"], given].concat()).expect(2).says(parts);
    }
    assert!(!lab.exists("store.sqlite"));
}

#[test]
fn a_plan_says_what_each_shard_makes() {
    let lab = lab(COMMANDS);
    let unknown = lab.json(&["plan", "x.toml", "--shards", "3", "--json"]);
    assert_eq!(unknown["shards"][2]["estimated_seconds"], Value::Null);
    lab.run(&["run", "x.toml"]).expect(0);
    // A newer recording that failed at once says nothing of the time of a run.
    lab.run(&["run", "x.toml", "--set", "setup=\"false\""]).expect(4);
    let known = lab.json(&["plan", "x.toml", "--shards", "3", "--json"]);
    let shards = known["shards"].as_array().unwrap();
    assert_eq!(shards.len(), 3);
    let runs = |key: &str| -> Vec<u64> {
        shards.iter().map(|shard| shard[key].as_u64().unwrap()).collect()
    };
    assert_eq!((runs("runs"), runs("common_runs")), (vec![4; 3], vec![2; 3]));
    assert!(shards.iter().all(|shard| shard["estimated_seconds"].as_f64().unwrap() > 0.0));
    let text = lab.output(&["plan", "x.toml", "--shards", "3"]);
    for part in
        ["shard  blocks   runs  time", "2/3         2  4 + 2  about 1 s", "a computer, of 3"]
    {
        assert!(text.contains(part), "no '{part}' in: {text}");
    }
    assert_eq!(
        lab.output(&["plan", "x.toml", "--seed", "1"]),
        lab.output(&["run", "x.toml", "--seed", "1", "--dry-run"])
    );
    lab.run(&["plan", "x.toml", "--shards", "0"])
        .expect(2)
        .says(&["--shards 0: there can be 1 to"]);
}

#[test]
fn scripts_for_slurm_are_printed_and_without_slurm_nothing_is_made() {
    let lab = lab(COMMANDS);
    let submit = ["submit", "x.toml", "--slurm", "--shards", "3", "--folder", "my parts"];
    let printed = lab.output(&[&submit[..], &["--print", "--sbatch=--partition=short"]].concat());
    for part in [
        "--shard \"$SLURM_ARRAY_TASK_ID/3\"",
        "--array=1-3",
        "--partition=short",
        "--dependency=\"afterok:$job\"",
        "/my parts/shard-%a.log\"",
    ] {
        assert!(printed.contains(part), "no '{part}' in: {printed}");
    }
    assert!(!lab.exists("my parts"));
    let scripts = lab.write("printed.sh", &printed);
    let checked = std::process::Command::new("sh").arg("-n").arg(scripts).status().unwrap();
    assert!(checked.success(), "{printed}");
    let mut without = lab.command(&submit);
    let ended = without.env("PATH", "/nonexistent").spawn().unwrap().end();
    ended.expect(5).says(&["cannot start sbatch", "--print for the scripts"]);
    lab.run(&["submit", "x.toml", "--slurm", "--shards", "3", "--folder", "a%b"])
        .expect(2)
        .says(&["choose another folder"]);
}
