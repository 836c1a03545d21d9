//! What the text formats have in common.
//!
//! The first line names the format and its version. One item a line follows. The last line counts the
//! lines between, `end 6`, so that a text cut short is never taken for a whole one. A writer that
//! fails sends `error TEXT` in place of its items.

use std::fmt;

/// A text format: its first line, and the words of its errors.
#[derive(Debug, Eq, PartialEq)]
pub struct Format {
    /// The first line of the current version.
    pub header: &'static str,
    /// What a text of the format is: `the report`.
    pub name: &'static str,
    /// Who writes or reads it on the other side: `program`.
    pub peer: &'static str,
    /// The error where there is no text.
    pub empty: &'static str,
    /// Why a text may be cut short, behind a semicolon; or nothing.
    pub cut_short: &'static str,
    /// Whether a last line counts the others.
    pub counted: bool,
}

/// Why a text is not of its format.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TextError {
    /// The format that was expected.
    pub format: &'static Format,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fault {
    /// There is none.
    Empty,
    /// The first line is not this version's.
    Version(String),
    /// A line has the wrong form.
    Line {
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
        /// The line.
        text: String,
    },
    /// Something is not said.
    Missing(&'static str),
    /// The last line is missing or counts other than what came.
    CutShort {
        /// Lines that came after the first.
        lines: usize,
    },
    /// The writer reported its own failure.
    Reported(String),
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Format { header, name, peer, empty, cut_short, .. } = self.format;
        match &self.fault {
            Fault::Empty => write!(f, "{empty}"),
            Fault::Version(found) => write!(
                f,
                "{name} starts with '{found}', expected '{header}': {peer} and opcost are of \
                 different versions"
            ),
            Fault::Line { line, what, text } => {
                write!(f, "line {line} of {name}: {what}: '{text}'")
            }
            Fault::Missing(what) => write!(f, "{name} has no {what}"),
            Fault::CutShort { lines } => {
                write!(f, "{name} was cut short after {lines} lines{cut_short}")
            }
            Fault::Reported(message) => write!(f, "{message}"),
        }
    }
}

impl std::error::Error for TextError {}

impl Format {
    /// An error of this format.
    pub fn error(&'static self, fault: Fault) -> TextError {
        TextError { format: self, fault }
    }

    /// The text whose items are these lines.
    pub(crate) fn write(&self, lines: &[String]) -> String {
        let bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
        let mut text = String::with_capacity(bytes + 64);
        for line in std::iter::once(self.header).chain(lines.iter().map(String::as_str)) {
            text.push_str(line);
            text.push('\n');
        }
        if self.counted {
            text.push_str(&format!("end {}\n", lines.len()));
        }
        text
    }

    /// The text of a failure; line breaks in the message become spaces.
    pub(crate) fn write_error(&self, message: &str) -> String {
        self.write(&[format!("error {}", message.replace('\n', " "))])
    }

    /// Reads a text: gives each line between the first and the last one to `take`, which says what is
    /// wrong with it. Result: what follows the text.
    pub(crate) fn read<'t>(
        &'static self,
        text: &'t str,
        mut take: impl FnMut(&'t str) -> Result<(), &'static str>,
    ) -> Result<&'t str, TextError> {
        let (first, mut rest) = split_line(text).ok_or_else(|| self.error(Fault::Empty))?;
        if first != self.header {
            return Err(self.error(Fault::Version(first.chars().take(80).collect())));
        }
        let mut came = 0;
        while let Some((line, behind)) = split_line(rest) {
            rest = behind;
            match words(line) {
                ("error", message) if self.counted => {
                    return Err(self.error(Fault::Reported(message.to_string())));
                }
                ("end", count) if self.counted => {
                    return match count == came.to_string() {
                        true => Ok(rest),
                        false => Err(self.error(Fault::CutShort { lines: came })),
                    };
                }
                _ => {}
            }
            take(line).map_err(|what| {
                let text = line.chars().take(200).collect();
                self.error(Fault::Line { line: came + 2, what, text })
            })?;
            came += 1;
        }
        match self.counted {
            true => Err(self.error(Fault::CutShort { lines: came })),
            false => Ok(rest),
        }
    }
}

/// The first line of a text without its end, and what follows; `None` of an empty text.
fn split_line(text: &str) -> Option<(&str, &str)> {
    let line = text.lines().next()?;
    let behind = &text[line.len()..];
    let end = behind.find('\n').map_or(behind.len(), |at| at + 1);
    Some((line, &behind[end..]))
}

/// A line's first word and the rest.
pub(crate) fn words(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}

/// A number of an item.
pub(crate) fn number(field: &str) -> Result<u64, &'static str> {
    field.parse().map_err(|_| "not a number")
}
