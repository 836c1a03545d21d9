//! The frameworks, one row and one file each: how opcost knows a program of it, lists its benchmarks, and has it run a chosen number of
//! iterations.

mod catch2;
mod criterion;
mod divan;
mod go;
mod google_benchmark;
mod libtest;
mod nanobench;
mod pytest_benchmark;

use crate::line::Name;
use crate::runner::{Invocation, Runner, Trial};
use anyhow::Result;
use memchr::memmem::find;
use opcost_base::exit::{Status, fail};

/// A program with benchmarks.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The program.
    pub(crate) invocation: Invocation,
    /// The framework.
    pub(crate) framework: &'static Framework,
    /// Its version, as far as the program has it.
    pub(crate) version: Option<String>,
    /// What names of several programs begin with; empty if there is one program.
    pub(crate) prefix: String,
}

/// A framework.
pub struct Framework {
    /// The name.
    pub name: &'static str,
    /// How it is driven, in words for people.
    pub driven: &'static str,
    /// The versions that were tried.
    pub tried: &'static [&'static str],
    /// Whether a program is one of this framework, with its version if that can be read; `None` if it is not.
    pub(crate) recognise: fn(&[u8]) -> Option<Option<String>>,
    /// Lists the benchmarks by name.
    pub(crate) list: fn(&Runner<'_>, &Subject) -> Result<Vec<String>>,
    /// How a benchmark is run, the fewest iterations first. `place`: the benchmark's place in the list, from 0.
    pub(crate) trials: fn(&Runner<'_>, &Subject, name: &str, place: usize) -> Result<Vec<Trial>>,
    /// When a function's instructions count, by the function's name.
    pub(crate) steadiness: fn(&Name) -> Steadiness,
    /// Whether an interpreter runs its benchmarks.
    pub(crate) is_interpreted: bool,
}

impl std::fmt::Debug for Framework {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All frameworks; a program belongs to the first that recognises it.
pub const FRAMEWORKS: &[&Framework] = &[
    &criterion::ROW,
    &divan::ROW,
    &google_benchmark::ROW,
    &catch2::ROW,
    &nanobench::ROW,
    &libtest::ROW,
    &pytest_benchmark::ROW,
    &go::ROW,
];

/// When a function's instructions count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Steadiness {
    /// Always: each run executes the same ones.
    Exact,
    /// If a second run shows the same number.
    Repeated,
    /// If each iteration executes as many, too.
    OnLine,
}

fn exact(_: &Name) -> Steadiness {
    Steadiness::Exact
}

/// The error of a benchmark that reads the clock in a way that its framework does not.
fn unknown_readings(what: &str) -> anyhow::Error {
    fail(
        Status::WorkFailed,
        format!(
            "{what}, so its iterations cannot be told; it reads the clock itself, or its framework has changed"
        ),
    )
}

/// The names in the list of libtest, which criterion prints in the same form.
fn list_of_libtest(runner: &Runner<'_>, subject: &Subject) -> Result<Vec<String>> {
    let printed = runner.printed(&subject.invocation.with(["--bench", "--list"]))?;
    Ok(printed
        .lines()
        .filter_map(|line| line.strip_suffix(": benchmark").or(line.strip_suffix(": bench")))
        .map(str::to_owned)
        .collect())
}

/// Whether a program's bytes contain a text.
fn contains(bytes: &[u8], text: &str) -> bool {
    find(bytes, text.as_bytes()).is_some()
}

/// The version in the path of a Rust crate's source, which panics print: `/NAME-VERSION/src/`.
fn crate_version(bytes: &[u8], name: &str) -> Option<String> {
    let begin = format!("/{name}-");
    let mut from = 0;
    while let Some(at) = find(&bytes[from..], begin.as_bytes()) {
        from += at + begin.len();
        let rest = &bytes[from..bytes.len().min(from + 40)];
        let end = rest.iter().position(|byte| *byte == b'/')?;
        let version = std::str::from_utf8(&rest[..end]).ok();
        let is_version =
            version.filter(|text| text.starts_with(|first: char| first.is_ascii_digit()));
        if let Some(version) = is_version.filter(|_| rest[end..].starts_with(b"/src/")) {
            return Some(version.to_string());
        }
    }
    None
}

/// A text as a regular expression that matches nothing else.
fn literal(text: &str) -> String {
    let mut quoted = String::new();
    for char in text.chars() {
        if !char.is_alphanumeric() && !"_/: ".contains(char) {
            quoted.push('\\');
        }
        quoted.push(char);
    }
    quoted
}

/// The value of an attribute in a line of XML, or of a key in a line of JSON with a plain number or text.
fn value_after<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let rest = &text[text.find(key)? + key.len()..];
    let rest = rest.trim_start_matches([' ', ':', '=', '"']);
    Some(&rest[..rest.find(['"', ',', '\n', '}']).unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_crate_is_in_its_paths() {
        let bytes = b"..\0/home/x/criterion-plot/src/a.rs /registry/criterion-0.5.1/src/lib.rs\0"
            .as_slice();
        assert_eq!(crate_version(bytes, "criterion").as_deref(), Some("0.5.1"));
        assert_eq!(crate_version(bytes, "divan"), None);
        assert_eq!(crate_version(b"/divan-", "divan"), None);
    }

    #[test]
    fn names_are_matched_literally() {
        assert_eq!(literal("BM_Sort<int>/8:a b.c"), "BM_Sort\\<int\\>/8:a b\\.c");
        assert_eq!(value_after("<a samples=\"1\" iterations=\"16\" x", "iterations="), Some("16"));
        assert_eq!(value_after("  \"iterations\": 10,\n", "\"iterations\""), Some("10"));
    }

    #[test]
    fn every_framework_says_what_was_tried() {
        for row in FRAMEWORKS {
            assert!(!row.tried.is_empty() && !row.driven.is_empty(), "{}", row.name);
        }
    }
}
