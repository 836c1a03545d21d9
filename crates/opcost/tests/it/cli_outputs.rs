//! Outputs for other programs: JSON, CSV, Markdown, benchfmt, man page, completions, pipes.

use crate::lab::{Lab, Started, TINY, files, has_program};
use crate::needs;
use serde_json::Value;
use std::process::Stdio;

/// A lab with one recording of four runs of workloads.
fn recorded() -> Lab {
    let lab = Lab::new();
    lab.run(&[&TINY[..], &["--name", "tiny"]].concat()).expect(0);
    lab
}

#[test]
fn json_has_what_readers_of_hyperfine_expect() {
    let lab = Lab::new();
    let document = lab.json(&["compare", "true", "sh -c :", "-n", "4", "--json", "-"]);
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    assert_eq!(results[0]["command"], "true");
    assert_eq!(results[1]["command"], "sh -c :");
    for result in results {
        for field in ["mean", "stddev", "median", "user", "system", "min", "max"] {
            assert!(result[field].is_f64(), "{field} in {result}");
        }
        let times: Vec<f64> =
            result["times"].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect();
        assert_eq!(times.len(), 4, "warm-up left out");
        let mean = times.iter().sum::<f64>() / 4.0;
        assert!((result["mean"].as_f64().unwrap() - mean).abs() < mean * 1e-12);
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        assert_eq!(result["min"].as_f64().unwrap(), least);
        assert_eq!(result["exit_codes"], serde_json::json!([0, 0, 0, 0]));
    }
}

fn number_or_null(value: &Value) -> bool {
    value.is_number() || value.is_null()
}

#[test]
fn json_has_every_field_that_is_promised() {
    let lab = recorded();
    let document = lab.json(&["show", "--json"]);
    let opcost = &document["opcost"];
    assert_eq!(opcost["schema"], 1);
    assert!(opcost["plan"].is_object() && opcost["machine"].is_object());
    assert_eq!(opcost["plan"]["pairs"], 2);
    let metrics = opcost["metrics"].as_array().unwrap();
    assert!(metrics.len() > 8);
    let one_of =
        |value: &Value, words: &[&str]| value.as_str().is_some_and(|word| words.contains(&word));
    for metric in metrics {
        let fields = metric.as_object().unwrap();
        let null = &Value::Null;
        let field = |name: &str| fields.get(name).unwrap_or(null);
        for name in ["metric", "unit", "source", "baseline", "variant"] {
            assert!(field(name).as_str().is_some_and(|text| !text.is_empty()), "{name}: {metric}");
        }
        assert!(one_of(field("domain"), &["user", "kernel", "all"]), "{metric}");
        assert!(one_of(field("kind"), &["counted", "sampled", "modelled", "estimated"]));
        assert!(field("reason").is_string(), "{metric}");
        let verdicts = ["changed", "unchanged", "inconclusive", "not_comparable", "unavailable"];
        assert!(one_of(field("verdict"), &verdicts), "{metric}");
        if *field("verdict") == "unavailable" {
            // Nothing was read, so there are no figures.
            assert!(field("value").is_null() && field("change_ratio").is_null(), "{metric}");
        }
        for name in ["per_op", "exact"] {
            assert!(field(name).is_boolean(), "{name}: {metric}");
        }
        assert!(field("n_pairs").is_u64(), "{metric}");
        let figures = ["value_baseline", "value", "change_ratio", "ci_low", "ci_high", "ci_level"];
        for name in [&figures[..], &["p_adjusted", "mde_ratio"]].concat() {
            assert!(fields.get(name).is_some_and(number_or_null), "{name}: {metric}");
        }
        if *field("exact") == true {
            assert!(field("p_adjusted").is_null(), "{metric}");
        }
    }
    let wall = metrics.iter().find(|metric| metric["metric"] == "wall").unwrap();
    assert_eq!((&wall["source"], &wall["unit"]), (&"clock".into(), &"ns".into()));
    assert_eq!(
        (&wall["baseline"], &wall["variant"]),
        (&"seccomp=off".into(), &"seccomp=on".into())
    );
    let (base, other) = (wall["value_baseline"].as_f64().unwrap(), wall["value"].as_f64().unwrap());
    let ratio = wall["change_ratio"].as_f64().unwrap();
    assert!((ratio - (other / base - 1.0)).abs() < 1e-9, "{wall}");
    let ledger = opcost["ledger"].as_array().unwrap();
    assert!(!ledger.is_empty());
    for entry in ledger {
        assert!(entry["rule"].is_string() && entry["detail"].is_string(), "{entry}");
        assert!(one_of(&entry["severity"], &["fine", "doubtful", "refuse"]), "{entry}");
        assert!(entry["waived"].is_boolean(), "{entry}");
    }
}

#[test]
fn every_list_has_json() {
    let lab = recorded();
    for what in ["workloads", "events", "recordings"] {
        let list = lab.json(&["list", what, "--json"]);
        assert!(!list.as_array().unwrap().is_empty(), "{what}");
    }
    assert!(lab.json(&["doctor", "--json"]).to_string().contains("perf"));
    let fresh = Lab::new();
    assert_eq!(fresh.json(&["list", "recordings", "--json"]), serde_json::json!([]));
    assert!(!fresh.store().exists());
}

#[test]
fn csv_has_one_row_a_run_with_the_integers_of_the_json() {
    let lab = recorded();
    let document = lab.json(&["show", "--json"]);
    let rows = lab.runs("last");
    assert_eq!(rows.len(), 4);
    let cell = |row: &Vec<(String, String)>, name: &str| -> String {
        row.iter().find(|(head, _)| head == name).unwrap_or_else(|| panic!("{name}")).1.clone()
    };
    for result in document["results"].as_array().unwrap() {
        let of_variant =
            rows.iter().filter(|row| result["command"] == cell(row, "variant").as_str());
        let walls: Vec<u64> =
            of_variant.map(|row| cell(row, "clock wall [ns]").parse().unwrap()).collect();
        let times: Vec<u64> = result["times"]
            .as_array()
            .unwrap()
            .iter()
            .map(|time| (time.as_f64().unwrap() * 1e9).round() as u64)
            .collect();
        assert_eq!(walls, times);
    }
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(cell(row, "run"), number.to_string());
        assert_eq!(cell(row, "ops"), "2000");
        assert_eq!(cell(row, "outcome"), "finished");
        assert_eq!(cell(row, "recording"), document["opcost"]["recording"].as_str().unwrap());
    }
}

/// The cells of a table row; `\|` is text.
fn cells(line: &str) -> Vec<String> {
    let line = line.replace("\\|", "\u{1}");
    line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect()
}

#[test]
fn markdown_tables_are_well_formed() {
    let lab = Lab::new();
    let args = ["compare", "sh -c 'true | true'", "sh -c '< /dev/null true'", "sh -c :", "-n", "2"];
    let text = lab.output(&[&args[..], &["--all", "--format", "markdown"]].concat());
    let lines: Vec<&str> = text.lines().collect();
    let heads: Vec<usize> =
        (0..lines.len()).filter(|line| lines[*line].starts_with("| metric")).collect();
    assert_eq!(heads.len(), 2, "a table for each comparison:\n{text}");
    for head in heads {
        assert_eq!(lines[head - 1], "", "a table stands by itself");
        let columns = cells(lines[head]).len();
        assert!(cells(lines[head])[1].contains("true \u{1} true"), "{}", lines[head]);
        let dashes = |cell: &String| {
            let inner = cell.trim_matches(':');
            !inner.is_empty() && inner.chars().all(|c| c == '-')
        };
        assert!(cells(lines[head + 1]).iter().all(dashes), "{}", lines[head + 1]);
        let rows: Vec<&&str> =
            lines[head + 1..].iter().take_while(|line| line.starts_with('|')).collect();
        assert!(rows.len() > 5);
        for row in rows {
            assert_eq!(cells(row).len(), columns, "{row}");
            assert!(row.ends_with('|'), "{row}");
        }
    }
}

/// Whether a line has Go's benchmark format: empty, `key: value`, or a name, the number of
/// iterations and pairs of value and unit (<https://go.dev/design/14313-benchmark-format>).
fn is_benchmark_line(line: &str) -> bool {
    if line.is_empty() {
        return true;
    }
    let Some(rest) = line.strip_prefix("Benchmark") else {
        let Some((key, value)) = line.split_once(':') else { return false };
        let lower = key.chars().next().is_some_and(char::is_lowercase);
        let word = !key.contains(|c: char| c.is_whitespace() || c.is_uppercase());
        return lower && word && (value.is_empty() || value.starts_with([' ', '\t']));
    };
    let mut fields = rest.split_whitespace();
    let name = fields.next().unwrap_or_default();
    let named = !rest.starts_with(' ') && !name.chars().next().is_some_and(char::is_lowercase);
    let iterations = fields.next().and_then(|text| text.parse::<u64>().ok());
    let pairs: Vec<&str> = fields.collect();
    let numbers = pairs.iter().step_by(2).all(|text| text.parse::<f64>().is_ok());
    named
        && iterations.is_some_and(|n| n > 0)
        && pairs.len().is_multiple_of(2)
        && numbers
        && !pairs.is_empty()
}

#[test]
fn benchfmt_lines_follow_the_grammar_of_go() {
    assert!(is_benchmark_line("BenchmarkX/variant=a 1 2.5 ns/op"));
    for wrong in ["Benchmarkx 1 2 ns/op", "BenchmarkX 0 1 ns/op", "BenchmarkX 1 2", "Key: v", "x"] {
        assert!(!is_benchmark_line(wrong), "{wrong}");
    }
    let lab = Lab::new();
    let odd = ["compare", "sh -c 'exit 0'", "--variant", "b c/d\te=sh -c :", "-n", "4"];
    for args in [&TINY[..], &odd] {
        let text = lab.output(&[args, &["--format", "benchfmt"]].concat());
        for line in text.lines() {
            assert!(is_benchmark_line(line), "{line}");
        }
        let benchmarks = text.lines().filter(|line| line.starts_with("Benchmark")).count();
        assert_eq!(benchmarks, if args == TINY { 4 } else { 8 });
        assert!(text.contains(" ns/op"), "{text}");
    }
}

#[test]
fn benchstat_reads_benchfmt() {
    let lab = recorded();
    lab.output(&["show", "--export-benchfmt", "runs.bench"]);
    let tool = if has_program("benchstat") {
        "benchstat"
    } else if has_program("go") {
        "go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da"
    } else {
        crate::skip::skip!("there is neither benchstat nor go here");
        return;
    };
    let mut probe = lab.shell(&format!("{tool} /dev/null"));
    if !probe.env("GOFLAGS", "-mod=mod").output().unwrap().status.success() {
        crate::skip::skip!("'{tool}' does not work here (no network?)");
        return;
    }
    let mut command = lab.shell(&format!("{tool} -col /variant runs.bench"));
    let ended = command.env("GOFLAGS", "-mod=mod").spawn().unwrap().end().expect(0);
    for part in ["seccomp=off", "seccomp=on", "Tiny", "sec/op"] {
        assert!(ended.stdout.contains(part), "no '{part}' in:\n{}", ended.stdout);
    }
    assert!(!ended.stderr.contains("runs.bench:"), "it complains of lines: {}", ended.stderr);
}

#[test]
fn exports_are_what_the_formats_print() {
    let lab = Lab::new();
    let mut args = TINY.to_vec();
    let formats = ["text", "json", "markdown", "csv", "benchfmt"];
    let flags: Vec<(String, String)> =
        formats.iter().map(|name| (format!("--export-{name}"), format!("out.{name}"))).collect();
    for (flag, file) in &flags {
        args.extend([flag.as_str(), file.as_str()]);
    }
    lab.output(&args);
    for name in formats {
        let mut show = lab.command(&["show", "--format", name]);
        // Files are 80 columns wide.
        let ended = show.env("COLUMNS", "80").spawn().unwrap().end().expect(0);
        assert_eq!(lab.read(&format!("out.{name}")), ended.stdout, "{name}");
    }
    std::fs::create_dir(lab.path("folder")).unwrap();
    lab.run(&["show", "--export-json", "folder"]).expect(2).says(&["folder: it is a folder"]);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let lab = recorded();
    let commands: [&[&str]; 7] = [
        &["show"],
        &["show", "--json"],
        &["list", "events"],
        &["list", "recordings"],
        &["man"],
        &["completions", "bash"],
        &["compare", "--dry-run", "true", "sh -c :"],
    ];
    for args in commands {
        let mut child = lab.start(args);
        drop(child.stdout.take());
        let ended = child.end();
        assert_eq!(ended.status, Some(0), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stderr, "", "{args:?}");
    }
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    let lab = recorded();
    const ESCAPE: char = '\u{1b}';
    let plain = lab.run(&["show"]).expect(0);
    assert!(!plain.stdout.contains(ESCAPE) && !plain.stderr.contains(ESCAPE));
    if !needs::programs(&["script"]) {
        return;
    }
    let on_terminal = |line: &str| {
        let line = format!("TERM=xterm script -qec '{line}' /dev/null");
        lab.shell(&line).spawn().unwrap().end().expect(0).stdout
    };
    assert!(on_terminal("$OPCOST show").contains(ESCAPE), "a terminal gets colour");
    for line in [
        "NO_COLOR=1 $OPCOST show",
        "$OPCOST show --no-color",
        "$OPCOST --no-color show",
        "TERM=dumb $OPCOST show",
        "$OPCOST show | cat",
    ] {
        assert!(!on_terminal(line).contains(ESCAPE), "{line}");
    }
}

/// The long options that a command's help names.
fn flags(help: &str) -> Vec<String> {
    let mut flags: Vec<String> = help
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('-'))
        .filter_map(|line| line.split([' ', ',', '=', '[']).find(|word| word.starts_with("--")))
        .map(str::to_string)
        .collect();
    flags.sort();
    flags.dedup();
    flags
}

#[test]
fn the_manual_pages_render_and_name_every_flag() {
    let lab = Lab::new();
    lab.write("pages/.keep", "");
    lab.run(&["man", "--folder", "pages"]).expect(0);
    let overview = lab.output(&["man"]).replace("\\-", "-");
    assert_eq!(lab.read("pages/opcost.1").replace("\\-", "-"), overview);
    for part in [".SH FILES", ".SH ENVIRONMENT", ".SH EXIT STATUS", "opcost-compare(1)"] {
        assert!(overview.contains(part), "no {part} in {overview}");
    }
    assert!(!overview.contains("work-process"));
    let pages = files(&lab.path("pages"));
    assert!(pages.len() > 25, "{pages:?}");
    for command in
        ["compare", "run", "resume", "show", "list", "kernel build", "kernel list", "doctor", "man"]
    {
        let page = lab.output(&["man", command.split(' ').next().unwrap()]).replace("\\-", "-");
        assert!(
            page.to_lowercase().contains(&format!("opcost {command}")),
            "no 'opcost {command}'"
        );
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        for flag in flags(&lab.output(&words)) {
            assert!(page.contains(&flag), "no {flag} of opcost {command}");
        }
    }
    assert!(lab.output(&["man", "diff"]).contains("opcost diff last \\-\\-variant native"));
    lab.run(&["man", "compere"]).expect(2).says(&["did you mean compare"]);
    lab.run(&["man", "--folder", "none"]).expect(5).says(&["cannot write 'none/opcost.1'"]);
    if !has_program("mandoc") {
        crate::skip::skip!("there is no mandoc here to render the pages");
        return;
    }
    for page in pages.iter().filter(|page| page.extension().is_some_and(|suffix| suffix == "1")) {
        let mut reading = lab.shell(&format!("mandoc -T utf8 -W error {}", page.display()));
        let ended = reading.spawn().unwrap().end().expect(0);
        assert_eq!(ended.stderr, "", "mandoc warns of {}", page.display());
        assert!(ended.stdout.contains("opcost"));
    }
}

#[test]
fn every_shell_has_completions() {
    let lab = Lab::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = lab.output(&["completions", shell]);
        assert!(text.contains("OPCOST_COMPLETE"), "{shell}: {text}");
        lab.write(shell, &text);
        if ["bash", "zsh", "fish"].contains(&shell) {
            if has_program(shell) {
                lab.shell(&format!("{shell} -n {shell}")).spawn().unwrap().end().expect(0);
            } else {
                crate::skip::skip!("there is no {shell} here to check its completions");
            }
        }
    }
    lab.run(&["completions", "cmd"]).expect(2).says(&["bash"]);
}

/// The completions of the last of `words`.
fn completed(lab: &Lab, words: &[&str]) -> Vec<String> {
    let mut command = lab.command(&[&["--", "opcost"], words].concat());
    // The environment that bash's script sets (clap_complete).
    command.env("OPCOST_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_COMP_TYPE", "9");
    let ended = command.spawn().unwrap().end().expect(0);
    ended.stdout.lines().map(str::to_string).collect()
}

#[test]
fn completions_know_commands_workloads_metrics_and_recordings() {
    let lab = recorded();
    let commands = completed(&lab, &[""]);
    assert!(commands.iter().any(|word| word == "compare"), "{commands:?}");
    assert!(!commands.iter().any(|word| word == "work-process"), "{commands:?}");
    assert_eq!(completed(&lab, &["compare", "--export-bench"]), ["--export-benchfmt"]);
    assert_eq!(completed(&lab, &["compare", "-w", "sysc"]), ["syscall"]);
    assert_eq!(completed(&lab, &["compare", "--primary", "branch-m"]), ["branch-misses"]);
    assert_eq!(completed(&lab, &["show", "las"]), ["last"]);
    let recording = lab.recordings()[0]["id"].as_str().unwrap().to_string();
    for words in [&["show", &recording[..8]][..], &["diff", "last", &recording[..8]]] {
        assert_eq!(completed(&lab, words), [recording.as_str()], "{words:?}");
    }
}

#[test]
fn commands_that_opcost_uses_itself_are_not_suggested() {
    let lab = Lab::new();
    let ended = lab.run(&["work-proces"]).expect(2);
    assert!(!ended.stderr.contains("work-process"), "{}", ended.stderr);
    let ended = lab.run(&["attach-guard"]).expect(2).says(&["opcost attach?"]);
    assert!(!ended.stderr.contains("attach-guardian"), "{}", ended.stderr);
}

#[test]
fn help_goes_to_standard_output() {
    let lab = Lab::new();
    for args in [&["--help"][..], &["help", "compare"], &["compare", "-h"], &["--version"]] {
        let mut command = lab.command(args);
        let ended = command.stdin(Stdio::null()).spawn().unwrap().end().expect(0);
        assert!(ended.stdout.contains("opcost") && ended.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn one_export_may_go_to_standard_output() {
    let lab = Lab::new();
    let made = lab.output(&["compare", "true", "false", "-i", "-n", "2", "--export-json", "-"]);
    let json: serde_json::Value = serde_json::from_str(&made).expect("JSON and nothing else");
    assert_eq!(json["results"].as_array().unwrap().len(), 2);
    assert_eq!(lab.output(&["show", "--export-json", "-"]), lab.output(&["show", "--json"]));
    assert_eq!(lab.output(&["show", "--export-csv=-"]), lab.output(&["show", "--format", "csv"]));
    assert!(!lab.exists("-"), "no file has that name");
    for other in [&["--json"][..], &["--format", "text"], &["--export-csv", "-"]] {
        let args = [&["show", "--export-json", "-"], other].concat();
        lab.run(&args).expect(2).says(&["standard output takes one of them"]);
    }
}
