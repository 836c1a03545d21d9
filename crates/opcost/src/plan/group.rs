//! Groups of runs: one process makes some of them, and several processes run at the same time.

use super::{Plan, Slot};

/// Runs that a machine makes together: those of one process, or of several at the same time.
///
/// [`Plan::groups`] makes groups, so a machine may rely on this: a group has a process, each of its
/// processes has a run, and the processes are no more than the width that was asked for.
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

    /// Whether any of its runs counts: warm-up runs do not.
    pub fn is_measured(&self) -> bool {
        self.slots().any(|slot| slot.block.is_some())
    }
}

impl Plan {
    /// Slots in the groups that a machine makes together.
    ///
    /// `width`: how many processes the machine can run at the same time. A plan with hooks between
    /// its runs has them made one by one: a hook would disturb a run that it does not belong to.
    pub fn groups<'a>(&self, slots: &'a [Slot], width: usize) -> Vec<Group<'a>> {
        let width = if self.has_hooks_between_runs() { 1 } else { width.max(1) };
        let groups = self.processes(slots);
        groups.chunks(width).map(|processes| Group { processes: processes.to_vec() }).collect()
    }

    /// Whether a command of the user is run before or after each run.
    pub fn has_hooks_between_runs(&self) -> bool {
        let prepared = self.variants.iter().any(|variant| variant.prepare.is_some());
        prepared || self.hooks.conclude.is_some()
    }

    /// Slots by the process that makes them: each alone, or those of a unit of the test.
    fn processes<'a>(&self, slots: &'a [Slot]) -> Vec<&'a [Slot]> {
        if self.in_process.is_none() {
            return slots.chunks(1).collect();
        }
        // On the emulated machine a round of warm-up runs is a process, else all of them are one.
        let round = self.warm_up_order().len() as u32;
        let process = |slot: &Slot| match slot.block {
            Some(block) => (true, self.unit_of(block)),
            None => (false, self.emulation().map_or(0, |_| slot.slot / round)),
        };
        slots.chunk_by(|one, other| process(one) == process(other)).collect()
    }
}
