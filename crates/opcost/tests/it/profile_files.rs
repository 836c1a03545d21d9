//! `opcost profile` and `opcost diff` as a user runs them, on files that other profilers wrote.

use crate::needs;
use assert_cmd::Command;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A file of the test data of opcost-profile.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../opcost-profile/tests/data").join(name)
}

fn opcost(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opcost"));
    command.args(arguments).env("COLUMNS", "80");
    command
}

fn printed(arguments: &[&str]) -> String {
    let output = opcost(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(arguments: &[&str], status: i32) -> String {
    let output = opcost(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(status));
    String::from_utf8(output.stderr).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).unwrap()
}

const CALLGRIND: &str = "\
# callgrind format
events: Ir
ob=/opt/netbsd
fn=__mcount
1 63100
fn=_splset
1 21000
fn=ubc_fault
1 10000
cfn=_splset
calls=441 1
1 21000
totals: 94200
";

#[test]
fn a_table_of_functions_fits_the_page_and_adds_up() {
    let file = data("plain.script");
    let text = printed(&["profile", "--input", file.to_str().unwrap(), "--limit", "5"]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("  leaf "), "{text}");
    assert!(text.lines().any(|line| line.starts_with("  total ") && line.contains("100.00 %")));
    let document = json(&["profile", "-i", file.to_str().unwrap(), "--json"]);
    let functions = document["functions"].as_array().unwrap();
    let own: u64 = functions.iter().map(|row| row["cost"].as_u64().unwrap()).sum();
    assert_eq!(document["cost"].as_u64(), Some(own));
    assert_eq!(
        (document["event"].as_str(), document["kind"].as_str()),
        (Some("cpu-clock"), Some("sampled"))
    );
    // Timer samples wait for interrupts to be enabled; the document says so.
    let waiting = document["distortions"].as_array().unwrap();
    assert!(waiting.iter().any(|one| one["kind"] == "interrupts-enabled-again"));
}

#[test]
fn perf_data_is_read_and_its_callers_are_shown() {
    let file = data("plain.data");
    let file = file.to_str().unwrap();
    let document = json(&["profile", "-i", file, "--callers", "--json"]);
    assert_eq!(document["host"], "recorder");
    assert!(document["samples"].as_u64().unwrap() > 0);
    assert_eq!(document["losses"]["unmapped_samples"], 0);
    let first = &document["functions"][0];
    assert_eq!(first["caller_tree"]["cost"], first["cost"]);
    let text = printed(&["profile", "-i", file, "--callers", "--limit", "3"]);
    assert!(text.contains('←') && text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn stacks_are_exported() {
    let folder = tempfile::tempdir().unwrap();
    let folded = folder.path().join("stacks");
    let file = data("plain.script");
    let file = file.to_str().unwrap();
    printed(&["profile", "-i", file, "--export-folded", folded.to_str().unwrap()]);
    let text = std::fs::read_to_string(&folded).unwrap();
    assert_eq!(printed(&["profile", "-i", file, "--export-folded", "-"]), text, "nothing else");
    let figure = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    let total = json(&["profile", "-i", file, "--json"])["cost"].as_u64().unwrap();
    assert_eq!(text.lines().map(figure).sum::<u64>(), total);
    assert!(text.lines().any(|line| line.contains(";main;recursive;")), "{text}");
}

/// Readers of JSON accept 128 levels; each caller takes two levels.
#[test]
fn deep_recursion_leaves_json_that_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep.folded");
    let frames: Vec<String> = (0..200).map(|depth| format!("f{depth}")).collect();
    std::fs::write(&file, format!("{} 10\n", frames.join(";"))).unwrap();
    let document = json(&["profile", "-i", file.to_str().unwrap(), "--json", "--callers"]);
    let leaf = &document["functions"][0];
    assert_eq!(leaf["symbol"], "f199");
    let (mut at, mut deep) = (&leaf["caller_tree"], 0);
    while let Some(caller) = at["callers"].get(0) {
        (at, deep) = (caller, deep + 1);
    }
    assert_eq!((deep, &at["callers_left_out"]), (50, &true.into()));
}

#[test]
fn the_hook_of_a_call_counting_profiler_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("callgrind.out");
    std::fs::write(&file, CALLGRIND).unwrap();
    let file = file.to_str().unwrap();
    let text = printed(&["profile", "-i", file]);
    assert!(text.contains("! 66.99 % is the profiler's own work and no cause"), "{text}");
    assert!(text.contains("[unattributed]"), "{text}");
    let text = printed(&["profile", "-i", file, "--function", "_splset"]);
    assert!(text.contains("22.29 % with all it calls, 441 calls ← ubc_fault (netbsd)"), "{text}");
    let error = refused(&["profile", "-i", file, "--function", "_splst"], 2);
    assert!(error.contains("did you mean _splset?"), "{error}");
    let error = refused(&["profile", "-i", file, "--export-folded", "x"], 2);
    assert!(error.contains("no stacks"), "{error}");
}

#[test]
fn two_files_are_compared_function_by_function() {
    let folder = tempfile::tempdir().unwrap();
    let script = std::fs::read_to_string(data("plain.script")).unwrap();
    // The same work ten times over. In the second file `leaf` has another name; everything else is alike.
    let dearer = script.replace(" leaf+", " leaf_new+");
    let [one, two] = [script.repeat(10), dearer.repeat(10)].map(|text| text.into_bytes());
    let paths = ["one.txt", "two.txt"].map(|name| folder.path().join(name));
    std::fs::write(&paths[0], one).unwrap();
    std::fs::write(&paths[1], two).unwrap();
    let [one, two] = paths.each_ref().map(|path| path.to_str().unwrap());
    let document = json(&["diff", one, two, "--ops", "100", "--json"]);
    let of_verdict = |verdict: &str| -> Vec<String> {
        let functions = document["functions"].as_array().unwrap().iter();
        let found = functions.filter(|row| row["verdict"] == verdict);
        found.map(|row| row["symbol"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(of_verdict("differs"), ["leaf", "leaf_new"]);
    assert_eq!(of_verdict("changed"), [""; 0], "two files show no run-to-run variance");
    assert_eq!(document["judged_by"], "sampling");
    assert_eq!(document["total"]["change"], 0.0);
    let text = printed(&["diff", one, two]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains(" gone differs") && text.contains(" new differs"), "{text}");
    assert!(text.contains(" unchanged functions "), "{text}");
    assert!(text.contains("! one file a side: how one run differs"), "{text}");
}

/// Files of perf script, one for each run: `leaf` has another name in the variant, and no two runs are alike.
#[test]
fn several_files_a_side_are_the_units() {
    let folder = tempfile::tempdir().unwrap();
    let script = std::fs::read_to_string(data("plain.script")).unwrap();
    let write = |name: String, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    // Runs of different length, so that shares differ a little; the variant's runs have `leaf` renamed.
    let side = |side: &str, new: &str| -> Vec<String> {
        let run = |run: usize| {
            let some: String = script.split_inclusive("\n\n").take(60 + run).collect();
            let text = script.repeat(3).replace(" leaf+", new) + &some;
            write(format!("{side}{run}.txt"), text)
        };
        (0..7).map(run).collect()
    };
    let (baseline, variant) = (side("a", " leaf+"), side("b", " leaf_new+"));
    let files = |baseline: &[String], variant: &[String]| -> Vec<String> {
        let words = ["diff", "--baseline"].map(str::to_string);
        let between = ["--variant".to_string()];
        [&words[..], baseline, &between, variant].concat()
    };
    let arguments = |runs: usize, more: &[&str]| -> Vec<String> {
        let more: Vec<String> = more.iter().map(|word| word.to_string()).collect();
        [files(&baseline[..runs], &variant[..runs]), more].concat()
    };
    let run = |arguments: &[String]| {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        printed(&words)
    };
    let document: Value = serde_json::from_str(&run(&arguments(7, &["--json"]))).unwrap();
    assert_eq!(
        (&document["judged_by"], document["files"].as_array().unwrap().len()),
        (&"files".into(), 7)
    );
    let row = |symbol: &str| {
        let functions = document["functions"].as_array().unwrap();
        functions.iter().find(|row| row["symbol"] == symbol).unwrap().clone()
    };
    for symbol in ["leaf", "leaf_new"] {
        assert_eq!(row(symbol)["verdict"], "changed", "{}", row(symbol));
        let (low, high) = (row(symbol)["ci_low"].as_f64(), row(symbol)["ci_high"].as_f64());
        assert!(low.unwrap() * high.unwrap() > 0.0, "{}", row(symbol));
    }
    let text = run(&arguments(7, &[]));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        text.contains("means over 7 and 7 files, the units") && text.contains("new p 0.0"),
        "{text}"
    );
    assert!(!text.contains("one file a side"), "{text}");
    // With too few files, the text says how many are needed.
    let text = run(&arguments(2, &[]));
    assert!(text.contains("a verdict needs ") && text.contains(" files a side"), "{text}");

    let error = refused(&["diff", "--baseline", &baseline[0]], 2);
    assert!(error.contains("name those of the other with --variant"), "{error}");
    let twice = [&baseline[0], &baseline[1], &baseline[0]].map(String::as_str);
    let error =
        refused(&[&["diff", "--variant", &variant[0], "--baseline"], &twice[..]].concat(), 2);
    assert!(error.contains("is given twice; each run is one file"), "{error}");
    let error = refused(&["diff", "last", "--baseline", &baseline[0], "--variant", &variant[0]], 2);
    assert!(error.contains("stands behind --baseline or --variant"), "{error}");
}

#[test]
fn samples_are_chosen_and_functions_sorted() {
    let file = data("plain.data");
    let file = file.to_str().unwrap();
    let all = json(&["profile", "-i", file, "--json"]);
    let some =
        json(&["profile", "-i", file, "--json", "--only", "dso=busy", "--only", "comm=busy"]);
    let count = |document: &Value| document["samples"].as_u64().unwrap();
    assert!(count(&some) > 0 && count(&some) < count(&all));
    assert_eq!(count(&some) + some["losses"]["left_out"].as_u64().unwrap(), count(&all));
    let text = printed(&["profile", "-i", file, "--only", "dso=busy"]);
    assert!(text.contains("samples left out (--only), "), "{text}");
    let error = refused(&["profile", "-i", file, "--only", "user=root"], 2);
    assert!(error.contains("--only 'user=root' is no filter; known are comm=NAME"), "{error}");
    for (column, key) in [("incl", "inclusive"), ("self", "cost")] {
        let sorted = json(&["profile", "-i", file, "--json", "--sort", column]);
        let rows = sorted["functions"].as_array().unwrap();
        assert!(
            rows.iter().map(|row| row[key].as_u64().unwrap()).is_sorted_by(|one, two| one >= two)
        );
    }
    for (column, key) in [("name", "symbol"), ("module", "module")] {
        let sorted = json(&["profile", "-i", file, "--json", "--sort", column]);
        let short =
            |row: &Value| row[key].as_str().unwrap().rsplit('/').next().unwrap().to_string();
        let rows = sorted["functions"].as_array().unwrap();
        assert!(rows.iter().map(short).is_sorted(), "{column}");
    }
    let folder = tempfile::tempdir().unwrap();
    let counted = folder.path().join("callgrind.out");
    std::fs::write(&counted, CALLGRIND).unwrap();
    let error = refused(&["profile", "-i", counted.to_str().unwrap(), "--only", "pid=1"], 2);
    assert!(error.contains("has no samples but sums"), "{error}");
}

#[test]
fn a_broken_record_is_left_out_and_its_place_is_said_once() {
    let mut bytes = std::fs::read(data("plain.data")).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (mut at, end) = (word(40), word(40) + word(48));
    let mut samples = Vec::new();
    while at < end {
        if bytes[at] == 9 {
            samples.push(at);
        }
        at += usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
    }
    for at in &samples[5..9] {
        bytes[at + 40..at + 48].fill(0xff);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    std::fs::write(&path, bytes).unwrap();
    let text = printed(&["profile", "-i", path.to_str().unwrap()]);
    let said = format!("4 broken records were left out; the first is at byte {}", samples[5]);
    assert_eq!(text.matches(&said).count(), 1, "{text}");
    assert!(text.contains(&format!("· {} samples ·", samples.len() - 4)), "{text}");
}

/// Own cost by function, without the file.
fn costs(profile: &Value) -> BTreeMap<String, u64> {
    let mut costs = BTreeMap::new();
    for function in profile["functions"].as_array().unwrap() {
        let symbol = function["symbol"].as_str().unwrap().split(" [").next().unwrap();
        let symbol = symbol.split(" (").next().unwrap().to_string();
        *costs.entry(symbol).or_default() += function["cost"].as_u64().unwrap();
    }
    costs.retain(|_, cost| *cost > 0);
    costs
}

#[test]
fn what_was_exported_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let deep = data("deep.data").display().to_string();
    let plain = data("plain.data").display().to_string();
    for input in [&plain, &deep] {
        let files = ["folded", "pprof", "firefox", "speedscope"].map(path);
        let first = json(&[
            "profile",
            "-i",
            input,
            "--json",
            "--export-folded",
            &files[0],
            "--export-pprof",
            &files[1],
            "--export-firefox",
            &files[2],
            "--export-speedscope",
            &files[3],
        ]);
        let formats = ["folded stacks", "pprof", "Firefox Profiler", "speedscope"];
        for (file, format) in files.iter().zip(formats) {
            let again = json(&["profile", "-i", file, "--json"]);
            assert_eq!(again["format"], format);
            assert_eq!(
                (&again["cost"], costs(&again)),
                (&first["cost"], costs(&first)),
                "{format}"
            );
            let inclusive = |profile: &Value| -> Option<u64> {
                let functions = profile["functions"].as_array().unwrap();
                let main = functions.iter().find(|function| function["symbol"] == "main")?;
                main["inclusive"].as_u64()
            };
            assert_eq!(inclusive(&again), inclusive(&first), "{format}");
            // pprof's files have the period, and so the number of samples. Nothing in the others says it.
            let text = printed(&["profile", "-i", file, "--callers", "--limit", "3"]);
            if format == "pprof" {
                assert_eq!(again["event"], first["event"]);
                assert_eq!(
                    (&again["kind"], &again["samples"]),
                    (&first["kind"], &first["samples"])
                );
            } else {
                assert_eq!((&again["kind"], &again["samples"]), (&"unknown".into(), &Value::Null));
                assert!(text.contains("does not say how many samples"), "{text}");
            }
            // The read file can be exported again.
            let once_more = path("again.folded");
            printed(&["profile", "-i", file, "--export-folded", &once_more]);
            let third = json(&["profile", "-i", &once_more, "--json"]);
            assert_eq!(costs(&third), costs(&first), "{format}");
        }
    }
}

#[test]
fn callgrind_annotate_finds_the_costs_that_were_exported() {
    if !needs::programs(&["callgrind_annotate"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("callgrind.out.1").display().to_string();
    for input in ["plain.data", "deep.data", "py-spy.folded"] {
        let input = data(input).display().to_string();
        let profile = json(&["profile", "-i", &input, "--json", "--export-callgrind", &file]);
        // Shares in brackets follow the figures of newer versions.
        let ended = Command::new("callgrind_annotate").args(["--threshold=100", &file]).output();
        let said = String::from_utf8(ended.unwrap().stdout).unwrap();
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        let mut total = 0;
        for line in said.lines() {
            let Some((figure, rest)) = line.trim().split_once(' ') else { continue };
            let Ok(figure) = figure.replace(',', "").parse::<u64>() else { continue };
            let rest = rest.trim();
            let rest = rest
                .strip_prefix('(')
                .and_then(|rest| rest.split_once(") "))
                .map_or(rest, |(_, rest)| rest);
            if rest.trim().starts_with("PROGRAM TOTALS") {
                total = figure;
            } else if let Some((_, name)) = rest.trim().split_once(':') {
                let name = name.rsplit_once(" [").map_or(name, |(name, _)| name);
                *found.entry(name.to_string()).or_default() += figure;
            }
        }
        assert_eq!(total, profile["cost"], "{said}");
        for row in profile["functions"].as_array().unwrap() {
            // A function that only calls others has a line of 0, or none.
            if let Some(cost) =
                row["cost"].as_u64().filter(|cost| *cost > 0 && row["source"].is_null())
            {
                let symbol = row["symbol"].as_str().unwrap();
                assert!(found.get(symbol).is_some_and(|found| *found >= cost), "{symbol}: {said}");
            }
        }
        assert_eq!(found.values().sum::<u64>(), total, "{said}");
        // The file is read again, and written again with all that it had; inclusive costs where no functions call one another.
        let again = json(&["profile", "-i", &file, "--json"]);
        assert_eq!(
            (&again["kind"], &again["cost"], costs(&again)),
            (&"counted".into(), &profile["cost"], costs(&profile))
        );
    }
}

#[test]
fn profiles_without_stacks_are_exported_with_their_calls() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out").display().to_string();
    for input in ["callgrind/callgrind.plain", "work.pstats"] {
        let input = data(input).display().to_string();
        let first = json(&["profile", "-i", &input, "--json", "--export-callgrind", &file]);
        let again = json(&["profile", "-i", &file, "--json"]);
        assert_eq!((&again["cost"], costs(&again)), (&first["cost"], costs(&first)));
        let calls = |profile: &Value| -> Vec<u64> {
            let functions = profile["functions"].as_array().unwrap();
            functions.iter().filter_map(|row| row["calls"].as_u64()).collect()
        };
        let all: u64 = calls(&again).iter().sum();
        assert!(all > 0 && all <= calls(&first).iter().sum());
        let error = refused(&["profile", "-i", &input, "--export-folded", &file], 2);
        assert!(error.contains("no stacks") && error.contains("--export-callgrind"), "{error}");
    }
}

#[test]
fn a_pipe_and_packed_files_are_read_as_files_are() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| std::fs::read(data(name)).unwrap();
    for name in ["piped.data", "plain.data", "py-spy.folded", "work.pstats", "node.trace.json.gz"] {
        let whole = json(&["profile", "-i", data(name).to_str().unwrap(), "--json"]);
        let mut command = opcost(&["profile", "--input", "-", "--json"]);
        let piped = command.write_stdin(read(name)).output().unwrap().stdout;
        assert_eq!(
            serde_json::from_slice::<Value>(&piped).unwrap()["functions"],
            whole["functions"],
            "{name}"
        );
        let packed = folder.path().join("packed");
        std::fs::write(&packed, zstd::encode_all(&*read(name), 1).unwrap()).unwrap();
        let unpacked = json(&["profile", "-i", packed.to_str().unwrap(), "--json"]);
        assert_eq!(unpacked["functions"], whole["functions"], "{name}");
    }
    let ended = opcost(&["profile", "-i", "-"]).write_stdin("").output().unwrap();
    let error = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(error.contains("standard input is empty"), "{error}");
    let pipe = folder.path().join("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).output().unwrap().status.success());
    let error = refused(&["profile", "-i", &pipe], 2);
    assert!(error.contains(&format!("opcost profile --input - < {pipe}")), "{error}");
}

#[test]
fn odd_lines_and_formats_that_are_not_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let odd = write("odd", "main;a 4\nno count \u{1b}[2J here\nmain;b 3\n");
    let text = printed(&["profile", "-i", &odd]);
    assert!(
        text.contains("1 line of another form was left out; it is line 2: \"no count"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
    assert_eq!(json(&["profile", "-i", &odd, "--json"])["losses"]["first_odd_line"], 2);
    let report = std::fs::read_to_string(data("plain.report")).unwrap();
    let error = refused(&["profile", "-i", &write("report", &report)], 2);
    assert!(error.contains("text of 'perf report'") && error.contains("perf.data"), "{error}");
    let error = refused(&["profile", "-i", &write("old", "PERFFILE\u{1}")], 2);
    assert!(error.contains("version 1") && error.contains("perf script"), "{error}");
    let error = refused(
        &["profile", "-i", data("java.jfr.txt").to_str().unwrap(), "--only", "comm=main"],
        2,
    );
    assert!(error.contains("(--only)"), "{error}");
    // Measured times are neither samples nor counts.
    let pstats = data("work.pstats").display().to_string();
    assert_eq!(json(&["profile", "-i", &pstats, "--json"])["kind"], "unknown");
    assert!(printed(&["profile", "-i", &pstats]).starts_with("profile · time · cProfile"));
    let text = printed(&["diff", &pstats, &pstats]);
    assert!(!text.contains("exact"), "{text}");
    let parts = data("callgrind/callgrind.out.77").display().to_string();
    assert!(printed(&["profile", "-i", &parts]).contains("sum of 5 files"));
    let own = data("cachegrind.out").display().to_string();
    assert!(printed(&["profile", "-i", &own]).contains("the file has no calls"));
}

#[test]
fn files_of_go_are_read_and_compared() {
    let [old, new] = ["go-old.pb.gz", "go-new.pb.gz"].map(|name| data(name).display().to_string());
    let profile = json(&["profile", "-i", &old, "--json"]);
    assert_eq!((&profile["format"], &profile["event"]), (&"pprof".into(), &"cpu".into()));
    assert_eq!((&profile["unit"], &profile["samples"]), (&"ns".into(), &16.into()));
    let text = printed(&["profile", "-i", &old, "--function", "runtime.memmove"]);
    assert!(
        text.contains("70 ms   43.75 %") && text.contains("strings.(*Builder).WriteString"),
        "{text}"
    );
    let difference = json(&["diff", &old, &new, "--json"]);
    let total = &difference["total"];
    assert_eq!((&total["samples_baseline"], &total["samples"]), (&16.into(), &12.into()));
    // A figure without a number of samples is never called different.
    let heap = data("go-heap.pb.gz").display().to_string();
    let text = printed(&["diff", &heap, &heap, "--event", "alloc_space"]);
    assert!(text.contains("so no function is called"), "{text}");
    let document = json(&["diff", &heap, &heap, "--event", "alloc_space", "--json"]);
    assert_eq!((&document["kind"], &document["exact"]), (&"unknown".into(), &false.into()));
    let error = refused(&["profile", "-i", &old, "--only", "comm=busy"], 2);
    assert!(error.contains("has no samples but sums"), "{error}");
    let error = refused(&["diff", &old, &heap], 3);
    assert!(error.contains("event"), "{error}");
}

#[test]
fn several_folded_files_a_side_are_judged_by_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (side, extra) in [("old", 0), ("new", 300)] {
        for run in 0..8u64 {
            let text = format!("main;f {}\nmain;g {}\n", 1000 + run * 3 % 7 + extra, 500 + run % 3);
            let path = folder.path().join(format!("{side}-{run}.folded"));
            std::fs::write(&path, text).unwrap();
            paths.push(path.display().to_string());
        }
    }
    let mut arguments = vec!["diff", "--json", "--ops", "1"];
    for (at, path) in paths.iter().enumerate() {
        arguments.extend([if at < 8 { "--baseline" } else { "--variant" }, path]);
    }
    let difference = json(&arguments);
    let of = |name: &str| {
        let functions = difference["functions"].as_array().unwrap();
        functions.iter().find(|row| row["symbol"] == name).unwrap()["verdict"].clone()
    };
    assert_eq!((of("f"), of("g")), ("changed".into(), "unchanged".into()));
}

#[test]
fn formats_are_in_the_help_and_in_errors() {
    for command in ["profile", "diff"] {
        let help = printed(&[command, "--help"]);
        for format in opcost_profile::read::FORMATS {
            assert!(help.contains(format.name), "{command}: {}", format.name);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let error = refused(&["profile", "-i", &write("prose", b"A page of prose.\n")], 2);
    for format in opcost_profile::read::FORMATS {
        assert!(error.contains(format.name), "{error}");
    }
    let error = refused(&["profile", "-i", &write("empty", b"")], 2);
    assert!(error.contains("is empty") && error.contains("record again"), "{error}");
    let packed = std::fs::read(data("go-old.pb.gz")).unwrap();
    let error = refused(&["profile", "-i", &write("cut.pb.gz", &packed[..packed.len() / 2])], 2);
    assert!(error.contains("cannot unpack") && error.contains("copy it again"), "{error}");
    // A stack deeper than the limit of readers, for all code that walks a tree.
    let deep =
        format!("{} 7\n", (0..4096).map(|at| format!("f{}", at % 5)).collect::<Vec<_>>().join(";"));
    let deep = write("deep.folded", deep.as_bytes());
    printed(&["profile", "-i", &deep, "--callers", "--limit", "2"]);
    printed(&["profile", "-i", &deep, "--callers", "--json"]);
    let exports = ["firefox", "pprof", "speedscope", "flamegraph"].map(|format| {
        [format!("--export-{format}"), folder.path().join(format).display().to_string()]
    });
    let exports: Vec<&str> = exports.iter().flatten().map(String::as_str).collect();
    printed(&[&["profile", "-i", &deep][..], &exports].concat());
    assert_eq!(
        json(&[
            "profile",
            "-i",
            &write("copy.json", &std::fs::read(folder.path().join("firefox")).unwrap()),
            "--json"
        ])["cost"],
        7
    );
}

#[test]
fn what_cannot_be_compared_or_read_is_said() {
    let [clock, events] = ["plain.data", "events.data"].map(data);
    let [clock, events] = [clock.to_str().unwrap(), events.to_str().unwrap()];
    let folder = data("threads.data");
    // The program is found by its build id, in perf's cache below a home of the test's own.
    let home = tempfile::tempdir().unwrap();
    let kept = home.path().join(".debug/.build-id/7d/f8ec7d82717abfc1b952009d0a25933a34f197");
    std::fs::create_dir_all(&kept).unwrap();
    std::fs::copy(data("busy"), kept.join("elf")).unwrap();
    let mut diff = opcost(&["diff", clock, folder.to_str().unwrap()]);
    let text = String::from_utf8(diff.env("HOME", home.path()).output().unwrap().stdout).unwrap();
    assert!(text.contains("leaf (busy)") && text.contains("threads.data"), "{text}");
    let error = refused(&["diff", clock, events], 3);
    assert!(error.contains("has the event cpu-clock and"), "{error}");
    assert!(printed(&["diff", clock, events, "--allow", "event"]).contains("(waived)"));
    let error = refused(&["profile", "-i", events, "--event", "cycles"], 2);
    assert!(error.contains("it has task-clock:u, page-faults"), "{error}");
    let error = refused(&["profile", "-i", "/nonexistent/perf.data"], 2);
    assert!(error.contains("cannot read /nonexistent/perf.data"), "{error}");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let error = refused(&["profile", "-i", source], 2);
    assert!(error.contains("is no profile that can be read"), "{error}");
    assert!(printed(&["diff", clock, clock, "--format", "mail"]).starts_with("Subject: "));
    let folder = tempfile::tempdir().unwrap();
    let short = folder.path().join("short.data");
    let bytes = std::fs::read(clock).unwrap();
    std::fs::write(&short, &bytes[..bytes.len() / 2]).unwrap();
    let error = refused(&["profile", "-i", short.to_str().unwrap()], 2);
    assert!(error.contains("it was cut short"), "{error}");
}

#[test]
fn what_is_said_of_inlined_functions_stays_short_with_whole_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stacks.txt");
    let long = "ns::Holder<std::vector<std::string, std::allocator<std::string> > >".repeat(6);
    let sample = |number: usize| {
        format!(
            "busy  42 10.{number:06}:     500000 cpu-clock:pp: \n\
             \t    11300 {long}::method_{number}(int) (inlined)\n\
             \t            1276 main+0x77 (/opt/work/busy)\n\n"
        )
    };
    std::fs::write(&file, (0..9).map(sample).collect::<String>()).unwrap();
    let text = printed(&["profile", "--input", file.to_str().unwrap(), "--full-names"]);
    assert!(text.contains(&format!("{long}::method_8(int)")), "names are not whole: {text}");
    let (_, paragraph) =
        text.split_once("% is in functions that were inlined").expect("a paragraph");
    let lines = 1 + paragraph.lines().skip(1).take_while(|line| line.starts_with("  ")).count();
    assert!(lines <= 5, "{lines} lines: {paragraph}");
    assert!(paragraph.contains(" and 6 more (--json"), "{paragraph}");
    let words = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("method_0(…) (busy) 11.11 %"), "{paragraph}");
}

/// Memory is in bytes in every output, and the exported sample type is the event.
#[test]
fn bytes_are_bytes_from_pprof_to_every_export() {
    let folder = tempfile::tempdir().unwrap();
    let heap = data("go-heap.pb.gz");
    let heap = ["-i", heap.to_str().unwrap(), "--event", "alloc_space"];
    let read = |more: &[&str]| printed(&[&["profile"], &heap[..], more].concat());
    let document: Value = serde_json::from_str(&read(&["--json"])).unwrap();
    assert_eq!(document["unit"], "bytes");
    let paths = ["pprof", "firefox", "speedscope", "flamegraph"].map(|format| {
        let path = folder.path().join(format).to_str().unwrap().to_string();
        read(&[&format!("--export-{format}"), &path]);
        path
    });
    for path in &paths[..2] {
        let again = json(&["profile", "-i", path, "--json"]);
        assert_eq!(
            (&again["unit"], &again["cost"]),
            (&document["unit"], &document["cost"]),
            "{path}"
        );
        assert!(again["event"].as_str().unwrap().contains("alloc_space"), "{again:.200}");
    }
    let speedscope: Value =
        serde_json::from_str(&std::fs::read_to_string(&paths[2]).unwrap()).unwrap();
    assert_eq!(speedscope["profiles"][0]["unit"], "bytes");
    let svg = std::fs::read_to_string(&paths[3]).unwrap();
    assert!(
        svg.contains("alloc_space (bytes)") && svg.contains("from go-heap.pb.gz"),
        "{svg:.900}"
    );
    let difference =
        json(&["diff", heap[1], heap[1], "--event", "alloc_space", "--ops", "10", "--json"]);
    assert_eq!(difference["unit"], "bytes");
}

#[test]
fn a_profile_without_samples_says_so() {
    let folder = tempfile::tempdir().unwrap();
    // The recording of `record`, whose kinds of samples are those of records that nobody knows.
    let mut bytes = std::fs::read(data("plain.data")).unwrap();
    let word = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
    };
    let (mut at, end) = (word(&bytes, 40), word(&bytes, 40) + word(&bytes, 48));
    while at < end {
        let size = usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
        if bytes[at] == 9 {
            bytes[at] = 39;
        }
        at += size;
    }
    let path = folder.path().join("empty.data");
    std::fs::write(&path, bytes).unwrap();
    let error = refused(&["profile", "-i", path.to_str().unwrap()], 4);
    assert!(error.contains("empty.data has no samples at all; record for longer"), "{error}");
    let plain = data("plain.data");
    let error = refused(&["profile", "-i", plain.to_str().unwrap(), "--only", "comm=none"], 4);
    assert!(error.contains("--only leaves none of the samples of cpu-clock"), "{error}");
}

/// Without build ids, a recording of another computer names nothing here, unless the user vouches for the files.
#[test]
fn files_of_another_computer_are_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = std::fs::read(data("plain.data")).unwrap();
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    // The table of build ids is the second feature (HEADER_BUILD_ID); without its bit the others move up.
    let end = (word(&bytes, 40) + word(&bytes, 48)) as usize;
    let set: Vec<u32> = (0..256)
        .filter(|bit| bytes[72 + bit / 8] & 1 << (bit % 8) != 0)
        .map(|bit| bit as u32)
        .collect();
    let place = set.iter().position(|bit| *bit == 2).expect("build ids");
    // No build ids in a table of no bytes.
    bytes[end + place * 16 + 8..end + place * 16 + 16].fill(0);
    // /opt/work/busy is the recorded program; this one is /bin/true.
    let program = b"/opt/work/busy\0";
    let other = b"/usr/bin/true\0\0";
    for at in 0..bytes.len() - program.len() {
        if bytes[at..].starts_with(program) {
            bytes[at..at + program.len()].copy_from_slice(other);
        }
    }
    let path = folder.path().join("moved.data");
    std::fs::write(&path, bytes).unwrap();
    let path = path.to_str().unwrap();
    let of = |more: &[&str]| {
        let document = json(&[&["profile", "-i", path, "--json"], more].concat());
        let row = |row: &Value| {
            (
                row["module"].as_str().unwrap().to_string(),
                row["symbol"].as_str().unwrap().to_string(),
            )
        };
        document["functions"].as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    let doubted = of(&[]);
    let named = |rows: &[(String, String)], module: &str| {
        rows.iter().filter(|(of, name)| of == module && !name.starts_with('[')).count()
    };
    assert!(doubted.contains(&("/usr/bin/true".into(), "[other build]".into())), "{doubted:?}");
    assert!(doubted.contains(&("[kernel]".into(), "[other build]".into())), "{doubted:?}");
    assert_eq!(named(&doubted, "[kernel]") + named(&doubted, "/usr/bin/true"), 0, "{doubted:?}");
    let text = printed(&["profile", "-i", path]);
    assert!(text.contains("(--trust-files)"), "{text}");
    let trusted = of(&["--trust-files"]);
    assert!(!trusted.contains(&("/usr/bin/true".into(), "[other build]".into())), "{trusted:?}");
}
