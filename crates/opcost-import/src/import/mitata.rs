//! mitata's JSON (`run({ format: 'json' })`): nanoseconds of one call in each sample (<https://github.com/evanwashere/mitata>).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::Problem;
use opcost_model::plan::Omission;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    layout: Vec<Group>,
    benchmarks: Vec<Benchmark>,
    context: Option<Context>,
}

#[derive(Deserialize)]
struct Group {
    name: Option<String>,
}

#[derive(Deserialize)]
struct Context {
    runtime: Option<String>,
    version: Option<String>,
    cpu: Option<Cpu>,
}

#[derive(Deserialize)]
struct Cpu {
    name: Option<String>,
}

#[derive(Deserialize)]
struct Benchmark {
    group: Option<usize>,
    runs: Vec<Run>,
}

/// A benchmark with certain arguments.
#[derive(Deserialize)]
struct Run {
    name: String,
    stats: Option<Stats>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Stats {
    #[serde(default)]
    samples: Vec<f64>,
    avg: f64,
    heap: Option<Heap>,
}

#[derive(Deserialize)]
struct Heap {
    avg: Option<f64>,
}

pub(super) fn detect(text: &str) -> bool {
    let has = |name: &str| text.contains(&format!("\"{name}\""));
    text.starts_with('{') && ["layout", "benchmarks", "runs"].iter().all(|name| has(name))
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let report: Report = input.json("mitata's JSON")?;
    let context = report.context.as_ref();
    let runtime = context.and_then(|one| one.runtime.clone());
    let version = context.and_then(|one| one.version.clone());
    let mut parsed = Parsed {
        tool: runtime
            .zip(version)
            .map(|(runtime, version)| format!("mitata on {runtime} {version}")),
        cpu: context.and_then(|one| one.cpu.as_ref()?.name.clone()),
        ..Parsed::default()
    };
    for benchmark in &report.benchmarks {
        let group = benchmark.group.and_then(|group| report.layout.get(group)?.name.as_deref());
        for run in &benchmark.runs {
            let case = match group {
                Some(group) => format!("{group} > {}", run.name),
                None => run.name.clone(),
            };
            let Some(stats) = run.stats.as_ref().filter(|_| run.error.is_none()) else {
                parsed.omitted.push(Omission::new(case, "it ended with an error"));
                continue;
            };
            let data = if stats.samples.is_empty() {
                Data::Mean { mean: stats.avg, sd: None, n: None }
            } else {
                Data::runs(stats.samples.clone())
            };
            parsed.series.push(Series::new("wall", "ns", data).of(&case).per_op());
            if let Some(bytes) = stats.heap.as_ref().and_then(|heap| heap.avg) {
                let data = Data::Mean { mean: bytes, sd: None, n: None };
                parsed.series.push(Series::new("allocated", "B", data).of(&case).per_op());
            }
        }
    }
    Ok(parsed)
}
