//! The answer in words, and figures as people read them.

use super::{Change, Comparison, Row, Severity, Verdict, alone, reconciled};
use opcost_record::Unit;

/// One sentence for each comparison: the primary metric, what the best metric of the other kind,
/// time beside counts or counts beside time, says to it, and other times that say otherwise.
pub(super) fn conclusions(comparison: &Comparison) -> Vec<String> {
    let refusals: Vec<&str> = comparison
        .ledger
        .iter()
        .filter(|entry| entry.severity == Severity::Refuse && !entry.waived)
        .map(|entry| entry.detail.as_str())
        .collect();
    if !refusals.is_empty() {
        return vec![format!("not comparable: {}", refusals.join("; "))];
    }
    let Some(row) = comparison.rows.iter().find(|row| row.primary) else {
        return vec!["no finished run has the primary metric".into()];
    };
    if comparison.comparisons.is_empty() {
        return alone::conclusion(comparison).into_iter().collect();
    }
    comparison
        .comparisons
        .iter()
        .enumerate()
        .map(|(index, (baseline, variant))| {
            let names = format!(
                "{} against {}",
                comparison.variants[*variant].name, comparison.variants[*baseline].name
            );
            let others = [
                reconciled::other_kind(comparison, row, index),
                reconciled::other_times(comparison, row, index),
            ];
            let others = others.into_iter().flatten().map(|clause| format!("; {clause}"));
            format!("{names}: {}{}", sentence(row, index), others.collect::<String>())
        })
        .collect()
}

fn sentence(row: &Row, index: usize) -> String {
    let change = &row.changes[index];
    let label = &row.label;
    let amount = change.change_ratio.map_or_else(|| "changed".into(), percent);
    match change.verdict {
        Verdict::Changed => {
            let real = match change.ci {
                Some((low, high)) => format!(
                    "{label} {amount}, {} ({} … {} at {:.4} % confidence)",
                    change.found(),
                    percent(low),
                    percent(high),
                    Trim(change.ci_level * 100.0)
                ),
                None => format!("{label} {amount}, {} and exact", change.found()),
            };
            match change.below_floor() {
                Some(floor) => {
                    format!("{real}, but layouts alone shift it by up to {}", magnitude(floor))
                }
                None => real,
            }
        }
        Verdict::Unchanged => match detectable(row, change) {
            Some(mde) if !change.identical => {
                format!("no change in {label} found; {mde} or more would have been")
            }
            _ => format!("no change in {label}: the same in every run"),
        },
        Verdict::Inconclusive => format!("{label} {amount}, inconclusive: {}", change.reason),
        Verdict::NotComparable => format!("{label} not comparable: {}", change.reason),
        Verdict::Unavailable => format!("{label} not available: {}", change.reason),
    }
}

/// The smallest change that would have been found: a percentage, or a figure where the baseline
/// is 0.
pub fn detectable(row: &Row, change: &Change) -> Option<String> {
    let ratio = change.mde_ratio.map(magnitude);
    ratio.or_else(|| change.mde_difference.map(|difference| figure(difference, row.unit)))
}

/// A number without trailing zeros.
struct Trim(f64);

impl std::fmt::Display for Trim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:.*}", f.precision().unwrap_or(2), self.0);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// A change as a signed percentage with three or more significant digits: `+10.43 %`.
pub fn percent(ratio: f64) -> String {
    let sign = if ratio < 0.0 { '−' } else { '+' };
    format!("{sign}{}", magnitude(ratio.abs()))
}

/// The size of a change as a percentage: `0.84 %`.
pub fn magnitude(ratio: f64) -> String {
    let percent = ratio.abs() * 100.0;
    let decimals = match percent {
        0.0 => 0,
        tiny if tiny < 0.0001 => return format!("{tiny:.0e} %"),
        small if small < 0.01 => 4,
        small if small < 0.1 => 3,
        small if small < 100.0 => 2,
        large if large < 1000.0 => 1,
        _ => 0,
    };
    format!("{percent:.decimals$} %")
}

/// An integer with its thousands separated: `1,000,000`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A figure with its unit, scaled for reading: `57.93 ns`, `1,957.2`, `1.431 MiB`.
pub fn figure(value: f64, unit: Unit) -> String {
    figures(&[value], unit).remove(0)
}

/// Figures of one row, all in the unit that suits the largest.
pub fn figures(values: &[f64], unit: Unit) -> Vec<String> {
    let (scale, symbol) = scale(values, unit);
    values.iter().map(|value| format!("{}{symbol}", digits(value / scale))).collect()
}

/// The unit that suits the largest of the figures: what one of it is in `unit`, and how it is
/// written behind a figure, with the space before it.
pub fn scale(values: &[f64], unit: Unit) -> (f64, &'static str) {
    const TIMES: [(f64, &str); 4] = [(1.0, " ns"), (1e3, " µs"), (1e6, " ms"), (1e9, " s")];
    const SIZES: [(f64, &str); 4] =
        [(1.0, " B"), (1024.0, " KiB"), (1_048_576.0, " MiB"), (1_073_741_824.0, " GiB")];
    let largest = values.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let scales: &[(f64, &str)] = match unit {
        Unit::Ns => &TIMES,
        Unit::Bytes => &SIZES,
        Unit::Ticks | Unit::Count => &[(1.0, "")],
    };
    *scales.iter().rev().find(|(scale, _)| largest >= *scale).unwrap_or(&scales[0])
}

/// About four significant digits; whole numbers stay whole, thousands are separated.
pub fn digits(value: f64) -> String {
    let size = value.abs();
    // A mean of equal whole numbers may miss them by what rounding does.
    let whole = size.fract() == 0.0 || (size - size.round()).abs() < 1e-9 * size;
    let decimals = match size {
        _ if whole => 0,
        s if s >= 10_000.0 => 0,
        s if s >= 1000.0 => 1,
        s if s >= 10.0 => 2,
        s if s >= 1.0 => 3,
        s if s >= 0.001 => 4,
        _ => return format!("{value:.2e}"),
    };
    let text = format!("{size:.decimals$}");
    let (integer, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let sign = if value < 0.0 { "−" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", grouped(integer.parse().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_scaled_and_grouped() {
        for (value, unit, text) in [
            (57.934, Unit::Ns, "57.93 ns"),
            (1_234.5, Unit::Ns, "1.234 µs"),
            (12_345_678.0, Unit::Ns, "12.35 ms"),
            (2e9, Unit::Ns, "2 s"),
            (1957.153, Unit::Count, "1,957.2"),
            (0.0559, Unit::Count, "0.0559"),
            (0.0, Unit::Count, "0"),
            (3.0, Unit::Count, "3"),
            (1_500_000.0, Unit::Bytes, "1.431 MiB"),
            (0.00001, Unit::Count, "1.00e-5"),
            (123_456.7, Unit::Ticks, "123,457"),
        ] {
            assert_eq!(figure(value, unit), text);
        }
    }

    #[test]
    fn changes_are_signed_percentages() {
        for (ratio, text) in [
            (0.104_3, "+10.43 %"),
            (-0.004_6, "−0.46 %"),
            (0.0, "+0 %"),
            (0.000_05, "+0.0050 %"),
            (0.000_000_21, "+2e-5 %"),
            (2.5, "+250.0 %"),
            (123.0, "+12300 %"),
        ] {
            assert_eq!(percent(ratio), text);
        }
    }

    #[test]
    fn integers_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
