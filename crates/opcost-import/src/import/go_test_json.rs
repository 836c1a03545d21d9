//! `go test -json -bench`: Go's benchmark lines, cut into events of one or several packages (`go doc test2json`).

use super::benchfmt;
use super::parsed::{Input, Parsed, Series};
use super::problem::Problem;
use opcost_model::plan::Omission;
use serde::Deserialize;
use std::collections::BTreeMap;

/// One event.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    #[serde(default)]
    package: String,
    test: Option<String>,
    output: Option<String>,
}

pub(super) fn detect(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.starts_with('{') && first.contains("\"Action\":") && text.contains("\"Output\":")
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let mut parsed = Parsed { tool: Some("go test".into()), ..Parsed::default() };
    // Packages run at the same time, and a line may come in several events.
    let mut open: BTreeMap<String, String> = BTreeMap::new();
    let mut found: Vec<(String, Series)> = Vec::new();
    for (index, line) in input.text.lines().enumerate() {
        input.take_line(line)?;
        let at = index + 1;
        if line.trim().is_empty() {
            continue;
        }
        let event: Event = serde_json::from_str(line)
            .map_err(|error| Problem { line: Some(at), ..Problem::json("go test -json", error) })?;
        let Event { action, package, test, output } = event;
        if action == "fail" {
            let what = test.unwrap_or_else(|| format!("package {package}"));
            parsed.omitted.push(Omission::new(what, "it failed"));
        }
        let Some(output) = output.filter(|_| action == "output") else { continue };
        let text = open.entry(package.clone()).or_default();
        text.push_str(&output);
        let Some(end) = text.rfind('\n') else { continue };
        let rest = text.split_off(end + 1);
        for line in std::mem::replace(text, rest).lines() {
            let series = benchfmt::line(&mut parsed, line, at)?;
            found.extend(series.into_iter().map(|series| (package.clone(), series)));
        }
    }
    let several = found.windows(2).any(|pair| pair[0].0 != pair[1].0);
    parsed.series.extend(found.into_iter().map(|(package, series)| match &series.case {
        Some(case) if several => {
            let case = format!("{package}.{case}");
            series.of(&case)
        }
        _ => series,
    }));
    Ok(parsed)
}
