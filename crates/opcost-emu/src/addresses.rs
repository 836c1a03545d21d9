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
type Place = (u32, u64);

/// A change by a block that began `times` times more.
pub(crate) const BEGAN: Amount = [1, 1];
/// The change by an instruction that did not begin.
pub(crate) const NEVER_BEGAN: Amount = [u64::MAX, u64::MAX];
/// The change by an instruction that began and did not finish.
pub(crate) const NOT_FINISHED: Amount = [0, u64::MAX];

/// The costs of each region.
#[derive(Default)]
pub(crate) struct Addresses {
    regions: [RegionCosts; REGIONS.len()],
}

#[derive(Default)]
struct RegionCosts {
    /// The number of times that each block began, by the block's number less one.
    begun: Vec<u64>,
    /// Changes of single instructions, by block and index.
    changes: HashMap<(u64, usize), Amount>,
    /// Repeated string instructions that finished, by function and address.
    repeats: HashMap<Place, u64>,
    /// How often the last instruction of a block, known by its function and guest address, sent control to the block with a number.
    transfers: HashMap<(u32, u64, u64), u64>,
}

impl Addresses {
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
    pub(crate) fn transferred(&mut self, region: usize, left: &Left, to: &Block) {
        if leads(left.exit) && (left.exit != Exit::Branch || to.start != left.end) {
            let place = (left.function, left.at, to.number);
            *self.regions[region].transfers.entry(place).or_default() += 1;
        }
    }

    /// Begins the next run.
    pub(crate) fn clear(&mut self) {
        *self = Addresses::default();
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
        let RegionCosts { begun, changes, repeats, transfers } = &self.regions[region];
        let mut amounts: HashMap<Place, Amount> = HashMap::new();
        for (number, times) in (1..).zip(begun).filter(|(_, times)| **times > 0) {
            let Some(block) = blocks.numbered(number) else { continue };
            for index in 0..block.facts.len() {
                let place = (block.function, block.link_address(index));
                let by = BEGAN.map(|one| one * times);
                let by = changed(block, index, by);
                by.inspect(|by| add(amounts.entry(place).or_default(), *by));
            }
            let wanted = amounts.len() + repeats.len();
            if wanted > ADDRESSES_MAX {
                return Err(format!(
                    "the work ran more than {ADDRESSES_MAX} different instructions, the most whose addresses \
                     are kept: make it run less code, or leave out --addresses"
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
        let mut sums: BTreeMap<(Place, Place), u64> = BTreeMap::new();
        for ((function, at, to), times) in transfers {
            let linked = linked.get(&(*function, *at)).copied();
            let Some((address, to)) = linked.zip(blocks.numbered(*to)) else { continue };
            let from = (number(*function), address);
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

/// Whether control may go to one of several places from an instruction.
pub(crate) fn leads(exit: Exit) -> bool {
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
