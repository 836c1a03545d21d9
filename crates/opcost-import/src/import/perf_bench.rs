//! The output of `perf bench`: a heading for each benchmark, then its figures (tools/perf/bench): times of one operation, rates of
//! copies, or else the total time.

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, number};

pub(super) fn detect(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("# Running '"))
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let mut parsed = Parsed::default();
    let mut benchmark = String::new();
    let mut case = String::new();
    // The total is used only if there is no time of one operation, which has more digits.
    let mut total: Option<Series> = None;
    for (index, line) in input.text.lines().enumerate() {
        input.take_line(line)?;
        let at = index + 1;
        if let Some(name) = quoted(line, "# Running '") {
            parsed.series.extend(total.take());
            benchmark = name.to_string();
            case = benchmark.clone();
        } else if let Some(function) = quoted(line, "# function '") {
            case = format!("{benchmark} {function}");
        }
        if case.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Total", "time:", time, "[sec]"] => {
                let value = number("the total time", time, at)?;
                total = Some(Series::new("wall", "s", Data::run(value)).of(&case).at(at));
            }
            [figure, unit] if unit.ends_with("secs/op") => {
                let value = number("the time of one operation", figure, at)?;
                let unit = unit.trim_end_matches("/op");
                parsed
                    .series
                    .push(Series::new("wall", unit, Data::run(value)).of(&case).per_op().at(at));
                total = None;
            }
            [figure, unit] if unit.ends_with("B/sec") => {
                let value = number("the throughput", figure, at)?;
                let series = Series::new("throughput", unit, Data::run(value)).of(&case);
                parsed.series.push(series.higher().at(at));
            }
            _ => {}
        }
    }
    parsed.series.extend(total);
    Ok(parsed)
}

/// The text between the given beginning of a line and the next quotation mark.
fn quoted<'a>(line: &'a str, begin: &str) -> Option<&'a str> {
    line.strip_prefix(begin)?.split('\'').next()
}
