//! Golden output of every format; `INSTA_UPDATE=always cargo test --test render` refreshes it.

mod made;

use made::{key, plan, recording};
use opcost::comparison::compare;
use opcost::plan::Slot;
use opcost::render::{self, FORMATS, Style, View, render};
use opcost::store::Recording;
use opcost_record::{CountingTime, Reading, TWIN};

/// One of every kind of verdict, in round numbers.
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

fn show(format: &str, recording: &Recording, style: &Style) -> String {
    let (comparison, warnings) = compare(recording);
    let view = View { recording, comparison: &comparison, warnings: &warnings, style };
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
fn text_on_a_wide_terminal() {
    let style = Style { color: false, width: 130 };
    let text = show("text", &made(&["off", "on"]), &style);
    insta::assert_snapshot!(text);
    assert!(text.lines().all(|line| line.chars().count() <= 130), "{text}");
}

#[test]
fn text_in_colour_has_the_same_words() {
    let style = Style { color: true, width: 80 };
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

#[test]
fn the_plan() {
    insta::assert_snapshot!(render::plan::text(&plan(&["off", "on"], 22), &Style::plain()));
}

#[test]
fn every_format_has_a_golden_file() {
    let golden =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots")).unwrap();
    let names: Vec<String> =
        golden.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    for format in FORMATS {
        let found = names.iter().any(|name| name.starts_with(&format!("render__{}", format.name)));
        assert!(found, "{} has none", format.name);
    }
}
