//! `opcost gather`: joins the shards of a plan into one recording.

use super::export::{is_recording, unpacked_file};
use anyhow::Result;
use clap::Args;
use opcost_base::exit::{HasStatus, Status, fail};
use opcost_command::globals::Globals;
use opcost_command::output::{OutputArgs, present};
use opcost_record::printable::printable;
use opcost_store::gather::{Part, gather};
use opcost_store::store::{Store, StoreError};
use opcost_sys::clock::unix_ns;
use std::path::{Path, PathBuf};

pub(crate) const EXAMPLES: &str = "Examples:
  opcost run mitigations --shard 1/2 --store part-1.sqlite     on one computer
  opcost run mitigations --shard 2/2 --store part-2.sqlite     on another
  opcost gather part-1.sqlite part-2.sqlite                    anywhere";

/// Arguments of `opcost gather`.
#[derive(Args, Debug)]
pub struct GatherArgs {
    /// Stores with the shards that opcost run --shard made, or files of opcost export
    #[arg(value_name = "PART", required = true)]
    pub parts: Vec<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: OutputArgs,
}

/// Joins shards, stores the recording and shows it.
///
/// # Errors
/// Usage: a file has no shard, or two have the same. Missing: a shard is missing or not complete,
/// or a file cannot be read. Not comparable: plans, programs, kernels, emulators or counts differ.
pub fn gather_parts(globals: &Globals, args: &GatherArgs) -> Result<Status> {
    args.output.check()?;
    let mut parts = Vec::new();
    for path in &args.parts {
        parts.extend(parts_of(path, globals.read_limit_bytes())?);
    }
    let invocation = parts[0].recording.plan.invocation.as_deref().map(without_shard);
    let mut whole = gather(parts).map_err(HasStatus::carried)?;
    whole.plan.invocation = invocation;
    whole.arrived_unix_ns = Some(unix_ns());
    let store = globals.store_for_writing()?;
    let (store, id) = store.keep(&whole).map_err(StoreError::carried)?;
    let recording = store.read(&id).map_err(StoreError::carried)?;
    present(globals, &recording, &args.output)
}

/// The shards in a file.
///
/// # Errors
/// The file cannot be read, or has no shard.
pub(super) fn parts_of(path: &Path, limit_bytes: u64) -> Result<Vec<Part>> {
    let file = path.display().to_string();
    let read = |store: &Store| -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        for head in store.list().map_err(StoreError::carried)? {
            let recording = store.read(&head.id).map_err(StoreError::carried)?;
            if recording.plan.shard().is_some() {
                parts.push(Part { file: file.clone(), recording });
            }
        }
        Ok(parts)
    };
    let parts = match is_recording(path) {
        true => unpacked_file(path, limit_bytes, read)?,
        false => read(&Store::open_foreign(path, path, limit_bytes).map_err(StoreError::carried)?)?,
    };
    match parts.is_empty() {
        false => Ok(parts),
        true => Err(fail(
            Status::Usage,
            format!(
                "'{}' has no shard of a plan; opcost run --shard I/N --store FILE makes one",
                printable(&file)
            ),
        )),
    }
}

/// A command line without the words for a shard and its store.
fn without_shard(line: &str) -> String {
    let Some(words) = shlex::split(line) else { return line.to_string() };
    let mut kept: Vec<&str> = Vec::new();
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--shard" | "--store" => drop(words.next()),
            _ if word.starts_with("--shard=") || word.starts_with("--store=") => {}
            _ => kept.push(word),
        }
    }
    shlex::try_join(kept).unwrap_or_else(|_| line.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_the_whole_names_no_shard() {
        for line in [
            "opcost run 'my x.toml' --shard 1/4 --store part-1.sqlite --seed 1",
            "opcost --store=part.sqlite run --shard=1/4 'my x.toml' --seed 1",
        ] {
            assert_eq!(without_shard(line), "opcost run 'my x.toml' --seed 1");
        }
    }
}
