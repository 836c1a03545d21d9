//! google-benchmark's JSON: benchmarks with the real and CPU time of one iteration, and counters
//! (<https://github.com/google/benchmark/blob/main/docs/user_guide.md>).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::Problem;
use opcost_model::plan::Omission;
use opcost_record::Better;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashSet;

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
    #[serde(default)]
    skipped: bool,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Numbers that are not figures of the work.
const NO_COUNTERS: &[&str] = &[
    "family_index",
    "per_family_instance_index",
    "repetition_index",
    "threads",
    "iterations",
    "rms",
    "cpu_coefficient",
    "real_coefficient",
];

/// Counters of the library itself, with their unit and the direction that is better.
const OWN_COUNTERS: &[(&str, &str, Better)] = &[
    ("items_per_second", "1/s", Better::Higher),
    ("bytes_per_second", "B/s", Better::Higher),
    // Present with a memory manager.
    ("allocs_per_iter", "", Better::Lower),
    ("max_bytes_used", "B", Better::Lower),
    ("total_allocated_bytes", "B", Better::Lower),
    ("net_heap_growth", "B", Better::Lower),
];

/// Statistics of the repetitions. Other statistics are not taken over, as the repetitions tell more.
const STATISTICS: &[&str] = &["mean", "median", "stddev", "cv"];

pub(super) fn detect(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && text.contains("\"benchmarks\"")
        && text.contains("\"context\"")
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let export: Export = input.json("google-benchmark")?;
    let mut parsed = Parsed {
        date: export.context.date,
        version: export.context.library_version,
        ..Parsed::default()
    };
    let names: HashSet<&str> = export.benchmarks.iter().map(|one| one.name.as_str()).collect();
    let (aggregates, runs): (Vec<&Benchmark>, Vec<&Benchmark>) =
        export.benchmarks.iter().partition(|benchmark| statistic(benchmark, &names).is_some());
    let mut repeated = HashSet::new();
    for benchmark in runs {
        let case = benchmark.case();
        if benchmark.error_occurred || benchmark.skipped {
            let said = benchmark.text("error_message").or(benchmark.text("skip_message"));
            let why = said.map_or("it ended with an error".to_string(), |said| {
                format!("it ended without a figure: {said}")
            });
            parsed.omitted.push(Omission::new(case, why));
            continue;
        }
        repeated.insert(case);
        for (metric, time) in [("wall", benchmark.real_time), ("cpu-time", benchmark.cpu_time)] {
            if let Some(time) = time {
                let series = Series::new(metric, &benchmark.time_unit, Data::run(time));
                parsed.series.push(series.of(case).per_op());
            }
        }
        for (counter, value) in benchmark.counters() {
            parsed.series.push(counted(counter, Data::run(value)).of(case));
        }
    }
    for (at, benchmark) in aggregates.iter().enumerate() {
        let case = statistic(benchmark, &names).map_or(benchmark.case(), |(case, _)| case);
        let of =
            |wanted: &str| statistic(benchmark, &names).is_some_and(|(_, name)| name == wanted);
        if of("BigO") || of("RMS") {
            let why = "the fit of the complexity follows from the times and is no figure of a run";
            parsed.omitted.push(Omission::new(&benchmark.name, why));
        } else if of("mean") && !repeated.contains(case) {
            let deviation = aggregates[at..]
                .iter()
                .find(|other| statistic(other, &names) == Some((case, "stddev")))
                .copied();
            mean(benchmark, deviation, case, &mut parsed);
        } else if !STATISTICS.iter().any(|known| of(known)) {
            let why = "a statistic of the user's own, which is no figure of a run";
            parsed.omitted.push(Omission::new(&benchmark.name, why));
        }
    }
    Ok(parsed)
}

/// The benchmark and the statistic of an entry; `None` if the entry is a single repetition.
fn statistic<'b>(benchmark: &'b Benchmark, names: &HashSet<&str>) -> Option<(&'b str, &'b str)> {
    match benchmark.run_type.as_deref() {
        Some("aggregate") => {
            Some((benchmark.case(), benchmark.aggregate_name.as_deref().unwrap_or_default()))
        }
        Some(_) => None,
        // Before version 1.5 only the name tells, and the statistics of a benchmark follow each other.
        None => {
            let known = STATISTICS.iter().filter(|name| **name != "cv").chain(&["BigO", "RMS"]);
            let mut found = known.filter_map(|name| {
                let case = benchmark.name.strip_suffix(name)?.strip_suffix('_')?;
                Some((case, &benchmark.name[case.len() + 1..]))
            });
            let is_group = |(case, _): &(&str, &str)| {
                let others = STATISTICS.iter().chain(&["BigO", "RMS"]);
                others.filter(|name| names.contains(format!("{case}_{name}").as_str())).count() > 1
            };
            found.find(is_group)
        }
    }
}

/// Adds the means of a benchmark without single repetitions.
fn mean(mean: &Benchmark, deviation: Option<&Benchmark>, case: &str, parsed: &mut Parsed) {
    let data = |value: f64, sd: Option<f64>| Data::Mean { mean: value, sd, n: mean.repetitions };
    let times = [
        ("wall", mean.real_time, deviation.and_then(|one| one.real_time)),
        ("cpu-time", mean.cpu_time, deviation.and_then(|one| one.cpu_time)),
    ];
    for (metric, value, sd) in times {
        if let Some(value) = value {
            let series = Series::new(metric, &mean.time_unit, data(value, sd));
            parsed.series.push(series.of(case).per_op());
        }
    }
    for (counter, value) in mean.counters() {
        let sd = deviation.and_then(|one| one.others.get(counter)?.as_f64());
        parsed.series.push(counted(counter, data(value, sd)).of(case));
    }
}

/// A counter as a series. More is better for rates per second; for other unknown counters no direction is known.
fn counted(name: &str, data: Data) -> Series {
    match OWN_COUNTERS.iter().find(|(own, ..)| *own == name) {
        Some((_, unit, better)) => {
            Series { better: Some(*better), ..Series::new(name, unit, data) }
        }
        None if name.ends_with("_per_second") || name.ends_with("/s") => {
            Series::new(name, "1/s", data).higher()
        }
        None => Series::new(name, "", data),
    }
}

impl Benchmark {
    /// The name without the statistic.
    fn case(&self) -> &str {
        self.run_name.as_ref().unwrap_or(&self.name)
    }

    fn text(&self, field: &str) -> Option<&str> {
        self.others.get(field)?.as_str().filter(|text| !text.is_empty())
    }

    /// The counters beside the times.
    fn counters(&self) -> impl Iterator<Item = (&String, f64)> {
        let others = self.others.iter().filter(|(name, _)| !NO_COUNTERS.contains(&name.as_str()));
        others.filter_map(|(name, value)| Some((name, value.as_f64()?)))
    }
}
