//! `opcost kernel forget`, and the kept states of booted guests in `opcost kernel list`.

use crate::command::kernel::day;
use anyhow::{Context, Result};
use clap::Args;
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_kernel::{default_cache, short};
use opcost_lab::machine::emulated::booted::{self, Entry, KEPT_BYTES_MAX};
use opcost_page::document::{Cell, Column, Document, Mark, Row, Table};
use opcost_page::writer;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

/// Arguments of `opcost kernel forget`.
#[derive(Args, Debug)]
pub(super) struct ForgetArgs {
    /// The kernels: their names, or the beginnings of their keys or commits
    #[arg(value_name = "KERNEL", required_unless_present = "states")]
    kernels: Vec<String>,

    /// Remove the kept states of all booted guests, and no kernel
    #[arg(long, conflicts_with = "kernels")]
    states: bool,
}

/// Lists the kept states.
pub(super) fn list(globals: &Globals, json: bool) -> Result<Status> {
    let (_, entries) = states();
    let text = if json {
        let row = |entry: &Entry| {
            json!({
                "key": entry.key,
                "kernel": entry.description.kernel,
                "kernel_digest": entry.description.kernel_digest,
                "machine": entry.description.machine,
                "emulator": entry.description.emulator,
                "made_unix_ns": entry.description.made_unix_ns,
                "disk_bytes": entry.bytes,
            })
        };
        let rows: Vec<Value> = entries.iter().map(row).collect();
        opcost_base::json::document(&rows, "list")?
    } else {
        writer::text::text(&document(&entries), &globals.style())
    };
    print(&text)?;
    Ok(Status::Done)
}

fn document(entries: &[Entry]) -> Document {
    let mut document = Document::default();
    if entries.is_empty() {
        document.say(Mark::None, "no states of booted guests are kept");
    }
    let row = |entry: &Entry| {
        let used = entry.used.duration_since(UNIX_EPOCH).unwrap_or_default();
        Row::of(vec![
            Cell::text(&entry.description.kernel),
            Cell::text(short(&entry.key)),
            Cell::figure(size(entry.bytes)),
            Cell::text(day(u64::try_from(used.as_nanos()).unwrap_or_default())),
            Cell::text(&entry.description.machine),
        ])
    };
    let heads = ["kernel", "key", "size", "used"].map(Column::fixed);
    document.table(Table {
        caption: None,
        columns: heads.into_iter().chain([Column::below("machine")]).collect(),
        rows: entries.iter().map(row).collect(),
    });
    document
}

/// Adds one line about all kept states, if there are any.
pub(super) fn summary(document: &mut Document) {
    let (_, entries) = states();
    if entries.is_empty() {
        return;
    }
    let bytes = entries.iter().map(|entry| entry.bytes).sum();
    let states = if entries.len() == 1 { "state" } else { "states" };
    let words = format!(
        "{} kept {states} of booted guests, {} of {} at most: ",
        entries.len(),
        size(bytes),
        size(KEPT_BYTES_MAX),
    );
    document.say_code(Mark::None, words, "opcost kernel list --states");
}

/// Removes kernels and kept states.
///
/// # Errors
/// There is no such kernel, or a file cannot be removed.
pub(super) fn forget(args: &ForgetArgs) -> Result<Status> {
    let (folder, mut entries) = states();
    let mut text = String::new();
    if !args.states {
        let cache = default_cache().map_err(HasStatus::carried)?;
        let mut removed = Vec::new();
        for name in &args.kernels {
            let of_name = opcost_kernel::forget(&cache, name).map_err(HasStatus::carried)?;
            if of_name.is_empty() {
                let what =
                    format!("no kernel '{name}' in the cache; opcost kernel list shows them");
                return Err(fail(Status::Missing, what));
            }
            removed.extend(of_name);
        }
        entries.retain(|entry| {
            removed.iter().any(|kernel| kernel.digest == entry.description.kernel_digest)
        });
        for kernel in &removed {
            text += &format!("removed kernel {} ({})\n", kernel.shown_name(), short(&kernel.key));
        }
    }
    if args.states {
        booted::sweep(&folder);
    }
    let (mut bytes, mut count) = (0, 0);
    for entry in &entries {
        let gone = booted::forget(&folder, &entry.key)
            .with_context(|| format!("cannot remove the state {}", short(&entry.key)))
            .status(Status::Missing)?;
        if gone {
            (bytes, count) = (bytes + entry.bytes, count + 1);
        } else {
            text += &format!("state {} is in use and stays\n", short(&entry.key));
        }
    }
    let states = if count == 1 { "state" } else { "states" };
    text += &format!("removed {count} kept {states} of booted guests, {}\n", size(bytes));
    print(&text)?;
    Ok(Status::Done)
}

/// The folder of the kept states, and the states; without a cache folder there are none.
fn states() -> (PathBuf, Vec<Entry>) {
    let folder = booted::folder().unwrap_or_default();
    let entries = booted::kept(&folder);
    (folder, entries)
}

fn size(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
