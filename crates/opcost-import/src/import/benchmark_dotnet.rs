//! BenchmarkDotNet's JSON (`--exporters json`), brief or full (<https://benchmarkdotnet.org/articles/configs/exporters.html>).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::Problem;
use opcost_model::plan::Omission;
use opcost_record::Better;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Report {
    title: Option<String>,
    host_environment_info: Host,
    benchmarks: Vec<Benchmark>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Host {
    benchmark_dot_net_version: Option<String>,
    /// A text, or in old versions an object with one.
    processor_name: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Benchmark {
    #[serde(default, rename = "Type")]
    class: String,
    #[serde(default)]
    method: String,
    #[serde(default)]
    parameters: String,
    statistics: Option<Statistics>,
    memory: Option<Memory>,
    #[serde(default)]
    measurements: Vec<Measurement>,
    #[serde(default)]
    metrics: Vec<Metric>,
}

/// Nanoseconds of one operation.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Statistics {
    #[serde(default)]
    original_values: Vec<f64>,
    n: Option<u64>,
    mean: f64,
    standard_deviation: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Memory {
    bytes_allocated_per_operation: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Measurement {
    iteration_mode: String,
    iteration_stage: Option<String>,
    #[serde(default)]
    launch_index: u32,
    operations: f64,
    nanoseconds: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Metric {
    value: Value,
    descriptor: Descriptor,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Descriptor {
    id: String,
    #[serde(default)]
    unit: String,
    the_greater_the_better: Option<bool>,
}

pub(super) fn detect(text: &str) -> bool {
    let has = |name: &str| text.contains(&format!("\"{name}\""));
    text.starts_with('{') && has("HostEnvironmentInfo") && has("Benchmarks")
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let report: Report = input.json("BenchmarkDotNet's JSON")?;
    let Host { benchmark_dot_net_version, processor_name } = report.host_environment_info;
    let cpu = processor_name.as_ref().and_then(|name| name.get("Value").unwrap_or(name).as_str());
    let mut parsed = Parsed {
        version: benchmark_dot_net_version,
        cpu: cpu.map(str::to_owned),
        experiment: report.title,
        ..Parsed::default()
    };
    for benchmark in &report.benchmarks {
        let Benchmark { class, method, parameters, .. } = benchmark;
        let case = match parameters.as_str() {
            "" => format!("{class}.{method}"),
            parameters => format!("{class}.{method}({parameters})"),
        };
        match benchmark.data() {
            Some(data) => {
                parsed.series.push(Series::new("wall", "ns", data).of(&case).per_op());
            }
            None => parsed.omitted.push(Omission::new(&case, "it ended without a figure")),
        }
        let bytes = benchmark.memory.as_ref().and_then(|one| one.bytes_allocated_per_operation);
        if let Some(bytes) = bytes {
            parsed.series.push(Series::new("allocated", "B", Data::run(bytes)).of(&case).per_op());
        }
        // The memory is a metric, too.
        for Metric { value, descriptor } in
            benchmark.metrics.iter().filter(|one| one.descriptor.id != "Allocated Memory")
        {
            let Some(value) = value.as_f64() else { continue };
            let unit = if descriptor.unit == "#" { "" } else { &descriptor.unit };
            let better = descriptor.the_greater_the_better.map(|greater| match greater {
                true => Better::Higher,
                false => Better::Lower,
            });
            let series = Series::new(&descriptor.id, unit, Data::run(value)).of(&case);
            parsed.series.push(Series { better, ..series });
        }
    }
    Ok(parsed)
}

impl Benchmark {
    /// A figure for each launch, since a launch's iterations share a process; of one launch its iterations; else the statistics.
    fn data(&self) -> Option<Data> {
        let mut launches: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        // Other measurements are warm-ups, overhead, and results before the overhead was taken from them.
        let is_result = |one: &&Measurement| match one.iteration_stage.as_deref() {
            Some(stage) => one.iteration_mode == "Workload" && stage == "Result",
            None => one.iteration_mode == "Result",
        };
        for one in self.measurements.iter().filter(is_result).filter(|one| one.operations > 0.0) {
            let values = launches.entry(one.launch_index).or_default();
            values.push(one.nanoseconds / one.operations);
        }
        let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        match (launches.len(), &self.statistics) {
            (0, None) => None,
            (0, Some(statistics)) if !statistics.original_values.is_empty() => {
                Some(Data::runs(statistics.original_values.clone()))
            }
            (0, Some(Statistics { mean, standard_deviation, n, .. })) => {
                Some(Data::Mean { mean: *mean, sd: *standard_deviation, n: *n })
            }
            (1, _) => launches.into_values().next().map(Data::runs),
            _ => Some(Data::runs(launches.values().map(mean).collect())),
        }
    }
}
