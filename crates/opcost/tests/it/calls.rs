//! Calls of functions: against callgrind, and as the parts of a function's change.

use crate::lab::{Lab, compile, metric};
use crate::needs;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// Recursion, tail calls, calls through pointers, a function that is inlined and two that nobody calls.
const PROGRAM: &str = r#"
#include <stdlib.h>
#define APART __attribute__((noinline, noclone))
volatile long sum;
APART static long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
APART static long last(long n) { return sum += n; }
APART static long first(long n) { sum ^= n; return last(n + 1); }
APART static long op_add(long n) { return sum += n; }
APART static long op_sub(long n) { return sum -= n; }
APART long op_never(long n) { return sum *= n; }
APART long idle(long n) { return sum |= n; }
static inline long inlined(long n) { return sum ^ n; }
static long (*const ops[])(long) = { op_add, op_sub, op_add };
int main(int count, char **words) {
    sum += fib(12);
    for (long at = 0; at < 100; at++) first(at);
    for (long at = 0; at < 60; at++) ops[at % 3](inlined(at));
    for (long at = 0; at < 7; at++) free(malloc(at));
    if (count > 9) op_never(idle(count));
    return 0;
}
"#;

const MEASURE: [&str; 10] =
    ["measure", "--machine", "emulated", "--kernel", "none", "-n", "1", "--warmup", "0", "--json"];

/// The calls of each function that callgrind counted in a program, in the functions of its own file.
fn callgrind(lab: &Lab, program: &str) -> BTreeMap<String, u64> {
    let out = lab.path("callgrind.out");
    let ended = Command::new("valgrind")
        .args(["--tool=callgrind", "--compress-pos=no", "--compress-strings=no"])
        .args([&format!("--callgrind-out-file={}", out.display()), program])
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let (mut callee, mut calls) = (String::new(), BTreeMap::new());
    for line in lab.lines("callgrind.out") {
        if let Some(name) = line.strip_prefix("cfn=") {
            // Callgrind counts a recursion apart, as `fib'2`.
            callee = name.split('\'').next().unwrap_or_default().to_string();
        }
        if let Some(times) = line.strip_prefix("calls=").and_then(|line| line.split(' ').next()) {
            *calls.entry(callee.clone()).or_default() += times.parse::<u64>().unwrap();
        }
    }
    calls
}

/// The rows of calls, by label.
fn counted(shown: &Value) -> BTreeMap<String, f64> {
    let figures = shown["opcost"]["figures"].as_array().unwrap().iter();
    let of_calls = figures.filter_map(|figure| {
        let name = figure["metric"].as_str()?.strip_prefix("calls:")?;
        Some((name.to_string(), figure["values"][0].as_f64()?))
    });
    of_calls.collect()
}

#[test]
fn calls_are_those_that_callgrind_counts() {
    if !needs::programs(&["cc", "valgrind"]) || !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "work", PROGRAM, &["-O2"]);
    let names = ["fib", "first", "last", "op_*", "main", "inlined", "idle"];
    let asked: Vec<String> = names.iter().map(|name| format!("--count=calls:{name}")).collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let shown = lab.json(&[&MEASURE[..], &asked, &[&program]].concat());
    let (ours, theirs) = (counted(&shown), callgrind(&lab, &program));
    let known: Vec<&str> = ours.keys().map(String::as_str).collect();
    // A pattern's functions have rows if something called them.
    assert_eq!(known, ["fib", "first", "idle", "last", "main", "op_add", "op_sub"]);
    for (name, calls) in &ours {
        assert_eq!(*calls, theirs.get(name).copied().unwrap_or(0) as f64, "{name}");
    }
    assert_eq!([ours["fib"], ours["last"], ours["idle"]], [465.0, 100.0, 0.0]);
    // A function without code of its own has no figure, and the report says what to do.
    let text = lab.output(&["show", "last"]);
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("a function that the compiler inlined everywhere has no calls"),
        "{text}"
    );
}

/// A function that each operation calls `TIMES` times, at a price that `DEAR` raises.
const PARTS: &str = r#"
volatile long sum;
__attribute__((noinline, noclone)) static void both(long n) { sum += n; if (DEAR) { sum ^= n; sum -= 3; } }
__attribute__((noinline, noclone)) static void often(long n) { sum ^= n; }
__attribute__((noinline, noclone)) static void fresh(long n) { sum -= n; }
int main(void) {
    for (long at = 0; at < 1000; at++) {
        for (int time = 0; time < TIMES; time++) { both(at); often(at); }
        if (DEAR) fresh(at);
    }
    return 0;
}
"#;

#[test]
fn a_change_is_split_into_more_calls_and_dearer_calls() {
    if !needs::programs(&["cc"]) || !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    let of = |name: &str, flags: &[&str]| compile(&lab, name, PARTS, &[&["-O1"], flags].concat());
    let old = of("old", &["-DTIMES=1", "-DDEAR=0"]);
    let new = of("new", &["-DTIMES=2", "-DDEAR=1"]);
    let args = ["compare", "--machine", "emulated", "--kernel", "none", "--pairs", "2"];
    let count = ["--count", "calls:often", "--count", "calls:fresh", "--json", &old, &new];
    let shown = lab.json(&[&args[..], &count].concat());
    assert_eq!(metric(&shown, "calls:often", "user")["value_baseline"], 1000.0);
    assert_eq!(metric(&shown, "calls:often", "user")["value"], 2000.0);
    assert_eq!(metric(&shown, "calls:often", "user")["verdict"], "changed");
    // The compiler left the function out of the old program, which calls it never.
    assert_eq!(metric(&shown, "calls:fresh", "user")["value"], 1000.0);
    let rows = shown["opcost"]["functions"].as_array().unwrap();
    let of = |symbol: &str| {
        let row = rows.iter().find(|row| row["symbol"] == symbol).expect(symbol);
        let names = [
            "value_baseline",
            "value",
            "calls_baseline",
            "calls",
            "change_from_calls",
            "change_from_price",
        ];
        names.map(|name| row[name].as_f64().unwrap_or_else(|| panic!("{symbol}: no {name}")))
    };
    let [old_own, new_own, old_calls, new_calls, more, dearer] = of("both");
    assert_eq!([old_calls, new_calls], [1000.0, 2000.0]);
    assert_eq!(more, old_own);
    assert_eq!(dearer, new_own - 2.0 * old_own);
    assert!(dearer > 0.0);
    let [old_own, new_own, .., more, dearer] = of("often");
    assert_eq!([new_own, more, dearer], [2.0 * old_own, old_own, 0.0]);
    let [_, own, .., more, dearer] = of("fresh");
    assert_eq!([more, dearer], [own, 0.0]);

    let text = lab.output(&["show", "last"]);
    assert!(text.contains("more often (1,000 → 2,000 calls of "), "{text}");
    assert!(text.contains(" more often (1,000 → 2,000 calls), +"), "{text}");
    assert!(text.contains("1,000 calls of "), "{text}");
}

#[test]
fn calls_that_cannot_be_counted_are_refused() {
    let lab = Lab::new();
    let emulated = ["--machine", "emulated", "--kernel", "none"];
    for (flags, why) in [
        (&["--count", "do_mmap"][..], "calls:FUNCTION counts a function's calls"),
        (&["--count", "calls:"], "names no function"),
        (&["--count", "calls:f", "--no-functions"], "cannot be used with"),
    ] {
        let asked = [&["measure"], &emulated[..], flags, &["true"]].concat();
        let ended = lab.run(&asked).expect(2);
        assert!(ended.stderr.contains(why), "{flags:?}: {}", ended.stderr);
    }
    let ended = lab.run(&["measure", "--count", "calls:f", "true"]).expect(2);
    assert!(ended.stderr.contains("'count' is for the emulated machine"), "{}", ended.stderr);
    if needs::emulator() {
        let asked = [&["measure"], &emulated[..], &["--count", "calls:*", "true"]].concat();
        let ended = lab.run(&asked).expect(2);
        assert!(ended.stderr.contains("functions have such names"), "{}", ended.stderr);
    }
}
