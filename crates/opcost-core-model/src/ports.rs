//! Execution units, and the units taken in each cycle.
//!
//! Instructions come in program order and execute in another order. An earlier cycle may thus be free when a later one is already
//! taken; "next free" cycles per unit would lose the earlier cycle.

use crate::figures::GROUPS_MAX;

/// The number of remembered cycles; a cycle farther ahead replaces one that is this much older.
const CYCLES: usize = 1024;

/// The units of a core.
pub(crate) struct Ports {
    /// By cycle: the units taken.
    taken: Box<[Taken; CYCLES]>,
    /// By group: its units.
    groups: [u32; GROUPS_MAX],
    /// By group: a range of cycles, end excluded, in which no unit is free.
    full: [(u64, u64); GROUPS_MAX],
    /// By group: a range of cycles, end excluded, in which no operation with a long occupancy could begin.
    closed: [(u64, u64); GROUPS_MAX],
    /// The units behind the unit that was taken last.
    turn: u32,
}

#[derive(Clone, Copy, Default)]
struct Taken {
    /// The lower half of the cycle's number: an entry of another cycle counts as empty.
    cycle: u32,
    units: u32,
}

impl Ports {
    pub(crate) fn new(groups: [u32; GROUPS_MAX]) -> Ports {
        // The initial entries belong to no cycle.
        let never = Taken { cycle: u32::MAX, units: 0 };
        Ports {
            taken: Box::new([never; CYCLES]),
            groups,
            full: [(0, 0); GROUPS_MAX],
            closed: [(0, 0); GROUPS_MAX],
            turn: 0,
        }
    }

    #[inline(always)]
    fn taken(&self, cycle: u64) -> u32 {
        let entry = self.taken[cycle as usize % CYCLES];
        if entry.cycle == cycle as u32 { entry.units } else { 0 }
    }

    #[inline(always)]
    fn take(&mut self, cycle: u64, unit: u32) {
        let entry = &mut self.taken[cycle as usize % CYCLES];
        let before = if entry.cycle == cycle as u32 { entry.units } else { 0 };
        *entry = Taken { cycle: cycle as u32, units: before | unit };
    }

    /// Takes a unit of a group for some cycles; returns the first cycle, which is not before `earliest`.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, group: u8, earliest: u64, occupancy: u16) -> u64 {
        let place = group as usize % GROUPS_MAX;
        if occupancy > 1 {
            return self.reserve_long(place, earliest, occupancy);
        }
        let units = self.groups[place];
        let (from, to) = self.full[place];
        let start = if earliest >= from && earliest < to { to } else { earliest };
        let mut cycle = start;
        // Every group has a unit, and no more than the ring's cycles are taken.
        let mut free = units & !self.taken(cycle);
        while free == 0 {
            cycle += 1;
            free = units & !self.taken(cycle);
        }
        // Takes the next unit in turn, so that units of several groups are not always the first.
        let behind = free & self.turn;
        let behind = if behind == 0 { free } else { behind };
        let unit = behind & behind.wrapping_neg();
        self.turn = !(unit | unit.wrapping_sub(1));
        self.take(cycle, unit);
        if cycle > earliest {
            // All cycles between are full and stay full.
            let joined = earliest <= to && cycle >= from;
            self.full[place] = if joined { (from.min(earliest), cycle) } else { (earliest, cycle) };
        }
        cycle
    }

    fn reserve_long(&mut self, place: usize, earliest: u64, occupancy: u16) -> u64 {
        let (from, to) = self.closed[place];
        let mut cycle = if earliest >= from && earliest < to { to } else { earliest };
        loop {
            let mut free = self.groups[place];
            for ahead in 0..u64::from(occupancy) {
                free &= !self.taken(cycle + ahead);
            }
            if free != 0 {
                let unit = free & free.wrapping_neg();
                for ahead in 0..u64::from(occupancy) {
                    self.take(cycle + ahead, unit);
                }
                break;
            }
            cycle += 1;
        }
        if cycle > earliest {
            let joined = earliest <= to && cycle >= from;
            self.closed[place] =
                if joined { (from.min(earliest), cycle) } else { (earliest, cycle) };
        }
        cycle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(first: u32) -> Ports {
        let mut groups = [1; GROUPS_MAX];
        groups[0] = first;
        Ports::new(groups)
    }

    #[test]
    fn a_cycle_has_as_many_places_as_units() {
        let mut ports = ports(0b1011);
        let cycles: Vec<u64> = (0..7).map(|_| ports.reserve(0, 5, 1)).collect();
        assert_eq!(cycles, [5, 5, 5, 6, 6, 6, 7]);
        assert_eq!(ports.reserve(0, 0, 1), 0, "an earlier cycle is still free");
    }

    #[test]
    fn a_full_stretch_is_skipped_and_nothing_else() {
        let mut ports = ports(1);
        for cycle in 10..20 {
            assert_eq!(ports.reserve(0, 10, 1), cycle);
        }
        assert_eq!(ports.reserve(0, 15, 1), 20);
        assert_eq!(ports.reserve(0, 30, 1), 30);
        assert_eq!(ports.reserve(0, 30, 1), 31);
        assert_eq!(ports.reserve(0, 9, 1), 9);
        assert_eq!(ports.reserve(0, 9, 1), 21);
    }

    #[test]
    fn a_long_operation_takes_its_unit_for_as_long() {
        let mut ports = ports(0b11);
        assert_eq!(ports.reserve(0, 0, 6), 0);
        assert_eq!(ports.reserve(0, 0, 6), 0);
        assert_eq!(ports.reserve(0, 0, 6), 6);
        assert_eq!(ports.reserve(0, 3, 1), 6, "the second unit");
        assert_eq!(ports.reserve(0, 3, 3), 7, "the second unit again");
    }

    #[test]
    fn units_that_groups_share_are_taken_once() {
        let mut groups = [1; GROUPS_MAX];
        groups[1] = 0b11;
        let mut ports = Ports::new(groups);
        assert_eq!(ports.reserve(0, 0, 1), 0);
        assert_eq!([ports.reserve(1, 0, 1), ports.reserve(1, 0, 1)], [0, 1]);
        assert_eq!(ports.reserve(0, 0, 1), 2);
    }
}
