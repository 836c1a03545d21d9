//! `opcost forget`.

use anyhow::Result;
use clap::Args;
use opcost_base::exit::{HasStatus, Status, fail};
use opcost_base::number::{figure, grouped};
use opcost_command::chosen::none_chosen;
use opcost_command::globals::{Globals, check_store_owner};
use opcost_command::output::print;
use opcost_page::document::{Cell, Document, Mark};
use opcost_page::writer::text::text;
use opcost_record::Unit;
use opcost_record::printable::printable;
use opcost_store::store::{Choice, Listed, RecordingHead, Store, StoreError};
use serde_json::json;

/// Arguments of `opcost forget`.
#[derive(Args, Debug)]
pub struct ForgetArgs {
    /// The recordings to delete: identifiers, beginnings of identifiers, or last
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,

    /// Delete the recordings of this experiment except the latest, as many as --keep says
    #[arg(long, value_name = "NAME", conflicts_with = "ids")]
    pub experiment: Option<String>,

    /// Keep this many recordings of the experiment, the latest
    #[arg(long, value_name = "N", requires = "experiment", default_value_t = 0)]
    pub keep: usize,

    /// Also delete recordings that are still being made. A recording of a killed opcost counts as
    /// such
    #[arg(long)]
    pub running: bool,

    /// Return the space of deleted recordings to the file system
    #[arg(long)]
    pub compact: bool,

    /// Report what opcost would delete, and delete nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Print JSON on standard output; --json - is the same
    #[arg(long)]
    pub json: bool,
}

/// Deletes recordings, and compacts the store if asked to.
///
/// # Errors
/// Usage: nothing to do, no such recording or experiment, a recording that is being made. Missing: the
/// store cannot be written.
pub fn forget(globals: &Globals, args: &ForgetArgs) -> Result<Status> {
    if args.ids.is_empty() && args.experiment.is_none() && !args.compact {
        let why = "say which recordings: identifiers as opcost list recordings shows them, or \
                   --experiment NAME; --compact gives back the room of what was deleted before";
        return Err(fail(Status::Usage, why));
    }
    // Not opened for writing yet: that would make a store if there is none.
    let path = globals.store_path()?;
    check_store_owner(&path)?;
    let listed = Store::open_for_reading(&path).and_then(|store| store.list_all());
    let listed = listed.map_err(StoreError::carried)?;
    let chosen = chosen(args, &listed, &path)?;
    if !args.dry_run {
        let mut store = Store::open_for_writing(&path).map_err(StoreError::carried)?;
        let ids: Vec<String> = chosen.iter().map(|chosen| chosen.id.clone()).collect();
        store.forget(&ids, args.running).map_err(StoreError::carried)?;
        if args.compact {
            store.compact().map_err(StoreError::carried)?;
        }
    }
    let room = Store::open_for_reading(&path).and_then(|store| store.room());
    let room = room.map_err(StoreError::carried)?;
    let text = if args.json {
        let value = json!({
            "forgotten": chosen.iter().map(|chosen| &chosen.id).collect::<Vec<_>>(),
            "dry_run": args.dry_run,
            "store_bytes": room.bytes,
            "free_bytes": room.free_bytes,
        });
        opcost_base::json::document(&value, "recordings")?
    } else {
        let mut document = Document::default();
        let row = |Chosen { id, what }: &Chosen| vec![Cell::text(id), Cell::text(printable(what))];
        document.rows(chosen.iter().map(row));
        let verb = if args.dry_run { "would forget" } else { "forgot" };
        let mut said = String::new();
        if !chosen.is_empty() || !args.compact {
            let recordings = if chosen.len() == 1 { "recording" } else { "recordings" };
            said = format!("{verb} {} {recordings}; ", chosen.len());
        }
        let bytes = |bytes: u64| figure(bytes as f64, Unit::Bytes);
        said += &format!("the store has {}", bytes(room.bytes));
        if room.free_bytes > 0 {
            let free = bytes(room.free_bytes);
            said += &format!(", of which {free} are free: opcost forget --compact gives them back");
        }
        document.say(Mark::None, said);
        text(&document, &globals.style())
    };
    print(&text)?;
    Ok(Status::Done)
}

/// A recording to delete.
struct Chosen {
    id: String,
    /// A description of the recording, in a few words.
    what: String,
}

impl Chosen {
    fn of(head: &RecordingHead) -> Chosen {
        let what = format!("{}, {} runs", head.experiment, grouped(head.runs));
        Chosen { id: head.id.clone(), what }
    }
}

/// The recordings to delete, each once.
fn chosen(args: &ForgetArgs, listed: &Listed, path: &std::path::Path) -> Result<Vec<Chosen>> {
    let heads = &listed.heads;
    let store = Store::open_for_reading(path).map_err(StoreError::carried)?;
    if let Some(experiment) = &args.experiment {
        let all: Vec<&RecordingHead> =
            heads.iter().filter(|head| head.experiment == *experiment).collect();
        if all.is_empty() {
            let choice = Choice { experiment: Some(experiment), ..Choice::default() };
            return Err(none_chosen(&store, &choice)?);
        }
        let kept = all.len().saturating_sub(args.keep);
        return Ok(all[..kept].iter().map(|head| Chosen::of(head)).collect());
    }
    let mut chosen: Vec<Chosen> = Vec::new();
    for id in &args.ids {
        let whole = store.whole_id(id).map_err(StoreError::carried)?;
        if chosen.iter().any(|known| known.id == whole) {
            continue;
        }
        let head = heads.iter().find(|head| head.id == whole);
        // A damaged recording can be deleted although it cannot be read.
        chosen.push(head.map_or_else(|| Chosen { id: whole, what: "damaged".into() }, Chosen::of));
    }
    Ok(chosen)
}
