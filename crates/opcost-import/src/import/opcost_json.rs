//! opcost's own JSON (`--export-json`) of any machine: the figures of each variant, run by run.

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, ProblemKind};
use opcost_model::plan::Omission;
use opcost_record::{Better, Domain};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The version of the `opcost` block that this reader understands.
const SCHEMA: u64 = 1;

/// The version alone, as the rest may differ in another version.
#[derive(Deserialize)]
struct Versioned {
    opcost: Version,
}

#[derive(Deserialize)]
struct Version {
    schema: u64,
}

#[derive(Deserialize)]
struct Document {
    opcost: Block,
}

#[derive(Deserialize)]
struct Block {
    experiment: Option<String>,
    question: Option<String>,
    created_unix_ns: Option<u64>,
    machine: Option<Machine>,
    #[serde(default)]
    figures: Vec<Figure>,
    #[serde(default)]
    functions: Vec<IgnoredAny>,
    function_costs: Option<IgnoredAny>,
    #[serde(default)]
    ledger: Vec<Entry>,
}

#[derive(Deserialize)]
struct Machine {
    opcost_version: Option<String>,
    cpu_model: Option<String>,
    kernel_release: Option<String>,
}

/// One metric of one variant.
#[derive(Deserialize)]
struct Figure {
    metric: String,
    domain: Domain,
    unit: String,
    better: Option<Better>,
    per_op: bool,
    primary: bool,
    variant: String,
    n: Option<u64>,
    median: Option<f64>,
    mean: f64,
    sd: Option<f64>,
    #[serde(default)]
    multiplexed: u64,
    /// Every run; absent in older exports and in exports of very many runs.
    values: Option<Vec<f64>>,
}

#[derive(Deserialize)]
struct Entry {
    rule: String,
    severity: String,
    waived: bool,
}

pub(super) fn detect(text: &str) -> bool {
    let has = |name: &str| text.contains(&format!("\"{name}\""));
    text.trim_start().starts_with('{') && has("opcost") && has("schema") && has("results")
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let Versioned { opcost: Version { schema } } = input.json("opcost's JSON")?;
    if schema != SCHEMA {
        let why = format!(
            "its schema is {schema}, and this opcost reads {SCHEMA}; import it with the opcost that wrote it"
        );
        return Err(Problem::foreign("opcost's JSON", why));
    }
    let Document { opcost: block } = input.json("opcost's JSON")?;
    let machine = block.machine.unwrap_or(Machine {
        opcost_version: None,
        cpu_model: None,
        kernel_release: None,
    });
    let mut parsed = Parsed {
        tool: Some("opcost".into()),
        version: machine.opcost_version,
        date: block.created_unix_ns.and_then(date),
        cpu: machine.cpu_model,
        kernel: machine.kernel_release,
        experiment: block.experiment,
        question: block.question,
        ..Parsed::default()
    };
    if block.figures.is_empty() {
        let why = "; the export is older than 'figures' (November 2026), or no run had ended";
        return Err(Problem::whole(ProblemKind::NoFigures(why.into())));
    }
    let mut without_runs = false;
    for figure in &block.figures {
        let name = named(figure);
        if figure.multiplexed > 0 {
            let why = "multiplexed: the counter did not count all the time";
            parsed.omitted.push(Omission::new(format!("{name} of {}", figure.variant), why));
            continue;
        }
        let data = match &figure.values {
            Some(values) if !values.is_empty() => Data::runs(values.clone()),
            _ => {
                without_runs = true;
                // A median with a spread would be tested like a mean, so the spread is left out.
                match figure.median {
                    Some(median) => Data::Mean { mean: median, sd: None, n: figure.n },
                    None => Data::Mean { mean: figure.mean, sd: figure.sd, n: figure.n },
                }
            }
        };
        if figure.primary {
            parsed.primary = Some(name.clone());
        }
        let unit = match figure.unit.as_str() {
            // Ticks are a count, and the metric's name says so.
            "ticks" => "",
            unit => unit,
        };
        let series = Series::new(&name, unit, data).of(&figure.variant);
        parsed.series.push(Series { per_op: figure.per_op, better: figure.better, ..series });
    }
    let omit = |what: &str, why: &str| Omission::new(what, why);
    if without_runs {
        let why = "this export has medians only, and nothing can be tested by them";
        parsed.omitted.push(omit("the single runs", why));
    }
    if !block.functions.is_empty() || block.function_costs.is_some() {
        let why = "an import has metrics only; the JSON and the store that it was exported from have them";
        parsed.omitted.push(omit("costs by function", why));
    }
    let bad = block.ledger.iter().filter(|entry| entry.severity != "fine");
    for entry in bad {
        let waived = if entry.waived { ", waived" } else { "" };
        let what = format!("the ledger's rule {}", entry.rule);
        let why = format!("it was {}{waived} where the runs were made", severity(&entry.severity));
        parsed.omitted.push(Omission::new(what, why));
    }
    Ok(parsed)
}

fn severity(word: &str) -> &str {
    match word {
        "refuse" => "a reason to refuse the comparison",
        other => other,
    }
}

/// The metric with its domain, in writing: `instructions:k`.
fn named(figure: &Figure) -> String {
    match figure.domain {
        Domain::User => format!("{}:u", figure.metric),
        Domain::Kernel => format!("{}:k", figure.metric),
        Domain::All => figure.metric.clone(),
    }
}

/// A time in ISO 8601.
fn date(unix_ns: u64) -> Option<String> {
    let moment = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).ok()?;
    Some(moment.to_string())
}
