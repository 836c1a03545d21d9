//! `vitest bench --outputJson`: milliseconds of one call, with every sample if `includeSamples` is set
//! (<https://vitest.dev/config/#benchmark>).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::Problem;
use opcost_model::plan::Omission;
use serde::Deserialize;

#[derive(Deserialize)]
struct Report {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    full_name: String,
    benchmarks: Vec<Benchmark>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Benchmark {
    name: String,
    #[serde(default)]
    samples: Vec<f64>,
    mean: Option<f64>,
    sd: Option<f64>,
    sample_count: Option<u64>,
}

pub(super) fn detect(text: &str) -> bool {
    let has = |name: &str| text.contains(&format!("\"{name}\""));
    text.starts_with('{')
        && ["files", "groups", "fullName", "benchmarks"].iter().all(|name| has(name))
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let report: Report = input.json("vitest's JSON")?;
    let mut parsed = Parsed::default();
    for group in report.files.iter().flat_map(|file| &file.groups) {
        for benchmark in &group.benchmarks {
            let case = format!("{} > {}", group.full_name, benchmark.name);
            let data = match (benchmark.samples.is_empty(), benchmark.mean) {
                (false, _) => Data::runs(benchmark.samples.clone()),
                (true, Some(mean)) => {
                    let why = "the file has mean and deviation only; benchmark.includeSamples writes the samples";
                    parsed.omitted.push(Omission::new(format!("the samples of {case}"), why));
                    Data::Mean { mean, sd: benchmark.sd, n: benchmark.sample_count }
                }
                (true, None) => {
                    parsed.omitted.push(Omission::new(case, "it ended without a figure"));
                    continue;
                }
            };
            parsed.series.push(Series::new("wall", "ms", data).of(&case).per_op());
        }
    }
    Ok(parsed)
}
