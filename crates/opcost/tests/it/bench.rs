//! `opcost bench`: a sample of each framework, counted twice, with a function whose instructions are known.
//!
//! The samples call `busy(100)`, which executes 202 instructions, once an iteration. Where a framework is not installed, its sample is
//! skipped.

use crate::gate::Yard;
use crate::lab::{OPCOST, Started};
use crate::needs;
use crate::skip::skip;
use opcost_bench::FRAMEWORKS;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// `busy` for C++, as `busy.s`: 2 + 2 * times instructions.
const BUSY: &str = ".globl busy\n.type busy,@function\nbusy: mov %rdi,%rcx\n1: dec %rcx\njnz 1b\nret\n.size busy,.-busy\n.section .note.GNU-stack\n";

/// `busy` for Rust.
const BUSY_RUST: &str = r#"
core::arch::global_asm!(
    ".globl busy", ".type busy,@function", "busy: mov %rdi,%rcx", "1: dec %rcx", "jnz 1b", "ret", ".size busy,.-busy",
    options(att_syntax)
);
unsafe extern "C" { safe fn busy(times: i64); }
"#;

/// The instructions of `busy(100)`.
const BUSY_INSTRUCTIONS: f64 = 202.0;

/// A sample project.
struct Sample {
    /// The framework's name.
    framework: &'static str,
    /// Writes and builds the project, and returns its command; `None` if something is missing.
    make: fn(&Path) -> Option<Vec<String>>,
    /// The benchmarks.
    names: &'static [&'static str],
    /// The function that each benchmark calls once, with its own instructions if they are known.
    function: (&'static str, Option<f64>),
}

const SAMPLES: &[Sample] = &[
    Sample {
        framework: "criterion",
        make: criterion,
        names: &["busy", "batched"],
        function: ("busy", Some(BUSY_INSTRUCTIONS)),
    },
    Sample {
        framework: "divan",
        make: divan,
        names: &["suite::busy_100", "suite::with_input"],
        function: ("busy", Some(BUSY_INSTRUCTIONS)),
    },
    Sample {
        framework: "google-benchmark",
        make: google_benchmark,
        names: &["BM_Busy", "BM_Paused/100"],
        function: ("busy", Some(BUSY_INSTRUCTIONS)),
    },
    Sample {
        framework: "Catch2",
        make: catch2,
        names: &["Cases / first", "Cases / second"],
        function: ("busy", Some(BUSY_INSTRUCTIONS)),
    },
    Sample {
        framework: "nanobench",
        make: nanobench,
        names: &["first", "second"],
        function: ("busy", Some(BUSY_INSTRUCTIONS)),
    },
    Sample {
        framework: "libtest",
        make: libtest,
        names: &["bench_busy"],
        function: ("busy", Some(BUSY_INSTRUCTIONS)),
    },
    Sample {
        framework: "pytest-benchmark",
        make: pytest,
        names: &["test_suite.py::test_sorted", "test_suite.py::test_set_up"],
        function: ("_PyEval_EvalFrameDefault", None),
    },
    Sample {
        framework: "Go",
        make: go,
        names: &["BenchmarkFib", "BenchmarkSub/a"],
        function: ("example.org/suite.fib", None),
    },
];

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Compiles a sample of C++; the last words are the compiler's.
fn compiled(folder: &Path, source: &str, words: &[&str]) -> Option<Vec<String>> {
    if !needs::programs(&["g++"]) {
        return None;
    }
    let source = format!("extern \"C\" void busy(long);\n{source}");
    write(folder, &[("busy.s", BUSY), ("suite.cc", &source)]);
    let built = Command::new("g++")
        .args(["-O1", "-o", "suite", "suite.cc", "busy.s"])
        .args(words)
        .current_dir(folder)
        .output();
    let built = built.unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(vec!["./suite".into()])
}

fn has_header(name: &str) -> bool {
    let has = Path::new("/usr/include").join(name).exists();
    if !has {
        skip!("there is no /usr/include/{name}");
    }
    has
}

fn cargo(folder: &Path, dependency: &str, source: &str) -> Option<Vec<String>> {
    if !needs::all() || !needs::programs(&["cargo"]) {
        return None;
    }
    let manifest = format!(
        "[package]\nname = \"suite\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dev-dependencies]\n{dependency}\n[[bench]]\nname = \"suite\"\nharness = false\n[workspace]\n"
    );
    let source = format!("{source}\n{BUSY_RUST}");
    write(folder, &[("Cargo.toml", &manifest), ("src/lib.rs", ""), ("benches/suite.rs", &source)]);
    let fetched =
        Command::new("cargo").args(["fetch", "--offline"]).current_dir(folder).output().unwrap();
    if !fetched.status.success() {
        skip!("cargo has no {dependency} here");
        return None;
    }
    Some(["cargo", "bench", "--offline", "-q"].map(str::to_owned).to_vec())
}

fn criterion(folder: &Path) -> Option<Vec<String>> {
    cargo(
        folder,
        "criterion = { version = \"0.5\", default-features = false }",
        "use criterion::*;\nfn all(c: &mut Criterion) {\n    c.bench_function(\"busy\", |b| b.iter(|| busy(100)));\n    c.bench_function(\"batched\", |b| b.iter_batched(|| vec![100i64; 50], |v| busy(v[0]), BatchSize::SmallInput));\n}\ncriterion_group!(suite, all);\ncriterion_main!(suite);\n",
    )
}

fn divan(folder: &Path) -> Option<Vec<String>> {
    cargo(
        folder,
        "divan = \"0.1\"",
        "fn main() { divan::main() }\n#[divan::bench]\nfn busy_100() { busy(100) }\n#[divan::bench]\nfn with_input(b: divan::Bencher) { b.with_inputs(|| vec![100i64; 50]).bench_refs(|v| busy(v[0])) }\n",
    )
}

fn google_benchmark(folder: &Path) -> Option<Vec<String>> {
    if !has_header("benchmark/benchmark.h") {
        return None;
    }
    let source = "#include <benchmark/benchmark.h>\n#include <vector>\n\
        static void BM_Busy(benchmark::State& state) { for (auto _ : state) busy(100); }\nBENCHMARK(BM_Busy);\n\
        static void BM_Paused(benchmark::State& state) { for (auto _ : state) { state.PauseTiming(); std::vector<long> v(999, 1); state.ResumeTiming(); busy(state.range(0) * v[5]); } }\n\
        BENCHMARK(BM_Paused)->Arg(100);\nBENCHMARK_MAIN();\n";
    compiled(folder, source, &["-lbenchmark", "-lpthread"])
}

fn catch2(folder: &Path) -> Option<Vec<String>> {
    // Its header alone compiles for half a minute.
    if !needs::all() || !has_header("catch2/catch.hpp") {
        return None;
    }
    let source = "#define CATCH_CONFIG_MAIN\n#define CATCH_CONFIG_ENABLE_BENCHMARKING\n#include <catch2/catch.hpp>\n\
        TEST_CASE(\"Cases\") { BENCHMARK(\"first\") { busy(100); return 1; };\n BENCHMARK(\"second\") { busy(100); return 2; }; }\n";
    compiled(folder, source, &[])
}

fn nanobench(folder: &Path) -> Option<Vec<String>> {
    if !has_header("nanobench.h") {
        return None;
    }
    let source = "#define ANKERL_NANOBENCH_IMPLEMENT\n#include <nanobench.h>\n\
        int main() { ankerl::nanobench::Bench b; b.run(\"first\", [] { busy(100); }); b.run(\"second\", [] { busy(100); }); }\n";
    compiled(folder, source, &[])
}

fn libtest(folder: &Path) -> Option<Vec<String>> {
    needs::programs(&["rustc"]).then(|| compiled_rust(folder, &libtest_source()))
}

fn libtest_source() -> String {
    format!(
        "#![feature(test)]\nextern crate test;\n#[bench]\nfn bench_busy(b: &mut test::Bencher) {{ b.iter(|| busy(100)) }}\n#[test]\nfn no_benchmark() {{}}\n{BUSY_RUST}"
    )
}

fn compiled_rust(folder: &Path, source: &str) -> Vec<String> {
    write(folder, &[("suite.rs", source)]);
    let built = Command::new("rustc")
        // Rust's library has debug information, which each count would read; names of functions stay.
        .args(["--edition", "2024", "--test", "-O", "-C", "strip=debuginfo", "suite.rs"])
        // #[bench] is for nightly compilers.
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    vec!["./suite".into()]
}

fn pytest(folder: &Path) -> Option<Vec<String>> {
    // Python and pytest start anew for each count, 97 s of processor time and more.
    if !needs::all() {
        return None;
    }
    let python = "/usr/bin/python3";
    let asked = Command::new(python).args(["-c", "import pytest_benchmark"]).output();
    if !asked.is_ok_and(|asked| asked.status.success()) {
        skip!("{python} has no pytest-benchmark");
        return None;
    }
    let source = "import time\n\nimport pytest\n\n\n\
        def test_sorted(benchmark):\n    benchmark(sorted, list(range(100, 0, -1)))\n\n\n\
        @pytest.mark.benchmark(timer=time.time, min_rounds=2)\ndef test_set_up(benchmark):\n    \
        benchmark.pedantic(sorted, setup=lambda: (([3, 1, 2],), {}), rounds=3)\n\n\n\
        def test_plain():\n    pass\n";
    write(folder, &[("test_suite.py", source)]);
    Some([python, "-m", "pytest", "test_suite.py"].map(str::to_owned).to_vec())
}

fn go(folder: &Path) -> Option<Vec<String>> {
    if !needs::programs(&["go"]) {
        return None;
    }
    let source = "package suite\nimport \"testing\"\nvar sink int\n\
        func fib(n int) int { if n < 2 { return n }; return fib(n-1) + fib(n-2) }\n\
        func BenchmarkFib(b *testing.B) { for i := 0; i < b.N; i++ { sink += fib(10) } }\n\
        func BenchmarkSub(b *testing.B) { b.Run(\"a\", func(b *testing.B) { for i := 0; i < b.N; i++ { sink += fib(5) } }) }\n";
    write(folder, &[("go.mod", "module example.org/suite\ngo 1.19\n"), ("suite_test.go", source)]);
    Some(["go", "test", "."].map(str::to_owned).to_vec())
}

/// Runs `opcost bench` with options, and a command.
fn bench(folder: &Path, options: &[&str], command: &[String]) -> Output {
    Command::new(OPCOST)
        .arg("bench")
        // A busy computer makes no benchmark fail.
        .args(["--timeout", "3600s"])
        .args(options)
        .arg("--")
        .args(command)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// The printed document, which docs/bench.schema.json describes.
fn json(output: &Output) -> Value {
    let document = serde_json::from_slice(&output.stdout);
    let document = document.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let schema = include_str!("../../../../docs/bench.schema.json");
    let validator = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let faults: Vec<String> = validator
        .iter_errors(&document)
        .map(|error| format!("{}: {error:.300}", error.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    document
}

fn check(framework: &str) {
    let sample = SAMPLES.iter().find(|sample| sample.framework == framework).unwrap();
    let folder = TempDir::new().unwrap();
    if !needs::emulator() {
        return;
    }
    let Some(command) = (sample.make)(folder.path()) else { return };
    let first = bench(folder.path(), &["--json"], &command);
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    let found = json(&first);
    let all = found["benchmarks"].as_array().unwrap();
    let names: Vec<&str> = all.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, sample.names);
    for one in all {
        let (name, instructions) = sample.function;
        let function =
            one["functions"].as_array().unwrap().iter().find(|row| row["symbol"] == name);
        let function = function.unwrap_or_else(|| panic!("{name} is not in {one:#}"));
        if let Some(instructions) = instructions {
            assert_eq!(function["instructions"], instructions, "{one:#}");
            assert_eq!(function["calls"], 1.0);
            assert_eq!(one["is_linear"], true, "{one:#}");
        }
        let parts = one["functions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["instructions"].as_f64().unwrap());
        let sum: f64 = parts.sum();
        assert!((sum - one["instructions"].as_f64().unwrap()).abs() < 1e-6, "{one:#}");
    }
    // A count is dear, so only the last benchmark is counted again.
    let last = sample.names.last().unwrap();
    let second = json(&bench(folder.path(), &["--json", last], &command));
    let mut again = second["benchmarks"].clone();
    let mut of_first = Value::Array(vec![all.last().unwrap().clone()]);
    if framework == "Go" {
        // Go's threads begin in an order of their own, so the runtime's instructions around the loop differ.
        let own = |all: &Value| -> Value {
            let rows = all[0]["functions"].as_array().unwrap().iter();
            rows.filter(|row| row["symbol"] == sample.function.0).cloned().collect()
        };
        (again, of_first) = (own(&again), own(&of_first));
        assert_eq!(again.as_array().unwrap().len(), 1, "{second:#}");
    }
    assert_eq!(again, of_first, "the same digits again");
}

#[test]
fn every_framework_has_a_sample() {
    let mut of_samples: Vec<&str> = SAMPLES.iter().map(|sample| sample.framework).collect();
    let mut rows: Vec<&str> = FRAMEWORKS.iter().map(|row| row.name).collect();
    of_samples.sort_unstable();
    rows.sort_unstable();
    assert_eq!(of_samples, rows, "a row of FRAMEWORKS and a sample here belong together");
}

#[test]
fn criterion_runs_as_it_is() {
    check("criterion");
}

#[test]
fn divan_runs_as_it_is() {
    check("divan");
}

#[test]
fn google_benchmark_runs_as_it_is() {
    check("google-benchmark");
}

#[test]
fn catch2_runs_as_it_is() {
    check("Catch2");
}

#[test]
fn nanobench_runs_as_it_is() {
    check("nanobench");
}

#[test]
fn libtest_runs_as_it_is() {
    check("libtest");
}

#[test]
fn pytest_benchmark_runs_as_it_is() {
    check("pytest-benchmark");
}

#[test]
fn go_runs_as_it_is() {
    check("Go");
}

#[test]
fn a_gate_refuses_one_percent_more_and_names_benchmark_and_function() {
    let suite = "[case.suite]\nbuild = 'RUSTC_BOOTSTRAP=1 rustc --edition 2024 --test -O -C strip=debuginfo suite.rs'\nartifact = 'suite'\n\
        command = './suite'\nbench = 'bench_busy'\nlimit = '0.5%'\n";
    if !needs::emulator() || !needs::programs(&["rustc"]) {
        return;
    }
    let Some(yard) = Yard::new(suite) else { return };
    let source = libtest_source();
    yard.write("suite.rs", &source);
    yard.write(".gitignore", "/suite\n");
    yard.commit("Two");
    let gate = |options: &[&str]| {
        yard.opcost(&[&["gate", "--quiet"], options].concat()).spawn().unwrap().end()
    };
    let ended = gate(&["--baseline", "figures", "--update"]);
    assert_eq!(ended.status, Some(0), "{}{}", ended.stdout, ended.stderr);
    yard.commit("Figures");
    yard.write("suite.rs", &source.replace("busy(100)", "busy(101)"));
    yard.commit("Three");
    for standard in [["--base", "HEAD~1"], ["--baseline", "figures"]] {
        let ended = gate(&standard);
        assert_eq!(ended.status, Some(1), "{}{}", ended.stdout, ended.stderr);
        for text in ["bench_busy", "busy +2"] {
            assert!(ended.stdout.contains(text), "{text} is not in {}", ended.stdout);
        }
        let ended = gate(&[&standard[..], &["--tip", "HEAD~1"]].concat());
        assert_eq!(ended.status, Some(0), "{}{}", ended.stdout, ended.stderr);
    }
    // A benchmark that is gone does not pass, and neither do figures of another framework.
    let figures = fs::read_to_string(yard.lab.path("repository/figures")).unwrap();
    yard.write("figures", &figures.replace("bench_busy", "bench_gone"));
    let ended = gate(&["--baseline", "figures", "--tip", "HEAD~1"]);
    assert_eq!(ended.status, Some(3), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("no such benchmark now"), "{}", ended.stdout);
    yard.write("figures", &figures.replace("framework=libtest", "framework=other"));
    let ended = gate(&["--baseline", "figures", "--tip", "HEAD~1"]);
    assert_eq!(ended.status, Some(3), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("framework is libtest"), "{}", ended.stdout);
    // Commands that know no benchmarks say so.
    let ended = yard.opcost(&["series", "--quiet", "HEAD~1..HEAD"]).spawn().unwrap().end();
    assert!(ended.stderr.contains("which only opcost gate counts"), "{}", ended.stderr);
}

#[test]
fn mistakes_are_named() {
    if !needs::emulator() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let Some(command) = libtest(folder.path()) else { return };
    let text = |options: &[&str], command: &[String]| {
        let output = bench(folder.path(), options, command);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, why) = text(&["busi"], &command);
    assert_eq!(code, Some(2));
    assert!(why.contains("no benchmark has 'busi' in its name"), "{why}");
    let (code, why) = text(&[], &["/bin/true".to_owned()]);
    assert_eq!(code, Some(2));
    assert!(
        why.contains("has no benchmarks of a framework that opcost knows: criterion, divan"),
        "{why}"
    );
    write(folder.path(), &[("old.json", "{}")]);
    let (code, why) = text(&["--baseline", "old.json"], &command);
    assert_eq!(code, Some(2));
    assert!(why.contains("no result of opcost bench --json"), "{why}");
    // A benchmark that fails, one that reads the clock itself, one with an instruction of AVX-512, and one that is well.
    let source = format!(
        "#![feature(test)]\nextern crate test;\n#[bench]\nfn fails(_: &mut test::Bencher) {{ panic!() }}\n\
         #[bench]\nfn reads(b: &mut test::Bencher) {{ b.iter(std::time::Instant::now) }}\n\
         #[bench]\nfn sums(_: &mut test::Bencher) {{ unsafe {{ std::arch::asm!(\".byte 98, 241, 125, 72, 254, 192\") }} }}\n\
         #[bench]\nfn well(b: &mut test::Bencher) {{ b.iter(|| busy(100)) }}\n{BUSY_RUST}"
    );
    let command = compiled_rust(folder.path(), &source);
    let output = bench(folder.path(), &["--json"], &command);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let found = json(&output);
    let error = |place: usize| found["benchmarks"][place]["error"].as_str().unwrap_or_default();
    assert!(error(0).contains("ended with status 101"), "{found:#}");
    assert!(error(1).contains("reads the clock"), "{found:#}");
    assert!(error(2).contains("executed 'vpaddd zmm0,zmm0,zmm0' at 0x"), "{found:#}");
    assert!(
        error(2).contains("which needs AVX512F; the CPU model EPYC-Rome-v2 lacks it; QEMU"),
        "{found:#}"
    );
    assert!(found["benchmarks"][3]["instructions"].as_f64() > Some(BUSY_INSTRUCTIONS), "{found:#}");
}
