//! Prediction of conditional branches: TAGE.
//!
//! A. Seznec and P. Michaud, "A case for (partially) TAgged GEometric history length branch prediction", Journal of
//! Instruction-Level Parallelism 8, 2006: one table indexed by the branch alone, and ten tables indexed by the branch and ever
//! longer parts of the history of outcomes. The matching table with the longest history predicts. A branch that always went the
//! same way is predicted to do so again, without the other tables.

/// Tables with histories.
const TABLES: usize = 10;
/// Lanes of the folded histories: the tables, rounded up to whole vectors.
const LANES: usize = 16;
/// Bits of an index into a table.
const INDEX_BITS: u32 = 11;
const ENTRIES: usize = 1 << INDEX_BITS;
/// Bits of a tag.
const TAG_BITS: u32 = 12;
/// Bits of an index into the table indexed by the branch alone.
const BASE_BITS: u32 = 14;
/// The number of outcomes that each table uses: a geometric series.
const LENGTHS: [usize; TABLES] = [4, 7, 12, 20, 34, 57, 97, 164, 279, 476];
/// The number of kept outcomes, a power of two above the longest history.
const HISTORY: usize = 512;
/// States of the table indexed by the branch alone: never seen, always taken, never taken. All other states are counters.
const UNSEEN: i8 = 4;
const ALWAYS: i8 = 5;
const NEVER: i8 = 6;
/// The number of mispredictions without a free entry after which entries lose their usefulness.
const TICKS_MAX: u16 = 256;

#[derive(Clone, Copy, Default)]
struct Entry {
    tag: u16,
    /// Taken if not negative; from -4 to 3.
    counter: i8,
    /// How often the entry was right where the next table was wrong, up to 3.
    useful: u8,
}

/// One history per lane, each folded to `BITS` bits.
#[derive(Clone, Copy)]
struct Folded<const BITS: u32> {
    lanes: [u16; LANES],
    /// By lane: the bit to which the leaving outcome has moved.
    leaving: [u16; LANES],
}

impl<const BITS: u32> Folded<BITS> {
    fn new() -> Folded<BITS> {
        let mut leaving = [0; LANES];
        for (place, length) in leaving.iter_mut().zip(LENGTHS) {
            *place = 1 << (length as u32 % BITS);
        }
        Folded { lanes: [0; LANES], leaving }
    }

    /// Pushes one outcome into each lane and removes the oldest one. A multiplication shifts by lane.
    #[inline(always)]
    fn push(&mut self, outcome: u16, old: &[u16; LANES]) {
        for ((lane, leaving), old) in self.lanes.iter_mut().zip(self.leaving).zip(old) {
            let turned = (*lane << 1 | *lane >> (BITS - 1)) & ((1 << BITS) - 1);
            *lane = turned ^ outcome ^ leaving.wrapping_mul(*old);
        }
    }
}

/// The predictor with its learnt state.
pub(crate) struct Direction {
    base: Box<[i8; 1 << BASE_BITS]>,
    tables: Box<[[Entry; ENTRIES]; TABLES]>,
    /// The last outcomes, as a ring; `latest` is the newest.
    outcomes: Box<[u8; HISTORY]>,
    latest: usize,
    indices: Folded<INDEX_BITS>,
    tags: Folded<TAG_BITS>,
    /// Whether new entries are less reliable than the next table; from -8 to 7.
    prefer_next: i8,
    ticks: u16,
    draw: u32,
}

#[inline(always)]
fn moved(counter: i8, up: bool, least: i8, most: i8) -> i8 {
    if up { (counter + 1).min(most) } else { (counter - 1).max(least) }
}

impl Direction {
    /// Makes a predictor that has learnt nothing.
    pub(crate) fn new() -> Direction {
        let tables = vec![[Entry::default(); ENTRIES]; TABLES].into_boxed_slice();
        let Ok(tables) = tables.try_into() else { unreachable!("as many tables as said") };
        Direction {
            base: Box::new([UNSEEN; 1 << BASE_BITS]),
            tables,
            outcomes: Box::new([0; HISTORY]),
            latest: 0,
            indices: Folded::new(),
            tags: Folded::new(),
            prefer_next: 0,
            ticks: 0,
            draw: 1,
        }
    }

    /// Pushes an outcome into the history.
    #[inline(always)]
    pub(crate) fn push(&mut self, outcome: bool) {
        let mut old = [0; LANES];
        for (old, length) in old.iter_mut().zip(LENGTHS) {
            *old = u16::from(self.outcomes[(self.latest + HISTORY + 1 - length) % HISTORY]);
        }
        let outcome = u16::from(outcome);
        self.indices.push(outcome, &old);
        self.tags.push(outcome, &old);
        self.latest = (self.latest + 1) % HISTORY;
        self.outcomes[self.latest] = outcome as u8;
    }

    /// Learns from a branch and returns whether it was mispredicted.
    #[inline(always)]
    pub(crate) fn misses(&mut self, branch: u64, taken: bool) -> bool {
        let base = &mut self.base[branch as usize % (1 << BASE_BITS)];
        let same = if taken { ALWAYS } else { NEVER };
        if *base == same {
            self.push(taken);
            return false;
        }
        if *base < UNSEEN {
            return self.misses_by_history(branch, taken);
        }
        if *base == UNSEEN {
            *base = same;
            self.push(taken);
            return taken;
        }
        *base = if taken { 0 } else { -1 };
        self.push(taken);
        true
    }

    /// Learns from a branch that went both ways, and returns whether it was mispredicted.
    fn misses_by_history(&mut self, branch: u64, taken: bool) -> bool {
        let key = (branch ^ (branch >> INDEX_BITS)) as u16;
        let (mut indices, mut tags) = ([0u16; LANES], [0u16; LANES]);
        for lane in 0..LANES {
            indices[lane] = key ^ (key >> 3).wrapping_mul(lane as u16) ^ self.indices.lanes[lane];
            let folded = self.tags.lanes[lane] ^ (self.indices.lanes[lane] << 1);
            // Entries without a tag have tag 0, which no branch has.
            tags[lane] = ((branch as u16 ^ folded) & ((1 << TAG_BITS) - 1)) | 1 << TAG_BITS;
        }
        let mut hits = 0u32;
        for table in 0..TABLES {
            let entry = &self.tables[table][indices[table] as usize % ENTRIES];
            hits |= u32::from(entry.tag == tags[table]) << table;
        }
        let base = &mut self.base[branch as usize % (1 << BASE_BITS)];
        let by_base = *base >= 0;
        let missed = if hits == 0 {
            *base = moved(*base, taken, -2, 1);
            by_base != taken
        } else {
            let provider = 31 - hits.leading_zeros();
            let rest = hits & !(1 << provider);
            let at = |table: u32| (table as usize, indices[table as usize] as usize % ENTRIES);
            let by_next = match rest {
                0 => by_base,
                rest => {
                    let (table, place) = at(31 - rest.leading_zeros());
                    self.tables[table][place].counter >= 0
                }
            };
            let (table, place) = at(provider);
            let entry = &mut self.tables[table][place];
            let by_provider = entry.counter >= 0;
            let new = entry.useful == 0 && (entry.counter == 0 || entry.counter == -1);
            let predicted = if new && self.prefer_next >= 0 { by_next } else { by_provider };
            if by_provider != by_next {
                if new {
                    self.prefer_next = moved(self.prefer_next, by_next == taken, -8, 7);
                }
                entry.useful = match by_provider == taken {
                    true => (entry.useful + 1).min(3),
                    false => entry.useful.saturating_sub(1),
                };
            }
            entry.counter = moved(entry.counter, taken, -4, 3);
            if new && rest == 0 {
                *base = moved(*base, taken, -2, 1);
            }
            predicted != taken
        };
        if missed {
            let longer = if hits == 0 { 0 } else { 32 - hits.leading_zeros() as usize };
            self.allocate(longer, &indices, &tags, taken);
        }
        self.push(taken);
        missed
    }

    /// Gives a mispredicted branch an entry in a table with a longer history.
    fn allocate(
        &mut self,
        longer: usize,
        indices: &[u16; LANES],
        tags: &[u16; LANES],
        taken: bool,
    ) {
        if longer >= TABLES {
            return;
        }
        // Each longer table is chosen half as often (drawn by Marsaglia's xorshift).
        self.draw ^= self.draw << 13;
        self.draw ^= self.draw >> 17;
        self.draw ^= self.draw << 5;
        let mut first = longer;
        while first + 1 < TABLES && first < longer + 2 && self.draw >> (first - longer) & 1 == 1 {
            first += 1;
        }
        for table in first..TABLES {
            let entry = &mut self.tables[table][indices[table] as usize % ENTRIES];
            if entry.useful == 0 {
                *entry = Entry { tag: tags[table], counter: if taken { 0 } else { -1 }, useful: 0 };
                self.ticks = self.ticks.saturating_sub(1);
                return;
            }
        }
        self.ticks += 1;
        for (table, index) in self.tables.iter_mut().zip(indices).skip(longer) {
            let entry = &mut table[*index as usize % ENTRIES];
            entry.useful = entry.useful.saturating_sub(1);
        }
        if self.ticks >= TICKS_MAX {
            self.ticks = 0;
            for entry in self.tables.iter_mut().flatten() {
                entry.useful >>= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mispredictions in the second half of some outcomes.
    fn missed(outcomes: &[bool]) -> usize {
        let mut direction = Direction::new();
        let (first, second) = outcomes.split_at(outcomes.len() / 2);
        for taken in first {
            direction.misses(0x40_1000, *taken);
        }
        second.iter().filter(|taken| direction.misses(0x40_1000, **taken)).count()
    }

    fn random(count: usize) -> Vec<bool> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 40 & 1 == 1
        };
        (0..count).map(|_| draw()).collect()
    }

    #[test]
    fn a_branch_that_never_changes_is_known() {
        assert_eq!(missed(&[true; 200]), 0);
        assert_eq!(missed(&[false; 200]), 0);
    }

    #[test]
    fn an_alternating_branch_is_learnt() {
        let outcomes: Vec<bool> = (0..400).map(|turn| turn % 2 == 0).collect();
        assert_eq!(missed(&outcomes), 0);
    }

    #[test]
    fn the_end_of_a_loop_is_learnt() {
        for turns in [3, 8, 20, 50] {
            let outcomes: Vec<bool> =
                (0..400 * turns).map(|turn| turn % turns != turns - 1).collect();
            assert_eq!(missed(&outcomes), 0, "{turns} turns");
        }
    }

    #[test]
    fn of_random_outcomes_about_half_are_missed() {
        let missed = missed(&random(20_000));
        assert!((4700..5300).contains(&missed), "{missed} of 10000");
    }

    #[test]
    fn a_pattern_is_learnt_and_repeats() {
        let pattern = random(200);
        let outcomes: Vec<bool> = pattern.iter().copied().cycle().take(20_000).collect();
        let some = missed(&outcomes);
        assert!(some < 100, "{some} of 10000");
    }

    #[test]
    fn a_folded_history_forgets_what_left_it() {
        let mut once = Direction::new();
        let mut again = Direction::new();
        for outcome in random(700) {
            once.push(outcome);
        }
        for outcome in random(700).iter().rev().take(HISTORY).rev() {
            again.push(*outcome);
        }
        // The shortest history has the last four outcomes only, whatever came before them.
        let (a, b) = (&once.indices.lanes, &again.indices.lanes);
        assert_eq!(a[..TABLES], b[..TABLES]);
        assert_eq!(once.tags.lanes[..TABLES], again.tags.lanes[..TABLES]);
    }
}
