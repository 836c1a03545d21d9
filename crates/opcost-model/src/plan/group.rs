//! Groups of runs: one process makes some of the runs, and several processes run at the same time.

use super::{Plan, Slot};
use std::collections::BTreeSet;

/// Runs that a machine makes together: the runs of one process, or of several processes at the same time.
///
/// [`Plan::groups`] creates groups and guarantees to machines: a group has a process, each process has a run, and the number of
/// processes is at most the requested width.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Group<'a> {
    processes: Vec<&'a [Slot]>,
}

impl<'a> Group<'a> {
    /// The runs of each process, in the order in which that process makes them.
    pub fn processes(&self) -> &[&'a [Slot]] {
        &self.processes
    }

    /// The runs of all processes.
    pub fn slots(&self) -> impl Iterator<Item = &'a Slot> + '_ {
        self.processes.iter().flat_map(|runs| runs.iter())
    }

    /// The first run.
    pub fn first(&self) -> &'a Slot {
        &self.processes[0][0]
    }

    /// The group without the processes that would make a run of one of these variants; `None` if no process is left.
    pub fn without(self, variants: &BTreeSet<usize>) -> Option<Group<'a>> {
        let mut processes = self.processes;
        processes
            .retain(|runs| runs.iter().all(|slot| !variants.contains(&usize::from(slot.variant))));
        (!processes.is_empty()).then_some(Group { processes })
    }

    /// Whether any run of the group counts; warm-up runs do not, nor runs that are left out.
    pub fn is_measured(&self) -> bool {
        self.slots().any(|slot| slot.compared_in().is_some())
    }
}

impl Plan {
    /// Divides slots into the groups that a machine makes together.
    ///
    /// `width`: the number of processes that the machine can run at the same time. If the plan has hooks between its runs, the
    /// width is 1: a hook would disturb another run.
    pub fn groups<'a>(&self, slots: &'a [Slot], width: usize) -> Vec<Group<'a>> {
        let width = if self.has_hooks_between_runs() { 1 } else { width.max(1) };
        let groups = self.processes(slots);
        groups.chunks(width).map(|processes| Group { processes: processes.to_vec() }).collect()
    }

    /// Whether a command of the user runs before or after each run.
    pub fn has_hooks_between_runs(&self) -> bool {
        (0..self.variants.len()).any(|variant| self.has_hooks_around(variant))
    }

    /// Whether a command of the user runs before or after each run of a variant.
    pub fn has_hooks_around(&self, variant: usize) -> bool {
        self.variants[variant].prepare.is_some() || self.conclude(variant).is_some()
    }

    /// The command that runs after each run of a variant.
    pub fn conclude(&self, variant: usize) -> Option<&String> {
        self.variants[variant].conclude.as_ref().or(self.hooks.conclude.as_ref())
    }

    /// Divides slots by the process that makes them: one slot each, or all slots of a unit of the test.
    fn processes<'a>(&self, slots: &'a [Slot]) -> Vec<&'a [Slot]> {
        if self.in_process.is_none() {
            return slots.chunks(1).collect();
        }
        // On the emulated machine each round of warm-up runs is a process; elsewhere all rounds are one process.
        let round = self.warm_up_order().len() as u32;
        let process = |slot: &Slot| match slot.block {
            Some(block) => (true, self.unit_of(block)),
            None => (false, self.emulation().map_or(0, |_| slot.slot / round)),
        };
        slots.chunk_by(|one, other| process(one) == process(other)).collect()
    }
}
