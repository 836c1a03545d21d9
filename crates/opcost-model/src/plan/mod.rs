//! The plan of a recording: every default resolved, every seed drawn, the whole schedule expanded.
//!
//! A plan is stored before the first run. Executing a plan needs no further decision.

mod attached;
mod calls;
mod counted;
mod executed;
mod group;
pub mod guest;
mod ignored_statuses;
mod imported;
mod in_process;
pub mod judged;
mod operations;
mod origin;
mod repetition;
pub mod rule;
mod same_file;
pub mod schedule;
pub mod service;
mod settings;
mod shard;
pub mod shell_syntax;
mod steps;
mod stop;
mod streams;
mod target;
mod validation;

pub use attached::{AttachmentPlan, OpsSource};
pub use calls::CalledFunctions;
pub use counted::Counted;
pub use group::Group;
pub use guest::{CorePlan, EmulationPlan, GuestPlan};
pub use ignored_statuses::IgnoredStatuses;
pub use imported::{
    Claim, Formula, IMPORT, ImportPlan, ImportSource, ImportedFigures, ImportedMetric, Omission,
};
pub use in_process::InProcessPlan;
pub use opcost_source::source::EventPlan;
pub use operations::OPERATIONS_MIN;
pub use operations::OpsPattern;
pub use origin::Revision;
pub use rule::find_rule;
pub use same_file::SameFile;
pub use schedule::{BlockPlan, Slot};
pub use settings::{Aslr, EnvironmentPolicy, MachineKind, PairsOfVariants, Priority};
pub use shard::{Shard, ShardPlan};
pub use steps::SteppedOperation;
pub use stop::{StopPlan, StopReason, Width};
pub use streams::OutputPlan;
pub use target::{HostPlan, Target};
pub use validation::DECIDES_FROM_RATIO_MIN;
pub use validation::{Accuracy, Validation};

use opcost_record::MetricKey;
use opcost_record::printable::printable;
use opcost_record::program_region;
use opcost_source::source::Scope;
use opcost_work::WorkloadSpec;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

/// Has plans hold values of these types as the texts that users write, which `FromStr` reads and `Display` writes.
macro_rules! held_as_written {
    ($($name:ty),+) => {$(
        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<$name, String> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    )+};
}

held_as_written!(
    CalledFunctions,
    Counted,
    OpsPattern,
    SameFile,
    service::ReadySign,
    SteppedOperation
);

/// Everything that makes up a recording before its first run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Plan {
    /// Name of the experiment.
    pub experiment: String,
    /// The question that the experiment answers.
    pub question: Option<String>,
    /// The label that the user gives the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The command that made the recording, for repeating it; `None` in older recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation: Option<String>,
    /// The place where the work runs.
    #[serde(flatten)]
    pub target: Target,
    /// The variants to compare; the first is the baseline.
    pub variants: Vec<VariantPlan>,
    /// The choice of the variants compared with each other.
    pub pairs_of_variants: PairsOfVariants,
    /// The metric that decides.
    pub primary: MetricKey,
    /// The metric that decides instead if the warm-up runs were disturbed; `None` if they choose nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_if_busy: Option<MetricKey>,
    /// Counters to open, in the order of opening.
    pub events: Vec<EventPlan>,
    /// Metrics that were asked for or are usual, but cannot be counted here.
    pub unavailable: Vec<Unavailable>,
    /// Runs of each variant.
    pub pairs: u32,
    /// The fewest pairs that can decide every metric at its corrected level: single pairs if order matters, and mirrored blocks in
    /// plans from before November 2026.
    pub fewest_pairs: u32,
    /// The rules for stopping before the whole schedule is made.
    #[serde(default)]
    pub stop: StopPlan,
    /// The blocks made in one process; `None` gives each run a process of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_process: Option<InProcessPlan>,
    /// Runs of each variant behind one another in a block, the first of which is left out; `None` leaves out none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
    /// Whether each block repeats its last run, so that runs of every variant follow their own. A repeat is not compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeats_last: bool,
    /// The division into shards; `None` divides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<ShardPlan>,
    /// Warm-up runs of each variant; warm-up processes, if emulated processes make several runs.
    pub warmup: u32,
    /// Seed of the schedule and of the work.
    pub seed: u64,
    /// The runs, block by block.
    pub blocks: Vec<BlockPlan>,
    /// Time limit for one run, milliseconds.
    pub timeout_ms: Option<u64>,
    /// CPU to which every run is pinned.
    pub cpu: Option<usize>,
    /// Address space layout of the runs.
    pub aslr: Aslr,
    /// Environment of the runs.
    pub environment: EnvironmentPolicy,
    /// Whether the commands' output is shown.
    pub show_output: bool,
    /// The exit statuses other than 0 with which a run counts as finished.
    pub ignore_failure: IgnoredStatuses,
    /// Waived ledger rules.
    pub allow: Vec<String>,
    /// Files that count as the same when functions are compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<SameFile>,
    /// Commands around the runs.
    pub hooks: Hooks,
}

/// A command that rebuilds every variant, so that layouts vary and builds are compared.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct BuildPlan {
    /// The command, run for each variant in its environment and directory.
    pub command: String,
    /// Number of blocks that run with one build.
    pub blocks: u32,
}

/// Commands run around the runs, each through `/bin/sh -c`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Hooks {
    /// Runs once before the first run.
    pub setup: Option<String>,
    /// Runs after each run.
    pub conclude: Option<String>,
    /// Runs once after the last run.
    pub cleanup: Option<String>,
    /// The folder of setup and cleanup: the folder in which the recording began.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
}

/// One variant, resolved.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct VariantPlan {
    /// Column heading.
    pub name: String,
    /// The command or workload.
    pub work: WorkPlan,
    /// Variables added to the environment of the runs.
    pub env: Vec<(String, String)>,
    /// Working directory, absolute, so that a recording can be resumed from any directory.
    pub cwd: Option<PathBuf>,
    /// The file for standard input, absolute; `None` is /dev/null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<PathBuf>,
    /// The destination of standard output; `None` follows [`Plan::show_output`], which may discard the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputPlan>,
    /// Where the command prints the number of its operations; `None` counts the whole run as one operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops: Option<OpsPattern>,
    /// Command run before each run.
    pub prepare: Option<String>,
    /// Command run after each run, in place of [`Hooks::conclude`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclude: Option<String>,
    /// Command run once before the first run, after [`Hooks::setup`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Command run once after the last run, before [`Hooks::cleanup`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<String>,
    /// The emulated machine; `None` on another kind of machine.
    #[serde(default)]
    pub guest: Option<GuestPlan>,
    /// The commit of the working directory, if the directory is in a git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// A folder of this computer that is at [`GUEST_TREE`] in the guest, together with everything packed from it, so that counts do
    /// not depend on its path here. `None` moves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<PathBuf>,
    /// The variant's value of each parameter that is scanned.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scanned: BTreeMap<String, String>,
}

/// The guest's path of [`VariantPlan::tree`].
pub const GUEST_TREE: &str = "/tree";

impl VariantPlan {
    /// The work and its machine, as one line of text.
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

/// The work of a variant.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum WorkPlan {
    /// An external command; in imported and attached plans the program that ran, without arguments.
    Command {
        /// The path of the executable, absolute.
        #[serde(with = "opcost_base::os_text::path")]
        program: PathBuf,
        /// The arguments, starting with the command's name; any bytes but NUL.
        #[serde(with = "opcost_base::os_text::words")]
        argv: Vec<OsString>,
        /// The command as the user wrote it; bytes that are not UTF-8 are escaped.
        line: String,
    },
    /// A built-in workload.
    Workload {
        /// The workload's name.
        name: String,
        /// All parameters, defaults included, in the order of the workload's table.
        params: Vec<(String, String)>,
    },
}

impl WorkPlan {
    /// The code path of a workload, if its code paths can be exchanged.
    pub fn path(&self) -> Option<&str> {
        let WorkPlan::Workload { params, .. } = self else { return None };
        params.iter().find(|(key, _)| key == opcost_work::PATH).map(|(_, path)| path.as_str())
    }

    /// The work as one line of text. Options common to all workloads, except `ops`, are left out at their defaults.
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

/// A metric that cannot be counted here, with the reason and a remedy.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Unavailable {
    /// The metric.
    pub key: MetricKey,
    /// The reason.
    pub reason: String,
    /// The remedy.
    pub remedy: String,
}

impl Plan {
    /// Every run in order: warm-up runs first, then the blocks. A shard has only its own runs, numbered as in the whole plan.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        schedule::slots(self).filter(|slot| self.is_made_here(slot))
    }

    /// The scope of the sources: a command, or regions of a workload.
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

    /// The metrics that an option asks for.
    pub fn metrics_chosen(&self) -> Vec<MetricKey> {
        match self.emulation() {
            Some(emulation) => {
                let cpus =
                    guest::fewest_cpus(self.variants.iter().map(|variant| variant.guest.as_ref()));
                guest::metrics_chosen(emulation, self.boots_kernels(), cpus)
            }
            None => self.events.iter().map(|event| event.key.clone()).collect(),
        }
    }

    /// Whether the program marks its own regions.
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

    /// Whether opcost shows what a variant's command prints.
    pub fn shows_output(&self, variant: &VariantPlan) -> bool {
        match variant.output {
            Some(OutputPlan::Inherit) => true,
            Some(_) => false,
            None => self.show_output,
        }
    }

    /// Whether a budget or a width ends the runs, as a rule before the last one that is scheduled.
    pub fn may_end_early(&self) -> bool {
        self.stop.budget_ms.is_some() || self.stop.width_ratio.is_some()
    }

    /// The runs made, of as many as will be: `12 of 44 runs`, or `12 runs` if the time decides how many there will be.
    pub fn runs_in_words(&self, made: usize) -> String {
        match self.may_end_early() {
            true => format!("{made} runs"),
            false => format!("{made} of {} runs", self.slot_count()),
        }
    }

    /// Number of all runs, including warm-up runs.
    pub fn slot_count(&self) -> usize {
        self.slots().count()
    }

    /// Number of all warm-up runs.
    pub fn warm_up_count(&self) -> usize {
        self.warmup as usize * self.warm_up_order().len()
    }

    /// The variants of one round of warm-up runs: each variant once. If emulated processes make several runs, a round is the whole
    /// first process, as only whole processes can be repeated.
    fn warm_up_order(&self) -> Vec<u16> {
        match (self.emulation(), self.in_process) {
            (Some(_), Some(process)) => {
                let blocks = self.blocks.iter().take(process.blocks as usize);
                blocks.flat_map(|block| block.order.clone()).collect()
            }
            _ => (0..self.variants.len() as u16).collect(),
        }
    }

    /// Number of blocks in a unit of the test: those of one build, process or computer, or else one.
    pub fn blocks_per_unit(&self) -> u32 {
        let process = self.in_process.map(|process| process.blocks);
        let computer = self.shards.and_then(|shards| shards.blocks);
        self.build().map(|build| build.blocks).or(process).or(computer).unwrap_or(1)
    }

    /// The name of a unit of the test, in singular and plural.
    pub fn unit_words(&self) -> (&'static str, &'static str) {
        match (self.build(), self.in_process) {
            (Some(_), _) => ("build", "builds"),
            (None, Some(process)) if process.blocks > 1 => ("process", "processes"),
            _ if self.computers().is_some() => ("computer", "computers"),
            _ => ("block", "blocks"),
        }
    }

    /// Number of pairs in a block.
    fn pairs_in(block: &BlockPlan) -> u32 {
        block.order.iter().filter(|variant| **variant == 0).count() as u32
    }

    /// Number of pairs in the first `units` units of the test. Units beyond the schedule count with the schedule's largest block.
    pub fn pairs_of_units(&self, units: u32) -> u32 {
        let blocks = units as usize * self.blocks_per_unit() as usize;
        let planned = self.blocks.iter().take(blocks).map(Plan::pairs_in);
        let beyond = blocks.saturating_sub(self.blocks.len()) as u32;
        let largest = self.blocks.iter().map(Plan::pairs_in).max().unwrap_or(1);
        planned.sum::<u32>() + beyond * largest
    }

    /// The fewest of the first blocks that contain `pairs` pairs.
    pub fn blocks_of_pairs(&self, pairs: u32) -> u32 {
        let mut left = pairs;
        let needed = self.blocks.iter().take_while(|block| {
            let open = left > 0;
            left = left.saturating_sub(Plan::pairs_in(block));
            open
        });
        needed.count() as u32
    }

    /// Number of pairs in the first `blocks` blocks.
    pub fn pairs_of_blocks(&self, blocks: u32) -> u32 {
        self.blocks.iter().take(blocks as usize).map(Plan::pairs_in).sum()
    }

    /// Whether a metric has a verdict. Two clocks would give the same verdict twice, so only one is judged: the primary metric if
    /// it is a clock, or else the elapsed time.
    pub fn judges(&self, key: &MetricKey) -> bool {
        judged::is_judged(key, &self.primary)
    }

    /// The unit of the test to which a block belongs.
    pub fn unit_of(&self, block: u32) -> u32 {
        block / self.blocks_per_unit()
    }

    /// The comparisons made, as (baseline, variant) indices.
    pub fn comparisons(&self) -> Vec<(usize, usize)> {
        comparisons(&self.variants, self.pairs_of_variants)
    }

    /// The words for why two variants stand beside each other without being compared; `None` if they are compared.
    pub fn apart(&self, (one, other): (usize, usize)) -> Option<&'static str> {
        apart(self.variants.get(one)?, self.variants.get(other)?)
    }

    /// The comparisons of variants that did not fail.
    pub fn comparisons_without(&self, failed: &BTreeSet<usize>) -> Vec<(usize, usize)> {
        let mut left = self.comparisons();
        left.retain(|(one, other)| !failed.contains(one) && !failed.contains(other));
        left
    }
}

/// The comparisons among variants, as (baseline, variant) indices. The baseline of a variant is the first that it can be compared
/// with; if there is none, the variant stands beside the first of all.
pub fn comparisons(variants: &[VariantPlan], which: PairsOfVariants) -> Vec<(usize, usize)> {
    let count = variants.len();
    let baseline = |variant: usize| {
        let comparable = |one: &usize| apart(&variants[*one], &variants[variant]).is_none();
        (0..variant).find(comparable).unwrap_or(0)
    };
    match which {
        PairsOfVariants::Baseline => {
            (1..count).map(|variant| (baseline(variant), variant)).collect()
        }
        PairsOfVariants::All => (0..count)
            .flat_map(|baseline| (baseline + 1..count).map(move |variant| (baseline, variant)))
            .collect(),
    }
}

fn apart(one: &VariantPlan, other: &VariantPlan) -> Option<&'static str> {
    one.guest.as_ref()?.settings.apart(&other.guest.as_ref()?.settings)
}
