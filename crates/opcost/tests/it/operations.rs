//! Programs that run for a time: refused, and counted per operation by what they print.

use crate::lab::{ALONE, Lab, compile, metric};
use crate::made::emulated::{Tree, plan, recording};
use crate::needs;
use opcost_gate::gate::counts::{counts, key};
use opcost_gate::gate::suite::WatchedFigure;
use opcost_model::plan::OpsPattern;
use opcost_model::recording::Recording;
use opcost_model::recording::settings::Revision;
use serde_json::Value;
use std::path::Path;

const SHORT: [&str; 4] = ["-n", "2", "--warmup=0", "--quiet"];

/// Prints how many operations it did: as many as fit into some milliseconds, or so many. Each operation is a system call, and
/// `DEARER` instructions that do nothing.
const TIMED: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}
int main(int argc, char **argv) {
    long long end_ns = now_ns() + atoll(argv[1]) * 1000000LL;
    long done = 0;
    do {
        for (int i = 0; i < 100; i++) {
            syscall(SYS_getppid);
            __asm__ volatile(".rept " DEARER "\n\tnop\n\t.endr");
        }
        done += 100;
    } while (now_ns() < end_ns);
    printf("operations: %ld\n", done);
    return 0;
}
"#;

#[test]
fn a_program_that_runs_for_a_time_is_refused_and_right_per_operation() {
    let Some(kernel) = needs::kernel() else { return };
    if !needs::programs(&["cc"]) {
        return;
    }
    let lab = Lab::new();
    let [cheap, dear] = [("cheap", "0"), ("dear", "32")].map(|(name, dearer)| {
        compile(&lab, name, TIMED, &[&format!("-DDEARER=\"{dearer}\"")]) + " 50"
    });
    let guests = ["--machine", "emulated", "--kernel", &kernel, "--warmup=0", "--quiet", "--json"];
    let both = [&["compare", &cheap, &dear, "--pairs", "1"], &guests[..]].concat();
    let shown: Value = serde_json::from_str(&lab.run(&both).expect(3).stdout).unwrap();
    let rules = shown["opcost"]["ledger"].as_array().unwrap();
    let rule = rules.iter().find(|entry| entry["rule"] == "operations").unwrap();
    assert_eq!(rule["severity"], "refuse", "{rule:#}");
    let detail = rule["detail"].as_str().unwrap();
    for part in ["run for a time", "the number of system calls changed by", "clock", "--ops REGEX"]
    {
        assert!(detail.contains(part), "{detail}");
    }
    lab.run(&[&both[..], &["--allow", "operations"]].concat()).expect(0);
    // The same program on both sides runs for a time, too, but nothing moved.
    let same = ["--variant", &format!("a={cheap}"), "--variant", &format!("b={cheap}")];
    lab.run(&[&["compare", "--pairs", "1"], &same[..], &guests[..]].concat()).expect(0);
    // One variant by itself raises a doubt.
    let alone = [&["measure", &cheap, "-n", "1"], &guests[..]].concat();
    let shown = lab.json(&alone);
    let rules = shown["opcost"]["ledger"].as_array().unwrap();
    let rule = rules.iter().find(|entry| entry["rule"] == "operations").unwrap();
    assert_eq!(rule["severity"], "fine", "50 ms are no round time: {rule:#}");
    // Per operation, the difference is the 32 instructions, which are known by construction.
    let shown = lab.json(&[&both[..], &["--ops", "operations: ([0-9]+)"]].concat());
    let user = metric(&shown, "instructions", "user");
    assert_eq!(user["per_op"], true);
    let change = user["value"].as_f64().unwrap() - user["value_baseline"].as_f64().unwrap();
    assert!((change - 32.0).abs() < 0.2, "{user:#}");
    let calls = metric(&shown, "system-calls", "all");
    assert!((calls["value"].as_f64().unwrap() - 1.0).abs() < 0.01, "{calls:#}");
    let summary = &shown["opcost"]["plan"]["variants"][0];
    assert_eq!(summary["ops"], "operations: ([0-9]+)");
}

#[test]
fn operations_are_read_from_either_stream_and_from_files() {
    let lab = Lab::new();
    let counts = ["echo did 4000 >&2", "echo did 2000"];
    let ops = ["--ops", "did ([0-9]+)"];
    let shell = ["compare", "--shell", counts[0], counts[1]];
    let text = lab.output(&[&shell[..], &ops, &SHORT].concat());
    assert!(text.contains("per op, from the program's output: 2,000 to 4,000 ops a run"), "{text}");
    assert!(text.contains("wall/op"), "{text}");
    assert_eq!(lab.column("last", "ops").iter().filter(|ops| *ops == "4000").count(), 2);
    let document = lab.json(&["show", "last", "--json"]);
    let rules = document["opcost"]["ledger"].as_array().unwrap();
    let rule = rules.iter().find(|entry| entry["rule"] == "operations").unwrap();
    assert_eq!(rule["severity"], "doubtful", "{rule:#}");
    assert!(rule["detail"].as_str().unwrap().contains("weighs 2.0 times as much"), "{rule:#}");
    // Times of whole runs are those of hyperfine's format.
    let wall = lab.column("last", "clock wall [ns]");
    for time in document["results"][0]["times"].as_array().unwrap() {
        let ns = (time.as_f64().unwrap() * 1e9).round().to_string();
        assert!(wall.contains(&ns), "{ns} in {wall:?}");
    }
    // The output is still where the user wants it.
    let one = ["measure", "echo did 2000"];
    lab.output(&[&one[..], &ops, &["--output", "out"], &SHORT].concat());
    assert_eq!(lab.read("out"), "did 2000\n");
    let text = lab.output(&[&one[..], &ops, &["--output", "inherit"], &SHORT].concat());
    assert!(text.starts_with("did 2000\ndid 2000\n"), "{text}");
    // A file has the expression of each variant.
    lab.write(
        "x.toml",
        "pairs = 2\nwarmup = 0\nops = 'did ([0-9]+)'\n[[variant]]\ncommand = \"echo did 2000\"\n\
         [[variant]]\ncommand = \"echo made 2500\"\nops = 'made (\\d+)'\n",
    );
    lab.output(&["run", "x.toml", "--quiet"]);
    assert_eq!(lab.column("last", "ops").len(), 4);
}

#[test]
fn an_output_without_its_number_fails_the_run() {
    let lab = Lab::new();
    let failed = |command: &str, ops: &str, parts: &[&str]| {
        let args = ["measure", command, "--ops", ops];
        lab.run(&[&args[..], &SHORT].concat()).expect(4).says(parts);
    };
    failed("echo hello", "did ([0-9]+)", &["matches nothing that the program printed", "  hello"]);
    failed("printf '1\\n2\\n'", "^([0-9]+)$", &["matches 2 times: '1', '2'"]);
    failed("echo did 12k", "did (\\S+)", &["finds '12k', which is rounded"]);
    failed("echo did 0", "did ([0-9]+)", &["finds 0 operations"]);
    failed("head -c 1048576 /dev/zero", "did ([0-9]+)", &["printed 1 MiB or more"]);
    let refused = |args: &[&str], parts: &[&str]| {
        lab.run(&[args, &SHORT].concat()).expect(2).says(parts);
    };
    refused(&["measure", "true", "--ops", "("], &["'(' is no regular expression"]);
    refused(&["measure", "true", "--ops", "did"], &["'did' has no group"]);
    refused(&["measure", "-w", "syscall", "--ops", "(a)"], &["counts its operations by itself"]);
    let pipe = ["measure", "true", "--ops", "(a)", "--output", "pipe"];
    refused(&pipe, &["--ops reads what the command prints from a file"]);
}

/// A recording of one variant that did 2,000 operations of 320 instructions each in `getppid`, and printed their number.
fn printed(pattern: Option<&str>) -> Recording {
    let mut plan = plan(&["off"], 2);
    plan.variants[0].ops = pattern.map(|pattern| pattern.parse::<OpsPattern>().unwrap());
    let mut made = recording(plan, 0, |_| {
        let mut tree = Tree::default();
        tree.kernel(None, "getppid", 2000, 640_000);
        (tree.grown(), Vec::new())
    });
    made.records.iter_mut().for_each(|run| run.ops = Some(2000));
    made
}

#[test]
fn a_gate_counts_a_million_operations_of_a_program_that_prints_them() {
    let figures =
        [WatchedFigure::Metric("instructions".into()), WatchedFigure::Function("getppid".into())];
    let of = |made: &Recording| {
        let counts = counts(made, &figures).unwrap();
        counts.into_iter().map(|count| (count.metric, count.value.unwrap())).collect::<Vec<_>>()
    };
    let counted = [("instructions".to_string(), 640_000), ("function:getppid".into(), 640_000)];
    assert_eq!(
        of(&printed(None)),
        counted,
        "operations of a workload are the same in each revision"
    );
    let million = [
        ("instructions/Mop".to_string(), 320_000_000),
        ("function:getppid/Mop".into(), 320_000_000),
    ];
    assert_eq!(of(&printed(Some("did ([0-9]+)"))), million);
    // Figures of different operations are not compared.
    let revision =
        Revision { tree: Path::new("/"), compiler: None, other_tree: None, is_kernel: false };
    let keys = [None, Some("did ([0-9]+)"), Some("made ([0-9]+)")]
        .map(|pattern| key(&printed(pattern), revision).to_string());
    assert!(keys[0] != keys[1] && keys[1] != keys[2]);
}

#[test]
fn operations_of_programs_without_a_kernel_are_read_too() {
    if !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    let args = ["echo did 2000", "echo did 3,000", "--ops", "did ([0-9,]+)", "--pairs", "1"];
    let short = ["--warmup=0", "--quiet", "--json"];
    let shown = lab.json(&[&ALONE[..], &args, &short].concat());
    assert_eq!(metric(&shown, "instructions", "user")["per_op"], true);
}

/// An instruction of AVX-512, and one that draws a random number, in programs without a library.
const ILLEGAL: &str = r#"
void _start(void) {
    __asm__ volatile(INSTRUCTION);
    __asm__ volatile("mov $60, %eax; xor %edi, %edi; syscall");
}
"#;

#[test]
fn sigill_names_instruction_feature_and_remedy() {
    let Some(kernel) = needs::kernel() else { return };
    if !needs::programs(&["cc"]) {
        return;
    }
    let lab = Lab::new();
    let check = |name: &str, instruction: &str, options: &[&str], parts: &[&str]| {
        let defined = format!("-DINSTRUCTION=\"{instruction}\"");
        let program = compile(&lab, name, ILLEGAL, &["-nostdlib", "-static", &defined]);
        let guest = ["--machine", "emulated", "--kernel", &kernel, "-n", "1", "--warmup=0"];
        let args = [&["measure", &program, "--quiet"], &guest[..], options].concat();
        lab.run(&args).expect(4).says(parts);
    };
    let avx = ["'vpaddd zmm0,zmm0,zmm0'", "in wide", "needs AVX512F", "-march=x86-64-v3"];
    check("wide", "vpaddd %zmm0, %zmm0, %zmm0", &[], &avx);
    check("wide", "vpaddd %zmm0, %zmm0, %zmm0", &["--fresh-boots"], &avx);
    let random = ["'rdrand eax'", "in random", "needs RDRAND"];
    let kept = [&random[..], &["give --fresh-boots"]].concat();
    check("random", "rdrand %eax", &[], &kept);
    let lacking = [&random[..], &["the CPU model qemu64 lacks it", "--cpu-model"]].concat();
    check("random", "rdrand %eax", &["--fresh-boots", "--cpu-model", "qemu64"], &lacking);
}
