//! `opcost profile --annotate` and `opcost diff --annotate` as a user runs them.
//!
//! The program of the recorded profiles is in the test data. perf's cache of files by build id brings it to any machine.

use crate::lab::{Lab, compile};
use crate::needs;
use assert_cmd::Command;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../opcost-profile/tests/data").join(name)
}

/// A home with the program of the recordings in perf's cache.
fn home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let id = home.path().join(".debug/.build-id/7d/f8ec7d82717abfc1b952009d0a25933a34f197");
    fs::create_dir_all(&id).unwrap();
    fs::copy(data("busy"), id.join("elf")).unwrap();
    home
}

fn opcost(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opcost"));
    command.args(arguments).env("COLUMNS", "80").env("HOME", home);
    command
}

fn printed(home: &Path, arguments: &[&str]) -> String {
    let output = opcost(home, arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(home: &Path, arguments: &[&str]) -> String {
    let output = opcost(home, arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_hottest_function_is_shown_with_source_and_instructions() {
    let (home, file, sources) = (home(), data("plain.data"), data("."));
    let (file, sources) = (file.to_str().unwrap(), sources.to_str().unwrap());
    let arguments = ["profile", "-i", file, "--annotate", "--source-root", sources];
    let text = printed(home.path(), &arguments);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.starts_with("leaf (busy)") && text.contains("7.500 ms in 15 samples"), "{text}");
    let has = |figures: &str, code: &str| {
        text.lines().any(|line| line.contains(figures) && line.trim_end().ends_with(code))
    };
    assert!(has("100.00 %", "sum += (i * i) ^ sum;"), "{text}");
    // As perf annotate has it: 13 of 15 samples are at the addition.
    assert!(has("86.67 %", "add %rdx, %rcx") && has("13.33 %", "xor %rcx, %rdx"), "{text}");
    assert!(text.contains("--source-root; no hash tells"), "{text}");
    let json: Value =
        serde_json::from_str(&printed(home.path(), &[&arguments[..], &["--json"]].concat()))
            .unwrap();
    let sum = |rows: &Value| -> u64 {
        rows.as_array().unwrap().iter().map(|row| row["cost"].as_u64().unwrap()).sum()
    };
    assert_eq!(json["cost"].as_u64(), Some(sum(&json["lines"])));
    for line in json["lines"].as_array().unwrap() {
        assert_eq!(line["cost"].as_u64(), Some(sum(&line["instructions"])), "{line}");
    }
    let page = home.path().join("page.html");
    printed(home.path(), &[&arguments[..], &["--html", page.to_str().unwrap()]].concat());
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.contains("sum += (i * i) ^ sum;"),
        "{page}"
    );
}

#[test]
fn a_source_that_is_not_here_is_said_and_its_lines_keep_their_numbers() {
    let (home, file) = (home(), data("plain.data"));
    let text =
        printed(home.path(), &["profile", "-i", file.to_str().unwrap(), "--annotate", "leaf"]);
    assert!(text.contains("/opt/work/busy.c: not found; give the folder"), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("  11 ") && line.contains("100.00 %")),
        "{text}"
    );
    assert!(!text.contains("sum +="), "{text}");
}

#[test]
fn a_function_that_was_inlined_names_those_that_have_its_code() {
    let (home, file) = (home(), data("plain.data"));
    let file = file.to_str().unwrap();
    let said = refused(home.path(), &["profile", "-i", file, "--annotate", "touch"]);
    assert!(
        said.contains("touch was inlined everywhere") && said.contains("one of them: main"),
        "{said}"
    );
    let said = refused(home.path(), &["profile", "-i", file, "--annotate=leav"]);
    assert!(
        said.contains("--annotate leav: the profile has no such function (did you mean leaf?)"),
        "{said}"
    );
    let text = printed(home.path(), &["profile", "-i", file, "--annotate", "main"]);
    assert!(text.contains("↳ touch:21") && !text.contains("touch inlined"), "{text}");
    let said = refused(
        home.path(),
        &["profile", "-i", data("py-spy.folded").to_str().unwrap(), "--annotate"],
    );
    assert!(said.contains("neither addresses of instructions nor lines"), "{said}");
    // Without perf's copy the program is not the recorded one, and no line is guessed.
    let empty = tempfile::tempdir().unwrap();
    let said = refused(empty.path(), &["profile", "-i", file, "--annotate"]);
    assert!(said.contains("opcost: "), "{said}");
}

#[test]
fn two_profiles_of_a_function_are_compared_line_by_line() {
    let (home, sources) = (home(), data("."));
    let (one, two) = (data("plain.data"), data("threads.data"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    let sources = sources.to_str().unwrap();
    // The word behind --annotate is a file here, so the function is the one that changed most.
    let text = printed(home.path(), &["diff", "--annotate", one, two, "--source-root", sources]);
    assert!(text.contains("threads.data against plain.data, cpu-clock by line"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let arguments = ["diff", "--annotate=leaf", one, two, "--source-root", sources, "--json"];
    let json: Value = serde_json::from_str(&printed(home.path(), &arguments)).unwrap();
    assert_eq!(json["paired_by"], "sources");
    let lines = json["lines"].as_array().unwrap();
    for side in ["cost_baseline", "cost"] {
        let sum: u64 = lines.iter().filter_map(|line| line[side].as_u64()).sum();
        assert_eq!(json["total"][side].as_u64(), Some(sum), "{side}");
    }
    let line = lines.iter().find(|line| line["variant"]["line"] == 11).unwrap();
    assert_eq!(line["variant"]["text"], line["baseline"]["text"]);
    assert!(line["instructions"].as_array().unwrap().iter().all(|pair| pair["same"] == true));
}

#[test]
fn a_file_of_samply_has_the_instructions_that_the_profile_of_perf_has() {
    let (home, sources) = (home(), data("."));
    // samply made one from the other.
    let of_instructions = |file: &str, symbol: &str| {
        let (file, roots) = (data(file), sources.to_str().unwrap());
        let annotate = format!("--annotate={symbol}");
        let arguments = ["profile", "-i", file.to_str().unwrap(), &annotate, "--json"];
        let arguments = [&arguments[..], &["--source-root", roots]].concat();
        let json: Value = serde_json::from_str(&printed(home.path(), &arguments)).unwrap();
        let lines = json["lines"].as_array().unwrap();
        let all = lines.iter().flat_map(|line| line["instructions"].as_array().unwrap());
        let samples = all.map(|one| (one["address"].clone(), one["samples"].clone()));
        samples.collect::<Vec<_>>()
    };
    for symbol in ["leaf", "main"] {
        let perf = of_instructions("plain.data", symbol);
        assert_eq!(of_instructions("samply.json.gz", symbol), perf);
        assert!(perf.iter().any(|(_, samples)| samples.as_u64() > Some(0)), "{perf:?}");
    }
}

#[test]
fn lines_that_a_profile_names_are_shown_without_its_program() {
    let empty = tempfile::tempdir().unwrap();
    let file = data("go-new.pb.gz");
    let arguments = ["profile", "-i", file.to_str().unwrap(), "--annotate=main.join"];
    let text = printed(empty.path(), &arguments);
    // go tool pprof -list main.join: 10 ms, and 20 ms of strings.(*Builder).WriteString inlined there.
    let has =
        |words: &[&str]| text.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&["14 ", "100.00 %", "30 ms"]), "{text}");
    assert!(has(&["66.67 %", "20 ms", "strings.(*Builder).WriteString inlined"]), "{text}");
    assert!(text.contains("the lines are those that the profile names"), "{text}");
    let json = printed(empty.path(), &[&arguments[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["cost"], &json["instructions"]), (&30_000_000.into(), &0.into()));
}

#[test]
fn code_of_64_bit_arm_is_shown_by_instruction() {
    if !needs::programs(&["clang", "ld.lld", "readelf"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("work.c"), folder.path().join("work"));
    let text = "int table[9] = {1};\nvoid _start(void) {\n  for (int at = 0; at < 9; at++)\n    table[3] += at * 7;\n}\n";
    fs::write(&source, text).unwrap();
    let options = ["--target=aarch64-linux-gnu", "-g", "-O0", "-ffreestanding", "-nostdlib"];
    let built = std::process::Command::new("clang")
        .args(options)
        .args(["-static", "-fno-pic", "-fuse-ld=lld", "-o"])
        .args([&program, &source])
        .status();
    assert!(built.unwrap().success());
    let read = std::process::Command::new("readelf").arg("-lsW").arg(&program).output().unwrap();
    let read = String::from_utf8(read.stdout).unwrap();
    let fields = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let loads =
        read.lines().map(fields).filter(|line| line.first().is_some_and(|one| one == "LOAD"));
    let base = loads.map(|line| number(&line[2])).min().unwrap();
    let mut rows = read.lines().map(fields);
    let start = rows.find(|line| line.last().is_some_and(|one| one == "_start")).unwrap();
    let address = number(&start[1]) - base + 0x34;
    let profile = serde_json::json!({
        "meta": {"preprocessedProfileVersion": 49, "symbolicated": false, "product": "work"},
        "libs": [{"name": "work", "path": program}],
        "threads": [{
            "name": "work", "pid": 7, "tid": 7,
            "samples": {"stack": [0, 0, 0], "time": [1.0, 2.0, 3.0]},
            "stackTable": {"frame": [0], "prefix": [null]},
            "frameTable": {"func": [0], "address": [address]},
            "funcTable": {"name": [0], "resource": [0]},
            "resourceTable": {"lib": [0], "name": [0]},
            "stringArray": ["0x1"],
        }],
    });
    let file = folder.path().join("profile.json");
    fs::write(&file, profile.to_string()).unwrap();
    let text = printed(folder.path(), &["profile", "-i", file.to_str().unwrap(), "--annotate"]);
    assert!(text.starts_with("_start (work)") && text.contains("3 in 3 samples"), "{text}");
    // As llvm-objdump has it; the linker put an adr in place of adrp and add.
    let has = |figures: &str, code: &str| {
        text.lines().any(|line| line.contains(figures) && line.trim_end().ends_with(code))
    };
    assert!(
        has("100.00 %", "table[3] += at * 7;") && has("100.00 %", "mul w10, w8, w10"),
        "{text}"
    );
    assert!(has("", "str w8, [x9, #0xc]"), "{text}");
}

const COUNTED: &str = "
#include <stdlib.h>
static volatile unsigned seen;

__attribute__((noinline)) static void count(unsigned times)
{
    for (unsigned at = 0; at < times; at++)
        seen += at;
}

int main(void)
{
    count(1000);
    return 0;
}
";

/// The cost of each line of a function as callgrind counts it.
fn callgrind(lab: &Lab, program: &str, function: &str) -> BTreeMap<u64, u64> {
    let out = lab.path("callgrind.out");
    let ended = std::process::Command::new("valgrind")
        .args(["--tool=callgrind", "--compress-pos=no", "--compress-strings=no"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let (mut is_in, mut of_call, mut counts) = (false, false, BTreeMap::new());
    for line in lab.lines("callgrind.out") {
        if let Some(name) = line.strip_prefix("fn=") {
            is_in = name == function;
        }
        let fields = line
            .split_once(' ')
            .and_then(|(line, cost)| Some((line.parse::<u64>().ok()?, cost.parse::<u64>().ok()?)));
        // The line behind a call has the callee's cost.
        if let Some((line, cost)) = fields.filter(|_| is_in && !of_call) {
            *counts.entry(line).or_default() += cost;
        }
        of_call = line.starts_with("calls=");
    }
    counts
}

#[test]
fn counted_lines_are_those_of_callgrind() {
    if !needs::programs(&["cc", "valgrind"]) || !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "counted", COUNTED, &["-g"]);
    let measure = ["measure", "-q", "--machine", "emulated", "--kernel", "none", "--addresses"];
    lab.run(&[&measure[..], &["-n", "1", "--warmup", "0", &program]].concat()).expect(0);
    let shown = lab.json(&["show", "last", "--annotate=count", "--json"]);
    let of_line = |line: &Value| Some((line["line"].as_u64()?, line["cost"].as_u64()?));
    let ours: BTreeMap<u64, u64> =
        shown["lines"].as_array().unwrap().iter().filter_map(of_line).collect();
    let theirs = callgrind(&lab, &program, "count");
    assert_eq!(ours, theirs);
    // opcost reads the lines from the file itself; with addresses it shows the instructions, too.
    std::process::Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-instr=yes", "--collect-jumps=yes"])
        .arg(format!("--callgrind-out-file={}", lab.path("addresses.out").display()))
        .arg(&program)
        .output()
        .unwrap();
    for (file, with_code) in [("callgrind.out", false), ("addresses.out", true)] {
        let shown = lab.json(&["profile", "-i", file, "--annotate=count", "--json"]);
        let lines = shown["lines"].as_array().unwrap();
        let read = lines.iter().filter_map(of_line).collect::<BTreeMap<u64, u64>>();
        assert_eq!(read, theirs, "{file}");
        assert!(lines.iter().any(|line| line["text"] == "        seen += at;"), "{lines:?}");
        let instructions = lines.iter().flat_map(|line| line["instructions"].as_array().unwrap());
        let texts = instructions.map(|one| one["text"].as_str().unwrap());
        assert_eq!(texts.filter(|text| text.starts_with("add ")).count() > 0, with_code, "{file}");
    }
    assert!(ours.values().sum::<u64>() > 4000, "{ours:?}");
    let text = lab.output(&["show", "last", "--annotate=count"]);
    assert!(text.contains("seen += at;"), "{text}");
    // A program that was built anew is not the one that was counted.
    compile(&lab, "counted", &COUNTED.replace("1000", "1001"), &["-g"]);
    let shown = lab.json(&["profile", "-i", "addresses.out", "--annotate=count", "--json"]);
    assert_eq!(
        (&shown["sources"][0]["state"], &shown["instructions"]),
        (&"undated".into(), &0.into())
    );
    assert!(shown["lines"].as_array().unwrap().iter().all(|line| line["text"].is_null()));
    lab.run(&["show", "last", "--annotate=count"])
        .expect(2)
        .says(&["is not the file that was recorded"]);
}

#[test]
fn a_changed_line_is_named_with_its_exact_change() {
    if !needs::programs(&["cc"]) || !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    let old = compile(&lab, "old", COUNTED, &["-g"]);
    // Two lines above the function, and seven instructions in its loop.
    let changed = COUNTED
        .replace("static volatile", "/* more\n * lines */\nstatic volatile")
        .replace("seen += at;", "{ seen += at; __asm__ volatile(\".rept 7; nop; .endr\"); }");
    let new = compile(&lab, "new", &changed, &["-g"]);
    let compare = ["compare", "-q", "--machine", "emulated", "--kernel", "none", "--addresses"];
    lab.run(&[&compare[..], &["-n", "2", "--warmup", "0", &old, &new]].concat()).expect(0);
    let json = lab.json(&["diff", "last", "--annotate=count", "--json"]);
    assert_eq!(json["total"]["change"], 7000.0, "{json}");
    assert_eq!(json["paired_by"], "sources");
    let differing: Vec<&Value> =
        json["lines"].as_array().unwrap().iter().filter(|line| line["same"] == false).collect();
    let [line] = differing[..] else { panic!("{differing:?}") };
    assert_eq!((&line["change"], &line["verdict"]), (&7000.0.into(), &"changed".into()));
    let numbers =
        [&line["baseline"]["line"], &line["variant"]["line"]].map(|line| line.as_u64().unwrap());
    assert_eq!(numbers[1], numbers[0] + 2);
    let pairs = line["instructions"].as_array().unwrap();
    let added: Vec<_> = pairs.iter().filter(|pair| pair["baseline"].is_null()).collect();
    assert!(
        added.len() == 7 && added.iter().all(|pair| pair["variant"]["text"] == "nop"),
        "{added:?}"
    );
    let text = lab.output(&["diff", "last", "--annotate"]);
    assert!(text.contains("+7,000") && text.contains("each difference is exact"), "{text}");
    let has = |sign: char, code: &str| {
        text.lines().any(|line| line.contains(&format!("{sign}  ")) && line.contains(code))
    };
    assert!(has('-', "seen += at;") && has('+', "{ seen += at;"), "{text}");
}

/// Two branches on flags: one that the program never changes, and one that it changes in the middle.
const FLAGS: &str = "volatile int fixed, changed;
__attribute__((noinline)) static void rare(void) { __asm__ volatile(\"\"); }
__attribute__((noinline)) void work(long rounds) {
    for (long at = 0; at < rounds; at++) {
        if (fixed)
            rare();
        if (changed)
            rare();
        if (at == rounds / 2)
            changed = 1;
    }
}
int main(void) { work(5000); return 0; }
";

#[test]
fn a_branch_on_a_flag_that_never_changed_is_a_site_for_patchpoint() {
    if !needs::programs(&["gcc"]) || !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    compile(&lab, "flags", FLAGS, &["-O1", "-g"]);
    let record = ["measure", "-q", "--machine", "emulated", "--kernel", "none", "-n", "1"];
    lab.run(&[&record[..], &["--addresses", "./flags"]].concat()).expect(0);
    let text = lab.run(&["show", "last", "--annotate", "work"]).expect(0).stdout;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let json = lab.json(&["show", "last", "--annotate", "work", "--json"]);
    let site = &json["patch_sites"][0];
    // The loop's 5,000 rounds, times the load and the test.
    let runs = site["executions"].as_u64().unwrap() / 5000;
    assert_eq!(site["executions"], 5000 * runs, "{site}");
    assert_eq!(site["removed_instructions"], 10_000 * runs, "{site}");
    assert_eq!((&site["flag"], &site["line"]), (&"fixed".into(), &5.into()), "{site}");
    assert!(json["patch_sites"][1].is_null(), "{json}");
    let said = "patchpoint: the branch on fixed at";
    assert!(text.contains(said) && text.contains("instructions away"), "{text}");
    assert!(!text.contains("the branch on changed"), "{text}");
    // gcc writes no hash of a source, and the time says nothing where an older version was put in place.
    let source = lab.path("flags.c");
    let written = fs::metadata(&source).unwrap().modified().unwrap();
    for (text, state) in [(format!("\n{FLAGS}"), "moved"), (FLAGS.into(), "older")] {
        fs::write(&source, text).unwrap();
        fs::File::options().write(true).open(&source).unwrap().set_modified(written).unwrap();
        let json = lab.json(&["show", "last", "--annotate", "work", "--json"]);
        let source = &json["sources"][0];
        assert_eq!(source["state"], state, "{source}");
        let text = lab.run(&["show", "last", "--annotate", "work"]).expect(0).stdout;
        assert_eq!(text.contains("its functions begin at other lines"), state == "moved", "{text}");
        assert_eq!(text.contains("if (fixed)"), state == "older", "{text}");
    }
}

#[test]
fn the_sampled_kernels_code_is_that_of_the_vmlinux_with_its_build_id() {
    if !cfg!(target_arch = "x86_64") || !needs::programs(&["gcc", "ld"]) {
        return;
    }
    let home = home();
    let at = |name: &str| home.path().join(name);
    // perf recorded _text at 0xffffffff81000000; this kernel is linked elsewhere. exc_page_fault began at 0xffffffff821f2ed0.
    let source = "void fault_begins(void);\n__attribute__((section(\".fault\"), naked))\nvoid exc_page_fault(void) {\n  \
                  __asm__(\".rept 200\\n nop\\n .endr\");\n  __asm__(\".rept 300\\n nop\\n .endr\");\n}\nvoid _text(void) {}\n";
    fs::write(at("fault.c"), source).unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new(program);
        assert!(command.args(arguments).current_dir(home.path()).status().unwrap().success());
    };
    run("gcc", &["-g", "-c", "-fcf-protection=none", "-fno-pic", "-mcmodel=kernel", "fault.c"]);
    let link = |id: &str, name: &str| {
        let id = format!("--build-id=0x{id}");
        let places = ["-Ttext=0xffffffff90000000", "--section-start=.fault=0xffffffff911f2ed0"];
        run("ld", &["-e", "0", &id, "-o", name, "fault.o", places[0], places[1]]);
    };
    link("48dc540c8b76393804ca8088dbfa7d42911a9444", "vmlinux");
    link("48dc540c8b76393804ca8088dbfa7d42911a9445", "other");
    let file = data("plain.data");
    let annotated = |symbols: &str| {
        let symbols = at(symbols);
        let arguments = ["profile", "-i", file.to_str().unwrap(), "--kernel-symbols"];
        let arguments = [&arguments[..], &[symbols.to_str().unwrap(), "--annotate=exc_page_fault"]];
        opcost(home.path(), &arguments.concat()).output().unwrap()
    };
    let output = annotated("vmlinux");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("6 ms in 12 samples"), "{text}");
    // Eleven samples are 0xd7 bytes behind its begin, one 0x17b.
    let has =
        |words: &[&str]| text.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&["5", "100.00 %", ".rept 300"]) && has(&["91.67 %", "nop"]), "{text}");
    let said = |symbols: &str| String::from_utf8(annotated(symbols).stderr).unwrap();
    assert!(said("other").contains("no such function"), "{}", said("other"));
    let list =
        "ffffffff81000000 T _text\nffffffff821f2ed0 T exc_page_fault\nffffffff821f30c4 T next\n";
    fs::write(at("System.map"), list).unwrap();
    let error = said("System.map");
    assert!(
        error.contains("the vmlinux of kernel") && error.contains("--kernel-symbols"),
        "{error}"
    );
    assert!(error.contains("48dc540c8b76"), "{error}");
}
