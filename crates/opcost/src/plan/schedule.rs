//! The order of runs.

use super::{InProcessPlan, Plan};
use opcost_stats::random::Random;
use opcost_stats::schedule::{self, MIRRORED_PAIRS_MIN, plain_blocks};
use serde::{Deserialize, Serialize};

/// One block of the schedule: a random order of the variants, where there are many blocks with its
/// mirror image.
///
/// On the emulated machine, whose counts know no drift, each variant runs once in a block, with
/// the block's seed and padding. Where one of its processes makes several runs, order matters there
/// too, and the blocks of a process have seed and padding in common.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct BlockPlan {
    /// Indices of the variants in the order of running.
    pub order: Vec<u16>,
    /// Bytes of padding in the environment, where that is randomised; in a guest, on its kernel's
    /// command line.
    pub padding_bytes: u16,
    /// Seed of the emulated machine: what its kernel and programs draw random numbers from.
    #[serde(default)]
    pub guest_seed: u32,
}

/// One run to be made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Slot {
    /// Position in the schedule.
    pub slot: u32,
    /// Index of the variant.
    pub variant: u16,
    /// The block; warm-up runs have none.
    pub block: Option<u32>,
    /// Bytes of padding in the environment.
    pub padding_bytes: u16,
    /// Seed of the emulated machine.
    pub guest_seed: u32,
}

/// How many pairs are blocks of their own, before the mirrored ones.
///
/// `fewest`: the fewest single pairs that decide every metric. `by_unit`: whether builds or processes
/// are the units of the test, of which mirrored blocks take no more. `least`: the pairs after which the
/// recording may stop, if it may stop before all are made; then it can decide from the fewest on, has the
/// better units if it stops there, and the better ones for many pairs if it goes on.
pub(crate) fn single_pairs(pairs: u32, fewest: u32, by_unit: bool, least: Option<u32>) -> u32 {
    let many = pairs >= MIRRORED_PAIRS_MIN || by_unit;
    if !many || u64::from(pairs) < 2 * u64::from(fewest) {
        return pairs;
    }
    match least {
        None => 0,
        Some(least) if by_unit && u64::from(least) >= 2 * u64::from(fewest) => 0,
        Some(least) if least < MIRRORED_PAIRS_MIN => fewest.max(least),
        Some(_) => fewest,
    }
}

/// The fewest blocks that hold so many pairs: `singles` blocks of one, then mirrored ones.
pub(crate) fn blocks_of_pairs(pairs: u32, singles: u32) -> u32 {
    pairs.min(singles) + pairs.saturating_sub(singles).div_ceil(2)
}

/// Draws the blocks of a schedule, `singles` of its pairs in blocks of their own.
///
/// `padded` draws a padding for each block: the same for all its runs, so that layouts differ
/// between blocks and never between the two sides of a comparison.
pub(crate) fn draw(
    variants: usize,
    pairs: u32,
    singles: u32,
    seed: u64,
    padded: bool,
) -> Vec<BlockPlan> {
    let mut random = Random::new(seed);
    let mut paddings = random.fork(1);
    schedule::blocks(variants, pairs, singles, &mut random)
        .into_iter()
        .map(|order| BlockPlan {
            order: order.into_iter().map(|variant| variant as u16).collect(),
            padding_bytes: if padded { paddings.below(4096) as u16 } else { 0 },
            guest_seed: 0,
        })
        .collect()
}

/// Draws the blocks of a schedule for the emulated machine.
///
/// Every input shifts the phase of ticks and the layout of memory, so seed and padding differ
/// between machines, and never between the two sides of a comparison. `process`: how many blocks a
/// machine makes whose process exchanges its code paths; its clock goes on between them, so order
/// matters, and all but `singles` of the pairs are in mirrored blocks.
pub(crate) fn draw_emulated(
    variants: usize,
    pairs: u32,
    singles: u32,
    seed: u64,
    process: Option<InProcessPlan>,
) -> Vec<BlockPlan> {
    let mut random = Random::new(seed);
    let (mut paddings, mut seeds) = (random.fork(1), random.fork(2));
    let orders = match process {
        Some(_) => schedule::blocks(variants, pairs, singles, &mut random),
        None => plain_blocks(variants, pairs, &mut random),
    };
    let blocks_per_machine = process.map_or(1, |process| process.blocks as usize);
    let mut blocks = Vec::with_capacity(orders.len());
    for of_machine in orders.chunks(blocks_per_machine) {
        let padding_bytes = paddings.below(GUEST_PADDING_MAX) as u16;
        let guest_seed = seeds.below(1 << 32) as u32;
        blocks.extend(of_machine.iter().map(|order| BlockPlan {
            order: order.iter().map(|variant| *variant as u16).collect(),
            padding_bytes,
            guest_seed,
        }));
    }
    blocks
}

/// The most padding of a guest: its kernel's command line holds 2048 bytes in all (x86,
/// COMMAND_LINE_SIZE).
const GUEST_PADDING_MAX: u64 = 256;

pub(crate) fn slots(plan: &Plan) -> impl Iterator<Item = Slot> + '_ {
    // A warm-up run of the emulated machine repeats one of the first unit's: what must be identical.
    let first = plan.blocks.first().filter(|_| plan.emulation().is_some());
    let (padding_bytes, guest_seed) =
        first.map_or((0, 0), |block| (block.padding_bytes, block.guest_seed));
    let order = plan.warm_up_order();
    let warmups = (0..plan.warmup).flat_map(move |_| order.clone()).map(move |variant| Slot {
        slot: 0,
        variant,
        block: None,
        padding_bytes,
        guest_seed,
    });
    let runs = plan.blocks.iter().zip(0..).flat_map(|(block, number)| {
        block.order.iter().map(move |variant| Slot {
            slot: 0,
            variant: *variant,
            block: Some(number),
            padding_bytes: block.padding_bytes,
            guest_seed: block.guest_seed,
        })
    });
    warmups.chain(runs).zip(0..).map(|(slot, number)| Slot { slot: number, ..slot })
}
