//! The operation that is recorded step by step.

use opcost_record::printable::printable;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// The operation that is recorded step by step.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum SteppedOperation {
    /// The median one by instructions.
    Median,
    /// The operation with this number, from 1.
    Number(NonZeroU64),
    /// A call of the function with this name: the median one, or the one with this number.
    Call(String, Option<NonZeroU64>),
}

impl SteppedOperation {
    /// The word for the median operation.
    pub const MEDIAN: &str = "median";

    /// The function whose calls are the operations, if one is named.
    pub fn function(&self) -> Option<&str> {
        match self {
            SteppedOperation::Call(function, _) => Some(function),
            _ => None,
        }
    }

    /// The operation's number; `None` for the median one.
    pub fn number(&self) -> Option<NonZeroU64> {
        match self {
            SteppedOperation::Median => None,
            SteppedOperation::Number(number) => Some(*number),
            SteppedOperation::Call(_, number) => *number,
        }
    }
}

impl FromStr for SteppedOperation {
    type Err = String;

    fn from_str(text: &str) -> Result<SteppedOperation, String> {
        if text == SteppedOperation::MEDIAN {
            return Ok(SteppedOperation::Median);
        }
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let wrong = || {
            let shown = printable(text);
            format!("'{shown}': give an operation's number, from 1, median, FUNCTION or FUNCTION:N")
        };
        if is_number(text) {
            return text.parse().map(SteppedOperation::Number).map_err(|_| wrong());
        }
        let (function, number) = match text.rsplit_once(':') {
            Some((function, number)) if !number.is_empty() && is_number(number) => {
                (function, Some(number.parse().map_err(|_| wrong())?))
            }
            _ => (text, None),
        };
        match function.is_empty() || function.contains(char::is_control) {
            true => Err(wrong()),
            false => Ok(SteppedOperation::Call(function.into(), number)),
        }
    }
}

impl fmt::Display for SteppedOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SteppedOperation::Median => f.write_str(SteppedOperation::MEDIAN),
            SteppedOperation::Number(number) => write!(f, "{number}"),
            SteppedOperation::Call(function, None) => f.write_str(function),
            SteppedOperation::Call(function, Some(number)) => write!(f, "{function}:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_a_number_or_the_median_one() {
        for text in [
            "median",
            "1",
            "18446744073709551615",
            "do_mmap",
            "do_mmap:7",
            "std::map<int>::at",
            "a::b:2",
        ] {
            assert_eq!(text.parse::<SteppedOperation>().unwrap().to_string(), text);
        }
        for text in ["0", "-1", "", "f:0", ":3", "a\nb"] {
            assert!(text.parse::<SteppedOperation>().unwrap_err().contains("from 1, median"));
        }
        let call: SteppedOperation = "a::b:2".parse().unwrap();
        assert_eq!((call.function(), call.number().map(NonZeroU64::get)), (Some("a::b"), Some(2)));
    }
}
