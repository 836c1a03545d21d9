//! Recordings of one experiment over time: series, change points, and their explanations.

use crate::facts;
use crate::lab::Lab;
use crate::made::{key, plan, recording};
use opcost_analysis::history::{History, Outcome, Question, history};
use opcost_model::recording::{ProgramState, Recording, State};
use opcost_record::Reading;
use opcost_report::render::history::document;
use opcost_store::store::Store;

const DAY_NS: u64 = 86_400_000_000_000;

/// A recording of a day whose runs take `wall_ns`, with some noise.
fn of_day(day: u64, wall_ns: u64) -> Recording {
    let mut made = recording(plan(&["off", "on"], 6), |slot| {
        let wobble = (u64::from(slot.slot) * 37 + day * 11) % 13;
        let value = 1000 * wall_ns + 100 * wobble + 50_000 * u64::from(slot.variant);
        vec![Reading::plain(key("wall", "clock"), value)]
    });
    made.id = format!("r{day:02}");
    made.created_unix_ns = 1_700_000_000_000_000_000 + day * DAY_NS;
    made
}

/// Twelve recordings, the last four of which take 5 % longer.
fn slower_at_the_end() -> Vec<Recording> {
    (0..12).map(|day| of_day(day, if day < 8 { 1000 } else { 1050 } + day % 3)).collect()
}

fn of(recordings: Vec<Recording>) -> History {
    let history = history(recordings, &Question::default()).unwrap();
    facts::check(&document(&history));
    history
}

#[test]
fn a_worse_level_at_the_end_is_a_regression() {
    let history = of(slower_at_the_end());
    let series = &history.series[0];
    assert_eq!((series.metric.as_str(), history.variant.as_str()), ("wall", "off"));
    assert_eq!((series.points.len(), series.changes.len()), (12, 1));
    let change = &series.changes[0];
    assert_eq!((change.point, change.outcome), (8, Outcome::Regression));
    assert!((change.change_ratio.unwrap() - 0.05).abs() < 0.002, "{change:?}");
    assert!(history.regressed() && series.notes.is_empty());
    let (low, high) = series.points[0].interval.unwrap();
    assert!(low <= series.points[0].value.unwrap() && series.points[0].value.unwrap() <= high);
    // Points are in the order of dates, not in the order of the store.
    let mut turned = slower_at_the_end();
    turned.reverse();
    assert_eq!(of(turned).series[0].changes[0].point, 8);
}

#[test]
fn a_better_level_or_one_that_was_mended_is_none() {
    let faster = (0..12).map(|day| of_day(day, if day < 8 { 1000 } else { 950 } + day % 3));
    let history = of(faster.collect());
    assert_eq!(history.series[0].changes[0].outcome, Outcome::Improvement);
    assert!(!history.regressed());
    let mended =
        (0..18).map(|day| of_day(day, if (6..12).contains(&day) { 1100 } else { 1000 } + day % 3));
    let history = of(mended.collect());
    let outcomes: Vec<Outcome> = history.series[0].changes.iter().map(|c| c.outcome).collect();
    assert_eq!(outcomes, [Outcome::Regression, Outcome::Improvement]);
    assert!(!history.regressed());
}

#[test]
fn a_change_of_the_environment_explains_what_comes_with_it() {
    let with = |day: usize, change: fn(&mut Recording)| {
        let mut recordings = slower_at_the_end();
        recordings[day..].iter_mut().for_each(change);
        of(recordings)
    };
    let kernel = |made: &mut Recording| made.machine[0].kernel_release = Some("6.2.0".into());
    // The change point may be off by one recording, so a change of the neighbours explains it, too.
    for day in [7, 8, 9] {
        let history = with(day, kernel);
        let change = &history.series[0].changes[0];
        assert_eq!(change.outcome, Outcome::Environment, "day {day}");
        assert_eq!(change.explained_by, ["kernel: 6.1.0 → 6.2.0"]);
        assert_eq!(history.series[0].points[day].environment, change.explained_by);
        assert!(!history.regressed());
    }
    assert!(with(4, kernel).regressed());
    let history = with(8, |made| made.machine[0].cpu_microcode = Some("0x2".into()));
    assert_eq!(history.series[0].changes[0].explained_by, ["microcode: unknown → 0x2"]);
    assert!(!with(8, |made| made.machine[0].opcost_version = "9".into()).regressed());
}

#[test]
fn a_rebuilt_program_is_marked_and_explains_nothing() {
    let program = |sha256: &str| {
        let (path, sha256) = ("/bin/tool".into(), sha256.into());
        ProgramState { path, length_bytes: 1, sha256, sizes: None }
    };
    let mut recordings = slower_at_the_end();
    for (day, made) in recordings.iter_mut().enumerate() {
        made.machine[0].programs = vec![program(if day < 8 { "aa" } else { "bb" })];
    }
    let history = of(recordings);
    assert_eq!(history.series[0].points[8].work, ["the program /bin/tool was changed"]);
    assert!(history.series[0].points[8].environment.is_empty() && history.regressed());
}

#[test]
fn short_series_and_gaps_say_what_cannot_be_said() {
    let note = |recordings: Vec<Recording>| of(recordings).series[0].notes.join(" ");
    assert!(note(vec![of_day(0, 1000)]).contains("one figure is no series"));
    assert!(note(vec![of_day(0, 1000), of_day(1, 2000)]).contains("2 figures: a change of level"));
    let mut gaps = slower_at_the_end();
    gaps[2].records.clear();
    gaps[5].plan.variants[0].name = "else".into();
    gaps[6].state = State::Interrupted;
    gaps[9].records.last_mut().unwrap().invariants[0].value = "other".into();
    let history = history(gaps, &Question { variant: Some("off".into()), ..Question::default() });
    let history = history.unwrap();
    let series = &history.series[0];
    let notes: Vec<(usize, &str)> = series
        .points
        .iter()
        .enumerate()
        .filter_map(|(index, point)| Some((index, point.note.as_deref()?)))
        .collect();
    assert_eq!(
        notes,
        [
            (2, "it has no wall"),
            (5, "it has no variant 'off'"),
            (6, "interrupted, 14 runs"),
            (9, "its runs are not comparable")
        ]
    );
    assert_eq!(series.notes, ["3 of 12 recordings have no figure and are left out"]);
    assert_eq!(series.changes[0].point, 8);
}

#[test]
fn unknown_names_are_usage_errors() {
    let ask = |question: Question| history(vec![of_day(0, 1)], &question).unwrap_err().to_string();
    let metric = ask(Question { metrics: vec!["wal".into()], variant: None });
    assert!(
        metric.contains("--metric wal: no recording has it") && metric.contains("wall"),
        "{metric}"
    );
    let variant = ask(Question { metrics: vec![], variant: Some("offf".into()) });
    assert!(variant.contains("--variant offf: no recording of 'made' has it"), "{variant}");
}

/// Imports one number for each day.
fn import_days(lab: &Lab, values: &[f64]) {
    for (day, value) in values.iter().enumerate() {
        let rows = [value * 0.999, *value, value * 1.001].map(|v| format!("tool,wall,{v},ms\n"));
        lab.write("day.csv", format!("variant,metric,value,unit\n{}", rows.concat()));
        let date = format!("2026-03-{:02}", day + 1);
        lab.output(&["import", "day.csv", "--experiment", "nightly", "--date", &date]);
    }
}

#[test]
fn imports_over_time_are_a_history() {
    let lab = Lab::new();
    import_days(&lab, &[10.0, 10.1, 9.9, 10.0, 10.1, 11.0, 11.1, 10.9, 11.0, 11.1]);
    let text = lab.output(&["history", "nightly"]);
    assert!(text.contains("nightly · wall of 'tool' · 10 recordings"), "{text}");
    assert!(
        text.contains("▲ worse\n      +9.98 % (10.02 ms → 11.02 ms, p 0.012): worse"),
        "{text}"
    );
    assert!(text.contains("→ wall +9.98 % since 2026-03-06 00:00: a regression"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    lab.run(&["history", "nightly", "--fail-on", "regression"]).expect(1);
    let json = lab.json(&["history", "nightly", "--json"]);
    assert_eq!((&json["schema"], &json["regressed"]), (&1.into(), &true.into()));
    assert_eq!(json["series"][0]["changes"][0]["point"], 5);
    assert_eq!(json["series"][0]["points"][0]["value"], 10e6);
}

#[test]
fn a_steady_history_does_not_fail() {
    let lab = Lab::new();
    import_days(&lab, &[10.0, 10.1, 9.9, 10.05, 10.1, 9.95, 10.1, 9.9, 10.0, 10.05]);
    let text = lab.run(&["history", "nightly", "--fail-on", "regression"]).expect(0).stdout;
    assert!(text.contains("→ wall: no change of level found"), "{text}");
    lab.run(&["history", "nigthly"])
        .expect(2)
        .says(&["no recording of an experiment 'nigthly'", "nightly"]);
}

#[test]
fn a_history_and_a_list_show_the_recordings_that_were_chosen() {
    let lab = Lab::new();
    let import = |experiment: &str, date: &str, label: &str, ms: f64| {
        lab.write("one.csv", format!("variant,metric,value,unit\ntool,wall,{ms},ms\n"));
        let flags = ["--experiment", experiment, "--date", date, "--label", label];
        lab.output(&[&["import", "one.csv"][..], &flags].concat());
    };
    // The newest arrived first.
    import("nightly", "2026-03-09", "release 2", 12.0);
    import("nightly", "2026-03-01", "release 1", 10.0);
    import("nightly", "2026-03-05", "try", 11.0);
    import("weekly", "2026-03-02", "release 1", 7.0);
    let values = |args: &[&str]| {
        let json = lab.json(&[&["history", "nightly", "--json"][..], args].concat());
        let points = json["series"][0]["points"].as_array().unwrap().clone();
        points.iter().map(|point| point["value"].as_f64().unwrap() / 1e6).collect::<Vec<_>>()
    };
    assert_eq!(values(&[]), [10.0, 11.0, 12.0]);
    assert_eq!(values(&["--last", "2"]), [11.0, 12.0]);
    assert_eq!(values(&["--label", "release"]), [10.0, 12.0]);
    assert_eq!(values(&["--label", "release", "--last", "1"]), [12.0]);
    let listed = |args: &[&str]| {
        let json = lab.json(&[&["list", "recordings", "--json"][..], args].concat());
        let label = |head: &serde_json::Value| head["label"].as_str().unwrap().to_string();
        json.as_array().unwrap().iter().map(label).collect::<Vec<_>>()
    };
    // A list is in the order of arrival, as `last` is.
    assert_eq!(listed(&["--experiment", "nightly"]), ["release 2", "release 1", "try"]);
    assert_eq!(listed(&["--label", "release", "--last", "2"]), ["release 1", "release 1"]);
    assert_eq!(listed(&["--last", "1", "--experiment", "nightly"]), ["try"]);
    lab.run(&["history", "nightly", "--label", "beta"])
        .expect(2)
        .says(&["--label beta: no recording of 'nightly' has such a label"]);
    lab.run(&["list", "recordings", "--experiment", "weekyl"]).expect(2).says(&["weekly"]);
    lab.run(&["list", "recordings", "--last", "0"]).expect(2).says(&["--last"]);
    lab.run(&["list", "workloads", "--last", "3"]).expect(2).says(&["opcost list recordings"]);
}

#[test]
fn a_clock_that_was_set_back_between_recordings_is_reported() {
    let lab = Lab::new();
    let keep = |day: u64| {
        let store = Store::open_for_writing(&lab.store()).unwrap();
        store.keep(&of_day(day, 100)).unwrap().1
    };
    let notes = || lab.json(&["history", "made", "--json"])["series"][0]["notes"].to_string();
    let ids = [1, 5].map(keep);
    assert!(!notes().contains("clock"), "{}", notes());
    let third = keep(3);
    let said = format!("{} was made after {} and has an earlier date", third, ids[1]);
    assert!(notes().contains(&said) && !notes().contains("others"), "{}", notes());
    keep(0);
    assert!(notes().contains("(and between two others)"), "{}", notes());
    // What was imported later may be older.
    import_days(&lab, &[1.0, 2.0]);
    let imported = lab.output(&["history", "nightly"]);
    assert!(!imported.contains("clock"), "{imported}");
}
