//! Files that profiles are exported to.

use crate::exports::{ExportFiles, FormatTable};
use anyhow::{Context, Result};
use opcost_analysis::comparison::call_tree::{CallTree, VariantOf};
use opcost_attribution::function_costs::profiled_runs;
use opcost_base::exit::{HasStatus, Status, fail};
use opcost_base::listing::few;
use opcost_model::recording::Recording;
use opcost_profile::table::FunctionTable;
use opcost_record::nearest::did_you_mean;
use opcost_record::printable::printable;
use opcost_report::render::profile::callgrind::LineCosts;
use opcost_report::render::profile::{PROFILE_FORMATS, ProfileFormat, RenderSteps};
use opcost_steps::Side;

/// Files that profiles are exported to.
pub type ProfileExports = ExportFiles<Profiles>;

/// The formats of profiles.
#[derive(Clone, Debug, Default)]
pub struct Profiles;

impl FormatTable for Profiles {
    const HEADING: &'static str = "Profiles";

    fn rows() -> Vec<(&'static str, String)> {
        let help = |help| format!("Write to FILE {help}; - prints it in place of the table");
        PROFILE_FORMATS.iter().map(|format| (format.name, help(format.help))).collect()
    }
}

/// The format of this name.
fn format(name: &str) -> Result<&'static ProfileFormat> {
    PROFILE_FORMATS.iter().find(|format| format.name == name).context("unknown format")
}

impl ProfileExports {
    /// Writes every file.
    ///
    /// `named`: names of variants; if there are none, all variants of the recording are written.
    ///
    /// `lines`: finds the source lines of a variant.
    ///
    /// # Errors
    /// No such variant, more variants than fit into a file, no profiles, or a file cannot be written.
    pub fn write(
        &self,
        recording: &Recording,
        named: &[String],
        lines: impl Fn(VariantOf<'_>) -> LineCosts,
    ) -> Result<()> {
        let variants = chosen(recording, named)?;
        self.write_each(|name| {
            let format = format(name)?;
            if variants.len() > format.variants_max {
                let why = format!(
                    "--export-{name} has room for {} variant{}: say which with --variant NAME; \
                     recording {} has {}",
                    format.variants_max,
                    if format.variants_max == 1 { "" } else { "s" },
                    recording.id,
                    few(&names(recording))
                );
                return Err(fail(Status::Usage, why));
            }
            if let Some(render) = format.render_steps {
                return of_steps(variants[0], name, render);
            }
            let tree = CallTree::of(&variants).map_err(HasStatus::carried)?;
            format.render_lines(&tree, || lines(variants[0]))
        })
    }

    /// Writes every file from a profile without stacks.
    ///
    /// `event`: the event whose cost it holds; `name`: the profile's name.
    ///
    /// # Errors
    /// A format needs stacks, or a file cannot be written.
    pub fn write_table(&self, table: &FunctionTable, event: &str, name: &str) -> Result<()> {
        self.write_each(|export| {
            let rendered = format(export)?.render_table(table, event, name);
            rendered.ok_or_else(|| {
                let why = format!(
                    "{name} has calls between functions but no stacks, so --export-{export} has nothing to \
                     write; --export-callgrind writes calls"
                );
                fail(Status::Usage, why)
            })
        })
    }

    /// Writes every file from a tree with one side.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_tree(&self, tree: &CallTree) -> Result<()> {
        self.write_each(|name| format(name)?.render(tree))
    }
}

/// The steps of the last run of a variant that has some, as a file.
fn of_steps(variant: VariantOf<'_>, export: &str, render: RenderSteps) -> Result<Vec<u8>> {
    let runs = profiled_runs(variant.recording);
    let mut own = runs.iter().rev().filter(|run| run.variant == variant.variant);
    match own.find_map(|run| Side::of(variant.name(), &run.profile)) {
        Some(side) => render(&side),
        None => {
            let why = format!(
                "--export-{export}: '{}' of recording {} has no steps; record it with --machine emulated --steps",
                variant.name(),
                variant.recording.id
            );
            Err(fail(Status::Usage, why))
        }
    }
}

fn names(recording: &Recording) -> Vec<&str> {
    recording.plan.variants.iter().map(|variant| variant.name.as_str()).collect()
}

/// A variant by its name, or by its position from 1.
///
/// # Errors
/// There is no such variant.
pub fn find_variant<'a>(recording: &'a Recording, name: &str) -> Result<VariantOf<'a>> {
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
                few(&known)
            );
            Err(fail(Status::Usage, why))
        }
    }
}

/// The variants with these names, in this order; all variants of the recording if there are no names.
fn chosen<'a>(recording: &'a Recording, named: &[String]) -> Result<Vec<VariantOf<'a>>> {
    if named.is_empty() {
        let all = 0..recording.plan.variants.len();
        return Ok(all.map(|variant| VariantOf { recording, variant }).collect());
    }
    named.iter().map(|name| find_variant(recording, name)).collect()
}
