//! Go benchmark lines (<https://go.dev/design/14313-benchmark-format>).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, ProblemKind, number};

pub(super) fn detect(text: &str) -> bool {
    text.lines().any(|line| fields(line).is_some())
}

/// The most words of values and units on a line.
const WORDS_MAX: usize = 1024;

/// Name, iterations, and the words of the value and unit pairs of a result line.
fn fields(line: &str) -> Option<(&str, &str, Vec<&str>)> {
    let mut words = line.split_whitespace();
    let name = words.next()?.strip_prefix("Benchmark")?;
    if name.chars().next().is_some_and(char::is_lowercase) {
        return None;
    }
    let iterations = words.next().filter(|word| word.parse::<u64>().is_ok())?;
    Some((name, iterations, words.take(WORDS_MAX).collect()))
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let mut parsed = Parsed { tool: Some("Go benchmark format".into()), ..Parsed::default() };
    for (index, line) in input.text.lines().enumerate() {
        input.take_line(line)?;
        let series = self::line(&mut parsed, line, index + 1)?;
        parsed.series.extend(series);
    }
    Ok(parsed)
}

/// Reads one line: the figures of a benchmark, or a fact about the machine.
pub(super) fn line(parsed: &mut Parsed, line: &str, at: usize) -> Result<Vec<Series>, Problem> {
    let Some((name, _, pairs)) = fields(line) else {
        match line.split_once(": ") {
            Some(("cpu", cpu)) => parsed.cpu = Some(cpu.trim().to_string()),
            Some(("kernel", kernel)) => parsed.kernel = Some(kernel.trim().to_string()),
            _ => {}
        }
        return Ok(Vec::new());
    };
    let (case, variant) = split_name(name);
    if pairs.is_empty() || pairs.len() % 2 == 1 {
        let what = format!("the result of '{name}' ends in the middle of a value and its unit");
        return Err(Problem::at(at, ProblemKind::Truncated(what)));
    }
    let figure = |pair: &[&str]| {
        let value = number(&format!("the figure in {}", pair[1]), pair[0], at)?;
        let series = series(pair[1], value).at(at).of(&case);
        Ok(Series { variant: variant.clone(), ..series })
    };
    pairs.chunks_exact(2).map(figure).collect()
}

/// Splits a name into the benchmark, without the number of processors at its end, and the variant of its part `variant=…`.
fn split_name(name: &str) -> (String, Option<String>) {
    let numbered = name
        .rsplit_once('-')
        .filter(|(_, end)| !end.is_empty() && end.chars().all(|c| c.is_ascii_digit()));
    let name = numbered.map_or(name, |(begin, _)| begin);
    let (variants, case): (Vec<&str>, Vec<&str>) =
        name.split('/').partition(|part| part.starts_with("variant="));
    (case.join("/"), variants.first().map(|part| part["variant=".len()..].to_string()))
}

/// One figure; its unit says which metric it is.
fn series(unit: &str, value: f64) -> Series {
    let data = Data::run(value);
    match unit {
        "ns/op" => Series::new("wall", "ns", data).per_op(),
        "B/op" => Series::new("allocated", "B", data).per_op(),
        "allocs/op" => Series::new("allocations", "", data).per_op(),
        // opcost writes the metric, followed by its unit if it has one.
        _ => match unit.strip_suffix("/op") {
            Some(metric) => {
                // Files written before November 2026 have nanoseconds.
                let time = [("-sec", "s"), ("-ns", "ns")].into_iter().find_map(|(mark, unit)| {
                    let (name, domain) = metric.rsplit_once(mark)?;
                    let ends = domain.is_empty() || domain.starts_with(':');
                    ends.then(|| (format!("{name}{domain}"), unit))
                });
                match time {
                    Some((name, unit)) => Series::new(&name, unit, data).per_op(),
                    None => Series::new(metric, "", data).per_op(),
                }
            }
            None => match unit.strip_suffix("-bytes") {
                Some(metric) => Series::new(metric, "B", data),
                None if unit == "MB/s" => Series::new("throughput", unit, data).higher(),
                None => Series::new(unit, "", data),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_processors_and_variant() {
        let name = |name| split_name(name);
        assert_eq!(name("Sort/n=10-8"), ("Sort/n=10".into(), None));
        assert_eq!(name("Made/variant=off"), ("Made".into(), Some("off".into())));
        assert_eq!(name("Copy-fast"), ("Copy-fast".into(), None));
    }

    #[test]
    fn units_name_metrics() {
        let metric = |unit| {
            let series = series(unit, 1.0);
            (series.metric, series.unit, series.per_op)
        };
        assert_eq!(metric("ns/op"), ("wall".into(), "ns".into(), true));
        assert_eq!(metric("task-clock-ns:u/op"), ("task-clock:u".into(), "ns".into(), true));
        assert_eq!(metric("task-clock-sec:u/op"), ("task-clock:u".into(), "s".into(), true));
        assert_eq!(metric("user-time-sec/op"), ("user-time".into(), "s".into(), true));
        assert_eq!(metric("peak-rss-bytes"), ("peak-rss".into(), "B".into(), false));
        assert_eq!(metric("instructions:k/op"), ("instructions:k".into(), "".into(), true));
        assert_eq!(metric("MB/s"), ("throughput".into(), "MB/s".into(), false));
    }
}
