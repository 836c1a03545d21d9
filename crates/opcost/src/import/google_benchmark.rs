//! google-benchmark's JSON: benchmarks with real and CPU time of one iteration
//! (<https://github.com/google/benchmark/blob/main/docs/user_guide.md>).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::Problem;
use crate::plan::Omission;
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
struct Export {
    context: Context,
    benchmarks: Vec<Benchmark>,
}

#[derive(Deserialize)]
struct Context {
    date: Option<String>,
    library_version: Option<String>,
}

#[derive(Deserialize)]
struct Benchmark {
    name: String,
    run_name: Option<String>,
    run_type: Option<String>,
    aggregate_name: Option<String>,
    repetitions: Option<u64>,
    real_time: Option<f64>,
    cpu_time: Option<f64>,
    #[serde(default)]
    time_unit: String,
    #[serde(default)]
    error_occurred: bool,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Fields that are no counters, and rates that follow from the times.
const NO_COUNTERS: &[&str] = &[
    "family_index",
    "per_family_instance_index",
    "repetition_index",
    "threads",
    "iterations",
    "bytes_per_second",
    "items_per_second",
    "aggregate_unit",
    "label",
    "error_message",
    "rms",
    "cpu_coefficient",
    "real_coefficient",
    "big_o",
];

pub(super) fn detect(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && text.contains("\"benchmarks\"")
        && text.contains("\"context\"")
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let export: Export = serde_json::from_str(input.text)
        .map_err(|error| Problem::json("google-benchmark", &error))?;
    let mut parsed = Parsed {
        date: export.context.date,
        version: export.context.library_version,
        ..Parsed::default()
    };
    let is_aggregate = |benchmark: &Benchmark| benchmark.run_type.as_deref() == Some("aggregate");
    for benchmark in export.benchmarks.iter().filter(|benchmark| !is_aggregate(benchmark)) {
        let case = benchmark.run_name.as_ref().unwrap_or(&benchmark.name);
        if benchmark.error_occurred {
            parsed.omitted.push(Omission::new(case, "it ended with an error"));
            continue;
        }
        for (metric, time) in [("wall", benchmark.real_time), ("cpu-time", benchmark.cpu_time)] {
            if let Some(time) = time {
                let series = Series::new(metric, &benchmark.time_unit, Data::run(time));
                parsed.series.push(series.of(case).per_op());
            }
        }
        for (counter, value) in &benchmark.others {
            if let Some(value) = value.as_f64().filter(|_| !NO_COUNTERS.contains(&counter.as_str()))
            {
                parsed.series.push(Series::new(counter, "", Data::run(value)).of(case));
            }
        }
    }
    if parsed.series.is_empty() {
        aggregates(&export.benchmarks, &mut parsed);
    }
    Ok(parsed)
}

/// The means and deviations of a file that has nothing else.
fn aggregates(benchmarks: &[Benchmark], parsed: &mut Parsed) {
    let of = |name: &'static str| {
        move |benchmark: &&Benchmark| benchmark.aggregate_name.as_deref() == Some(name)
    };
    for mean in benchmarks.iter().filter(of("mean")) {
        let case = mean.run_name.as_ref().unwrap_or(&mean.name);
        let spread =
            benchmarks.iter().filter(of("stddev")).find(|other| other.run_name == mean.run_name);
        let mut add = |metric: &str, value: Option<f64>, sd: Option<f64>| {
            if let Some(value) = value {
                let data = Data::Mean { mean: value, sd, n: mean.repetitions };
                parsed.series.push(Series::new(metric, &mean.time_unit, data).of(case).per_op());
            }
        };
        add("wall", mean.real_time, spread.and_then(|spread| spread.real_time));
        add("cpu-time", mean.cpu_time, spread.and_then(|spread| spread.cpu_time));
    }
}
