//! A block of guest code as QEMU translates it: static costs, and the cells QEMU counts in.
//!
//! A block is split into *runs*. A run ends with an instruction that may be begun and not finished
//! (it touches memory, divides, …). That a run began is counted: the first by the block's callback,
//! the others by one inline addition each. A block that was left in the middle is seen when the
//! next block begins: the cells of the runs that did not begin lag behind the block's count.

use crate::cache::Fetch;
use crate::counters::Cost;
use crate::decode::{Exit, Facts, MarkerAt};
use opcost_record::symbols::Landmark;

/// Flag in [`Block::tag`]: executed for the first time since the sums were last brought up to date.
pub(crate) const UNTOUCHED: u32 = 1 << 31;
/// Flag in [`Block::tag`]: more than cost and function must be looked at when it begins.
pub(crate) const SPECIAL: u32 = 1 << 30;
/// [`Block::exit_tag`] that no tag equals: the next block is always looked at.
pub(crate) const NEVER: u32 = u32::MAX;

/// A block; its first cache line is all that its callback mostly touches.
#[repr(C, align(64))]
pub(crate) struct Block {
    /// Times it began.
    pub(crate) count: u64,
    /// Times its last run began, where it has more than one.
    pub(crate) last: u64,
    /// All ones where it has more than one run, else 0.
    pub(crate) last_mask: u64,
    /// Function and flags.
    pub(crate) tag: u32,
    /// The tag of blocks that may follow without a closer look.
    pub(crate) exit_tag: u32,
    /// Instructions it retires.
    pub(crate) retired: u64,
    /// Its count when its last instruction was last finished, where that may fault.
    pub(crate) done: u64,
    /// Guest address of its first instruction.
    pub(crate) start: u64,
    /// Guest address behind its last one.
    pub(crate) end: u64,
    /// Guest address of its last one.
    pub(crate) last_at: u64,

    /// Where the model finds its code.
    pub(crate) fetch: Fetch,
    /// Number of its function.
    pub(crate) function: u32,
    /// Whether it stands at the beginning of its function.
    pub(crate) at_entry: bool,
    /// Whether it is the kernel's.
    pub(crate) kernel: bool,
    /// How its last instruction hands over.
    pub(crate) exit: Exit,
    /// Whether `done` is kept by a memory callback.
    pub(crate) tells_done: bool,
    /// Whether only the next block tells that its last instruction was finished.
    pub(crate) doubtful: bool,
    /// What its address means, with the place of its counter.
    pub(crate) landmark: Option<(Landmark, Option<usize>)>,
    /// The repeated string instruction that ends in front of it.
    pub(crate) behind: Option<*mut crate::repeat::Site>,
    /// The place behind the repeated string instruction that ends it.
    pub(crate) repeats: Option<*mut crate::repeat::Site>,
    /// Count when the sums were last brought up to date.
    pub(crate) summed: u64,
    /// Cost of the whole block.
    pub(crate) cost: Cost,
    /// Each instruction, and its address's distance from the start.
    pub(crate) facts: Box<[(Facts, u16)]>,
    /// Index of the last instruction of each run, ascending.
    pub(crate) ends: Box<[u16]>,
    /// Cells of the runs between the first and the last.
    pub(crate) cells: Box<[u64]>,
}

/// Splits a block into runs.
///
/// Result: the index of the last instruction of each; the last run ends with the block. A
/// repeated string instruction at the end is not part of a run: it is counted by itself.
pub(crate) fn run_ends(facts: &[Facts]) -> Vec<u16> {
    let counted = facts.len() - usize::from(facts.last().is_some_and(|last| last.repeat.is_some()));
    let mut ends = Vec::new();
    for (index, facts) in facts[..counted].iter().enumerate() {
        if facts.may_fault || index + 1 == counted {
            ends.push(index as u16);
        }
    }
    ends
}

/// The cost of some instructions, string iterations left out.
pub(crate) fn cost<'a>(facts: impl IntoIterator<Item = &'a Facts>) -> Cost {
    let mut sum = Cost::default();
    for facts in facts {
        if facts.repeat.is_some() {
            continue;
        }
        sum.starts += 1;
        if facts.never_retires {
            continue;
        }
        sum.instructions += 1;
        sum.branches += u64::from(facts.is_branch());
        sum.conditional += u64::from(facts.exit == Exit::Branch);
        sum.loads += u64::from(facts.loads);
        sum.stores += u64::from(facts.stores);
    }
    sum
}

/// Where a block was left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Cut {
    /// Index of the instruction that was begun and not finished.
    pub(crate) index: usize,
    /// The run it ends.
    run: usize,
}

impl Block {
    /// The cost of the instructions from one index on.
    pub(crate) fn tail(&self, from: usize) -> Cost {
        cost(self.facts[from..].iter().map(|(facts, _)| facts))
    }

    /// The cost of one instruction, had it retired.
    pub(crate) fn one(&self, index: usize) -> Cost {
        cost([&self.facts[index].0])
    }

    /// Guest address of an instruction.
    pub(crate) fn address(&self, index: usize) -> u64 {
        self.start.wrapping_add(u64::from(self.facts[index].1))
    }

    /// Guest address behind an instruction.
    pub(crate) fn address_behind(&self, index: usize) -> u64 {
        if index + 1 < self.facts.len() { self.address(index + 1) } else { self.end }
    }

    /// Where its last execution was left, if a run did not begin.
    pub(crate) fn cut(&self) -> Option<Cut> {
        if (self.count ^ self.last) & self.last_mask == 0 {
            return None;
        }
        let begun = self.cells.iter().take_while(|cell| **cell == self.count).count();
        Some(Cut { index: usize::from(self.ends[begun]), run: begun })
    }

    /// The cut at the last instruction, where every run began.
    pub(crate) fn cut_at_end(&self) -> Option<Cut> {
        let run = self.ends.len().checked_sub(1)?;
        Some(Cut { index: usize::from(self.ends[run]), run })
    }

    /// Lets the cells of the runs behind a cut catch up.
    pub(crate) fn mend(&mut self, cut: Cut) {
        if cut.run + 1 < self.ends.len() {
            for cell in self.cells.iter_mut().skip(cut.run) {
                *cell = self.count;
            }
            self.last = self.count;
        }
        self.done = self.count;
    }

    /// Address of the cell that counts how often a run began; the first run has none.
    pub(crate) fn cell(&mut self, run: usize) -> *mut u64 {
        if run + 1 == self.ends.len() { &raw mut self.last } else { &raw mut self.cells[run - 1] }
    }
}

#[cfg(test)]
pub(crate) fn made(start: u64, codes: &[&[u8]]) -> Block {
    let facts = crate::decode::decode(start, codes);
    let ends = run_ends(&facts);
    let mut offset = 0;
    let offsets = codes.iter().map(|code| {
        let at = offset;
        offset += code.len() as u16;
        at
    });
    let offsets: Vec<u16> = offsets.collect();
    let end = start + codes.iter().map(|code| code.len() as u64).sum::<u64>();
    let cost = cost(&facts);
    Block {
        count: 0,
        last: 0,
        last_mask: if ends.len() > 1 { u64::MAX } else { 0 },
        tag: 0,
        exit_tag: 0,
        retired: cost.instructions,
        done: 0,
        start,
        end,
        last_at: end - codes.last().map_or(0, |code| code.len() as u64),
        fetch: Fetch::default(),
        function: 0,
        at_entry: false,
        kernel: false,
        exit: facts.last().map_or(Exit::Next, |facts| facts.exit),
        tells_done: false,
        doubtful: false,
        landmark: None,
        behind: None,
        repeats: None,
        summed: 0,
        cost,
        cells: vec![0; ends.len().saturating_sub(2)].into(),
        ends: ends.into(),
        facts: facts.into_iter().zip(offsets).collect(),
    }
}

/// A marker in a block.
pub(crate) struct MarkerSite {
    pub(crate) block: *mut Block,
    pub(crate) index: usize,
    pub(crate) marker: MarkerAt,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOP: &[u8] = &[0x90];
    const LOAD: &[u8] = &[0x48, 0x8b, 0x07];
    const RET: &[u8] = &[0xc3];
    const REP: &[u8] = &[0xf3, 0xa4];

    #[test]
    fn runs_end_where_something_may_fault() {
        assert_eq!(*made(0, &[NOP, LOAD, LOAD, NOP, RET]).ends, [1, 2, 4]);
        assert_eq!(*made(0, &[NOP, LOAD, NOP]).ends, [1, 2]);
        assert_eq!(*made(0, &[NOP, NOP]).ends, [1]);
        assert_eq!(*made(0, &[NOP, LOAD, REP]).ends, [1]);
        assert!(made(0, &[REP]).ends.is_empty());
        assert_eq!(made(0, &[NOP, REP]).cost.instructions, 1);
    }

    #[test]
    fn a_cut_is_found_and_mended_at_every_run() {
        for begun in 0..3 {
            let mut block = made(0x1000, &[NOP, LOAD, LOAD, LOAD, NOP]);
            block.count = 7;
            block.last = 7;
            block.cells.fill(7);
            assert_eq!(block.cut(), None);
            block.count = 8;
            for run in 1..=begun {
                // SAFETY: the cell is the block's own.
                unsafe { *block.cell(run) += 1 };
            }
            let cut = block.cut().unwrap();
            assert_eq!(cut.index, begun + 1);
            block.mend(cut);
            assert_eq!(block.cut(), None);
            assert_eq!((block.last, block.done), (8, 8));
            assert!(block.cells.iter().all(|cell| *cell == 8));
        }
    }

    #[test]
    fn tails_and_addresses_are_those_of_the_instructions() {
        let block = made(0x1000, &[NOP, LOAD, RET]);
        assert_eq!(block.tail(1).instructions, 2);
        assert_eq!(block.tail(3), Cost::default());
        assert_eq!(block.one(1).loads, 1);
        assert_eq!((block.address(1), block.address_behind(1)), (0x1001, 0x1004));
        assert_eq!(block.address_behind(2), 0x1005);
        assert_eq!(block.cost.branches, 1);
    }
}
