//! Go benchmark lines (<https://go.dev/design/14313-benchmark-format>), so that
//! `benchstat -col /variant FILE` reads them: one run a line, one metric a value-unit pair.

use super::View;
use anyhow::Result;
use opcost_record::{Family, MetricKey, Outcome, Unit, WORK};
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
    text.push_str(&super::imported::benchfmt(recording, &name));
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
            let unit = unit(key, row.unit);
            let _ = write!(text, " {value} {unit}");
        }
        text.push('\n');
    }
    Ok(text)
}

/// The unit of a metric, which names the metric, too; the units that Go's own benchmarks use have a
/// meaning to benchstat.
pub(super) fn unit(key: &MetricKey, unit: Unit) -> String {
    match (key.label().as_str(), unit) {
        ("wall", _) => "ns/op".to_string(),
        (_, Unit::Ns) => format!("{}-ns{}/op", word(&key.name), key.domain.suffix()),
        (_, Unit::Bytes) => format!("{}-bytes", word(&key.name)),
        (label, _) => format!("{}/op", word(label)),
    }
}

/// A benchmark's name begins with an upper-case letter or none at all.
pub(super) fn capitalised(name: &str) -> String {
    let name = word(name);
    let mut chars = name.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => "Run".into(),
    }
}

/// White space and slashes would end the word.
pub(super) fn word(text: &str) -> String {
    text.chars().map(|c| if c.is_whitespace() || c == '/' { '_' } else { c }).collect()
}
