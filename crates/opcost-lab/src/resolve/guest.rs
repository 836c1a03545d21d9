//! Resolves the user's words into the emulated machine of each variant.
//!
//! **The default CPU is a Zen 2 server's.** QEMU's `max` is nobody's CPU: two faults need mitigations, page tables have five
//! levels, and PCID, INVPCID and FSRM are missing. EPYC-Rome loses fewer features that choose a kernel's code than any other
//! recent model that QEMU 7.2 to 11.1 share: a real Zen 2 has no PCID, ERMS or FSRM, and does not need ARCH_CAPABILITIES to
//! be known free of Meltdown. EPYC-Milan loses PCID and FSRM, Intel's models PCID and their enhanced IBRS. The name has its
//! version, since an unversioned name means another model to another QEMU or machine type. The default of arm64 is Neoverse N1,
//! the core of Graviton 2 and Ampere Altra: a server's, with LSE atomics, and QEMU emulates all that chooses a kernel's code. QEMU
//! runs a Cortex-A72 without the firmware that mitigates its faults, so the kernel calls it vulnerable.

use super::host::sets_sampling;
use super::{Surroundings, like};
use anyhow::{Context, Result};
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_kernel::disk::{DiskError, DiskSpec};
use opcost_kernel::{KernelError, KernelSpec, Recipe, Toolchain};
use opcost_model::experiment::{Experiment, Variant};
use opcost_model::guest_settings::GuestSettings;
use opcost_model::plan::guest::{CORE_DEFAULT, DEFAULT_KERNEL, NO_KERNEL};
use opcost_model::plan::service::{ReadySign, ServicePlan};
use opcost_model::plan::{
    CorePlan, Counted, EmulationPlan, GuestPlan, MachineKind, Priority, VariantPlan, WorkPlan,
};
use opcost_model::recording::settings::field_of_guests;
use opcost_record::Architecture;
use opcost_record::metric::ONE_IN_MAX;
use opcost_record::nearest::did_you_mean;
use std::path::{Path, PathBuf};

/// The default time limit of a run: a guest that hangs would never end.
pub(super) const LIMIT_MS: u64 = 30 * 60 * 1000;
/// The default limit of concurrent machines, as each needs its own memory.
const JOBS_MAX: usize = 4;

/// The refusal of two names for one CPU.
const ONE_CPU: &str = "--like and --cpu-model (like and cpu-model in a file) both name the emulated CPU; leave one out";

/// The refusal of `--like` for arm64, with models that QEMU has from 7.2 on.
const NO_LIKE: &str = "its names are those of x86-64 CPUs; give --cpu-model neoverse-n1 (Graviton 2, Ampere Altra), cortex-a76 \
                       (Raspberry Pi 5), cortex-a72 (Graviton, Raspberry Pi 4) or max";

/// The reason for packing no files without a kernel.
const FILES_ARE_HERE: &str =
    ", since the program opens its files on this machine; drop one of the two";

/// The reason for counting no event of the kernel without one.
const EVENTS_OF_KERNELS: &str =
    " for events of the kernel; count those of programs (--count heap), or give a kernel";

/// The name that distinguishes a machine from the others, if any field does.
pub(super) fn name_by_machine(guest: &GuestPlan, all: &[Option<GuestPlan>]) -> Option<String> {
    let differs = |field: &dyn Fn(&GuestPlan) -> String| {
        let own = field(guest);
        let another = all.iter().flatten().any(|other| field(other) != own);
        another.then_some(own)
    };
    let settings = (0..guest.settings.values().len()).map(|index| {
        differs(&|guest| {
            let value = &guest.settings.values()[index];
            format!("{}={}", value.unit, value.text)
        })
    });
    let parts: Vec<String> = [
        differs(&|guest| guest.kernel_name.clone()),
        differs(&|guest| if guest.boot.is_empty() { "default".into() } else { guest.boot.clone() }),
        differs(&|guest| guest.cpu_model.clone()),
    ]
    .into_iter()
    .chain(settings)
    .chain([
        differs(&|guest| guest.disk.as_ref().map_or("no disk".into(), DiskSpec::to_string)),
        differs(&|guest| {
            guest.root.as_deref().map_or("no root".into(), |root| root_name(root, all))
        }),
        differs(&|guest| {
            guest.service.as_ref().map_or("no service".into(), |one| one.line.clone())
        }),
    ])
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// The last part of a root's path; the whole path if another root ends so, too.
fn root_name(root: &Path, all: &[Option<GuestPlan>]) -> String {
    let roots = all.iter().flatten().filter_map(|guest| guest.root.as_deref());
    let is_alike = |other: &Path| other != root && other.file_name() == root.file_name();
    let short = root.file_name().filter(|_| !roots.clone().any(is_alike));
    short.unwrap_or(root.as_os_str()).to_string_lossy().into_owned()
}

/// Whether guests are booted once for all runs. If the variants differ in something that a boot decides, each pair needs a boot of
/// its own, so that a result holds for more than one boot. A comparison on several CPUs needs a boot for each pair too: a boot
/// leaves a state to the allocator of each CPU. By the state of one boot, two processes cost 0.9 % or 2.2 % more than one; after
/// other boots, they cost nothing more (docs/investigations/scale.md).
pub(super) fn booted_once(wanted: bool, variants: &[VariantPlan]) -> bool {
    let mut guests = variants.iter().map(|variant| variant.guest.as_ref());
    let Some(Some(first)) = guests.next() else { return false };
    let by_boot = variants.len() > 1 && first.cpus > 1;
    // RNDR, which only this model of arm64 has, draws numbers that QEMU does not keep.
    let unkept = first.architecture == Architecture::Aarch64 && first.cpu_model.starts_with("max");
    wanted
        && !by_boot
        && !unkept
        && first.kernel.is_some()
        && guests.all(|guest| guest == Some(first))
}

/// Whether each command runs once on this computer, and its guest then contains every file that it used: on request, and for
/// commands without a chosen kernel unless `pack_only` is set.
pub(super) fn pack_used(experiment: &Experiment, variants: &[VariantPlan]) -> bool {
    let chosen =
        !experiment.kernel.is_empty() || experiment.variants.iter().any(|one| one.kernel.is_some());
    let needs_files = |one: &VariantPlan| {
        let has_root = one.guest.as_ref().is_some_and(|guest| guest.root.is_some());
        matches!(one.work, WorkPlan::Command { .. }) && !has_root
    };
    let commands = variants.iter().any(needs_files);
    experiment.pack_used || (commands && !chosen && !experiment.pack_only)
}

/// Creates variants from kernels, boot options, CPU models, disks, roots, services and standard streams that are given more than once.
///
/// A single variant is repeated for each value; several variants take one value each.
///
/// # Errors
/// The numbers of variants and values do not match.
pub(super) fn spread(experiment: &Experiment) -> Result<Vec<Variant>> {
    let mut variants = experiment.variants.clone();
    let both = |cpu_model, like| {
        if cpu_model && like { Err(fail(Status::Usage, ONE_CPU)) } else { Ok(()) }
    };
    both(!experiment.cpu_model.is_empty(), !experiment.like.is_empty())?;
    for variant in &variants {
        both(variant.cpu_model.is_some(), variant.like.is_some())?;
    }
    type Field = fn(&mut Variant) -> &mut Option<String>;
    let lists: [(&str, &[String], Field); 10] = [
        ("kernel", &experiment.kernel, |variant| &mut variant.kernel),
        ("boot", &experiment.boot, |variant| &mut variant.boot),
        ("cpu-model", &experiment.cpu_model, |variant| &mut variant.cpu_model),
        ("like", &experiment.like, |variant| &mut variant.like),
        ("disk", &experiment.disk, |variant| &mut variant.disk),
        ("root", &experiment.root, |variant| &mut variant.root),
        ("service", &experiment.service, |variant| &mut variant.service),
        ("ready", &experiment.ready, |variant| &mut variant.ready),
        ("input", &experiment.input, |variant| &mut variant.input),
        ("output", &experiment.output, |variant| &mut variant.output),
    ];
    for (name, values, field) in lists {
        if variants.len() == 1 && values.len() > 1 {
            let variant = Variant { name: None, ..variants[0].clone() };
            variants = vec![variant; values.len()];
        }
        if values.len() > 1 && values.len() != variants.len() {
            return Err(fail(
                Status::Usage,
                format!(
                    "--{name} is given {} times for {} variants; give it once, or once for each",
                    values.len(),
                    variants.len()
                ),
            ));
        }
        for (index, variant) in variants.iter_mut().enumerate() {
            let value = values.get(index).or_else(|| values.first().filter(|_| values.len() == 1));
            // A variant's own CPU takes the place of the experiment's, whichever of the two fields names it.
            let has_cpu = variant.cpu_model.is_some() || variant.like.is_some();
            let names_cpu = ["cpu-model", "like"].contains(&name);
            let slot = field(variant);
            if slot.is_none() && !(names_cpu && has_cpu) {
                *slot = value.cloned();
            }
        }
    }
    Ok(variants)
}

/// Resolves the settings that all emulated machines share; `None` for another machine.
///
/// # Errors
/// A field has no meaning there, or is out of range.
pub(super) fn resolve_emulation(
    experiment: &Experiment,
    surroundings: &dyn Surroundings,
) -> Result<Option<EmulationPlan>> {
    if experiment.machine.unwrap_or_default() != MachineKind::Emulated {
        return match field_of_guests(experiment).status(Status::Usage)? {
            Some(name) => Err(only_emulated(name)),
            None => Ok(None),
        };
    }
    check_kernel_tree(experiment)?;
    let others = [
        ("count", !experiment.count.is_empty()),
        ("addresses", experiment.addresses),
        ("steps", experiment.steps.is_some()),
        ("model", experiment.model),
        ("cycles", experiment.cycles),
    ];
    let footprint = experiment.count.contains(&Counted::Footprint);
    let apart = [others[1], others[3], others[4]];
    for (on, what, others) in [
        (experiment.no_functions, "no-functions counts totals only", &others[..]),
        (experiment.addresses, "addresses counts without a model", &others[2..]),
        (experiment.steps.is_some(), "steps counts without a model", &others[3..]),
        (footprint, "count = \"footprint\" counts without a model", &apart[..]),
    ] {
        if let Some((name, _)) = others.iter().find(|(_, other)| on && *other) {
            let why = format!("{what}, and '{name}' needs more: leave one of them out");
            return Err(fail(Status::Usage, why));
        }
    }
    if sets_sampling(experiment) {
        return Err(fail(
            Status::Usage,
            "--frequency, --call-graph and --stack-bytes: the emulated machine counts every \
             instruction and samples nothing; leave them out",
        ));
    }
    if experiment.priority == Some(Priority::RealTime) {
        return Err(fail(
            Status::Usage,
            "--priority real-time: counts of the emulated machine do not depend on other programs; leave it out",
        ));
    }
    if experiment.rebuild.is_some() {
        return Err(fail(
            Status::Usage,
            "--rebuild: the emulated machine copies programs once, before the first run, and \
             varies layouts itself; leave --rebuild out",
        ));
    }
    if experiment.blocks_per_build.is_some() {
        return Err(fail(
            Status::Usage,
            "--blocks-per-build says how often; add --rebuild COMMAND",
        ));
    }
    if !experiment.events.is_empty() {
        return Err(fail(
            Status::Usage,
            "--event is for counters of this host; the emulated machine counts all it can: drop it, \
             or choose what decides with --primary",
        ));
    }
    let jobs = match experiment.jobs {
        Some(jobs @ 1..=64) => jobs as usize,
        Some(jobs) => return Err(fail(Status::Usage, format!("--jobs {jobs}: give 1 to 64"))),
        None if experiment.cpu.is_some() => 1,
        None => surroundings.allowed_cpus().len().clamp(1, JOBS_MAX),
    };
    Ok(Some(EmulationPlan {
        model: experiment.model,
        core: resolve_core(experiment, surroundings)?,
        cycles_one_in: experiment.cycles_one_in,
        no_functions: experiment.no_functions,
        addresses: experiment.addresses,
        steps: experiment.steps.clone(),
        count: experiment.count.clone(),
        jobs,
        pack: experiment.pack.clone(),
        pack_used: experiment.pack_used,
        booted_once: !experiment.fresh_boots,
    }))
}

/// The core whose cycles are modelled, if any.
///
/// # Errors
/// The core is unknown, its file is wrong, or a field excludes a modelled core.
fn resolve_core(
    experiment: &Experiment,
    surroundings: &dyn Surroundings,
) -> Result<Option<CorePlan>> {
    if let Some(one_in) = experiment.cycles_one_in {
        let wrong = match (experiment.cycles, (2..=ONE_IN_MAX).contains(&one_in)) {
            (true, true) => None,
            (false, _) => {
                Some("it says how many cycles are modelled; add cycles (--cycles)".into())
            }
            (true, false) => {
                Some(format!("give a number from 2 to {ONE_IN_MAX}, or leave it out to model all"))
            }
        };
        if let Some(wrong) = wrong {
            return Err(fail(Status::Usage, format!("cycles-one-in {one_in}: {wrong}")));
        }
    }
    if !experiment.cycles && !experiment.model {
        let model = "add cycles (--cycles) or model (--model)";
        return match (&experiment.core, experiment.cache.first()) {
            (Some(core), _) => Err(fail(
                Status::Usage,
                format!("core '{core}' says which core is modelled; {model}"),
            )),
            (None, Some(cache)) => Err(fail(
                Status::Usage,
                format!("cache '{cache}' says which cache the modelled core has; {model}"),
            )),
            (None, None) => Ok(None),
        };
    }
    if experiment.cycles && experiment.model {
        return Err(fail(
            Status::Usage,
            "--cycles and --model: --cycles models the whole core, --model its caches and predictors \
             alone; leave one of them out",
        ));
    }
    let several = |cpus: Option<u32>| cpus.is_some_and(|cpus| cpus > 1);
    if several(experiment.cpus) || experiment.variants.iter().any(|variant| several(variant.cpus)) {
        return Err(fail(
            Status::Usage,
            "--cycles and --model model one core; leave --cpus out, or count without them",
        ));
    }
    let core = surroundings.core(experiment.core.as_deref().unwrap_or(CORE_DEFAULT))?;
    core.with_caches(&experiment.cache).map(Some).map_err(|what| fail(Status::Usage, what))
}

fn only_emulated(name: &str) -> anyhow::Error {
    fail(Status::Usage, format!("'{name}' is for the emulated machine; add --machine emulated"))
}

/// Resolves the machine of one variant; `None` for another kind of machine.
///
/// # Errors
/// The kernel is unknown or missing, or a field is out of range or has no meaning.
pub(super) fn resolve_guest(
    experiment: &Experiment,
    variant: &Variant,
    work: &WorkPlan,
    surroundings: &dyn Surroundings,
) -> Result<Option<GuestPlan>> {
    if experiment.machine.unwrap_or_default() != MachineKind::Emulated {
        return match field_of_guests(variant).status(Status::Usage)? {
            Some(name) => Err(only_emulated(name)),
            None => Ok(None),
        };
    }
    let kernel_name = variant.kernel.as_deref().unwrap_or(DEFAULT_KERNEL);
    let settings = GuestSettings::resolve(experiment, variant);
    let settings = settings.map_err(|why| fail(Status::Usage, why))?;
    check_architecture(experiment, variant, work, &settings, kernel_name)?;
    let kernel = match kernel_name {
        NO_KERNEL => None,
        name => Some(resolve_kernel(experiment, name, surroundings)?),
    };
    let boot = variant.boot.clone().unwrap_or_default();
    if boot.contains(['\n', '\0']) {
        return Err(fail(Status::Usage, "--boot: options stand in one line"));
    }
    let disk = match &variant.disk {
        Some(text) => Some(resolve_disk(text, settings.memory_mib).map_err(HasStatus::carried)?),
        None => None,
    };
    let root = resolve_root(experiment, variant, work, surroundings)?;
    let service = resolve_service(variant, root.is_some())?;
    if kernel.is_none() {
        if let WorkPlan::Workload { name, .. } = work {
            return Err(fail(
                Status::Usage,
                format!(
                    "workload {name} on the emulated machine needs a kernel to work on: \
                     leave --kernel none out, or name one, for example --kernel debian:cloud"
                ),
            ));
        }
        let given = [
            ("boot", !boot.is_empty(), ""),
            ("disk", disk.is_some(), ""),
            ("root", root.is_some(), FILES_ARE_HERE),
            ("pack", !experiment.pack.is_empty(), FILES_ARE_HERE),
            ("pack-used", experiment.pack_used, FILES_ARE_HERE),
            ("tree", variant.tree.is_some() || experiment.tree.is_some(), FILES_ARE_HERE),
            ("fresh-boots", experiment.fresh_boots, ""),
            ("count", experiment.count.iter().any(Counted::needs_kernel), EVENTS_OF_KERNELS),
        ];
        let values = settings.values();
        let refused = values.iter().filter_map(|value| Some((value.field, value.without_kernel?)));
        let given = given.into_iter().filter(|(_, given, _)| *given);
        let given = given.map(|(name, _, more)| (name, more));
        if let Some((name, more)) = refused.chain(given).next() {
            let why = format!("--{name} has no meaning with --kernel {NO_KERNEL}{more}");
            return Err(fail(Status::Usage, why));
        }
    } else if let (WorkPlan::Workload { name, .. }, true) = (work, experiment.pack_used) {
        return Err(fail(
            Status::Usage,
            format!(
                "--pack-used is for commands: workload {name} has in its guest what it uses; drop it"
            ),
        ));
    }
    let cpu_model = match (&variant.cpu_model, &variant.like) {
        (Some(model), _) => model.clone(),
        (None, Some(name)) => like::model_of(name, surroundings.cpuinfo().as_deref())?,
        (None, None) => settings.architecture.row().cpu_model.into(),
    };
    Ok(Some(GuestPlan {
        kernel,
        kernel_name: kernel_name.to_string(),
        boot,
        cpu_model,
        settings,
        disk,
        root,
        service,
    }))
}

/// The root as an absolute path.
///
/// # Errors
/// There is no such file, or the root has no meaning with another field.
fn resolve_root(
    experiment: &Experiment,
    variant: &Variant,
    work: &WorkPlan,
    surroundings: &dyn Surroundings,
) -> Result<Option<PathBuf>> {
    let Some(text) = &variant.root else { return Ok(None) };
    let here = surroundings.working_dir().context("cannot read the working directory")?;
    let root: PathBuf = here.join(text).components().collect();
    let wrong = |why: &str| Err(fail(Status::Usage, format!("--root {text}: {why}")));
    if let WorkPlan::Workload { name, .. } = work {
        return wrong(&format!(
            "workload {name} needs no files; leave the root out, or name a command in it"
        ));
    }
    let refused = [
        (variant.tree.is_some() || experiment.tree.is_some(), "tree"),
        (experiment.pack_used, "pack-used"),
    ];
    if let Some((_, name)) = refused.iter().find(|(given, _)| *given) {
        return wrong(&format!("the command's files are in the root; leave --{name} out"));
    }
    match (root.metadata(), root.to_str()) {
        (Err(error), _) => wrong(&format!("cannot open '{}': {error}", root.display())),
        (Ok(_), None) => wrong("its path is no UTF-8; use another"),
        (Ok(_), Some(_)) => Ok(Some(root)),
    }
}

/// The service of a guest.
///
/// # Errors
/// A part of it is missing or malformed.
fn resolve_service(variant: &Variant, has_root: bool) -> Result<Option<ServicePlan>> {
    let wrong = |why: String| Err(fail(Status::Usage, why));
    match (&variant.service, &variant.ready) {
        (None, None) => Ok(None),
        (None, Some(ready)) => {
            wrong(format!("--ready {ready}: of which service? add --service CMD"))
        }
        (Some(line), None) => wrong(format!(
            "--service '{line}': say when it is ready with --ready port:NUMBER, file:/PATH or run:COMMAND"
        )),
        (Some(line), Some(_)) if !has_root => {
            wrong(format!("--service '{line}': a service runs in a root; add --root"))
        }
        (Some(line), Some(ready)) => match (shlex::split(line), ready.parse::<ReadySign>()) {
            (_, Err(why)) => wrong(format!("--ready: {why}")),
            (Some(words), Ok(ready)) if !words.is_empty() && !line.contains('\0') => {
                Ok(Some(ServicePlan { line: line.clone(), ready }))
            }
            _ => wrong(format!("--service '{line}': it is empty, or has unbalanced quotes")),
        },
    }
}

/// Refuses what only guests of the default architecture have.
fn check_architecture(
    experiment: &Experiment,
    variant: &Variant,
    work: &WorkPlan,
    settings: &GuestSettings,
    kernel_name: &str,
) -> Result<()> {
    let architecture = settings.architecture;
    if architecture == Architecture::default() {
        return Ok(());
    }
    let refused = [
        (
            experiment.cycles,
            "--cycles",
            "the cores that opcost models execute x86-64; count without it",
        ),
        (
            experiment.model,
            "--model",
            "the caches that opcost models are those of x86-64 cores; count without it",
        ),
        (variant.like.is_some(), "--like", NO_LIKE),
        (
            matches!(work, WorkPlan::Workload { name, .. } if name == "immediate"),
            "--workload immediate",
            "patchpoint puts values into instructions of x86-64 only; elsewhere each read is a load",
        ),
        (settings.cpus > 1, "--cpus", "such guests have one CPU; leave it out"),
        (
            kernel_name == DEFAULT_KERNEL,
            "without --kernel",
            "the kernel for commands is x86-64's; name a kernel of this architecture, such as debian:cloud",
        ),
    ];
    match refused.iter().find(|(given, ..)| *given) {
        Some((_, what, why)) => {
            Err(fail(Status::Usage, format!("--architecture {architecture} {what}: {why}")))
        }
        None => Ok(()),
    }
}

fn resolve_disk(text: &str, memory_mib: u32) -> Result<DiskSpec, DiskError> {
    let disk = DiskSpec::parse(text)?;
    disk.check_memory(memory_mib)?;
    Ok(disk)
}

/// Whether a word of `--kernel` cannot be a revision, even beside `--kernel-tree`.
fn is_file_or_package(name: &str) -> bool {
    ["debian:", "/", "./", "../"].iter().any(|begin| name.starts_with(begin))
}

/// Refuses options about revisions if no kernel is a revision.
fn check_kernel_tree(experiment: &Experiment) -> Result<()> {
    let kernels = experiment.kernel.iter();
    let kernels = kernels.chain(experiment.variants.iter().filter_map(|one| one.kernel.as_ref()));
    let why = match &experiment.kernel_tree {
        None if experiment.kernel_config.is_empty() => return Ok(()),
        None => "--kernel-config: it configures revisions of --kernel-tree; add that, or build the kernel \
                 with opcost kernel build --config"
            .to_string(),
        Some(tree) if kernels.count() == 0 => format!(
            "--kernel-tree {}: say which revisions to boot, for example --kernel v6.12 --kernel HEAD",
            tree.display()
        ),
        Some(_) => return Ok(()),
    };
    Err(fail(Status::Usage, why))
}

fn resolve_kernel(
    experiment: &Experiment,
    name: &str,
    surroundings: &dyn Surroundings,
) -> Result<KernelSpec> {
    if let Some(recipe) = experiment.kernels.get(name) {
        if recipe.config.is_empty() {
            return Err(fail(
                Status::Usage,
                format!("[kernels.{name}] has no config; name one or more fragments"),
            ));
        }
        let toolchain = match (&recipe.cc, recipe.llvm) {
            (Some(_), true) => {
                let why = format!("[kernels.{name}] has llvm and cc; leave one of them out");
                return Err(fail(Status::Usage, why));
            }
            (Some(program), false) => Toolchain::Cc(program.clone()),
            (None, true) => Toolchain::Llvm,
            (None, false) => Toolchain::Gcc,
        };
        let here = surroundings.working_dir().context("cannot read the working directory")?;
        let absolute = |path: &PathBuf| here.join(path);
        return Ok(KernelSpec::Recipe(Recipe {
            name: name.to_string(),
            source: recipe.source.as_ref().map(absolute),
            config: recipe.config.iter().map(absolute).collect(),
            patches: recipe.patch.iter().map(absolute).collect(),
            toolchain,
        }));
    }
    let of_tree = experiment.kernel_tree.as_ref().filter(|_| !is_file_or_package(name));
    let found = match of_tree {
        Some(tree) => {
            let here = surroundings.working_dir().context("cannot read the working directory")?;
            let config: Vec<PathBuf> = experiment
                .kernel_config
                .iter()
                .map(|path| surroundings.recipe_file(&here, path))
                .collect();
            if let Some(missing) = config.iter().find(|path| !path.is_file()) {
                let why = format!("--kernel-config {}: there is no such file", missing.display());
                return Err(fail(Status::Usage, why));
            }
            surroundings.kernel_revision(&here.join(tree), name, &config)
        }
        None => surroundings.kernel(name),
    };
    let status = |error: &anyhow::Error| match error.downcast_ref::<KernelError>() {
        Some(error) => error.status(),
        None => Status::Usage,
    };
    let found = found.or_else(|error| {
        let status = status(&error);
        Err(error).status(status)
    });
    found.map_err(|error: anyhow::Error| {
        let near = did_you_mean(name, experiment.kernels.keys().map(String::as_str));
        if near.is_empty() { error } else { error.context(format!("--kernel {name}{near}")) }
    })
}

#[cfg(test)]
#[path = "guest_tests.rs"]
mod tests;
