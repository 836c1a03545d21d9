//! Machines on which work runs, and their recorded state.

pub mod attached;
pub mod emulated;
pub mod host;
mod illegal;
mod printed;
mod program_regions;
pub mod revision;
mod state;
mod streams;
mod window;

pub use state::read_state;

use anyhow::Result;
use opcost_model::plan::{Group, Plan};
use opcost_model::recording::MachineState;
use opcost_record::{Failure, Outcome, Profile, Report};
use opcost_sys::spawn::{EndedBy, Status};
use std::ffi::OsString;

/// The result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// Start, nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// How the run ended.
    pub outcome: Outcome,
    /// The exit status, if the program ended by itself.
    pub exit_code: Option<i32>,
    /// The run's figures.
    pub report: Report,
    /// The run's instructions by calling context, if the machine attributes them.
    pub profile: Option<Profile>,
}

/// The result of a group of runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Together {
    /// Every process made all its runs.
    Made {
        /// The ends of each process's runs, in the order of the group.
        processes: Vec<Vec<RunEnd>>,
        /// Whether the machine learned of new files, so that the profiles of these runs lack names.
        learned: bool,
        /// Whether opcost itself was stopped meanwhile (Ctrl-Z), so that these runs' times include its pause.
        suspended: bool,
    },
    /// A signal interrupted the group.
    Interrupted {
        /// The ends of the first processes of the group, which had made all their runs.
        processes: Vec<Vec<RunEnd>>,
    },
}

impl Together {
    /// The result for one process; `None` if a signal interrupted it.
    pub fn of_one(ends: Option<Vec<RunEnd>>) -> Together {
        match ends {
            Some(ends) => {
                Together::Made { processes: vec![ends], learned: false, suspended: false }
            }
            None => Together::Interrupted { processes: Vec::new() },
        }
    }
}

/// The outcome of a command by the plan's rules.
fn outcome(plan: &Plan, ended_by: EndedBy, status: Status) -> Outcome {
    match (ended_by, status) {
        (EndedBy::Timeout, _) => Outcome::Failed(Failure::Timeout {
            limit_ms: plan.timeout_ms.unwrap_or_default(),
            stderr: None,
        }),
        (EndedBy::Stop { signal }, _) => Outcome::Failed(Failure::Stopped { signal, stderr: None }),
        (_, Status::Code(code)) if plan.ignore_failure.finishes(code) => Outcome::Finished,
        (_, Status::Code(code)) => Outcome::Failed(Failure::ExitStatus { code, stderr: None }),
        (_, Status::Signal(signal)) => Outcome::Failed(Failure::Signal { signal, stderr: None }),
    }
}

/// A machine on which work runs.
///
/// Machines only make runs. `run::run` decides which runs are made and repeated, executes the hooks
/// around them and stores their results.
pub trait Machine {
    /// The number of processes that can make runs at the same time without disturbing each other.
    fn width(&self) -> usize {
        1
    }

    /// Makes the runs of a group and waits for all of them.
    ///
    /// The caller has resolved the plan for this machine, has taken the group from [`Plan::groups`]
    /// with this machine's [`width`](Self::width), and has executed the hooks that come before the
    /// runs. The machine need not check this.
    ///
    /// The machine promises:
    /// * each run does the work of its slot's variant, with the slot's seed and padding;
    /// * the ends are in the order of the group: one list for each process, with one end for each
    ///   run. The caller checks these numbers before it stores anything;
    /// * a run whose work failed has an end with the failure; the runs after it are still made;
    /// * after a signal, the machine begins no run, waits for none, and returns no process that
    ///   lacks a run;
    /// * the same group may be run again; its runs are then made anew.
    ///
    /// # Errors
    /// The machine cannot make a process, open a counter, collect samples, or read the results of a
    /// run. No run of the group is stored then.
    fn run_together(&mut self, plan: &Plan, group: &Group<'_>) -> Result<Together>;

    /// The environment of a variant's work, for the hooks of this variant; `None` if opcost does
    /// not start the work: then there are no hooks.
    fn environment(&self, variant: usize) -> Option<&[(OsString, OsString)]>;

    /// Sets whether processes that lose their parents become opcost's children, to be ended after
    /// the run. They do at first, but not while a hook runs: processes that a hook starts may stay.
    ///
    /// # Errors
    /// The kernel refuses.
    fn adopt_orphans(&mut self, _adopt: bool) -> Result<()> {
        Ok(())
    }

    /// Sets whether what compared runs print on standard error is kept, which may cost them time. Machines on which it costs
    /// nothing always keep it.
    fn keep_stderr(&mut self, _keep: bool) {}

    /// Makes the machine measure the phases of its runs.
    fn keep_seconds(&mut self) {}

    /// The times of all phases so far, as lines; `None` if the machine does not measure them.
    fn seconds(&self) -> Option<String> {
        None
    }

    /// A digest of all that the plan's counts depend on: runs with the same digest count the same. `None` if counts vary here, or may
    /// depend on more.
    fn inputs(&self, _plan: &Plan) -> Option<String> {
        None
    }

    /// The machine's state, if the runs revealed more of it.
    fn state_now(&self) -> Option<MachineState> {
        None
    }
}
