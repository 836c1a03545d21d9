//! A block of guest code as QEMU translates it: static costs, and how its executions are counted.
//!
//! A block is split into *runs*. A run ends with an instruction that may be begun and not finished
//! (it touches memory, divides, …). One cell, [`Cells::expected`], tells how far the block that began
//! last has come: when the block begins, the cell is set to the block's exit tag less the number of
//! its further runs, and each run that begins brings it one nearer. Thus the cell holds the exit tag
//! if every run began, and no tag at all if the block was left in the middle.
//!
//! A block whose tag is in the cell has nothing to be looked at: it follows a block of its function
//! that was not left in the middle. It is only counted, by QEMU's own code where QEMU can compare
//! before it calls (version 3 of the API), else by the callback.

use crate::cache::Fetch;
use crate::counters::Cost;
use crate::decode::{Exit, Facts, MarkerAt, RETURN_BYTES, Wait, popped};
use crate::repeat::Site;
use opcost_core_model::Code;
use opcost_record::symbols::Landmark;

/// Runs of a block at most, two times: QEMU's blocks have at most 512 instructions (TCG_MAX_INSNS).
const TAG_UNIT: u64 = 1024;
/// [`Block::exit_tag`] that no tag equals, nor does a number a little below: the next block is always
/// looked at.
pub(crate) const NEVER: u64 = TAG_UNIT / 2 + TAG_UNIT / 4;
/// What [`Cells::expected`] holds behind an access by itself, so that the next block is looked at.
pub(crate) const CUT: u64 = NEVER + 1;

/// What must be in [`Cells::expected`] for a block to go on without a closer look.
///
/// `special`: whether more than cost and function must be looked at when it begins.
pub(crate) fn tag(function: u32, special: bool) -> u64 {
    // No tag is 0: what is a little below one must not be less than 0.
    ((u64::from(function) + 1) * 2 + u64::from(special)) * TAG_UNIT
}

/// What [`Cells::expected`] holds behind a block whose next block is always looked at, and whose cuts the
/// kernel's entries tell: the block. Less than 0, as nothing else is, and 4 bytes where the block's address
/// is low. So QEMU stores one number, where it otherwise stores the tag and the block.
fn behind(block: *const Block, returns: bool) -> u64 {
    let address = block.addr() as u64;
    let sign = if address < LOW { !(LOW - 1) } else { 1 << 63 };
    sign | address | u64::from(returns)
}

/// Addresses below are low, those of 31 bits.
const LOW: u64 = 1 << 31;

/// The block that [`Cells::expected`] holds, if it holds one.
#[inline(always)]
fn held(expected: u64) -> Option<*const Block> {
    if expected >> 63 == 0 {
        return None;
    }
    let address =
        if expected >> 31 == u64::MAX >> 31 { expected & (LOW - 1) } else { expected << 1 >> 1 };
    Some(std::ptr::with_exposed_provenance((address & !(align_of::<Block>() as u64 - 1)) as usize))
}

/// What changes with every block; QEMU's own code adds and stores here.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Cells {
    /// The tag of blocks that may follow without a closer look, or how far the last block came, or the
    /// last block itself.
    pub(crate) expected: u64,
    /// Instructions that the blocks retired which began.
    pub(crate) retired: u64,
    /// The block that began last, if `expected` does not hold it.
    pub(crate) last: &'static Block,
    /// The block whose last instruction was finished last, of those that tell.
    pub(crate) done: *const Block,
    /// Stack slot of the last call or return.
    pub(crate) slot: u64,
}

impl Cells {
    /// Behind a block that nothing follows without a closer look.
    pub(crate) fn behind(nowhere: &'static Block) -> Cells {
        Cells { expected: NEVER, retired: 0, last: nowhere, done: std::ptr::null(), slot: 0 }
    }

    /// The block that began last.
    #[inline(always)]
    pub(crate) fn prev(&self) -> &'static Block {
        // SAFETY: such a number was made of a block, which lives for ever.
        held(self.expected).map_or(self.last, |block| unsafe { &*block })
    }

    /// Whether the block that began last went to its end, a return that pops its address only, and its
    /// slot is known by the stack pointer.
    #[inline(always)]
    pub(crate) fn returned(&self) -> bool {
        self.expected & (1 << 63 | 1) == 1 << 63 | 1
    }

    /// The block that began last was left for an access to a device: the next is looked at.
    pub(crate) fn cut(&mut self) {
        self.last = self.prev();
        self.expected = CUT;
    }
}

/// How it is known that the last instruction of a block was finished.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Ending {
    /// It always is, once it began.
    Sure,
    /// A memory callback tells.
    Tells,
    /// The next block tells.
    Doubtful,
    /// The processor may refuse it; the next block tells.
    Refusable,
}

/// A block; one cache line has all that is needed to count it and to follow its calls and returns.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Block {
    /// What must be expected for it to go on without a closer look; see [`tag`].
    pub(crate) tag: u64,
    /// What is expected when it has begun: its exit tag less its further runs.
    pub(crate) begun_tag: u64,
    /// Times it began.
    pub(crate) count: *mut u64,
    /// Guest address of its first instruction.
    pub(crate) start: u64,
    rest: Box<Rest>,
    /// Number of its function.
    pub(crate) function: u32,
    /// Instructions it retires.
    pub(crate) retired: u16,
    /// Its bytes.
    bytes: u16,
    /// Distance of its last instruction from its start.
    last_offset: u16,
    /// Its runs but the first, and a repeated string instruction behind one that may fault.
    further_runs: u16,
    /// How its last instruction hands over.
    pub(crate) exit: Exit,
    /// Whether it stands at the beginning of its function.
    pub(crate) at_entry: bool,
    /// Whether it is the kernel's.
    pub(crate) kernel: bool,
    /// How its end is known.
    pub(crate) ending: Ending,
    /// Whether the kernel's entries tell where it was cut, and the stack pointer its slot; else QEMU
    /// steps through its runs, and a callback tells the slot.
    pub(crate) by_entry: bool,
    /// Bytes that its last instruction, a return, took off the stack.
    pub(crate) popped: u16,
}

const _: () = assert!(size_of::<Block>() == 64);

/// What is seldom needed of a block.
#[derive(Debug)]
pub(crate) struct Rest {
    /// Where the model finds its code.
    pub(crate) fetch: Fetch,
    /// What a modelled core executes; `None` without one.
    pub(crate) code: Option<Code>,
    /// What its address means, with the place of its counter.
    pub(crate) landmark: Option<(Landmark, Option<usize>)>,
    /// The repeated string instruction that ends in front of it.
    pub(crate) behind: Option<*mut Site>,
    /// The place behind the repeated string instruction that ends it.
    pub(crate) repeats: Option<*mut Site>,
    /// Cost of the whole block.
    pub(crate) cost: Cost,
    /// Each instruction, and its address's distance from the start.
    pub(crate) facts: Box<[(Facts, u16)]>,
    /// Index of the last instruction of each run, ascending.
    pub(crate) ends: Box<[u16]>,
}

impl std::ops::Deref for Block {
    type Target = Rest;

    fn deref(&self) -> &Rest {
        &self.rest
    }
}

impl std::ops::DerefMut for Block {
    fn deref_mut(&mut self) -> &mut Rest {
        &mut self.rest
    }
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
        sum.pauses += u64::from(facts.wait == Some(Wait::Pause));
        sum.halts += u64::from(facts.wait == Some(Wait::Halt));
    }
    sum
}

impl Block {
    /// A block of some instructions, which belongs to no function and after which the next block is
    /// always looked at.
    pub(crate) fn new(start: u64, codes: &[&[u8]], facts: Vec<Facts>, count: *mut u64) -> Block {
        let mut bytes = 0u16;
        let mut offsets = Vec::with_capacity(facts.len());
        for code in &codes[..facts.len()] {
            offsets.push(bytes);
            bytes = bytes.wrapping_add(code.len() as u16);
        }
        let (cost, ends) = (cost(&facts), run_ends(&facts));
        let last = facts.last().copied();
        let exit = last.map_or(Exit::Next, |last| last.exit);
        let facts_len = facts.len();
        // A repeated string instruction is no run, but shows that the one in front of it was finished.
        let in_doubt = ends.last().is_some_and(|end| {
            usize::from(*end) + 1 < facts.len() && facts[usize::from(*end)].may_fault
        });
        let further_runs = ends.len().saturating_sub(usize::from(!in_doubt));
        let ending = match last {
            Some(last) if last.repeat.is_none() && last.may_fault => {
                if last.loads + last.stores > 0 {
                    Ending::Tells
                } else if last.never_retires {
                    Ending::Sure
                } else {
                    Ending::Doubtful
                }
            }
            Some(last) if last.may_be_refused && !last.never_retires => Ending::Refusable,
            _ => Ending::Sure,
        };
        Block {
            tag: 0,
            begun_tag: NEVER,
            count,
            start,
            function: u32::MAX,
            retired: cost.instructions as u16,
            bytes,
            last_offset: offsets.last().copied().unwrap_or(0),
            further_runs: further_runs as u16,
            exit,
            at_entry: false,
            kernel: true,
            ending,
            by_entry: false,
            popped: codes[..facts_len].last().map_or(0, |code| popped(exit, code)),
            rest: Box::new(Rest {
                fetch: Fetch::default(),
                code: None,
                landmark: None,
                behind: None,
                repeats: None,
                cost,
                ends: ends.into(),
                facts: facts.into_iter().zip(offsets).collect(),
            }),
        }
    }

    /// Whether control goes somewhere else without a doubt once its last instruction is finished.
    #[inline(always)]
    pub(crate) fn calls_or_returns(&self) -> bool {
        self.ending == Ending::Tells
            && matches!(self.exit, Exit::Call | Exit::CallIndirect | Exit::Return)
    }

    /// Whether it ends with a jump or branch, and no doubt is left when the next block begins.
    #[inline(always)]
    pub(crate) fn jumps(&self) -> bool {
        matches!(self.exit, Exit::Jump | Exit::Branch)
            && (self.by_entry || self.ending == Ending::Sure)
    }

    /// Whether more than cost and function must be looked at when it begins.
    #[inline(always)]
    pub(crate) fn special(&self) -> bool {
        self.tag & TAG_UNIT != 0
    }

    /// The same with the tags that follow from its function.
    ///
    /// `special`: see [`tag`]; `turns`: whether the next block is always looked at.
    pub(crate) fn tagged(mut self, function: u32, special: bool, turns: bool) -> Block {
        self.function = function;
        self.tag = tag(function, special);
        let exit_tag = if turns { NEVER } else { tag(function, false) };
        self.begun_tag = exit_tag.wrapping_sub(self.further_runs.into());
        self
    }

    /// The same at its place: [`Cells::expected`] holds it where that tells all that is needed.
    pub(crate) fn placed(mut self, place: *const Block) -> Block {
        if self.by_entry && self.begun_tag == NEVER {
            let returns = self.exit == Exit::Return && self.popped == RETURN_BYTES;
            self.begun_tag = behind(place, returns);
        }
        self
    }

    /// Whether [`Cells::expected`] holds it when it has begun.
    pub(crate) fn is_held(&self) -> bool {
        held(self.begun_tag).is_some()
    }

    /// The tag of blocks that may follow it without a closer look.
    #[inline(always)]
    pub(crate) fn exit_tag(&self) -> u64 {
        self.begun_tag.wrapping_add(self.further_runs.into())
    }

    /// Guest address behind its last instruction.
    #[inline(always)]
    pub(crate) fn end(&self) -> u64 {
        self.start.wrapping_add(self.bytes.into())
    }

    /// Guest address of its last instruction.
    #[inline(always)]
    pub(crate) fn last_at(&self) -> u64 {
        self.start.wrapping_add(self.last_offset.into())
    }

    /// The same block, whose cuts the kernel's entries tell.
    ///
    /// `steps`: whether its last instruction has a step, which tells whether it went to its end.
    pub(crate) fn told_by_entries(mut self, steps: bool) -> Block {
        self.by_entry = true;
        self.further_runs = steps.into();
        self
    }

    /// Whether it is one instruction that accesses memory and hands over to the next: also what QEMU
    /// executes by itself when an access cuts a block short.
    pub(crate) fn is_one_access(&self) -> bool {
        match &*self.facts {
            [(one, _)] => {
                one.exit == Exit::Next && one.repeat.is_none() && one.loads + one.stores > 0
            }
            _ => false,
        }
    }

    /// Whether it ends with the repeated string instruction at an address.
    pub(crate) fn repeats_at(&self, address: u64) -> bool {
        self.repeats.is_some() && self.last_at() == address
    }

    /// Index of the instruction at an address.
    pub(crate) fn index_of(&self, address: u64) -> Option<usize> {
        let offset = u16::try_from(address.wrapping_sub(self.start)).ok()?;
        self.facts.iter().position(|(_, known)| *known == offset)
    }

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
        if index + 1 < self.facts.len() { self.address(index + 1) } else { self.end() }
    }

    /// Index of the first instruction of each further run.
    pub(crate) fn later_starts(&self) -> impl Iterator<Item = usize> + '_ {
        self.ends[..self.further_runs.into()].iter().map(|end| usize::from(*end) + 1)
    }

    /// Index of the instruction that it was left at, with `left` runs that did not begin.
    pub(crate) fn cut(&self, left: u64) -> Option<usize> {
        let run = u64::from(self.further_runs).checked_sub(left)?;
        self.ends.get(run as usize).map(|end| usize::from(*end))
    }
}

#[cfg(test)]
pub(crate) fn made(start: u64, codes: &[&[u8]]) -> Block {
    let facts = crate::decode::decode(start, codes);
    Block::new(start, codes, facts, Box::leak(Box::new(0)))
}

/// A marker in a block.
pub(crate) struct MarkerSite {
    pub(crate) block: &'static Block,
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
    fn a_cut_is_found_at_every_run() {
        for turns in [false, true] {
            let block = made(0x1000, &[NOP, LOAD, LOAD, LOAD, NOP]).tagged(5, false, turns);
            assert_eq!(block.later_starts().collect::<Vec<_>>(), [2, 3, 4]);
            let mut expected = block.begun_tag;
            for begun in 0..3 {
                assert_eq!(block.cut(block.exit_tag() - expected), Some(begun + 1));
                assert!(!expected.is_multiple_of(TAG_UNIT), "no tag");
                expected += 1;
            }
            assert_eq!(expected, block.exit_tag());
            assert_eq!(block.cut(0), Some(4));
        }
        assert_eq!(made(0, &[REP]).cut(0), None);
        let block = made(0x1000, &[NOP, LOAD, REP]);
        assert_eq!(block.later_starts().collect::<Vec<_>>(), [2]);
        assert_eq!((block.cut(1), block.cut(0)), (Some(1), None));
        assert_eq!(made(0x1000, &[LOAD, NOP, REP]).later_starts().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn tags_are_apart_from_each_other_and_from_cuts() {
        let runs = TAG_UNIT / 2;
        for tag in [tag(0, false), tag(0, true), tag(1, false), tag(u32::MAX, true)] {
            assert!(tag.is_multiple_of(TAG_UNIT));
        }
        assert_ne!(tag(3, false), tag(3, true));
        for tag in [tag(0, false), tag(u32::MAX, true), NEVER] {
            assert!((0..=runs).all(|runs| held(tag - runs).is_none()));
        }
        assert!(held(CUT).is_none());
        assert!((NEVER - runs..=NEVER).all(|cut| !cut.is_multiple_of(TAG_UNIT)));
    }

    #[test]
    fn a_block_is_held_wherever_it_is() {
        for address in [0x40, 0x7fff_ffc0, 0x8000_0000, 0x7fff_ffff_ffc0] {
            for returns in [false, true] {
                let block: *const Block = std::ptr::without_provenance(address);
                let number = behind(block, returns);
                assert_eq!(held(number).map(|held| held.addr()), Some(address));
                let cells =
                    Cells { expected: number, ..Cells::behind(Box::leak(Box::new(made(0, &[])))) };
                assert_eq!(cells.returned(), returns);
                assert_eq!(address >> 31 == 0, i32::try_from(number as i64).is_ok());
            }
        }
    }

    #[test]
    fn what_the_kernels_entries_tell_of_is_known_by_its_address() {
        let block = made(0x1000, &[NOP, LOAD, RET]).told_by_entries(false).tagged(7, false, true);
        assert_eq!((block.begun_tag, block.index_of(0x1001)), (NEVER, Some(1)));
        assert_eq!(block.index_of(0x1002), None);
        assert_eq!(block.index_of(0xfff), None);
        assert_eq!(block.popped, 8);
        let place = &raw const block;
        let block = block.placed(place);
        assert!(block.is_held() && block.exit_tag() == behind(place, true));
        let stepped = made(0, &[LOAD, RET]).told_by_entries(true).tagged(7, false, true);
        let stepped = stepped.placed(std::ptr::null());
        assert_eq!((stepped.begun_tag, stepped.exit_tag()), (NEVER - 1, NEVER));
        assert!(made(0, &[LOAD]).is_one_access() && !made(0, &[LOAD, NOP]).is_one_access());
        assert!(!made(0, &[RET]).is_one_access() && !made(0, &[REP]).is_one_access());
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
