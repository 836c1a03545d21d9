//! Files that profiles are exported to.

use super::exports::{check_folder, export_argument};
use crate::comparison::call_tree::{CallTree, VariantOf};
use crate::exit::{HasStatus, Status, WithStatus, fail};
use crate::recording::Recording;
use crate::render::profile::{PROFILE_FORMATS, ProfileFormat};
use anyhow::{Context, Result};
use clap::{ArgMatches, Command};
use opcost_record::nearest::did_you_mean;
use opcost_record::printable::printable;
use std::path::{Path, PathBuf};

/// Files to export profiles to: `--export-NAME FILE` for each format.
#[derive(Clone, Debug, Default)]
pub struct ProfileExports {
    files: Vec<(&'static str, PathBuf)>,
}

impl ProfileExports {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Fails early if a file could not be written later.
    ///
    /// # Errors
    /// Names the file whose folder does not exist.
    pub fn check(&self) -> Result<()> {
        for (name, path) in &self.files {
            check_folder(&format!("--export-{name}"), path)?;
        }
        Ok(())
    }

    /// Writes every file.
    ///
    /// `named`: names of variants; all of the recording if there are none.
    ///
    /// # Errors
    /// No such variant, more than fit into a file, no profiles, a file that cannot be written.
    pub fn write(&self, recording: &Recording, named: &[String]) -> Result<()> {
        let variants = chosen(recording, named)?;
        for (name, path) in &self.files {
            let format = PROFILE_FORMATS.iter().find(|format| format.name == *name);
            let format = format.context("unknown format")?;
            if variants.len() > format.variants_max {
                let why = format!(
                    "--export-{name} has room for {} variants: say which with --variant NAME; \
                     recording {} has {}",
                    format.variants_max,
                    recording.id,
                    names(recording).join(", ")
                );
                return Err(fail(Status::Usage, why));
            }
            let tree = CallTree::of(&variants).map_err(HasStatus::carried)?;
            write(format, &tree, path)?;
        }
        Ok(())
    }

    /// Writes every file, of a tree with one side.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write_tree(&self, tree: &CallTree) -> Result<()> {
        for (name, path) in &self.files {
            let format = PROFILE_FORMATS.iter().find(|format| format.name == *name);
            write(format.context("unknown format")?, tree, path)?;
        }
        Ok(())
    }
}

fn write(format: &ProfileFormat, tree: &CallTree, path: &Path) -> Result<()> {
    std::fs::write(path, format.render(tree)?)
        .with_context(|| format!("cannot write '{}'", path.display()))
        .status(Status::Missing)
}

fn names(recording: &Recording) -> Vec<&str> {
    recording.plan.variants.iter().map(|variant| variant.name.as_str()).collect()
}

/// A variant by its name, or by its position from 1.
///
/// # Errors
/// There is none.
pub(crate) fn find_variant<'a>(recording: &'a Recording, name: &str) -> Result<VariantOf<'a>> {
    let known = names(recording);
    let position = || name.parse().ok().and_then(|position: usize| position.checked_sub(1));
    // Names are stored as they are shown.
    let shown = printable(name);
    let found = known.iter().position(|known| *known == shown).or_else(position);
    match found.filter(|variant| *variant < known.len()) {
        Some(variant) => Ok(VariantOf { recording, variant }),
        None => {
            let near = did_you_mean(name, known.iter().copied());
            let why = format!(
                "--variant {name}: recording {} has no such variant{near}; it has {}",
                recording.id,
                known.join(", ")
            );
            Err(fail(Status::Usage, why))
        }
    }
}

/// The variants with these names in this order; all of the recording if there are none.
fn chosen<'a>(recording: &'a Recording, named: &[String]) -> Result<Vec<VariantOf<'a>>> {
    if named.is_empty() {
        let all = 0..recording.plan.variants.len();
        return Ok(all.map(|variant| VariantOf { recording, variant }).collect());
    }
    named.iter().map(|name| find_variant(recording, name)).collect()
}

// Written by hand so that a new row of PROFILE_FORMATS has its flag.
impl clap::FromArgMatches for ProfileExports {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut exports = ProfileExports::default();
        exports.update_from_arg_matches(matches)?;
        Ok(exports)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for format in PROFILE_FORMATS {
            if let Some(path) = matches.get_one::<PathBuf>(&format!("export-{}", format.name)) {
                self.files.push((format.name, path.clone()));
            }
        }
        Ok(())
    }
}

impl clap::Args for ProfileExports {
    fn augment_args(command: Command) -> Command {
        PROFILE_FORMATS.iter().fold(command, |command, format| {
            let help = format!("Write to FILE {}", format.help);
            command.arg(export_argument(format.name, &help).help_heading("Profiles"))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
