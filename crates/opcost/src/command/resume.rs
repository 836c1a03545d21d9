//! `opcost resume`: makes the runs that a recording lacks.

use super::globals::{Globals, check_store_owner};
use super::output::OutputArgs;
use super::record::{machine_for, record};
use crate::exit::{HasStatus, Status, WithStatus};
use crate::store::{Store, StoreError};
use anyhow::{Context, Result};
use clap::Args;
use opcost_sys::interrupt::Interrupt;

/// Arguments of `opcost resume`.
#[derive(Args, Debug)]
pub struct ResumeArgs {
    /// The recording: its identifier, the identifier's beginning, or last
    #[arg(default_value = "last")]
    pub id: String,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: OutputArgs,
}

/// `opcost resume`.
pub fn resume(globals: &Globals, args: &ResumeArgs) -> Result<Status> {
    args.output.check()?;
    let path = globals.store_path()?;
    check_store_owner(&path)?;
    let recording = Store::open_for_reading(&path)
        .and_then(|store| store.read(&args.id))
        .map_err(StoreError::carried)?;
    let plan = recording.plan.clone();
    let interrupt = Interrupt::install()
        .context("cannot install the signal handler")
        .status(Status::Missing)?;
    let (mut machine, state) = machine_for(globals.quiet, &plan, &interrupt)?;
    let (writer, recording) = Store::open_for_writing(&path)
        .and_then(|store| store.resume(&recording.id, &state))
        .map_err(StoreError::carried)?;
    // Stored runs stay, even failed ones; only runs that are not stored are made.
    let earlier = &recording.records;
    record(globals, &plan, earlier, (machine.as_mut(), &state, &interrupt), writer, &args.output)
}
