//! Prints a comparison and writes it to files.

use crate::exports::{Exports, printed_by};
use crate::globals::Globals;
use crate::steps;
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use opcost_analysis::comparison::limit::{self, FailOn};
use opcost_analysis::comparison::{self, Warning};
use opcost_base::exit::{Status, WithStatus};
use opcost_base::message::announce;
use opcost_lab::{kernel_commits, patch_sites};
use opcost_model::recording::Recording;
use opcost_page::page;
use opcost_report::render;
use opcost_symbols::debug_package::DebugPackage;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Arguments of the commands that print a comparison.
#[derive(Args, Debug)]
pub struct OutputArgs {
    /// What to print on standard output [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = "Output", value_parser = format_names())]
    pub format: Option<String>,

    /// Print JSON on standard output; --json - is the same
    #[arg(long, help_heading = "Output", conflicts_with = "format")]
    pub json: bool,

    /// In which order several comparisons are shown: as the variants were given, or by the change of the
    /// primary metric, the smallest figure first [default: given]
    #[arg(long, value_name = "ORDER", help_heading = "Output")]
    pub sort: Option<Order>,

    /// Show function names in full. Otherwise opcost shortens C++ and Rust names that do not fit,
    /// and drops template arguments, parameters and namespaces first
    #[arg(long, help_heading = "Output")]
    pub full_names: bool,

    /// Show every metric, and of many variants every comparison. Otherwise the table has the primary
    /// metric and the metrics that changed, and one line for each verdict names the others
    #[arg(long, help_heading = "Output")]
    pub all: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub exports: Exports,

    /// End with status 1 if WHAT is significantly worse; with LIMIT, if it is worse by more than
    /// LIMIT; may be repeated
    ///
    /// WHAT is regression (the primary metric), a metric as tables show it, or functions (each
    /// function of a profile; its limit is a share of the whole). LIMIT is relative (0.5%),
    /// absolute (10000, 2ms, 4KiB; per operation if the row is) or both ('0.5% or 10000': a change
    /// within either limit is allowed).
    #[arg(long, value_name = "WHAT[=LIMIT]", help_heading = "Output")]
    pub fail_on: Vec<FailOn>,
}

/// The order of comparisons, also by hyperfine's names.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Order {
    /// As the variants were given.
    #[value(aliases = ["command", "auto"])]
    Given,
    /// By the change of the primary metric.
    #[value(alias = "mean-time")]
    Change,
}

impl OutputArgs {
    /// Fails early if a file could not be written later, or standard output would get two formats.
    ///
    /// # Errors
    /// Names the option.
    pub fn check(&self) -> Result<()> {
        self.exports.check(printed_by(self.format.as_deref(), self.json).as_deref())
    }

    /// Whether any of these options was given.
    pub fn is_given(&self) -> bool {
        self.json || self.format.is_some() || !self.exports.is_empty() || !self.fail_on.is_empty()
    }

    /// The option with which the comparison uses standard output, if one was given.
    pub fn printing(&self) -> Option<String> {
        self.exports.printing().or(printed_by(self.format.as_deref(), self.json))
    }
}

/// Compares and prints.
pub fn present(globals: &Globals, recording: &Recording, output: &OutputArgs) -> Result<Status> {
    present_unless(false, globals, recording, &[], output)
}

/// Compares; prints unless another output uses standard output (`taken`). `variants`: those to show; none for all.
pub fn present_unless(
    taken: bool,
    globals: &Globals,
    recording: &Recording,
    variants: &[usize],
    output: &OutputArgs,
) -> Result<Status> {
    let (mut comparison, mut warnings) = comparison::compare(recording);
    if !variants.is_empty() {
        comparison.keep_variants(variants);
    }
    kernel_commits::add(&mut comparison, recording);
    patch_sites::add(&mut comparison, recording, globals.read_limit_bytes());
    steps::add_lines(&mut comparison, recording, globals.read_limit_bytes());
    let packages = DebugPackage::of_files(comparison.nameless_files(recording));
    warnings.extend(packages.into_iter().map(Warning::Nameless));
    if output.sort == Some(Order::Change) {
        comparison.sort_by_change();
    }
    let style = globals.style().with_full_names(output.full_names).with_all(output.all);
    let format = if output.json { "json" } else { output.format.as_deref().unwrap_or("text") };
    let view =
        render::View { recording, comparison: &comparison, warnings: &warnings, style: &style };
    if !taken && output.exports.printing().is_none() {
        print(&render::render(format, &view)?)?;
    }
    output.exports.write(&view)?;
    if comparison.refused() {
        return Ok(Status::NotComparable);
    }
    let found = limit::exceeded(&comparison, &output.fail_on).status(Status::Usage)?;
    for what in &found.exceeded {
        announce!("worse: {what}");
    }
    for what in &found.undecided {
        announce!("{what}");
    }
    Ok(if found.exceeded.is_empty() { Status::Done } else { Status::Regression })
}

/// Prints the version of opcost.
///
/// # Errors
/// Standard output cannot be written.
pub fn show_text(text: &str) -> Result<Status> {
    print(text).map(|()| Status::Done)
}

/// Writes text to standard output; a reader that has gone away is no error. Nothing but opcost's own colours moves or
/// paints a terminal, whatever the names in the text have.
pub fn print(text: &str) -> Result<()> {
    print_bytes(page::harmless(text).as_bytes())
}

/// Writes a file as a whole or not at all; `mode` without the umask's bits says who may read it.
pub fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".opcost-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// Writes to standard output; a reader that has gone away is no error.
pub fn print_bytes(bytes: &[u8]) -> Result<()> {
    match std::io::stdout().write_all(bytes) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output").status(Status::Missing)
        }
        _ => Ok(()),
    }
}

/// The names of the formats, for `--format`.
pub fn format_names() -> PossibleValuesParser {
    PossibleValuesParser::new(render::FORMATS.iter().map(|format| format.name))
}
