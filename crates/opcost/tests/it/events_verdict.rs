//! From the answers of a kernel with a PMU to the verdict of the comparison.

use crate::transcript::ReplayPerf;
use opcost_analysis::comparison::{Change, Comparison, Row, Severity, Verdict, compare};
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::resolve::resolve;
use opcost_model::experiment::{Command, Experiment, Seed, Variant};
use opcost_model::plan::{Plan, Slot};
use opcost_model::recording::{MachineState, Recording, State};
use opcost_record::{CountingTime, Outcome, Record, Report, WORK};
use opcost_report::render::{Style, View, render};
use opcost_source::source::Source;
use opcost_source::source::perf_event::{Counters, syntax};
use opcost_store::store::Store;
use std::path::Path;
use std::rc::Rc;

/// The events counted in every run, in this order.
const EVENTS: &str = "instructions:u,cycles,branch-misses,cache-misses";
const PAIRS: u32 = 24;

/// Value, enabled, running.
type Counted = (u64, u64, u64);

/// A plan over two commands on a machine that can count `EVENTS`.
fn planned(primary: &str) -> Plan {
    let variant = |name: &str| Variant {
        name: Some(name.into()),
        command: Some(Command::Line("true".into())),
        ..Variant::default()
    };
    let experiment = Experiment {
        pairs: Some(PAIRS),
        seed: Some(Seed::Number(7)),
        events: vec!["wall".into()],
        variants: vec![variant("old"), variant("new")],
        ..Experiment::default()
    };
    let mut plan = resolve(&experiment, &HostSurroundings).unwrap();
    plan.events = syntax::parse(&[EVENTS], Path::new("/nonexistent")).unwrap();
    plan.primary =
        plan.events.iter().find(|event| event.key.label() == primary).unwrap().key.clone();
    plan
}

/// The transcript of a kernel whose counters of one command give these figures.
fn transcript(figures: &[Counted]) -> String {
    let codes = [(1, "exclude=kh "), (0, ""), (5, ""), (3, "")];
    let mut text = "opcost-perf 1\n".to_string();
    for (id, (config, exclude)) in codes.iter().enumerate() {
        text += &format!(
            "open kind=0 config={config} {exclude}inherit enable_on_exec disabled pid=child -> {id}\n"
        );
    }
    for (id, (value, enabled, running)) in figures.iter().enumerate() {
        text += &format!("read {id} -> value={value} enabled={enabled} running={running}\n");
    }
    (0..figures.len()).for_each(|id| text += &format!("close {id} -> ok\n"));
    text
}

/// The report of one run, counted by the source itself.
fn report(plan: &Plan, figures: &[Counted]) -> Report {
    let kernel = Rc::new(ReplayPerf::new(transcript(figures).parse().unwrap()));
    let mut counters = Counters::new(kernel.clone(), plan.events.clone(), true);
    let mut report = Report::default();
    counters.attach(4321).unwrap();
    counters.start().unwrap();
    counters.stop().unwrap();
    counters.read(WORK, None, &mut report.readings).unwrap();
    drop(counters);
    Rc::into_inner(kernel).unwrap().finish().unwrap();
    report
}

/// Makes every run of a plan, stores them and reads them back.
fn record(plan: &Plan, figures: impl Fn(&Slot) -> [Counted; 4]) -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open_for_writing(&folder.path().join("store.sqlite")).unwrap();
    let mut writer = store.begin(plan, &MachineState::default(), 1).unwrap();
    for slot in plan.slots() {
        let report = report(plan, &figures(&slot));
        let record = Record {
            slot: slot.slot,
            variant: slot.variant,
            block: slot.compared_in(),
            started_unix_ns: 1,
            outcome: Outcome::Finished,
            exit_code: Some(0),
            ops: None,
            samples: writer.samples(&report),
            invariants: Vec::new(),
        };
        writer.append(&[(record, None)]).unwrap();
    }
    writer.end(State::Finished).unwrap().read("last").unwrap()
}

const ENABLED_NS: u64 = 1_000_000;
const FULL: CountingTime = CountingTime { enabled_ns: ENABLED_NS, running_ns: ENABLED_NS };

/// Figures in which `new` needs 10 % more of everything. Branch misses are multiplexed if
/// `partial`; cache misses never had a place on the hardware.
fn figures(slot: &Slot, partial: bool) -> [Counted; 4] {
    let new = u64::from(slot.variant);
    // Noise that is the same on every machine, and smaller than the change.
    let noise = u64::from(slot.slot * 37 % 11);
    let misses =
        if partial { (250, ENABLED_NS, ENABLED_NS / 4) } else { (1000, ENABLED_NS, ENABLED_NS) };
    [
        (10_000 + 1000 * new, ENABLED_NS, ENABLED_NS),
        (20_000 + 2000 * new + noise, ENABLED_NS, ENABLED_NS),
        (misses.0 + misses.0 / 10 * new + noise, misses.1, misses.2),
        (0, ENABLED_NS, 0),
    ]
}

fn row<'a>(comparison: &'a Comparison, label: &str) -> &'a Row {
    comparison.rows.iter().find(|row| row.label == label).unwrap()
}

fn change<'a>(comparison: &'a Comparison, label: &str) -> &'a Change {
    &row(comparison, label).changes[0]
}

/// Severity and text of a rule's finding.
fn finding<'a>(comparison: &'a Comparison, rule: &str) -> (Severity, &'a str) {
    let entry = comparison.ledger.iter().find(|entry| entry.rule == rule).unwrap();
    (entry.severity, &entry.detail)
}

/// Figures in which four runs of the new variant are multiplexed.
fn some_multiplexed(slot: &Slot) -> [Counted; 4] {
    let partial = slot.block.is_some_and(|block| [1, 4, 9, 10].contains(&block));
    figures(slot, slot.variant == 1 && partial)
}

#[test]
fn a_multiplexed_event_is_not_comparable_and_the_others_are_judged() {
    let plan = planned("instructions:u");
    let recording = record(&plan, some_multiplexed);
    let (comparison, _) = compare(&recording);

    let misses = change(&comparison, "branch-misses");
    assert_eq!(misses.verdict, Verdict::NotComparable);
    assert_eq!(
        misses.reason,
        "multiplexed in 4 of 48 runs, so not a full count; count fewer events at once"
    );
    assert_eq!((misses.ci, misses.p_adjusted, misses.mde_ratio), (None, None, None));
    assert_eq!(
        finding(&comparison, "multiplexing"),
        (Severity::Doubtful, "multiplexed, so not judged: branch-misses")
    );
    assert!(!comparison.refused());

    let instructions = row(&comparison, "instructions:u");
    assert!(instructions.primary && instructions.exact);
    for label in ["instructions:u", "cycles"] {
        let change = change(&comparison, label);
        assert_eq!(change.verdict, Verdict::Changed, "{label}: {}", change.reason);
        let ratio = change.change_ratio.unwrap();
        assert!((ratio - 0.1).abs() < 0.001, "{label}: {ratio}");
    }
    let conclusion = &comparison.conclusions[0];
    assert!(conclusion.contains("instructions:u +10.00 %, real"), "{conclusion}");
    assert!(comparison.regressed());
}

#[test]
fn nothing_is_scaled_on_the_way() {
    let plan = planned("instructions:u");
    let recording = record(&plan, some_multiplexed);
    let id = |label: &str| {
        let keys = recording.dictionary.keys();
        keys.iter().position(|key| key.label() == label).unwrap() as u16
    };
    let (misses, cycles) = (id("branch-misses"), id("cycles"));
    for (record, slot) in recording.records.iter().zip(plan.slots()) {
        let (value, enabled_ns, running_ns) = some_multiplexed(&slot)[2];
        let sample = record.sample(misses).unwrap();
        assert_eq!(sample.value, value);
        assert_eq!(sample.time, Some(CountingTime { enabled_ns, running_ns }));
        assert_eq!(record.sample(cycles).unwrap().time, Some(FULL));
    }
    let (comparison, warnings) = compare(&recording);
    let figures = row(&comparison, "branch-misses").values[1].clone().unwrap();
    // The least value is 275 or so, not the 1100 that scaling would make of it.
    assert_eq!((figures.n, figures.multiplexed), (24, 4));
    assert!(figures.min < Some(300.0) && figures.max > Some(1000.0), "{figures:?}");

    let style = Style::plain();
    let view =
        View { recording: &recording, comparison: &comparison, warnings: &warnings, style: &style };
    let json: serde_json::Value = serde_json::from_str(&render("json", &view).unwrap()).unwrap();
    let metrics = json["opcost"]["metrics"].as_array().unwrap();
    let metric = metrics.iter().find(|metric| metric["metric"] == "branch-misses").unwrap();
    assert_eq!(metric["verdict"], "not_comparable");
    assert_eq!(metric["reason"], change(&comparison, "branch-misses").reason);
    assert_eq!(metric["p_adjusted"], serde_json::Value::Null);
}

#[test]
fn an_event_that_never_ran_has_no_figure_and_no_zero() {
    let plan = planned("instructions:u");
    let recording = record(&plan, some_multiplexed);
    let (comparison, _) = compare(&recording);
    let rows = comparison.rows.iter().filter(|row| row.label == "cache-misses");
    assert!(rows.flat_map(|row| &row.values).all(Option::is_none));
    let metric = recording.dictionary.id(&plan.events[3].key);
    let mut samples = recording.records.iter().flat_map(|record| &record.samples);
    assert!(!samples.any(|sample| Some(sample.metric) == metric));
    // The report still names the metric as missing.
    let missing = comparison.missing();
    let told = missing.iter().find(|(labels, _)| labels.contains(&"cache-misses".to_string()));
    assert!(told.is_some(), "{missing:?}");
}

#[test]
fn a_primary_metric_that_was_multiplexed_gives_no_verdict() {
    let plan = planned("branch-misses");
    let (comparison, _) = compare(&record(&plan, some_multiplexed));
    assert!(row(&comparison, "branch-misses").primary);
    let conclusion = &comparison.conclusions[0];
    assert!(conclusion.contains("branch-misses not comparable: multiplexed in 4"), "{conclusion}");
    // A multiplexed count is no regression.
    assert!(!comparison.regressed());
}

#[test]
fn warm_up_runs_may_be_multiplexed() {
    let plan = planned("branch-misses");
    let recording = record(&plan, |slot| figures(slot, slot.block.is_none()));
    let (comparison, _) = compare(&recording);
    assert_eq!(change(&comparison, "branch-misses").verdict, Verdict::Changed);
    assert_eq!(
        finding(&comparison, "multiplexing"),
        (Severity::Fine, "no counter was multiplexed")
    );
}
