//! JMH's JSON (`-rf json`): benchmarks with the score of every iteration of every fork
//! (<https://github.com/openjdk/jmh>, `JSONResultFormat`).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::Problem;
use opcost_model::plan::Omission;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashMap;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Benchmark {
    benchmark: String,
    mode: String,
    jmh_version: Option<String>,
    threads: Option<u32>,
    #[serde(default)]
    params: Map<String, Value>,
    primary_metric: Metric,
    #[serde(default)]
    secondary_metrics: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metric {
    score: Value,
    #[serde(default)]
    score_unit: String,
    /// The iterations of each fork; texts stand for figures that are not finite.
    #[serde(default)]
    raw_data: Vec<Vec<Value>>,
    /// The times of each iteration with the number of times that each was seen; only the mode that samples has them.
    #[serde(default)]
    raw_data_histogram: Vec<Vec<Vec<(f64, f64)>>>,
}

pub(super) fn detect(text: &str) -> bool {
    let has = |name: &str| text.contains(&format!("\"{name}\""));
    text.starts_with('[') && has("benchmark") && has("primaryMetric")
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let benchmarks: Vec<Benchmark> = input.json("JMH's JSON")?;
    let mut parsed = Parsed {
        version: benchmarks.iter().find_map(|one| one.jmh_version.clone()),
        threads: benchmarks.iter().filter_map(|one| one.threads).max(),
        ..Parsed::default()
    };
    let mut modes: HashMap<String, usize> = HashMap::new();
    for benchmark in &benchmarks {
        *modes.entry(benchmark.case()).or_default() += 1;
    }
    for benchmark in &benchmarks {
        let mut case = benchmark.case();
        // Average and sampled times are different figures.
        if modes[&case] > 1 {
            case = format!("{case} ({})", benchmark.mode);
        }
        match benchmark.primary_metric.data() {
            Some(data) => {
                let unit = &benchmark.primary_metric.score_unit;
                let series = match unit.strip_suffix("/op") {
                    Some(unit) => Series::new("wall", unit, data).per_op(),
                    None => Series::new("throughput", unit, data).higher(),
                };
                parsed.series.push(series.of(&case));
            }
            None => parsed.omitted.push(Omission::new(&case, "it has no finite score")),
        }
        for (name, value) in &benchmark.secondary_metrics {
            // Older versions mark the metrics of profilers by a dot.
            let name = name.trim_start_matches('·');
            let metric = serde_json::from_value::<Metric>(value.clone()).ok();
            let data = metric.as_ref().and_then(Metric::data);
            let Some((metric, data)) = metric.zip(data) else {
                let why = "it has no finite score";
                parsed.omitted.push(Omission::new(format!("{name} of {case}"), why));
                continue;
            };
            let series = match metric.score_unit.as_str() {
                "counts" | "---" => Series::new(name, "", data),
                unit => match unit.strip_suffix("/op") {
                    Some(unit) => Series::new(name, unit.trim_start_matches('#'), data).per_op(),
                    None => Series::new(name, unit, data),
                },
            };
            parsed.series.push(series.of(&case));
        }
    }
    Ok(parsed)
}

impl Benchmark {
    /// The class and the method, with the parameters: `Sums.sum size=10`.
    fn case(&self) -> String {
        let mut parts = self.benchmark.rsplitn(3, '.');
        let method = parts.next().unwrap_or_default();
        let mut case = match parts.next() {
            Some(class) => format!("{class}.{method}"),
            None => method.to_owned(),
        };
        for (name, value) in &self.params {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            case.push_str(&format!(" {name}={value}"));
        }
        case
    }
}

impl Metric {
    /// A figure for each fork, since a fork's iterations share a process; of one fork its iterations.
    fn data(&self) -> Option<Data> {
        let iterations: Vec<Vec<f64>> = if self.raw_data_histogram.is_empty() {
            let finite = |fork: &Vec<Value>| fork.iter().filter_map(Value::as_f64).collect();
            self.raw_data.iter().map(finite).collect()
        } else {
            let fork = |fork: &Vec<Vec<(f64, f64)>>| {
                fork.iter().filter_map(|one| mean(one.iter().copied())).collect()
            };
            self.raw_data_histogram.iter().map(fork).collect()
        };
        let values: Vec<f64> = match iterations.as_slice() {
            [only] => only.clone(),
            forks => {
                let fork = |fork: &Vec<f64>| mean(fork.iter().map(|value| (*value, 1.0)));
                forks.iter().filter_map(fork).collect()
            }
        };
        match (values.is_empty(), self.score.as_f64()) {
            (false, _) => Some(Data::runs(values)),
            (true, score) => Some(Data::run(score?)),
        }
    }
}

/// The mean of values, each with its weight.
fn mean(values: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (sum, weight) =
        values.fold((0.0, 0.0), |(sum, all), (value, weight)| (sum + value * weight, all + weight));
    (weight > 0.0).then(|| sum / weight)
}
