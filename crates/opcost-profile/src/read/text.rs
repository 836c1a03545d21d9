//! What is wrong with a profile in a text.

/// Why a text cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TextError {
    /// A line has another form.
    #[error("line {line} is {what}: {text:?}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What it is instead.
        what: &'static str,
        /// The line.
        text: String,
    },
    /// There is nothing in it.
    #[error("it has no cost at all")]
    Empty,
    /// It has no such event.
    #[error("it has no event {wanted}; it has {known}")]
    NoEvent {
        /// The event that was asked for.
        wanted: String,
        /// Those that there are.
        known: String,
    },
}

impl TextError {
    /// `index`: from 0.
    pub(super) fn line(index: usize, text: &str, what: &'static str) -> TextError {
        TextError::Line { line: index + 1, what, text: text.chars().take(120).collect() }
    }
}
