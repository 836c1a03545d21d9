//! Results of Benchmark.js as JSON (`JSON.stringify(suite)`), and benny's (`benny.save`), which is built on it: seconds of one call
//! in each sample (<https://benchmarkjs.com/docs>, <https://github.com/caderek/benny>).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::Problem;
use opcost_model::plan::Omission;
use serde::Deserialize;
use serde_json::{Map, Value};

/// What benny saves.
#[derive(Deserialize)]
struct Saved {
    name: Option<String>,
    date: Option<String>,
    results: Vec<SavedResult>,
}

#[derive(Deserialize)]
struct SavedResult {
    name: String,
    /// Calls in a second, rounded.
    ops: f64,
    details: Option<Details>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    sample_results: Vec<f64>,
}

/// A benchmark of Benchmark.js.
#[derive(Deserialize)]
struct Benchmark {
    name: Option<String>,
    stats: Stats,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Stats {
    sample: Vec<f64>,
}

/// What is named after Benchmark.js: a suite is an object with the numbers of its benchmarks as keys.
#[derive(Deserialize)]
#[serde(untagged)]
enum Suite {
    List(Vec<Value>),
    Object(Map<String, Value>),
}

const NAME: &str = "Benchmark.js's or benny's JSON";

pub(super) fn detect(text: &str) -> bool {
    let has = |name: &str| text.contains(&format!("\"{name}\""));
    text.starts_with(['{', '['])
        && (has("percentSlower") && has("ops") || has("hz") && has("stats") && has("sample"))
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    if input.text.contains("\"percentSlower\"") {
        return saved(input);
    }
    let mut parsed = Parsed { tool: Some("Benchmark.js".into()), ..Parsed::default() };
    let benchmarks: Vec<Value> = match input.json(NAME)? {
        Suite::List(list) => list,
        Suite::Object(one) if one.contains_key("stats") => vec![Value::Object(one)],
        Suite::Object(suite) => {
            parsed.experiment = suite.get("name").and_then(Value::as_str).map(str::to_owned);
            let numbered =
                suite.into_iter().filter_map(|(key, one)| Some((key.parse().ok()?, one)));
            let mut numbered: Vec<(u64, Value)> = numbered.collect();
            numbered.sort_by_key(|(number, _)| *number);
            numbered.into_iter().map(|(_, one)| one).collect()
        }
    };
    for (index, one) in benchmarks.into_iter().enumerate() {
        let one: Benchmark = serde_json::from_value(one)
            .map_err(|error| Problem::foreign(NAME, error.to_string()))?;
        let case = one.name.unwrap_or_else(|| format!("benchmark {}", index + 1));
        if one.error.is_some() || one.stats.sample.is_empty() {
            parsed.omitted.push(Omission::new(case, "it ended without a figure"));
            continue;
        }
        let data = Data::runs(one.stats.sample);
        parsed.series.push(Series::new("wall", "s", data).of(&case).per_op());
    }
    Ok(parsed)
}

fn saved(input: &Input<'_>) -> Result<Parsed, Problem> {
    let Saved { name, date, results } = input.json(NAME)?;
    let mut parsed =
        Parsed { tool: Some("benny".into()), experiment: name, date, ..Parsed::default() };
    for SavedResult { name, ops, details } in results {
        let samples = details.map(|details| details.sample_results);
        let series = match samples.filter(|samples| !samples.is_empty()) {
            Some(samples) => Series::new("wall", "s", Data::runs(samples)).per_op(),
            None => {
                let why = "the file has their rate only; benny.save({ details: true }) writes the samples";
                parsed.omitted.push(Omission::new(format!("the samples of {name}"), why));
                let data = Data::Mean { mean: ops, sd: None, n: None };
                Series::new("throughput", "1/s", data).higher()
            }
        };
        parsed.series.push(series.of(&name));
    }
    Ok(parsed)
}
