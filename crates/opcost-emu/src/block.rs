//! A block of guest code as QEMU translates it: its static costs, and the way its executions are counted.
//!
//! A block is split into *runs*. A run ends with an instruction that may begin without finishing (it touches memory, divides, …).
//! The cell [`Cells::expected`] tells how far the last begun block has come. When the block begins, the cell is set to the block's
//! exit tag less the number of its further runs. Each further run that begins raises the cell by 1. The cell thus holds the exit
//! tag if every run began, and no tag at all if control left the block in the middle.
//!
//! A block whose tag is in the cell needs no closer look: it follows a block of its function that control did not leave in the
//! middle. The block is only counted: by QEMU's own code where QEMU can compare before it calls (version 3 of the API), else by the
//! callback.

use crate::counters::Cost;
use crate::decode::{Exit, Facts, MarkerAt, Wait};
use crate::repeat::Site;
use opcost_core_model::Code;
use opcost_record::symbols::{Landmark, PAGE_BYTES};

/// Twice the largest number of runs in a block: QEMU's blocks have at most 512 instructions (TCG_MAX_INSNS).
const TAG_UNIT: u64 = 1024;
/// The first kernel address in 64-bit mode: the upper half of the address space is the kernel's.
const KERNEL_START: u64 = 1 << 63;
/// A [`Block::exit_tag`] that neither equals a tag nor lies a little below one: the next block always gets a closer look.
pub(crate) const NEVER: u64 = TAG_UNIT / 2 + TAG_UNIT / 4;
/// The value of [`Cells::expected`] behind an access that QEMU executed by itself; the next block gets a closer look.
pub(crate) const CUT: u64 = NEVER + 1;

/// Whether an address is the kernel's.
pub(crate) fn is_kernel(address: u64) -> bool {
    address >= KERNEL_START
}

/// Returns the value of [`Cells::expected`] with which a block goes on without a closer look.
///
/// `special`: whether the beginning of the block needs more checks than cost and function.
pub(crate) fn tag(function: u32, special: bool) -> u64 {
    // No tag is 0: the numbers a little below a tag must not be negative.
    ((u64::from(function) + 1) * 2 + u64::from(special)) * TAG_UNIT
}

/// Returns the value of [`Cells::expected`] that holds a block, for blocks that [`Block::placed`] chooses. Only such
/// values are negative. QEMU's code stores the value in 4 bytes if the block's address is low. QEMU then stores one number instead
/// of the tag and the block.
fn behind(block: *const Block, returns: bool) -> u64 {
    let address = block.addr() as u64;
    let sign = if address < LOW { !(LOW - 1) } else { 1 << 63 };
    sign | address | u64::from(returns)
}

/// Addresses below this limit are low: they have 31 bits.
const LOW: u64 = 1 << 31;

/// Returns the block that [`Cells::expected`] holds, if any.
#[inline(always)]
fn held(expected: u64) -> Option<*const Block> {
    if expected >> 63 == 0 {
        return None;
    }
    let address =
        if expected >> 31 == u64::MAX >> 31 { expected & (LOW - 1) } else { expected << 1 >> 1 };
    Some(std::ptr::with_exposed_provenance((address & !(align_of::<Block>() as u64 - 1)) as usize))
}

/// The state that changes with every block; QEMU's own code adds and stores here.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Cells {
    /// The tag of blocks that may follow without a closer look, or the progress of the last block, or the last block itself.
    pub(crate) expected: u64,
    /// Instructions that the begun blocks retire.
    pub(crate) retired: u64,
    /// The last begun block, if `expected` does not hold it.
    pub(crate) last: &'static Block,
    /// The block whose last instruction finished most recently, among blocks with [`Ending::Tells`].
    pub(crate) done: *const Block,
    /// Stack slot of the last call or return.
    pub(crate) slot: u64,
}

impl Cells {
    /// Returns the cells behind a block that nothing follows without a closer look.
    pub(crate) fn behind(nowhere: &'static Block) -> Cells {
        Cells { expected: NEVER, retired: 0, last: nowhere, done: std::ptr::null(), slot: 0 }
    }

    /// Returns the last begun block.
    #[inline(always)]
    pub(crate) fn prev(&self) -> &'static Block {
        // SAFETY: [`behind`] made the number from a block, which lives for ever.
        held(self.expected).map_or(self.last, |block| unsafe { &*block })
    }

    /// Whether the last begun block reached its end, the end is a return that pops its address only, and the stack pointer tells
    /// its slot.
    #[inline(always)]
    pub(crate) fn returned(&self) -> bool {
        self.expected & (1 << 63 | 1) == 1 << 63 | 1
    }

    /// Notes that control left the last begun block for an access to a device: the next block gets a closer look.
    pub(crate) fn cut(&mut self) {
        self.last = self.prev();
        self.expected = CUT;
    }
}

/// The way in which the plugin learns that the last instruction of a block finished.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Ending {
    /// The instruction always finishes once it began.
    Sure,
    /// A memory callback reports the end.
    Tells,
    /// The next block shows whether the instruction finished.
    Doubtful,
    /// The processor may refuse the instruction; the next block shows whether it did.
    Refusable,
}

/// A block. One cache line has everything that counting the block and following its calls and returns needs.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Block {
    /// The value of [`Cells::expected`] with which the block goes on without a closer look; see [`tag`].
    pub(crate) tag: u64,
    /// The value of [`Cells::expected`] after the block began: the exit tag less the number of further runs.
    pub(crate) begun_tag: u64,
    /// The number of times that the block began.
    pub(crate) count: *mut u64,
    /// Guest address of the first instruction.
    pub(crate) start: u64,
    rest: Box<Rest>,
    /// Number of the block's function.
    pub(crate) function: u32,
    /// Instructions that the block retires.
    pub(crate) retired: u16,
    /// Length of the block's code in bytes.
    bytes: u16,
    /// Distance of the last instruction from the start.
    last_offset: u16,
    /// The number of runs but the first, plus one for a repeated string instruction behind an instruction that may fault.
    further_runs: u16,
    /// The way in which the last instruction hands over.
    pub(crate) exit: Exit,
    /// Whether the block stands at the beginning of its function.
    pub(crate) at_entry: bool,
    /// Whether the block is kernel code.
    pub(crate) kernel: bool,
    /// The way in which the plugin learns that the block reached its end.
    pub(crate) ending: Ending,
    /// Whether the kernel's entries tell where the block was cut, and the stack pointer tells its slot. Otherwise QEMU steps
    /// through the runs, and a callback tells the slot.
    pub(crate) by_entry: bool,
    /// Bytes that the last instruction takes off the stack if it is a return.
    pub(crate) popped: u16,
}

const _: () = assert!(size_of::<Block>() == 64);

/// The parts of a block that are rarely needed.
#[derive(Debug)]
pub(crate) struct Rest {
    /// The code that a modelled core executes; `None` without a modelled core.
    pub(crate) code: Option<Code>,
    /// The landmark at the start, with the place of its counter.
    pub(crate) landmark: Option<(Landmark, Option<usize>)>,
    /// The restorer of the program's handler of signals that begins here.
    pub(crate) restorer: Option<u64>,
    /// Whether the block may stand behind a call.
    pub(crate) behind_call: bool,
    /// The place behind the repeated string instruction that ends just in front of this block.
    pub(crate) behind: Option<*mut Site>,
    /// The place behind the repeated string instruction that ends this block.
    pub(crate) repeats: Option<*mut Site>,
    pub(crate) cost: Cost,
    /// The block's number in [`Blocks::numbered`](crate::blocks::Blocks).
    pub(crate) number: u64,
    /// The address that the linker gave the first instruction, as [`AddressCost::address`](opcost_record::AddressCost).
    pub(crate) linked_at: u64,
    /// Each instruction, with the distance of its address from the start.
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

/// Splits a block into runs and returns the index of the last instruction of each run, ascending.
///
/// The last run ends with the block. A repeated string instruction at the end is not part of a run: it is counted by itself.
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

/// Returns the cost of some instructions without their string iterations.
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
    /// Makes a block of some instructions. The block belongs to no function, and the next block always gets a closer look.
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
        // A repeated string instruction is no run, but shows that the instruction in front of it finished.
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
            popped: 0,
            rest: Box::new(Rest {
                code: None,
                landmark: None,
                restorer: None,
                behind: None,
                behind_call: false,
                repeats: None,
                cost,
                number: 0,
                linked_at: start,
                ends: ends.into(),
                facts: facts.into_iter().zip(offsets).collect(),
            }),
        }
    }

    /// Whether control certainly goes elsewhere once the last instruction finished.
    #[inline(always)]
    pub(crate) fn calls_or_returns(&self) -> bool {
        matches!(self.exit, Exit::Call | Exit::CallIndirect | Exit::Return)
    }

    /// Whether the block ends with a jump or branch, and the beginning of the next block leaves no doubt about the end.
    #[inline(always)]
    pub(crate) fn jumps(&self) -> bool {
        matches!(self.exit, Exit::Jump | Exit::Branch)
            && (self.by_entry || self.ending == Ending::Sure)
    }

    /// Whether the beginning of the block needs more checks than cost and function.
    #[inline(always)]
    pub(crate) fn special(&self) -> bool {
        self.tag & TAG_UNIT != 0
    }

    /// Sets the block's function and the tags that follow from the function.
    ///
    /// `special`: see [`tag`]; `turns`: whether the next block always gets a closer look.
    pub(crate) fn tagged(mut self, function: u32, special: bool, turns: bool) -> Block {
        self.function = function;
        self.tag = tag(function, special);
        let exit_tag = if turns { NEVER } else { tag(function, false) };
        self.begun_tag = exit_tag.wrapping_sub(self.further_runs.into());
        self
    }

    /// Has [`Cells::expected`] hold the block at `place`, if that value tells everything needed.
    ///
    /// `return_bytes`: the bytes that a plain return takes off the stack.
    pub(crate) fn placed(mut self, place: *const Block, return_bytes: u16) -> Block {
        if self.by_entry && self.begun_tag == NEVER {
            let returns = self.exit == Exit::Return && self.popped == return_bytes;
            self.begun_tag = behind(place, returns);
        }
        self
    }

    /// Whether [`Cells::expected`] holds the block after it began.
    pub(crate) fn is_held(&self) -> bool {
        held(self.begun_tag).is_some()
    }

    /// Returns the tag of blocks that may follow without a closer look.
    #[inline(always)]
    pub(crate) fn exit_tag(&self) -> u64 {
        self.begun_tag.wrapping_add(self.further_runs.into())
    }

    /// Returns the guest address behind the last instruction.
    #[inline(always)]
    pub(crate) fn end(&self) -> u64 {
        self.start.wrapping_add(self.bytes.into())
    }

    /// Returns the guest address of the last instruction.
    #[inline(always)]
    pub(crate) fn last_at(&self) -> u64 {
        self.start.wrapping_add(self.last_offset.into())
    }

    /// Marks the block as one whose cuts the kernel's entries tell.
    ///
    /// `steps`: whether the last instruction has a step; the step tells whether control reached the end.
    pub(crate) fn cut_by_entries(mut self, steps: bool) -> Block {
        self.by_entry = true;
        self.further_runs = steps.into();
        self
    }

    /// Whether the block is one instruction that accesses memory and hands over to the next instruction. QEMU itself executes such
    /// a block when an access cuts a block short.
    pub(crate) fn is_one_access(&self) -> bool {
        match &*self.facts {
            [(one, _)] => {
                one.exit == Exit::Next && one.repeat.is_none() && one.loads + one.stores > 0
            }
            _ => false,
        }
    }

    /// Whether the block ends with the repeated string instruction at an address.
    pub(crate) fn repeats_at(&self, address: u64) -> bool {
        self.repeats.is_some() && self.last_at() == address
    }

    /// Returns the index of the instruction at an address.
    pub(crate) fn index_of(&self, address: u64) -> Option<usize> {
        let offset = u16::try_from(address.wrapping_sub(self.start)).ok()?;
        self.facts.iter().position(|(_, known)| *known == offset)
    }

    /// Returns the index of the instruction at an address, or of the one at the same place of a page.
    ///
    /// QEMU translates a machine's code without the code's address, and uses a block again wherever the block's page is mapped. The
    /// block's address may thus be that of an earlier mapping.
    pub(crate) fn index_in_page(&self, address: u64) -> Option<usize> {
        let offset = address.wrapping_sub(self.start) % PAGE_BYTES as u64;
        self.index_of(address).or_else(|| self.index_of(self.start.wrapping_add(offset)))
    }

    /// Returns the cost of the instructions from index `from` on.
    pub(crate) fn tail(&self, from: usize) -> Cost {
        cost(self.facts[from..].iter().map(|(facts, _)| facts))
    }

    /// Returns the cost of one instruction as if it had retired.
    pub(crate) fn one(&self, index: usize) -> Cost {
        cost([&self.facts[index].0])
    }

    /// Returns the guest address of an instruction.
    pub(crate) fn address(&self, index: usize) -> u64 {
        self.start.wrapping_add(u64::from(self.facts[index].1))
    }

    /// Returns the address that the linker gave an instruction.
    pub(crate) fn link_address(&self, index: usize) -> u64 {
        self.linked_at.wrapping_add(u64::from(self.facts[index].1))
    }

    /// Returns the guest address behind an instruction.
    pub(crate) fn address_behind(&self, index: usize) -> u64 {
        if index + 1 < self.facts.len() { self.address(index + 1) } else { self.end() }
    }

    /// Returns the index of the first instruction of each further run.
    pub(crate) fn later_starts(&self) -> impl Iterator<Item = usize> + '_ {
        self.ends[..self.further_runs.into()].iter().map(|end| usize::from(*end) + 1)
    }

    /// Returns the index of the instruction at which control left the block; `left`: the number of runs that did not begin.
    pub(crate) fn cut(&self, left: u64) -> Option<usize> {
        let run = u64::from(self.further_runs).checked_sub(left)?;
        self.ends.get(run as usize).map(|end| usize::from(*end))
    }
}

#[cfg(test)]
pub(crate) fn made(start: u64, codes: &[&[u8]]) -> Block {
    use crate::x86_64::decode::{decode, popped};
    let facts = decode(start, codes);
    let mut block = Block::new(start, codes, facts, Box::leak(Box::new(0)));
    block.popped = codes.last().map_or(0, |code| popped(block.exit, code));
    block
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
        let block = made(0x1000, &[NOP, LOAD, RET]).cut_by_entries(false).tagged(7, false, true);
        assert_eq!((block.begun_tag, block.index_of(0x1001)), (NEVER, Some(1)));
        assert_eq!(block.index_of(0x1002), None);
        assert_eq!(block.index_of(0xfff), None);
        assert_eq!(block.popped, 8);
        let place = &raw const block;
        let block = block.placed(place, 8);
        assert!(block.is_held() && block.exit_tag() == behind(place, true));
        let stepped = made(0, &[LOAD, RET]).cut_by_entries(true).tagged(7, false, true);
        let stepped = stepped.placed(std::ptr::null(), 8);
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
