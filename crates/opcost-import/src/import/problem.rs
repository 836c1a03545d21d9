//! Problems with a file of another tool.

use opcost_sys::budget::Exceeded;
use std::io;
use thiserror::Error;

/// A problem with a file, with the line if one can be named.
#[derive(Debug, Error, PartialEq)]
#[error("{}{kind}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct Problem {
    /// The line, from 1.
    pub line: Option<usize>,
    /// The kind of the problem.
    pub kind: ProblemKind,
}

/// The kind of a problem.
#[derive(Debug, Error, PartialEq)]
pub enum ProblemKind {
    /// No format knows the file.
    #[error(
        "no known format; name it with --format (opcost list formats), or write a CSV with the columns variant,metric,value,unit"
    )]
    UnknownFormat,
    /// The file is empty.
    #[error("the file is empty: the tool wrote nothing into it; run it again")]
    Empty,
    /// The file does not have the expected format.
    #[error("this is not {format}: {why}")]
    Foreign {
        /// The format asked for or recognised.
        format: &'static str,
        /// The part that is missing or different.
        why: String,
    },
    /// The file ends too soon.
    #[error("the file ends too soon ({0}); it was cut short, so export it again")]
    Truncated(String),
    /// A field that should be a number is not a number.
    #[error("'{text}' is no number ({what})")]
    NoNumber {
        /// The name of the field.
        what: String,
        /// The text of the field.
        text: String,
    },
    /// A figure is NaN or infinite.
    #[error(
        "{what} is {text}, which is not finite; leave that run out, or find out what went wrong in it"
    )]
    NotFinite {
        /// The name of the field.
        what: String,
        /// The text of the field.
        text: String,
    },
    /// A time, size or count below 0.
    #[error("{what} is {value}, and there is no time, size or count below 0")]
    Negative {
        /// The metric.
        what: String,
        /// The figure.
        value: f64,
    },
    /// One metric is given in units that have no common measure.
    #[error(
        "{metric} is given in '{one}' and in '{other}'; use one unit, or another name for one of them"
    )]
    MixedUnits {
        /// The metric.
        metric: String,
        /// The unit of the metric's first figure.
        one: String,
        /// The other unit.
        other: String,
    },
    /// The unit of a metric contradicts the metric's name.
    #[error("{metric} {expected}, and here it is in '{found}'; give it another name or its unit")]
    WrongUnit {
        /// The metric.
        metric: String,
        /// The expected unit, in words.
        expected: &'static str,
        /// The unit found.
        found: String,
    },
    /// A metric of a variant has two figures but can have one only.
    #[error(
        "{metric} of '{variant}' is given twice, and a mean cannot be joined with more figures"
    )]
    Twice {
        /// The variant.
        variant: String,
        /// The metric.
        metric: String,
    },
    /// Reading takes more than the budget.
    #[error(transparent)]
    Exceeded(Exceeded),
    /// The file has no figure.
    #[error("no figure in it{0}")]
    NoFigures(String),
    /// A claim, formula or option makes no sense.
    #[error("{0}")]
    Senseless(String),
}

impl From<Exceeded> for Problem {
    fn from(exceeded: Exceeded) -> Problem {
        Problem::whole(ProblemKind::Exceeded(exceeded))
    }
}

impl Problem {
    /// A problem at a line.
    pub fn at(line: usize, kind: ProblemKind) -> Problem {
        Problem { line: Some(line), kind }
    }

    /// A problem of the whole file.
    pub fn whole(kind: ProblemKind) -> Problem {
        Problem { line: None, kind }
    }

    /// A file with another format.
    pub fn foreign(format: &'static str, why: impl Into<String>) -> Problem {
        Problem::whole(ProblemKind::Foreign { format, why: why.into() })
    }

    /// A problem with JSON: cut short, not as expected, or more than the budget.
    pub fn json(format: &'static str, error: serde_json::Error) -> Problem {
        let line = Some(error.line()).filter(|line| *line > 0);
        let kind = if error.is_eof() {
            ProblemKind::Truncated(error.to_string())
        } else {
            let why = error.to_string();
            match Exceeded::of(&io::Error::from(error)) {
                Some(exceeded) => ProblemKind::Exceeded(exceeded),
                None => ProblemKind::Foreign { format, why },
            }
        };
        Problem { line, kind }
    }
}

/// Reads a finite number.
///
/// # Errors
/// The text is not a number, or not a finite number; `what` names the field.
pub fn number(what: &str, text: &str, line: usize) -> Result<f64, Problem> {
    let (what, text) = (what.to_string(), text.trim().to_string());
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(Problem::at(line, ProblemKind::NotFinite { what, text })),
        Err(_) => Err(Problem::at(line, ProblemKind::NoNumber { what, text })),
    }
}
