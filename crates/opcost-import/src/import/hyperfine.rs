//! `hyperfine --export-json`: commands with the times of their runs, in seconds.

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, ProblemKind};
use opcost_model::plan::Omission;
use serde::Deserialize;

#[derive(Deserialize)]
struct Export {
    results: Vec<Outcome>,
    /// Present in opcost's own JSON only.
    opcost: Option<serde::de::IgnoredAny>,
}

/// One command.
#[derive(Deserialize)]
struct Outcome {
    command: String,
    mean: Option<f64>,
    stddev: Option<f64>,
    user: Option<f64>,
    system: Option<f64>,
    #[serde(default)]
    times: Vec<f64>,
    #[serde(default)]
    memory_usage_byte: Vec<f64>,
    #[serde(default)]
    exit_codes: Vec<Option<i32>>,
}

pub(super) fn detect(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && text.contains("\"results\"")
        && text.contains("\"command\"")
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let export: Export = input.json("hyperfine")?;
    let mut parsed =
        Parsed { tool: export.opcost.map(|_| "opcost".to_string()), ..Parsed::default() };
    for outcome in &export.results {
        let command = &outcome.command;
        let n = Some(outcome.times.len() as u64).filter(|n| *n > 0);
        let mut add = |series: Series| parsed.series.push(series.of(command));
        if let Some(mean) = outcome.mean.filter(|_| n.is_none()) {
            add(Series::new("wall", "s", Data::Mean { mean, sd: outcome.stddev, n }));
        } else if n.is_some() {
            add(Series::new("wall", "s", Data::runs(outcome.times.clone())));
        }
        for (metric, mean) in [("user-time", outcome.user), ("system-time", outcome.system)] {
            if let Some(mean) = mean {
                add(Series::new(metric, "s", Data::Mean { mean, sd: None, n }));
            }
        }
        if !outcome.memory_usage_byte.is_empty() {
            add(Series::new("peak-rss", "B", Data::runs(outcome.memory_usage_byte.clone())));
        }
        let failed = outcome.exit_codes.iter().filter(|code| **code != Some(0)).count();
        if failed > 0 {
            let runs = outcome.exit_codes.len();
            parsed.omitted.push(Omission::new(
                format!("{failed} of {runs} exit statuses of '{command}'"),
                "they were not 0; whether these runs count is for you to judge",
            ));
        }
    }
    if export.results.is_empty() {
        return Err(Problem::whole(ProblemKind::NoFigures("; 'results' is empty".into())));
    }
    Ok(parsed)
}
