//! Resolves an [`Experiment`], which the user wrote, and the facts about the surroundings into a plan.

mod attached;
#[cfg(test)]
pub mod fixture;
mod guest;
mod hooks;
mod host;
mod in_process;
mod length;
mod like;
mod measured;
mod scan;
mod shards;
mod streams;
mod variants;

pub use attached::{AttachedWork, resolve_attached};

pub use variants::find_workload;
pub use variants::{split_workload, unbalanced};

use crate::load::Load;
use anyhow::{Context, Result};
use length::{Length, Shape};
use measured::{Measured, figures_reported, measured_by_emulator, measured_by_host};
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_kernel::KernelSpec;
use opcost_model::experiment::{Experiment, Seed};
use opcost_model::plan::{
    Aslr, CorePlan, EmulationPlan, EnvironmentPolicy, EventPlan, Hooks, MachineKind, Plan, Target,
    WorkPlan, comparisons, find_rule, schedule,
};
use opcost_record::printable::printable;
use opcost_source::source::Scope;
use opcost_sys::perf::Refusal;
use opcost_sys::scheduling::NoRealTime;
use std::path::{Path, PathBuf};

/// The default seed on the emulated machine: a repeated command gives the same counts again, on every computer.
const EMULATED_SEED: u64 = 1;

/// The facts about the computer and folder in which a plan is made.
pub trait Surroundings {
    /// The CPUs on which this process may run.
    fn allowed_cpus(&self) -> Vec<usize>;
    /// A random seed.
    fn draw_seed(&self) -> u64;
    /// The mount point of sysfs.
    fn sysfs(&self) -> PathBuf;
    /// The primary metric on this computer where the experiment names none, if the user has set one.
    fn primary(&self) -> Option<String>;
    /// The load of the machine; `None` if it is not known.
    fn load(&self) -> Option<Load>;
    /// The reason why runs cannot have real-time priority; `None` if they can.
    fn no_real_time(&self) -> Option<NoRealTime>;
    /// For each event, opened in its group behind the group's leader, the reason why it cannot be opened; `None` if it can.
    fn refusals(&self, events: &[EventPlan]) -> Vec<Option<Refusal>>;
    /// The kernel that a user's words name.
    ///
    /// # Errors
    /// There is no such kernel.
    fn kernel(&self, name: &str) -> Result<KernelSpec>;
    /// The commit that a user's words name in a git tree, with the files of its configuration.
    ///
    /// # Errors
    /// The folder is not a git tree, or has no such revision.
    fn kernel_revision(&self, tree: &Path, name: &str, config: &[PathBuf]) -> Result<KernelSpec>;
    /// The core that a user's words name: a file, or a core that ships with opcost.
    ///
    /// # Errors
    /// There is no such core, or its file is wrong.
    fn core(&self, name: &str) -> Result<CorePlan>;
    /// A file of a kernel's recipe; if the folder does not have it, the file of that name that ships with opcost.
    fn recipe_file(&self, folder: &Path, file: &Path) -> PathBuf;
    /// The value of PATH.
    fn search_path(&self) -> Option<std::ffi::OsString>;
    /// The text of /proc/cpuinfo; `None` if it cannot be read.
    fn cpuinfo(&self) -> Option<String>;
    /// The working directory of this process, absolute.
    ///
    /// # Errors
    /// The folder cannot be read, for example because it was removed.
    fn working_dir(&self) -> std::io::Result<PathBuf>;
}

/// Resolves an experiment into a plan.
///
/// # Errors
/// Usage errors name the field. A command that cannot be found or executed has the status "work failed"; a primary metric that
/// cannot be counted here has the status "missing".
pub fn resolve(experiment: &Experiment, surroundings: &dyn Surroundings) -> Result<Plan> {
    let here = surroundings
        .working_dir()
        .context("cannot read the working directory")
        .status(Status::Missing)?;
    check_machine(experiment)?;
    let experiment = &hooks::distribute(experiment)?;
    let emulation = guest::resolve_emulation(experiment, surroundings)?;
    let variants = variants::resolve_variants(experiment, surroundings, &here)?;
    let cpu = host::resolve_cpu(experiment, surroundings)?;
    let workload = matches!(variants[0].work, WorkPlan::Workload { .. });
    let scope = if workload { Scope::Region } else { Scope::Command };
    let pairs_of_variants = experiment.pairs_of_variants.unwrap_or_default();
    let Measured { events, unavailable, metrics, primary, primary_if_busy } = match &emulation {
        Some(emulation) => measured_by_emulator(experiment, emulation, &variants)?,
        None => measured_by_host(experiment, scope, surroundings)?,
    };
    let target = match emulation {
        Some(emulation) => {
            let booted_once = guest::booted_once(emulation.booted_once, &variants);
            let pack_used = guest::pack_used(experiment, &variants);
            Target::Emulated(Box::new(EmulationPlan { booted_once, pack_used, ..emulation }))
        }
        None => Target::Host(host::resolve_host(experiment, &events)?),
    };
    let emulated = matches!(target, Target::Emulated(_));
    shards::check(experiment, !emulated, variants.len() == 1)?;
    let in_process = in_process::resolve_in_process(experiment, &variants)?;
    check_block(experiment, variants.len())?;
    let build_blocks = match &target {
        Target::Host(host) => host.build.as_ref().map(|build| build.blocks),
        _ => None,
    };
    let Length { stop, pairs, fewest_pairs, singles, blocks_per_computer, warmup } =
        length::resolve_length(
            experiment,
            &Shape {
                variants: variants.len(),
                emulated,
                in_process: in_process.is_some(),
                blocks_per_unit: build_blocks.or(in_process.map(|process| process.blocks)),
                runs_behind_own: experiment.block.map(|runs| runs - 1),
                computers: experiment.shard.filter(|_| !emulated).map(|shard| shard.of),
                comparisons: comparisons(&variants, pairs_of_variants).len(),
                metrics: [metrics, figures_reported(&variants)].concat(),
                primary: &primary,
            },
        )?;
    for rule in &experiment.allow {
        find_rule(rule).status(Status::Usage)?;
    }
    let fixed_seed = emulated.then_some(EMULATED_SEED);
    let fixed_seed = fixed_seed.or(experiment.shard.map(|_| shards::SEED));
    let seed = experiment.seed.map_or(fixed_seed, Seed::number);
    let seed = seed.unwrap_or_else(|| surroundings.draw_seed());
    // Commands of the user run in the user's environment; workloads and emulated runs get the same environment everywhere.
    let fixed = workload || emulated;
    let (environment, aslr) = match fixed {
        true => (EnvironmentPolicy::Fixed, Aslr::Fixed),
        false => (EnvironmentPolicy::Inherit, Aslr::Randomised),
    };
    let environment = experiment.environment.unwrap_or(environment);
    let padded = environment == EnvironmentPolicy::Randomised;
    let plan = Plan {
        experiment: match &experiment.name {
            Some(name) => printable(name),
            None => variants::default_name(&variants),
        },
        question: experiment.question.as_deref().map(printable),
        label: experiment.label.as_deref().map(printable),
        invocation: None,
        pairs_of_variants,
        primary,
        primary_if_busy: primary_if_busy.filter(|_| warmup > 0),
        events,
        unavailable,
        pairs,
        fewest_pairs,
        stop,
        in_process,
        block: experiment.block,
        // Two variants follow themselves by chance often enough.
        repeats_last: !emulated
            && variants.len() > 2
            && in_process.is_none()
            && experiment.block.is_none()
            && experiment.shard.is_none(),
        warmup,
        seed,
        blocks: match (emulated, experiment.block.map(|runs| runs - 1)) {
            (true, _) => schedule::draw_emulated(variants.len(), pairs, singles, seed, in_process),
            (false, None) => schedule::draw(variants.len(), pairs, singles, seed, padded),
            (false, Some(runs)) => {
                schedule::draw_behind_own(variants.len(), pairs / runs, runs, seed, padded)
            }
        },
        timeout_ms: experiment
            .timeout
            .map(|limit| limit.limit_ms)
            .or(emulated.then_some(guest::LIMIT_MS)),
        cpu,
        aslr: experiment.aslr.unwrap_or(aslr),
        environment,
        show_output: experiment.show_output,
        ignore_failure: experiment.ignore_failure.clone(),
        allow: experiment.allow.clone(),
        matches: experiment.matches.clone(),
        hooks: Hooks {
            setup: experiment.setup.first().cloned(),
            conclude: experiment.conclude.first().cloned(),
            cleanup: experiment.cleanup.first().cloned(),
            cwd: Some(here),
        },
        shards: None,
        variants,
        target,
    };
    shards::cut(plan, experiment.shard, blocks_per_computer)
}

/// Refuses kinds of machines that an experiment file cannot run.
fn check_machine(experiment: &Experiment) -> Result<()> {
    let why = match experiment.machine {
        Some(MachineKind::Imported) => {
            "machine = \"imported\": nothing runs there; use host or emulated"
        }
        Some(MachineKind::Attached) => {
            "machine = \"attached\": a running program is compared by opcost attach PID"
        }
        _ => return Ok(()),
    };
    Err(fail(Status::Usage, why))
}

/// Refuses runs behind their own variant where runs leave nothing behind, or where another option decides their order.
fn check_block(experiment: &Experiment, variants: usize) -> Result<()> {
    let Some(runs) = experiment.block else { return Ok(()) };
    let why = match experiment {
        _ if !(2..=BLOCK_MAX).contains(&runs) => {
            "give 2 to 1,000; the first run is left out, and the others are compared"
        }
        Experiment { machine: Some(MachineKind::Emulated), .. } => {
            "every run of the emulated machine begins in the same state, so none finds what another left behind; \
             leave it out"
        }
        _ if variants == 1 => {
            "there is one variant, whose runs follow one another anyway; leave it out"
        }
        Experiment { in_process: true, .. } => {
            "with --in-process the code paths take turns run by run; leave one of both out"
        }
        Experiment { shard: Some(_), .. } => {
            "with --shard variants take turns run by run; leave one of both out"
        }
        _ => return Ok(()),
    };
    Err(fail(Status::Usage, format!("--block {runs}: {why}")))
}

/// The largest number of runs of a variant behind one another.
const BLOCK_MAX: u32 = 1_000;

#[cfg(test)]
mod tests;
