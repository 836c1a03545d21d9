//! Importing figures of other tools: every format, and all kinds of mistakes in a file.

use crate::lab::Lab;
use opcost_analysis::comparison::compare;
use opcost_import::import::parsed::{Data, Input, Parsed};
use opcost_import::import::problem::{Problem, ProblemKind};
use opcost_import::import::{Assembled, FORMATS, Options, ReadFile, assemble, read};
use opcost_model::recording::{Recording, State};
use opcost_record::Dictionary;
use opcost_report::render::{self, Style, View};
use opcost_sys::budget::Budget;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/imports").join(name)
}

fn argument(name: &str) -> String {
    sample(name).display().to_string()
}

fn parse(name: &str) -> (&'static str, Parsed) {
    let path = sample(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let (format, parsed) =
        read(&Input { path: &path, text: &text, budget: &Budget::default() }, None).unwrap();
    (format.name, parsed)
}

fn parse_text(text: &str, format: Option<&str>) -> Result<Parsed, Problem> {
    read(&Input { path: Path::new("given"), text, budget: &Budget::default() }, format)
        .map(|(_, parsed)| parsed)
}

/// Each series as "case/variant metric unit: figures".
fn lines(parsed: &Parsed) -> Vec<String> {
    let line = |series: &opcost_import::import::parsed::Series| {
        let name = series.case.clone().or(series.variant.clone()).unwrap_or_default();
        let figures = match &series.data {
            Data::Runs { values, .. } if values.len() > 3 => format!("{} runs", values.len()),
            Data::Runs { values, .. } => format!("{values:?}"),
            Data::Mean { mean, sd, n } => format!("{mean} {sd:?} {n:?}"),
            Data::Error { mean, error } => format!("{mean} ± {error:.4}"),
        };
        let per_op = if series.per_op { "/op" } else { "" };
        format!("{name} | {}{per_op} | {} | {figures}", series.metric, series.unit)
    };
    parsed.series.iter().map(line).collect()
}

#[test]
fn every_format_is_recognised_and_read() {
    let expected: [(&str, &str, usize, &str); 44] = [
        ("hyperfine.json", "hyperfine", 6, "gzip -1 -c data | wall | s | 12 runs"),
        ("google-benchmark.json", "google-benchmark", 8, "BM_Copy/64 | wall/op | ns | [14.0]"),
        (
            "google-benchmark-aggregates.json",
            "google-benchmark",
            2,
            "BM_Copy | wall/op | us | 2 Some(0.1) Some(10)",
        ),
        (
            "criterion/sort/new/sample.json",
            "criterion",
            1,
            "sort | wall/op | ns | [100.0, 110.0, 100.0]",
        ),
        (
            "criterion/sort/new/estimates.json",
            "criterion",
            1,
            "sort | wall/op | ns | 103.3 Some(5.77) None",
        ),
        ("perf-stat-json.txt", "perf-stat-json", 4, " | task-clock | msec | [2.317433]"),
        (
            "perf-stat-json-repeated.txt",
            "perf-stat-json",
            3,
            " | task-clock | msec | 5.855217 ± 0.0790",
        ),
        ("perf-stat-csv.txt", "perf-stat-csv", 4, " | task-clock | msec | [2.13]"),
        ("perf-stat-csv-repeated.txt", "perf-stat-csv", 4, " | task-clock | msec | 5.63 ± 0.0512"),
        ("perf-bench-syscall.txt", "perf-bench", 1, "syscall/basic | wall/op | usecs | [0.45543]"),
        ("perf-bench-messaging.txt", "perf-bench", 1, "sched/messaging | wall | s | [1.304]"),
        ("will-it-scale.txt", "will-it-scale", 3, "getppid | operations | 1/s | [7017152.0]"),
        ("will-it-scale.csv", "will-it-scale", 4, " | 1 processes | 1/s | [7017152.0]"),
        ("benchfmt.txt", "benchfmt", 30, "Sort | wall/op | ns | [44840.0]"),
        ("bonnie-whole.csv", "bonnie", 12, " | putc | K/s | [641.0]"),
        ("lmbench.txt", "lmbench", 4, " | Simple syscall | microseconds | [0.1234]"),
        ("samples.csv", "samples", 16, "old | wall | ms | [10.1]"),
        (
            "google-benchmark-counters-old.json",
            "google-benchmark",
            36,
            "BM_Copy/64 | wall/op | ns | [2.471285469101948]",
        ),
        (
            "google-benchmark-only-aggregates.json",
            "google-benchmark",
            6,
            "BM_Copy/64 | wall/op | ns | 2.520447413456801 Some(0.13506063666764703) Some(5)",
        ),
        ("pytest-benchmark-old.json", "pytest-benchmark", 2, "test_total | wall/op | s | 12 runs"),
        (
            "pytest-benchmark-saved.json",
            "pytest-benchmark",
            2,
            "test_total | wall/op | s | 0.00034075220588761874 Some(0.002479225347630686) Some(447)",
        ),
        ("pyperf-old.json", "pyperf", 2, "total | wall/op | s | 5 runs"),
        (
            "catch2-old.xml",
            "catch2",
            3,
            "sums & <joins>: sum | wall/op | ns | 1088.19 Some(3.2658) Some(30)",
        ),
        (
            "catch2-new.xml",
            "catch2",
            3,
            "sums & <joins>: sum | wall/op | ns | 1413.33 Some(4.87985) Some(30)",
        ),
        (
            "criterion-baselines/criterion/sum/whole/base/sample.json",
            "criterion",
            1,
            "sum/whole | wall/op | ns | 20 runs",
        ),
        ("pyperf-new.json", "pyperf", 2, "total | wall/op | s | 5 runs"),
        ("go-test.json", "go-test-json", 18, "Sort | wall/op | ns | [47425.0]"),
        (
            "jmh.json",
            "jmh",
            18,
            "Sums.copy size=10 (thrpt) | throughput | ops/us | [5.406717280283343, 10.616059664811106, 8.49442055242641]",
        ),
        (
            "jmh-sample.json",
            "jmh",
            20,
            "Sums.sum size=10 (sample) | wall/op | us | [0.028780645161290322, 0.06954214876033059, 0.029364347826086955]",
        ),
        (
            "benchmark-dotnet.json",
            "benchmark-dotnet",
            6,
            "Sums.Loop(Size=1000) | wall/op | ns | [402.0, 403.0, 404.0]",
        ),
        (
            "benchmark-dotnet-brief.json",
            "benchmark-dotnet",
            1,
            "Sums.Loop | wall/op | ns | 402.5 Some(4.5) Some(20)",
        ),
        (
            "vitest.json",
            "vitest",
            2,
            "sum.bench.mjs > sums > for | wall/op | ms | 0.03055214418859267 Some(2.2202345523389706) Some(5472)",
        ),
        ("mitata.json", "mitata", 6, "sums > for | wall/op | ns | 15 runs"),
        ("benny.json", "benchmark-js", 2, "for | wall/op | s | 7 runs"),
        ("benny-plain.json", "benchmark-js", 2, "for | throughput | 1/s | 286088 None None"),
        ("benchmark-js.json", "benchmark-js", 2, "for | wall/op | s | 5 runs"),
        ("fio.json", "fio", 12, "read-small | read bandwidth | B/s | [17476266.0]"),
        (
            "hyperfine.csv",
            "hyperfine-csv",
            6,
            "sleep 0.001 | wall | s | 0.006139924333333334 Some(0.00655602203925691) None",
        ),
        (
            "perf-stat.txt",
            "perf-stat",
            6,
            "sh -c i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done | task-clock | msec | [1.91]",
        ),
        (
            "perf-stat-repeated.txt",
            "perf-stat",
            4,
            "true | task-clock | msec | 0.5 Some(0.0819518913753673) Some(5)",
        ),
        ("perf-stat-interval.txt", "perf-stat", 2, " | task-clock rate | msec/s | 11 runs"),
        ("sysbench-cpu.txt", "sysbench", 3, " | events | 1/s | [391.29]"),
        ("sysbench-memory.txt", "sysbench", 2, " | operations | 1/s | [1640496.98]"),
        ("sysbench-threads.txt", "sysbench", 3, " | events | 1/s | [43.66812227074236]"),
    ];
    for (file, format, series, first) in expected {
        let (found, parsed) = parse(file);
        assert_eq!((found, parsed.series.len()), (format, series), "{file}: {:?}", lines(&parsed));
        assert_eq!(lines(&parsed)[0], first, "{file}");
    }
    assert_eq!(parse("summary.csv").0, "summary");
}

#[test]
fn what_newer_formats_leave_out_is_said() {
    let said = |name: &str| -> Vec<String> {
        let omitted = parse(name).1.omitted;
        omitted.iter().map(|left| format!("{}: {}", left.what, left.why)).collect()
    };
    assert_eq!(said("mitata.json"), ["sums > fails: it ended with an error"]);
    assert_eq!(said("benchmark-dotnet.json"), ["Sums.Throws: it ended without a figure"]);
    assert!(
        said("benny-plain.json")[1].starts_with("the samples of reduce: the file has their rate")
    );
    assert!(said("vitest.json")[0].contains("benchmark.includeSamples"));
    assert!(said("hyperfine.csv")[0].contains("--export-json writes both"));
    assert_eq!(said("perf-stat.txt"), ["cycles: not supported where it was measured"]);
    assert_eq!(
        said("perf-stat-interval.txt"),
        [
            "1 intervals of task-clock: they are shorter than half of the others",
            "1 intervals of page-faults: they are shorter than half of the others",
            "12 counts of intervals: not counted, not supported or multiplexed there",
        ]
    );
    assert_eq!(
        said("sysbench-memory.txt"),
        [
            "latency: sysbench rounded it to 0.00 ms",
            "latency, 95 %: sysbench rounded it to 0.00 ms"
        ]
    );
    // The second launch of three has the mean of its three iterations.
    let (_, parsed) = parse("benchmark-dotnet.json");
    assert!(lines(&parsed)[3].ends_with("| wall/op | ns | [903.0, 904.0, 905.0]"));
    assert_eq!(parsed.cpu.as_deref(), Some("AMD EPYC"));
    assert_eq!(parse("benchmark-dotnet-brief.json").1.cpu.as_deref(), Some("AMD EPYC"));
    assert_eq!(parse("sysbench-cpu.txt").1.threads, Some(1));
    // 66 page faults in the first 0.107676849 s.
    let (_, parsed) = parse("perf-stat-interval.txt");
    let Data::Runs { values, .. } = &parsed.series[1].data else { panic!("no runs") };
    assert_eq!((values[0], values[1]), (66.0 / 0.107676849, 0.0));
}

#[test]
fn lines_of_several_packages_tests_and_commands_are_kept_apart() {
    let event = |package: &str, output: &str| {
        format!(
            "{}\n",
            serde_json::json!({"Action": "output", "Package": package, "Output": output})
        )
    };
    let text = [
        event("a", "BenchmarkSum-2 \t"),
        event("b", "BenchmarkSum-2 \t 5\t 7 ns/op\n"),
        event("a", " 5\t 9 ns/op\n"),
        event("a", "    a_test.go:3: BenchmarkFake 1 2 ns/op\n"),
        "{\"Action\":\"fail\",\"Package\":\"b\",\"Test\":\"TestB\"}\n".into(),
    ];
    let parsed = parse_text(&text.concat(), None).unwrap();
    assert_eq!(lines(&parsed), ["b.Sum | wall/op | ns | [7.0]", "a.Sum | wall/op | ns | [9.0]"]);
    assert_eq!(parsed.omitted[0].what, "TestB");
    let text = "\n Performance counter stats for 'a':\n\n 1,234,567 instructions:u # 1.2 insn per cycle ( +- 1.00% ) (66.60%)\n\
        12 faults\n 0.5 seconds time elapsed\n\n Performance counter stats for 'b' (4 runs):\n\n\
        2.000.001      cycles   ( +-  2,00% )\n 7 faults ( +- 10.00% )\n";
    let parsed = parse_text(text, None).unwrap();
    assert_eq!(
        lines(&parsed),
        [
            "a | faults |  | [12.0]",
            "a | wall | s | [0.5]",
            "b | cycles |  | 2000001 Some(80000.04) Some(4)",
            "b | faults |  | 7 Some(1.4) Some(4)"
        ]
    );
    assert!(parsed.omitted[0].why.contains("66.6 % of the time"), "{:?}", parsed.omitted);
    let fio = "fio: a warning\n{\"fio version\": \"fio-2.1\", \"jobs\": [\
        {\"jobname\": \"j\", \"groupid\": 0, \"read\": {\"io_bytes\": 9, \"bw\": 2, \"iops\": 3.5, \"lat\": {\"mean\": 4.5}}},\
        {\"jobname\": \"j\", \"groupid\": 0, \"error\": 5}]}";
    let parsed = parse_text(fio, None).unwrap();
    assert_eq!(
        lines(&parsed),
        [
            "j | read bandwidth | B/s | [2048.0]",
            "j | read IOPS | 1/s | [3.5]",
            "j | read latency | us | [4.5]"
        ]
    );
    assert_eq!(parsed.omitted.len(), 2, "{:?}", parsed.omitted);
    let csv = "command,mean,stddev,median,user,system,min,max,parameter_n\na 1,2,,2,1,0,2,2,1\n";
    assert_eq!(lines(&parse_text(csv, None).unwrap())[0], "a 1 | wall | s | 2 None None");
}

#[test]
fn tool_version_and_date_are_kept() {
    let (_, parsed) = parse("google-benchmark.json");
    assert_eq!(parsed.version.as_deref(), Some("v1.8.3"));
    assert_eq!(parsed.date.as_deref(), Some("2026-11-21T12:00:00+00:00"));
    assert_eq!(parsed.omitted[0].what, "BM_Open");
    assert_eq!(parse("perf-stat-json.txt").1.date.as_deref(), Some("Sat Nov 21 12:00:06 2026"));
    assert_eq!(parse("bonnie.csv").1.version.as_deref(), Some("2.00a"));
    assert_eq!(parse("benchfmt.txt").1.cpu.as_deref(), Some("AMD EPYC"));
}

#[test]
fn what_has_no_figure_is_an_omission() {
    let (_, parsed) = parse("perf-stat-json.txt");
    let omitted: Vec<&str> = parsed.omitted.iter().map(|left| left.what.as_str()).collect();
    assert_eq!(omitted, ["cycles", "instructions", "branches", "branch-misses"]);
    assert_eq!(parsed.omitted[0].why, "not supported where it was measured");
    assert_eq!(parse("bonnie.csv").1.omitted.len(), 8);
    assert_eq!(parse("lmbench.txt").1.omitted[0].what, "2 lines of figures");
    let multiplexed = "{\"counter-value\" : \"9.0\", \"unit\" : \"\", \"event\" : \"cycles\", \"event-runtime\" : 5, \"pcnt-running\" : 43.00}\n\
                       {\"counter-value\" : \"1.0\", \"unit\" : \"\", \"event\" : \"cs\", \"event-runtime\" : 5, \"pcnt-running\" : 100.00}\n";
    let parsed = parse_text(multiplexed, None).unwrap();
    assert_eq!(lines(&parsed), [" | cs |  | [1.0]"]);
    assert!(parsed.omitted[0].why.contains("43 % of the time"), "{:?}", parsed.omitted);
}

#[test]
fn a_wrong_file_names_what_is_wrong_and_where() {
    let problem = |text: &str, format| parse_text(text, format).unwrap_err().to_string();
    for (text, format, says) in [
        ("", None, "the file is empty"),
        ("# a page of prose\n", None, "no known format"),
        ("prose", Some("hyperfine"), "this is not hyperfine"),
        ("{\"results\": [{\"command\": \"a\", \"ti", None, "the file ends too soon"),
        ("{\"results\": [], \"command\": 1}", None, "'results' is empty"),
        ("{\"results\": [{\"command\": \"a\"}]}", None, "no figure in it"),
        ("{\"results\": [{\"command\": \"a\", \"times\": [NaN]}]}", None, "this is not hyperfine"),
        ("{\"machine_info\": {}, \"benchmarks\": []}", None, "'benchmarks' is empty"),
        (
            "{\"machine_info\": {}, \"benchmarks\": [{\"name\": \"a\", \"stats\": {\"mean\": \"x\"}}]}",
            None,
            "this is not pytest-benchmark: invalid type",
        ),
        ("{\"machine_info\": {}, \"benchmarks\": [{\"na", None, "the file ends too soon"),
        (
            "{\"benchmarks\": [], \"runs\": 0, \"metadata\": {\"perf_version\": \"2\"}}",
            None,
            "'benchmarks' is empty",
        ),
        (
            "{\"benchmarks\": [{\"runs\": [{\"warmups\": [[1, 2]]}]}], \"metadata\": {\"perf_version\": \"2\"}}",
            None,
            "its processes only calibrated",
        ),
        (
            "{\"benchmarks\": [{\"runs\": [{\"values\": [1e999]}]}], \"metadata\": {\"perf_version\": \"2\"}}",
            None,
            "this is not pyperf: number out of range",
        ),
        ("<Catch name=\"a\">\n<TestCase name=\"b\">\n", None, "2 elements are open"),
        ("<Catch name=\"a\"><Te", None, "the file ends too soon"),
        ("<Catch name=\"a\"></Catch>", None, "no figure in it"),
        ("<Catch name=\"a\"></TestCase>", None, "this is not Catch2's XML"),
        (
            "<Catch name=\"a\">\n<BenchmarkResults name=\"b\" samples=\"0\"/></Catch>",
            None,
            "line 2: '0' is no number (the samples of b)",
        ),
        (
            "<Catch name=\"a\"><BenchmarkResults name=\"b\" samples=\"5\"><mean value=\"nan\"/>",
            None,
            "line 1: a figure of b is nan, which is not finite",
        ),
        (
            "<Catch name=\"a\"><BenchmarkResults name=\"&x;\" samples=\"5\"/></Catch>",
            None,
            "this is not Catch2's XML",
        ),
        (
            "{\"results\": [], \"opcost\": {\"schema\": 2}}",
            None,
            "its schema is 2, and this opcost reads 1",
        ),
        (
            "{\"results\": [], \"opcost\": {\"schema\": 1}}",
            None,
            "the export is older than 'figures'",
        ),
        ("{\"results\": [], \"opcost\": {\"schema\": \"x\"}}", None, "this is not opcost's JSON"),
        ("{\"iters\": [1.0, 2.0], \"times\": [3.0]}", None, "2 numbers of iterations and 1 times"),
        ("{\"iters\": [0.0], \"times\": [3.0]}", None, "no iterations"),
        ("1.5,msec,task-clock,15\n", Some("perf-stat-csv"), "line 1: this is not perf stat -x"),
        ("1.5,msec,task-clock,15,\n", None, "line 1: the file ends too soon"),
        (
            "nan,msec,task-clock,15,100.0,,\n",
            None,
            "line 1: task-clock is nan, which is not finite",
        ),
        ("BenchmarkSort-2 100 12 ns/op 7\n", None, "line 1: the file ends too soon"),
        ("BenchmarkSort-2 100 +Inf ns/op\n", None, "line 1: the figure in ns/op is +Inf"),
        ("testcase:x\nmeasurement\nmin:1 max:1 total:1\n", None, "no line 'average:'"),
        ("1.98,2.00a,vm,1,17,64M,,8192,5,641\n", None, "line 1: the file ends too soon (10 fields"),
        (
            "Simple read: nan microseconds\n",
            None,
            "line 1: Simple read is nan, which is not finite",
        ),
        (
            "{\"Action\":\"output\",\"Output\":\"BenchmarkA 1 2 ns/op 3\\n\"}\n",
            None,
            "line 1: the file ends too soon",
        ),
        (
            "{\"Action\":\"output\",\"Output\":\"x\\n\"}\n{\"Act",
            None,
            "line 2: the file ends too soon",
        ),
        ("[{\"benchmark\": \"a\", \"primaryMetric\": 1}]", None, "this is not JMH's JSON"),
        (
            "[{\"benchmark\": \"a.b\", \"mode\": \"ss\", \"primaryMetric\": {\"score\": \"NaN\"}}]",
            None,
            "no figure in it; a.b: it has no finite score",
        ),
        ("{\"HostEnvironmentInfo\": {}, \"Benchmarks\": [{\"Ty", None, "the file ends too soon"),
        (
            "{\"files\": [{\"groups\": [{\"fullName\": 1, \"benchmarks\": []}]}]}",
            None,
            "this is not vitest's JSON",
        ),
        ("{\"layout\": [], \"benchmarks\": [{\"runs\": [{}]}]}", None, "this is not mitata's JSON"),
        (
            "{\"results\": [{\"ops\": 1}], \"percentSlower\": 0}",
            None,
            "this is not Benchmark.js's or benny's",
        ),
        ("{\"fio version\": \"3\", \"jobs\": []}", None, "no figure in it"),
        (
            "command,mean,stddev,median,user,system,min,max\na,x,,,,,,\n",
            None,
            "line 2: 'x' is no number (mean of a)",
        ),
        (
            "command,mean,stddev,median,user,system,min,max,more\n",
            None,
            "column 'more' means nothing",
        ),
        (
            " Performance counter stats for 'a':\n\n x seconds time elapsed\n",
            None,
            "line 3: 'x' is no number (wall)",
        ),
        (
            "sysbench 1.0.20\nRunning the test with following options:\n",
            None,
            "no line 'total number of events:'",
        ),
        ("variant,metric,value\na,wall,x\n", None, "line 2: 'x' is no number (wall)"),
        ("variant,metric,value\na,wall,inf\n", None, "line 2: wall is inf, which is not finite"),
        ("variant,metric,value\na,wall\n", None, "line 2: this is not a CSV of samples: 2 fields"),
        ("variant,metric,value\n,wall,1\n", None, "line 2: 'variant' is empty"),
        ("variant,metric,value,weight\na,b,1,2\n", None, "column 'weight' means nothing"),
        ("variant,metric,value,block\na,b,1,x\n", None, "line 2: 'x' is no number (the block)"),
        ("variant,metric,value\n", None, "no figure in it"),
        ("variant,value\na,1\n", Some("samples"), "there is no column 'metric'"),
        ("variant,metric,mean,n\na,b,1,0\n", None, "line 2: '0' is no number (the number of runs)"),
        (
            "variants = [\"a\"]\n[[row]]\nmetric = 1\n",
            None,
            "line 3: this is not a published table",
        ),
        ("variants = [\"a\"]\n[[row]]\nmetric = \"x\"\nmean = [1, 2]\n", None, "more entries than"),
        (
            "variants = [\"a\", \"b\"]\n[[row]]\nmetric = \"x\"\nmean = [1, 2]\nchange = [\"much\"]\n",
            None,
            "'much' is no number",
        ),
    ] {
        let got = problem(text, format);
        assert!(got.contains(says), "{text:?} gave: {got}");
    }
    assert_eq!(parse_text("x", None).unwrap_err().kind, ProblemKind::UnknownFormat);
}

/// Imports texts under the names of files; returns the JSON, or the error message.
fn import(texts: &[(&str, &str)], more: &[&str]) -> Result<Value, String> {
    let lab = Lab::new();
    let mut args = vec!["import", "--json"];
    for (name, text) in texts {
        lab.write(name, text);
        args.push(name);
    }
    let ended = lab.run(&[&args[..], more].concat());
    match ended.status {
        Some(0) => Ok(serde_json::from_str(&ended.stdout).unwrap()),
        status => {
            assert_eq!((status, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
            // A file that cannot be read leaves nothing in the store.
            assert!(!lab.exists("store.sqlite"));
            Err(ended.stderr)
        }
    }
}

#[test]
fn figures_that_make_no_sense_are_refused() {
    let csv = |rows: &str| format!("variant,metric,value,unit\n{rows}");
    for (rows, says) in [
        ("a,speed,1,m/s\nb,speed,2,km/h\n", "line 3: speed is given in 'm/s' and in 'km/h'"),
        ("a,x,1,s\nb,x,2,MiB\n", "line 3: x is given in 'a time' and in 'bytes'"),
        ("a,wall,1,\n", "line 2: wall is a time, in ns, us, ms or s, and here it is in ''"),
        ("a,instructions,1,s\n", "line 2: instructions is a count"),
        ("a,wall,-1,s\n", "line 2: wall is -1, and there is no time, size or count below 0"),
    ] {
        let error = import(&[("x.csv", &csv(rows))], &[]).unwrap_err();
        assert!(
            error.contains(says) && error.contains("'x.csv'") | error.contains("import"),
            "{error}"
        );
    }
    let huge = import(&[("x.csv", &csv("a,wall,1e305,s\n"))], &[]).unwrap_err();
    assert!(huge.contains("which is not finite"), "{huge}");
    let empty = import(&[("x.json", "{\"iters\": [], \"times\": []}")], &[]).unwrap_err();
    assert!(empty.contains("wall has no run"), "{empty}");
    let twice = "variant,metric,mean\na,x,1\na,x,2\n";
    assert!(import(&[("x.csv", twice)], &[]).unwrap_err().contains("x of 'a' is given twice"));
    let summary = "variant,metric,mean,sd,n\na,x,1,-2,5\n";
    assert!(import(&[("x.csv", summary)], &[]).unwrap_err().contains("the spread of x is -2"));
    let good = csv("a,wall,1,s\n");
    let none = import(&[("x.csv", &good)], &["--baseline", "c"]).unwrap_err();
    assert!(none.contains("--baseline c: there are only 'a'"), "{none}");
    let none = import(&[("x.csv", &good)], &["--primary", "cycles"]).unwrap_err();
    assert!(none.contains("--primary cycles: there is no such metric; there are: wall"), "{none}");
    let none = import(&[("x.csv", &good)], &["--date", "soon"]).unwrap_err();
    assert!(none.contains("--date soon: expected a date"), "{none}");
    let lab = Lab::new();
    lab.run(&["import", "absent.csv"]).expect(2).says(&["cannot read 'absent.csv'"]);
    lab.run(&["import", "."]).expect(2).says(&["there is no new/sample.json in this folder"]);
    lab.write("binary", [0xff, 0xfe, 0x00]);
    lab.run(&["import", "binary"]).expect(2).says(&["'binary' is no text"]);
}

fn metric<'a>(json: &'a Value, name: &str) -> &'a Value {
    let metrics = json["opcost"]["metrics"].as_array().unwrap();
    metrics.iter().find(|metric| metric["metric"] == name).unwrap()
}

#[test]
fn units_are_converted() {
    let text = "variant,metric,value,unit\na,wall,1.5,ms\nb,wall,1600,us\n";
    let json = import(&[("x.csv", text)], &[]).unwrap();
    let wall = metric(&json, "wall");
    assert_eq!(
        (wall["value_baseline"].as_f64(), wall["value"].as_f64()),
        (Some(1.5e6), Some(1.6e6))
    );
    assert_eq!((&wall["unit"], &wall["verdict"]), (&"ns".into(), &"inconclusive".into()));
    assert_eq!((&wall["reason"], &wall["ci_low"]), (&"one figure a side".into(), &Value::Null));
}

#[test]
fn verdicts_fit_what_is_known() {
    let runs = |variant: &str, from: u32, n: u32| -> String {
        (0..n).map(|i| format!("{variant},wall,{},ms\n", from + i * 7 % 10)).collect()
    };
    let head = "variant,metric,value,unit\n";
    let of = |text: String| {
        let json = import(&[("x.csv", &text)], &[]).unwrap();
        let wall = metric(&json, "wall").clone();
        let word = |name: &str| wall[name].as_str().unwrap().to_string();
        (
            word("verdict"),
            word("reason"),
            json["opcost"]["conclusions"][0].as_str().unwrap().to_string(),
        )
    };
    let (verdict, _, conclusion) = of([head, &runs("a", 100, 8), &runs("b", 200, 9)].concat());
    assert_eq!(verdict, "changed");
    assert!(
        conclusion.contains("the order of runs is unknown, so drift cannot be excluded"),
        "{conclusion}"
    );
    let (verdict, ..) = of([head, &runs("a", 100, 8), &runs("b", 100, 8)].concat());
    assert_eq!(verdict, "unchanged");
    let (verdict, reason, _) = of([head, &runs("a", 100, 3), &runs("b", 200, 3)].concat());
    assert_eq!((verdict.as_str(), reason.as_str()), ("inconclusive", "needs 5 runs each"));
    let same = "a,wall,5,ms\n".repeat(6);
    let (verdict, reason, _) =
        of([head, &same, &same.replace('a', "b").replace("wbll", "wall")].concat());
    assert_eq!((verdict.as_str(), reason.as_str()), ("unchanged", "the same in every run"));
    // Times without any spread were rounded, by an unknown amount.
    let other = "b,wall,6,ms\n".repeat(6);
    let (verdict, reason, _) = of([head, &same, &other].concat());
    assert_eq!((verdict.as_str(), reason.as_str()), ("inconclusive", "no spread at all"));
}

#[test]
fn blocks_are_paired_and_counts_are_exact() {
    let lab = Lab::new();
    let json = lab.json(&["import", "--json", &argument("samples.csv")]);
    let wall = metric(&json, "wall");
    assert_eq!((&wall["n_pairs"], &wall["verdict"]), (&6.into(), &"inconclusive".into()));
    assert_eq!(wall["reason"], "needs 7 blocks");
    let text = lab.output(&["show", "last"]);
    assert!(text.contains("▼ differs  exact") && !text.contains("real"), "{text}");
    let instructions = metric(&json, "instructions");
    assert_eq!(
        (&instructions["exact"], &instructions["verdict"]),
        (&true.into(), &"changed".into())
    );
    assert_eq!(
        instructions["change_ratio"].as_f64().map(|ratio| (ratio * 1e6).round()),
        Some(-10_000.0)
    );
    let ledger = json["opcost"]["ledger"].as_array().unwrap();
    assert!(ledger[0]["detail"].as_str().unwrap().contains("names blocks"), "{ledger:?}");
}

#[test]
fn a_metric_that_one_side_lacks_is_said() {
    let text = "variant,metric,value,unit\na,wall,1,s\nb,wall,2,s\nb,swaps,3,\n";
    let json = import(&[("x.csv", text)], &[]).unwrap();
    let swaps = metric(&json, "swaps");
    assert_eq!(
        (&swaps["verdict"], &swaps["value_baseline"]),
        (&"unavailable".into(), &Value::Null)
    );
    assert_eq!(swaps["reason"], "not given for every variant");
}

#[test]
fn repeated_runs_of_perf_need_their_number() {
    let lab = Lab::new();
    let old = format!("old={}", argument("perf-stat-json-repeated.txt"));
    let new = format!("new={}", argument("perf-stat-csv-repeated.txt"));
    let json = lab.json(&["import", "--json", &old, &new]);
    assert_eq!(metric(&json, "task-clock")["reason"], "no spread given");
    let omitted = &json["opcost"]["imported"]["omitted"];
    assert!(omitted.to_string().contains("say --runs N"), "{omitted}");
    let json = lab.json(&["import", "--json", "--runs", "5", &old, &new]);
    let clock = metric(&json, "task-clock");
    // 5.855217 ± 1.35 % and 5.63 ± 0.91 %, standard errors of means of five.
    let t =
        (5.63 - 5.855217) / ((5.855217f64 * 0.0135).powi(2) + (5.63f64 * 0.0091).powi(2)).sqrt();
    let found = &json["opcost"]["imported"]["welch"][0];
    assert_eq!(found["label"], "task-clock");
    assert!((found["t"].as_f64().unwrap() - t).abs() < 1e-9, "{found} is not {t}");
    assert_eq!(clock["verdict"], "unchanged");
}

#[test]
fn files_or_their_benchmarks_are_the_variants() {
    let lab = Lab::new();
    let variants = |args: &[&str]| -> Vec<String> {
        let json = lab.json(&[&["import", "--json"], args].concat());
        let names = json["opcost"]["variants"].as_array().unwrap();
        names.iter().map(|variant| variant["name"].as_str().unwrap().to_string()).collect()
    };
    let bench = argument("benchfmt.txt");
    assert_eq!(variants(&[&bench]), ["Sort", "Sum"]);
    assert_eq!(variants(&[&bench, "--baseline", "Sum"]), ["Sum", "Sort"]);
    let (old, new) = (format!("old={bench}"), format!("new={bench}"));
    assert_eq!(variants(&[&old, &new]), ["old", "new"]);
    let json = lab.json(&["show", "last", "--json"]);
    let sort = metric(&json, "Sort wall");
    assert_eq!((&sort["verdict"], &sort["per_op"]), (&"unchanged".into(), &true.into()));
    let hyperfine = argument("hyperfine.json");
    assert_eq!(variants(&[&hyperfine]), ["gzip -1 -c data", "gzip -6 -c data"]);
    assert_eq!(variants(&[&argument("criterion")]), ["sort"]);
}

#[test]
fn an_import_is_an_ordinary_recording() {
    let lab = Lab::new();
    let csv = argument("summary.csv");
    let text = lab.output(&["import", &csv, "--experiment", "e", "--date", "2020-02-03"]);
    assert!(text.contains(&format!("imported from {csv} (summary)")), "{text}");
    let listed = &lab.recordings()[0];
    assert_eq!((&listed["experiment"], &listed["imported"]), (&"e".into(), &true.into()));
    assert!(lab.output(&["list", "recordings"]).contains("2020-02-03"));
    assert_eq!(lab.output(&["show", "last"]), text);
    let markdown = lab.output(&["show", "last", "--format", "markdown"]);
    assert!(markdown.contains("- imported from") && !markdown.contains("**real**"), "{markdown}");
    lab.run(&["resume", "last"]).expect(2).says(&["were imported", "opcost show"]);
    let waived = lab.output(&["show", "last", "--allow", "import-order"]);
    assert!(waived.contains("waived (import-order)"), "{waived}");
    // A mean is no run and has no benchmark line.
    let lines = lab.output(&["show", "last", "--format", "benchfmt"]);
    assert!(
        lines.contains("BenchmarkE/variant=old 1 100 MB/s") && !lines.contains("ns/op"),
        "{lines}"
    );
    // Means have neither median nor extremes.
    let json = lab.json(&["show", "last", "--json"]);
    assert_eq!(
        (&json["results"][0]["median"], &json["results"][0]["max"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(json["results"][0]["mean"], 53.31);
}

#[test]
fn what_is_exported_can_be_imported_again() {
    let lab = Lab::new();
    for name in ["samples.csv", "summary.csv", "hyperfine.json", "lmbench.txt"] {
        let first = lab.json(&["import", "--json", &argument(name)]);
        let csv = lab.output(&["show", "last", "--format", "csv"]);
        lab.write("again.csv", csv);
        let again = lab.json(&["import", "--json", "again.csv"]);
        assert_eq!(first["opcost"]["metrics"], again["opcost"]["metrics"], "{name}");
    }
}

#[test]
fn runs_exported_as_benchmark_lines_are_read_again() {
    let lab = Lab::new();
    let first = lab.json(&["import", "--json", &argument("samples.csv")]);
    lab.write("again.txt", lab.output(&["show", "last", "--format", "benchfmt"]));
    let again = lab.json(&["import", "--json", "again.txt"]);
    for name in ["wall", "instructions"] {
        assert_eq!(metric(&first, name)["value"], metric(&again, name)["value"]);
    }
}

#[test]
fn no_part_of_a_file_makes_a_figure_up() {
    let folder = sample(".");
    let mut checked = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let whole = read(&Input { path: &path, text: &text, budget: &Budget::default() }, None);
        for cut in (0..text.len()).step_by(7).filter(|cut| text.is_char_boundary(*cut)) {
            let input = Input { path: &path, text: &text[..cut], budget: &Budget::default() };
            let Ok((format, parsed)) = read(&input, None) else { continue };
            let more = parsed.series.len();
            let whole = whole.as_ref().map_or(0, |(_, parsed)| parsed.series.len());
            assert!(more <= whole, "{} up to {cut} has {more} of {whole}", path.display());
            let (label, path) = ("a".to_string(), path.display().to_string());
            let file = ReadFile { label, path, format, parsed };
            let made = assemble(&[file], &Options::default()).unwrap();
            shown(made);
            checked += 1;
        }
    }
    assert!(checked > 200, "{checked}");
}

#[test]
fn counters_have_their_unit_and_direction() {
    let lab = Lab::new();
    let [old, new] = ["old", "new"].map(|side| {
        format!("{side}={}", argument(&format!("google-benchmark-counters-{side}.json")))
    });
    let json = lab.json(&["import", "--json", &old, &new]);
    let figures = json["opcost"]["figures"].as_array().unwrap();
    let of = |name: &str| {
        let found = figures.iter().find(|figure| figure["metric"] == name).unwrap();
        [&found["unit"], &found["better"], &found["n"]].map(ToString::to_string).join(" ")
    };
    // The benchmark copies twice in the new program, and reports the bytes of one copy.
    assert_eq!(of("bytes_per_second"), "\"B/s\" \"higher\" 6");
    assert_eq!(of("items_per_second"), "\"1/s\" \"higher\" 6");
    assert_eq!(of("touched"), "\"1\" \"neither\" 6");
    assert_eq!(of("cpu-time"), "\"ns\" \"lower\" 6");
    let rate = metric(&json, "items_per_second");
    assert_eq!(rate["verdict"], "changed");
    assert!(rate["change_ratio"].as_f64().unwrap() < -0.4, "{rate}");
    let omitted = json["opcost"]["imported"]["omitted"].to_string();
    assert!(omitted.contains("it ended without a figure: no such file"), "{omitted}");
    // A file has repetitions of one benchmark and means of another: both are imported.
    let parsed = parse("google-benchmark-only-aggregates.json").1;
    assert_eq!(parsed.omitted.len(), 2);
    assert!(parsed.omitted[0].why.contains("the fit of the complexity"), "{:?}", parsed.omitted);
    let text = std::fs::read_to_string(sample("google-benchmark-only-aggregates.json")).unwrap();
    let mut mixed: Value = serde_json::from_str(&text).unwrap();
    let run = serde_json::json!({
        "name": "BM_New", "run_name": "BM_New", "run_type": "iteration", "real_time": 1.0,
        "time_unit": "ns"
    });
    mixed["benchmarks"].as_array_mut().unwrap().push(run);
    let parsed = parse_text(&mixed.to_string(), None).unwrap();
    assert_eq!(parsed.series.len(), 7, "{:?}", lines(&parsed));
    // Before version 1.5, aggregates are marked by their names only.
    let old = "{\"context\": {}, \"benchmarks\": [{\"name\": \"a_mean\", \"real_time\": 2, \"time_unit\": \"ns\"}, \
                {\"name\": \"a_stddev\", \"real_time\": 1, \"time_unit\": \"ns\"}]}";
    assert_eq!(lines(&parse_text(old, None).unwrap()), ["a | wall/op | ns | 2 Some(1.0) None"]);
}

#[test]
fn processes_are_the_units_of_pyperf() {
    let (_, parsed) = parse("pyperf-old.json");
    let Data::Runs { values, .. } = &parsed.series[0].data else { panic!("no runs") };
    // The first process of the file: the mean of its three values, without its warm-up.
    let mean = (3.393898435888332e-05 + 0.0003023366249976789 + 0.00041257501561631216) / 3.0;
    assert!((values[0] / mean - 1.0).abs() < 1e-12, "{values:?}");
    assert_eq!(parsed.version.as_deref(), Some("2.10.0"));
    assert_eq!(parsed.omitted[0].what, "the single values, up to 3 a process");
}

#[test]
fn what_a_file_of_means_lacks_is_said() {
    let (_, parsed) = parse("pytest-benchmark-saved.json");
    assert!(parsed.omitted[0].why.contains("--benchmark-save-data"), "{:?}", parsed.omitted);
    assert_eq!(
        (parsed.cpu.as_deref(), parsed.version.as_deref()),
        (Some("AMD EPYC"), Some("5.3.1"))
    );
    let (_, parsed) = parse("catch2-old.xml");
    let said: Vec<String> =
        parsed.omitted.iter().map(|left| format!("{}: {}", left.what, left.why)).collect();
    assert_eq!(said[0], "throws: it failed: no luck");
    assert!(said[1].starts_with("the single samples: Catch2 writes their mean"), "{said:?}");
}

#[test]
fn criterion_baselines_are_compared_with_the_last_run() {
    let lab = Lab::new();
    let folder = argument("criterion-baselines/criterion");
    let json = lab.json(&["import", "--json", &folder]);
    let names: Vec<&str> = json["opcost"]["variants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variant| variant["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["base", "new"]);
    // criterion 0.5.1 reported +385 % and +134 % for the means of these two runs.
    for (name, from, to) in [("sum/whole wall", 3.0, 5.0), ("sum/half wall", 1.0, 1.8)] {
        let metric = metric(&json, name);
        assert_eq!(metric["verdict"], "changed", "{metric}");
        let change = metric["change_ratio"].as_f64().unwrap();
        assert!(from < change && change < to, "{name}: {change}");
    }
    // With another argument or with a name, a folder stands for its last run alone.
    let named = lab.json(&["import", "--json", &format!("now={folder}")]);
    assert_eq!(named["opcost"]["variants"][0]["name"], "sum/half");
    // After a run without a named baseline, both files are the same.
    let text = std::fs::read_to_string(sample("criterion/sort/new/sample.json")).unwrap();
    lab.write("copied/sort/10/new/sample.json", &text);
    lab.write("copied/sort/10/base/sample.json", &text);
    lab.write("copied/sum/10/new/sample.json", &text);
    let json = lab.json(&["import", "--json", "copied"]);
    assert_eq!(json["opcost"]["variants"][0]["name"], "sort/10");
    let omitted = json["opcost"]["imported"]["omitted"].to_string();
    assert!(omitted.contains("criterion copies new to base"), "{omitted}");
}

#[test]
fn packed_and_endless_files_end_well() {
    let lab = Lab::new();
    let text = std::fs::read(sample("pyperf-old.json")).unwrap();
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packer, &text).unwrap();
    let packed = packer.finish().unwrap();
    lab.write("pyperf.json.gz", &packed);
    let json = lab.json(&["import", "--json", "pyperf.json.gz"]);
    assert_eq!(json["opcost"]["imported"]["sources"][0]["format"], "pyperf");
    lab.write("cut.json.gz", &packed[..packed.len() / 2]);
    lab.run(&["import", "cut.json.gz"]).expect(2).says(&["cannot read 'cut.json.gz'"]);
}

/// Compares and renders in every format, as the fuzz target does.
fn shown(made: Assembled) {
    let recording = Recording {
        id: "made".into(),
        created_unix_ns: 0,
        arrived_unix_ns: None,
        state: State::Finished,
        plan: made.plan,
        machine: vec![made.machine],
        dictionary: Dictionary::default(),
        records: Vec::new(),
        profiles: Vec::new(),
    };
    let (comparison, warnings) = compare(&recording);
    let style = Style::plain();
    let view =
        View { recording: &recording, comparison: &comparison, warnings: &warnings, style: &style };
    for format in render::FORMATS {
        let text = render::render(format.name, &view).unwrap();
        assert!(!text.contains("NaN"), "{text}");
    }
}

#[test]
fn help_and_list_name_every_format() {
    let lab = Lab::new();
    let help = lab.output(&["import", "--help"]);
    let listed = lab.output(&["list", "formats"]);
    let json = lab.json(&["list", "formats", "--json"]);
    for (format, row) in FORMATS.iter().zip(json.as_array().unwrap()) {
        assert!(help.contains(format.name) && listed.contains(format.help), "{}", format.name);
        assert_eq!(row["name"], format.name);
    }
}
