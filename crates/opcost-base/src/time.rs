//! Time limits and moments, as people write and read them.

use crate::number::grouped;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// A time limit, written `1500ms`, `30s`, `2m` or as a number of seconds.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "TimeText", into = "String")]
pub struct TimeLimit {
    /// The limit in milliseconds, at least 1.
    pub limit_ms: u64,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a time such as \"30s\", \"1500ms\" or a number of seconds")]
enum TimeText {
    Text(String),
    Seconds(f64),
}

impl TryFrom<TimeText> for TimeLimit {
    type Error = String;

    fn try_from(text: TimeText) -> Result<Self, String> {
        match text {
            TimeText::Text(text) => text.parse(),
            TimeText::Seconds(seconds) => seconds.to_string().parse(),
        }
    }
}

impl FromStr for TimeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let scale_ms = match &text[digits.len()..] {
            "ms" => 1.0,
            "s" | "" => 1000.0,
            "m" | "min" => 60_000.0,
            unit => {
                return Err(format!("unknown unit '{unit}'; write ms, s or m, for example 30s"));
            }
        };
        let number: f64 = digits
            .trim()
            .parse()
            .map_err(|_| format!("'{text}' is not a time; write for example 30s or 1500ms"))?;
        let limit_ms = number * scale_ms;
        if !(1.0..=1e12).contains(&limit_ms) {
            return Err(format!("'{text}' is out of range; the least is 1ms"));
        }
        Ok(TimeLimit { limit_ms: limit_ms as u64 })
    }
}

impl From<TimeLimit> for String {
    fn from(limit: TimeLimit) -> String {
        format!("{}ms", limit.limit_ms)
    }
}

/// A number of milliseconds in words: `30 s`, `1,500 ms`, `30 min`.
pub fn time_in_words(limit_ms: u64) -> String {
    const MINUTE_MS: u64 = 60_000;
    match limit_ms {
        0..1_000 => format!("{limit_ms} ms"),
        ms if ms >= 2 * MINUTE_MS && ms % MINUTE_MS == 0 => {
            format!("{} min", grouped(ms / MINUTE_MS))
        }
        ms if ms % 1_000 == 0 => format!("{} s", grouped(ms / 1_000)),
        ms => format!("{} ms", grouped(ms)),
    }
}

/// An approximate time in its two greatest units: `45 s`, `3 min 10 s`, `2 h 5 min`.
pub fn about_in_words(about_ms: u64) -> String {
    let seconds = about_ms.div_ceil(1_000);
    let (great, small, units) = match seconds {
        0..60 => return format!("{seconds} s"),
        60..3_600 => (seconds / 60, seconds % 60, ("min", "s")),
        _ => (seconds / 3_600, seconds % 3_600 / 60, ("h", "min")),
    };
    match small {
        0 => format!("{} {}", grouped(great), units.0),
        small => format!("{} {} {small} {}", grouped(great), units.0, units.1),
    }
}

/// A moment in UTC, to the minute.
pub fn date(unix_ns: u64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(unix_ns))
        .map_or_else(|_| "?".into(), |time| time.strftime("%Y-%m-%d %H:%M").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_how_long_has_two_units_at_most() {
        let said = [900, 45_000, 60_000, 190_000, 7_200_000, 7_500_000].map(about_in_words);
        assert_eq!(said, ["1 s", "45 s", "1 min", "3 min 10 s", "2 h", "2 h 5 min"]);
    }
}
