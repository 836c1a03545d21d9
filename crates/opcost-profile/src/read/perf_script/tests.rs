//! Tests of the text of `perf script`, each line as perf 6.1 printed it unless said otherwise.

use super::*;
use crate::symbolise::{KernelSource, Sources};
use crate::table::FunctionTable;
use opcost_sys::budget::LIMIT_BYTES;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const TEXT: &str = "\
Web Content 2 9942/9943 [001] 34895.679863:     500000 cpu-clock:pp: \n\
\tffffffff822010c9 _raw_spin_unlock_irqrestore+0x19 ([kernel.kallsyms])\n\
\t    11300 std::vec<int, std::allocator<int> >::at(unsigned long) (inlined)\n\
\t    113fd f(char const*)+0x5d (/usr/lib/x (deleted))\n\
\t     7fff [unknown] ([unknown])\n\
\n\
busy  9942 34895.680353:     500000 cpu-clock:pp: \n\
\t            1276 main+0x77 (/opt/work/busy)\n\
\n\
busy  9942 34896.000353:     7 page-faults:   7f0012 [unknown] (/opt/work/busy)\n";

fn read_event(text: &str, event: Option<&str>) -> Result<(About, Sampled), TextError> {
    read(
        text,
        &Wanted { event: event.map(str::to_string), ..Wanted::default() },
        &Budget::default(),
    )
}

#[test]
fn only_events_of_the_cpu_are_precise_or_not() {
    for (event, expected) in [
        ("cycles", (Some(0), false)),
        ("cycles:upp", (Some(2), false)),
        ("task-clock:u", (None, false)),
        ("page-faults:u", (None, true)),
        ("sched:sched_switch", (None, true)),
        ("sched:sched_switch:k", (None, true)),
        ("mem:0x601040:w", (None, true)),
    ] {
        assert_eq!((precise(event), is_exact(event)), expected, "{event}");
    }
}

#[test]
fn stacks_are_read_with_inlined_functions() {
    let (about, sampled) = read(TEXT, &Wanted::default(), &Budget::default()).unwrap();
    assert_eq!(about.event, "cpu-clock:pp");
    assert_eq!(about.events, ["cpu-clock:pp", "page-faults"]);
    assert_eq!(about.duration_ns, Some(490_000));
    // A timer is never precise, whatever the user asked for.
    assert_eq!(about.sampling.unwrap().precise, None);
    assert_eq!((sampled.profile.total(), sampled.losses.other_events), (1_000_000, 1));
    let names: Vec<String> = sampled
        .profile
        .contexts
        .iter()
        .map(|context| &sampled.profile.functions[context.function as usize])
        .map(|function| format!("{} {}", function.symbol, function.module))
        .collect();
    let expected = [
        "[unmapped] ",
        "f(char const*) /usr/lib/x",
        "std::vec<int, std::allocator<int> >::at(unsigned long) /usr/lib/x",
        "_raw_spin_unlock_irqrestore [kernel]",
        "main /opt/work/busy",
    ];
    assert_eq!(names, expected);
}

#[test]
fn events_are_told_apart() {
    let (_, sampled) = read_event(TEXT, Some("page-faults")).unwrap();
    let table = FunctionTable::of(&sampled);
    assert_eq!((table.total, table.functions[0].function.symbol.as_str()), (7, "[text]"));
    let error = read_event(TEXT, Some("cycles")).unwrap_err().to_string();
    assert_eq!(error, "it has no event cycles; it has cpu-clock:pp, page-faults");
}

#[test]
fn other_text_is_told_from_it() {
    assert!(is_perf_script(TEXT));
    for text in [
        "",
        "events: Ir\n",
        "\tffff f (x)\n",
        "main;f 10\n",
        "version: 1\ncreator: x\n",
        "events: Ir\nfl=a.c\n",
        "main 10\nf 20\n",
        "@[\n    f+12\n]: 3\n",
        "{\"a\": 1}\n",
        "Showing nodes accounting for 10s\n 1 2% main\n",
    ] {
        assert!(!is_perf_script(text), "{text:?}");
    }
    assert!(matches!(read_event("# only a comment\n", None), Err(TextError::Empty)));
    let error = read_event("a b c\n", None).unwrap_err().to_string();
    assert_eq!(error, "line 1 is no line of perf script: \"a b c\"");
}

#[test]
fn odd_lines_are_left_out_and_counted() {
    let odd = "\t     7fff [unknown] ([unknown])";
    let broken = TEXT.replace(odd, "\t rubbish") + "half a line\n\t 12 f (/x)\n";
    let (_, sampled) = read_event(&broken, None).unwrap();
    let damage = &sampled.losses.damage;
    assert_eq!((sampled.profile.total(), damage.records), (1_000_000, 2));
    assert_eq!(damage.first_at.unwrap().at as usize, TEXT.find(odd).unwrap());
}

/// Reads a text, and returns its samples as `cost: outermost module, ... innermost`, inlined functions with a star.
fn samples(text: &str) -> (About, Vec<String>) {
    assert!(is_perf_script(text), "{text}");
    let (about, sampled) = read_event(text, None).unwrap();
    assert_eq!(sampled.losses.damage, Default::default(), "{text}");
    let Sampled { profile, samples, .. } = &sampled;
    let mut found = Vec::new();
    for (at, count) in samples.iter().enumerate().filter(|(_, count)| **count > 0) {
        let mut stack = Vec::new();
        let mut next = Some(at as u32);
        while let Some(at) = next {
            let context = &profile.contexts[at as usize];
            let Function { symbol, module, .. } = &profile.functions[context.function as usize];
            stack.push(format!("{symbol} {module}").trim_end().to_string());
            next = context.parent;
        }
        stack.reverse();
        found.push(format!("{count} {}: {}", profile.contexts[at].cost, stack.join(", ")));
    }
    (about, found)
}

/// One sample in each layout that `-F` can print, with callers and without.
#[test]
fn every_choice_of_fields_is_read() {
    const CALLERS: &str =
        "\t    7f553d4ea62a f+0xa (/usr/lib/x)\n\t          401000 main+0x2 (/opt/busy)\n\n";
    let with = "1 COST: main /opt/busy, f /usr/lib/x";
    let without = "1 COST: f /usr/lib/x";
    let frame = "7f553d4ea62a f+0xa (/usr/lib/x)";
    // The fields before the frame, whether costs are periods, and the event.
    for (head, cost, event) in [
        ("Web Content 2 30084  8794.207792:     250000 cpu-clock:ppp: ", 250_000, "cpu-clock:ppp"),
        ("averyveryverylongname 30084  8794.2:     250000 cpu-clock: ", 250_000, "cpu-clock"),
        ("busy 30084/30085  8794.2:     250000 cpu-clock: ", 250_000, "cpu-clock"),
        ("busy 30084 [001]  8794.2:     250000 cpu-clock: ", 250_000, "cpu-clock"),
        ("busy 30084 K     11815.583983:          1 page-faults: ", 1, "page-faults"),
        ("busy 30084 8794.207792: cpu-clock: ", 1, "cpu-clock"),
        ("busy 30084     250000 cpu-clock: ", 250_000, "cpu-clock"),
        ("busy 30084 cpu-clock:ppp: ", 1, "cpu-clock:ppp"),
        ("Web Content 2 30084 [001] cpu-clock: ", 1, "cpu-clock"),
        ("worker: 30084 [001] cpu-clock: ", 1, "cpu-clock"),
        ("cpu-clock: ", 1, "cpu-clock"),
        ("busy 30084  8794.207792:     250000 ", 250_000, "samples"),
        ("8794.207792: ", 1, "samples"),
        ("busy 30084 2026-11-27 10:20:05.679863:     250000 cycles:u: ", 250_000, "cycles:u"),
        (
            "busy 30084 1.5:          7 sched:sched_switch: prev_comm=a ==> next_comm=b",
            7,
            "sched:sched_switch",
        ),
        (
            "busy 30084 1.5:          7 page-faults:     7fe832f995c0 [unknown] (/usr/lib/y)",
            7,
            "page-faults",
        ),
        ("busy 30084 1.5:          7 cpu-clock:                         ", 7, "cpu-clock"),
        ("busy 30084 ", 1, "samples"),
        ("Web Content 2 30084 ", 1, "samples"),
        ("busy ", 1, "samples"),
        ("30084 ", 1, "samples"),
        ("    250000 ", 250_000, "samples"),
        ("busy 30084     250000 ", 250_000, "samples"),
    ] {
        let clock = event.starts_with("cpu-clock") && cost > 1;
        let is_clock = |about: &About| about.sampling.as_ref().unwrap().clock;
        if !head.starts_with("    ") {
            let (about, found) = samples(&format!("{head}\n{CALLERS}{head}\n{CALLERS}"));
            let expected = with.replace("1 COST", &format!("2 {}", 2 * cost));
            assert_eq!((found, about.event.as_str()), (vec![expected], event), "{head:?}");
            assert_eq!(is_clock(&about), clock, "{head:?}");
        }
        // perf pads commands, not periods.
        let pads = if head.starts_with(' ') { &[""][..] } else { &["", "            "] };
        for pad in pads {
            let line = format!("{pad}{head}     {frame}\n");
            let (about, found) = samples(&line.repeat(2));
            let expected = without.replace("1 COST", &format!("2 {}", 2 * cost));
            assert_eq!((found, about.event.as_str()), (vec![expected], event), "{line:?}");
        }
    }
    let (_, found) = samples(&CALLERS.repeat(3));
    assert_eq!(found, ["3 3: main /opt/busy, f /usr/lib/x"]);
    let (_, found) = samples(&format!("     {frame}\n ffffffff821c9fca mas_walk\n"));
    assert_eq!(found, ["1 1: f /usr/lib/x", "1 1: mas_walk [kernel]"]);
}

/// Frames below one head, as they were printed, with the function that each is.
#[test]
fn frames_are_split_where_the_file_begins() {
    for (frame, expected) in [
        (
            "401000 operator()(int) const (/opt/My App (x86)/prog)",
            "operator()(int) const /opt/My App (x86)/prog",
        ),
        (
            "401000 operator()(int) const+0x1 (/opt/My App (x86)/prog)",
            "operator()(int) const /opt/My App (x86)/prog",
        ),
        ("401000 (anonymous namespace)::f (/opt/a)", "(anonymous namespace)::f /opt/a"),
        ("401000 apply(void (*)(int)) (/opt/a)", "apply(void (*)(int)) /opt/a"),
        ("401000 apply(void (*)(int))+0x1f (busy)", "apply(void (*)(int)) busy"),
        ("401000 apply(void (*)(int))", "apply(void (*)(int))"),
        (
            "401000 work(int)::{lambda(long)#1}::operator()+0x12 (/a (b)/c)",
            "work(int)::{lambda(long)#1}::operator() /a (b)/c",
        ),
        (
            "401000 LazyCompile:~body_0 evalmachine.<anonymous>:1 (/tmp/perf-31912.map)",
            "LazyCompile:~body_0 evalmachine.<anonymous>:1 /tmp/perf-31912.map",
        ),
        ("401000 main (/opt/busy (deleted))", "main /opt/busy"),
        ("401000 main (/opt/busy+0x1377)", "main /opt/busy"),
        ("401000 main (busy)", "main busy"),
        ("401000 [unknown] (//anon)", "[text] //anon"),
        ("401000 [unknown] ([unknown])", "[unmapped]"),
        ("401000 [unknown]", "[text]"),
        ("401000", "[text]"),
        ("401000 (/opt/busy)", "[text] /opt/busy"),
        ("ffffffff81630273 vfs_read+0x3 (/usr/lib/debug/boot/vmlinux-6.1.0)", "vfs_read [kernel]"),
        ("ffffffff81630273 vfs_read ([kernel.vmlinux])", "vfs_read [kernel]"),
        ("ffffffff81630273 vfs_read", "vfs_read [kernel]"),
        ("ffffffffc0630273 f+0x1 (/lib/modules/6.1.0/kernel/fs/nls-utf8.ko.xz)", "f [nls_utf8]"),
        ("ffffffffc0630273 f ([ext4])", "f [ext4]"),
        (
            "7fe8 _fini+0x0 (/usr/lib/libm (1).so) ABI:2    AX:0x7fe83317c3d8    BX:0x7ff",
            "_fini /usr/lib/libm (1).so",
        ),
    ] {
        let text = format!("x 1/1 [000] 1.000001:   250000 cpu-clock: \n\t{frame}\n\n");
        assert_eq!(samples(&text).1, [format!("1 250000: {expected}")], "{frame}");
    }
}

#[test]
fn inlined_functions_are_one_whatever_their_offset() {
    let sample = |offset: &str, more: &str| {
        format!(
            "busy 1 1.0:  5 cycles: \n\t  11 __GI_munmap+0x7{more}\n\t  12 msort{offset} (inlined)\n\
             \t  13 main+0x4 (/opt/busy)\n  busy.c:12\n\n"
        )
    };
    let lines = " \n  syscall-template.S:117 (inlined)";
    let text =
        sample("+0x262", " (inlined)") + &sample("+0x26d", lines) + &sample("", " (inlined)");
    let (_, found) = samples(&text);
    assert_eq!(found, ["3 15: main /opt/busy, msort /opt/busy, __GI_munmap /opt/busy"]);
    let (_, sampled) = read_event(&text, None).unwrap();
    assert_eq!(sampled.facts.iter().map(|facts| facts.inlined_samples).sum::<u64>(), 3);
}

#[test]
fn other_records_and_fields_are_no_frames() {
    let text = "\
swapper     0     0.000000: PERF_RECORD_MMAP -1/0: [0xffffffff81000000(0x1209988) @ 0xffffffff81000000]: x [kernel.kallsyms]_text
busy 29981     0.000000: PERF_RECORD_NAMESPACES 29981/29981 - nr_namespaces: 7
\t\t[0/net: 4/0xf0000000, 1/uts: 4/0xeffffffe]

busy 29981  8790.277857: PERF_RECORD_COMM exec: busy:29981/29981
busy 29981  8790.278105:     250000 cpu-clock:ppp:\x20
\t           1462a handle_amd+0xa (/usr/lib/x)
  dl-get-cpu-features.c:321
 ABI:2    AX:0x7f9abf9995c0    BX:0x7f9abfc0c020
|9        for (;;) work(1);
busy 29981  8790.278274: PERF_RECORD_LOST lost 12
busy 29981  8790.278354:     250000 cpu-clock:ppp:\x20
\t           1462a handle_amd+0xb (/usr/lib/x)
  [kernel.kallsyms][ffffffff81755b8a]
";
    let (about, found) = samples(text);
    assert_eq!(
        (about.event.as_str(), found),
        ("cpu-clock:ppp", vec!["2 500000: handle_amd /usr/lib/x".into()])
    );
    assert_eq!(read_event(text, None).unwrap().1.losses.lost_events, 12);
    let tied = text
        .replace("  8790.2", " 8790.2")
        .replace("8790.278105: ", "")
        .replace("8790.278354: ", "");
    assert!(is_perf_script(&tied));
}

/// perf 3.x, with the frames in the first column, as in FlameGraph's tests.
#[test]
fn changed_spaces_are_read() {
    let text = "java 19983 cycles:\nffffffff8103d0ca native_write ([kernel.kallsyms])\n7f00 main (/opt/a)\n\n";
    assert_eq!(samples(text).1, ["1 1: main /opt/a, native_write [kernel]"]);
    let spaced = "java 123 10 cycles: \n        7f00 main (/opt/a)\n";
    assert_eq!(samples(spaced).1, ["1 10: main /opt/a"]);
}

#[test]
fn empty_lines_before_frames_and_tabs_behind_addresses_are_read() {
    // Somebody cut the first text by hand; simpleperf's report_sample.py writes such tabs.
    let text = "busy 7 1.000001:     500000 cpu-clock:uhH:\n\n\t          401b94 main+0x1c (./busy)\n\n\
                busy 7 1.000002:     500000 cpu-clock:uhH:\n\n\n\
                busy 7 1.000003:     500000 cpu-clock:uhH:\n\t          401b97 leaf+0x1f (./busy)\n";
    let (_, found) = samples(text);
    assert_eq!(found, ["1 500000: main ./busy", "1 500000: [unmapped]", "1 500000: leaf ./busy"]);
    let text = "Gecko\t25122 [007] 11.9:\t\t1000000 task-clock:u:\n        b3cea6c4\tLock::unlock() (/system/lib/libc.so)\n        \
                b3cea535\tshould_trace() (/system/lib/libc.so)\n\n";
    let (about, found) = samples(text);
    assert_eq!(about.event, "task-clock:u");
    let libc = "/system/lib/libc.so";
    assert_eq!(found, [format!("1 1000000: should_trace() {libc}, Lock::unlock() {libc}")]);
}

#[test]
fn samples_without_addresses_are_an_error() {
    let error = read_event("busy 1 1.0: 5 cycles: \n", None).unwrap_err().to_string();
    assert!(error.contains("-F +ip,+sym"), "{error}");
}

#[test]
fn threads_are_told_from_numbers_in_names() {
    let mut filter = crate::read::filter::Filter::default();
    filter.add("comm=Web Content 2").unwrap();
    for (head, kept) in [
        ("   Web Content 2     7 [001] 1.0:    5 cycles: ", true),
        ("   Web Content 2 32662/32663 1.0:    5 cycles: ", true),
        ("Web Content 2 1.0:    5 cycles: ", true),
        ("   Web Content 3     7 1.0:    5 cycles: ", false),
    ] {
        let text = format!("{head}     7f553d4ea62a f (/x)\n");
        let wanted = Wanted { filter: filter.clone(), ..Wanted::default() };
        let (_, sampled) = read(&text, &wanted, &Budget::default()).unwrap();
        assert_eq!((sampled.losses.left_out == 0), kept, "{head}");
    }
}

/// Choices of fields, and other options of `perf script`.
const CHOICES: &[&[&str]] = &[
    &[],
    &["-F", "-time"],
    &["-F", "-period"],
    &["-F", "-period,-time"],
    &["-F", "-dso"],
    &["-F", "-symoff"],
    &["-F", "+addr"],
    &["-F", "+addr,-period"],
    &["-F", "+srcline"],
    &["-F", "+srcline,-time,-period"],
    &["-F", "+misc"],
    &["-F", "+flags"],
    &["-F", "+pid"],
    &["-F", "-comm"],
    &["-F", "-tid"],
    &["-F", "-event"],
    &["-F", "comm,pid,tid,time,event,ip,sym,dso"],
    &["-F", "comm,tid,event,ip,sym"],
    &["-F", "event,period,ip,sym,dso"],
    &["-F", "event,ip,sym"],
    &["-F", "comm,tid,ip,sym,dso"],
    &["-F", "comm,tid,ip,sym"],
    &["-F", "comm,ip,sym,dso"],
    &["-F", "comm,tid,period,ip,sym"],
    &["-F", "period,ip,sym"],
    &["-F", "time,ip,sym,dso"],
    &["-F", "ip,sym,dso"],
    &["-F", "ip,sym"],
    &["--show-mmap-events", "--show-task-events"],
    &["--show-mmap-events", "-F", "-time,-dso"],
    &["--ns", "--header"],
    &["--reltime"],
];

/// Samples and cost of each function of the program, and of everything else under an empty name: perf and opcost prefer different
/// aliases in libraries.
type Costs = BTreeMap<String, (u64, u64)>;

fn add(costs: &mut Costs, symbol: &str, samples: u64, cost: u64) {
    let own = ["leaf", "main", "middle", "recursive"].contains(&symbol);
    let sum = costs.entry(if own { symbol } else { "" }.to_string()).or_default();
    *sum = (sum.0 + samples, sum.1 + cost);
}

fn costs_of(sampled: &Sampled) -> Costs {
    let mut costs = Costs::new();
    for cost in FunctionTable::of(sampled).functions.iter().filter(|cost| cost.own > 0) {
        add(&mut costs, &cost.function.symbol, cost.samples.unwrap(), cost.own);
    }
    costs
}

/// What `perf report` says of each event.
fn reported(report: &str) -> BTreeMap<String, Costs> {
    let mut events = BTreeMap::new();
    let mut costs = None;
    for line in report.lines() {
        if let Some((_, event)) = line.split_once(" of event '") {
            costs = Some(
                events.entry(event.trim_end_matches('\'').to_string()).or_insert_with(Costs::new),
            );
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if let ([cost, samples, _, symbol], Some(costs)) = (&fields[..], &mut costs)
            && let (Ok(cost), Ok(samples)) = (cost.parse(), samples.parse())
        {
            add(costs, symbol.trim_start_matches("[.] ").trim_start_matches("[k] "), samples, cost);
        }
    }
    events
}

/// One recording with callers and one without, printed with many choices of fields: the costs are those that opcost reads from the
/// recording itself, and those that perf reports.
#[test]
fn every_text_of_a_recording_has_the_recordings_costs() {
    const EVENTS: [&str; 2] = ["cpu-clock:u", "page-faults:u"];
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("My App (x86)");
    fs::create_dir(&place).unwrap();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/busy");
    fs::copy(program, place.join("busy")).unwrap();
    let perf = |arguments: &[&str]| {
        let mut perf = Command::new("perf");
        let found = perf.args(arguments).current_dir(folder.path()).env("LC_ALL", "C").output();
        found.map(|output| (output.status.success(), String::from_utf8(output.stdout).unwrap()))
    };
    for (file, callers) in [("with", &["-g"][..]), ("without", &[])] {
        let record = ["record", "-q", "-N", "-d", "-T", "-F", "2000", "-o", file, "-e"];
        let command = [&EVENTS.join(","), "--", "./My App (x86)/busy", "400"];
        match perf(&[&record[..], &command[..1], callers, &command[1..]].concat()) {
            Err(error) => return crate::skip::skip!("perf cannot be started: {error}"),
            Ok((false, _)) => return crate::skip::skip!("perf may not record here"),
            Ok((true, _)) => {}
        }
        let report = ["report", "-i", file, "--stdio", "--no-children", "-g", "none", "-t", ","];
        let fields = ["--percent-limit", "0", "-F", "period,sample,dso,symbol"];
        let reported = reported(&perf(&[&report[..], &fields].concat()).unwrap().1);
        let sources = Sources {
            kernel: KernelSource::Nothing,
            debug_files: "/nonexistent".into(),
            build_id_cache: None,
            inlined: false,
            limit_bytes: LIMIT_BYTES,
        };
        let of_event = |event: &str| Wanted { event: Some(event.into()), ..Wanted::default() };
        let mut all = Costs::new();
        for event in EVENTS {
            let whole = crate::read::read(&folder.path().join(file), &of_event(event), &sources);
            let costs = costs_of(&whole.unwrap().sampled.unwrap());
            assert_eq!(reported.get(event), Some(&costs), "{file} {event}");
            costs.iter().for_each(|(name, (samples, cost))| add(&mut all, name, *samples, *cost));
        }
        assert!(all.contains_key("leaf") && all.contains_key("main"), "{all:?}");
        for choice in CHOICES {
            let printed = perf(&[&["script", "--no-inline", "-i", file], *choice].concat());
            let text = printed.unwrap().1;
            let options = choice.join(" ");
            let fields = options.split_once("-F ").map_or("", |(_, fields)| fields);
            assert!(is_perf_script(&text), "{file} {options}: {text:.300}");
            let has = |field: &str| {
                !fields.contains(&format!("-{field}"))
                    && (fields.contains(field) || !fields.contains("ip"))
            };
            for event in EVENTS {
                let (wanted, mut expected) = match has("event") {
                    true => (of_event(event), reported[event].clone()),
                    false => (Wanted::default(), all.clone()),
                };
                if !has("period") {
                    expected.values_mut().for_each(|(samples, cost)| *cost = *samples);
                }
                let (_, sampled) = read(&text, &wanted, &Budget::default()).unwrap();
                assert_eq!(costs_of(&sampled), expected, "{file} {event} {options}");
                assert_eq!(sampled.losses.damage, Default::default(), "{file} {options}");
            }
        }
    }
}
