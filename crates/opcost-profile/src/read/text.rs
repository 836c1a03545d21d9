//! What is wrong with the contents of a profile.

/// Why contents cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum TextError {
    /// A line has another form.
    #[error("line {line} is {what}: {text:?}")]
    Line {
        /// Line number, from 1.
        line: usize,
        what: &'static str,
        text: String,
    },
    /// It ends before it is whole.
    #[error("it ends too soon ({0}); it was cut short, so write or copy it again")]
    Cut(String),
    /// It contradicts itself, or holds what cannot be taken over.
    #[error("{0}")]
    Content(String),
    /// There is nothing in it.
    #[error("it has no cost at all")]
    Empty,
    /// It has no such event.
    #[error("it has no event {wanted}; it has {known}")]
    NoEvent { wanted: String, known: String },
}

impl TextError {
    /// JSON that is cut short, or has another form.
    pub(super) fn json(error: &serde_json::Error) -> TextError {
        match error.is_eof() {
            true => TextError::Cut(error.to_string()),
            false => TextError::Content(format!("it is not as the format says: {error}")),
        }
    }

    /// `wanted`: the event that was asked for; `known`: those that there are.
    pub(super) fn no_event(wanted: &str, known: &[String]) -> TextError {
        TextError::NoEvent { wanted: wanted.to_string(), known: known.join(", ") }
    }

    /// `index`: from 0.
    pub(super) fn line(index: usize, text: &str, what: &'static str) -> TextError {
        TextError::Line { line: index + 1, what, text: text.chars().take(120).collect() }
    }
}
