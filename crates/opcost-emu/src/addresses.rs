//! The cost of each instruction by its address.
//!
//! **Addresses cost nothing while the guest runs.** The plugin counts how often each block began, and takes back the instructions
//! that a block did not finish. Both are known for each instruction, so they are only kept apart here: when a region starts or
//! stops, and where a block was cut short. Where branches and indirect calls go is known only from block to block, so with addresses
//! every block has a callback, also the repeated string instruction that is a block of its own.

use crate::block::Block;
use crate::blocks::Blocks;
use crate::decode::Exit;
use crate::walk::Left;
use opcost_record::marker::REGIONS;
use opcost_record::profile::ADDRESSES_MAX;
use opcost_record::{AddressCost, Function, Profile, Transfer};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// The executions and the cost of one instruction. They wrap: an instruction may be taken back before the block that began it is
/// read.
type Amount = [u64; 2];

/// A function and an address.
type FunctionAddress = (u32, u64);

/// A change by a block that began `times` times more.
pub(crate) const BEGAN: Amount = [1, 1];
/// The change by an instruction that did not begin.
pub(crate) const NEVER_BEGAN: Amount = [u64::MAX, u64::MAX];
/// The change by an instruction that began and did not finish.
pub(crate) const NOT_FINISHED: Amount = [0, u64::MAX];

/// The costs of each region.
pub(crate) struct Addresses {
    /// The largest number of instructions that a region may run.
    most: usize,
    regions: [RegionCosts; REGIONS.len()],
}

#[derive(Default)]
struct RegionCosts {
    /// The number of times that each block began, by the block's number less one.
    begun: Vec<u64>,
    /// Changes of single instructions, by block and index.
    changes: HashMap<(u64, usize), Amount>,
    /// Repeated string instructions that finished, by function and address.
    repeats: HashMap<FunctionAddress, u64>,
    /// How often the last instruction of a block, known by its function and guest address, sent control to the block with a number.
    transfers: HashMap<(u32, u64, u64), u64>,
    /// The same for the last target of each block, by the block's number less one: the target's number, and how often.
    recent: Vec<(u64, u64)>,
}

impl Addresses {
    /// Makes empty costs.
    pub(crate) fn new() -> Addresses {
        Addresses { most: ADDRESSES_MAX, regions: Default::default() }
    }

    /// Notes that a block began some times more in a region.
    pub(crate) fn begun(&mut self, region: usize, block: &Block, times: u64) {
        let begun = &mut self.regions[region].begun;
        let Some(place) = (block.number as usize).checked_sub(1) else { return };
        if place >= begun.len() {
            begun.resize(place + 1, 0);
        }
        begun[place] += times;
    }

    /// Changes the amounts of some of a block's instructions in a region; those of repeated string instructions do not change.
    pub(crate) fn change(
        &mut self,
        region: usize,
        block: &Block,
        indices: Range<usize>,
        by: Amount,
    ) {
        for index in indices.filter(|index| block.facts[*index].0.repeat.is_none()) {
            let amount = self.regions[region].changes.entry((block.number, index)).or_default();
            add(amount, by);
        }
    }

    /// Notes that a repeated string instruction finished, which the context of a function pays.
    pub(crate) fn repeated(&mut self, region: usize, function: u32, address: u64) {
        *self.regions[region].repeats.entry((function, address)).or_default() += 1;
    }

    /// Notes that control went from the end of a block to another block.
    #[inline(always)]
    pub(crate) fn transferred(&mut self, region: usize, from: &Block, to: &Block) {
        if !leads(from.exit) || from.exit == Exit::Branch && to.start == from.end() {
            return;
        }
        let costs = &mut self.regions[region];
        match costs.recent.get_mut((from.number as usize).wrapping_sub(1)) {
            Some((target, times)) if *target == to.number => *times += 1,
            _ => costs.retarget(from, to),
        }
    }

    /// Notes the same of a block that is known by its end only.
    pub(crate) fn transferred_late(&mut self, region: usize, left: &Left, to: &Block) {
        if leads(left.exit) && (left.exit != Exit::Branch || to.start != left.end) {
            let place = (left.function, left.at, to.number);
            *self.regions[region].transfers.entry(place).or_default() += 1;
        }
    }

    /// Begins the next run.
    pub(crate) fn clear(&mut self) {
        self.regions = Default::default();
    }

    /// Adds the costs of a region to the region's profile, whose functions are among `functions`.
    ///
    /// # Errors
    /// There are too many instructions, or they do not sum to the profile's total.
    pub(crate) fn add_to(
        &self,
        profile: &mut Profile,
        region: usize,
        blocks: &Blocks,
        functions: &[Function],
    ) -> Result<(), String> {
        let RegionCosts { begun, changes, repeats, transfers, recent } = &self.regions[region];
        let mut amounts: HashMap<FunctionAddress, Amount> = HashMap::new();
        for (number, times) in (1..).zip(begun).filter(|(_, times)| **times > 0) {
            let Some(block) = blocks.numbered(number) else { continue };
            for index in 0..block.facts.len() {
                let place = (block.function, block.link_address(index));
                let by = BEGAN.map(|one| one * times);
                let by = changed(block, index, by);
                by.inspect(|by| add(amounts.entry(place).or_default(), *by));
            }
            let wanted = amounts.len() + repeats.len();
            if wanted > self.most {
                return Err(format!(
                    "the work ran more than {} different instructions, the most whose addresses are kept: make it \
                     run less code, or leave out --addresses",
                    self.most
                ));
            }
        }
        for ((number, index), by) in changes {
            let Some(block) = blocks.numbered(*number) else { continue };
            let place = (block.function, block.link_address(*index));
            let by = changed(block, *index, *by);
            by.inspect(|by| add(amounts.entry(place).or_default(), *by));
        }
        for (place, times) in repeats {
            add(amounts.entry(*place).or_default(), [*times, *times]);
        }
        let mut numbers: HashMap<Function, u32> =
            profile.functions.iter().cloned().zip(0..).collect();
        let known = &mut profile.functions;
        let mut number = |function: u32| {
            let function = &functions[function as usize];
            *numbers.entry(function.clone()).or_insert_with(|| {
                known.push(function.clone());
                known.len() as u32 - 1
            })
        };
        let mut costs = Vec::with_capacity(amounts.len());
        for ((function, address), [executions, cost]) in amounts {
            if [executions, cost] == [0, 0] {
                continue;
            }
            costs.push(AddressCost { function: number(function), address, executions, cost });
        }
        // The link addresses of the instructions that lead elsewhere.
        let mut linked = HashMap::new();
        for block in (1..).zip(begun).filter_map(|(number, _)| blocks.numbered(number)) {
            if let Some(last) = block.facts.len().checked_sub(1).filter(|_| leads(block.exit)) {
                linked.insert((block.function, block.last_at()), block.link_address(last));
            }
        }
        let mut sums: BTreeMap<(FunctionAddress, FunctionAddress), u64> = BTreeMap::new();
        let recent = (1..).zip(recent).filter_map(|(number, (to, times))| {
            let from = blocks.numbered(number).filter(|_| *times > 0)?;
            Some(((from.function, from.last_at(), *to), *times))
        });
        for ((function, at, to), times) in
            transfers.iter().map(|(of, times)| (*of, *times)).chain(recent)
        {
            let linked = linked.get(&(function, at)).copied();
            let Some((address, to)) = linked.zip(blocks.numbered(to)) else { continue };
            let from = (number(function), address);
            *sums.entry((from, (number(to.function), to.linked_at))).or_default() += times;
        }
        let of = |((from, to), times)| Transfer { from, to, times };
        profile.transfers = sums.into_iter().map(of).collect();
        costs.sort_by_key(AddressCost::place);
        let sum = costs.iter().fold(0, |sum: u64, cost| sum.wrapping_add(cost.cost));
        // A negative amount is a huge one.
        let is_huge = |cost: &AddressCost| cost.cost.max(cost.executions) > u64::MAX / 2;
        if sum != profile.total() || costs.iter().any(is_huge) {
            return Err(format!(
                "the plugin's own sums differ in region '{}': {} instructions in all, {sum} by address; this is \
                 a fault of opcost",
                REGIONS[region],
                profile.total()
            ));
        }
        profile.addresses = costs;
        Ok(())
    }
}

impl RegionCosts {
    /// Notes that control went from the end of a block to another block than the last time.
    #[cold]
    fn retarget(&mut self, from: &Block, to: &Block) {
        let Some(place) = (from.number as usize).checked_sub(1) else { return };
        if place >= self.recent.len() {
            self.recent.resize(place + 1, (0, 0));
        }
        let (target, times) = std::mem::replace(&mut self.recent[place], (to.number, 1));
        if times > 0 {
            *self.transfers.entry((from.function, from.last_at(), target)).or_default() += times;
        }
    }
}

/// Whether control may go to one of several places from an instruction.
fn leads(exit: Exit) -> bool {
    matches!(exit, Exit::Branch | Exit::CallIndirect | Exit::JumpIndirect)
}

fn add(amount: &mut Amount, by: Amount) {
    amount.iter_mut().zip(by).for_each(|(sum, by)| *sum = sum.wrapping_add(by));
}

/// Returns the change by an instruction of a block that counts as `by` if it retires; `None` for a repeated string instruction.
fn changed(block: &Block, index: usize, by: Amount) -> Option<Amount> {
    let facts = &block.facts[index].0;
    let [executions, cost] = by;
    let cost = if facts.never_retires { 0 } else { cost };
    facts.repeat.is_none().then_some([executions, cost])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::made;
    use opcost_record::Context;

    const NOP: &[u8] = &[0x90];
    const LOAD: &[u8] = &[0x48, 0x8b, 0x07];
    const REP: &[u8] = &[0xf3, 0xa4];
    const JZ: &[u8] = &[0x74, 0x10];

    /// Blocks of these instructions, one after the other from 0x1000 on, linked at 0x400000.
    fn blocks(codes: &[&[&[u8]]]) -> Blocks {
        let mut blocks = Blocks::new(false);
        let mut start = 0x1000;
        for (number, code) in (1..).zip(codes) {
            let block = blocks.add(|_, count| {
                let mut block = made(start, code);
                (block.number, block.function, block.count) = (number, 0, count);
                block.linked_at = start - 0x1000 + 0x40_0000;
                block
            });
            start = block.end();
        }
        blocks
    }

    fn block(blocks: &Blocks, number: u64) -> &'static Block {
        blocks.numbered(number).unwrap()
    }

    /// The profile of a function that cost so much.
    fn profile(cost: u64) -> (Profile, [Function; 1]) {
        let functions = [Function::new("main", "/bin/work")];
        let contexts = vec![Context { parent: None, function: 0, calls: 0, cost }];
        (Profile { functions: functions.to_vec(), contexts, ..Profile::default() }, functions)
    }

    #[test]
    fn what_did_not_finish_is_taken_back_at_its_address() {
        let blocks = blocks(&[&[NOP, LOAD, NOP, REP], &[NOP, JZ]]);
        let (one, two) = (block(&blocks, 1), block(&blocks, 2));
        let mut addresses = Addresses::new();
        addresses.begun(0, one, 5);
        // A load faulted once, and a string instruction finished in the four other executions.
        addresses.change(0, one, 2..4, NEVER_BEGAN);
        addresses.change(0, one, 1..2, NOT_FINISHED);
        (0..4).for_each(|_| addresses.repeated(0, 0, one.link_address(3)));
        addresses.begun(0, two, 4);
        let left = Left::whole(two);
        addresses.transferred(0, two, one);
        addresses.transferred(0, two, two);
        addresses.transferred_late(0, &left, one);
        // Control that falls through a branch is no transfer.
        let behind = made(two.end(), &[NOP]);
        addresses.transferred(0, two, &behind);
        addresses.transferred_late(0, &left, &behind);
        let (mut profile, functions) = profile(5 + 4 + 4 + 4 + 8);
        addresses.add_to(&mut profile, 0, &blocks, &functions).unwrap();
        let rows: Vec<_> =
            profile.addresses.iter().map(|one| (one.address, one.executions, one.cost)).collect();
        let at = 0x40_0000;
        assert_eq!(
            rows,
            [
                (at, 5, 5),
                (at + 1, 5, 4),
                (at + 4, 4, 4),
                (at + 5, 4, 4),
                (at + 7, 4, 4),
                (at + 8, 4, 4)
            ]
        );
        let went: Vec<_> =
            profile.transfers.iter().map(|one| (one.from.1, one.to.1, one.times)).collect();
        assert_eq!(went, [(at + 8, at, 2), (at + 8, at + 7, 1)]);
        addresses.clear();
        profile = Profile::default();
        addresses.add_to(&mut profile, 0, &blocks, &functions).unwrap();
        assert!(profile.addresses.is_empty() && profile.transfers.is_empty());
    }

    #[test]
    fn too_many_instructions_and_wrong_sums_are_refused() {
        let blocks = blocks(&[&[NOP, NOP], &[NOP]]);
        let mut addresses = Addresses { most: 2, ..Addresses::new() };
        addresses.begun(0, block(&blocks, 1), 1);
        let (mut two, functions) = profile(2);
        addresses.add_to(&mut two, 0, &blocks, &functions).unwrap();
        let (mut three, _) = profile(3);
        let error = addresses.add_to(&mut three, 0, &blocks, &functions).unwrap_err();
        assert!(error.contains("3 instructions in all, 2 by address"), "{error}");
        addresses.begun(0, block(&blocks, 2), 1);
        let error = addresses.add_to(&mut three, 0, &blocks, &functions).unwrap_err();
        assert!(error.contains("more than 2 different instructions"), "{error}");
        addresses.most = 3;
        addresses.add_to(&mut three, 0, &blocks, &functions).unwrap();
        // An instruction that was taken back more often than it began.
        addresses.change(0, block(&blocks, 2), 0..1, NEVER_BEGAN);
        addresses.change(0, block(&blocks, 2), 0..1, NEVER_BEGAN);
        let (mut one, _) = profile(1);
        assert!(addresses.add_to(&mut one, 0, &blocks, &functions).is_err());
    }
}
