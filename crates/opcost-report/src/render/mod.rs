//! From a comparison to text: one file and one row of [`FORMATS`] for each format.
//!
//! Renderers compute no statistics and open no file.

pub mod across;
mod alone;
pub mod annotated;
mod benchfmt;
mod csv;
pub mod diff;
mod functions;
pub mod gate;
pub mod history;
pub mod html;
mod imported;
mod json;
mod metrics;
pub mod percent;
pub mod plan;
pub mod profile;
mod ranking;
mod report;
pub mod sampled;
pub mod size;

use anyhow::{Context, Result};
use opcost_analysis::comparison::{Comparison, Warning};
use opcost_model::recording::Recording;
use opcost_page::document::Document;
pub use opcost_page::style::Style;
use opcost_page::{page, writer};
use std::borrow::Cow;

/// Everything a renderer may show.
pub struct View<'a> {
    /// The raw recording.
    pub recording: &'a Recording,
    /// The analysis of the recording.
    pub comparison: &'a Comparison,
    /// Warnings that the reader should know beside the analysis.
    pub warnings: &'a [Warning],
    /// How to show the page on a terminal.
    pub style: &'a Style,
}

/// A format.
pub struct Format {
    /// The name for `--format` and for `--export-NAME`.
    pub name: &'static str,
    /// The sentence in the help text.
    pub help: &'static str,
    render: fn(&View<'_>) -> Result<String>,
}

/// Every format.
pub static FORMATS: &[Format] = &[
    Format {
        name: "text",
        help: "the table for people",
        render: |view| Ok(writer::text::text(&document(view), view.style)),
    },
    Format { name: "json", help: "hyperfine's results with an opcost block", render: json::render },
    Format {
        name: "markdown",
        help: "the table for a mail or a pull request",
        render: |view| Ok(writer::markdown::markdown(&document(view), view.style)),
    },
    Format {
        name: "percent",
        help: "every variant as a percentage of the baseline, side by side",
        render: |view| Ok(writer::text::text(&percent::document(view), view.style)),
    },
    Format { name: "csv", help: "the raw figures, one run a row", render: csv::render },
    Format {
        name: "benchfmt",
        help: "Go benchmark lines, as benchstat reads them",
        render: benchfmt::render,
    },
    Format { name: "html", help: "one page with plots for a browser", render: html::render },
];

/// The report of a comparison.
pub fn document(view: &View<'_>) -> Document {
    report::document(view)
}

/// Renders the view in the format of this name.
///
/// # Errors
/// The name is not in [`FORMATS`] (the command line accepts no other names).
pub fn render(format: &str, view: &View<'_>) -> Result<String> {
    let format = FORMATS.iter().find(|known| known.name == format).context("unknown format")?;
    let text = (format.render)(view)?;
    Ok(match page::harmless(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(harmless) => harmless,
    })
}
