//! `fio --output-format=json`: rates and latencies of each job (fio(1), "Terse output" and JSON).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::Problem;
use opcost_model::plan::Omission;
use opcost_record::Better;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Report {
    #[serde(rename = "fio version")]
    version: Option<String>,
    time: Option<String>,
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    #[serde(default)]
    groupid: i64,
    #[serde(default)]
    error: i64,
    read: Option<Direction>,
    write: Option<Direction>,
    trim: Option<Direction>,
    usr_cpu: Option<f64>,
    sys_cpu: Option<f64>,
}

/// What a job read, wrote or trimmed.
#[derive(Deserialize)]
struct Direction {
    #[serde(default)]
    io_bytes: f64,
    bw_bytes: Option<f64>,
    /// KiB a second.
    bw: Option<f64>,
    iops: Option<f64>,
    lat_ns: Option<Latency>,
    clat_ns: Option<Latency>,
    /// Microseconds, before version 3.
    lat: Option<Latency>,
}

#[derive(Deserialize)]
struct Latency {
    mean: Option<f64>,
    #[serde(default)]
    percentile: BTreeMap<String, Value>,
}

/// What fio may print before the document begins.
fn document(text: &str) -> &str {
    text.find('{').map_or(text, |at| &text[at..])
}

pub(super) fn detect(text: &str) -> bool {
    let begun = document(text);
    begun.contains("\"fio version\"") && begun.contains("\"jobs\"")
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let begun = Input { text: document(input.text), ..*input };
    let report: Report = begun.json("fio's JSON")?;
    let mut parsed = Parsed { version: report.version, date: report.time, ..Parsed::default() };
    let mut beside: BTreeMap<(&str, i64), usize> = BTreeMap::new();
    for job in &report.jobs {
        *beside.entry((&job.jobname, job.groupid)).or_default() += 1;
        let case = &job.jobname;
        if job.error != 0 {
            let why = format!("it ended with error {}", job.error);
            parsed.omitted.push(Omission::new(case, why));
            continue;
        }
        let mut add = |metric: String, unit: &str, value: Option<f64>, better: Better| {
            let Some(value) = value else { return };
            let series = Series::new(&metric, unit, Data::run(value)).of(case);
            parsed.series.push(Series { better: Some(better), ..series });
        };
        for (name, done) in [("read", &job.read), ("write", &job.write), ("trim", &job.trim)] {
            let Some(done) = done.as_ref().filter(|done| done.io_bytes > 0.0) else { continue };
            let bytes = done.bw_bytes.or(done.bw.map(|kibibytes| kibibytes * 1024.0));
            add(format!("{name} bandwidth"), "B/s", bytes, Better::Higher);
            add(format!("{name} IOPS"), "1/s", done.iops, Better::Higher);
            let (latency, unit) = match (&done.lat_ns, &done.lat) {
                (Some(latency), _) => (Some(latency), "ns"),
                (None, latency) => (latency.as_ref(), "us"),
            };
            let mean = latency.and_then(|latency| latency.mean);
            add(format!("{name} latency"), unit, mean, Better::Lower);
            let of = [&done.clat_ns, &done.lat_ns].into_iter().flatten();
            let high = of.flat_map(|one| one.percentile.get("99.000000")).find_map(Value::as_f64);
            add(format!("{name} latency, 99 %"), "ns", high, Better::Lower);
        }
        add("user CPU".into(), "%", job.usr_cpu, Better::Lower);
        add("system CPU".into(), "%", job.sys_cpu, Better::Lower);
    }
    for ((name, _), jobs) in beside.into_iter().filter(|(_, jobs)| *jobs > 1) {
        let why = "each is a figure of its own, though they ran at the same time; --group_reporting sums them";
        parsed.omitted.push(Omission::new(format!("the sum of {jobs} jobs {name}"), why));
    }
    Ok(parsed)
}
