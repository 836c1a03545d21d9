//! A recording: its plan, the machine, the runs and their profiles.

mod kernel_state;
mod machine_state;

pub use kernel_state::KernelState;
pub use machine_state::{MachineState, ProgramState};

use crate::plan::Plan;
use opcost_record::{Dictionary, Profile, Record};

/// Whether a recording is being made, was stopped or is complete.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Being made; or the process died, so that nothing else could be written.
    Running,
    /// Stopped by a signal; can be resumed.
    Interrupted,
    /// Stopped because the work failed; can be resumed.
    Failed,
    /// Complete.
    Finished,
    /// Stopped by its plan, as the interval was narrow enough: as good as complete.
    StoppedWidth,
    /// Stopped by its plan, as the time was spent; can be resumed for as much time again.
    StoppedBudget,
    /// Stopped by its plan, as exact counts settled it: as good as complete.
    StoppedSettled,
}

impl State {
    const WORDS: [(State, &'static str); 7] = [
        (State::Running, "running"),
        (State::Interrupted, "interrupted"),
        (State::Failed, "failed"),
        (State::Finished, "finished"),
        (State::StoppedWidth, "stopped-width"),
        (State::StoppedBudget, "stopped-budget"),
        (State::StoppedSettled, "stopped-settled"),
    ];

    /// The word stored and shown.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize].1
    }

    pub(crate) fn from_word(word: &str) -> Option<State> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(state, _)| *state)
    }
}

/// A recording read back whole.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Identifier.
    pub id: String,
    /// When it was begun, nanoseconds since the Unix epoch.
    pub created_unix_ns: u64,
    /// Its state.
    pub state: State,
    /// The plan it follows.
    pub plan: Plan,
    /// The machine as it was found by each process that worked on the recording, and as each left
    /// it where it had changed.
    pub machine: Vec<MachineState>,
    /// The metrics by number.
    pub dictionary: Dictionary,
    /// The runs, in the order of the schedule.
    pub records: Vec<Record>,
    /// Instructions of the work region by calling context, with the slot of their run, in the order
    /// of the schedule; of the runs that have a profile.
    pub profiles: Vec<(u32, Profile)>,
}

impl Recording {
    /// Runs that there should be by now: the whole schedule, or what was made of it when the plan
    /// said to stop.
    pub fn runs_due(&self) -> usize {
        match self.state {
            State::StoppedWidth | State::StoppedBudget | State::StoppedSettled => {
                self.records.len()
            }
            _ => self.plan.slot_count(),
        }
    }

    /// Pairs made, or being made.
    pub fn pairs_made(&self) -> u32 {
        match self.state {
            State::Finished if self.plan.shard().is_none() => self.plan.pairs,
            _ => {
                let first = |record: &&Record| record.variant == 0 && record.block.is_some();
                self.records.iter().filter(first).count() as u32
            }
        }
    }
}
