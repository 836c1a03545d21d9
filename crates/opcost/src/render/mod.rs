//! From a comparison to bytes: one file and one row of [`FORMATS`] for each format.
//!
//! Renderers compute no statistics and open no file.

pub mod across;
mod alone;
mod benchfmt;
mod csv;
pub mod diff;
mod functions;
pub mod history;
pub mod html;
mod imported;
mod json;
mod markdown;
pub(crate) mod names;
pub(crate) mod page;
mod percent;
pub mod plan;
pub mod profile;
pub mod sampled;
pub mod size;
mod text;

use crate::comparison::{Comparison, Warning};
use crate::exit::{Status, WithStatus};
use crate::recording::Recording;
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Command};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Everything a renderer may show.
pub struct View<'a> {
    /// The raw recording.
    pub recording: &'a Recording,
    /// Its analysis.
    pub comparison: &'a Comparison,
    /// What the reader should know beside it.
    pub warnings: &'a [Warning],
    /// How to show it on a terminal.
    pub style: &'a Style,
}

/// A format.
pub struct Format {
    /// Its name, as `--format` takes it and in `--export-NAME`.
    pub name: &'static str,
    /// What it is for.
    pub help: &'static str,
    render: fn(&View<'_>) -> Result<String>,
}

/// Every format.
pub static FORMATS: &[Format] = &[
    Format { name: "text", help: "the table for people", render: text::render },
    Format { name: "json", help: "hyperfine's results with an opcost block", render: json::render },
    Format {
        name: "markdown",
        help: "the table for a mail or a pull request",
        render: markdown::render,
    },
    Format {
        name: "percent",
        help: "every variant as a percentage of the baseline, side by side",
        render: percent::render,
    },
    Format { name: "csv", help: "the raw figures, one run a row", render: csv::render },
    Format {
        name: "benchfmt",
        help: "Go benchmark lines, as benchstat reads them",
        render: benchfmt::render,
    },
    Format { name: "html", help: "one page with plots for a browser", render: html::render },
];

/// The names of the formats, for `--format`.
pub fn format_names() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.iter().map(|format| format.name))
}

/// Renders in the format of this name.
///
/// # Errors
/// The name is none of [`FORMATS`]' (the command line lets no other through).
pub fn render(format: &str, view: &View<'_>) -> Result<String> {
    let format = FORMATS.iter().find(|known| known.name == format).context("unknown format")?;
    (format.render)(view)
}

/// Files to export to: `--export-NAME FILE` for each format.
#[derive(Clone, Debug, Default)]
pub struct Exports {
    files: Vec<(&'static str, PathBuf)>,
}

impl Exports {
    /// Fails early if a file could not be written later.
    ///
    /// # Errors
    /// Names the file whose folder does not exist, or the formats that would share standard output.
    pub fn check(&self) -> Result<()> {
        let mut printed = None;
        for (name, path) in &self.files {
            if is_standard_output(path) {
                if let Some(first) = printed.replace(name) {
                    let text = format!(
                        "--export-{first} - and --export-{name} -: standard output takes one of \
                         them; give the other a file"
                    );
                    return Err(crate::exit::fail(Status::Usage, text));
                }
                continue;
            }
            check_folder(&format!("--export-{name}"), path)?;
        }
        Ok(())
    }

    /// The format that goes to standard output (`--export-NAME -`), where nothing else must.
    pub fn printed(&self) -> Option<&'static str> {
        self.files.iter().find(|(_, path)| is_standard_output(path)).map(|(name, _)| *name)
    }

    /// Writes every file.
    ///
    /// # Errors
    /// Names the file that cannot be written.
    pub fn write(&self, view: &View<'_>) -> Result<()> {
        let style = Style::plain().with_full_names(view.style.full_names);
        let plain = View { style: &style, ..*view };
        for (name, path) in &self.files {
            if is_standard_output(path) {
                crate::command::output::print(&render(name, &plain)?)?;
                continue;
            }
            std::fs::write(path, render(name, &plain)?)
                .with_context(|| format!("cannot write '{}'", path.display()))
                .status(Status::Missing)?;
        }
        Ok(())
    }
}

fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Fails if a file that an option names could not be written, as there is no folder for it.
pub(crate) fn check_folder(option: &str, path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        None => Ok(()),
        Some(folder) => Err(crate::exit::fail(
            Status::Usage,
            format!("{option} {}: there is no folder '{}'", path.display(), folder.display()),
        )),
    }
}

/// The flag `--export-NAME FILE`.
fn export_argument(name: &str, help: &str) -> Arg {
    let name = format!("export-{name}");
    Arg::new(name.clone())
        .long(name)
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help(help.to_string())
}

// Written by hand so that a new row of FORMATS has its flag.
impl clap::FromArgMatches for Exports {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut exports = Exports::default();
        exports.update_from_arg_matches(matches)?;
        Ok(exports)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for format in FORMATS {
            if let Some(path) = matches.get_one::<PathBuf>(&format!("export-{}", format.name)) {
                self.files.push((format.name, path.clone()));
            }
        }
        Ok(())
    }
}

impl clap::Args for Exports {
    fn augment_args(command: Command) -> Command {
        FORMATS.iter().fold(command, |command, format| {
            let help = format!("Write {} to FILE; - prints it in place of the table", format.help);
            command.arg(export_argument(format.name, &help).help_heading("Output"))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// How to show things on a terminal.
#[derive(Clone, Debug)]
pub struct Style {
    /// Whether to use colour.
    pub color: bool,
    /// Columns.
    pub width: usize,
    /// Whether names of functions are shown whole, however long.
    pub full_names: bool,
}

impl Style {
    /// No colour, 80 columns.
    pub fn plain() -> Style {
        Style { color: false, width: 80, full_names: false }
    }

    /// The same with names of functions whole, or shortened.
    pub fn with_full_names(self, full_names: bool) -> Style {
        Style { full_names, ..self }
    }

    /// What standard output is: colour only on a terminal, and not with NO_COLOR
    /// (<https://no-color.org>) or TERM=dumb; 80 columns where nobody says.
    pub fn detect(no_color: bool) -> Style {
        let terminal = std::io::stdout().is_terminal();
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let measured = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        Style {
            color: terminal && !no_color && !refused,
            width: columns.or_else(measured).unwrap_or(80).max(60),
            full_names: false,
        }
    }
}
