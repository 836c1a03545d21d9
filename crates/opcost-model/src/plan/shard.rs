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
