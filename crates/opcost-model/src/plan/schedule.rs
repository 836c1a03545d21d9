//! The order of runs.
//!
//! **Few pairs are blocks of their own.** Twelve mirrored blocks of two pairs are 24 runs a side before a tenfold difference
//! is real; twelve single pairs are 12. Single pairs average an effect of order out but do not cancel it;
//! `crates/opcost-stats/tests/it/units.rs` simulates both. From 32 pairs on, mirrored blocks are better. A plan that may stop
//! early begins with as many single pairs as decide every metric. The plan stores the unit of the test, so older recordings
//! keep their blocks.

use super::{InProcessPlan, Plan};
use opcost_stats::random::Random;
use opcost_stats::schedule::{self, MIRRORED_PAIRS_MIN, plain_blocks};
use serde::{Deserialize, Serialize};

/// One block of the schedule: a random order of the variants, followed by the mirrored order if there are many blocks.
///
/// Counts of the emulated machine have no drift, so each variant runs once in a block there, with the block's seed and padding. If
/// an emulated process makes several runs, order matters there too, and all blocks of a process share seed and padding.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct BlockPlan {
    /// Indices of the variants in the order of running.
    pub order: Vec<u16>,
    /// Bytes of padding in the environment, if the environment is randomised; in a guest, on its kernel's command line.
    pub padding_bytes: u16,
    /// Seed of the emulated machine, from which its kernel and programs draw random numbers.
    #[serde(default)]
    pub guest_seed: u32,
}

/// One planned run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Slot {
    /// Position in the schedule.
    pub slot: u32,
    /// Index of the variant.
    pub variant: u16,
    /// The block; `None` for warm-up runs.
    pub block: Option<u32>,
    /// The number of the variant's earlier runs, warm-up runs or others as this run is.
    pub iteration: u32,
    /// Bytes of padding in the environment.
    pub padding_bytes: u16,
    /// Seed of the emulated machine.
    pub guest_seed: u32,
    /// Whether only what the run leaves behind matters, which the next run finds; its own figures are not compared.
    pub is_left_out: bool,
}

impl Slot {
    /// The block whose comparison the run is part of; `None` for warm-up runs and for runs that are left out.
    pub fn compared_in(&self) -> Option<u32> {
        self.block.filter(|_| !self.is_left_out)
    }

    /// The run's number among the variant's runs as hyperfine writes it: `warmup-0` or `7`.
    pub fn iteration_text(&self) -> String {
        match self.block {
            None => format!("warmup-{}", self.iteration),
            Some(_) => self.iteration.to_string(),
        }
    }
}

/// The number of pairs that are blocks of their own, before the mirrored blocks.
///
/// `fewest`: the fewest single pairs that decide every metric. `by_unit`: whether builds or processes are the units of the test;
/// mirrored blocks need no more of these. `least`: the pairs after which the recording may stop early, if it may. Such a recording
/// can decide from the fewest pairs on. Its first units suit an early stop, the mirrored blocks after them suit many pairs.
pub fn single_pairs(pairs: u32, fewest: u32, by_unit: bool, least: Option<u32>) -> u32 {
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

/// The fewest blocks that contain `pairs` pairs: `singles` blocks of one pair, then mirrored blocks.
pub fn blocks_of_pairs(pairs: u32, singles: u32) -> u32 {
    pairs.min(singles) + pairs.saturating_sub(singles).div_ceil(2)
}

/// Draws the blocks of a schedule, with `singles` of the pairs in blocks of their own.
///
/// `padded`: draw a padding for each block. All runs of a block share it, so layouts differ between blocks and never between the
/// two sides of a comparison.
pub fn draw(variants: usize, pairs: u32, singles: u32, seed: u64, padded: bool) -> Vec<BlockPlan> {
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

/// Draws blocks in each of which every variant makes `runs` compared runs behind one another.
pub fn draw_behind_own(
    variants: usize,
    blocks: u32,
    runs: u32,
    seed: u64,
    padded: bool,
) -> Vec<BlockPlan> {
    let mut blocks = draw(variants, blocks, blocks, seed, padded);
    for block in &mut blocks {
        let order = std::mem::take(&mut block.order).into_iter();
        block.order = order.flat_map(|variant| vec![variant; runs as usize]).collect();
    }
    blocks
}

/// Draws the blocks of a schedule for the emulated machine.
///
/// Every input shifts the phase of ticks and the layout of memory. Seed and padding therefore differ between machines, and never
/// between the two sides of a comparison. `process`: the number of blocks that a machine makes if its process exchanges code paths.
/// The machine's clock runs on between these blocks, so order matters, and all pairs but `singles` are in mirrored blocks.
pub fn draw_emulated(
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

/// The largest padding of a guest: its kernel's command line holds 2048 bytes in all (x86, COMMAND_LINE_SIZE).
const GUEST_PADDING_MAX: u64 = 256;

pub fn slots(plan: &Plan) -> impl Iterator<Item = Slot> + '_ {
    // A warm-up run of the emulated machine repeats a run of the first unit, so its inputs must be the same.
    let first = plan.blocks.first().filter(|_| plan.emulation().is_some());
    let (padding_bytes, guest_seed) =
        first.map_or((0, 0), |block| (block.padding_bytes, block.guest_seed));
    let order = plan.warm_up_order();
    let warmups = (0..plan.warmup).flat_map(move |_| order.clone()).map(move |variant| Slot {
        slot: 0,
        variant,
        block: None,
        iteration: 0,
        padding_bytes,
        guest_seed,
        is_left_out: false,
    });
    let runs = plan.blocks.iter().zip(0..).flat_map(|(block, number)| {
        runs_of(plan, &block.order).into_iter().map(move |(variant, is_left_out)| Slot {
            slot: 0,
            variant,
            block: Some(number),
            iteration: 0,
            padding_bytes: block.padding_bytes,
            guest_seed: block.guest_seed,
            is_left_out,
        })
    });
    let mut made = vec![[0u32; 2]; plan.variants.len()];
    warmups.chain(runs).zip(0..).map(move |(slot, number)| {
        // A plan of others may name variants that it does not have.
        let made = made.get_mut(usize::from(slot.variant));
        let iteration = made.map_or(0, |made| {
            let made = &mut made[usize::from(slot.block.is_some())];
            std::mem::replace(made, *made + 1)
        });
        Slot { slot: number, iteration, ..slot }
    })
}

/// The variants of a block's runs, each with whether the run is left out.
fn runs_of(plan: &Plan, order: &[u16]) -> Vec<(u16, bool)> {
    let mut runs = Vec::with_capacity(order.len());
    for of_variant in order.chunk_by(|one, next| plan.block.is_some() && one == next) {
        if plan.block.is_some() {
            runs.push((of_variant[0], true));
        }
        runs.extend(of_variant.iter().map(|variant| (*variant, false)));
    }
    if plan.repeats_last {
        runs.extend(order.last().map(|variant| (*variant, true)));
    }
    runs
}
