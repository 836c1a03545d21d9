//! Many variants: one table in the order of the primary metric, the growth with a parameter, and a page of one screen.

use crate::lab::{Lab, Started};
use crate::made::{emulated, key, plan, plan_of, recording};
use crate::needs;
use opcost_analysis::comparison::{Comparison, compare};
use opcost_lab::stopping::Stopping;
use opcost_model::experiment::Variant;
use opcost_model::recording::Recording;
use opcost_record::Reading;
use opcost_report::render::{Style, View, html, render};
use opcost_stats::Random;
use std::process::Command;

/// A scan of multiples of 16, with a cost of `cost(n)` ns an operation and noise of 1 %.
fn scanned(values: usize, pairs: u32, cost: impl Fn(f64) -> f64) -> Recording {
    let at = |index: usize| 16.0 * (1.0 + index as f64);
    let variant = |index: usize| Variant {
        name: Some(format!("sort {}", at(index))),
        workload: Some("syscall".into()),
        scanned: [("n".to_string(), at(index).to_string())].into(),
        ..Variant::default()
    };
    let mut plan = plan_of((0..values).map(variant).collect(), pairs);
    plan.primary = key("wall", "clock");
    let mut random = Random::new(9);
    recording(plan, |slot| {
        // A run has 1,000 operations.
        let wall = 1e3 * cost(at(usize::from(slot.variant))) * (1.0 + 0.01 * random.unit_f64());
        vec![
            Reading::plain(key("wall", "clock"), wall as u64),
            Reading::plain(key("instructions", "perf_event"), (4.0 * wall) as u64),
        ]
    })
}

fn shown(recording: &Recording, comparison: &Comparison, format: &str, all: bool) -> String {
    let style = Style { all, ..Style::plain() };
    render(format, &View { recording, comparison, warnings: &[], style: &style }).unwrap()
}

#[test]
fn many_variants_are_one_table_with_a_ranking_and_a_growth_on_one_screen() {
    let made = scanned(200, 30, |n| 2e4 + 30.0 * n * n.log2());
    let (comparison, _) = compare(&made);
    let text = shown(&made, &comparison, "text", false);
    assert!(text.lines().count() <= 60, "{text}");
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "… 191 more",
        "sort 16 ",
        "sort 3200 ",
        "→ slowest: sort 3200, ",
        "times as long as sort 16 (",
        "→ fastest: sort 16, the baseline",
        "→ wall of 199 against sort 16: ",
        " slower",
        "→ wall grows with n as n log n: ",
        " × n log₂ n, typical error ",
        "other real changes: instructions in 1",
        "n, logarithmic",
    ] {
        assert!(said.contains(part), "{part}: {text}");
    }
    // The table is sorted.
    let table: Vec<f64> = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("sort ")?.split_whitespace().next())
        .map(|value| value.parse().unwrap())
        .collect();
    assert_eq!(table.len(), 9, "{text}");
    assert!(table.is_sorted(), "{text}");
    // The planted coefficients, by the JSON.
    let json: serde_json::Value =
        serde_json::from_str(&shown(&made, &comparison, "json", false)).unwrap();
    let growth = &json["opcost"]["growth"];
    assert_eq!((&growth["parameter"], &growth["decided"]), (&"n".into(), &true.into()));
    let fit = &growth["fits"][0];
    assert_eq!(fit["growth"], "n log n");
    let near = |field: &str, planted: f64| {
        let found = fit[field].as_f64().unwrap();
        assert!((found / planted - 1.0).abs() < 0.03, "{field}: {found}");
    };
    // The noise adds half of 1 %.
    near("fixed", 2e4 * 1.005);
    near("slope", 30.0 * 1.005);
}

#[test]
fn a_plan_of_ten_thousand_variants_fits_a_screen() {
    let lab = Lab::new();
    let args = ["compare", "-P", "n", "1", "10000", "true {n}", "--dry-run"];
    let text = lab.output(&[&args[..], &["-n", "12"]].concat());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() < 70, "{text}");
    assert!(text.contains("and 9,976 more variants") && text.contains("variant [10000]"), "{text}");
    assert!(text.contains("130,012 runs"), "{text}");
    let mut narrow = lab.command(&[&args[..], &["-n", "12"]].concat());
    let narrow = narrow.env("COLUMNS", "60").spawn().unwrap().end().expect(0).stdout;
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    // Few variants are all shown.
    let few = lab.output(&["compare", "-P", "n", "1", "24", "true {n}", "--dry-run"]);
    assert!(few.contains("variant X") && !few.contains("more variants"), "{few}");
}

#[test]
fn each_comparison_is_shown_if_it_is_asked_for() {
    let made = scanned(12, 30, |n| 100.0 * n);
    let (mut comparison, _) = compare(&made);
    let short = shown(&made, &comparison, "text", false);
    let all = shown(&made, &comparison, "text", true);
    let head =
        |text: &str| text.lines().filter(|line| line.trim_start().starts_with("metric ")).count();
    assert_eq!((head(&short), head(&all)), (0, 11), "{all}");
    assert!(all.contains("→ sort 192 against sort 16: wall +"), "{all}");
    let page = shown(&made, &comparison, "html", false);
    // The table of one screen, and the whole in a fold.
    assert_eq!(page.matches("12 variants by wall").count(), 2);
    assert!(page.contains("id=\"plot-parameter-title\"") && page.contains("All variants"));
    assert!(
        !page.contains("id=\"plot-order-title\"")
            && html::page(
                &View {
                    recording: &made,
                    comparison: &comparison,
                    warnings: &[],
                    style: &Style::plain()
                },
                None
            )
            .is_ok()
    );
    comparison.keep_variants(&[3]);
    let one = shown(&made, &comparison, "text", false);
    assert_eq!(head(&one), 1, "{one}");
    assert!(
        one.contains("→ sort 64 against sort 16: wall +") && !one.contains("sort 192"),
        "{one}"
    );
}

#[test]
fn what_the_runs_do_not_tell_is_said() {
    // All alike: no growth, and no order either.
    let made = scanned(6, 30, |_| 1e6);
    let (comparison, _) = compare(&made);
    let ranking = comparison.ranking.as_ref().unwrap();
    let answers = ranking.conclusions.join("\n");
    assert!(
        answers.contains("do not show to be real") || answers.contains("the baseline"),
        "{answers}"
    );
    assert!(answers.contains("5 no change found"), "{answers}");
    let none = ["no growth of wall with n was found", "the growth of wall with n is undecided"];
    assert!(none.iter().any(|none| answers.contains(none)), "{answers}");
    // Four variants are shown one by one.
    assert!(compare(&scanned(4, 8, |n| n)).0.ranking.is_none());
    // A jump is no growth.
    let made = scanned(12, 30, |n| if n > 90.0 { 1e6 } else { 1e4 });
    let answers = compare(&made).0.ranking.unwrap().conclusions.join("\n");
    assert!(answers.contains("no growth fits wall by n within 25.0 %"), "{answers}");
}

#[test]
fn outliers_stand_at_the_edge_with_their_values() {
    let made = scanned(40, 2, |n| if n == 160.0 { 4e7 } else { 1e4 + n });
    let (comparison, _) = compare(&made);
    let text = shown(&made, &comparison, "text", false);
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("beyond the edge: 40.") && said.contains(" ms at n = 160"), "{text}");
    assert!(text.contains('▲'), "{text}");
    let page = shown(&made, &comparison, "html", false);
    assert!(page.contains("class=\"beyond c0\""), "{page}");
    assert!(page.contains("ms at n = 160"));
    // Two variants: one run of 60 takes a thousand times as long.
    let mut runs = 0;
    let mut plan = plan(&["off", "on"], 30);
    plan.primary = key("wall", "clock");
    let mut random = Random::new(4);
    let made = recording(plan, |_| {
        runs += 1;
        let wall = if runs == 17 { 1e12 } else { 1e9 * (1.0 + 0.01 * random.unit_f64()) };
        vec![Reading::plain(key("wall", "clock"), wall as u64)]
    });
    let page = shown(&made, &compare(&made).0, "html", false);
    assert!(page.contains("Arrows at the edge: 1 s."), "{page}");
    // On the scale of the middle, ticks lie within 1 % of 1 ms.
    assert!(page.contains(">1.005</text>") || page.contains(">1.004</text>"), "{page}");
}

#[test]
fn a_scan_of_many_values_is_short_and_its_warnings_name_a_few() {
    let lab = Lab::new();
    let args = ["compare", "-q", "-n", "2", "--warmup=0", "-P", "n", "1", "30", "true {n} $A"];
    let text = lab.output(&args);
    assert!(text.lines().count() <= 66, "{text}");
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let few =
        "they got $A in 'true 1 $A', $A in 'true 2 $A', $A in 'true 3 $A' and 27 more as written";
    assert!(said.contains(few), "{text}");
    let one = lab.output(&["show", "--variant", "true 7 $A"]);
    assert_eq!(one.matches("→ true ").count(), 1, "{one}");
    assert!(one.contains("→ true 7 $A against true 1 $A: wall"), "{one}");
    lab.run(&["show", "--variant", "true 1 $A"]).expect(2).says(&["compared with it"]);
    lab.run(&["show", "--variant", "true 99"]).expect(2).says(&["no such variant", "and 27 more"]);
}

#[test]
fn ten_thousand_variants_are_planned_and_more_are_refused() {
    let lab = Lab::new();
    let dry = |last: &str| {
        lab.run(&["compare", "--dry-run", "-n", "2", "-P", "n", "1", last, "true {n}"])
    };
    let plan = dry("10000").expect(0).stdout;
    assert!(plan.lines().last().unwrap().contains(" 30,00"), "the plan has three runs of each");
    dry("10001").expect(2).says(&["10001 values; the most is 10000"]);
}

#[test]
fn four_times_as_many_variants_cost_a_report_about_four_times_the_instructions() {
    if !needs::programs(&["valgrind"]) {
        return;
    }
    let lab = Lab::new();
    let reported = |last: &str| -> f64 {
        let id = format!("scan-{last}");
        let args = ["compare", "-q", "-n", "2", "--warmup=1", "-e", "wall,task-clock", "--name"];
        lab.output(&[&args[..], &[&id, "-P", "n", "1", last, "true {n}"]].concat());
        let mut counted = lab.shell(&format!("valgrind {COUNTED} $OPCOST show --all"));
        let counted = counted.spawn().unwrap().end().expect(0).stderr;
        instructions(&counted)
    };
    let [few, many] = ["50", "200"].map(reported);
    assert!(many < 5.0 * few, "{few} instructions for 50 variants, {many} for 200");
}

/// Valgrind's arguments to count instructions.
const COUNTED: &str = "--tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null";

/// The instructions that valgrind counted.
fn instructions(said: &str) -> f64 {
    let refs = said.lines().find_map(|line| line.split_once("I   refs:"));
    let (_, refs) = refs.unwrap_or_else(|| panic!("no count in {said}"));
    refs.trim().replace(',', "").parse().unwrap()
}

/// Tells the test below how many variants to report when valgrind runs it.
const VARIANTS: &str = "OPCOST_TEST_VARIANTS";

#[test]
fn four_times_as_many_emulated_variants_cost_about_four_times_the_instructions() {
    if let Ok(variants) = std::env::var(VARIANTS) {
        return report_emulated(variants.parse().unwrap());
    }
    if !needs::programs(&["valgrind"]) {
        return;
    }
    let counted = |variants: &str| -> f64 {
        let name = std::thread::current().name().unwrap().to_string();
        let mut command = Command::new("valgrind");
        command.args(COUNTED.split(' ')).arg(std::env::current_exe().unwrap());
        let ended = command.args(["--exact", &name]).env(VARIANTS, variants).output().unwrap();
        let stdout = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && stdout.contains("1 passed"), "{stdout}");
        instructions(&String::from_utf8_lossy(&ended.stderr))
    };
    let [few, many] = ["75", "300"].map(counted);
    assert!(many < 4.2 * few, "{few} instructions for 75 variants, {many} for 300");
}

/// Decides when to stop, compares and reports a scan of emulated variants, each with the same functions.
fn report_emulated(variants: usize) {
    let variant = |index: usize| Variant {
        name: Some(format!("sort {index}")),
        workload: Some("syscall".into()),
        scanned: [("n".to_string(), index.to_string())].into(),
        ..Variant::default()
    };
    let mut plan = emulated::emulated(plan_of((0..variants).map(variant).collect(), 6));
    plan.stop.look_pairs = Some(3);
    let made = emulated::recording(plan, 0, |slot| {
        let mut tree = emulated::Tree::default();
        let parent = tree.kernel(None, "do_syscall_64", 1, 20_000);
        tree.kernel(parent, "do_mmap", 1, 500 + u64::from(slot.variant) % 2);
        tree.add(None, "main", "/bin/sort", 1, 100_000 * u64::from(slot.variant + 1));
        (tree.grown(), Vec::new())
    });
    let mut stopping = Stopping::new(&made.plan);
    for record in &made.records {
        stopping.add(record, &made.dictionary);
        stopping.reason(0);
    }
    let (comparison, _) = compare(&made);
    assert_eq!(comparison.functions.len(), variants - 1);
    assert!(comparison.ranking.is_some());
    assert!(shown(&made, &comparison, "text", false).contains("sort 0"));
}
