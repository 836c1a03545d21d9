//! The rules by which the runs of a plan end early.

use opcost_stats::{Budget, early};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The rules for stopping before the whole schedule is made.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct StopPlan {
    /// The largest sufficient width of the interval of the primary metric's change, from end to end, as a share of the baseline.
    pub width_ratio: Option<f64>,
    /// Time for the runs of one session, milliseconds.
    pub budget_ms: Option<u64>,
    /// Number of blocks that are made whatever time they take.
    #[serde(default)]
    pub blocks_min: u32,
    /// Number of pairs after which one look at exact counts may end the recording; `None` for no look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_pairs: Option<u32>,
}

impl StopPlan {
    /// The error budget of the report.
    pub fn error_budget(&self) -> Budget {
        match (self.width_ratio, self.look_pairs) {
            (Some(_), _) => Budget::default().for_stopping_on_width(),
            (None, Some(_)) => Budget::default().after_early_look(early::LEVEL),
            (None, None) => Budget::default(),
        }
    }
}

/// Why a recording stopped before its whole schedule was made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StopReason {
    /// The interval is as narrow as requested.
    Width,
    /// The time is spent.
    Budget,
    /// The counts of both sides are equal, or differ by more than layouts shift them.
    Settled,
}

/// The width of an interval: `0.5%`, or a share such as `0.005`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "WidthText", into = "String")]
pub struct Width {
    /// The width as a share of the baseline, above 0.
    pub ratio: f64,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a width such as \"0.5%\" or 0.005")]
enum WidthText {
    Text(String),
    Share(f64),
}

impl TryFrom<WidthText> for Width {
    type Error = String;

    fn try_from(text: WidthText) -> Result<Self, String> {
        match text {
            WidthText::Text(text) => text.parse(),
            WidthText::Share(share) => share.to_string().parse(),
        }
    }
}

impl FromStr for Width {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, scale) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent, 0.01),
            None => (text, 1.0),
        };
        let number: f64 = number
            .trim()
            .parse()
            .map_err(|_| format!("'{text}' is not a width; write for example 0.5% or 0.005"))?;
        let ratio = number * scale;
        if scale == 1.0 && ratio >= 1.0 {
            return Err(format!(
                "'{text}' is a share, so it means {}%; write {text}% for percent, or {}% if that is meant",
                100.0 * number,
                100.0 * number
            ));
        }
        if !(1e-9..=10.0).contains(&ratio) {
            return Err(format!("'{text}' is out of range; write for example 0.5%"));
        }
        Ok(Width { ratio })
    }
}

impl From<Width> for String {
    fn from(width: Width) -> String {
        format!("{}%", width.ratio * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_read() {
        for (text, ratio) in [("0.5%", 0.005), ("0.5 %", 0.005), ("0.02", 0.02)] {
            assert!((text.parse::<Width>().unwrap().ratio - ratio).abs() < 1e-12, "{text}");
        }
        for text in ["", "%", "half", "-1%", "0", "nan", "2000%"] {
            assert!(text.parse::<Width>().is_err(), "{text}");
        }
    }
}
