//! pytest-benchmark's JSON: benchmarks with the seconds of one iteration, for each round if the file has rounds
//! (<https://pytest-benchmark.readthedocs.io/en/latest/>).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, ProblemKind};
use opcost_model::plan::Omission;
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Deserialize)]
struct Export {
    machine_info: Machine,
    benchmarks: Vec<Benchmark>,
    datetime: Option<String>,
    version: Option<String>,
}

#[derive(Deserialize)]
struct Machine {
    release: Option<String>,
    cpu: Option<Cpu>,
}

#[derive(Deserialize)]
struct Cpu {
    brand_raw: Option<String>,
}

#[derive(Deserialize)]
struct Benchmark {
    name: String,
    fullname: Option<String>,
    #[serde(default)]
    extra_info: Map<String, Value>,
    stats: Stats,
}

#[derive(Deserialize)]
struct Stats {
    mean: f64,
    stddev: Option<f64>,
    rounds: Option<u64>,
    data: Option<Vec<f64>>,
}

pub(super) fn detect(text: &str) -> bool {
    let has = |name: &str| text.contains(&format!("\"{name}\""));
    text.trim_start().starts_with('{') && has("machine_info") && has("benchmarks")
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let export: Export = input.json("pytest-benchmark")?;
    if export.benchmarks.is_empty() {
        return Err(Problem::whole(ProblemKind::NoFigures("; 'benchmarks' is empty".into())));
    }
    let mut parsed = Parsed {
        version: export.version,
        date: export.datetime,
        cpu: export.machine_info.cpu.and_then(|cpu| cpu.brand_raw),
        kernel: export.machine_info.release,
        ..Parsed::default()
    };
    let names: Vec<&str> = export.benchmarks.iter().map(|one| one.name.as_str()).collect();
    for benchmark in &export.benchmarks {
        // Several files may have tests of the same name.
        let several = names.iter().filter(|name| **name == benchmark.name).count() > 1;
        let case = match &benchmark.fullname {
            Some(whole) if several => whole,
            _ => &benchmark.name,
        };
        let Stats { mean, stddev, rounds, data } = &benchmark.stats;
        let data = match data.as_ref().filter(|data| !data.is_empty()) {
            Some(data) => Data::runs(data.clone()),
            None => {
                let why = "the file has its mean and deviation only; --benchmark-json writes the \
                           rounds, and so does --benchmark-save with --benchmark-save-data";
                parsed.omitted.push(Omission::new(format!("the rounds of {case}"), why));
                Data::Mean { mean: *mean, sd: *stddev, n: *rounds }
            }
        };
        parsed.series.push(Series::new("wall", "s", data).of(case).per_op());
        for name in benchmark.extra_info.keys() {
            let why = "extra_info says neither what it measures nor in which unit";
            parsed.omitted.push(Omission::new(format!("{name} of {case}"), why));
        }
    }
    Ok(parsed)
}
