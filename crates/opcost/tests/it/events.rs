//! Exact events: against Valgrind, the kernel's own counters, and programs whose events are written down.

use crate::lab::{Lab, compile};
use crate::needs;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// Allocations of each kind, some of them freed.
const HEAP: &str = r#"
#include <stdlib.h>
#include <string.h>
int main(int count, char **words) {
    char *kept[10];
    for (int at = 0; at < 10; at++) kept[at] = malloc(100 + at);
    for (int at = 0; at < 6; at++) free(kept[at]);
    kept[6] = realloc(kept[6], 5000);
    kept[0] = realloc(0, 70);
    kept[1] = calloc(7, 11);
    if (posix_memalign((void **)&kept[2], 64, 333)) return 1;
    kept[3] = aligned_alloc(32, 320);
    kept[4] = strdup("forty-one letters stand in this very text");
    free(kept[3]);
    free(0);
    return kept[6] == 0;
}
"#;

const MEASURE: [&str; 8] =
    ["measure", "--machine", "emulated", "-n", "1", "--warmup", "0", "--json"];

/// The figures of each variant, by metric.
fn figures(shown: &Value) -> BTreeMap<String, Vec<f64>> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for figure in shown["opcost"]["figures"].as_array().unwrap() {
        let name = figure["metric"].as_str().unwrap().to_string();
        all.entry(name).or_default().extend(figure["median"].as_f64());
    }
    all
}

/// The numbers in Valgrind's line `total heap usage: 19 allocs, 9 frees, 7,000 bytes allocated`.
fn valgrind(program: &str) -> [f64; 3] {
    let flags = ["--tool=memcheck", "--run-libc-freeres=no"];
    let ended = Command::new("valgrind").args(flags).arg(program).output().unwrap();
    let text = String::from_utf8(ended.stderr).unwrap();
    let line = text.lines().find_map(|line| line.split_once("total heap usage: ")).expect(&text).1;
    let number = |part: &str| part.split(' ').find_map(|word| word.replace(',', "").parse().ok());
    let numbers: Vec<f64> = line.split(", ").filter_map(number).collect();
    numbers.try_into().expect(line)
}

#[test]
fn allocations_and_their_bytes_are_those_that_valgrind_counts() {
    if !needs::programs(&["cc", "valgrind"]) || !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "heap", HEAP, &["-O1", "-fno-builtin"]);
    let count = ["--kernel", "none", "--count", "heap", "--count", "allocated-bytes:u", &program];
    let ours = figures(&lab.json(&[&MEASURE[..], &count].concat()));
    let [allocations, _, bytes] = valgrind(&program);
    assert_eq!([ours["allocations"][0], ours["allocated-bytes"][0]], [allocations, bytes]);
    // Valgrind counts no free of null, and one for each realloc of memory.
    assert_eq!(ours["frees"], [8.0]);
    let text = lab.output(&["show", "last"]);
    assert!(text.contains("allocations:u") && text.contains("allocated-bytes:u"), "{text}");
}

#[test]
fn events_that_cannot_be_counted_are_refused() {
    let lab = Lab::new();
    let alone = ["--machine", "emulated", "--kernel", "none"];
    for (flags, why) in [
        (&["--count", "alocations"][..], "did you mean allocations"),
        (&["--count", "allocations", "--no-functions"], "cannot be used with"),
        (&["--count", "slab-bytes"], "has no meaning with --kernel none for events of the kernel"),
        (&["--count", "kernel"], "has no meaning with --kernel none for events of the kernel"),
    ] {
        let ended = lab.run(&[&["measure"], &alone[..], flags, &["true"]].concat()).expect(2);
        assert!(ended.stderr.contains(why), "{flags:?}: {}", ended.stderr);
    }
    let ended = lab.run(&["measure", "--count", "heap", "true"]).expect(2);
    assert!(ended.stderr.contains("'count' is for the emulated machine"), "{}", ended.stderr);
    let listed = lab.output(&["list", "events"]);
    assert!(listed.contains("slab-bytes") && listed.contains("--count memory"), "{listed}");
}
