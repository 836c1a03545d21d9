//! Files that a gate's report is written to.

use crate::command::exports::{check_folder, export_argument};
use crate::command::output::print;
use crate::exit::{Status, WithStatus, fail};
use crate::render::Style;
use crate::render::gate::{GATE_FORMATS, GateView, render};
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Command};
use std::path::{Path, PathBuf};

/// `--export-NAME FILE` for each format of a gate's report.
#[derive(Clone, Debug, Default)]
pub(super) struct GateExports {
    files: Vec<(&'static str, PathBuf)>,
}

/// The names of the formats, for `--format`.
pub(super) fn format_names() -> PossibleValuesParser {
    PossibleValuesParser::new(GATE_FORMATS.iter().map(|format| format.name))
}

fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl GateExports {
    /// Whether an export takes standard output.
    pub(super) fn prints(&self) -> bool {
        self.files.iter().any(|(_, path)| is_standard_output(path))
    }

    /// Fails early if a file could not be written later, or standard output would get two formats.
    pub(super) fn check(&self, format_given: bool) -> Result<()> {
        let printed = self.files.iter().filter(|(_, path)| is_standard_output(path));
        let printed: Vec<&str> = printed.map(|(name, _)| *name).collect();
        if let [name, ..] = printed[..]
            && (printed.len() > 1 || format_given)
        {
            let why = format!(
                "--export-{name} -: standard output takes one format; give the others a file"
            );
            return Err(fail(Status::Usage, why));
        }
        let mut files = self.files.iter().filter(|(_, path)| !is_standard_output(path));
        files.try_for_each(|(name, path)| check_folder(&format!("--export-{name}"), path))
    }

    /// Writes every file.
    pub(super) fn write(&self, view: &GateView<'_>) -> Result<()> {
        let style = Style::plain();
        let plain = GateView { style: &style, ..*view };
        for (name, path) in &self.files {
            let text = render(name, &plain)?;
            if is_standard_output(path) {
                print(&text)?;
                continue;
            }
            std::fs::write(path, text)
                .with_context(|| format!("cannot write '{}'", path.display()))
                .status(Status::Missing)?;
        }
        Ok(())
    }
}

// Written by hand so that a new row of GATE_FORMATS has its flag.
impl clap::FromArgMatches for GateExports {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut exports = GateExports::default();
        exports.update_from_arg_matches(matches)?;
        Ok(exports)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for format in GATE_FORMATS {
            if let Some(path) = matches.get_one::<PathBuf>(&format!("export-{}", format.name)) {
                self.files.push((format.name, path.clone()));
            }
        }
        Ok(())
    }
}

impl clap::Args for GateExports {
    fn augment_args(command: Command) -> Command {
        GATE_FORMATS.iter().fold(command, |command, format| {
            let help = format!("Write {} to FILE; - prints it in place of the text", format.help);
            let argument: Arg = export_argument(format.name, &help);
            command.arg(argument.help_heading("Output"))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
