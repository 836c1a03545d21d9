//! Faults in the contents of a profile.

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
    /// The contents have no cost.
    #[error("it has no cost at all")]
    Empty,
    /// The contents lack the event that the user wants.
    #[error("it has no event {wanted}; it has {known}")]
    NoEvent { wanted: String, known: String },
}

impl TextError {
    /// The error for JSON that is cut short or has another form.
    pub(super) fn json(error: &serde_json::Error) -> TextError {
        match error.is_eof() {
            true => TextError::Cut(error.to_string()),
            false => TextError::Content(format!("it is not as the format says: {error}")),
        }
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
