//! Limits that make a comparison fail (`--fail-on`): a change for the worse that is real and exceeds the limit.

use super::{Change, Comparison, FunctionRow, FunctionVerdict, Row, Verdict};
use opcost_base::number::{figure, magnitude, percent};
use opcost_record::{Better, Unit};
use std::fmt;
use std::str::FromStr;

/// A watched metric, or all functions, with the limit of its change.
#[derive(Clone, Debug, PartialEq)]
pub struct FailOn {
    /// The watched metric or functions.
    pub what: Watched,
    /// The largest change allowed; `None` allows no change for the worse.
    pub limit: Option<Limit>,
}

/// The object of a limit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Watched {
    /// The primary metric.
    Primary,
    /// The metric of this name.
    Metric(String),
    /// Every function of the profiles.
    Functions,
}

/// The largest change allowed. If both parts are given, a change within either part is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// As a share of the baseline; for functions, of the whole metric's baseline.
    pub ratio: Option<f64>,
    /// As a figure in the table's unit, per operation if the row is.
    pub absolute: Option<Absolute>,
}

/// A figure with the unit in which it was given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Absolute {
    /// The figure: nanoseconds, bytes, or a count.
    pub value: f64,
    /// The kind of the unit; `None` for a plain number.
    pub unit: Option<Unit>,
}

/// The units of a limit, each with its factor and kind.
const UNITS: [(&str, f64, Unit); 8] = [
    ("ns", 1.0, Unit::Ns),
    ("us", 1e3, Unit::Ns),
    ("µs", 1e3, Unit::Ns),
    ("ms", 1e6, Unit::Ns),
    ("KiB", 1024.0, Unit::Bytes),
    ("MiB", 1_048_576.0, Unit::Bytes),
    ("s", 1e9, Unit::Ns),
    ("B", 1.0, Unit::Bytes),
];

impl FromStr for FailOn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (what, limit) = match text.split_once('=') {
            Some((what, limit)) => (what, Some(limit.parse()?)),
            None => (text, None),
        };
        let what = match what {
            "regression" => Watched::Primary,
            "functions" => Watched::Functions,
            "" => return Err("say regression, functions or a metric, for example wall=1%".into()),
            metric => Watched::Metric(metric.to_string()),
        };
        Ok(FailOn { what, limit })
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut limit = Limit { ratio: None, absolute: None };
        for part in text.split(" or ") {
            let part = part.trim();
            let why = || {
                format!("'{part}' is no limit; write for example 0.5%, 10000, 2ms or '0.5% or 2ms'")
            };
            let number = |text: &str| -> Result<f64, String> {
                let number: f64 = text.trim().parse().map_err(|_| why())?;
                if number.is_finite() && number >= 0.0 { Ok(number) } else { Err(why()) }
            };
            let twice = || format!("'{text}' has two limits of one kind; keep one");
            if let Some(share) = part.strip_suffix('%') {
                if limit.ratio.replace(number(share)? / 100.0).is_some() {
                    return Err(twice());
                }
                continue;
            }
            let unit = UNITS.iter().find(|(name, ..)| part.ends_with(name));
            let absolute = match unit {
                Some((name, one, unit)) => Absolute {
                    value: number(&part[..part.len() - name.len()])? * one,
                    unit: Some(*unit),
                },
                None => Absolute { value: number(part)?, unit: None },
            };
            if limit.absolute.replace(absolute).is_some() {
                return Err(twice());
            }
        }
        Ok(limit)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.absolute.and_then(|absolute| absolute.unit);
        f.write_str(&self.describe(unit.unwrap_or(Unit::Count)))
    }
}

impl fmt::Display for FailOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Watched::Primary => f.write_str("regression"),
            Watched::Metric(metric) => f.write_str(metric),
            Watched::Functions => f.write_str("functions"),
        }
    }
}

impl Limit {
    /// Whether a change for the worse exceeds the limit; `ratio`: the change as a share, infinite over a baseline of 0; `size`: the
    /// change as a figure.
    pub fn is_exceeded(&self, ratio: f64, size: f64) -> bool {
        let relative = self.ratio.is_none_or(|limit| ratio > limit);
        let absolute = self.absolute.is_none_or(|limit| size > limit.value);
        relative && absolute
    }

    fn describe(&self, unit: Unit) -> String {
        let parts =
            [self.ratio.map(magnitude), self.absolute.map(|absolute| figure(absolute.value, unit))];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" or ")
    }
}

/// Why a limit cannot be applied to a comparison.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LimitError {
    /// The comparison has no such metric.
    #[error("--fail-on {metric}: there is no such metric; give regression, functions, or one of {}", known.join(", "))]
    NoMetric {
        /// The name.
        metric: String,
        /// The metrics of the comparison.
        known: Vec<String>,
    },
    /// The limit's kind of unit is not that of the figures.
    #[error("--fail-on {metric}: its figures are {is}, and the limit is {limit}")]
    OtherUnit {
        /// The metric.
        metric: String,
        /// The kind of the metric's figures.
        is: &'static str,
        /// The kind of the limit.
        limit: &'static str,
    },
    /// The comparison has no functions.
    #[error(
        "--fail-on functions: no run has a profile; add --profile, or use --machine emulated without --no-functions"
    )]
    NoFunctions,
}

/// The result of applying limits to a comparison.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Exceeded {
    /// Changes for the worse that exceed their limits and are real, or exact in few layouts, in words.
    pub exceeded: Vec<String>,
    /// Changes that could not be judged, in words.
    pub undecided: Vec<String>,
}

/// Applies limits to a comparison.
///
/// # Errors
/// [`LimitError`]: a limit names something that the comparison does not have.
pub fn exceeded(comparison: &Comparison, limits: &[FailOn]) -> Result<Exceeded, LimitError> {
    let mut found = Exceeded::default();
    for fail_on in limits {
        match &fail_on.what {
            Watched::Primary => {
                for row in comparison.rows.iter().filter(|row| row.primary) {
                    metric(comparison, row, fail_on, &mut found)?;
                }
            }
            Watched::Metric(name) => {
                let row = comparison.rows.iter().find(|row| row.label == *name);
                let row =
                    row.or_else(|| comparison.rows.iter().find(|row| row.key.label() == *name));
                let Some(row) = row else {
                    let known = comparison.rows.iter().map(|row| row.label.clone()).collect();
                    return Err(LimitError::NoMetric { metric: name.clone(), known });
                };
                metric(comparison, row, fail_on, &mut found)?;
            }
            Watched::Functions => functions(comparison, fail_on, &mut found)?,
        }
    }
    Ok(found)
}

fn metric(
    comparison: &Comparison,
    row: &Row,
    fail_on: &FailOn,
    found: &mut Exceeded,
) -> Result<(), LimitError> {
    if let Some(unit) = fail_on.limit.and_then(|limit| limit.absolute?.unit)
        && unit != row.unit
    {
        let (is, limit) = (kind(row.unit), kind(unit));
        return Err(LimitError::OtherUnit { metric: row.label.clone(), is, limit });
    }
    for (change, names) in row.changes.iter().zip(names(comparison)) {
        match change.verdict {
            Verdict::Changed | Verdict::FewLayouts => {
                let (ratio, size) = size(row, change);
                let worse = match row.better {
                    Better::Lower => size > 0.0,
                    Better::Higher => size < 0.0,
                    // Neither direction is worse by itself; a user who watches the metric by name wants to know of both.
                    Better::Neither => fail_on.what != Watched::Primary,
                };
                let limit = fail_on.limit;
                if worse && limit.is_none() && change.verdict == Verdict::FewLayouts {
                    found.undecided.push(format!(
                        "{names}: {} cannot be judged without a limit: {}, and another layout may shift it \
                         as much; give a limit, or more pairs",
                        row.label, change.reason
                    ));
                } else if worse
                    && limit.is_none_or(|limit| limit.is_exceeded(ratio.abs(), size.abs()))
                {
                    let amount = match change.change_ratio {
                        Some(ratio) => percent(ratio),
                        None => figure(size, row.unit),
                    };
                    let beyond = limit.map_or(String::new(), |limit| {
                        format!(", more than {}", limit.describe(row.unit))
                    });
                    let layouts = match change.verdict {
                        Verdict::FewLayouts => format!(" ({})", change.reason),
                        _ => String::new(),
                    };
                    found
                        .exceeded
                        .push(format!("{names}: {} {amount}{beyond}{layouts}", row.label));
                }
            }
            Verdict::Unchanged => {}
            Verdict::Inconclusive | Verdict::NotComparable | Verdict::Unavailable => {
                let why = &change.reason;
                found.undecided.push(format!("{names}: {} cannot be judged: {why}", row.label));
            }
        }
    }
    Ok(())
}

/// A change as a share of the baseline, infinite if the baseline is 0, and as a figure.
fn size(row: &Row, change: &Change) -> (f64, f64) {
    let estimate = change.paired.as_ref().map_or(0.0, opcost_stats::Paired::estimate);
    let baseline = row.values.first().and_then(|side| side.as_ref()).map(|side| side.center());
    match (change.change_ratio, baseline) {
        (Some(ratio), Some(baseline)) => (ratio, ratio * baseline.abs()),
        (Some(ratio), None) => (ratio, ratio),
        // Without a ratio, differences are plain figures.
        (None, _) => (f64::INFINITY, estimate),
    }
}

fn functions(
    comparison: &Comparison,
    fail_on: &FailOn,
    found: &mut Exceeded,
) -> Result<(), LimitError> {
    if comparison.functions.is_empty() {
        return Err(LimitError::NoFunctions);
    }
    for functions in &comparison.functions {
        let unit = if functions.sampled.is_some() { Unit::Ns } else { Unit::Count };
        if let Some(given) = fail_on.limit.and_then(|limit| limit.absolute?.unit)
            && given != unit
        {
            let (is, limit) = (kind(unit), kind(given));
            return Err(LimitError::OtherUnit { metric: "functions".into(), is, limit });
        }
        let names = name(comparison, functions.baseline, functions.variant);
        let whole = functions.total.value_baseline;
        let judged = |row: &&FunctionRow| match row.verdict {
            FunctionVerdict::Changed => true,
            // The difference is exact in few layouts: the limit says how much of it a layout may cause.
            FunctionVerdict::FewLayouts => fail_on.limit.is_some(),
            _ => false,
        };
        for row in functions.rows.iter().filter(judged) {
            let change = row.own.change;
            let ratio = if whole > 0.0 { change / whole } else { f64::INFINITY };
            let limit = fail_on.limit;
            if change > 0.0 && limit.is_none_or(|limit| limit.is_exceeded(ratio, change)) {
                let beyond = limit
                    .map_or(String::new(), |limit| format!(", more than {}", limit.describe(unit)));
                let amount = figure(change, unit);
                let share = percent(ratio);
                let symbol = &row.symbol;
                found
                    .exceeded
                    .push(format!("{names}: {symbol} +{amount} ({share} of all){beyond}"));
            }
        }
    }
    Ok(())
}

fn kind(unit: Unit) -> &'static str {
    match unit {
        Unit::Ns => "times",
        Unit::Bytes => "bytes",
        Unit::Ticks => "ticks",
        Unit::Count => "counts",
    }
}

fn names(comparison: &Comparison) -> impl Iterator<Item = String> + '_ {
    comparison.comparisons.iter().map(|&(one, two)| name(comparison, one, two))
}

fn name(comparison: &Comparison, baseline: usize, variant: usize) -> String {
    let [baseline, variant] = [baseline, variant].map(|side| &comparison.variants[side].name);
    format!("{variant} against {baseline}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(text: &str) -> Result<Limit, String> {
        text.parse()
    }

    #[test]
    fn limits_are_relative_absolute_or_both() {
        let of = |text| {
            let limit = limit(text).unwrap();
            (limit.ratio, limit.absolute.map(|absolute| (absolute.value, absolute.unit)))
        };
        assert_eq!(of("0.5%"), (Some(0.005), None));
        assert_eq!(of("10000"), (None, Some((10_000.0, None))));
        assert_eq!(of("2 ms"), (None, Some((2e6, Some(Unit::Ns)))));
        assert_eq!(of("1s"), (None, Some((1e9, Some(Unit::Ns)))));
        assert_eq!(of("4KiB"), (None, Some((4096.0, Some(Unit::Bytes)))));
        assert_eq!(of("0.1% or 10000"), (Some(0.001), Some((10_000.0, None))));
        for text in ["", "%", "-1%", "nan", "5 parsecs", "1% or 2%", "1 or 2ms", "inf"] {
            assert!(limit(text).is_err(), "{text}");
        }
        let both = limit("1% or 50").unwrap();
        for (ratio, size, beyond) in
            [(0.02, 60.0, true), (0.02, 40.0, false), (0.005, 60.0, false), (0.01, 60.0, false)]
        {
            assert_eq!(both.is_exceeded(ratio, size), beyond, "{ratio} {size}");
        }
        assert!(both.is_exceeded(f64::INFINITY, 51.0));
    }

    #[test]
    fn what_is_watched_is_read() {
        let what = |text: &str| text.parse::<FailOn>().map(|fail_on| fail_on.what);
        assert_eq!(what("regression"), Ok(Watched::Primary));
        assert_eq!(what("regression=1%"), Ok(Watched::Primary));
        assert_eq!(what("functions=0.1%"), Ok(Watched::Functions));
        assert_eq!(what("instructions:u=0.1%"), Ok(Watched::Metric("instructions:u".into())));
        assert!(what("=1%").is_err() && what("wall=").is_err());
    }
}
