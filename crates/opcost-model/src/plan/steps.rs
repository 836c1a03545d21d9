//! The operation that is recorded step by step.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// The operation that is recorded step by step.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum SteppedOperation {
    /// The median one by instructions.
    Median,
    /// The operation with this number, from 1.
    Number(NonZeroU64),
}

impl SteppedOperation {
    /// The word for the median operation.
    pub const MEDIAN: &str = "median";
}

impl FromStr for SteppedOperation {
    type Err = String;

    fn from_str(text: &str) -> Result<SteppedOperation, String> {
        if text == SteppedOperation::MEDIAN {
            return Ok(SteppedOperation::Median);
        }
        let number = text.parse().map(SteppedOperation::Number);
        number.map_err(|_| format!("'{text}': give an operation's number, from 1, or median"))
    }
}

impl TryFrom<String> for SteppedOperation {
    type Error = String;

    fn try_from(text: String) -> Result<SteppedOperation, String> {
        text.parse()
    }
}

impl From<SteppedOperation> for String {
    fn from(stepped: SteppedOperation) -> String {
        stepped.to_string()
    }
}

impl fmt::Display for SteppedOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SteppedOperation::Median => f.write_str(SteppedOperation::MEDIAN),
            SteppedOperation::Number(number) => write!(f, "{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_a_number_or_the_median_one() {
        for text in ["median", "1", "18446744073709551615"] {
            assert_eq!(text.parse::<SteppedOperation>().unwrap().to_string(), text);
        }
        for text in ["0", "-1", "", "first", "1.5"] {
            assert!(text.parse::<SteppedOperation>().unwrap_err().contains("from 1, or median"));
        }
    }
}
