//! Figures, shares and counts as people read them.

use opcost_record::Unit;

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

/// The unit that suits the largest of the figures: its size in `unit`, and its symbol behind a
/// figure, with the space before it.
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
    // Rounding may move a mean of equal whole numbers slightly away from them.
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
