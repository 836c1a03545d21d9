//! What sysbench 1.0 prints: rates and latencies of one test (<https://github.com/akopytov/sysbench>).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, ProblemKind, number};
use opcost_model::plan::Omission;

pub(super) fn detect(text: &str) -> bool {
    text.starts_with("sysbench ") && text.contains("General statistics:")
        || text.starts_with("sysbench ")
            && text.contains("Running the test with following options:")
}

/// Lines `NAME: FIGURE` and what they measure.
const RATES: &[(&str, &str, &str)] = &[
    ("events per second", "events", "1/s"),
    ("events/s (eps)", "events", "1/s"),
    ("reads/s", "reads", "1/s"),
    ("writes/s", "writes", "1/s"),
    ("fsyncs/s", "fsyncs", "1/s"),
    ("read, MiB/s", "read", "MiB/s"),
    ("written, MiB/s", "written", "MiB/s"),
];

/// Lines with a rate in brackets: `transactions: 1000 (99.94 per sec.)`.
const IN_BRACKETS: &[(&str, &str, &str)] = &[
    ("Total operations", "operations", "1/s"),
    ("transactions", "transactions", "1/s"),
    ("queries", "queries", "1/s"),
];

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let mut parsed = Parsed::default();
    let (mut events, mut seconds) = (None, None);
    let mut in_latencies = false;
    for (at, line) in input.whole_lines(&mut parsed)? {
        if let Some(version) = line.strip_prefix("sysbench ") {
            parsed.version = version.split(' ').next().map(str::to_owned);
            continue;
        }
        let rate = |metric: &str, unit: &str, text: &str| {
            let value = number(metric, text, at)?;
            Ok::<_, Problem>(Series::new(metric, unit, Data::run(value)).higher().at(at))
        };
        // `200.00 MiB transferred (1602.05 MiB/sec)`
        if let Some((_, rest)) = line.split_once(" transferred (") {
            if let Some((figure, unit)) = rest.trim_end_matches(')').split_once(' ') {
                parsed.series.push(rate("transferred", unit, figure)?);
            }
            continue;
        }
        // `Total operations: 204800 (1640496.98 per second)`
        let Some((name, text)) = line.split_once(':') else { continue };
        let (name, text) = (name.trim(), text.trim());
        if line.starts_with(|first: char| !first.is_whitespace()) {
            in_latencies = name == "Latency (ms)";
        }
        if let Some((_, metric, unit)) = RATES.iter().find(|(known, ..)| *known == name) {
            parsed.series.push(rate(metric, unit, text)?);
        } else if let Some((_, metric, unit)) =
            IN_BRACKETS.iter().find(|(known, ..)| *known == name)
            && let Some((_, rest)) = text.split_once('(')
        {
            let figure = rest.split(' ').next().unwrap_or_default();
            parsed.series.push(rate(metric, unit, figure)?);
        } else if name == "Number of threads" {
            parsed.threads = text.parse().ok();
        } else if name == "total number of events" {
            events = Some(number(name, text, at)?);
        } else if name == "total time" {
            seconds = Some(number(name, text.trim_end_matches('s'), at)?);
        } else if in_latencies && (name == "avg" || name.ends_with("percentile")) {
            let value = number("a latency", text, at)?;
            let metric = match name.split_once("th percentile") {
                Some((percent, _)) => format!("latency, {percent} %"),
                None => "latency".to_owned(),
            };
            if value == 0.0 {
                let why = "sysbench rounded it to 0.00 ms";
                parsed.omitted.push(Omission::new(metric, why));
            } else {
                parsed.series.push(Series::new(&metric, "ms", Data::run(value)).at(at));
            }
        }
    }
    // Tests of threads and locks print no rate.
    if let (Some(events), Some(seconds)) = (events, seconds) {
        if !parsed
            .series
            .iter()
            .any(|series| series.unit.ends_with("/s") || series.unit.ends_with("/sec"))
            && seconds > 0.0
        {
            let series = Series::new("events", "1/s", Data::run(events / seconds)).higher();
            parsed.series.insert(0, series);
        }
        return Ok(parsed);
    }
    let what = "no line 'total number of events:'".to_owned();
    Err(Problem::whole(ProblemKind::Truncated(what)))
}
