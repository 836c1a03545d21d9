//! A published table as TOML: figures by metric and variant, with the claims about them.

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, ProblemKind};
use opcost_model::plan::{Claim, Formula};
use opcost_record::Better;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    experiment: Option<String>,
    question: Option<String>,
    /// Author and setup of the measurement.
    source: Option<String>,
    date: Option<String>,
    primary: Option<String>,
    threads: Option<u32>,
    variants: Vec<String>,
    row: Vec<Row>,
}

/// One metric; each array has an entry for each variant.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    metric: String,
    #[serde(default)]
    unit: String,
    better: Option<Better>,
    /// Single runs.
    #[serde(default)]
    values: Vec<Vec<f64>>,
    #[serde(default)]
    mean: Vec<f64>,
    #[serde(default)]
    sd: Vec<f64>,
    /// Number of runs of each mean.
    #[serde(default)]
    n: Vec<u64>,
    /// Published changes from the first variant, in percent, one for each later variant; an empty text for none.
    #[serde(default)]
    change: Vec<String>,
    /// The formula by which the row follows from others.
    formula: Option<FormulaText>,
}

/// `factor · over… / under…`, in the units as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FormulaText {
    #[serde(default = "one")]
    factor: f64,
    over: Vec<String>,
    #[serde(default)]
    under: Vec<String>,
}

fn one() -> f64 {
    1.0
}

/// The memory that a byte of TOML may take: `[[a]]` makes a table.
const VALUES_BYTES: u64 = 128;

pub(super) fn detect(text: &str) -> bool {
    let begins = |begin: &str| text.lines().any(|line| line.trim_start().starts_with(begin));
    begins("[[row]]") && begins("variants")
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    // The parser takes the text as a whole, and makes many values of it.
    input.budget.room(input.text.len() as u64 * VALUES_BYTES)?;
    let file: File = toml::from_str(input.text).map_err(|error| {
        let line = error.span().map(|span| input.text[..span.start].lines().count().max(1));
        let why = error.message().to_string();
        Problem { line, kind: ProblemKind::Foreign { format: "a published table", why } }
    })?;
    let mut parsed = Parsed {
        tool: file.source,
        date: file.date,
        experiment: file.experiment,
        question: file.question,
        primary: file.primary,
        threads: file.threads,
        ..Parsed::default()
    };
    for row in &file.row {
        add_figures(&mut parsed, &file.variants, row)?;
        for (variant, change) in file.variants.iter().skip(1).zip(&row.change) {
            parsed.claims.extend(claim(&row.metric, variant, change)?);
        }
        if let Some(FormulaText { factor, over, under }) = &row.formula {
            let (over, under) = (over.clone(), under.clone());
            parsed.formulas.push(Formula {
                metric: row.metric.clone(),
                factor: *factor,
                over,
                under,
            });
        }
    }
    Ok(parsed)
}

fn add_figures(parsed: &mut Parsed, variants: &[String], row: &Row) -> Result<(), Problem> {
    let lengths =
        [row.values.len(), row.mean.len(), row.sd.len(), row.n.len(), row.change.len() + 1];
    if lengths.iter().any(|length| *length > variants.len()) {
        let why = format!("{} has more entries than there are variants", row.metric);
        return Err(Problem::whole(ProblemKind::Senseless(why)));
    }
    for (index, variant) in variants.iter().enumerate() {
        let data = match (row.values.get(index), row.mean.get(index)) {
            (Some(values), None) if !values.is_empty() => Data::runs(values.clone()),
            (Some(_), Some(_)) => {
                let why = format!("{} has both runs and means", row.metric);
                return Err(Problem::whole(ProblemKind::Senseless(why)));
            }
            (_, Some(mean)) => Data::Mean {
                mean: *mean,
                sd: row.sd.get(index).copied(),
                n: row.n.get(index).copied(),
            },
            _ => continue,
        };
        let series = Series::new(&row.metric, &row.unit, data);
        parsed.series.push(Series { variant: Some(variant.clone()), better: row.better, ..series });
    }
    Ok(())
}

/// A change as published, such as `+3.74`, with the weight of its last digit.
fn claim(metric: &str, variant: &str, text: &str) -> Result<Option<Claim>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let no_number = || {
        let what = format!("the published change of {metric}");
        Problem::whole(ProblemKind::NoNumber { what, text: text.to_string() })
    };
    let percent: f64 = text.parse().map_err(|_| no_number())?;
    if !percent.is_finite() {
        return Err(no_number());
    }
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let (metric, variant) = (metric.to_string(), variant.to_string());
    Ok(Some(Claim { metric, variant, percent, decimals }))
}
