//! `opcost attach --keep`: sets a key from outside and leaves it set.

use anyhow::Result;
use opcost_base::exit::Status;
use opcost_base::number::figure;
use opcost_command::output::print;
use opcost_lab::machine::attached::{carried, stand_guard};
use opcost_record::Unit;
use patchpoint_attach::change::Change;
use patchpoint_attach::process::Process;
use patchpoint_attach::survey::Key;
use patchpoint_attach::writes::Side;
use serde_json::json;

/// A key, and its values before and after as text.
pub(super) struct Kept<'a> {
    pub(super) key: &'a Key,
    /// The key's name as `--key` takes it.
    pub(super) name: String,
    pub(super) before: String,
    pub(super) after: String,
}

/// The number of sites written, and how long the program stood still.
struct Written {
    sites: usize,
    stopped_ns: u64,
}

/// Sets a key to another value than it has.
///
/// The guardian stands by meanwhile, and takes back a change that is cut short.
pub(super) fn keep(
    process: &Process,
    change: &Change,
    kept: &Kept<'_>,
    json: bool,
) -> Result<Status> {
    let guardian = stand_guard(process, &kept.key.name, change)?;
    let applied = process.apply(change, Side::FOUND, Side::ASKED, |_| ());
    guardian.stop();
    let stopped_ns = applied.map_err(carried)?.stopped_ns;
    report(process, kept, Some(&Written { sites: change.code_writes, stopped_ns }), json)
}

/// Reports that a key has the value already.
pub(super) fn already(process: &Process, kept: &Kept<'_>, json: bool) -> Result<Status> {
    report(process, kept, None, json)
}

fn report(
    process: &Process,
    kept: &Kept<'_>,
    written: Option<&Written>,
    json: bool,
) -> Result<Status> {
    if !json {
        print(&text(process, kept, written))?;
        return Ok(Status::Done);
    }
    let Kept { key, before, after, .. } = kept;
    let said = json!({
        "schema": 1,
        "pid": process.pid,
        "program": process.name,
        "key": key.name,
        "object": key.path,
        "kind": key.kind.word(),
        "value_before": before,
        "value": after,
        "changed": written.is_some(),
        "sites": key.sites.len(),
        "sites_written": written.map_or(0, |written| written.sites),
        "stopped_ns": written.map(|written| written.stopped_ns),
    });
    print(&opcost_base::json::document(&said, "sites")?)?;
    Ok(Status::Done)
}

fn text(process: &Process, kept: &Kept<'_>, written: Option<&Written>) -> String {
    let Kept { key, name, before, after } = kept;
    let head = format!("{} (process {}): '{name}'", process.name, process.pid);
    let Some(Written { sites, stopped_ns }) = written else {
        return format!("{head} is {after} already; nothing was changed\n");
    };
    let all = key.sites.len();
    let others = if *sites < all { ", the others read the key" } else { "" };
    let stopped = figure(*stopped_ns as f64, Unit::Ns);
    let pid = process.pid.to_string();
    let back = ["opcost", "attach", &pid, "--key", name, "--to", before, "--keep"];
    // No text of another program has a 0 byte.
    let back = shlex::try_join(back).unwrap_or_default();
    format!(
        "{head} was {before} and is {after} now\n\
         {sites} of {all} sites written{others}; the program stood still for {stopped}\n\
         back: {back}\n"
    )
}
