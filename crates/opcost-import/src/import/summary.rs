//! A summary table as CSV, one mean in each row: `variant,metric,mean[,sd][,n][,unit]`.

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, ProblemKind, number};
use super::samples::{CsvTable, has_columns};

pub(super) fn detect(text: &str) -> bool {
    has_columns(text, &["variant", "metric", "mean"])
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let must = ["variant", "metric", "mean"];
    let table = CsvTable::read(input, "a summary table", &must, &["sd", "n", "unit"])?;
    let mut parsed = Parsed::default();
    for (line, fields) in table.rows() {
        let metric = fields.need("metric", line)?;
        let mean = number(metric, fields.need("mean", line)?, line)?;
        let sd =
            fields.get("sd").map(|sd| number("the standard deviation", sd, line)).transpose()?;
        let n = fields.get("n").map(|n| runs(n, line)).transpose()?;
        let unit = fields.get("unit").unwrap_or_default();
        let series = Series::new(metric, unit, Data::Mean { mean, sd, n }).at(line);
        let variant = Some(fields.need("variant", line)?.to_string());
        parsed.series.push(Series { variant, ..series });
    }
    Ok(parsed)
}

/// A number of runs, 1 or more.
fn runs(text: &str, line: usize) -> Result<u64, Problem> {
    text.parse().ok().filter(|runs| *runs > 0).ok_or_else(|| {
        let (what, text) = ("the number of runs".into(), text.into());
        Problem::at(line, ProblemKind::NoNumber { what, text })
    })
}
