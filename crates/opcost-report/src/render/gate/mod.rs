//! A gate's report, rendered: one file and one row of [`GATE_FORMATS`] for each format.

mod annotations;
mod bencher;
pub mod bisect;
mod document;
mod functions;
mod github_benchmark;
mod json;
mod junit;
mod markdown;
pub mod notes;
mod openmetrics;
pub mod series;

pub use document::document;

use super::{Style, page};
use anyhow::{Context, Result};
use opcost_base::number::{figure, figures};
use opcost_gate::gate::exact::{ExactChange, list};
use opcost_gate::gate::report::{Against, CaseReport, GateReport, RevisionSide};
use opcost_page::writer;
use opcost_record::Unit;

/// Everything that a gate's report shows.
#[derive(Clone, Copy)]
pub struct GateView<'a> {
    /// The findings of the gate.
    pub report: &'a GateReport,
    /// How to show the report on a terminal.
    pub style: &'a Style,
    /// Whether the exit status is 0 whatever the verdict.
    pub soft: bool,
}

/// A format of a gate's report.
pub struct GateFormat {
    /// The name for `--format` and for `--export-NAME`.
    pub name: &'static str,
    /// The sentence in the help text.
    pub help: &'static str,
    render: fn(&GateView<'_>) -> Result<String>,
}

/// Every format.
pub static GATE_FORMATS: &[GateFormat] = &[
    GateFormat {
        name: "text",
        help: "the answer for people",
        render: |view| Ok(writer::text::text(&document(view), view.style)),
    },
    GateFormat {
        name: "markdown",
        help: "a comment for a pull request",
        render: |view| Ok(markdown::render(view)),
    },
    GateFormat { name: "json", help: "everything as JSON", render: json::render },
    GateFormat { name: "junit", help: "JUnit's XML", render: |view| Ok(junit::render(view)) },
    GateFormat { name: "bencher", help: "Bencher's metric format (BMF)", render: bencher::render },
    GateFormat {
        name: "github-benchmark",
        help: "github-action-benchmark's JSON",
        render: github_benchmark::render,
    },
    GateFormat {
        name: "openmetrics",
        help: "OpenMetrics",
        render: |view| Ok(openmetrics::render(view)),
    },
    GateFormat {
        name: "annotations",
        help: "GitHub's ::error lines",
        render: |view| Ok(annotations::render(view)),
    },
];

/// Renders the report in the format of this name.
///
/// # Errors
/// The name is not in [`GATE_FORMATS`] (the command line accepts no other names).
pub fn render(format: &str, view: &GateView<'_>) -> Result<String> {
    let format =
        GATE_FORMATS.iter().find(|known| known.name == format).context("unknown format")?;
    (format.render)(view).map(|text| page::harmless(&text).into_owned())
}

/// The revision or the baseline that the tip is compared with, in words.
fn against_words(against: &Against) -> String {
    match against {
        Against::Base(side) => side_words(side),
        Against::Baseline { path } => format!("baseline {path}"),
    }
}

/// `HEAD (c0ffee123456)`.
fn side_words(side: &RevisionSide) -> String {
    let short = opcost_kernel::short_commit(&side.commit);
    // A forge names revisions by their whole hashes.
    if side.name == side.commit { short.into() } else { format!("{} ({short})", side.name) }
}

/// A count in full, other figures as in tables.
fn exactly(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Count if value.fract() == 0.0 && value >= 0.0 => {
            opcost_base::number::grouped(value as u64)
        }
        _ => figure(value, unit),
    }
}

/// Both figures of a row; a dash for a missing figure.
fn both(baseline: Option<f64>, value: Option<f64>, unit: Unit) -> [String; 2] {
    if unit == Unit::Count {
        return [baseline, value].map(|side| side.map_or("–".into(), |side| exactly(side, unit)));
    }
    let known: Vec<f64> = [baseline, value].into_iter().flatten().collect();
    let mut words = figures(&known, unit).into_iter();
    [baseline, value].map(|side| side.and_then(|_| words.next()).unwrap_or_else(|| "–".into()))
}

/// Functions named for a case whose change is exact, at most.
const EXACT_SHOWN: usize = 3;

/// The functions of a case that changed exactly, in words; `None` if there are none or they are not known.
fn exact_words(case: &CaseReport) -> Option<String> {
    let (changes, layouts) = &case.exact;
    let sum: i128 = changes.iter().map(ExactChange::change).sum();
    let changes: Vec<&ExactChange> = changes.iter().collect();
    let sign = if sum < 0 { '−' } else { '+' };
    let size = u64::try_from(sum.unsigned_abs()).unwrap_or(u64::MAX);
    (!changes.is_empty()).then(|| {
        format!(
            "deterministic in {}, {sign}{} instructions: {} (alike in each of {layouts} layouts of the base)",
            case.name,
            opcost_base::number::grouped(size),
            list(&changes, EXACT_SHOWN)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_that_is_named_by_its_hash_is_named_once() {
        let named = |name: &str| {
            let commit = "0123456789abcdef".repeat(2) + "01234567";
            let name = name.replace("HASH", &commit);
            side_words(&RevisionSide { name, commit, ..RevisionSide::default() })
        };
        assert_eq!(
            (named("HEAD"), named("HASH")),
            ("HEAD (0123456789ab)".into(), "0123456789ab".into())
        );
    }
}
