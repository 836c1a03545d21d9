//! The plan of a recording: every default resolved, every seed drawn, the whole schedule expanded.
//!
//! A plan is stored before the first run, and running it needs no decision.

mod attached;
mod group;
pub(crate) mod guest;
mod imported;
mod in_process;
pub(crate) mod judged;
mod origin;
pub(crate) mod rule;
mod same_file;
pub(crate) mod schedule;
mod settings;
mod shard;
pub mod shell_syntax;
mod stop;
mod streams;
mod target;
mod validation;

pub use crate::source::EventPlan;
pub use attached::{AttachmentPlan, OpsSource};
pub use group::Group;
pub use guest::{CacheShape, CachesPlan, CorePlan, EmulationPlan, GuestPlan};
pub use imported::{
    Claim, Formula, IMPORT, ImportPlan, ImportSource, ImportedFigures, ImportedMetric, Omission,
};
pub use in_process::InProcessPlan;
pub use origin::Revision;
pub use rule::find_rule;
pub use same_file::SameFile;
pub use schedule::{BlockPlan, Slot};
pub use settings::{Aslr, EnvironmentPolicy, MachineKind, PairsOfVariants};
pub use shard::{Shard, ShardPlan};
pub use stop::{StopPlan, StopReason, Width};
pub use streams::OutputPlan;
pub use target::{HostPlan, Target};
pub(crate) use validation::DECIDES_FROM_RATIO_MIN;
pub use validation::{Accuracy, Validation};

use crate::source::Scope;
use opcost_record::MetricKey;
use opcost_record::printable::printable;
use opcost_record::program_region;
use opcost_work::WorkloadSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Everything that a recording will do.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Plan {
    /// Name of the experiment.
    pub experiment: String,
    /// The question it answers.
    pub question: Option<String>,
    /// What the user calls this recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The command that was given, to be given again; `None` of older recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation: Option<String>,
    /// Where the work runs.
    #[serde(flatten)]
    pub target: Target,
    /// What is compared; the first is the baseline.
    pub variants: Vec<VariantPlan>,
    /// Which variants are compared with which.
    pub pairs_of_variants: PairsOfVariants,
    /// The metric that decides.
    pub primary: MetricKey,
    /// Counters to open, in the order of opening.
    pub events: Vec<EventPlan>,
    /// What was asked for, or is usual, and cannot be counted here.
    pub unavailable: Vec<Unavailable>,
    /// Runs of each variant.
    pub pairs: u32,
    /// The fewest pairs that can decide every metric at its corrected level, as single pairs where
    /// order matters; in plans of before November 2026 as mirrored blocks.
    pub fewest_pairs: u32,
    /// When to stop before all of them are made.
    #[serde(default)]
    pub stop: StopPlan,
    /// Whether the runs of a block are made in one process; `None`: each in one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_process: Option<InProcessPlan>,
    /// How it is cut into shards; `None`: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<ShardPlan>,
    /// Warm-up runs of each variant; of emulated processes that make several runs, processes.
    pub warmup: u32,
    /// Seed of the schedule and of the work.
    pub seed: u64,
    /// The runs, block by block.
    pub blocks: Vec<BlockPlan>,
    /// Limit for one run, milliseconds.
    pub timeout_ms: Option<u64>,
    /// CPU every run is pinned to.
    pub cpu: Option<usize>,
    /// Address space layout of the runs.
    pub aslr: Aslr,
    /// Environment of the runs.
    pub environment: EnvironmentPolicy,
    /// Whether the commands' output is shown.
    pub show_output: bool,
    /// Whether a run that ends with a status other than 0 counts as finished.
    pub ignore_failure: bool,
    /// Waived ledger rules.
    pub allow: Vec<String>,
    /// Files that are the same where functions are compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<SameFile>,
    /// Commands around the runs.
    pub hooks: Hooks,
}

/// A command that builds every variant anew, so that layouts vary and builds are compared.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BuildPlan {
    /// The command, run for each variant in its environment and directory.
    pub command: String,
    /// Blocks that are run with one build.
    pub blocks: u32,
}

/// Commands run around the runs, each through `/bin/sh -c`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Hooks {
    /// Once before the first run.
    pub setup: Option<String>,
    /// After each run.
    pub conclude: Option<String>,
    /// Once after the last run.
    pub cleanup: Option<String>,
    /// Where setup and cleanup run: the directory in which the recording was begun.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
}

/// One variant, resolved.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct VariantPlan {
    /// Column heading.
    pub name: String,
    /// What it runs.
    pub work: WorkPlan,
    /// Variables on top of the environment of the runs.
    pub env: Vec<(String, String)>,
    /// Working directory, absolute, so that the recording can be resumed from any other.
    pub cwd: Option<PathBuf>,
    /// The file that is its standard input, absolute; `None` is /dev/null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<PathBuf>,
    /// Where its standard output goes; `None`: to nobody, or where [`Plan::show_output`] says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputPlan>,
    /// Command run before each run.
    pub prepare: Option<String>,
    /// Its emulated machine; `None` on another machine.
    #[serde(default)]
    pub guest: Option<GuestPlan>,
    /// The commit around its working directory, where that is in a git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// A folder of this machine that is at [`GUEST_TREE`] in the guest, with all of it that is packed,
    /// so that counts do not depend on where it is here; `None` where nothing is moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<PathBuf>,
    /// The value that it has of each parameter that was scanned.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scanned: BTreeMap<String, String>,
}

/// Where the guest has [`VariantPlan::tree`].
pub const GUEST_TREE: &str = "/tree";

impl VariantPlan {
    /// What it runs and on what, as one line of text.
    pub fn describe(&self) -> String {
        let mut work = self.work.describe();
        if let Some(input) = &self.input {
            work += &format!(" < {}", printable(&input.to_string_lossy()));
        }
        work += &self.output.as_ref().map(OutputPlan::as_redirection).unwrap_or_default();
        match &self.guest {
            Some(guest) => format!("{work} on {}", guest.describe()),
            None => work,
        }
    }
}

/// What a variant runs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum WorkPlan {
    /// An external command; in an imported or attached plan, what ran, without arguments.
    Command {
        /// The executable, found, absolute.
        #[serde(with = "crate::os_text::path")]
        program: PathBuf,
        /// The arguments, the command's name first; any bytes but NUL.
        #[serde(with = "crate::os_text::words")]
        argv: Vec<OsString>,
        /// The command as the user wrote it; what is no UTF-8 is escaped.
        line: String,
    },
    /// A built-in workload.
    Workload {
        /// Its name.
        name: String,
        /// All parameters, defaults included, in the order of the workload's table.
        params: Vec<(String, String)>,
    },
}

impl WorkPlan {
    /// The code path that a workload takes, of those that can be exchanged.
    pub fn path(&self) -> Option<&str> {
        let WorkPlan::Workload { params, .. } = self else { return None };
        params.iter().find(|(key, _)| key == opcost_work::PATH).map(|(_, path)| path.as_str())
    }

    /// The work as one line of text; what every workload can be told stands there where it was.
    pub fn describe(&self) -> String {
        match self {
            WorkPlan::Command { line, .. } => printable(line),
            WorkPlan::Workload { name, params } => {
                let spec = WorkloadSpec::find(name);
                let told = |key: &str, value: &str| match spec {
                    Some(spec) => key == "ops" || !spec.is_common_default(key, value),
                    None => true,
                };
                let params: Vec<String> = params
                    .iter()
                    .filter(|(key, value)| told(key, value))
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                format!("{name}:{}", params.join(","))
            }
        }
    }
}

/// A metric that cannot be had here, with the reason and what to do about it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Unavailable {
    /// The metric.
    pub key: MetricKey,
    /// Why.
    pub reason: String,
    /// What would help.
    pub remedy: String,
}

impl Plan {
    /// Every run in order: warm-up runs first, then the blocks; of a shard its own, numbered as in the
    /// whole plan.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        schedule::slots(self).filter(|slot| self.is_made_here(slot))
    }

    /// Where the sources read: around commands, or around regions of a workload.
    pub fn scope(&self) -> Scope {
        match self.variants[0].work {
            _ if self.attachment().is_some() => Scope::Attached,
            WorkPlan::Command { .. } => Scope::Command,
            WorkPlan::Workload { .. } => Scope::Region,
        }
    }

    /// The metrics that every run should have.
    pub fn metrics(&self) -> Vec<MetricKey> {
        match self.emulation() {
            Some(emulation) => {
                let cpus =
                    guest::fewest_cpus(self.variants.iter().map(|variant| variant.guest.as_ref()));
                guest::metrics(emulation, self.boots_kernels(), cpus)
            }
            None => judged::metrics_judged(&self.events, self.scope(), &self.primary),
        }
    }

    /// Whether the program marks regions of its own.
    pub fn regions(&self) -> bool {
        let asked = (program_region::VARIABLE.to_string(), program_region::MARK.to_string());
        self.variants.iter().any(|variant| variant.env.contains(&asked))
    }

    /// Whether the runs boot kernels of their own.
    pub fn boots_kernels(&self) -> bool {
        self.variants
            .iter()
            .any(|variant| variant.guest.as_ref().is_some_and(|guest| guest.kernel.is_some()))
    }

    /// Runs in all, warm-up included.
    pub fn slot_count(&self) -> usize {
        self.slots().count()
    }

    /// Warm-up runs in all.
    pub fn warm_up_count(&self) -> usize {
        self.warmup as usize * self.warm_up_order().len()
    }

    /// The variants of one round of warm-up runs: each once; where emulated processes make several
    /// runs, all of the first process, since only a whole process can be repeated.
    fn warm_up_order(&self) -> Vec<u16> {
        match (self.emulation(), self.in_process) {
            (Some(_), Some(process)) => {
                let blocks = self.blocks.iter().take(process.blocks as usize);
                blocks.flat_map(|block| block.order.clone()).collect()
            }
            _ => (0..self.variants.len() as u16).collect(),
        }
    }

    /// Blocks that make a unit of the test: those of one build, process or computer; else one.
    pub fn blocks_per_unit(&self) -> u32 {
        let process = self.in_process.map(|process| process.blocks);
        let computer = self.shards.and_then(|shards| shards.blocks);
        self.build().map(|build| build.blocks).or(process).or(computer).unwrap_or(1)
    }

    /// What a unit of the test is called, and several.
    pub fn unit_words(&self) -> (&'static str, &'static str) {
        match (self.build(), self.in_process) {
            (Some(_), _) => ("build", "builds"),
            (None, Some(process)) if process.blocks > 1 => ("process", "processes"),
            _ if self.computers().is_some() => ("computer", "computers"),
            _ => ("block", "blocks"),
        }
    }

    /// Pairs in a block.
    fn pairs_in(block: &BlockPlan) -> u32 {
        block.order.iter().filter(|variant| **variant == 0).count() as u32
    }

    /// Pairs in the first so many units of the test; those beyond the schedule are taken to be as
    /// large as its largest.
    pub fn pairs_of_units(&self, units: u32) -> u32 {
        let blocks = units as usize * self.blocks_per_unit() as usize;
        let planned = self.blocks.iter().take(blocks).map(Plan::pairs_in);
        let beyond = blocks.saturating_sub(self.blocks.len()) as u32;
        let largest = self.blocks.iter().map(Plan::pairs_in).max().unwrap_or(1);
        planned.sum::<u32>() + beyond * largest
    }

    /// The fewest of the first blocks that hold so many pairs.
    pub fn blocks_of_pairs(&self, pairs: u32) -> u32 {
        let mut left = pairs;
        let needed = self.blocks.iter().take_while(|block| {
            let open = left > 0;
            left = left.saturating_sub(Plan::pairs_in(block));
            open
        });
        needed.count() as u32
    }

    /// Pairs in the first so many blocks.
    pub fn pairs_of_blocks(&self, blocks: u32) -> u32 {
        self.blocks.iter().take(blocks as usize).map(Plan::pairs_in).sum()
    }

    /// Whether a metric has a verdict of its own: of the two clocks only one, the one that decides
    /// or else the elapsed time, since they would say the same twice.
    pub fn judges(&self, key: &MetricKey) -> bool {
        judged::is_judged(key, &self.primary)
    }

    /// The unit of the test that a block belongs to.
    pub fn unit_of(&self, block: u32) -> u32 {
        block / self.blocks_per_unit()
    }

    /// The comparisons made, as (baseline, variant) indices.
    pub fn comparisons(&self) -> Vec<(usize, usize)> {
        comparisons(self.variants.len(), self.pairs_of_variants)
    }
}

/// The comparisons among `variants` variants, as (baseline, variant) indices.
pub(crate) fn comparisons(variants: usize, which: PairsOfVariants) -> Vec<(usize, usize)> {
    match which {
        PairsOfVariants::Baseline => (1..variants).map(|variant| (0, variant)).collect(),
        PairsOfVariants::All => (0..variants)
            .flat_map(|baseline| (baseline + 1..variants).map(move |variant| (baseline, variant)))
            .collect(),
    }
}
