//! Where work runs, and the state of that machine as it is recorded.

pub mod emulated;
mod hook;
pub mod host;
pub mod revision;
mod state;
mod window;

pub use state::read_state;

use crate::plan::{Plan, Slot};
use crate::recording::MachineState;
use anyhow::Result;
use opcost_record::{Failure, Outcome, Profile, Report};
use opcost_sys::spawn::{EndedBy, Status};

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

/// How a hook ended that did not fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HookEnd {
    /// With status 0.
    Done,
    /// A signal that interrupts us ended it, too.
    Interrupted,
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
pub trait Machine {
    /// Makes one run; `None` if a signal interrupted it.
    ///
    /// # Errors
    /// The machine itself fails; a failure of the work is part of the [`RunEnd`].
    fn run(&mut self, plan: &Plan, slot: &Slot) -> Result<Option<RunEnd>>;

    /// The machine's state, where making runs told more of it than was known before.
    fn state_now(&self) -> Option<MachineState> {
        None
    }

    /// How many runs can be made at the same time without disturbing each other.
    fn width(&self) -> usize {
        1
    }

    /// Makes several runs, [`width`](Self::width) at most, each as [`run`](Self::run) does.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    fn run_together(&mut self, plan: &Plan, slots: &[Slot]) -> Result<Vec<Option<RunEnd>>> {
        slots.iter().map(|slot| self.run(plan, slot)).collect()
    }

    /// Runs a hook's command and waits for it.
    ///
    /// `variant` gives it that variant's environment and working directory; without one it has
    /// this process's environment and the directory in which the recording was begun.
    ///
    /// # Errors
    /// The hook did not end with status 0, and no signal interrupted us meanwhile.
    fn hook(
        &mut self,
        plan: &Plan,
        variant: Option<usize>,
        name: &str,
        command: &str,
    ) -> Result<HookEnd>;
}
