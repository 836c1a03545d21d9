//! Variants as command lines name them.

use anyhow::Result;
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_lab::resolve::{split_workload, unbalanced};
use opcost_model::experiment::{Command as CommandText, Experiment, Variant};
use opcost_record::printable::printable_bytes;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// An experiment with a variant for each command and each workload.
pub fn with_variants(
    experiment: &Experiment,
    commands: &[OsString],
    workloads: &[String],
) -> Result<Experiment> {
    let mut experiment = experiment.clone();
    for line in commands {
        let command = Some(command_of(line, experiment.shell())?);
        experiment.variants.push(Variant { command, ..Variant::default() });
    }
    for workload in workloads {
        experiment.variants.push(parse_workload(workload)?);
    }
    Ok(experiment)
}

/// A command as it was given. A command that is not UTF-8 is split here, because neither JSON nor TOML can hold its line.
pub fn command_of(line: &OsStr, shell: Option<&str>) -> Result<CommandText> {
    if let Some(text) = line.to_str() {
        return Ok(CommandText::Line(text.to_string()));
    }
    if let Some(shell) = shell {
        return Ok(CommandText::Words(vec![shell.into(), "-c".into(), line.to_os_string()]));
    }
    let words = shlex::bytes::split(line.as_bytes())
        .ok_or_else(|| unbalanced(&printable_bytes(line.as_bytes())))?;
    Ok(CommandText::Words(words.into_iter().map(OsString::from_vec).collect()))
}

/// Reads `NAME[:KEY=VALUE,...]`.
pub fn parse_workload(text: &str) -> Result<Variant> {
    let (name, params) = split_workload(text)
        .map_err(|why| fail(Status::Usage, format!("--workload {text}: {why}")))?;
    Ok(Variant { workload: Some(name), params, ..Variant::default() })
}
/// The experiment of a command line with its `--set`.
///
/// # Errors
/// Usage: a key or value is wrong.
pub fn with_sets(
    experiment: Experiment,
    sets: &[String],
    flags: &Experiment,
) -> Result<Experiment> {
    // A command that is no text has no form in a table.
    match sets {
        [] => Ok(experiment),
        _ => experiment.overridden(sets, flags).status(Status::Usage),
    }
}
