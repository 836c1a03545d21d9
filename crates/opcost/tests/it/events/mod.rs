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
#include <sys/wait.h>
#include <unistd.h>
/* Ends with a jump to one of two allocators, from one place for all calls. */
__attribute__((noinline)) static void *made(unsigned long bytes, int zero) {
    return zero ? calloc(1, bytes) : malloc(bytes);
}
int main(int count, char **words) {
    char *kept[10];
    if (count > 1 && words[1][0] == 'i') return 0;
    if (count > 1) {
        /* A child has memory of its own at the addresses of its parent's. */
        kept[0] = malloc(1000);
        if (fork() == 0) {
            free(kept[0]);
            kept[0] = malloc(500);
            _exit(kept[0] == 0);
        }
        return wait(0) < 0;
    }
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

/// The library that Debian's package libjemalloc2 has.
fn jemalloc() -> Option<String> {
    let library = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    std::path::Path::new(library).exists().then(|| library.into())
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

    // jemalloc in place of the C library's.
    match jemalloc() {
        Some(library) => {
            let preload = format!("LD_PRELOAD={library}");
            let loaded = |work: &str| {
                let count = ["--kernel", "none", "--count", "heap", "--env", &preload, work];
                figures(&lab.json(&[&MEASURE[..], &count].concat()))
            };
            let (ours, idle) = (loaded(&program), loaded(&format!("{program} idle")));
            for (metric, more) in [("allocations", allocations), ("allocated-bytes", bytes)] {
                assert_eq!(ours[metric][0] - idle[metric][0], more, "{metric} of jemalloc");
            }
        }
        None => crate::skip::skip!("there is no libjemalloc.so.2 here"),
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
    /// Runs the program with its numbers: rounds, bytes of a message, further work that only a guest may do, locks.
    fn of(lab: &Lab, guest: &[&str], program: &str, numbers: [u64; 4]) -> Ran {
        let count = ["--seed", "1", "--count", "all", "--show-output"];
        let work = format!("{program} {}", numbers.map(|number| number.to_string()).join(" "));
        let shown = lab.output(&[&MEASURE[..], guest, &count, &[&work]].concat());
        let (printed, json) = shown.split_at(shown.find('{').unwrap());
        let printed = printed.lines().filter_map(|line| line.split_once('='));
        Ran {
            printed: printed.map(|(name, value)| (name.into(), value.parse().unwrap())).collect(),
            figures: figures(&serde_json::from_str(json).unwrap()),
        }
    }

    /// How much more the kernel's own counters of these names, together, said than in another run.
    fn more_printed(&self, than: &Ran, names: &[&str]) -> f64 {
        names.iter().map(|name| self.printed[*name] - than.printed[*name]).sum()
    }

    fn count(&self, name: &str) -> f64 {
        self.figures.get(name).map_or(0.0, |values| values[0])
    }

    /// How much more a metric was than in another run.
    fn more(&self, than: &Ran, name: &str) -> f64 {
        self.count(name) - than.count(name)
    }
}

/// Further work of the program, with 40 units more in the second run.
const FURTHER: [u64; 2] = [8, 48];

/// Asserts what a unit of the further work is written to do, on every architecture. Work that the kernel had put off may begin
/// within the run, so such events have some room.
fn assert_further(few: &Ran, many: &Ran) {
    for (metric, times, room) in [
        ("file-windows", 1.0, 0.0),
        ("mutexes-contended", 1.0, 0.0),
        ("rcu-callbacks", 1.0, 4.0),
        ("work-queued", 1.0, 4.0),
        ("work-run", 1.0, 4.0),
    ] {
        let more = many.more(few, metric) - 40.0 * times;
        assert!((0.0..=room).contains(&more), "{metric}: {more} more");
    }
    let timers = ["softirq-hrtimer", "softirq-net-rx"].map(|metric| many.more(few, metric));
    assert_eq!(timers, ["hrtimer", "net-rx"].map(|name| many.more_printed(few, &[name])));
    assert!(timers[0] >= 20.0, "packets were not sent at a pace");
}

/// The calls and failures of each system call by strace.
fn strace(lab: &Lab, program: &str, numbers: [u64; 4]) -> BTreeMap<String, [f64; 2]> {
    let file = lab.path("strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-o"]).arg(&file).arg(program);
    let ended = command.args(numbers.map(|word| word.to_string())).output().unwrap();
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
    let program = compile(&lab, "guest", GUEST, &["-O1", "-static", "-w", "-pthread"]);
    let guest = ["--kernel", &kernel];
    let few = Ran::of(&lab, &guest, &program, [40, 1000, 0, 1000]);
    let many = Ran::of(&lab, &guest, &program, [840, 1000, 0, 1000]);
    let long = Ran::of(&lab, &guest, &program, [40, 7000, 0, 2000]);

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
    // Longer messages only: their second piece (struct msg_msgseg has 8 bytes) and their copies.
    for (metric, each) in [
        ("slab-bytes", 6008.0),
        ("slab-allocations", 1.0),
        ("slab-frees", 1.0),
        ("copied-from-programs", 6000.0),
        ("copied-to-programs", 6000.0),
    ] {
        // The locks' numbers are words of eight bytes.
        let locks = if metric.starts_with("copied") { 8.0 * 1000.0 } else { 0.0 };
        assert_eq!(long.more(&few, metric), 40.0 * each + locks, "{metric}");
    }
    // Locks, with some of ticks, and page faults that only try their semaphore.
    for (metric, each) in [("spin-locks", 4.0), ("mutexes", 1.0), ("semaphores", 1.0)] {
        let more = long.more(&few, metric) - 1000.0 * each;
        assert!((0.0..=200.0).contains(&more), "{metric}: {more} more");
    }

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

    // Two tasks allocate: what one holds cannot be told from what the other one does.
    let heap = compile(&lab, "heap", HEAP, &["-O2", "-fno-builtin", "-static"]);
    let counted = |work: &str| {
        let count = ["--seed", "1", "--count", "heap"];
        figures(&lab.json(&[&MEASURE[..], &guest, &count, &[work]].concat()))
    };
    let [alone, forked] = ["idle", "forks"].map(|how| counted(&format!("{heap} {how}")));
    for (metric, more) in [("allocations", 2.0), ("allocated-bytes", 1500.0), ("frees", 1.0)] {
        let before = alone.get(metric).map_or(0.0, |values| values[0]);
        assert_eq!(forked[metric][0] - before, more, "{metric}");
    }
    assert!(alone.contains_key("heap-peak-bytes"));
    assert!(forked.get("heap-peak-bytes").is_none_or(|values| values.is_empty()));

    // Each unit flushes two pages one by one and writes two pages to a RAM disk.
    let [few_further, further] =
        FURTHER.map(|units| Ran::of(&lab, &guest, &program, [40, 1000, units, 0]));
    assert_further(&few_further, &further);
    for (metric, each) in [("tlb-flushes", 2.0), ("tlb-page-flushes", 2.0)] {
        assert_eq!(further.more(&few_further, metric), 40.0 * each, "{metric}");
    }
    // A kernel without RAM disks has no requests.
    if few_further.count("block-requests") > 0.0 {
        assert_eq!(further.more(&few_further, "block-requests"), 40.0);
        assert_eq!(further.more(&few_further, "block-bytes"), 40.0 * 8192.0);
    }

    // Each system call and each error.
    let calls = strace(&lab, &program, [40, 1000, 0, 1000]);
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
    compiler.args(["-O1", "-static", "-w", "-pthread", "-o"]).arg(&program).arg(source);
    assert!(compiler.status().unwrap().success());
    let guest = ["--architecture", "arm64", "--kernel", &kernel];
    let program = program.to_str().unwrap();
    let [few, ran] = FURTHER.map(|units| Ran::of(&lab, &guest, program, [40, 1000, units, 0]));
    for (metric, times) in [("system-call:msgsnd", 1.0), ("system-call-failed:read:EBADF", 1.0)] {
        assert_eq!(ran.count(metric), 40.0 * times, "{metric}");
    }
    // A unit sends 8,000 bytes at once and 8,000 at a pace.
    assert_eq!(ran.count("socket-bytes-sent"), 40.0 * (700.0 + 500.0) + 48.0 * 16000.0);
    let switches = ran.more(&few, "context-switches") - ran.more_printed(&few, &["ctxt"]);
    assert!(switches.abs() <= 8.0, "{switches} more");
    assert!(ran.count("heap-left-bytes") > 0.0);

    assert_further(&few, &ran);
    if ran.printed["waking"] == 0.0 {
        return crate::skip::skip!("the kernel of OPCOST_TEST_KERNEL_ARM64 has no tracepoints");
    }
    // Tracepoints, which the program counts within its run; some work that the kernel had put off runs after it.
    for (metric, names, room) in [
        ("slab-frees", &["kfree", "cache_free"][..], 0.0),
        ("page-allocations", &["page_alloc"], 0.0),
        ("semaphores-contended", &["semaphore"], 0.0),
        // A task that wakes and does not get the mutex hits the tracepoint again.
        ("mutexes-contended", &["mutex"], 2.0),
        ("softirq-net-tx", &["net-tx"], 0.0),
        ("softirq-tasklet", &["tasklet"], 0.0),
        ("work-queued", &["work_queued"], 4.0),
        ("work-run", &["work_run"], 4.0),
        // The tracepoint leaves out tasks that were awake.
        ("task-wakeups", &["waking", "wakeup_new"], 8.0),
    ] {
        let (ours, theirs) = (ran.more(&few, metric), ran.more_printed(&few, names));
        assert!(theirs >= 40.0 && (ours - theirs).abs() <= room, "{metric}: {ours}, {theirs}");
    }
}

#[test]
fn events_between_two_cpus_are_those_of_the_kernels_own_counters() {
    let Some(kernel) = needs::kernel() else { return };
    if !needs::programs(&["cc"]) || !needs::several_cpus() {
        return;
    }
    let lab = Lab::new();
    let program = compile(&lab, "guest", GUEST, &["-O1", "-static", "-w", "-pthread"]);
    let guest = ["--kernel", &kernel, "--cpus", "2"];
    let [few, many] = FURTHER.map(|units| Ran::of(&lab, &guest, &program, [40, 1000, units, 1000]));
    // The kernel may interrupt the other CPU once more before the program begins or after it ended.
    for (metric, name, least) in [
        ("softirq-sched", "sched", 40.0),
        ("call-interrupts", "call", 40.0),
        ("reschedule-interrupts", "reschedule", 0.0),
    ] {
        let (ours, theirs) = (many.more(&few, metric), many.more_printed(&few, &[name]));
        assert!(theirs >= least && (ours - theirs).abs() <= 2.0, "{metric}: {ours}, {theirs}");
    }
    // A unit moves the task there and back, and flushes two pages while a task of its memory runs on the other CPU.
    assert!(many.more(&few, "task-migrations") >= 80.0);
    if many.figures.contains_key("tlb-remote-flushes") {
        assert_eq!(many.more(&few, "tlb-remote-flushes"), 80.0);
    }
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
