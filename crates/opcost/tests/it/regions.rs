//! Regions that a program marks itself: with the header, the crate, the Python module, and in suites of
//! google-benchmark and pytest.

use crate::lab::{Ended, Lab, root};
use crate::needs;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// A loop of three entries, and a region inside another one.
const PROGRAM: &str = r#"
#include "opcost.h"
#include <errno.h>
static volatile unsigned sink;
int main(void) {
    errno = 7;
    for (int turn = 0; turn < 3; turn++) {
        opcost_region_begin("loop");
        for (unsigned at = 0; at < 1000; at++) sink += at;
        opcost_region_end("loop", 1000);
    }
    opcost_region_begin("outer");
    opcost_region_begin("a-very-long-name/with.all[sorts-of]:letters-é");
    opcost_region_end("a-very-long-name/with.all[sorts-of]:letters-é", 0);
    opcost_region_end("outer", 0);
    return errno != 7;
}
"#;

const INNER: &str = "a-very-long-name/with.all[sorts-of]:letters-é";

fn include() -> PathBuf {
    root().join("crates/opcost-region/include")
}

fn example(name: &str) -> PathBuf {
    root().join("examples/regions").join(name)
}

/// Compiles sources; any message of the compiler is an error.
fn compile(lab: &Lab, compiler: &[&str], sources: &[PathBuf], libraries: &[&str]) -> String {
    let program = lab.path("program");
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).arg("-I").arg(include()).args(sources).args(libraries);
    let output = command.arg("-o").arg(&program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
    program.to_str().unwrap().to_string()
}

/// The path of the compiled source; `None` without a compiler.
fn compiled(lab: &Lab, source: &str) -> Option<String> {
    if !needs::programs(&["cc"]) {
        return None;
    }
    let source = lab.write("program.c", source);
    Some(compile(lab, &["cc", "-O2"], &[source], &[]))
}

fn measured(lab: &Lab, machine: &[&str], work: &str) -> Ended {
    let base = ["measure", "--quiet", "--regions", "-n", "2", "--warmup", "0", "--json"];
    lab.run(&[&base[..], machine, &[work]].concat())
}

/// The rows of figures or metrics in JSON.
fn rows(shown: &Value) -> &Vec<Value> {
    let alone = shown["opcost"]["figures"].as_array();
    alone.or_else(|| shown["opcost"]["metrics"].as_array()).unwrap()
}

/// The row of a region in JSON.
fn row<'a>(shown: &'a Value, region: &str, metric: &str) -> &'a Value {
    rows(shown)
        .iter()
        .find(|row| row["region"] == region && row["metric"] == metric)
        .unwrap_or_else(|| panic!("no {metric} of {region} in {shown:#}"))
}

/// The machines available here, each with a metric: this host, a single program emulated, a guest.
fn machines() -> Vec<(Vec<String>, &'static str)> {
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
    let mut all = vec![(words(&[]), "wall")];
    if needs::emulator() {
        all.push((words(&["--machine", "emulated", "--kernel", "none"]), "instructions"));
    }
    if let Some(kernel) = needs::kernel() {
        all.push((words(&["--machine", "emulated", "--kernel", &kernel]), "instructions"));
    }
    all
}

#[test]
fn each_region_has_a_row_on_every_machine() {
    let lab = Lab::new();
    let Some(program) = compiled(&lab, PROGRAM) else { return };
    for (machine, metric) in machines() {
        let machine: Vec<&str> = machine.iter().map(String::as_str).collect();
        let shown: Value =
            serde_json::from_str(&measured(&lab, &machine, &program).expect(0).stdout).unwrap();
        crate::schema::check(&shown);
        let regions: Vec<&str> =
            rows(&shown).iter().filter_map(|row| row["region"].as_str()).collect();
        assert_eq!(regions, ["loop", "outer", INNER], "{machine:?}");
        let of_loop = row(&shown, "loop", metric);
        assert_eq!(of_loop["per_op"], true, "{of_loop:#}");
        assert_eq!(of_loop["label"], format!("loop/{metric}{}", domain(of_loop)), "{of_loop:#}");
        let value = |region| row(&shown, region, metric)["median"].as_f64().unwrap();
        assert_eq!(row(&shown, "outer", metric)["per_op"], false);
        if metric == "instructions" {
            // A round is a volatile addition, a comparison, a jump; a tick of the kernel may come in between.
            assert!((4.0..50.0).contains(&value("loop")), "{shown:#}");
            assert!(value(INNER) >= 1.0 && value("outer") >= value(INNER), "{shown:#}");
        } else {
            assert!(value("loop") > 0.0 && value("outer") > value(INNER), "{shown:#}");
        }
    }
}

fn domain(row: &Value) -> &'static str {
    match row["domain"].as_str() {
        Some("user") => ":u",
        _ => "",
    }
}

#[test]
fn empty_regions_and_messages_cost_next_to_nothing_of_what_is_counted() {
    if !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    let source = "#include \"opcost.h\"\nint main(void) {\n opcost_region_begin(\"outer\");\n\
                  for (int i = 0; i < 10; i++) {\n  opcost_region_begin(\"empty\");\n  \
                  opcost_region_end(\"empty\", 1);\n }\n opcost_region_end(\"outer\", 0);\n return 0;\n}";
    let Some(program) = compiled(&lab, source) else { return };
    let machine = ["--machine", "emulated", "--kernel", "none"];
    let shown: Value =
        serde_json::from_str(&measured(&lab, &machine, &program).expect(0).stdout).unwrap();
    let value = |region| row(&shown, region, "instructions")["median"].as_f64().unwrap();
    assert!(value("empty") <= 30.0, "{}", value("empty"));
    assert!(value("outer") <= 10.0 * 60.0, "{}", value("outer"));
}

#[test]
fn two_programs_are_compared_region_by_region() {
    let lab = Lab::new();
    // The region counts no operations, so that more rounds cost more.
    let plain = PROGRAM.replace("\"loop\", 1000", "\"loop\", 0");
    let Some(one) = compiled(&lab, &plain) else { return };
    let other = lab.path("other");
    std::fs::rename(&one, &other).unwrap();
    let longer = plain.replace("at < 1000", "at < 3000").replace("\"outer\"", "\"renamed\"");
    let Some(two) = compiled(&lab, &longer) else { return };
    if !needs::emulator() {
        return;
    }
    let words =
        ["compare", "--quiet", "--regions", "--machine", "emulated", "--kernel", "none", "-n", "1"];
    let sides = [other.to_str().unwrap(), &two];
    let limit = ["--json", "--fail-on", "loop/instructions:u=100%"];
    let ended = lab.run(&[&words[..], &limit, &sides].concat()).expect(1);
    assert!(ended.stderr.contains("loop/instructions:u"), "{}", ended.stderr);
    let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
    crate::schema::check(&shown);
    let compared = |region| {
        let rows = shown["opcost"]["metrics"].as_array().unwrap();
        let is_it = |row: &&Value| row["region"] == region && row["metric"] == "instructions";
        rows.iter().find(is_it).unwrap_or_else(|| panic!("no {region} in {shown:#}"))
    };
    let change = compared("loop")["change_ratio"].as_f64().unwrap();
    assert!((1.9..2.1).contains(&change), "{shown:#}");
    // A region of one side only is unavailable: there is no change.
    for region in ["outer", "renamed"] {
        assert_eq!(compared(region)["verdict"], "unavailable", "{shown:#}");
    }
    // The recording shown again has its regions.
    let id = lab.recordings()[0]["id"].as_str().unwrap().to_string();
    let text = lab.run(&["show", &id]).expect(0).stdout;
    assert!(text.contains("loop/instructions:u"), "{text}");
}

#[test]
fn wrong_marks_fail_the_run_and_name_the_region() {
    let lab = Lab::new();
    let long = "x".repeat(201);
    let cases = [
        ("(void)0;", "marked no region"),
        ("opcost_region_end(\"a\", 1);", "region 'a' was ended, but it was not open"),
        (
            "opcost_region_begin(\"a\"); opcost_region_begin(\"a\");",
            "region 'a' was begun again before it was ended",
        ),
        ("opcost_region_begin(\"a\");", "region 'a' was begun and never ended"),
        (
            "opcost_region_begin(\"a\"); opcost_region_end(\"a\", 1);\
             opcost_region_begin(\"a\"); opcost_region_end(\"a\", 0);",
            "region 'a' was ended with a number of operations and also without",
        ),
        ("opcost_region_begin(\"fib 20\");", "cannot be 'fib 20': it has a blank"),
        ("opcost_region_begin(\"\");", "it is empty"),
        ("opcost_region_begin(\"work\");", "opcost calls a region of its own so"),
        ("opcost_region_begin(\"\\xff\");", "no UTF-8"),
        (&format!("opcost_region_begin(\"{long}\");"), "longer than 200 bytes"),
        (
            "char name[] = \"r0000\"; for (int i = 0; i < 4097; i++) {\
             for (int d = 0, n = i; d < 4; d++, n /= 10) name[4 - d] = (char)('0' + n % 10);\
             opcost_region_begin(name); opcost_region_end(name, 0); }",
            "more than 4096 regions",
        ),
    ];
    let emulated = needs::emulator();
    for (body, part) in cases {
        let source = format!("#include \"opcost.h\"\nint main(void) {{ {body} return 0; }}\n");
        let Some(program) = compiled(&lab, &source) else { return };
        let mut machines = vec![&[][..]];
        if emulated {
            machines.push(&["--machine", "emulated", "--kernel", "none"]);
        }
        for machine in machines {
            let ended = measured(&lab, machine, &program).expect(4);
            let said = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(part), "{machine:?} {body}: {said}");
        }
    }
}

#[test]
fn a_workload_has_no_regions_of_its_own() {
    let lab = Lab::new();
    let words = ["measure", "--regions", "-w", "syscall:ops=10"];
    lab.run(&words).expect(2).says(&["--regions: workload syscall", "leave it out"]);
}

#[test]
fn without_opcost_the_program_runs_as_before() {
    let lab = Lab::new();
    let Some(program) = compiled(&lab, PROGRAM) else { return };
    for value in [None, Some("mark"), Some("/no/such/socket"), Some("nonsense"), Some("")] {
        let mut command = Command::new(&program);
        command.env_remove("OPCOST_REGIONS");
        if let Some(value) = value {
            command.env("OPCOST_REGIONS", value);
        }
        assert!(command.status().unwrap().success(), "{value:?}");
    }
}

#[test]
fn a_run_that_never_rests_is_stopped_in_time() {
    let lab = Lab::new();
    let source = "#include \"opcost.h\"\nint main(void) { for (;;) { opcost_region_begin(\"a\");\
                  opcost_region_end(\"a\", 1); } }\n";
    let Some(program) = compiled(&lab, source) else { return };
    measured(&lab, &["--timeout", "300ms"], &program).expect(4).says(&["300 ms"]);
}

#[test]
fn threads_and_children_mark_regions_of_their_own() {
    let lab = Lab::new();
    let source = r#"
#include "opcost.h"
#include <pthread.h>
#include <sys/wait.h>
static void *thread(void *name) {
    for (int turn = 0; turn < 50; turn++) { opcost_region_begin(name); opcost_region_end(name, 1); }
    return 0;
}
int main(void) {
    pthread_t one, two;
    char a[] = "one", b[] = "two";
    opcost_region_begin("all");
    pthread_create(&one, 0, thread, a);
    pthread_create(&two, 0, thread, b);
    if (fork() == 0) { opcost_region_begin("child"); opcost_region_end("child", 3); _exit(0); }
    wait(0);
    pthread_join(one, 0);
    pthread_join(two, 0);
    opcost_region_end("all", 0);
    return 0;
}
"#;
    let Some(program) = compiled(&lab, source) else { return };
    let shown: Value =
        serde_json::from_str(&measured(&lab, &[], &program).expect(0).stdout).unwrap();
    for region in ["all", "one", "two", "child"] {
        assert!(row(&shown, region, "wall")["median"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn the_header_is_clean_for_c_and_cpp() {
    let lab = Lab::new();
    let source =
        lab.write("program.c", PROGRAM.replace("for (int turn = 0; turn < 3; turn++)", ""));
    let strict = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-pedantic", "-Werror"];
    for (compiler, standard) in
        [("gcc", "c99"), ("gcc", "gnu17"), ("clang", "c99"), ("g++", "c++11"), ("clang++", "c++11")]
    {
        if !needs::programs(&[compiler]) {
            continue;
        }
        for more in ["-O0", "-O3", "-DOPCOST_NO_REGIONS"] {
            let standard = format!("-std={standard}");
            let language = if compiler.ends_with("++") { "c++" } else { "c" };
            let words = [&[compiler, more, &standard, "-x", language][..], &strict].concat();
            compile(&lab, &words, std::slice::from_ref(&source), &[]);
        }
    }
}

#[test]
fn the_crate_marks_as_the_header_does() {
    if !needs::programs(&["rustc"]) {
        return;
    }
    let lab = Lab::new();
    let rustc = |words: &[&str]| {
        let mut command = Command::new("rustc");
        command.args(["--edition", "2024", "-O", "--out-dir"]).arg(lab.dir()).args(words);
        let output = command.current_dir(lab.dir()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let library = root().join("crates/opcost-region/src/lib.rs");
    rustc(&["--crate-type", "rlib", "--crate-name", "opcost_region", library.to_str().unwrap()]);
    lab.write(
        "program.rs",
        "fn main() {\n for _ in 0..3 {\n  let region = opcost_region::begin(\"loop\");\n  \
         for at in 0..1000 { std::hint::black_box(at); }\n  region.end(1000);\n }\n \
         opcost_region::measured(\"outer\", 0, || drop(opcost_region::begin(String::from(\"inner\"))));\n}",
    );
    rustc(&["program.rs", "--extern", "opcost_region=libopcost_region.rlib"]);
    let program = lab.path("program");
    for (machine, metric) in machines() {
        let machine: Vec<&str> = machine.iter().map(String::as_str).collect();
        let ended = measured(&lab, &machine, program.to_str().unwrap()).expect(0);
        let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
        let value = |region| row(&shown, region, metric)["median"].as_f64().unwrap();
        assert!(value("loop") > 0.0 && value("outer") >= value("inner"), "{shown:#}");
        assert_eq!(row(&shown, "loop", metric)["per_op"], true);
    }
    lab.write("wrong.rs", "fn main() { drop(opcost_region::begin(\"a\\0b\")) }");
    rustc(&["wrong.rs", "--extern", "opcost_region=libopcost_region.rlib"]);
    let wrong = lab.path("wrong");
    measured(&lab, &[], wrong.to_str().unwrap()).expect(4).says(&["control character"]);
}

#[test]
fn the_python_module_marks_as_the_header_does() {
    if !needs::programs(&["/usr/bin/python3"]) {
        return;
    }
    let lab = Lab::new();
    lab.write("opcost_region.py", std::fs::read(example("opcost_region.py")).unwrap());
    lab.write(
        "program.py",
        "import opcost_region\nfor turn in range(3):\n    with opcost_region.region('loop', 1000):\n        \
         sum(range(1000))\nopcost_region.begin('outer')\nwith opcost_region.region('inner'):\n    pass\n\
         opcost_region.end('outer')\n",
    );
    let mut machines = machines();
    // A boot with all of Python is expensive, and the guest sees the same instructions.
    machines.truncate(2);
    for (machine, metric) in machines {
        let machine: Vec<&str> = machine.iter().map(String::as_str).collect();
        let shown = measured(&lab, &machine, "/usr/bin/python3 program.py").expect(0).stdout;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let value = |region| row(&shown, region, metric)["median"].as_f64().unwrap();
        assert!(value("loop") > 0.0 && value("outer") > value("inner"), "{shown:#}");
    }
}

#[test]
fn each_case_of_a_google_benchmark_suite_has_a_row() {
    if !needs::programs(&["g++"]) {
        return;
    }
    if !PathBuf::from("/usr/include/benchmark/benchmark.h").exists() {
        crate::skip::skip!("google-benchmark is not installed (libbenchmark-dev)");
        return;
    }
    let lab = Lab::new();
    let sources = ["google_benchmark_suite.cc", "google_benchmark_main.cc"].map(example);
    let compiler = ["g++", "-O1", "-Wall", "-Wextra", "-Wno-unused-parameter"];
    let program = compile(&lab, &compiler, &sources, &["-lbenchmark", "-lpthread"]);
    let work = format!("{program} --benchmark_min_time=0.001");
    let shown: Value = serde_json::from_str(&measured(&lab, &[], &work).expect(0).stdout).unwrap();
    for case in ["BM_Copy/64", "BM_Copy/4096", "BM_String"] {
        assert!(row(&shown, case, "wall")["median"].as_f64().unwrap() > 0.0);
    }
    // Without opcost, the suite runs as it did.
    let alone = Command::new(&program).arg("--benchmark_min_time=0.001").output().unwrap();
    assert!(String::from_utf8_lossy(&alone.stdout).contains("BM_Copy/4096"));
}

#[test]
fn each_test_of_a_pytest_suite_has_a_row() {
    let pytest = Command::new("python3").args(["-m", "pytest", "--version"]).output();
    if !pytest.is_ok_and(|output| output.status.success()) {
        crate::skip::skip!("pytest is not installed (python3-pytest)");
        return;
    }
    let lab = Lab::new();
    for name in ["opcost_region.py", "conftest.py", "test_words.py"] {
        lab.write(name, std::fs::read(example(name)).unwrap());
    }
    let work = "python3 -m pytest -q -p no:cacheprovider test_words.py";
    let shown: Value = serde_json::from_str(&measured(&lab, &[], work).expect(0).stdout).unwrap();
    for test in ["test_sorts[100]", "test_sorts[200]", "test_counts"] {
        let region = format!("test_words.py::{test}");
        assert!(row(&shown, &region, "wall")["median"].as_f64().unwrap() > 0.0);
    }
}
