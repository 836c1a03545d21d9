//! The loop over the schedule: one run a slot, stored before the next begins.

use crate::machine::{HookEnd, Machine, RunEnd};
use crate::plan::Plan;
use crate::progress::Progress;
use crate::store::{RecordingWriter, State};
use anyhow::{Context, Result};
use opcost_record::{Failure, Outcome, Record};
use std::collections::HashSet;

/// How a session of running ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// Every slot of the schedule has its run.
    Complete,
    /// A signal stopped it; the run in flight was dropped.
    Interrupted,
    /// A run failed; it and all before it are stored.
    Failed {
        /// Position in the schedule.
        slot: u32,
        /// Index of the variant.
        variant: u16,
        /// How the run failed.
        failure: Failure,
    },
}

impl Ending {
    /// The recording's state after this ending.
    pub fn state(&self) -> State {
        match self {
            Ending::Complete => State::Finished,
            Ending::Interrupted => State::Interrupted,
            Ending::Failed { .. } => State::Failed,
        }
    }
}

/// Makes the runs of a plan that are not in `done` yet.
///
/// Cleanup runs however the session ended, since a setup that failed may have done half its work.
///
/// # Errors
/// The store cannot be written, a hook failed, or the machine cannot launch anything; failures of
/// the work are records and an [`Ending`].
pub fn run(
    plan: &Plan,
    done: &HashSet<u32>,
    machine: &mut dyn Machine,
    writer: &mut RecordingWriter,
    progress: &mut dyn Progress,
) -> Result<Ending> {
    let set_up = match &plan.hooks.setup {
        Some(setup) => machine.hook(plan, None, "setup", setup),
        None => Ok(HookEnd::Done),
    };
    let ending = match set_up {
        Ok(HookEnd::Done) => {
            progress.begin(plan, done.len());
            let ending = run_slots(plan, done, machine, writer, progress);
            progress.end();
            ending
        }
        Ok(HookEnd::Interrupted) => Ok(Ending::Interrupted),
        Err(error) => Err(error),
    };
    let cleaned = match &plan.hooks.cleanup {
        Some(cleanup) => machine.hook(plan, None, "cleanup", cleanup).map(|_| ()),
        None => Ok(()),
    };
    match (ending, cleaned) {
        (Ok(Ending::Complete), Err(error)) => Err(error),
        // It must not hide what came before it.
        (ending, Err(error)) => {
            eprintln!("opcost: {error:#}");
            ending
        }
        (ending, Ok(())) => ending,
    }
}

fn run_slots(
    plan: &Plan,
    done: &HashSet<u32>,
    machine: &mut dyn Machine,
    writer: &mut RecordingWriter,
    progress: &mut dyn Progress,
) -> Result<Ending> {
    for slot in plan.slots().filter(|slot| !done.contains(&slot.slot)) {
        let variant = &plan.variants[usize::from(slot.variant)];
        progress.next(&slot, &variant.name);
        let end = match machine.run(plan, &slot).with_context(|| {
            format!("variant '{}', run {} of recording {}", variant.name, slot.slot, writer.id())
        })? {
            Some(end) => end,
            None => return Ok(Ending::Interrupted),
        };
        let RunEnd { started_unix_ns, outcome, exit_code, report } = end;
        let record = Record {
            slot: slot.slot,
            variant: slot.variant,
            block: slot.block,
            started_unix_ns,
            outcome,
            exit_code,
            ops: report.ops,
            samples: writer.samples(&report),
            invariants: report.invariants,
        };
        writer.append(&record)?;
        if let Outcome::Failed(failure) = record.outcome {
            return Ok(Ending::Failed { slot: slot.slot, variant: slot.variant, failure });
        }
    }
    Ok(Ending::Complete)
}
