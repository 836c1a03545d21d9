//! `hyperfine --export-csv`: each command's mean and deviation in seconds, without the number of runs.

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, number};
use super::samples::CsvTable;
use opcost_model::plan::Omission;

/// The columns before those of parameters.
const COLUMNS: &[&str] = &["command", "mean", "stddev", "median", "user", "system", "min", "max"];

pub(super) fn detect(text: &str) -> bool {
    text.starts_with("command,mean,stddev,median,user,system,min,max")
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let table = CsvTable::read(input, "hyperfine's CSV", COLUMNS, &["parameter_*"])?;
    let mut parsed = Parsed::default();
    for (line, row) in table.rows() {
        let command = row.need("command", line)?;
        let figure = |column: &str| {
            row.get(column)
                .map(|text| number(&format!("{column} of {command}"), text, line))
                .transpose()
        };
        let mut add = |metric: &str, mean: Option<f64>, sd: Option<f64>| {
            let Some(mean) = mean else { return };
            let data = Data::Mean { mean, sd, n: None };
            parsed.series.push(Series::new(metric, "s", data).of(command).at(line));
        };
        add("wall", figure("mean")?, figure("stddev")?);
        add("user-time", figure("user")?, None);
        add("system-time", figure("system")?, None);
    }
    let why = "hyperfine's CSV has neither them nor their number; --export-json writes both";
    parsed.omitted.push(Omission::new("the times of single runs", why));
    Ok(parsed)
}
