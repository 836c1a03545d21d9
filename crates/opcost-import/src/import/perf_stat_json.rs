//! `perf stat -j`: one JSON object with one event on each line (tools/perf/util/stat-display.c).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, number};
use opcost_model::plan::Omission;
use serde::Deserialize;

/// One event.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "counter-value")]
    counter_value: Option<String>,
    #[serde(default)]
    unit: String,
    event: Option<String>,
    /// With `-r`: the standard error of the mean, percent of the mean.
    variance: Option<f64>,
    #[serde(rename = "pcnt-running")]
    running_percent: Option<f64>,
    interval: Option<f64>,
}

pub(super) fn detect(text: &str) -> bool {
    text.lines().any(|line| line.starts_with('{') && line.contains("\"counter-value\""))
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let mut parsed = Parsed { tool: Some("perf stat".into()), ..Parsed::default() };
    for (index, line) in input.text.lines().enumerate() {
        input.take_line(line)?;
        let (at, line) = (index + 1, line.trim());
        if let Some(date) = line.strip_prefix("# started on ") {
            parsed.date = Some(date.to_string());
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let event: Event = serde_json::from_str(line)
            .map_err(|error| Problem { line: Some(at), ..Problem::json("perf stat -j", error) })?;
        if event.interval.is_some() {
            return Err(Problem::foreign(
                "a total of perf stat",
                "it has intervals (-I); import a run without -I",
            ));
        }
        // Lines without an event contain figures that perf derives from the line above.
        let (Some(name), Some(text)) = (&event.event, &event.counter_value) else { continue };
        let running = event.running_percent.unwrap_or(100.0);
        add(&mut parsed, name, &event.unit, text, event.variance, running, at)?;
    }
    Ok(parsed)
}

/// Adds one event, or notes why it has no figure.
pub(super) fn add(
    parsed: &mut Parsed,
    event: &str,
    unit: &str,
    text: &str,
    error_percent: Option<f64>,
    running_percent: f64,
    line: usize,
) -> Result<(), Problem> {
    if let Some(why) = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')) {
        parsed.omitted.push(Omission::new(event, format!("{why} where it was measured")));
        return Ok(());
    }
    if running_percent < 100.0 {
        let why = format!(
            "multiplexed: counted {running_percent} % of the time and extrapolated by perf"
        );
        parsed.omitted.push(Omission::new(event, why));
        return Ok(());
    }
    let value = number(event, text, line)?;
    let data = match error_percent {
        Some(percent) => Data::Error { mean: value, error: value * percent / 100.0 },
        None => Data::run(value),
    };
    parsed.series.push(Series::new(event, unit, data).at(line));
    Ok(())
}
