//! Marks tests as skipped, so that they do not count as passed. Programs of tests include this file as their module `skip`.
//!
//! libtest knows only passed and failed, and hides the output of a passing test. [`skip!`] writes one line per test past libtest,
//! directly to standard error: plain `cargo test` shows the line.

use std::collections::HashSet;
use std::io::Write;
use std::sync::Mutex;

/// Reports that the calling test is skipped, with the reason in the words of `format!`; the test must return then.
///
/// The line is `SKIPPED: CRATE: TEST: REASON`. A test that calls this twice counts as one skipped test: only the first reason is
/// shown.
macro_rules! skip {
    ($($reason:tt)*) => {
        $crate::skip::write_line(env!("CARGO_PKG_NAME"), &format!($($reason)*))
    };
}
pub(crate) use skip;

/// Writes the line of [`skip!`] for the crate `package`.
///
/// A benchmark has no test: its line is `not run: CRATE: REASON`, which is not counted.
///
/// # Panics
/// If a test calls this function on a thread other than its own: the line could not name the test.
pub(crate) fn write_line(package: &str, reason: &str) {
    let thread = std::thread::current();
    // libtest names each test's thread after the test; a benchmark runs on the first thread.
    let line = match thread.name().expect("skip! is called on the thread of a test") {
        "main" => Some(format!("not run: {package}: {reason}\n")),
        test => first_line(package, test, reason),
    };
    // One write, so that lines of tests that run in parallel do not mix.
    let _ = std::io::stderr().write_all(line.unwrap_or_default().as_bytes());
}

/// Returns the line of a test, or `None` if the test already has a line.
pub(crate) fn first_line(package: &str, test: &str, reason: &str) -> Option<String> {
    static SKIPPED: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let mut skipped = SKIPPED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let new = skipped.get_or_insert_default().insert(test.to_string());
    // The reason may be the output of a tool, with several lines.
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    new.then(|| format!("SKIPPED: {package}: {test}: {reason}\n"))
}
