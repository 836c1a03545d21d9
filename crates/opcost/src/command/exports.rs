//! Files that a comparison is exported to.

use super::output::print;
use crate::exit::{Status, WithStatus, fail};
use crate::render::{FORMATS, Style, View, render};
use anyhow::{Context, Result};
use clap::{Arg, ArgMatches, Command};
use std::path::{Path, PathBuf};

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
                    return Err(fail(Status::Usage, text));
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
                print(&render(name, &plain)?)?;
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
pub(super) fn check_folder(option: &str, path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        None => Ok(()),
        Some(folder) => Err(fail(
            Status::Usage,
            format!("{option} {}: there is no folder '{}'", path.display(), folder.display()),
        )),
    }
}

/// The flag `--export-NAME FILE`.
pub(super) fn export_argument(name: &str, help: &str) -> Arg {
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
