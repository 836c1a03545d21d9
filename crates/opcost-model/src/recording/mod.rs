//! A recording: its plan, the machine, the runs and their profiles.

mod guest_build;
mod guest_state;
mod kernel_state;
mod machine_state;
mod private_names;
pub mod settings;
pub mod warm_up;

pub use guest_build::GuestBuild;
pub use guest_state::{Alternatives, GuestState};
pub use kernel_state::KernelState;
pub use machine_state::{DataState, MachineState, ProgramState};
pub use private_names::{PrivateNames, Replacer};

use crate::plan::{Plan, Slot};
use opcost_record::{Dictionary, Outcome, Profile, Record};
use std::collections::{BTreeMap, HashSet};

/// Whether a recording is being made, was stopped or is complete.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Being made; or the process died before it could store another state.
    Running,
    /// Stopped by a signal; can be resumed.
    Interrupted,
    /// Stopped because the work failed; can be resumed.
    Failed,
    /// Complete.
    Finished,
    /// Stopped by the plan because the interval is narrow enough; as good as complete.
    StoppedWidth,
    /// Stopped by the plan because the time is spent; can be resumed for the same time again.
    StoppedBudget,
    /// Stopped by the plan because exact counts settled the result; as good as complete.
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

    /// The word that is stored and shown.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize].1
    }

    pub fn from_word(word: &str) -> Option<State> {
        Self::WORDS.iter().find(|(_, known)| *known == word).map(|(state, _)| *state)
    }
}

/// A complete recording in memory.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Identifier.
    pub id: String,
    /// The time when the recording began, nanoseconds since the Unix epoch.
    pub created_unix_ns: u64,
    /// The time when it arrived in a file, nanoseconds since the Unix epoch; `None` if this store's user made it.
    pub arrived_unix_ns: Option<u64>,
    /// Its state.
    pub state: State,
    /// The plan that the recording follows.
    pub plan: Plan,
    /// The machine as each process that worked on the recording found it, and as the process left it if the machine had changed.
    pub machine: Vec<MachineState>,
    /// The metrics by number.
    pub dictionary: Dictionary,
    /// The runs, in the order of the schedule.
    pub records: Vec<Record>,
    /// Profiles of the work region by calling context, each with the slot of its run, in the order of the schedule. Runs without a
    /// profile are left out.
    pub profiles: Vec<(u32, Profile)>,
}

impl Recording {
    /// Makes the metric the primary one that the warm-up runs choose.
    pub fn choose_primary(&mut self) {
        if let (Some(other), Some(_)) = (&self.plan.primary_if_busy, self.disturbance()) {
            self.plan.primary = other.clone();
        }
    }

    /// The reason for which the warm-up runs chose the primary metric, in words; `None` if the plan named it.
    pub fn primary_reason(&self) -> Option<String> {
        let was_chosen = self.plan.primary_if_busy.as_ref() == Some(&self.plan.primary);
        was_chosen.then(|| self.disturbance()).flatten()
    }

    /// As long as no compared run was made, more warm-up runs may follow.
    fn disturbance(&self) -> Option<String> {
        let is_over = self.records.iter().any(|record| record.block.is_some());
        is_over.then(|| warm_up::disturbance(&self.plan, &self.dictionary, &self.records)).flatten()
    }

    /// The machine of a variant's guest, as the last process that ran it found it; `None` if no run told.
    pub fn guest(&self, variant: usize) -> Option<&GuestState> {
        let mut states = self.machine.iter().rev().flat_map(|state| &state.guests);
        states.find(|guest| guest.variant == variant)
    }

    /// The variants that failed while the others went on, each with its first failed run. None if the failure ended the
    /// recording, since it left nothing to compare.
    pub fn failed_variants(&self) -> BTreeMap<usize, &Record> {
        let mut failed = BTreeMap::new();
        for record in &self.records {
            if record.outcome != Outcome::Finished {
                failed.entry(usize::from(record.variant)).or_insert(record);
            }
        }
        let variants = failed.keys().copied().collect();
        if self.plan.comparisons_without(&variants).is_empty() {
            failed.clear();
        }
        failed
    }

    /// The comparisons that the runs allow: those of the plan without variants that failed.
    pub fn comparisons(&self) -> Vec<(usize, usize)> {
        self.plan.comparisons_without(&self.failed_variants().into_keys().collect())
    }

    /// The runs that failed variants lack.
    fn runs_lost(&self) -> impl Iterator<Item = Slot> + '_ {
        let failed = self.failed_variants();
        let made: HashSet<u32> = match failed.is_empty() {
            true => HashSet::new(),
            false => self.records.iter().map(|record| record.slot).collect(),
        };
        self.plan.slots().filter(move |slot| {
            failed.contains_key(&usize::from(slot.variant)) && !made.contains(&slot.slot)
        })
    }

    /// The runs that should exist by now: the whole schedule without the runs that failed variants lack, or the runs made until the
    /// plan stopped the recording.
    pub fn runs_due(&self) -> usize {
        match self.state {
            State::StoppedWidth | State::StoppedBudget | State::StoppedSettled => {
                self.records.len()
            }
            _ => self.plan.slot_count() - self.runs_lost().count(),
        }
    }

    /// The number of [`runs_due`](Self::runs_due) that are compared: no warm-up runs, and none that is left out.
    pub fn compared_runs_due(&self) -> usize {
        match self.state {
            State::StoppedWidth | State::StoppedBudget | State::StoppedSettled => {
                self.records.iter().filter(|record| record.block.is_some()).count()
            }
            _ => {
                let compared = |slot: &Slot| slot.compared_in().is_some();
                self.plan.slots().filter(compared).count()
                    - self.runs_lost().filter(compared).count()
            }
        }
    }

    /// The number of pairs that are made or being made.
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
