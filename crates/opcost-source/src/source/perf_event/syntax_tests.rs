use super::super::fixture::Sysfs;
use super::*;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Parses one argument of `-e` on a machine; returns label, kind, config, group and pin of each event.
fn events(sysfs: &Sysfs, text: &str) -> Vec<(String, u32, u64, Option<u32>, bool)> {
    parse(&[text], sysfs.path())
        .unwrap_or_else(|error| panic!("{error}"))
        .into_iter()
        .map(|event| (event.key.label(), event.kind, event.config, event.group, event.pinned))
        .collect()
}

/// The only event of a text.
fn event(sysfs: &Sysfs, text: &str) -> (String, u32, u64) {
    match events(sysfs, text).as_slice() {
        [(label, kind, config, None, false)] => (label.clone(), *kind, *config),
        other => panic!("{text}: {other:?}"),
    }
}

fn labels(sysfs: &Sysfs, text: &str) -> Vec<String> {
    events(sysfs, text).into_iter().map(|(label, ..)| label).collect()
}

fn error(sysfs: &Sysfs, text: &str) -> String {
    parse(&[text], sysfs.path()).unwrap_err().to_string()
}

fn owned(label: &str, kind: u32, config: u64) -> (String, u32, u64) {
    (label.into(), kind, config)
}

#[test]
fn plain_names_and_their_other_names() {
    let sysfs = Sysfs::without_pmu();
    for (text, expected) in [
        ("cycles", owned("cycles", 0, 0)),
        ("cpu-cycles", owned("cycles", 0, 0)),
        ("instructions:u", owned("instructions:u", 0, 1)),
        ("branch-instructions:k", owned("branches:k", 0, 4)),
        ("cs", owned("context-switches", 1, 3)),
        ("cs:u", owned("context-switches:u", 1, 3)),
        ("faults", owned("page-faults", 1, 2)),
        ("migrations", owned("cpu-migrations", 1, 4)),
        ("idle-cycles-backend", owned("stalled-cycles-backend", 0, 8)),
        ("LLC-load-misses", owned("LLC-load-misses", 3, 0x1_0002)),
        ("LLC-misses", owned("LLC-load-misses", 3, 0x1_0002)),
        ("l1d-loads:u", owned("L1-dcache-loads:u", 3, 0)),
        ("dummy", owned("dummy", 1, 9)),
    ] {
        assert_eq!(event(&sysfs, text), expected, "{text}");
    }
}

#[test]
fn modifiers_choose_the_domain() {
    let sysfs = Sysfs::intel();
    for (text, label) in [
        ("page-faults:u", "page-faults:u"),
        ("page-faults:k", "page-faults:k"),
        ("page-faults:uk", "page-faults"),
        ("page-faults:ku", "page-faults"),
        ("page-faults:uu", "page-faults:u"),
        ("r1c2:k", "r1c2:k"),
        ("cpu/event=0x3c/u", "cpu/event=0x3c/:u"),
        ("cpu/event=0x3c/:u", "cpu/event=0x3c/:u"),
        ("cpu/event=0x3c/uk", "cpu/event=0x3c/"),
        ("mem-loads:u", "mem-loads:u"),
    ] {
        assert_eq!(event(&sysfs, text).0, label, "{text}");
    }
    let pinned = events(&sysfs, "cycles:uD");
    assert_eq!(pinned, [("cycles:u".to_string(), 0, 0, None, true)]);
}

#[test]
fn the_kernels_clocks_have_no_domain() {
    let sysfs = Sysfs::without_pmu();
    for text in ["task-clock", "task-clock:u", "task-clock:k", "task-clock:uk"] {
        assert_eq!(event(&sysfs, text), owned("task-clock", 1, 1), "{text}");
    }
    assert_eq!(event(&sysfs, "cpu-clock:u"), owned("cpu-clock", 1, 0));
    assert_eq!(event(&sysfs, "software/config=1/u"), owned("software/config=1/", 1, 1));
    assert_eq!(labels(&sysfs, "{task-clock,page-faults}:u"), ["task-clock", "page-faults:u"]);
}

#[test]
fn modifiers_that_counting_does_not_take() {
    let sysfs = Sysfs::intel();
    let precise = "':p' asks for precise sampling; counting takes u, k and D";
    for modifiers in ["p", "pp", "ppp", "up", "P"] {
        let text = format!("cycles:{modifiers}");
        assert_eq!(error(&sysfs, &text), format!("event '{text}': {precise}"));
    }
    for (text, unknown) in [
        ("cycles:h", 'h'),
        ("cycles:G", 'G'),
        ("cycles:uS", 'S'),
        ("cycles:x", 'x'),
        ("cycles:ux", 'x'),
        ("cycles:user", 's'),
        ("cycles:U", 'U'),
        ("r1c2:x", 'x'),
        ("wall:x", 'x'),
        ("LLC-misses:x", 'x'),
        ("cpu/event=1/x", 'x'),
        ("syscalls:sys_enter_getpid:x", 'x'),
    ] {
        assert_eq!(
            error(&sysfs, text),
            format!("event '{text}': unknown modifier '{unknown}'; known are u, k and D")
        );
    }
    for text in ["cycles:", "cpu/event=1/:", "{cycles,faults}:"] {
        assert_eq!(
            error(&sysfs, text),
            format!("event '{text}': the modifiers after ':' are missing; known are u, k and D")
        );
    }
}

#[test]
fn groups_share_modifiers_and_a_number() {
    let sysfs = Sysfs::intel();
    let found = events(&sysfs, "page-faults,{cycles,instructions:u}:k,{cs, faults:k},wall");
    let expected = [
        ("page-faults", None),
        ("cycles:k", Some(0)),
        // Both modes are counted, as perf adds the group's modifiers to the event's own.
        ("instructions", Some(0)),
        ("context-switches", Some(1)),
        ("page-faults:k", Some(1)),
    ];
    let found: Vec<_> =
        found.iter().map(|(label, _, _, group, _)| (label.as_str(), *group)).collect();
    assert_eq!(found, expected);
    // Each event has the group's pin; only the leader will pass the pin to the kernel.
    assert!(events(&sysfs, "{cycles,instructions}:D").iter().all(|event| event.4));
    // Groups are numbered across several -e.
    let two = parse(&["{cycles,faults}", "{branches:u,cs:u}"], sysfs.path()).unwrap();
    let groups: Vec<_> = two.iter().map(|event| event.group).collect();
    assert_eq!(groups, [Some(0), Some(0), Some(1), Some(1)]);
    let inside = labels(&sysfs, "{cpu/event=0x3c,umask=1/,cpu/event=0xc0/u}:k");
    assert_eq!(inside, ["cpu/event=0x3c,umask=1/:k", "cpu/event=0xc0/"]);
}

#[test]
fn lists_and_groups_that_are_none() {
    let sysfs = Sysfs::intel();
    let empty = "an event is empty; separate events by single commas";
    let open = "the group's '}' is missing";
    for (text, what) in [
        ("", empty),
        (" ", empty),
        (",", empty),
        ("cycles,", empty),
        (",cycles", empty),
        ("cycles,,faults", empty),
        ("{}", empty),
        ("{cycles,}", empty),
        ("{,}:u", empty),
        ("{cycles", open),
        ("{cycles,faults", open),
        ("{{cycles}", open),
        ("cycles}", "'}' without '{'"),
        ("{cycles}}", "'}' without '{'"),
        ("{cycles}u", "only ':' and modifiers may follow '}'"),
        ("{cycles}{faults}", "'}' without '{'"),
        ("cpu/event=1", "the closing '/' is missing"),
        ("page-faults/u", "the closing '/' is missing"),
        ("cpu/event=1//", "the closing '/' is missing"),
        ("cycles faults", "white space inside an event"),
        ("cpu/event=1, umask=1/", "white space inside an event"),
        ("x{cycles}", "braces stand around a group and nothing before them: {a,b}:u"),
        ("cpu/event=1/u/u/", "only modifiers may follow the closing '/'"),
        ("msr//etc/passwd/", "only modifiers may follow the closing '/'"),
    ] {
        assert_eq!(error(&sysfs, text), format!("event '{text}': {what}"), "{text}");
    }
    let nested = "event '{faults}': a group cannot hold a group";
    assert_eq!(error(&sysfs, "{cycles,{faults}}"), nested);
    assert_eq!(error(&sysfs, "{{faults}}:u"), nested);
}

#[test]
fn raw_codes_have_up_to_sixteen_digits() {
    let sysfs = Sysfs::without_pmu();
    for (text, config) in [
        ("r0", 0),
        ("r1", 1),
        ("r01c2", 0x1c2),
        ("r1C2", 0x1c2),
        ("rffffffffffffffff", u64::MAX),
        ("r0000000000000001", 1),
    ] {
        assert_eq!(event(&sysfs, text), owned(text, 4, config));
    }
    for text in ["rfffffffffffffffff", "r00000000000000001"] {
        let what = "a raw code has at most 16 digits";
        assert_eq!(error(&sysfs, text), format!("event '{text}': {what}"));
    }
    for text in ["r", "r0x1c2", "rxyz", "R1", "r-1", "r+1"] {
        assert!(error(&sysfs, text).starts_with("unknown event"), "{text}");
    }
}

#[test]
fn metrics_of_other_sources_stand_alone() {
    let sysfs = Sysfs::without_pmu();
    for text in ["wall", "elapsed", "user-time", "peak-rss", "rss_bytes_max", "tsc", "wall,tsc"] {
        assert_eq!(labels(&sysfs, text), [""; 0], "{text}");
    }
    assert_eq!(labels(&sysfs, "wall,faults"), ["page-faults"]);
    for text in ["wall:u", "tsc:k", "wall:D"] {
        let what = "read by another source, so it takes no modifier and no group";
        assert_eq!(error(&sysfs, text), format!("event '{text}': {what}"));
    }
    let what = "event 'wall': read by another source, so it takes no modifier and no group";
    assert_eq!(error(&sysfs, "{wall,cycles}"), what);
    for text in ["steal", "machine-busy"] {
        let what = "a condition of the run, read in every run and never judged; leave it out";
        assert_eq!(error(&sysfs, text), format!("event '{text}': {what}"));
    }
}

#[test]
fn unknown_names_offer_the_nearest() {
    let sysfs = Sysfs::intel();
    for (text, near) in [
        ("cycels", "cycles"),
        ("instructons", "instructions"),
        ("page-fault", "page-faults"),
        ("wal", "wall"),
        ("mem-load", "mem-loads"),
        ("topdown-retirin", "topdown-retiring"),
        ("L1-dcache-store-mises", "L1-dcache-store-misses"),
    ] {
        assert_eq!(
            error(&sysfs, text),
            format!("unknown event '{text}' (did you mean {near}?); see opcost list events")
        );
    }
    let far = "unknown event 'temperature'; see opcost list events";
    assert_eq!(error(&sysfs, "temperature"), far);
    assert!(error(&sysfs, "CYCLES").starts_with("unknown event 'CYCLES'"));
    let two = "unknown event 'cycels' (did you mean cycles?); see opcost list events";
    assert_eq!(error(&sysfs, "cycels:u"), two);
    let pmu_name = "event 'uncore_imc_0/x/'";
    assert!(error(&sysfs, "uncore_imc_0/x/").starts_with(pmu_name));
}

#[test]
fn tracepoints_take_modifiers() {
    let sysfs = Sysfs::without_pmu().with_tracepoints(false);
    let getpid = "syscalls:sys_enter_getpid";
    assert_eq!(event(&sysfs, getpid), owned(getpid, 2, 309));
    let kernel = "syscalls:sys_enter_getpid:k";
    assert_eq!(event(&sysfs, kernel), owned(kernel, 2, 309));
    let group = labels(&sysfs, "{syscalls:sys_enter_getpid,sched:sched_switch}:u");
    assert_eq!(group, ["syscalls:sys_enter_getpid:u", "sched:sched_switch:u"]);
    assert!(error(&Sysfs::without_pmu(), getpid).contains("mount -t tracefs"));
    assert!(error(&sysfs, "cycels:xyz").contains("'cycels' is neither an event nor"));
    assert!(error(&sysfs, "cycles::u").contains("neither an event nor a tracepoint"));
}

#[test]
fn names_can_be_given_to_codes() {
    let sysfs = Sysfs::intel();
    let named = event(&sysfs, "cpu/event=0xc4,umask=0x40,name=System-entries/u");
    assert_eq!(named, owned("System-entries:u", 4, 0x40c4));
    assert_eq!(event(&sysfs, "cpu/name=a.b,event=0x3c/").0, "a.b");
    for (name, what) in [
        ("", "name= takes letters, digits, '-', '_' and '.'"),
        ("'x'", "name= takes letters, digits, '-', '_' and '.'"),
        ("cycles", "'cycles' is the name of another event; choose one"),
        ("wall", "'wall' is the name of another event; choose one"),
        ("LLC-misses", "'LLC-misses' is the name of another event; choose one"),
        ("r1", "'r1' is the name of another event; choose one"),
    ] {
        let text = format!("cpu/event=1,name={name}/");
        assert_eq!(error(&sysfs, &text), format!("event '{text}': {what}"));
    }
    let twice = "cpu/event=1,name=x/,cpu/event=2,name=x/";
    assert_eq!(error(&sysfs, twice), "event 'x': two different events have this name");
    assert_eq!(labels(&sysfs, "cpu/event=1,name=x/,cpu/event=1,name=x/u").len(), 2);
}

#[test]
fn a_label_is_found_under_every_name_of_its_event() {
    let sysfs = Sysfs::intel().with_tracepoints(false);
    for text in [
        "cs:u",
        "cycles",
        " cpu-cycles ",
        "page-faults:uk",
        "task-clock:u",
        "LLC-misses:k",
        "r1c2:u",
        "cpu/event=0x3c/u",
        "cpu/event=0x3c/:k",
        "cpu/event=0x3c,name=x/u",
        "mem-loads:u",
        "syscalls:sys_enter_getpid:k",
        "syscalls:sys_enter_getpid",
        "cycles:uD",
    ] {
        assert_eq!([canonical(text)], *labels(&sysfs, text), "{text}");
    }
    assert_eq!(canonical("elapsed"), "wall");
    assert_eq!(canonical("cycles:x"), "cycles:x");
}

/// Texts that are events on the fixture's machine.
fn valid() -> impl Strategy<Value = String> {
    let names = || {
        prop_oneof![
            prop::sample::select(vec![
                "cycles",
                "cs",
                "faults",
                "task-clock",
                "LLC-misses",
                "L1-icache-loads",
                "minor-faults",
                "mem-loads",
                "cpu/mem-loads,ldlat=9/",
                "msr/tsc/",
                "software//",
                "syscalls:sys_enter_getpid",
            ])
            .prop_map(str::to_string),
            any::<u64>().prop_map(|code| format!("r{code:x}")),
            (any::<u8>(), any::<u8>()).prop_map(|(a, b)| format!("cpu/event={a},umask={b:#x}/")),
        ]
    };
    let modified = || {
        (names(), "[ukD]{0,3}").prop_map(|(name, modifiers)| match modifiers.as_str() {
            "" => name,
            _ => format!("{name}:{modifiers}"),
        })
    };
    let group = (prop::collection::vec(modified(), 1..4), "(:[ukD]{1,2})?")
        .prop_map(|(members, modifiers)| format!("{{{}}}{modifiers}", members.join(",")));
    let item = prop_oneof![modified(), group];
    prop::collection::vec(item, 1..4).prop_map(|items| items.join(","))
}

#[test]
fn a_label_parses_to_the_event_it_came_from() {
    let sysfs = Sysfs::intel().with_tracepoints(false);
    let check = |text: String| {
        let events = parse(&[&text], sysfs.path())
            .map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        for event in events {
            let label = event.key.label();
            let again = parse(&[&label], sysfs.path()).unwrap();
            let same = EventPlan { pinned: false, group: None, ..event };
            prop_assert_eq!(&again, &[same], "{}", text);
            prop_assert_eq!(canonical(&label), label);
        }
        Ok(())
    };
    TestRunner::default().run(&valid(), check).unwrap();
}

#[test]
fn no_text_makes_it_panic_and_every_error_names_an_event() {
    let sysfs = Sysfs::intel().with_tracepoints(false);
    let tokens = prop::sample::select(vec![
        "{",
        "}",
        ",",
        ":",
        "/",
        "=",
        "u",
        "k",
        "p",
        "D",
        "r1",
        "cycles",
        "wall",
        "cpu",
        "event",
        "0x",
        "mem-loads",
        "name",
        "syscalls",
        "sys_enter_getpid",
        "..",
        " ",
        "é",
        "config",
        "-",
        "LLC",
        "misses",
        "18446744073709551615",
        "\u{0}",
    ]);
    let text = prop_oneof![
        "\\PC{0,60}",
        prop::collection::vec(tokens, 0..14).prop_map(|tokens| tokens.concat()),
    ];
    let check = |text: String| {
        let _ = canonical(&text);
        match parse(&[&text], sysfs.path()) {
            Ok(events) => {
                for event in events {
                    let label = event.key.label();
                    prop_assert!(!label.contains(char::is_whitespace), "{:?}", label);
                }
            }
            Err(error) => prop_assert!(error.to_string().contains('\''), "{error}"),
        }
        Ok(())
    };
    TestRunner::default().run(&text, check).unwrap();
}
