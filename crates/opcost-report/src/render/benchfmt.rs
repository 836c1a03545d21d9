//! Go benchmark lines (<https://go.dev/design/14313-benchmark-format>) for
//! `benchstat -col /variant FILE`: one line per run, one value-unit pair per metric, the baseline's runs first.

use super::View;
use anyhow::Result;
use opcost_model::recording::Recording;
use opcost_record::printable::{Output, printable, safe};
use opcost_record::{Family, MetricKey, Outcome, Record, Unit, WORK};
use std::fmt::Write as _;

pub(super) fn render(view: &View<'_>) -> Result<String> {
    let recording = view.recording;
    let mut text = format!("opcost-recording: {}\n", recording.id);
    if let Some(machine) = recording.machine.first() {
        for (key, value) in [("kernel", &machine.kernel_release), ("cpu", &machine.cpu_model)] {
            if let Some(value) = value {
                let _ = writeln!(text, "{key}: {}", printable(value));
            }
        }
    }
    let name = capitalised(&recording.plan.experiment);
    text.push_str(&super::imported::benchfmt(recording, &name));
    // benchstat takes the first variant as the base, so variants are written in the order of the
    // plan, not in the order of the runs.
    for (variant, word) in variant_words(recording).iter().enumerate() {
        for record in runs(recording, variant) {
            let ops = record.ops.unwrap_or(1);
            let _ = write!(text, "Benchmark{name}/variant={word} {ops}");
            for sample in &record.samples {
                let Some(key) = recording.dictionary.key(sample.metric) else { continue };
                let row = key.row();
                if key.region != WORK
                    || !recording.plan.judges(key)
                    || row.family == Family::Control
                    || sample.time.is_some_and(|time| time.multiplexed())
                {
                    continue;
                }
                let value =
                    if row.per_op { sample.value as f64 / ops as f64 } else { sample.value as f64 };
                let _ = write!(text, " {}", figure(key, row.unit, value));
            }
            text.push('\n');
        }
    }
    Ok(text)
}

/// The finished runs of a variant, without warm-up.
fn runs(recording: &Recording, variant: usize) -> impl Iterator<Item = &Record> {
    let of_variant = move |record: &&Record| usize::from(record.variant) == variant;
    let records = recording.records.iter().filter(of_variant);
    records.filter(|record| record.block.is_some() && record.outcome == Outcome::Finished)
}

/// Returns the value and unit of a figure. The unit also names the metric; benchstat knows the
/// units of Go's own benchmarks.
///
/// Times other than `ns/op` are in seconds: benchstat converts nanoseconds to seconds, but does not
/// convert 0, and would show one metric under two units.
pub(super) fn figure(key: &MetricKey, unit: Unit, value: f64) -> String {
    match (key.label().as_str(), unit) {
        ("wall", _) => format!("{value} ns/op"),
        (_, Unit::Ns) => {
            let (name, domain) = (word(&key.name), key.domain.suffix());
            format!("{} {name}-sec{domain}/op", value / 1e9)
        }
        (_, Unit::Bytes) => format!("{value} {}-bytes", word(&key.name)),
        (label, _) => format!("{value} {}/op", word(label)),
    }
}

/// The variants' names as parts of benchmark names, made unique.
pub(super) fn variant_words(recording: &Recording) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for variant in &recording.plan.variants {
        let mut word = word(&variant.name);
        // benchstat would take a number behind the last hyphen for GOMAXPROCS, not for a part of the name.
        let end = word.trim_end_matches(|c: char| c.is_ascii_digit());
        if end.len() < word.len() && end.ends_with('-') {
            word.replace_range(end.len() - 1..end.len(), "_");
        }
        let alone = word.clone();
        for number in 2.. {
            if !words.contains(&word) {
                break;
            }
            word = format!("{alone}_{number}");
        }
        words.push(word);
    }
    words
}

/// Makes a name start as Go requires: with an upper-case letter or with no letter.
pub(super) fn capitalised(name: &str) -> String {
    let name = word(name);
    let mut chars = name.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => "Run".into(),
    }
}

/// A text as one word of a line.
pub(super) fn word(text: &str) -> String {
    safe(text, Output::BenchfmtWord)
}
