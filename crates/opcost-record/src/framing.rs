//! The common frame of the text formats.
//!
//! The first line names the format and its version. Each line after it is an item. The last line
//! counts the items, `end 6`, so that a text cut short is never taken for a whole one. A writer that
//! fails sends `error TEXT` in place of its items.

use std::fmt;

/// A text format: its first line, and the words of its errors.
#[derive(Debug, Eq, PartialEq)]
pub struct Format {
    /// The first line of the current version.
    pub header: &'static str,
    /// A text of the format in words: `the report`.
    pub name: &'static str,
    /// The program on the other side: `program`.
    pub peer: &'static str,
    /// The error for an empty text.
    pub empty: &'static str,
    /// Why a text may be cut short, behind a semicolon; may be empty.
    pub cut_short: &'static str,
    /// Whether a last line counts the items.
    pub counted: bool,
}

/// Why a text is not of its format.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TextError {
    /// The format that was expected.
    pub format: &'static Format,
    /// The fault.
    pub fault: Fault,
}

/// A fault of a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The text is empty.
    Empty,
    /// The first line is of another version.
    Version(String),
    /// A line has the wrong form.
    Line {
        /// Line number, from 1.
        line: usize,
        /// The fault.
        what: &'static str,
        /// The line.
        text: String,
    },
    /// An item is missing.
    Missing(&'static str),
    /// The last line is missing or does not count the items that came.
    CutShort {
        /// Items that came.
        lines: usize,
    },
    /// The writer's report of its own failure.
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
    /// Makes an error of this format.
    pub fn error(&'static self, fault: Fault) -> TextError {
        TextError { format: self, fault }
    }

    /// Returns the text with these items.
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

    /// Returns the text of a failure; line breaks in the message become spaces.
    pub(crate) fn write_error(&self, message: &str) -> String {
        self.write(&[format!("error {}", message.replace('\n', " "))])
    }

    /// Reads a text: calls `take` with each item, which returns the item's fault if it has one.
    /// Returns the text behind the last line.
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

/// Splits off the first line of a text without its end; `None` for an empty text.
fn split_line(text: &str) -> Option<(&str, &str)> {
    let line = text.lines().next()?;
    let behind = &text[line.len()..];
    let end = behind.find('\n').map_or(behind.len(), |at| at + 1);
    Some((line, &behind[end..]))
}

/// Splits off a line's first word.
pub(crate) fn words(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}

/// Parses a number of an item.
pub(crate) fn number(field: &str) -> Result<u64, &'static str> {
    field.parse().map_err(|_| "not a number")
}

/// Parses a hexadecimal number of an item.
pub(crate) fn hexadecimal(field: &str) -> Result<u64, &'static str> {
    u64::from_str_radix(field, 16).map_err(|_| "not hexadecimal")
}
