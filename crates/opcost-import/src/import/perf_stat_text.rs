//! What `perf stat` prints: totals of one or several runs (`-r`), and counts in intervals (`-I`)
//! (tools/perf/util/stat-display.c).

use super::parsed::{Data, Input, Parsed, Series};
use super::perf_stat_json::add;
use super::problem::{Problem, number};
use opcost_model::plan::Omission;
use std::collections::HashMap;

const HEADING: &str = "Performance counter stats for ";

pub(super) fn detect(text: &str) -> bool {
    let is_interval_head = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.starts_with(&["#", "time", "counts"])
    };
    text.lines().any(|line| line.trim_start().starts_with(HEADING) || is_interval_head(line))
}

/// An event's line.
struct Count<'l> {
    value: String,
    unit: &'l str,
    event: &'l str,
    error_percent: Option<f64>,
    running_percent: f64,
}

/// Returns a figure without the separators of thousands, and with a point before the decimals, of which perf prints two or none. The
/// user's language decides between point, comma, apostrophe and narrow blanks.
fn plain(figure: &str) -> Option<String> {
    let is_separator = |one: char| ".,'’\u{202f}\u{a0}".contains(one);
    let last = figure.rfind(is_separator);
    let digits_behind = last.map(|at| figure[at..].chars().count() - 1);
    let decimals_at = last.filter(|_| digits_behind != Some(3));
    let kept =
        figure.char_indices().filter(|(at, one)| decimals_at == Some(*at) || !is_separator(*one));
    let plain: String = kept.map(|(_, one)| if is_separator(one) { '.' } else { one }).collect();
    plain.parse::<f64>().ok().map(|_| plain)
}

/// Reads a line without its time: value, unit, event, `# …`, `( +- 1.2% )`, `(66.7%)`; `None` for other lines.
fn count(line: &str) -> Option<Count<'_>> {
    let (figures, rest) = line.split_once('#').unwrap_or((line, ""));
    let figures = figures.split(" (").next()?.trim();
    let (value, figures) = match figures.strip_prefix('<') {
        Some(missing) => {
            let (why, rest) = missing.split_once('>')?;
            (format!("<{why}>"), rest)
        }
        None => {
            let (value, rest) = figures.split_once(char::is_whitespace)?;
            let value = plain(value)?;
            (value, rest)
        }
    };
    let words: Vec<&str> = figures.split_whitespace().collect();
    let (unit, event) = match words.as_slice() {
        [event] => ("", *event),
        [unit, event] => (*unit, *event),
        _ => return None,
    };
    let behind = if rest.is_empty() { line } else { rest };
    let percent = |text: &str| text.trim().strip_suffix('%')?.trim().replace(',', ".").parse().ok();
    let in_brackets = behind.split('(').skip(1).filter_map(|part| part.split(')').next());
    let (mut error_percent, mut running_percent) = (None, 100.0);
    for part in in_brackets {
        match part.trim().strip_prefix("+-") {
            Some(error) => error_percent = percent(error),
            None => running_percent = percent(part).unwrap_or(running_percent),
        }
    }
    Some(Count { value, unit, event, error_percent, running_percent })
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let mut parsed = Parsed { tool: Some("perf stat".into()), ..Parsed::default() };
    let mut case: Option<String> = None;
    let mut runs: Option<u64> = None;
    let mut intervals = Intervals::default();
    for (at, line) in input.whole_lines(&mut parsed)? {
        if let Some(date) = line.strip_prefix("# started on ") {
            parsed.date = Some(date.to_string());
            continue;
        }
        if let Some(of) = line.trim_start().strip_prefix(HEADING) {
            let quoted = of.split_once('\'').and_then(|(_, rest)| rest.rsplit_once('\''));
            case = quoted.map(|(command, _)| command.to_owned());
            let behind = quoted.map_or(of, |(_, behind)| behind);
            let words = behind.split(['(', ' ']).filter_map(|word| word.parse().ok());
            runs = { words }.next();
            continue;
        }
        if line.trim_start().starts_with('#') {
            continue;
        }
        let first = parsed.series.len();
        if let Some(series) = elapsed(line, at)? {
            parsed.series.push(series);
        } else if let Some((time, counted)) = interval(line) {
            intervals.take(time, &counted, at)?;
        } else if let Some(one) = count(line) {
            let Count { value, unit, event, error_percent, running_percent } = &one;
            add(&mut parsed, event, unit, value, *error_percent, *running_percent, at)?;
        }
        for series in &mut parsed.series[first..] {
            series.case.clone_from(&case);
            // The number of runs makes a deviation of the mean's error.
            if let (Data::Error { mean, error }, Some(n)) = (&series.data, runs) {
                let (mean, sd) = (*mean, *error * (n as f64).sqrt());
                series.data = Data::Mean { mean, sd: Some(sd), n: Some(n) };
            }
        }
    }
    intervals.finish(&mut parsed);
    Ok(parsed)
}

/// Reads `0.35 seconds time elapsed`, also `0.35 +- 0.01 seconds time elapsed  ( +- 2.86% )`.
fn elapsed(line: &str, at: usize) -> Result<Option<Series>, Problem> {
    let Some((figures, what)) = line.split_once(" seconds ") else { return Ok(None) };
    let metric = match what.split("  ").next().unwrap_or_default().trim() {
        "time elapsed" => "wall",
        "user" => "user-time",
        "sys" => "system-time",
        _ => return Ok(None),
    };
    let data = match figures.split_once("+-") {
        None => Data::run(number(metric, &figures.replace(',', "."), at)?),
        Some((mean, error)) => Data::Error {
            mean: number(metric, &mean.replace(',', "."), at)?,
            error: number("the error of the mean", &error.replace(',', "."), at)?,
        },
    };
    Ok(Some(Series::new(metric, "s", data).at(at)))
}

/// Reads an interval's line: the time of its end, then as [`count`].
fn interval(line: &str) -> Option<(f64, Count<'_>)> {
    let (time, rest) = line.trim_start().split_once(char::is_whitespace)?;
    // A total's line begins with a figure as well, but no second one follows.
    let next = rest.trim_start();
    let is_figure = next.starts_with('<') || next.starts_with(|one: char| one.is_ascii_digit());
    let time = time.replace(',', ".").parse::<f64>().ok().filter(|_| is_figure)?;
    Some((time, count(rest)?))
}

/// The counts of an event in intervals.
struct Rate {
    event: String,
    unit: String,
    /// The length and the count of each interval that counted it.
    counts: Vec<(f64, f64)>,
}

/// The counts of intervals. Intervals differ in length, so their figures are rates.
#[derive(Default)]
struct Intervals {
    /// The ends of the interval before and of this one.
    ends: (f64, f64),
    /// The events, in the file's order, and the place of each.
    events: Vec<Rate>,
    places: HashMap<String, usize>,
    uncounted: usize,
}

impl Intervals {
    fn take(&mut self, time: f64, one: &Count<'_>, at: usize) -> Result<(), Problem> {
        if time != self.ends.1 {
            self.ends = (self.ends.1, time);
        }
        if one.value.starts_with('<') || one.running_percent < 100.0 {
            self.uncounted += 1;
            return Ok(());
        }
        let value = number(one.event, &one.value, at)?;
        let at = *self.places.entry(one.event.to_owned()).or_insert_with(|| {
            let (event, unit) = (one.event.to_owned(), one.unit.to_owned());
            self.events.push(Rate { event, unit, counts: Vec::new() });
            self.events.len() - 1
        });
        self.events[at].counts.push((self.ends.1 - self.ends.0, value));
        Ok(())
    }

    fn finish(self, parsed: &mut Parsed) {
        for Rate { event, unit, counts } in &self.events {
            let mut lengths: Vec<f64> = counts.iter().map(|(length, _)| *length).collect();
            lengths.sort_by(f64::total_cmp);
            let usual = lengths.get(lengths.len() / 2).copied().unwrap_or_default();
            // The last interval ends with the command.
            let whole = counts.iter().filter(|(length, _)| *length > 0.0 && *length >= usual / 2.0);
            let rates: Vec<f64> = whole.map(|(length, value)| value / length).collect();
            if rates.len() < counts.len() {
                let what = format!("{} intervals of {event}", counts.len() - rates.len());
                parsed
                    .omitted
                    .push(Omission::new(what, "they are shorter than half of the others"));
            }
            let unit = format!("{}/s", if unit.is_empty() { "1" } else { unit });
            if !rates.is_empty() {
                parsed.series.push(Series::new(&format!("{event} rate"), &unit, Data::runs(rates)));
            }
        }
        if self.uncounted > 0 {
            let what = format!("{} counts of intervals", self.uncounted);
            let why = "not counted, not supported or multiplexed there";
            parsed.omitted.push(Omission::new(what, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_in_any_language() {
        for (figure, expected) in [
            ("1,234,567", Some("1234567")),
            ("1.234.567", Some("1234567")),
            ("1\u{202f}234\u{202f}567", Some("1234567")),
            ("1’234", Some("1234")),
            ("20.83", Some("20.83")),
            ("20,83", Some("20.83")),
            ("1.234,50", Some("1234.50")),
            ("1,234.50", Some("1234.50")),
            ("0", Some("0")),
            ("x", None),
            (",", None),
        ] {
            assert_eq!(plain(figure).as_deref(), expected, "{figure}");
        }
        let line =
            "   1.234,56 msec task-clock   #    0,46 CPUs utilized   ( +-  2,75% )  (66,60%)";
        let one = count(line).unwrap();
        assert_eq!((one.value.as_str(), one.unit, one.event), ("1234.56", "msec", "task-clock"));
        assert_eq!((one.error_percent, one.running_percent), (Some(2.75), 66.6));
        let wall =
            elapsed("   0,35 +- 0,01 seconds time elapsed  ( +- 2,86% )", 1).unwrap().unwrap();
        assert_eq!(wall.data, Data::Error { mean: 0.35, error: 0.01 });
        assert!(count("some text").is_none() && count("12 of 3 things here").is_none());
        let (time, one) = interval("  0,2 <not counted> msec task-clock").unwrap();
        assert_eq!((time, one.value.as_str()), (0.2, "<not counted>"));
        assert!(interval("  12 faults").is_none());
    }
}
