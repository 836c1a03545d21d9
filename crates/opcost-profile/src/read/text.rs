//! Faults in the contents of a profile.

use opcost_sys::budget::{Budget, Exceeded};
use serde::de::{DeserializeOwned, DeserializeSeed};
use std::io::{self, BufReader};
use std::marker::PhantomData;

/// Why contents cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum TextError {
    /// A line of another form.
    #[error("line {line} is {what}: {text:?}")]
    Line {
        /// Line number, from 1.
        line: usize,
        what: &'static str,
        text: String,
    },
    /// The contents end too early.
    #[error("it ends too soon ({0}); it was cut short, so write or copy it again")]
    Cut(String),
    /// The contents contradict themselves, or hold something that cannot be represented.
    #[error("{0}")]
    Content(String),
    /// A fault in another file of the same run.
    #[error("in its part {name}: {source}")]
    Part {
        /// The part's file name.
        name: String,
        source: Box<TextError>,
    },
    /// The contents have no cost.
    #[error("it has no cost at all")]
    Empty,
    /// The contents lack the event that the user wants.
    #[error("it has no event {wanted}; it has {known}")]
    NoEvent { wanted: String, known: String },
    /// Reading takes more than the budget.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

impl TextError {
    /// The error for JSON that is cut short, has another form or takes too much.
    fn json(error: serde_json::Error) -> TextError {
        if error.is_eof() {
            return TextError::Cut(error.to_string());
        }
        let what = format!("it is not as the format says: {error}");
        Exceeded::of(&io::Error::from(error)).map_or(TextError::Content(what), TextError::Exceeded)
    }

    /// `wanted`: the event that the user wants; `known`: the events of the file.
    pub(super) fn no_event(wanted: &str, known: &[String]) -> TextError {
        TextError::NoEvent { wanted: wanted.to_string(), known: known.join(", ") }
    }

    /// `index`: the line's number, from 0.
    pub(super) fn line(index: usize, text: &str, what: &'static str) -> TextError {
        TextError::Line { line: index + 1, what, text: text.chars().take(120).collect() }
    }
}

/// Parses JSON, value by value: a short text can have many values.
pub(super) fn json<T: DeserializeOwned>(text: &str, budget: &Budget) -> Result<T, TextError> {
    json_seed(text, PhantomData, budget)
}

/// Parses JSON as `seed` does.
pub(super) fn json_seed<'de, S: DeserializeSeed<'de>>(
    text: &str,
    seed: S,
    budget: &Budget,
) -> Result<S::Value, TextError> {
    let text = BufReader::new(budget.reader(text.as_bytes()));
    let mut from = serde_json::Deserializer::from_reader(text);
    let value = seed.deserialize(&mut from).map_err(TextError::json)?;
    from.end().map_err(TextError::json)?;
    Ok(value)
}
