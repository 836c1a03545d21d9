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
/* Ends with a jump to one of two allocators, from one place for all calls. */
__attribute__((noinline)) static void *made(unsigned long bytes, int zero) {
    return zero ? calloc(1, bytes) : malloc(bytes);
}
int main(int count, char **words) {
    char *kept[10];
    if (count > 1) return 0;
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
    for (int at = 0; at < 10; at++) kept[5] = made(200 + at, at & 1);
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
    let program = compile(&lab, "heap", HEAP, &["-O2", "-fno-builtin"]);
    let counted = |work: &str| {
        let count = ["--kernel", "none", "--count", "heap", "--count", "allocated-bytes:u", work];
        figures(&lab.json(&[&MEASURE[..], &count].concat()))
    };
    let [allocations, _, bytes] = valgrind(&program);
    // 10 pieces of 100 to 109 bytes; then 6 are freed and pieces of 5000 in place of 106, 70, 77, 333, 320 and 42 bytes are
    // allocated, the one of 320 is freed, and 10 of 200 to 209 stay.
    let held = 107.0 + 108.0 + 109.0 + 5000.0 + 70.0 + 77.0 + 333.0 + 42.0 + 2045.0;

    // Valgrind does not see the functions of a static program. Its library allocates before main.
    let fixed = compile(&lab, "static", HEAP, &["-O2", "-fno-builtin", "-static"]);
    let (ours, idle) = (counted(&fixed), counted(&format!("{fixed} idle")));
    for (metric, more) in
        [("allocations", allocations), ("allocated-bytes", bytes), ("heap-left-bytes", held)]
    {
        assert_eq!(ours[metric][0] - idle[metric][0], more, "{metric}");
    }

    let ours = counted(&program);
    assert_eq!([ours["allocations"][0], ours["allocated-bytes"][0]], [allocations, bytes]);
    // Valgrind counts no free of null, and one for each realloc of memory.
    assert_eq!(ours["frees"], [8.0]);
    assert_eq!([ours["heap-left-bytes"][0], ours["heap-peak-bytes"][0]], [held, held]);
    let text = lab.output(&["show", "last"]);
    assert!(text.contains("allocations:u") && text.contains("allocated-bytes:u"), "{text}");
}

/// Works in rounds of known events; prints what the kernel's own counters say of them.
const GUEST: &str = include_str!("guest.c");

/// A run of the program in a guest: what it printed, and the figures.
struct Ran {
    printed: BTreeMap<String, f64>,
    figures: BTreeMap<String, Vec<f64>>,
}

impl Ran {
    /// Runs the program for so many rounds, with messages of so many bytes.
    fn of(lab: &Lab, guest: &[&str], program: &str, rounds: u64, bytes: u64) -> Ran {
        let count = ["--seed", "1", "--count", "all", "--show-output"];
        let work = format!("{program} {rounds} {bytes}");
        let shown = lab.output(&[&MEASURE[..], guest, &count, &[&work]].concat());
        let (printed, json) = shown.split_at(shown.find('{').unwrap());
        let printed = printed.lines().filter_map(|line| line.split_once('='));
        Ran {
            printed: printed.map(|(name, value)| (name.into(), value.parse().unwrap())).collect(),
            figures: figures(&serde_json::from_str(json).unwrap()),
        }
    }

    fn count(&self, name: &str) -> f64 {
        self.figures.get(name).map_or(0.0, |values| values[0])
    }

    /// How much more a metric was than in another run.
    fn more(&self, than: &Ran, name: &str) -> f64 {
        self.count(name) - than.count(name)
    }
}

/// The calls and failures of each system call by strace.
fn strace(lab: &Lab, program: &str, rounds: u64, bytes: u64) -> BTreeMap<String, [f64; 2]> {
    let file = lab.path("strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-o"]).arg(&file).arg(program);
    let ended = command.args([rounds, bytes].map(|word| word.to_string())).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let mut calls = BTreeMap::new();
    for line in lab.lines("strace") {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok());
        if let (Some(times), true) = (number(3), (5..=6).contains(&words.len())) {
            let failed = if words.len() == 6 { number(4).unwrap_or(0.0) } else { 0.0 };
            calls.insert(words[words.len() - 1].to_string(), [times, failed]);
        }
    }
    calls
}

#[test]
fn events_of_the_kernel_are_those_of_its_own_counters_and_of_strace() {
    let Some(kernel) = needs::kernel() else { return };
    if !needs::programs(&["cc", "strace"]) {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "guest", GUEST, &["-O1", "-static", "-w"]);
    let guest = ["--kernel", &kernel];
    let few = Ran::of(&lab, &guest, &program, 40, 1000);
    let many = Ran::of(&lab, &guest, &program, 840, 1000);
    let long = Ran::of(&lab, &guest, &program, 40, 3000);

    // The rounds alone differ: 800 of them, each with these events, and one page that exists before.
    for (metric, times) in [
        ("anonymous-pages", 5.0),
        ("copied-pages", 1.0),
        ("file-pages", 1.0),
        ("socket-bytes-sent", 700.0 + 500.0),
        ("packets-sent", 1.0),
        ("system-call:msgsnd", 1.0),
        ("system-call:read", 6.0),
        ("system-call-failed:openat:ENOENT", 1.0),
        ("system-call-failed:read:EBADF", 1.0),
    ] {
        assert_eq!(many.more(&few, metric), 800.0 * times, "{metric}");
    }
    // Longer messages only: their memory and their copies.
    for (metric, bytes) in
        [("slab-bytes", 2000.0), ("copied-from-programs", 2000.0), ("copied-to-programs", 2000.0)]
    {
        assert_eq!(long.more(&few, metric), 40.0 * bytes, "{metric}");
    }
    assert_eq!(long.more(&few, "slab-allocations"), 0.0);

    // What the kernel itself counts within the program; its beginning and end are in the figures only.
    for (metric, name, around) in [
        ("context-switches", "ctxt", 8.0),
        ("softirq-net-rx", "net-rx", 0.0),
        ("softirq-timer", "timer", 2.0),
        ("softirq-hrtimer", "hrtimer", 2.0),
        ("softirq-sched", "sched", 2.0),
        ("softirq-rcu", "rcu", 2.0),
    ] {
        for ran in [&few, &many, &long] {
            let more = ran.count(metric) - ran.printed[name];
            assert!(
                (0.0..=around).contains(&more),
                "{metric}: {} of {more} more",
                ran.count(metric)
            );
        }
    }
    assert!(many.printed["timer"] > 0.0 || many.printed["rcu"] > 0.0, "no tick came");
    // A kernel without CONFIG_VM_EVENT_COUNTERS has no such lines.
    if few.printed["pgalloc"] > 0.0 {
        let pages = many.more(&few, "page-bytes") / 4096.0;
        assert_eq!(pages, many.printed["pgalloc"] - few.printed["pgalloc"]);
    }

    // Each system call and each error.
    let calls = strace(&lab, &program, 40, 1000);
    assert_eq!(calls["msgrcv"], [40.0, 0.0]);
    for (name, [times, failed]) in &calls {
        if name == "total" {
            continue;
        }
        assert_eq!(few.count(&format!("system-call:{name}")), *times, "{name}");
        let of = format!("system-call-failed:{name}:");
        let errors = few.figures.iter().filter(|(metric, _)| metric.starts_with(&of));
        let errors: f64 = errors.map(|(_, values)| values[0]).sum();
        assert_eq!(errors, *failed, "{name}");
    }
}

#[test]
fn events_of_an_arm64_kernel_have_the_same_names() {
    let Some(kernel) = needs::kernel_arm64() else { return };
    if !needs::programs(&["aarch64-linux-gnu-gcc"]) {
        return;
    }
    let lab = Lab::new();
    let (source, program) = (lab.write("guest.c", GUEST), lab.path("guest"));
    let mut compiler = Command::new("aarch64-linux-gnu-gcc");
    compiler.args(["-O1", "-static", "-w", "-o"]).arg(&program).arg(source);
    assert!(compiler.status().unwrap().success());
    let guest = ["--architecture", "arm64", "--kernel", &kernel];
    let ran = Ran::of(&lab, &guest, program.to_str().unwrap(), 40, 1000);
    for (metric, times) in [
        ("socket-bytes-sent", 700.0 + 500.0),
        ("packets-sent", 1.0),
        ("softirq-net-rx", 1.0),
        ("system-call:msgsnd", 1.0),
        ("system-call-failed:openat:ENOENT", 1.0),
        ("system-call-failed:read:EBADF", 1.0),
    ] {
        assert_eq!(ran.count(metric), 40.0 * times, "{metric}");
    }
    let switches = ran.count("context-switches") - ran.printed["ctxt"];
    assert!((0.0..=8.0).contains(&switches), "{switches} more");
    assert!(ran.count("heap-left-bytes") > 0.0);
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
    for part in ["slab-bytes", "--count memory", "checked"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
}
