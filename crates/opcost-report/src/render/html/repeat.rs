//! How to make the recording again.

use crate::render::View;
use anyhow::Result;
use maud::{Markup, html};

/// # Errors
/// The experiment cannot be written as TOML.
pub(super) fn section(view: &View<'_>) -> Result<Markup> {
    let plan = &view.recording.plan;
    let Some(experiment) = plan.to_experiment() else {
        let files = plan.imported().into_iter().flat_map(|import| &import.sources);
        let files: Vec<String> = files.map(|source| quoted(&source.file)).collect();
        return Ok(html! {
            p { "Nothing was run: the figures were read from files. Read them again with" }
            pre { code { "opcost import " (files.join(" ")) } }
        });
    };
    let text = experiment.to_toml()?;
    let hooks = plan.hooks.setup.is_some() || plan.hooks.cleanup.is_some();
    Ok(html! {
        p { "Save this as " code { "experiment.toml" } ", and run it:" }
        pre { code { "opcost run experiment.toml" } }
        pre { code { (text) } }
        p {
            "Every default and the seed are written out: the order of the runs is the same again, and the work "
            "as far as programs and files are. "
            @if let Some(folder) = plan.hooks.cwd.as_ref().filter(|_| hooks) {
                "Its commands for set-up and clean-up ran in " code { (folder.display()) } ". "
            }
            @if plan.cpu.is_some() { "Runs are pinned to a CPU of that number. " }
        }
    })
}

/// A word quoted for a shell.
pub(super) fn quoted(word: &str) -> String {
    // Only a NUL cannot be quoted, and no name of a file or of an experiment has a NUL.
    shlex::try_quote(word).map_or_else(|_| word.to_string(), |quoted| quoted.into_owned())
}
