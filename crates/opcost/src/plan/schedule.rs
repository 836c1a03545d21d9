//! The order of runs.

use super::Plan;
use opcost_stats::random::Random;
use opcost_stats::schedule::mirrored_blocks;
use serde::{Deserialize, Serialize};

/// One block of the schedule: a random order of the variants and its mirror image.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct BlockPlan {
    /// Indices of the variants in the order of running.
    pub order: Vec<u16>,
    /// Bytes of padding in the environment, where that is randomised.
    pub padding_bytes: u16,
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
}

/// Draws the blocks of a schedule.
///
/// `padded` draws a padding for each block: the same for all its runs, so that layouts differ
/// between blocks and never between the two sides of a comparison.
pub(super) fn draw(variants: usize, pairs: u32, seed: u64, padded: bool) -> Vec<BlockPlan> {
    let mut random = Random::new(seed);
    let mut paddings = random.fork(1);
    mirrored_blocks(variants, pairs, &mut random)
        .into_iter()
        .map(|order| BlockPlan {
            order: order.into_iter().map(|variant| variant as u16).collect(),
            padding_bytes: if padded { paddings.below(4096) as u16 } else { 0 },
        })
        .collect()
}

pub(super) fn slots(plan: &Plan) -> impl Iterator<Item = Slot> + '_ {
    let warmups = (0..plan.warmup)
        .flat_map(|_| 0..plan.variants.len() as u16)
        .map(|variant| (variant, None, 0));
    let runs = plan.blocks.iter().enumerate().flat_map(|(number, block)| {
        block.order.iter().map(move |variant| (*variant, Some(number as u32), block.padding_bytes))
    });
    warmups.chain(runs).enumerate().map(|(slot, (variant, block, padding_bytes))| Slot {
        slot: slot as u32,
        variant,
        block,
        padding_bytes,
    })
}
