//! Prediction of jump targets: named targets, targets that are read, and returns.

use crate::cache::Sets;
use crate::figures::Prediction;

/// Entries of each table of indirect jumps.
const ENTRIES: usize = 2048;
/// Ways of a set of the first table: jumps that may share the set without displacing each other.
const WAYS: usize = 4;

#[derive(Clone, Copy, Default)]
struct Entry {
    tag: u32,
    /// Whether the target was right the last time; a target that was not is replaced.
    sure: bool,
    /// Whether the jump, in the table without history, ever went elsewhere. Only such jumps have a history (AMD, publication 57647,
    /// "Indirect Target Predictor").
    changed: bool,
    target: u64,
}

/// The predictor of targets with its learnt state.
pub(crate) struct Targets {
    first: Sets,
    second: Sets,
    /// Indirect jumps: without history, with a short history, and with a long history.
    indirect: Box<[[Entry; ENTRIES]; 3]>,
    /// The last outcomes of branches and bits of targets; the latest are the lowest bits.
    path: u64,
    returns: Vec<u64>,
    /// Calls that have not returned.
    depth: usize,
    second_cycles: u64,
    unknown_cycles: u64,
}

/// The prediction of an indirect jump.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Guess {
    /// The jump went where it always goes.
    Same,
    /// The jump's history predicted the target.
    ByHistory,
    /// The jump went elsewhere.
    Missed,
}

/// The number of path bits that each table uses.
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

    /// Learns from a taken jump. Returns the cycles until the front end knows its target, and whether the front end must decode the
    /// jump for that.
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

    /// Adds a taken jump to the path.
    ///
    /// `target`: the target of an indirect jump. Targets of calls are not part of the path, as kernels with calls by turns show on
    /// Zen 4: the jumps within the callee identify it.
    #[inline(always)]
    pub(crate) fn passed(&mut self, jump: u64, target: u64) {
        self.path = self.path << 3 ^ jump ^ jump >> 5 ^ target >> 2;
    }

    /// Learns from an indirect jump or call, and returns how it was predicted.
    pub(crate) fn guess(&mut self, jump: u64, target: u64) -> Guess {
        let mut places = [(0, 0); 3];
        for (place, bits) in places.iter_mut().zip(PATHS) {
            let seen = if bits == 0 { 0 } else { self.path << (64 - bits) >> (64 - bits) };
            // Fibonacci hashing; the upper bits are well mixed.
            let hash = (jump ^ seen.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ seen >> 29)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *place = ((hash >> 53) as usize % ENTRIES, (hash >> 21) as u32 | 1);
        }
        places[0].0 = self.place_alone(places[0]);
        let alone = &mut self.indirect[0][places[0].0];
        if alone.tag == places[0].1 && !alone.changed {
            if alone.target == target {
                alone.sure = true;
                return Guess::Same;
            }
            alone.changed = true;
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
        // A longer history may distinguish what this history did not.
        let longer = hit.map_or(0, |table| table + 1);
        if missed && longer < 3 {
            for (entries, (place, tag)) in self.indirect.iter_mut().zip(places).skip(longer) {
                let entry = &mut entries[place];
                if entry.sure {
                    entry.sure = false;
                } else {
                    *entry = Entry { tag, sure: false, changed: false, target };
                    break;
                }
            }
        }
        match (missed, hit) {
            (true, _) => Guess::Missed,
            (false, Some(0)) => Guess::Same,
            (false, _) => Guess::ByHistory,
        }
    }

    /// Returns a jump's present or future place in the table without history; ways are in the order of their last use.
    #[inline(always)]
    fn place_alone(&mut self, (place, tag): (usize, u32)) -> usize {
        let first = place / WAYS * WAYS;
        let set = &mut self.indirect[0][first..first + WAYS];
        if set[0].tag == tag {
            return first;
        }
        match set.iter().position(|entry| entry.tag == tag) {
            Some(way) => {
                set[..=way].rotate_right(1);
                first
            }
            None => first + set.iter().position(|entry| entry.tag == 0).unwrap_or(WAYS - 1),
        }
    }

    /// Remembers a call; it returns to the address behind it.
    #[inline(always)]
    pub(crate) fn call(&mut self, behind: u64) {
        let place = self.depth % self.returns.len();
        self.returns[place] = behind;
        self.depth = self.depth.wrapping_add(1);
    }

    /// Learns from a return and returns whether its target was mispredicted. If the stack has forgotten the call, the return is
    /// predicted as an indirect jump.
    #[inline(always)]
    pub(crate) fn misses_return(&mut self, jump: u64, target: u64) -> bool {
        let known = self.depth.checked_sub(1).map(|depth| {
            self.depth = depth;
            let place = depth % self.returns.len();
            std::mem::take(&mut self.returns[place])
        });
        match known {
            Some(known) if known != 0 => known != target,
            _ => self.guess(jump, target) == Guess::Missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::TableGeometry;

    fn targets() -> Targets {
        Targets::new(&Prediction {
            restart: 10,
            taken: 0,
            returned: 0,
            indirect: 0,
            target_second: 3,
            target_unknown: 9,
            targets_first: TableGeometry { entries: 4, ways: 4 },
            targets_second: TableGeometry { entries: 16, ways: 4 },
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
        let guesses: Vec<Guess> = (0..100).map(|_| targets.guess(0x1000, 0x2000)).collect();
        assert_eq!(guesses[0], Guess::Missed);
        assert_eq!(guesses[1..], [Guess::Same; 99]);
    }

    #[test]
    fn a_jump_to_one_target_needs_no_history() {
        let mut targets = targets();
        let mut go = |target| {
            let guess = targets.guess(0x1000, target);
            // Control comes by another way each time.
            targets.passed(0x3000 + target * 8, target);
            guess
        };
        assert_eq!(go(0x2000), Guess::Missed);
        assert!((0..50).all(|_| go(0x2000) == Guess::Same));
        assert_eq!(go(0x2100), Guess::Missed);
        // From now on history predicts the jumps to the rarer target.
        let later: Vec<Guess> = (0..200).map(|turn| go([0x2000, 0x2100][turn % 2])).collect();
        assert!(!later[150..].contains(&Guess::Missed));
        assert!(later[150..].contains(&Guess::ByHistory));
    }

    #[test]
    fn jumps_of_one_set_do_not_displace_each_other() {
        let mut targets = targets();
        // As many jumps as half the table's entries: in a table without ways, a fifth of them would share a place.
        let turn = |targets: &mut Targets| {
            let jumps = (0..ENTRIES as u64 / 2).map(|jump| 0x1000 + jump * 24);
            jumps.filter(|jump| targets.guess(*jump, jump ^ 0xff) != Guess::Same).count()
        };
        turn(&mut targets);
        turn(&mut targets);
        let missed = turn(&mut targets);
        assert!(missed < 80, "{missed}");
    }

    /// Returns the misses of a jump to a cycle of targets; `own`: whether each target has a jump of its own back.
    fn missed(own: bool) -> Vec<usize> {
        let mut targets = targets();
        let turns = [0x2000, 0x2100, 0x2340, 0x2100, 0x2560];
        let mut missed = Vec::new();
        for turn in 0..500 {
            let target = turns[turn % turns.len()];
            targets.passed(0x1000, 0);
            if targets.guess(0x1000, target) == Guess::Missed {
                missed.push(turn);
            }
            targets.passed(if own { target + 8 } else { 0x3000 }, 0);
        }
        missed
    }

    #[test]
    fn targets_are_known_by_the_way_that_control_came() {
        let own = missed(true);
        assert!(own.iter().all(|turn| *turn < 80), "{own:?}");
        assert!(missed(false).len() > 200, "every way is the same");
    }

    #[test]
    fn returns_are_known_as_deep_as_the_stack() {
        let mut targets = targets();
        for call in 1..=17 {
            targets.call(call);
        }
        for call in (2..=17).rev() {
            assert!(!targets.misses_return(0x1000, call));
        }
        assert!(targets.misses_return(0x1000, 1), "the 17th call took its place");
        assert!(!targets.misses_return(0x1000, 1), "predicted as a jump");
    }
}
