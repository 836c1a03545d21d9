//! Where work runs, and the state of that machine as it is recorded.

pub mod emulated;
pub mod host;
mod program_regions;
pub mod revision;
mod state;
mod streams;
mod window;

pub use state::read_state;

use crate::plan::{Group, Plan};
use crate::recording::MachineState;
use anyhow::Result;
use opcost_record::{Failure, Outcome, Profile, Report};
use opcost_sys::spawn::{EndedBy, Status};
use std::ffi::OsString;

/// What one run gave.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// Start, nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Exit status, where the program ended by itself.
    pub exit_code: Option<i32>,
    /// Its figures.
    pub report: Report,
    /// Its instructions by calling context, from a machine that attributes them.
    pub profile: Option<Profile>,
}

/// What became of a group of runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Together {
    /// Every process made all its runs.
    Made {
        /// The ends of each process's runs, in the order of the group.
        processes: Vec<Vec<RunEnd>>,
        /// Whether the machine now knows files that it did not know before, so that the profiles of
        /// these runs lack names.
        learned: bool,
    },
    /// A signal interrupted the group.
    Interrupted {
        /// The ends of the processes that had made all their runs: the first ones of the group.
        processes: Vec<Vec<RunEnd>>,
    },
}

impl Together {
    /// The ends of one process, or of none where a signal interrupted it.
    pub fn of_one(ends: Option<Vec<RunEnd>>) -> Together {
        match ends {
            Some(ends) => Together::Made { processes: vec![ends], learned: false },
            None => Together::Interrupted { processes: Vec::new() },
        }
    }
}

/// What a command's end means to its plan.
fn outcome(plan: &Plan, ended_by: EndedBy, status: Status) -> Outcome {
    match (ended_by, status) {
        (EndedBy::Timeout, _) => {
            Outcome::Failed(Failure::Timeout { limit_ms: plan.timeout_ms.unwrap_or_default() })
        }
        (_, Status::Code(0)) => Outcome::Finished,
        (_, Status::Code(_)) if plan.ignore_failure => Outcome::Finished,
        (_, Status::Code(code)) => Outcome::Failed(Failure::ExitStatus { code }),
        (_, Status::Signal(signal)) => Outcome::Failed(Failure::Signal { signal }),
    }
}

/// A place where work runs.
///
/// Machines make runs and nothing else. `run::run` decides which runs are made and which are made
/// again, executes the hooks around them and stores what they gave.
pub trait Machine {
    /// How many processes can make runs at the same time without disturbing each other.
    fn width(&self) -> usize {
        1
    }

    /// Makes the runs of a group and waits for all of them.
    ///
    /// The caller has resolved the plan for this machine, has taken the group from [`Plan::groups`]
    /// with this machine's [`width`](Self::width), and has executed the hooks that come before the
    /// runs. The machine need not check any of this.
    ///
    /// The machine promises:
    /// * each run does the work of its slot's variant, with the slot's seed and padding;
    /// * the ends are in the order of the group: a process for each of its processes, with an end for
    ///   each of its runs. The caller checks these numbers before it stores anything;
    /// * a run whose work failed has an end that says so; the runs after it are made nevertheless;
    /// * after a signal no run is begun, none is waited for any longer, and no process that lacks a run
    ///   is among the ends;
    /// * a group may be asked for again, and its runs are then made anew.
    ///
    /// # Errors
    /// The machine refuses what it cannot do at all: it cannot make a process, cannot open a counter
    /// or collect samples, or cannot read what a run left. No run of the group is stored then.
    fn run_together(&mut self, plan: &Plan, group: &Group<'_>) -> Result<Together>;

    /// The environment of a variant's work, for the hooks of this variant; `None` where opcost does
    /// not start the work, so that there are no hooks.
    fn environment(&self, variant: usize) -> Option<&[(OsString, OsString)]>;

    /// Says whether processes that lose their parents become opcost's children, to be ended after the
    /// run. They do from the start; not while a hook runs, since what a hook starts may stay.
    ///
    /// # Errors
    /// The kernel refuses.
    fn adopt_orphans(&mut self, _adopt: bool) -> Result<()> {
        Ok(())
    }

    /// Has the machine note what the phases of its runs take.
    fn keep_seconds(&mut self) {}

    /// What all phases took so far, as lines; `None` where a machine does not note it.
    fn seconds(&self) -> Option<String> {
        None
    }

    /// The machine's state, if the runs showed more of it than was known before.
    fn state_now(&self) -> Option<MachineState> {
        None
    }
}
