//! Messages on standard error. Every message goes through [`write()`] or [`show`], which make names in it harmless; a
//! test forbids other ways to write there.

use indicatif::{ProgressBar, WeakProgressBar};
use opcost_record::printable::{Output, printable_lines, safe};
use std::fmt::Arguments;
use std::io::{Write as _, stderr};
use std::sync::{Mutex, PoisonError};

/// The line of progress that the terminal shows; messages appear above it.
static DRAWN: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// Makes `line` the only line of progress: the earlier line is cleared.
pub fn draw(line: &ProgressBar) {
    let earlier = DRAWN.lock().unwrap_or_else(PoisonError::into_inner).replace(line.downgrade());
    if let Some(earlier) = earlier.and_then(|line| line.upgrade()) {
        earlier.finish_and_clear();
    }
}

/// Writes `opcost: ` and a message on standard error.
pub fn write(message: Arguments<'_>) {
    print(&format!("opcost: {}", safe(&message.to_string(), Output::Message)));
}

/// Writes lines on standard error that are no messages, for example a table.
pub fn show(lines: &str) {
    print(&printable_lines(lines.trim_end_matches('\n')));
}

fn print(text: &str) {
    let drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    // A terminal that hung up takes no message; what is left to do is done nevertheless.
    let print = || drop(writeln!(stderr(), "{text}"));
    match drawn.as_ref().and_then(WeakProgressBar::upgrade) {
        Some(line) => line.suspend(print),
        None => print(),
    }
}

/// [`write()`] with the arguments of `format!`.
#[macro_export]
macro_rules! announce {
    ($($argument:tt)*) => { $crate::message::write(format_args!($($argument)*)) };
}
pub use announce;
