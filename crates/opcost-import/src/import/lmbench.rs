//! The output of lmbench's programs: `Simple read: 0.1234 microseconds`, one figure a line.

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, number};
use opcost_model::plan::Omission;

/// Name, figure and unit of a line.
fn fields(line: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = line.rsplit_once(':')?;
    let mut words = rest.split_whitespace();
    let (figure, unit) = (words.next()?, words.next()?);
    let units = ["microseconds", "nanoseconds", "milliseconds", "MB/sec", "KB/sec"];
    let is_figure = figure.starts_with(|c: char| c.is_ascii_digit()) || figure.contains("nan");
    (is_figure && units.contains(&unit) && words.next().is_none()).then_some((
        name.trim(),
        figure,
        unit,
    ))
}

pub(super) fn detect(text: &str) -> bool {
    text.lines().any(|line| fields(line).is_some())
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let mut parsed = Parsed::default();
    let mut unnamed = 0;
    for (index, line) in input.text.lines().enumerate() {
        input.take_line(line)?;
        if let Some((name, figure, unit)) = fields(line) {
            let figure = number(name, figure, index + 1)?;
            let series = Series::new(name, unit, Data::run(figure)).at(index + 1);
            parsed.series.push(if unit.ends_with("/sec") { series.higher() } else { series });
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            unnamed += 1;
        }
    }
    if unnamed > 0 {
        let what = format!("{unnamed} lines of figures");
        parsed.omitted.push(Omission::new(what, "they have no name"));
    }
    Ok(parsed)
}
