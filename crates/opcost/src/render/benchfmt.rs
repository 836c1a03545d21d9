//! Go benchmark lines (<https://go.dev/design/14313-benchmark-format>), so that
//! `benchstat -col /variant FILE` reads them: one run a line, one metric a value-unit pair.

use super::View;
use anyhow::Result;
use opcost_record::{Family, Outcome, Unit, WORK};
use std::fmt::Write as _;

pub(super) fn render(view: &View<'_>) -> Result<String> {
    let recording = view.recording;
    let mut text = format!("opcost-recording: {}\n", recording.id);
    if let Some(machine) = recording.machine.first() {
        for (key, value) in [("kernel", &machine.kernel_release), ("cpu", &machine.cpu_model)] {
            if let Some(value) = value {
                let _ = writeln!(text, "{key}: {value}");
            }
        }
    }
    let name = capitalised(&recording.plan.experiment);
    for record in recording.records.iter().filter(|record| record.block.is_some()) {
        if record.outcome != Outcome::Finished {
            continue;
        }
        let variant = word(&recording.plan.variants[usize::from(record.variant)].name);
        let ops = record.ops.unwrap_or(1);
        let _ = write!(text, "Benchmark{name}/variant={variant} {ops}");
        for sample in &record.samples {
            let Some(key) = recording.dictionary.key(sample.metric) else { continue };
            let row = key.row();
            if key.region != WORK
                || row.family == Family::Control
                || sample.time.is_some_and(|time| time.multiplexed())
            {
                continue;
            }
            let value =
                if row.per_op { sample.value as f64 / ops as f64 } else { sample.value as f64 };
            // The units that Go's own benchmarks use have a meaning to benchstat.
            let unit = match (key.name.as_str(), row.unit) {
                ("wall", _) => "ns/op".to_string(),
                (name, Unit::Ns) => format!("{}-ns{}/op", word(name), key.domain.suffix()),
                (name, Unit::Bytes) => format!("{}-bytes", word(name)),
                _ => format!("{}/op", word(&key.label())),
            };
            let _ = write!(text, " {value} {unit}");
        }
        text.push('\n');
    }
    Ok(text)
}

/// A benchmark's name begins with an upper-case letter or none at all.
fn capitalised(name: &str) -> String {
    let name = word(name);
    let mut chars = name.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => "Run".into(),
    }
}

/// White space and slashes would end the word.
fn word(text: &str) -> String {
    text.chars().map(|c| if c.is_whitespace() || c == '/' { '_' } else { c }).collect()
}
