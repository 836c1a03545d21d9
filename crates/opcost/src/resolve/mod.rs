//! From what the user wrote, an [`Experiment`], and what is known of the surroundings to a plan.

mod attached;
#[cfg(test)]
pub(crate) mod fixture;
mod guest;
#[cfg(test)]
mod guest_tests;
mod in_process;
mod measured;
mod repetition;
#[cfg(test)]
mod tests;

pub use attached::{AttachedWork, resolve_attached};

use crate::exit::{Status, WithStatus, fail};
use crate::experiment::{Command, Experiment, Variant};
use crate::kernel::KernelSpec;
use crate::nearest::nearest;
use crate::plan::{
    Aslr, BuildPlan, EnvironmentPolicy, EventPlan, GuestPlan, Hooks, MachineKind, Plan, StopPlan,
    VariantPlan, WorkPlan, comparisons, find_rule, schedule, shell_syntax,
};
use crate::sampling::{self, SamplingPlan};
use crate::source::Scope;
use anyhow::{Context, Result};
use measured::{Measured, fewest_blocks, figures_reported, measured_by_emulator, measured_by_host};
use opcost_record::printable::{printable, printable_bytes};
use opcost_sys::perf::Refusal;
use opcost_sys::spawn::find_program;
use opcost_work::WorkloadSpec;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The most runs of a variant; also of warm-up runs.
const PAIRS_MAX: u32 = 1_000_000;
/// Pairs at most, where a width or a budget says when to stop.
const PAIRS_UNTIL_STOPPED: u32 = 2_000;
/// Runs of a single variant that decide nothing and show its spread: so many at least, and more until
/// the time is spent; on the emulated machine so many seeds.
const RUNS_ALONE_MIN: u32 = 10;
const RUNS_ALONE_MAX: u32 = 1_000;
const TIME_ALONE_MS: u64 = 3_000;
const RUNS_ALONE_EMULATED: u32 = 6;
/// The most variants, so that runs can be numbered by 32 bits.
const VARIANTS_MAX: usize = 1000;

/// What the plan has to know of the place it is made in.
pub trait Surroundings {
    /// CPUs this process may run on.
    fn allowed_cpus(&self) -> Vec<usize>;
    /// A seed nobody chose.
    fn draw_seed(&self) -> u64;
    /// Where sysfs is mounted.
    fn sysfs(&self) -> PathBuf;
    /// Whether events can be opened together, each behind the leader of its group; if not, why.
    fn refusals(&self, events: &[EventPlan]) -> Vec<Option<Refusal>>;
    /// The kernel that a user's words name.
    ///
    /// # Errors
    /// There is no such kernel.
    fn kernel(&self, name: &str) -> Result<KernelSpec>;
    /// The value of PATH.
    fn search_path(&self) -> Option<std::ffi::OsString>;
    /// The working directory of this process, absolute.
    ///
    /// # Errors
    /// It cannot be read, for example because it was removed.
    fn working_dir(&self) -> std::io::Result<PathBuf>;
}

/// Resolves an experiment into a plan.
///
/// # Errors
/// Usage errors name the field; a command that cannot be found or executed has the status
/// "work failed"; a primary metric that cannot be counted here, "missing".
pub fn resolve(experiment: &Experiment, surroundings: &dyn Surroundings) -> Result<Plan> {
    let here = surroundings
        .working_dir()
        .context("cannot read the working directory")
        .status(Status::Missing)?;
    if experiment.machine == Some(MachineKind::Imported) {
        let why = "machine = \"imported\": nothing runs there; use host or emulated";
        return Err(fail(Status::Usage, why));
    }
    if experiment.machine == Some(MachineKind::Attached) {
        let why = "machine = \"attached\": a running program is compared by opcost attach PID";
        return Err(fail(Status::Usage, why));
    }
    let emulation = guest::resolve_emulation(experiment, surroundings.allowed_cpus().len())?;
    let variants = resolve_variants(experiment, surroundings, &here)?;
    let workload = matches!(variants[0].work, WorkPlan::Workload { .. });
    if let Some(cpu) = experiment.cpu {
        let allowed = surroundings.allowed_cpus();
        if !allowed.contains(&cpu) {
            return Err(fail(
                Status::Usage,
                format!(
                    "--cpu {cpu}: this process may run on CPUs {allowed:?} only; choose one of them"
                ),
            ));
        }
    }
    let scope = if workload { Scope::Region } else { Scope::Command };
    let pairs_of_variants = experiment.pairs_of_variants.unwrap_or_default();
    let comparisons = comparisons(variants.len(), pairs_of_variants).len();
    let Measured { events, unavailable, metrics, primary } = match &emulation {
        Some(emulation) => measured_by_emulator(experiment, emulation, &variants)?,
        None => measured_by_host(experiment, scope, surroundings)?,
    };
    let sampling = resolve_sampling(experiment, emulation.is_some(), &events)?;
    let alone = variants.len() == 1;
    let mut stop = StopPlan {
        width_ratio: experiment.until_width.map(|width| width.ratio),
        budget_ms: experiment.budget.map(|budget| budget.limit_ms),
        blocks_min: 0,
    };
    if alone {
        refuse_comparing(experiment)?;
        if experiment.pairs.is_none() && stop.budget_ms.is_none() && emulation.is_none() {
            stop.budget_ms = Some(TIME_ALONE_MS);
            stop.blocks_min = RUNS_ALONE_MIN;
        }
    }
    let metrics = [metrics, figures_reported(&variants)].concat();
    // Nothing is decided of one variant.
    let units_needed = match alone {
        true => 1,
        false => fewest_blocks(&metrics, &primary, comparisons, &stop.error_budget()),
    };
    let in_process = in_process::resolve_in_process(experiment, &variants)?;
    let build = resolve_build(experiment, emulation.is_some())?;
    let blocks_per_unit = build.as_ref().map(|build| build.blocks);
    let blocks_per_unit = blocks_per_unit.or(in_process.map(|process| process.blocks));
    let fewest_pairs = units_needed * blocks_per_unit.unwrap_or(1);
    let drifts = emulation.is_none() || in_process.is_some();
    // With the fewest a change of anything that varies is found only if next to every pair has it.
    let usual = if drifts { 2 * fewest_pairs } else { fewest_pairs };
    let may_stop = stop != StopPlan::default();
    let most = match (may_stop, alone) {
        (true, true) => RUNS_ALONE_MAX,
        (false, true) => RUNS_ALONE_EMULATED,
        (true, false) => PAIRS_UNTIL_STOPPED,
        (false, false) => 0,
    };
    let pairs = experiment.pairs.unwrap_or(usual.max(most));
    let warmup = experiment.warmup.unwrap_or(1);
    if !(if alone { 1 } else { 2 }..=PAIRS_MAX).contains(&pairs) {
        let why = match alone {
            true => format!("--pairs {pairs}: give 1 to 1,000,000 runs"),
            false => format!(
                "--pairs {pairs}: give 2 to 1,000,000; {fewest_pairs} can decide every metric of this plan"
            ),
        };
        return Err(fail(Status::Usage, why));
    }
    if warmup > PAIRS_MAX {
        return Err(fail(Status::Usage, format!("--warmup {warmup}: give at most 1,000,000")));
    }
    for rule in &experiment.allow {
        find_rule(rule).status(Status::Usage)?;
    }
    let seed = experiment.seed.unwrap_or_else(|| surroundings.draw_seed());
    let environment = experiment.environment.unwrap_or(if workload || emulation.is_some() {
        EnvironmentPolicy::Fixed
    } else {
        EnvironmentPolicy::Inherit
    });
    let padded = environment == EnvironmentPolicy::Randomised;
    let by_unit = blocks_per_unit.is_some();
    let singles = match alone {
        true => pairs,
        false => schedule::single_pairs(pairs, fewest_pairs, by_unit, may_stop),
    };
    Ok(Plan {
        experiment: match &experiment.name {
            Some(name) => printable(name),
            None => default_name(&variants),
        },
        question: experiment.question.as_deref().map(printable),
        label: experiment.label.as_deref().map(printable),
        invocation: None,
        machine: experiment.machine.unwrap_or_default(),
        pairs_of_variants,
        primary,
        events,
        unavailable,
        pairs,
        fewest_pairs,
        stop,
        build,
        in_process,
        warmup,
        seed,
        blocks: match &emulation {
            Some(_) => schedule::draw_emulated(variants.len(), pairs, singles, seed, in_process),
            None => schedule::draw(variants.len(), pairs, singles, seed, padded),
        },
        timeout_ms: experiment
            .timeout
            .map(|limit| limit.limit_ms)
            .or(guest::default_limit_ms(emulation.as_ref())),
        cpu: experiment.cpu,
        aslr: experiment.aslr.unwrap_or(if workload || emulation.is_some() {
            Aslr::Fixed
        } else {
            Aslr::Randomised
        }),
        environment,
        show_output: experiment.show_output,
        ignore_failure: experiment.ignore_failure,
        allow: experiment.allow.clone(),
        matches: experiment.matches.clone(),
        hooks: Hooks {
            setup: experiment.setup.clone(),
            conclude: experiment.conclude.clone(),
            cleanup: experiment.cleanup.clone(),
            cwd: Some(here),
        },
        sampling,
        variants,
        emulation,
        imported: None,
        attachment: None,
    })
}

/// Refuses what is about two variants or more where there is one.
fn refuse_comparing(experiment: &Experiment) -> Result<()> {
    let refuse = |option: &str, why: &str| Err(fail(Status::Usage, format!("{option}: {why}")));
    if experiment.until_width.is_some() {
        return refuse(
            "--until-width",
            "it is about the change between variants, and there is one; say how many runs with -n, or \
             how much time with --budget",
        );
    }
    if experiment.in_process {
        return refuse("--in-process", "there is one variant, so no code path to exchange");
    }
    Ok(())
}

/// How the runs are sampled; the emulated machine counts instead, and so needs no asking.
fn resolve_sampling(
    experiment: &Experiment,
    emulated: bool,
    events: &[EventPlan],
) -> Result<Option<SamplingPlan>> {
    let asked = experiment.frequency.is_some()
        || experiment.call_graph.is_some()
        || experiment.stack_bytes.is_some();
    if asked && (emulated || !experiment.profile) {
        let why = if emulated {
            "the emulated machine counts every instruction and samples nothing; leave them out"
        } else {
            "they say how to sample; add --profile"
        };
        return Err(fail(
            Status::Usage,
            format!("--frequency, --call-graph and --stack-bytes: {why}"),
        ));
    }
    if emulated || !experiment.profile {
        return Ok(None);
    }
    if !events.iter().any(|event| event.key == sampling::metric()) {
        return Err(fail(
            Status::Usage,
            "--profile: samples are explained as parts of task-clock; add -e task-clock",
        ));
    }
    SamplingPlan::new(experiment.frequency, experiment.call_graph, experiment.stack_bytes).map(Some)
}

fn resolve_build(experiment: &Experiment, emulated: bool) -> Result<Option<BuildPlan>> {
    let Some(command) = &experiment.rebuild else {
        return match experiment.blocks_per_build {
            Some(_) => {
                Err(fail(Status::Usage, "--blocks-per-build says how often; add --rebuild COMMAND"))
            }
            None => Ok(None),
        };
    };
    if emulated {
        return Err(fail(
            Status::Usage,
            "--rebuild: the emulated machine copies programs once, before the first run, and \
             varies layouts itself; leave --rebuild out",
        ));
    }
    let blocks = experiment.blocks_per_build.unwrap_or(1);
    if !(1..=1000).contains(&blocks) {
        return Err(fail(Status::Usage, format!("--blocks-per-build {blocks}: give 1 to 1000")));
    }
    Ok(Some(BuildPlan { command: command.clone(), blocks }))
}

fn resolve_variants(
    experiment: &Experiment,
    surroundings: &dyn Surroundings,
    here: &Path,
) -> Result<Vec<VariantPlan>> {
    let variants = guest::spread(experiment)?;
    if variants.is_empty() {
        let why =
            "there is nothing to run; name a command or a --workload, or add [[variant]] tables";
        return Err(fail(Status::Usage, why));
    }
    if variants.len() > VARIANTS_MAX {
        return Err(fail(
            Status::Usage,
            format!("{} variants given; the most is {VARIANTS_MAX}", variants.len()),
        ));
    }
    let common_env = parse_env(&experiment.env)?;
    let mut plans = Vec::new();
    for (index, variant) in variants.iter().enumerate() {
        let which = variant.name.clone().unwrap_or_else(|| (index + 1).to_string());
        let cwd = resolve_cwd(variant.cwd.as_ref().or(experiment.cwd.as_ref()), here)
            .with_context(|| format!("variant {which}"))?;
        let work = resolve_work(variant, experiment.shell.as_deref(), &cwd, surroundings)
            .with_context(|| format!("variant {which}"))?;
        let mut env = common_env.clone();
        for (key, value) in &variant.env {
            if key.is_empty() || key.contains('=') {
                return Err(fail(
                    Status::Usage,
                    format!(
                        "variant {which}: '{key}' cannot name an environment variable; \
                         names are not empty and have no '='"
                    ),
                ));
            }
            env.push((key.clone(), value.clone()));
        }
        let guest = guest::resolve_guest(experiment, variant, &work, surroundings)
            .with_context(|| format!("variant {which}"))?;
        plans.push(VariantPlan {
            name: printable(variant.name.as_deref().unwrap_or_default()),
            guest,
            work,
            env,
            revision: None,
            cwd: Some(cwd),
            prepare: variant.prepare.clone().or_else(|| experiment.prepare.clone()),
        });
    }
    let kinds: Vec<&str> = plans
        .iter()
        .map(|plan| match &plan.work {
            WorkPlan::Command { .. } => "a command",
            WorkPlan::Workload { name, .. } => name,
        })
        .collect();
    if let Some(other) = kinds.iter().find(|kind| **kind != kinds[0]) {
        return Err(fail(
            Status::Usage,
            format!(
                "variants must do the same kind of work, but one is {} and one is {other}",
                kinds[0]
            ),
        ));
    }
    name_variants(&mut plans);
    for (index, plan) in plans.iter().enumerate() {
        if plans[..index].iter().any(|earlier| earlier.name == plan.name) {
            return Err(fail(
                Status::Usage,
                format!(
                    "two variants are named '{}'; give them names with --variant NAME=SPEC or name = \"…\"",
                    plan.name
                ),
            ));
        }
    }
    Ok(plans)
}

/// The working directory as an absolute path.
fn resolve_cwd(given: Option<&PathBuf>, here: &Path) -> Result<PathBuf> {
    // Without `.` in it.
    let dir: PathBuf =
        given.map_or(here.to_path_buf(), |dir| here.join(dir)).components().collect();
    if !dir.is_dir() {
        return Err(fail(
            Status::Usage,
            format!("working directory '{}' is not a directory", dir.display()),
        ));
    }
    // Plans are stored as JSON, which has no other strings.
    if dir.to_str().is_none() {
        return Err(fail(
            Status::Usage,
            format!("the name of working directory '{}' is no UTF-8; use another", dir.display()),
        ));
    }
    Ok(dir)
}

fn resolve_work(
    variant: &Variant,
    shell: Option<&str>,
    cwd: &Path,
    surroundings: &dyn Surroundings,
) -> Result<WorkPlan> {
    match (&variant.command, &variant.workload) {
        (Some(_), Some(_)) => {
            Err(fail(Status::Usage, "has both a command and a workload; keep one"))
        }
        (None, None) => Err(fail(Status::Usage, "has neither a command nor a workload; add one")),
        (None, Some(name)) => {
            let spec = find_workload(name)?;
            let given: Vec<(String, String)> =
                variant.params.iter().map(|(key, value)| (key.clone(), value.text())).collect();
            let params = spec.resolve(&given).status(Status::Usage)?;
            Ok(WorkPlan::Workload {
                name: spec.name.to_string(),
                params: params
                    .pairs()
                    .iter()
                    .map(|(key, value)| (key.to_string(), value.to_string()))
                    .collect(),
            })
        }
        (Some(command), None) => {
            if !variant.params.is_empty() {
                return Err(fail(
                    Status::Usage,
                    "parameters are for workloads; a command has arguments",
                ));
            }
            let (line, argv) = match (command, shell) {
                (Command::Line(line), Some(shell)) => {
                    (line.clone(), vec![shell.into(), "-c".into(), line.into()])
                }
                (Command::Line(line), None) => {
                    let words = shlex::split(line).ok_or_else(|| unbalanced(line))?;
                    (line.clone(), words.into_iter().map(OsString::from).collect())
                }
                (Command::Argv(argv), _) => {
                    let line = shlex::try_join(argv.iter().map(String::as_str))
                        .unwrap_or_else(|_| argv.join(" "));
                    (line, argv.iter().map(OsString::from).collect())
                }
                (Command::Words(words), _) => {
                    let bytes = words.iter().map(|word| word.as_bytes());
                    let line = shlex::bytes::try_join(bytes)
                        .map_err(|_| fail(Status::Usage, "a word of the command has a NUL byte"))?;
                    (printable_bytes(&line), words.clone())
                }
            };
            let argv: Vec<OsString> = argv;
            let Some(name) = argv.first().filter(|name| !name.is_empty()) else {
                return Err(fail(Status::Usage, "the command is empty"));
            };
            let program = find_program(name, surroundings.search_path().as_deref(), cwd).map_err(
                |error| {
                    let piece = shell_syntax::in_line(&line).filter(|_| shell.is_none());
                    let hint = piece.map_or(String::new(), shell_syntax::hint);
                    fail(Status::WorkFailed, format!("{error}{hint}"))
                },
            )?;
            // Without the `.` of `./a.out`; the result is absolute, because cwd is.
            let program = cwd.join(program).components().collect();
            Ok(WorkPlan::Command { program, argv, line })
        }
    }
}

/// A command that cannot be split.
pub(crate) fn unbalanced(line: &str) -> anyhow::Error {
    let why = format!("unbalanced quotes or a lone backslash in the command: {line}");
    fail(Status::Usage, why)
}

/// Finds a workload by name, or names the nearest ones.
pub fn find_workload(name: &str) -> Result<&'static WorkloadSpec> {
    WorkloadSpec::find(name).ok_or_else(|| {
        let known = opcost_work::WORKLOADS.iter().map(|spec| spec.name);
        fail(
            Status::Usage,
            format!("unknown workload '{name}'{}; see opcost list workloads", nearest(name, known)),
        )
    })
}

fn parse_env(texts: &[String]) -> Result<Vec<(String, String)>> {
    texts
        .iter()
        .map(|text| match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_string(), value.to_string())),
            _ => Err(fail(Status::Usage, format!("--env {text}: expected KEY=VALUE"))),
        })
        .collect()
}

/// Names the variants that have none: by what differs of their machines where their work is the
/// same, else a command by itself, a workload by the parameters that differ.
fn name_variants(plans: &mut [VariantPlan]) {
    let works: Vec<WorkPlan> = plans.iter().map(|plan| plan.work.clone()).collect();
    let guests: Vec<Option<GuestPlan>> = plans.iter().map(|plan| plan.guest.clone()).collect();
    let alike = works.iter().all(|work| *work == works[0]);
    for plan in plans.iter_mut().filter(|plan| plan.name.is_empty()) {
        if let Some(guest) = plan.guest.as_ref().filter(|_| alike)
            && let Some(name) = guest::name_by_machine(guest, &guests)
        {
            plan.name = name;
            continue;
        }
        plan.name = match &plan.work {
            WorkPlan::Command { line, .. } => printable(line),
            WorkPlan::Workload { name, params } => {
                let differing: Vec<String> = params
                    .iter()
                    .filter(|pair| {
                        works.iter().any(|work| matches!(work, WorkPlan::Workload { params, .. } if !params.contains(pair)))
                    })
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                if differing.is_empty() { name.clone() } else { differing.join(",") }
            }
        };
    }
}

fn default_name(variants: &[VariantPlan]) -> String {
    match &variants[0].work {
        WorkPlan::Workload { name, .. } => name.clone(),
        WorkPlan::Command { argv, .. } => Path::new(&argv[0])
            .file_name()
            .map_or("command".into(), |name| printable_bytes(name.as_bytes())),
    }
}
