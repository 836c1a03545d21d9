//! The shards of a plan: parts that different computers make and `opcost gather` joins.

use super::{Plan, Slot, Target};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// A shard's number and the number of shards: `3/8`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shard {
    /// The shard's number, from 1.
    pub index: u32,
    /// The number of shards of the plan.
    pub of: u32,
}

/// The largest number of shards of a plan.
const SHARDS_MAX: u32 = 100_000;

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let parts = text.split_once('/').map(|(index, of)| (number(index), number(of)));
        let Some((Some(index), Some(of))) = parts else {
            return Err(format!(
                "'{text}' names no shard; write for example 3/8, the third of eight"
            ));
        };
        if !(1..=SHARDS_MAX).contains(&of) {
            return Err(format!("there can be 1 to {SHARDS_MAX} shards, not {of}"));
        }
        match (1..=of).contains(&index) {
            true => Ok(Shard { index, of }),
            false => Err(format!("the shards of {of} are 1/{of} to {of}/{of}")),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// The division of a plan into shards.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ShardPlan {
    /// The number of shards.
    pub of: u32,
    /// The shard that this recording makes, from 1; `None` if all shards were gathered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Blocks of each shard, if the computer that makes a shard is the unit of the test; `None` if computers have no influence on
    /// the counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
}

impl Plan {
    /// The shard that this plan makes; `None` for a whole plan.
    pub fn shard(&self) -> Option<Shard> {
        let shards = self.shards?;
        Some(Shard { index: shards.index?, of: shards.of })
    }

    /// The blocks of a shard: whole units of the test, whose numbers differ between shards by at most one.
    pub fn blocks_of_shard(&self, shard: Shard) -> Range<u32> {
        let blocks = self.blocks.len() as u32;
        if let Some(each) = self.shards.and_then(|shards| shards.blocks) {
            return (shard.index - 1) * each..(shard.index * each).min(blocks);
        }
        let unit = self.blocks_per_unit();
        let units = u64::from(blocks.div_ceil(unit));
        let first = |index: u32| (units * u64::from(index) / u64::from(shard.of)) as u32 * unit;
        first(shard.index - 1)..first(shard.index).min(blocks)
    }

    /// The same plan for another shard, or for all shards.
    pub fn with_shard(&self, index: Option<u32>) -> Plan {
        let shards = self.shards.map(|shards| ShardPlan { index, ..shards });
        // If computers have no influence on the counts, the whole plan keeps nothing of its shards.
        let shards = shards.filter(|shards| index.is_some() || shards.blocks.is_some());
        Plan { shards, ..self.clone() }
    }

    /// Whether this plan makes a run: every run of its shard, and every warm-up run.
    pub(super) fn is_made_here(&self, slot: &Slot) -> bool {
        let (Some(shard), Some(block)) = (self.shard(), slot.block) else { return true };
        self.blocks_of_shard(shard).contains(&block)
    }

    /// The number of computers whose runs are gathered, or will be; each computer is a unit of the test.
    pub fn computers(&self) -> Option<u32> {
        self.shards.filter(|shards| shards.blocks.is_some()).map(|shards| shards.of)
    }

    /// The number of computers that make `pairs` pairs, at an equal number each.
    pub fn computers_of_pairs(&self, pairs: u32) -> u32 {
        pairs.div_ceil((self.pairs / self.computers().unwrap_or(1)).max(1))
    }

    /// The plan without settings that may differ between the computers of its shards: the paths of kernels (their digests identify
    /// them), the number of concurrent machines, and the command and folder in which it began.
    pub fn common_to_shards(&self) -> Plan {
        let shards = self.shards.map(|shards| ShardPlan { index: None, ..shards });
        let mut plan = Plan { shards, invocation: None, label: None, ..self.clone() };
        plan.hooks.cwd = None;
        plan.unavailable.clear();
        if let Target::Emulated(emulation) = &mut plan.target {
            emulation.jobs = 0;
        }
        for variant in &mut plan.variants {
            variant.revision = None;
            if let Some(guest) = &mut variant.guest {
                guest.kernel = None;
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::fixture;
    use proptest::prelude::*;

    #[test]
    fn a_shard_is_read_and_written() {
        for text in ["1/1", "3/8", "8/8"] {
            assert_eq!(text.parse::<Shard>().unwrap().to_string(), text);
        }
        for (text, part) in [
            ("0/8", "1/8 to 8/8"),
            ("9/8", "1/8 to 8/8"),
            ("1/0", "1 to 100000 shards"),
            ("3", "for example 3/8"),
            ("a/b", "for example 3/8"),
            ("-1/8", "for example 3/8"),
            ("", "for example 3/8"),
        ] {
            let error = text.parse::<Shard>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn every_block_is_in_one_shard(pairs in 2u32..40, of in 1u32..12) {
            let whole = fixture::plan(2, pairs);
            let shards = ShardPlan { of, index: None, blocks: None };
            let plan = Plan { shards: Some(shards), ..whole.clone() };
            let blocks: Vec<u32> =
                (1..=of).flat_map(|index| plan.blocks_of_shard(Shard { index, of })).collect();
            prop_assert_eq!(blocks, (0..whole.blocks.len() as u32).collect::<Vec<_>>());
            let sizes = (1..=of).map(|index| plan.blocks_of_shard(Shard { index, of }).len());
            let (least, most) = sizes.fold((usize::MAX, 0), |(low, high), n| (low.min(n), high.max(n)));
            prop_assert!(most - least <= 1);
            let mut slots: Vec<Slot> =
                (1..=of).flat_map(|index| plan.with_shard(Some(index)).slots().collect::<Vec<_>>()).collect();
            slots.sort_by_key(|slot| slot.slot);
            slots.dedup();
            prop_assert_eq!(slots, whole.slots().collect::<Vec<_>>());
            prop_assert_eq!(plan.with_shard(None), whole);
        }
    }
}
