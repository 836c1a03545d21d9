//! Messages on standard error. Every message goes through [`write()`] or [`show`], which make names in it harmless; a
//! test forbids other ways to write there.

use opcost_record::printable::{Output, printable_lines, safe};
use std::fmt::Arguments;

/// Writes `opcost: ` and a message on standard error.
pub fn write(message: Arguments<'_>) {
    eprintln!("opcost: {}", safe(&message.to_string(), Output::Message));
}

/// Writes lines on standard error that are no messages, for example a table.
pub fn show(lines: &str) {
    eprintln!("{}", printable_lines(lines.trim_end_matches('\n')));
}

/// [`write()`] with the arguments of `format!`.
#[macro_export]
macro_rules! announce {
    ($($argument:tt)*) => { $crate::message::write(format_args!($($argument)*)) };
}
pub use announce;
