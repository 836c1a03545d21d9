//! pyperf's JSON: benchmarks with the values of each worker process
//! (<https://pyperf.readthedocs.io/en/latest/api.html#pyperf-json-format>).
//!
//! Values of one process share its hash seed, memory layout and time, so they are not independent. Each process therefore gives one
//! figure, the mean of its values.

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, ProblemKind};
use opcost_model::plan::Omission;
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
struct Suite {
    benchmarks: Vec<Benchmark>,
    /// Facts common to all benchmarks.
    #[serde(default)]
    metadata: Map<String, Value>,
}

#[derive(Deserialize)]
struct Benchmark {
    #[serde(default)]
    metadata: Map<String, Value>,
    runs: Vec<Run>,
}

/// One worker process.
#[derive(Deserialize)]
struct Run {
    #[serde(default)]
    metadata: Map<String, Value>,
    /// Each value is the time of one iteration of the inner loop. A process that only calibrates has no values; its warm-ups are in
    /// `warmups`, which this reader ignores.
    #[serde(default)]
    values: Vec<f64>,
}

pub(super) fn detect(text: &str) -> bool {
    let has = |name: &str| text.contains(&format!("\"{name}\""));
    text.trim_start().starts_with('{') && has("benchmarks") && has("runs") && has("perf_version")
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let suite: Suite = input.json("pyperf")?;
    if suite.benchmarks.is_empty() {
        return Err(Problem::whole(ProblemKind::NoFigures("; 'benchmarks' is empty".into())));
    }
    let mut parsed = Parsed::default();
    let mut values_most = 0;
    for benchmark in &suite.benchmarks {
        // Facts common to all runs or all benchmarks are stored once, at the outer level.
        let fact = |name: &str| {
            let places = [Some(&benchmark.metadata), Some(&suite.metadata)];
            let first = benchmark.runs.iter().find(|run| !run.values.is_empty());
            let all = places.into_iter().chain([first.map(|run| &run.metadata)]).flatten();
            all.filter_map(|metadata| metadata.get(name)?.as_str()).next().map(str::to_string)
        };
        parsed.version = parsed.version.or_else(|| fact("perf_version"));
        parsed.cpu = parsed.cpu.or_else(|| fact("cpu_model_name"));
        parsed.date = parsed.date.or_else(|| fact("date"));
        let name = fact("name");
        let case = name.as_deref().unwrap_or("benchmark");
        let (metric, unit, per_op) = match fact("unit").as_deref() {
            None | Some("second") => ("wall", "s", true),
            Some("byte") => ("memory", "B", false),
            Some(_) => ("value", "", false),
        };
        let with_values = || benchmark.runs.iter().filter(|run| !run.values.is_empty());
        let mean = |run: &Run| run.values.iter().sum::<f64>() / run.values.len() as f64;
        let figures: Vec<f64> = with_values().map(mean).collect();
        if figures.is_empty() {
            parsed
                .omitted
                .push(Omission::new(case, "its processes only calibrated; it has no value"));
            continue;
        }
        values_most = with_values().map(|run| run.values.len()).fold(values_most, usize::max);
        let series = Series::new(metric, unit, Data::runs(figures)).of(case);
        let better = (metric == "memory").then_some(opcost_record::Better::Lower);
        parsed.series.push(Series { per_op, better, ..series });
    }
    if values_most > 1 {
        let what = format!("the single values, up to {values_most} a process");
        let why =
            "values of one process are not independent, so a process is one figure: their mean";
        parsed.omitted.push(Omission::new(what, why));
    }
    Ok(parsed)
}
