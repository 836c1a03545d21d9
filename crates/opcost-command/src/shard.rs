//! The runs of one shard: `opcost run --shard`, begun or continued.

use crate::globals::Globals;
use crate::output::OutputArgs;
use anyhow::Result;
use opcost_base::exit::{HasStatus, Status, fail};
use opcost_base::message::announce;
use opcost_model::plan::{Plan, Shard};
use opcost_model::recording::{Recording, State};
use opcost_record::Outcome;
use opcost_store::store::{Store, StoreError};

/// Refuses options that print or export a shard's figures, because a shard decides nothing alone.
///
/// # Errors
/// Usage: names the options.
pub fn check_output(shard: Shard, output: &OutputArgs) -> Result<()> {
    if !output.is_given() {
        return Ok(());
    }
    let why = format!(
        "--shard {shard}: a shard decides nothing alone, so it prints and exports nothing; give --format, --json, \
         --export-… and --fail-on to opcost gather"
    );
    Err(fail(Status::Usage, why))
}

/// The recording of a plan's shard in a store, if there is one that is complete or can be
/// continued: none of its runs has failed.
///
/// # Errors
/// The store cannot be read.
pub fn earlier(store: &Store, plan: &Plan) -> Result<Option<Recording>> {
    let common = plan.common_to_shards();
    let mut found: Option<Recording> = None;
    for head in store.list().map_err(StoreError::carried)? {
        if head.experiment != plan.experiment || head.imported {
            continue;
        }
        let recording = store.read(&head.id).map_err(StoreError::carried)?;
        let is_this = recording.plan.shard() == plan.shard()
            && recording.plan.common_to_shards() == common
            && recording.records.iter().all(|record| record.outcome == Outcome::Finished);
        if is_this && found.as_ref().is_none_or(|known| known.state != State::Finished) {
            found = Some(recording);
        }
    }
    Ok(found)
}

/// Reports that a shard is made; `already`: whether it was made before.
pub fn report(globals: &Globals, shard: Shard, recording: &Recording, already: bool) {
    if globals.quiet {
        return;
    }
    let Recording { id, records, plan, .. } = recording;
    let runs = records.len() - plan.warm_up_count();
    let made = if already { "was made already" } else { "is made" };
    announce!(
        "shard {shard} {made}: {runs} runs, and {} that every shard makes (recording {id}); opcost gather \
         joins all {}",
        plan.warm_up_count(),
        shard.of
    );
}
