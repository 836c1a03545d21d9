//! `opcost resume`: makes the runs that a recording lacks.

use anyhow::{Context, Result};
use clap::Args;
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_base::message::announce;
use opcost_command::globals::{Globals, check_store_owner};
use opcost_command::output::OutputArgs;
use opcost_command::record::record;
use opcost_lab::recording::machine_for;
use opcost_model::recording::Recording;
use opcost_store::store::{Store, StoreError};
use opcost_sys::interrupt::Interrupt;

/// Arguments of `opcost resume`.
#[derive(Args, Debug)]
pub struct ResumeArgs {
    /// The recording: its identifier, the identifier's beginning, or last (the last that was made
    /// here)
    #[arg(default_value = "last")]
    pub id: String,

    /// Also resume a recording that arrived in a file: run its sender's commands here, as you
    #[arg(long)]
    pub trust: bool,

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
        .and_then(|store| match args.id.as_str() {
            "last" => store.read(&store.last_made_here()?),
            id => store.read(id),
        })
        .map_err(StoreError::carried)?;
    let plan = recording.plan.clone();
    check_trust(&recording, args.trust)?;
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

/// Shows what a recording from elsewhere would execute here, and refuses it unless the user trusts it.
///
/// # Errors
/// Usage: the recording arrived in a file, and `--trust` is not given.
fn check_trust(recording: &Recording, trust: bool) -> Result<()> {
    if recording.arrived_unix_ns.is_none() {
        return Ok(());
    }
    let id = &recording.id;
    let lines: String =
        recording.plan.executed().iter().map(|line| format!("\n  {line}")).collect();
    if trust {
        announce!("recording {id} arrived in a file; its runs use, on this computer:{lines}");
        return Ok(());
    }
    let why = format!(
        "recording {id} arrived in a file, and to resume it runs its sender's commands on this computer, as you:{lines}\n\
         if you trust all of them: opcost resume {id} --trust"
    );
    Err(fail(Status::Usage, why))
}
