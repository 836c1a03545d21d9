//! Golden output of every format; `INSTA_UPDATE=always cargo test -p opcost --test it render` refreshes it.

use crate::facts;
use crate::made::emulated::{self, Tree, count};
use crate::made::{key, plan, recording};
use opcost_analysis::comparison::{Comparison, Warning, compare};
use opcost_model::plan::{Slot, Unavailable};
use opcost_model::recording::{Recording, State};
use opcost_page::writer::text::text;
use opcost_record::{CountingTime, Invariant, Reading, TWIN};
use opcost_report::render::{self, FORMATS, Style, View, render};

/// A recording with every kind of verdict, in round numbers.
fn made(filters: &[&str]) -> Recording {
    recording(plan(filters, 22), |slot: &Slot| {
        let wobble = u64::from(slot.slot * 37 % 11);
        let variant = u64::from(slot.variant);
        let read = |name, source, value| Reading::plain(key(name, source), value);
        let mut twin = read("wall", "clock", 250 + wobble);
        twin.key.region = TWIN.into();
        vec![
            twin,
            read("wall", "clock", 58_000 + 100 * wobble + 43_000 * variant),
            read("system-time", "rusage", 40_000 - 15_000 * variant + 10 * wobble),
            read("user-time", "rusage", 10_000 + 1000 * wobble),
            read("minor-faults", "rusage", 56),
            read("major-faults", "rusage", 0),
            read("voluntary-switches", "rusage", u64::from(wobble == 3)),
            read("peak-rss", "rusage", 3_000_000 + 4096 * variant),
            read("tsc", "tsc", 120_000 + wobble),
            Reading {
                key: key("cache-misses", "perf_event"),
                value: 77,
                time: Some(CountingTime { enabled_ns: 100, running_ns: 60 }),
            },
        ]
    })
}

/// Two kernels on an emulated machine: functions that grow, shrink, appear and vanish, many others,
/// and a small unattributed rest.
fn emulated() -> Recording {
    let mut plan = emulated::plan(&["off", "on"], 16);
    plan.variants[0].name = "native".into();
    plan.variants[1].name = "paravirt".into();
    let mut made = emulated::recording(plan, 80, |slot| {
        let (block, variant) = (u64::from(slot.block.unwrap_or(0)), u64::from(slot.variant));
        let mut tree = Tree::default();
        let main = tree.add(None, "main", "/bin/opcost-guest", 1, 7000 + 40 * variant);
        let entry = tree.kernel(main, "do_syscall_64", 1000, 40_000);
        let fault = tree.kernel(entry, "handle_mm_fault", 1000, 310_000 + 13 * (block % 5));
        let unmap = tree.kernel(entry, "unmap_vmas", 1000, 120_000 - 3000 * variant);
        if variant == 1 {
            tree.kernel(fault, "pte_val_identity", 9000, 61_200);
            tree.kernel(unmap, "pte_val_identity", 4000, 30_100 + block % 3);
            tree.kernel(entry, "pte_val_identity", 1000, 4700);
            tree.kernel(unmap, "paravirt_release_a_page_table_by_its_page_number", 40, 25_000);
        } else {
            tree.kernel(unmap, "native_set_pte.constprop.0", 40, 9000);
        }
        // The tick comes at varying times.
        tree.kernel(None, "update_process_times", 3, 2000 + 97 * (block * (variant + 3) % 7));
        for place in 0..40u64 {
            tree.kernel(fault, &format!("helper_{place}"), 10, 500 + variant * (place * place));
        }
        let cost = 100_000 + 20_000 * variant + block;
        let others = vec![
            count("conditional-branches-taken", cost),
            count("loads", 2 * cost),
            count("instruction-starts", 9 * cost),
            count("model-L1-icache-misses", cost / 50),
        ];
        (tree.grown(), others)
    });
    for record in made.records.iter_mut().filter(|record| record.variant == 1) {
        record.samples[0].value += 300;
    }
    let lines = |last: &[&str]| {
        let options = (0..25).map(|option| format!("CONFIG_OPTION_{option:02}=y"));
        options
            .take(if last.is_empty() { 25 } else { 3 })
            .chain(last.iter().map(|line| line.to_string()))
            .collect::<Vec<String>>()
    };
    let paravirt = lines(&["CONFIG_PARAVIRT=y", "CONFIG_PARAVIRT_XXL=y"]);
    made.machine[0].kernels = vec![
        emulated::kernel(0, "native", &lines(&[])),
        emulated::kernel(1, "paravirt", &paravirt),
    ];
    made
}

/// The metrics that golden files name as missing. The list stays as it is when metrics are added.
const MISSING: [&str; 11] = [
    "cycles",
    "instructions",
    "branches",
    "branch-misses",
    "cache-misses",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "voluntary-switches",
    "involuntary-switches",
];

/// The comparison of a golden file: of the missing metrics it has those of a fixed list.
fn compared(recording: &Recording) -> (Comparison, Vec<Warning>) {
    let (mut comparison, warnings) = compare(recording);
    comparison.unavailable.retain(|missing| MISSING.contains(&missing.key.name.as_str()));
    (comparison, warnings)
}

fn show(format: &str, recording: &Recording, style: &Style) -> String {
    let (comparison, warnings) = compared(recording);
    let view = View { recording, comparison: &comparison, warnings: &warnings, style };
    facts::check(&render::document(&view));
    facts::check(&render::percent::document(&view));
    render(format, &view).unwrap()
}

#[test]
fn text_at_80_columns() {
    let text = show("text", &made(&["off", "on"]), &Style::plain());
    insta::assert_snapshot!(text);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains('\x1b'));
}

#[test]
fn a_metric_that_is_added_changes_no_golden_file() {
    let recording = made(&["off", "on"]);
    let mut tomorrow = recording.clone();
    tomorrow.plan.unavailable.push(Unavailable {
        key: key("a-metric-of-tomorrow", "rusage"),
        reason: "several processes did the work".into(),
        remedy: String::new(),
    });
    assert_eq!(compare(&tomorrow).0.unavailable.len(), compare(&recording).0.unavailable.len() + 1);
    for format in ["text", "markdown"] {
        let [one, other] = [&recording, &tomorrow].map(|made| show(format, made, &Style::plain()));
        assert_eq!(one, other);
    }
}

#[test]
fn commits_stand_below_the_functions_whose_files_they_touched() {
    use opcost_analysis::comparison::kernel_sources::{FileCommits, KernelCommits};
    let recording = emulated();
    let (mut comparison, warnings) = compared(&recording);
    let commit = |number: u32, subject: &str| opcost_kernel::Commit {
        id: format!("c0ffee{number}"),
        subject: subject.into(),
        of_baseline: number == 2,
    };
    let many = (1..=7).map(|number| commit(number, "mm: \x1b[1mfaster")).collect();
    let file = |file: &str, function: &str, commits| FileCommits {
        file: file.into(),
        functions: vec![function.into()],
        commits,
    };
    comparison.kernel_commits = vec![KernelCommits {
        baseline: 0,
        variant: 1,
        between: ["a".into(), "b".into()],
        files: vec![
            file("mm/memory.c", "unmap_vmas", many),
            file("kernel/sys.c", "getppid", vec![commit(9, "sys: one")]),
            file("mm/none.c", "nothing", Vec::new()),
        ],
        unknown: None,
    }];
    let show = |comparison: &opcost_analysis::comparison::Comparison, format: &str| {
        let style = Style::plain();
        let view = View { recording: &recording, comparison, warnings: &warnings, style: &style };
        render(format, &view).unwrap()
    };
    let text = show(&comparison, "text");
    for line in [
        "    mm/memory.c (unmap_vmas): 7 commits\n",
        "      c0ffee2 mm: \\u{1b}[1mfaster (in native only)\n",
        "      … and 2 more\n    kernel/sys.c (getppid): 1 commit\n      c0ffee9 sys: one\n",
        "    mm/none.c (nothing): no commit\n",
    ] {
        assert!(text.contains(line), "no {line} in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        show(&comparison, "markdown").contains("- kernel/sys.c (getppid): 1 commit\n  - c0ffee9")
    );
    assert!(show(&comparison, "html").contains("c0ffee9 sys: one"));
    let json: serde_json::Value = serde_json::from_str(&show(&comparison, "json")).unwrap();
    let found = &json["opcost"]["kernel_commits"][0];
    assert_eq!((&found["baseline"], &found["variant"]), (&"native".into(), &"paravirt".into()));
    assert_eq!(found["files"][0]["commits"][1]["of_baseline"], true);
    comparison.kernel_commits[0].unknown = Some("the tree is gone".into());
    assert!(show(&comparison, "text").contains("commits are not known: the tree is gone"));
}

#[test]
fn text_on_a_wide_terminal() {
    let style = Style { width: 130, ..Style::plain() };
    let text = show("text", &made(&["off", "on"]), &style);
    insta::assert_snapshot!(text);
    assert!(text.lines().all(|line| line.chars().count() <= 130), "{text}");
}

#[test]
fn text_in_colour_has_the_same_words() {
    let style = Style { color: true, ..Style::plain() };
    let painted = show("text", &made(&["off", "on"]), &style);
    assert!(painted.contains("\x1b["));
    let mut plain = String::new();
    let mut rest = painted.as_str();
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    assert_eq!(plain, show("text", &made(&["off", "on"]), &Style::plain()));
}

#[test]
fn text_of_three_variants_one_with_a_long_name() {
    let mut made = made(&["off", "on", "cached"]);
    made.plan.variants[2].name = "a filter that the kernel answers from its bitmap".into();
    let text = show("text", &made, &Style::plain());
    insta::assert_snapshot!(text);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn text_of_a_refusal() {
    let mut made = made(&["off", "on"]);
    for record in made.records.iter_mut().filter(|record| record.variant == 1) {
        record.invariants[0].value = "ffff".into();
    }
    insta::assert_snapshot!(show("text", &made, &Style::plain()));
}

#[test]
fn markdown() {
    let mut made = made(&["off", "on"]);
    made.plan.variants[1].name = "on | off".into();
    insta::assert_snapshot!(show("markdown", &made, &Style::plain()));
}

#[test]
fn text_of_an_emulated_recording() {
    let text = show("text", &emulated(), &Style::plain());
    insta::assert_snapshot!(text);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn text_of_three_emulated_variants_with_too_few_pairs() {
    let mut made = emulated::recording(emulated::plan(&["off", "on", "cached"], 5), 0, |slot| {
        let (block, variant) = (u64::from(slot.block.unwrap_or(0)), u64::from(slot.variant));
        let mut tree = Tree::default();
        let main = tree.add(None, "main", "/usr/bin/a program", 1, 7000);
        tree.add(main, "memcpy", "/lib/libc.so.6", 1000, 31_000 + 333 * variant * (block + 1));
        if variant != 1 {
            tree.add(main, "read", "[module]", 1000, 500 * (variant + 1) + block);
        }
        (tree.grown(), vec![])
    });
    // The third variant equals the first, so its functions are not shown one by one.
    let profiles = made.profiles.clone();
    for (slot, profile) in profiles.iter().filter(|(slot, _)| slot % 3 == 0) {
        made.profiles[*slot as usize + 2].1 = profile.clone();
        made.records[*slot as usize + 2].samples = made.records[*slot as usize].samples.clone();
    }
    let text = show("text", &made, &Style::plain());
    insta::assert_snapshot!(text);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn all_notes_of_a_page_advise_the_same_pairs() {
    let mut made = emulated::recording(emulated::plan(&["off", "on"], 5), 0, |slot| {
        let (block, variant) = (u64::from(slot.block.unwrap_or(0)), u64::from(slot.variant));
        let mut tree = Tree::default();
        // The change is smaller than between layouts; otherwise the primary metric would be decided without an interval.
        tree.add(None, "main", "/usr/bin/a", 1, 7000 + 40 * block + 4 * variant);
        (tree.grown(), vec![])
    });
    made.state = State::StoppedSettled;
    // The plan had more metrics than those that moved.
    made.plan.fewest_pairs = 40;
    let (comparison, _) = compared(&made);
    let pairs = comparison.pairs_for_all.unwrap();
    assert_eq!(comparison.rows[0].changes[0].pairs_needed, Some(pairs));
    let text = show("text", &made, &Style::plain());
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for advice in [
        format!("for the interval of every metric: --pairs {pairs} "),
        format!("; --pairs {pairs} gives every metric its interval"),
    ] {
        assert!(words.contains(&advice), "no '{advice}' in {text}");
    }
}

#[test]
fn text_of_emulated_commands() {
    let mut made = emulated();
    for record in &mut made.records {
        record.ops = None;
        for sample in &mut record.samples {
            sample.value *= 3001;
        }
    }
    for context in made.profiles.iter_mut().flat_map(|(_, profile)| &mut profile.contexts) {
        context.cost *= 3001;
    }
    let text = show("text", &made, &Style::plain());
    insta::assert_snapshot!(text);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// One variant of a recording, as `opcost measure` records it.
fn alone(mut recording: Recording) -> Recording {
    recording.plan.variants.truncate(1);
    for block in &mut recording.plan.blocks {
        block.order = vec![0];
    }
    let slots: Vec<u32> =
        recording.records.iter().filter(|run| run.variant == 0).map(|run| run.slot).collect();
    recording.records.retain(|record| record.variant == 0);
    recording.profiles.retain(|(slot, _)| slots.contains(slot));
    recording
}

#[test]
fn text_of_one_variant() {
    for (recording, functions) in [(made(&["off", "on"]), false), (emulated(), true)] {
        let text = show("text", &alone(recording), &Style::plain());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(text.contains("of an operation are spent"), functions, "{text}");
        insta::assert_snapshot!(format!("text_of_one_variant_{functions}"), text);
    }
}

#[test]
fn text_of_an_emulated_recording_without_a_shift() {
    let mut made = emulated();
    let profiles = made.profiles.clone();
    let records = made.records.clone();
    // Every run of the second variant becomes a copy of a run of the first.
    for slot in (0..records.len()).step_by(2) {
        made.records[slot + 1].samples = records[slot].samples.clone();
        made.profiles[slot + 1].1 = profiles[slot].1.clone();
    }
    insta::assert_snapshot!(show("text", &made, &Style::plain()));
}

#[test]
fn markdown_of_an_emulated_recording() {
    insta::assert_snapshot!(show("markdown", &emulated(), &Style::plain()));
}

#[test]
fn json_of_an_emulated_recording() {
    let recording = emulated();
    let text = show("json", &recording, &Style::plain());
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let block = &document["opcost"];
    let functions = block["functions"].as_array().unwrap();
    let sum: f64 = functions.iter().map(|row| row["change"].as_f64().unwrap()).sum();
    let total = compare(&recording).0.functions[0].total.change;
    assert!((sum - total).abs() < 1e-9, "{sum} is not {total}");
    // The first function, one without a change, and the unattributed cost.
    let some = [&functions[0], &functions[functions.len() - 2], functions.last().unwrap()];
    assert_eq!(some[2]["symbol"], "[unattributed]");
    let shown = serde_json::json!({ "functions": some, "differences": block["differences"] });
    insta::assert_snapshot!(serde_json::to_string_pretty(&shown).unwrap());
}

#[test]
fn csv_and_benchfmt_of_an_emulated_recording() {
    // Both formats have the runs' figures; functions are in the JSON.
    let head = |format: &str, lines: usize| {
        let text = show(format, &emulated(), &Style::plain());
        text.lines().take(lines).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(format!("{}\n\n{}", head("csv", 3), head("benchfmt", 4)));
}

#[test]
fn json() {
    // The plan and the machine are as stored, and long.
    let text = show("json", &made(&["off", "on"]), &Style::plain());
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    for block in ["plan", "machine"] {
        assert!(document["opcost"][block].is_object());
        document["opcost"][block] = serde_json::Value::String("as stored".into());
    }
    for result in document["results"].as_array_mut().unwrap() {
        for list in ["times", "exit_codes", "memory_usage_byte"] {
            result[list] = result[list].as_array().unwrap().len().into();
        }
    }
    for variant in document["opcost"]["variants"].as_array_mut().unwrap() {
        variant["exit_codes"] = variant["exit_codes"].as_array().unwrap().len().into();
    }
    for figure in document["opcost"]["figures"].as_array_mut().unwrap() {
        figure["values"] = figure["values"].as_array().unwrap().len().into();
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
}

#[test]
fn csv() {
    let text = show("csv", &made(&["off", "on"]), &Style::plain());
    let head: Vec<&str> = text.lines().take(4).collect();
    insta::assert_snapshot!(head.join("\n"));
    assert_eq!(text.lines().count(), 1 + 46);
}

#[test]
fn benchfmt() {
    let text = show("benchfmt", &made(&["off", "on"]), &Style::plain());
    let head: Vec<&str> = text.lines().take(6).collect();
    insta::assert_snapshot!(head.join("\n"));
    assert_eq!(text.lines().filter(|line| line.starts_with("Benchmark")).count(), 44);
}

/// benchstat takes the first variant of a file for the base, converts `ns` to seconds unless the
/// figure is 0, and cuts a number behind the last hyphen off the name.
#[test]
fn benchfmt_has_the_baseline_first_and_each_metric_in_one_unit() {
    let mut recording = made(&["off", "on", "cached"]);
    recording.plan.variants[0].name = "seq -5".into();
    recording.plan.variants[1].name = "seq -3".into();
    recording.plan.variants[2].name = "seq\t_3".into();
    for sample in recording.records.iter_mut().step_by(3).flat_map(|record| &mut record.samples) {
        let key = recording.dictionary.key(sample.metric).unwrap();
        sample.value = if key.name == "user-time" { 0 } else { sample.value };
    }
    let text = show("benchfmt", &recording, &Style::plain());
    let lines: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("Benchmark"))
        .map(|line| line.split(' ').collect())
        .collect();
    let mut names: Vec<&str> = lines.iter().map(|words| words[0]).collect();
    names.dedup();
    let expected =
        ["seq__5", "seq__3", "seq__3_2"].map(|name| format!("BenchmarkMade/variant={name}"));
    assert_eq!(names, expected);
    let mut units = std::collections::HashSet::new();
    for words in &lines {
        let of_line: Vec<&str> = words[3..].iter().step_by(2).copied().collect();
        let distinct: std::collections::HashSet<&str> = of_line.iter().copied().collect();
        assert_eq!(distinct.len(), of_line.len(), "{words:?}");
        units.extend(distinct);
    }
    let in_ns: Vec<&&str> = units.iter().filter(|unit| unit.contains("ns")).collect();
    assert_eq!(in_ns, [&"ns/op"], "no other unit would become another one");
    assert!(!units.contains("tsc/op"), "the elapsed time is there once");
}

#[test]
fn html() {
    let text = show("html", &made(&["off", "on"]), &Style::plain());
    // The style sheet is a file of its own.
    let (before, rest) = text.split_once("<style>").unwrap();
    let (_, after) = rest.split_once("</style>").unwrap();
    let text = format!("{before}{after}").replace(env!("CARGO_PKG_VERSION"), "VERSION");
    // These elements begin on a line of their own, so that a difference shows its place.
    let mut lines = text;
    for tag in
        ["<section", "<h", "<p", "<tr", "<figure", "<li", "<div", "<dt", "<dd", "<title", "<text"]
    {
        lines = lines.replace(tag, &format!("\n{tag}"));
    }
    insta::assert_snapshot!(lines);
}

#[test]
fn the_plan() {
    let document = render::plan::document(&plan(&["off", "on"], 22));
    facts::check(&document);
    insta::assert_snapshot!(text(&document, &Style::plain()));
}

#[test]
fn percent() {
    let text = show("percent", &made(&["off", "on", "cached"]), &Style::plain());
    insta::assert_snapshot!(text);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn percent_of_more_variants_than_fit() {
    let mut made = made(&["off", "on", "cached"]);
    made.plan.variants[2].name = "one with a name of many words".into();
    let text = show("percent", &made, &Style { width: 48, ..Style::plain() });
    insta::assert_snapshot!(text);
    assert!(text.lines().all(|line| line.chars().count() <= 48), "{text}");
}

#[test]
fn percent_with_cycles_has_ratios() {
    let made = recording(plan(&["off", "on"], 22), |slot: &Slot| {
        let pv = u64::from(slot.variant);
        let count = |name, value| Reading::plain(key(name, "perf_event"), value);
        let shared = CountingTime { enabled_ns: 100, running_ns: 60 };
        vec![
            // The second column of the table of 2009: cycles 102.18 %, instructions 100.15 %.
            count("cycles", 1_000_000 + 21_800 * pv),
            count("instructions", 2_000_000 + 3000 * pv),
            count("branches", 400_000),
            Reading { time: Some(shared), ..count("branch-misses", 10_000 + 772 * pv) },
        ]
    });
    let text = show("percent", &made, &Style::plain());
    let row = |name: &str| text.lines().find(|line| line.trim().starts_with(name)).unwrap();
    assert!(row("cycles").contains("102.18"), "{text}");
    assert!(row("instructions").contains("100.15"), "{text}");
    assert!(row("CPI").contains("102.03"), "{text}");
    assert!(text.contains("– branch miss rate: branch-misses shared a counter"), "{text}");
    assert!(text.contains("– cache miss rate: cache-misses were not counted"), "{text}");
}

#[test]
fn an_emulated_cpu_gives_no_cpi() {
    let text = show("percent", &emulated(), &Style::plain());
    insta::assert_snapshot!(text);
    assert!(text.contains("– CPI, cache miss rate, branch miss rate: an emulated CPU"), "{text}");
}

#[test]
fn every_format_has_a_golden_file() {
    let golden =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/snapshots")).unwrap();
    let names: Vec<String> =
        golden.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    for format in FORMATS {
        let found =
            names.iter().any(|name| name.starts_with(&format!("it__render__{}", format.name)));
        assert!(found, "{} has none", format.name);
    }
}

#[test]
fn work_that_moves_bytes_has_its_cpu_time_by_the_megabyte() {
    let mut recording = recording(plan(&["off", "on"], 6), |slot| {
        let variant = u64::from(slot.variant);
        let mut machine = key("machine-busy", "procfs");
        machine.region = "run".into();
        vec![
            Reading::plain(key("wall", "clock"), 9_000_000),
            Reading::plain(key("task-clock", "perf_event"), 3_000_000 + 3_000_000 * variant),
            Reading::plain(machine, 20_000_000),
        ]
    });
    for record in &mut recording.records {
        for (name, bytes) in [("bytes-written", "3000000"), ("bytes-read", "1000000")] {
            record.invariants.push(Invariant { name: name.into(), value: bytes.into() });
        }
    }
    let (comparison, warnings) = compared(&recording);
    let per = comparison.per_megabyte.as_ref().unwrap();
    assert_eq!(per.own_ns, [Some(750_000.0), Some(1_500_000.0)]);
    assert_eq!(per.machine_ns, [Some(5_000_000.0), Some(5_000_000.0)]);
    let view = View {
        recording: &recording,
        comparison: &comparison,
        warnings: &warnings,
        style: &Style::plain(),
    };
    let text = render::render("text", &view).unwrap();
    assert!(text.contains("  CPU time per MB moved: off 0.7500 ms, on 1.500 ms\n"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&render::render("json", &view).unwrap()).unwrap();
    assert_eq!(json["opcost"]["per_megabyte"]["own_ns"][1], 1_500_000.0);
    // Work that moves no data has no such line.
    let (none, _) = compared(&made(&["off", "on"]));
    assert_eq!(none.per_megabyte, None);
}
