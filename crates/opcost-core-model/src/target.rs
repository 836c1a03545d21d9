//! Where jumps go: targets that jumps name, those that they read, and returns.

use crate::cache::Sets;
use crate::figures::Prediction;

/// Entries of each table of indirect jumps.
const ENTRIES: usize = 2048;

#[derive(Clone, Copy, Default)]
struct Entry {
    tag: u32,
    /// Whether the target was right the last time; if not, it is replaced.
    sure: bool,
    target: u64,
}

/// The predictor of targets and what it learnt.
pub(crate) struct Targets {
    first: Sets,
    second: Sets,
    /// Indirect jumps by themselves, with a short and with a long history.
    indirect: Box<[[Entry; ENTRIES]; 3]>,
    /// The last outcomes of branches and bits of targets, the latest lowest.
    path: u64,
    returns: Vec<u64>,
    /// Calls that have not returned.
    depth: usize,
    second_cycles: u64,
    unknown_cycles: u64,
}

/// Bits of the path that each table sees.
const PATHS: [u32; 3] = [0, 16, 64];

impl Targets {
    pub(crate) fn new(figures: &Prediction) -> Targets {
        Targets {
            first: Sets::new(figures.targets_first),
            second: Sets::new(figures.targets_second),
            indirect: Box::new([[Entry::default(); ENTRIES]; 3]),
            path: 0,
            returns: vec![0; figures.returns as usize],
            depth: 0,
            second_cycles: figures.target_second,
            unknown_cycles: figures.target_unknown,
        }
    }

    /// A jump is taken; the cycles until the front end knows its target, and whether it has to decode
    /// the jump for that.
    #[inline(always)]
    pub(crate) fn taken(&mut self, jump: u64) -> (u64, bool) {
        if self.first.touch(jump) {
            (0, false)
        } else if self.second.touch(jump) {
            (self.second_cycles, false)
        } else {
            (self.unknown_cycles, true)
        }
    }

    /// A conditional branch had an outcome.
    #[inline(always)]
    pub(crate) fn outcome(&mut self, taken: bool) {
        self.path = self.path << 1 | u64::from(taken);
    }

    /// Learns from an indirect jump or call; whether its target was mispredicted.
    pub(crate) fn misses(&mut self, jump: u64, target: u64) -> bool {
        let mut places = [(0, 0); 3];
        for (place, bits) in places.iter_mut().zip(PATHS) {
            let seen = if bits == 0 { 0 } else { self.path << (64 - bits) >> (64 - bits) };
            // Fibonacci hashing; the upper bits are the good ones.
            let hash = (jump ^ seen.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ seen >> 29)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *place = ((hash >> 53) as usize % ENTRIES, (hash >> 21) as u32 | 1);
        }
        let hit = (0..3).rev().find(|table| {
            let (place, tag) = places[*table];
            self.indirect[*table][place].tag == tag
        });
        let predicted = hit.map(|table| self.indirect[table][places[table].0].target);
        let missed = predicted != Some(target);
        if let Some(table) = hit {
            let entry = &mut self.indirect[table][places[table].0];
            match (entry.target == target, entry.sure) {
                (true, _) => entry.sure = true,
                (false, true) => entry.sure = false,
                (false, false) => entry.target = target,
            }
        }
        // A longer history may tell apart what this one did not.
        let longer = hit.map_or(0, |table| table + 1);
        if missed && longer < 3 {
            for (table, (place, tag)) in places.iter().enumerate().skip(longer) {
                let entry = &mut self.indirect[table][*place];
                if entry.sure {
                    entry.sure = false;
                } else {
                    *entry = Entry { tag: *tag, sure: false, target };
                    if table > 0 {
                        break;
                    }
                }
            }
        }
        let mixed = target ^ (target >> 6) ^ (target >> 12);
        self.path = self.path << 4 ^ (mixed >> 1 & 0xf);
        missed
    }

    /// A call; it returns to the address behind it.
    #[inline(always)]
    pub(crate) fn call(&mut self, behind: u64) {
        let place = self.depth % self.returns.len();
        self.returns[place] = behind;
        self.depth = self.depth.wrapping_add(1);
    }

    /// Learns from a return; whether its target was mispredicted.
    #[inline(always)]
    pub(crate) fn misses_return(&mut self, target: u64) -> bool {
        let Some(depth) = self.depth.checked_sub(1) else { return true };
        self.depth = depth;
        let place = depth % self.returns.len();
        std::mem::take(&mut self.returns[place]) != target
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Table;

    fn targets() -> Targets {
        Targets::new(&Prediction {
            restart: 10,
            taken: 0,
            target_second: 3,
            target_unknown: 9,
            targets_first: Table { entries: 4, ways: 4 },
            targets_second: Table { entries: 16, ways: 4 },
            returns: 16,
        })
    }

    #[test]
    fn a_target_is_known_once_it_was_taken() {
        let mut targets = targets();
        assert_eq!(targets.taken(0x1000), (9, true));
        assert_eq!(targets.taken(0x1000), (0, false));
        for jump in 1..5 {
            targets.taken(0x1000 + jump);
        }
        assert_eq!(targets.taken(0x1000), (3, false), "four others are in the first table");
    }

    #[test]
    fn an_indirect_jump_to_one_target_is_missed_once() {
        let mut targets = targets();
        let missed = (0..100).filter(|_| targets.misses(0x1000, 0x2000)).count();
        assert_eq!(missed, 1);
    }

    #[test]
    fn targets_that_take_turns_are_learnt_by_history() {
        let mut targets = targets();
        let turns = [0x2000, 0x2100, 0x2340, 0x2100, 0x2560];
        let mut missed = Vec::new();
        for turn in 0..500 {
            if targets.misses(0x1000, turns[turn % turns.len()]) {
                missed.push(turn);
            }
        }
        assert!(missed.iter().all(|turn| *turn < 60), "{missed:?}");
    }

    #[test]
    fn returns_are_known_as_deep_as_the_stack() {
        let mut targets = targets();
        for call in 1..=17 {
            targets.call(call);
        }
        for call in (2..=17).rev() {
            assert!(!targets.misses_return(call));
        }
        assert!(targets.misses_return(1), "the 17th call took its place");
        assert!(targets.misses_return(1), "nothing is left");
    }
}
