//! Profiles in other tools' formats, and the difference of two: exact figures of made-up profiles.

use crate::lab::Lab;
use crate::made::emulated::{Tree, plan, recording};
use opcost_analysis::comparison::call_tree::{CallTree, VariantOf};
use opcost_analysis::comparison::kernel_sources::{KernelFiles, Owners};
use opcost_analysis::comparison::recorded_profiles::{Difference, DifferenceError, difference};
use opcost_analysis::comparison::{FunctionVerdict, UNATTRIBUTED, compare};
use opcost_model::plan::WorkPlan;
use opcost_model::recording::{Recording, State};
use opcost_page::writer;
use opcost_record::{Invariant, Profile};
use opcost_report::render::{self, Style, View, diff};
use opcost_store::store::Store;
use proptest::prelude::*;
use std::process::Command;
use std::sync::LazyLock;
use unicode_width::UnicodeWidthStr;

/// The profile of 1,000 operations. `fault` costs 4,000 in the baseline and 5,000 in the variant, and calls
/// `identity` in the variant only. `set_pte` (3,000) is gone. `touched` depends on the block alone.
fn profile(variant: u16, block: u64) -> Profile {
    let mut tree = Tree::default();
    let main = tree.add(None, "main", "/bin/work", 1, 1000);
    let fault = tree.kernel(
        main,
        "fault",
        500 + 100 * u64::from(variant),
        4000 + 1000 * u64::from(variant),
    );
    tree.kernel(fault, "touched", 10, 2000 + block);
    match variant {
        0 => tree.kernel(main, "set_pte.isra.0", 40, 3000),
        _ => tree.kernel(fault, "identity", 900, 2500),
    };
    tree.grown()
}

fn made(pairs: u32) -> Recording {
    recording(plan(&["off", "on"], pairs), 30, |slot| {
        (profile(slot.variant, slot.block.unwrap_or(0).into()), vec![])
    })
}

fn sides(recording: &Recording) -> [VariantOf<'_>; 2] {
    [0, 1].map(|variant| VariantOf { recording, variant })
}

/// Another recording of the same work, with `fault` dearer by `more` in each run.
fn other(more: u64) -> Recording {
    let mut other = made(12);
    other.id = "261122-facade".into();
    let metric = other.dictionary.id(&other.plan.primary).unwrap();
    for (slot, profile) in &mut other.profiles {
        let fault = profile.functions.iter().position(|f| f.symbol == "fault").unwrap() as u32;
        let context = profile.contexts.iter_mut().find(|c| c.function == fault).unwrap();
        context.cost += more;
        let record = other.records.iter_mut().find(|record| record.slot == *slot).unwrap();
        record.samples.iter_mut().find(|sample| sample.metric == metric).unwrap().value += more;
    }
    other
}

fn of<'a>(one: &'a Recording, two: &'a Recording) -> [VariantOf<'a>; 2] {
    [one, two].map(|recording| VariantOf { recording, variant: 0 })
}

pub(crate) fn stored(lab: &Lab, recording: &Recording) -> String {
    let store = Store::open_for_writing(&lab.store()).unwrap();
    let mut writer = store.begin(&recording.plan, &recording.machine[0], 1).unwrap();
    let keys = recording.dictionary.keys();
    for record in &recording.records {
        let readings = record.samples.iter().map(|sample| {
            opcost_record::Reading::plain(keys[usize::from(sample.metric)].clone(), sample.value)
        });
        let report = opcost_record::Report { readings: readings.collect(), ..Default::default() };
        let mut record = record.clone();
        record.samples = writer.samples(&report);
        let profile = recording.profiles.iter().find(|(slot, _)| *slot == record.slot);
        let profile = profile.map(|(_, profile)| profile.clone());
        writer.append(&[(record, profile)]).unwrap();
    }
    let id = writer.id().to_string();
    writer.end(State::Finished).unwrap();
    id
}

/// Functions of C++ as a container of strings has them, with a cost of nine digits.
fn long_names() -> Recording {
    const STRING: &str =
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
    let container =
        format!("company::product::storage::OrderedContainer<{STRING}, std::vector<{STRING}> >");
    recording(plan(&["off", "on"], 12), 30, |slot| {
        let more = u64::from(slot.variant) * 441_334_512_000;
        let mut tree = Tree::default();
        let main = tree.add(None, "main", "/bin/work", 1, 1000);
        let find = format!("{container}::find_or_insert({STRING} const&)");
        let find = tree.add(main, &find, "/bin/work", 17_269, 123_456_789_000 + more);
        let push = format!("void std::vector<{STRING}>::emplace_back<char const*>(char const*&&)");
        tree.add(find, &push, "/bin/work", 1000 + u64::from(slot.variant), 2000 + more / 7);
        (tree.grown(), vec![])
    })
}

#[test]
fn of_long_names_the_method_shows_and_no_figure_is_cut() {
    let made = long_names();
    let found = difference(sides(&made), &[]).unwrap();
    for full_names in [false, true] {
        let style = Style::plain().with_full_names(full_names);
        let mail = mail(&found, &style);
        assert!(mail.lines().all(|line| line.width() <= 72), "{mail}");
        assert!(mail.contains("+441,334,512"), "{mail}");
        let text = writer::text::text(&diff::document(&found, usize::MAX), &style);
        for figure in ["123,456,789", "564,791,301", "+441,334,512"] {
            assert!(text.contains(figure), "{text}");
        }
        let markdown = writer::markdown::markdown(&diff::document(&found, usize::MAX), &style)
            .replace('\\', "");
        let shown = ["OrderedContainer", "find_or_insert(", "emplace_back<"];
        for page in [&mail.replace("\n  ", ""), &text, &markdown] {
            assert!(shown.iter().all(|part| page.contains(part)), "{page}");
            assert_eq!(page.contains("char_traits"), full_names, "{page}");
            assert_eq!(page.contains("--full-names"), !full_names && page != &markdown, "{page}");
        }
        let (comparison, warnings) = compare(&made);
        let view =
            View { recording: &made, comparison: &comparison, warnings: &warnings, style: &style };
        let report = render::render("text", &view).unwrap();
        assert!(report.contains("find_or_insert(") && report.contains("emplace_back<"), "{report}");
        assert_eq!(report.contains("char_traits"), full_names, "{report}");
    }
    let document = diff::json(&found);
    let symbols: Vec<&str> = (document["functions"].as_array().unwrap().iter())
        .filter_map(|row| row["symbol"].as_str())
        .collect();
    assert!(
        symbols.iter().any(|symbol| symbol.ends_with(
            "basic_string<char, std::char_traits<char>, std::allocator<char> > const&)"
        ))
    );
}

#[test]
fn a_tree_has_every_run_of_common_blocks() {
    let mut made = made(4);
    let tree = CallTree::of(&sides(&made)).unwrap();
    // Blocks 0 to 3 add 0 + 1 + 2 + 3; 30 of each run are unattributed.
    assert_eq!([tree.sides[0].total, tree.sides[1].total], [40_126, 42_126]);
    assert_eq!((tree.sides[0].runs, tree.sides[0].ops, tree.per_op), (4, 4000, true));
    let last = tree.nodes.iter().find(|node| tree.functions[node.function].symbol == UNATTRIBUTED);
    assert_eq!(last.unwrap().own, [120, 120]);
    // One side lacks block 2.
    let lost = made.records.iter().find(|run| run.block == Some(2)).unwrap().slot;
    made.profiles.retain(|(slot, _)| *slot != lost);
    let tree = CallTree::of(&sides(&made)).unwrap();
    assert_eq!([tree.sides[0].total, tree.sides[1].total], [30_094, 31_594]);
    made.profiles.clear();
    let lacking = CallTree::of(&sides(&made)).unwrap_err().to_string();
    assert!(lacking.starts_with("'off' of recording 261121-c0ffee and 'on' of"), "{lacking}");
}

#[test]
fn a_difference_within_a_recording_is_that_of_its_report() {
    let made = made(12);
    let found = difference(sides(&made), &[]).unwrap();
    assert!(found.paired && found.notes.is_empty());
    let (comparison, _) = opcost_analysis::comparison::compare(&made);
    let report = &comparison.functions[0];
    assert_eq!(found.functions.total, report.total);
    let rows = |functions: &opcost_analysis::comparison::FunctionComparison| -> Vec<_> {
        functions.rows.iter().map(|row| (row.symbol.clone(), row.own, row.verdict)).collect()
    };
    assert_eq!(rows(&found.functions), rows(report));
    // The order in which the variants are named does not matter.
    let [one, two] = sides(&made);
    let turned = difference([two, one], &[]).unwrap();
    assert_eq!(turned.sides, found.sides);
    let same = difference([one, one], &[]).unwrap_err();
    assert_eq!(same, DifferenceError::Same("off".into(), made.id.clone()));
}

#[test]
fn variants_that_the_plan_does_not_compare_are_compared_all_the_same() {
    let made = recording(plan(&["off", "on", "cached"], 12), 0, |slot| {
        (profile(slot.variant.min(1), u64::from(slot.variant)), vec![])
    });
    let [one, two] = [1, 2].map(|variant| VariantOf { recording: &made, variant });
    let found = difference([one, two], &[]).unwrap();
    assert!((found.functions.total.change - 0.001).abs() < 1e-9, "{:?}", found.functions.total);
    assert_eq!(found.functions.rows[0].symbol, "touched");
}

#[test]
fn two_recordings_are_compared_run_by_run() {
    let (one, two) = (made(12), other(100));
    let found = difference(of(&one, &two), &[]).unwrap();
    assert!(!found.paired);
    assert_eq!(found.functions.verdict, FunctionVerdict::Changed);
    assert!((found.functions.total.change - 0.1).abs() < 1e-9);
    let row = &found.functions.rows[0];
    assert_eq!(
        (row.symbol.as_str(), row.exact, row.verdict),
        ("fault", true, FunctionVerdict::Changed)
    );
    assert!((row.own.change - 0.1).abs() < 1e-9);
    let rest = found.functions.rows.iter().filter(|row| row.symbol != "fault");
    for row in rest {
        assert_eq!(
            (row.own.change, row.verdict),
            (0.0, FunctionVerdict::Unchanged),
            "{}",
            row.symbol
        );
    }
    // Two recordings with the same figures.
    let same = other(0);
    let found = difference(of(&one, &same), &[]).unwrap();
    assert_eq!(
        (found.functions.verdict, found.functions.total.change),
        (FunctionVerdict::Unchanged, 0.0)
    );
    assert!(found.functions.rows.iter().all(|row| row.verdict != FunctionVerdict::Changed));
}

#[test]
fn the_order_of_runs_changes_no_function() {
    let made = |id: &str, turn: fn(u64) -> u64| {
        let mut made = recording(plan(&["off", "on"], 12), 0, |slot| {
            let block = turn(u64::from(slot.block.unwrap_or(0)));
            (profile(slot.variant, 7919 * block * block), vec![])
        });
        made.id = id.into();
        made
    };
    let (one, two) = (made("one", |block| block), made("two", |block| 11 - block));
    let found = difference(of(&one, &two), &[]).unwrap();
    assert_eq!(found.functions.total.change, 0.0);
    for row in &found.functions.rows {
        assert_eq!(row.own.change, 0.0, "{}", row.symbol);
    }
}

#[test]
fn recordings_of_different_work_are_refused_until_allowed() {
    type Spoil = fn(&mut Recording);
    let cases: [(&str, &str, Spoil); 4] = [
        ("work", "the workloads differ: syscall and mmap", |two| {
            let WorkPlan::Workload { name, .. } = &mut two.plan.variants[0].work else { panic!() };
            *name = "mmap".into();
        }),
        ("work", "ops is 1000000 and 5", |two| {
            let WorkPlan::Workload { params, .. } = &mut two.plan.variants[0].work else {
                panic!()
            };
            params.iter_mut().find(|(key, _)| key == "ops").unwrap().1 = "5".into();
        }),
        ("work", "one is a workload, one a command", |two| {
            two.plan.variants[0].work = WorkPlan::Command {
                program: "/bin/true".into(),
                argv: vec!["true".into()],
                line: "true".into(),
            };
        }),
        ("invariants", "op-stream-hash is 8c5e1d0a and other", |two| {
            for record in &mut two.records {
                record.invariants =
                    vec![Invariant { name: "op-stream-hash".into(), value: "other".into() }];
            }
        }),
    ];
    for (rule, said, spoil) in cases {
        let (one, mut two) = (made(12), other(100));
        spoil(&mut two);
        let refused = difference(of(&one, &two), &[]).unwrap_err();
        assert!(
            matches!(&refused, DifferenceError::Refused { rule: broken, .. } if broken == rule)
        );
        assert!(refused.to_string().contains(said), "{refused}");
        let allowed = difference(of(&one, &two), &[rule.to_string()]).unwrap();
        assert!(allowed.notes.iter().any(|note| note.contains("waived")), "{:?}", allowed.notes);
    }
    let (one, mut two) = (made(12), other(0));
    two.profiles.clear();
    let lacking = difference(of(&one, &two), &[]).unwrap_err().to_string();
    assert!(lacking.starts_with("'off' of recording 261122-facade: no finished runs"), "{lacking}");
}

/// The causes as a mail.
fn mail(difference: &Difference, style: &Style) -> String {
    let causes = diff::causes(difference, usize::MAX);
    writer::mail::mail(&diff::document(difference, causes), style)
}

fn shown() -> Difference {
    difference(sides(&made(12)), &[]).unwrap()
}

#[test]
fn the_table_adds_up_at_80_columns() {
    crate::facts::check(&diff::document(&shown(), usize::MAX));
    let text = writer::text::text(&diff::document(&shown(), usize::MAX), &Style::plain());
    insta::assert_snapshot!("diff_text", text);
    assert!(text.lines().all(|line| line.width() <= 80), "{text}");
    insta::assert_snapshot!(
        "diff_markdown",
        writer::markdown::markdown(&diff::document(&shown(), 2), &Style::plain())
    );
}

#[test]
fn a_mail_has_72_columns_and_the_causes_by_weight() {
    let text = mail(&shown(), &Style::plain());
    insta::assert_snapshot!("diff_mail", text);
    assert!(text.lines().all(|line| line.width() <= 72), "{text}");
}

/// Source files as the symbol table of a kernel has them.
fn kernel_files(kernel: &str, files: Option<&[(&str, &str)]>) -> KernelFiles {
    let of = |(symbol, file): &(&str, &str)| (symbol.to_string(), vec![file.to_string()]);
    KernelFiles { kernel: kernel.into(), files: files.map(|files| files.iter().map(of).collect()) }
}

#[test]
fn source_files_of_both_kernels_are_named_once_and_what_is_unknown_is_said() {
    let mut shown = shown();
    shown.owners = Owners::of(vec![
        kernel_files("old", Some(&[("set_pte.isra.0", "a.c"), ("fault", "a.c")])),
        kernel_files("new", Some(&[("fault", "b.c"), ("fault.cold", "b.c"), ("main", "x.c")])),
    ]);
    let row = |symbol: &str| shown.functions.rows.iter().find(|row| row.symbol == symbol).unwrap();
    assert_eq!(shown.owners.owner(row("set_pte")), "a.c of the kernel");
    assert_eq!(shown.owners.owner(row("fault")), "a.c or b.c of the kernel");
    assert_eq!(shown.owners.owner(row("identity")), "the kernel");
    assert_eq!(
        shown.owners.owner(row("main")),
        "/bin/work",
        "a program's function, not the kernel's"
    );
    let text = mail(&shown, &Style::plain());
    assert!(text.contains("in a.c of the kernel"), "{text}");
    assert!(
        text.contains("! of a kernel function without a file the kernel's symbol table does"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.width() <= 72), "{text}");
    assert_eq!(diff::json(&shown)["functions"][0]["files"], serde_json::json!(["a.c"]));
    shown.owners = Owners::of(vec![kernel_files("debian:rt", None)]);
    let text = writer::markdown::markdown(&diff::document(&shown, usize::MAX), &Style::plain());
    assert!(text.contains("- source files of the kernel debian:rt are not known"), "{text}");
}

/// The functions, by caller, of a real recording, as a file of `tests/recorded` has them. The file
/// begins with two numbers, counted by another program: the functions that cover 95 %, and their
/// share. Each line has function, module, caller, caller's module, and the instructions and calls
/// of 1,000 operations of baseline and variant.
fn recorded(name: &str) -> (Recording, usize, f64) {
    let path = format!("{}/tests/recorded/{name}.tsv", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let rows: Vec<Vec<&str>> = lines.collect();
    let recording = recording(plan(&["off", "on"], 12), 0, |slot| {
        let mut tree = Tree::default();
        for row in &rows {
            let number = |at: usize| row[at + 2 * usize::from(slot.variant)].parse().unwrap();
            let (cost, calls): (u64, u64) = (number(4), number(5));
            let caller = match row[2] {
                "[no caller]" => None,
                caller => tree.add(None, caller, row[3], 0, 0),
            };
            if cost > 0 {
                tree.add(caller, row[0], row[1], calls, cost);
            }
        }
        (tree.grown(), vec![])
    });
    (recording, head[0].parse().unwrap(), head[1].parse().unwrap())
}

#[test]
fn named_functions_account_for_95_percent_of_what_was_recorded() {
    for name in ["file-io", "paravirt-mmap"] {
        let (recording, count, share) = recorded(name);
        let found = difference(sides(&recording), &[]).unwrap();
        let (named, ..) = found.functions.leading(usize::MAX);
        let covered = found.functions.covered(named.len()).unwrap();
        assert!(covered >= 0.95, "{name}: {covered}");
        assert_eq!(named.len(), count, "{name}");
        assert!((covered - share).abs() < 5e-4, "{name}: {covered} instead of {share}");
        assert!(found.functions.covered(named.len() - 1).unwrap() < 0.95, "{name}: none too many");
        for row in named {
            assert!(!row.symbol.starts_with('['), "{name}: {} is no function", row.symbol);
            assert!(!row.callers.is_empty(), "{name}: nothing calls {}", row.symbol);
        }
        let mail = mail(&found, &Style::plain());
        let said = format!("The {count} functions named above account for {:.1} % of", {
            (covered * 1000.0).floor() / 10.0
        });
        let joined = mail.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains(&said), "{mail}");
        assert!(mail.lines().all(|line| line.width() <= 72), "{mail}");
    }
}

#[test]
fn the_json_has_every_function_and_its_share() {
    let document = diff::json(&shown());
    let functions = document["functions"].as_array().unwrap();
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let sum: f64 = functions.iter().map(|row| number(&row["change"])).sum();
    assert!((sum - number(&document["total"]["change"])).abs() < 1e-9);
    let shares: f64 = functions.iter().map(|row| number(&row["share"])).sum();
    assert!((shares - 1.0).abs() < 1e-9);
    assert_eq!(functions[0]["symbol"], "set_pte");
    assert_eq!(functions[0]["vanished"], true);
    assert_eq!(document["covered"], serde_json::json!({"functions": 3, "share": 1.0}));
    let main = functions.iter().find(|row| row["symbol"] == "main").unwrap();
    assert_eq!(main["callees"][0]["symbol"], "set_pte");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// For any two recordings, the functions and the rest add up to the change.
    #[test]
    fn parts_of_two_recordings_add_up(
        costs in prop::collection::vec((0..100_000u64, 0..100_000u64), 24), unattributed in 0..99u64,
    ) {
        let made = |id: &str, from: usize| {
            let mut made = recording(plan(&["off", "on"], 4), unattributed, |slot| {
                let (own, below) = costs[(from + slot.slot as usize) % costs.len()];
                let mut tree = Tree::default();
                let main = tree.kernel(None, "main", 1, own);
                tree.kernel(main, &format!("f{}", below % 5), 1, below);
                (tree.grown(), vec![])
            });
            made.id = id.into();
            made
        };
        let (one, two) = (made("one", 0), made("two", 11));
        let found = difference(of(&one, &two), &[]).unwrap();
        let rows: f64 = found.functions.rows.iter().map(|row| row.own.change).sum();
        let parts = rows + found.functions.unattributed.change;
        prop_assert!((parts - found.functions.total.change).abs() < 1e-6);
    }
}

#[test]
fn show_exports_profiles_and_diff_compares_them() {
    let lab = Lab::new();
    let id = stored(&lab, &made(12));
    lab.output(&["show", "--export-folded", "both.folded", "--export-flamegraph", "both.svg"]);
    let lines = lab.lines("both.folded");
    assert_eq!(lines[0], "[unattributed] 360 360");
    assert!(lines.contains(&"main;fault;touched 24066 24066".to_string()), "{lines:?}");
    assert!(lines.contains(&"main;set_pte 36000 0".to_string()));
    assert!(lab.read("both.svg").contains("<title>on against off: +0.5000 instructions/op"));
    lab.output(&["show", &id, "--variant", "on", "--export-folded", "on.folded"]);
    let sum = |line: &String| -> u64 { line.rsplit(' ').next().unwrap().parse().unwrap() };
    assert_eq!(lab.lines("on.folded").iter().map(sum).sum::<u64>(), 126_066 + 360);
    assert_eq!(lab.lines("on.folded"), {
        lab.output(&["show", "--variant", "2", "--export-folded", "second.folded"]);
        lab.lines("second.folded")
    });
    assert_eq!(lab.output(&["show", "--export-folded", "-"]), lab.read("both.folded"));
    assert!(!lab.exists("-"), "no file has that name");
    for other in [&["--json"][..], &["--format", "csv"], &["--export-json", "-"]] {
        let args = [&["show", "--export-folded", "-"], other].concat();
        lab.run(&args).expect(2).says(&["standard output takes one of them"]);
    }
    let text = lab.output(&["diff"]);
    assert!(text.starts_with("on against off"), "{text}");
    let document = lab.json(&["diff", &id, "--json", "-"]);
    assert_eq!(document["paired"], true);
    let function = lab.json(&["diff", "--function", "fault", "--json"]);
    assert_eq!(
        (&function["calls"]["value_baseline"], &function["calls"]["value"]),
        (&0.5.into(), &0.6.into())
    );
    assert_eq!(function["callers"][0]["symbol"], "main");
    for row in function["callees"].as_array().unwrap() {
        assert!(["identity", "touched"].contains(&row["symbol"].as_str().unwrap()));
    }
    let page = lab.output(&["diff", "--function", "fault"]);
    insta::assert_snapshot!("diff_function", page.replace(&id, "261121-c0ffee"));
    // A second recording of the same work.
    let later = stored(&lab, &made(12));
    let text = lab.output(&["diff", &id, &later, "--variant", "on"]);
    assert!(text.contains("two recordings share no block"), "{text}");
    assert!(
        lab.output(&["diff", &id, &later, "--variant", "1", "--format", "mail"])
            .contains("no function changed")
    );
}

#[test]
fn what_cannot_be_exported_or_compared_is_said() {
    let lab = Lab::new();
    let three = recording(plan(&["off", "on", "cached"], 2), 0, |slot| {
        (profile(slot.variant.min(1), 0), vec![])
    });
    stored(&lab, &three);
    for (args, said) in [
        (
            &["show", "--export-flamegraph", "x.svg"][..],
            "--export-flamegraph has room for 2 variants",
        ),
        (&["show", "--export-folded", "no/x", "--variant", "1"], "there is no folder 'no'"),
        (&["show", "--variant", "offf", "--export-folded", "x"], "(did you mean off"),
        (&["show", "--variant", "4", "--export-folded", "x"], "has no such variant"),
        (&["diff"], "say which variants with --variant NAME"),
        (&["diff", "--variant", "1"], "would be compared with itself"),
        (&["diff", "--variant", "2", "--function", "falt"], "(did you mean fault?)"),
        (&["diff", "--variant", "2", "--allow", "wrok"], "--allow wrok: no such rule"),
        (&["diff", "--variant", "2", "--function", "main", "--format", "mail"], "with --function"),
    ] {
        lab.run(args).expect(2).says(&[said]);
    }
    let mut bare = made(2);
    bare.profiles.clear();
    stored(&lab, &bare);
    lab.run(&["diff"]).expect(2).says(&["no finished runs with profiles"]);
    lab.run(&["show", "--export-folded", "x"]).expect(2).says(&["no finished runs with profiles"]);
    assert!(!lab.exists("x"));
}

/// The figures and names that `go tool pprof` reads in a file; `None` if it is not here.
fn read_by_pprof(lab: &Lab, file: &str) -> Option<String> {
    // Newer Gos compile pprof at its first use, which tests at the same time would do twice.
    static MISSING: LazyLock<Option<String>> = LazyLock::new(|| {
        let output = match Command::new("go").args(["tool", "pprof", "-h"]).output() {
            Ok(output) => output,
            Err(error) => return Some(error.to_string()),
        };
        let why = String::from_utf8_lossy(&output.stderr).trim().to_string();
        (!output.status.success()).then_some(why)
    });
    if let Some(why) = &*MISSING {
        crate::skip::skip!("go tool pprof is not here: {why}");
        return None;
    }
    let mut command = lab.shell(&format!("exec go tool pprof -raw {file}"));
    // The temporary files of pprof stay in the lab; its build stays where Go keeps it.
    let output = command.env("PPROF_TMPDIR", lab.dir()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn pprof_reads_what_is_written_for_it() {
    let lab = Lab::new();
    stored(&lab, &made(12));
    lab.output(&["show", "--export-pprof", "both.pb.gz"]);
    let Some(text) = read_by_pprof(&lab, "both.pb.gz") else { return };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert!(lines.contains(&"off/instructions on/instructions"), "{text}");
    assert!(lines.contains(&"PeriodType: instructions instructions"), "{text}");
    assert!(lines.contains(&"Period: 1"), "{text}");
    assert!(lines.iter().any(|line| {
        line.starts_with("Comment: off: instructions of 12 runs, 12000 operations, recording")
    }));
    let figures = |line: &&str| -> Option<[u64; 2]> {
        let (values, _) = line.split_once(':')?;
        let values: Vec<u64> = values.split_whitespace().map_while(|v| v.parse().ok()).collect();
        <[u64; 2]>::try_from(values).ok()
    };
    let samples: Vec<[u64; 2]> = lines.iter().filter_map(figures).collect();
    let sum = |side: usize| samples.iter().map(|sample| sample[side]).sum::<u64>();
    assert_eq!([sum(0), sum(1)], [120_066 + 360, 126_066 + 360]);
    // The leaf comes first, and functions have names.
    let location = |symbol: &str| -> String {
        let found = lines.iter().find(|line| line.split_whitespace().nth(3) == Some(symbol));
        found.unwrap_or_else(|| panic!("{symbol}: {text}")).split(':').next().unwrap().into()
    };
    let stack = ["touched", "fault", "main"].map(location).join(" ");
    assert!(lines.contains(&format!("24066      24066: {stack}").as_str()), "{stack}: {text}");
}

#[test]
fn pprof_reads_time_and_mangled_names() {
    let lab = Lab::new();
    let sample =
        "busy  42 10.000001:     500000 cpu-clock:pp: \n\t 1276 _ZN2ns3runEi+0x7 (/opt/busy)\n\n";
    lab.write("stacks.txt", sample);
    lab.output(&["profile", "--input", "stacks.txt", "--export-pprof", "one.pb.gz"]);
    let Some(text) = read_by_pprof(&lab, "one.pb.gz") else { return };
    for part in [
        "cpu-clock:pp/nanoseconds",
        "PeriodType: cpu-clock:pp nanoseconds",
        "     500000: 1",
        "ns::run(int) ",
        "(_ZN2ns3runEi)",
    ] {
        assert!(text.contains(part), "no '{part}' in {text}");
    }
}

#[test]
fn every_format_has_its_flag_and_the_variants_that_fit() {
    use opcost_report::render::profile::PROFILE_FORMATS;
    let lab = Lab::new();
    stored(&lab, &made(12));
    let help = lab.output(&["show", "--help"]);
    for format in PROFILE_FORMATS {
        let flag = format!("--export-{}", format.name);
        assert!(help.contains(&flag), "{flag}");
        if format.render_steps.is_some() {
            let ended = lab.run(&["show", &flag, format.name, "--variant", "on"]);
            assert!(ended.expect(2).stderr.contains("has no steps"));
            continue;
        }
        lab.output(&["show", &flag, format.name, "--variant", "on"]);
        assert!(lab.exists(format.name));
        let tree = CallTree::of(&sides(&made(12))).unwrap();
        let (once, again) = (format.render(&tree).unwrap(), format.render(&tree).unwrap());
        assert!(once == again, "{} depends on more than the profile", format.name);
    }
}
