//! `perf stat -x SEPARATOR`: value, unit, event, the error of the mean if `-r` was given, time, share of the time (perf-stat(1),
//! CSV FORMAT).

use super::parsed::{Input, Parsed};
use super::perf_stat_json::add;
use super::problem::{Problem, ProblemKind, number};

const SEPARATORS: [char; 4] = [',', ';', '\t', '|'];

/// The separator of a line of perf's: a figure, a unit, an event, …, the share of the time.
fn separator(line: &str) -> Option<char> {
    let is_figure = |text: &str| text.parse::<f64>().is_ok() || text.starts_with("<not ");
    SEPARATORS.into_iter().find(|separator| {
        let fields: Vec<&str> = line.split(*separator).take(5).collect();
        fields.len() >= 5
            && is_figure(fields[0])
            && fields[1].parse::<f64>().is_err()
            && fields[2].starts_with(|c: char| c.is_ascii_alphabetic())
    })
}

pub(super) fn detect(text: &str) -> bool {
    text.lines().any(|line| separator(line).is_some())
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let mut parsed = Parsed { tool: Some("perf stat".into()), ..Parsed::default() };
    for (index, line) in input.text.lines().enumerate() {
        input.take_line(line)?;
        let at = index + 1;
        if let Some(date) = line.strip_prefix("# started on ") {
            parsed.date = Some(date.to_string());
        }
        // Figures that perf derives from the line above are on lines without a value.
        let derived = SEPARATORS.iter().any(|separator| line.starts_with(*separator));
        if line.trim().is_empty() || line.starts_with('#') || derived {
            continue;
        }
        let Some(separator) = separator(line) else {
            let why = format!("'{line}' is not value, unit, event, time, share");
            let kind = ProblemKind::Foreign { format: "perf stat -x", why };
            return Err(Problem::at(at, kind));
        };
        let fields: Vec<&str> = line.split(separator).collect();
        let error = fields[3].strip_suffix('%');
        let share = fields.get(if error.is_some() { 5 } else { 4 });
        let Some(share) = share.filter(|share| !share.is_empty()) else {
            let why = "a line without the share of the time".to_string();
            return Err(Problem::at(at, ProblemKind::Truncated(why)));
        };
        let error = error.map(|error| number("the error of the mean", error, at)).transpose()?;
        let share = number("the share of the time", share, at)?;
        add(&mut parsed, fields[2], fields[1], fields[0], error, share, at)?;
    }
    Ok(parsed)
}
