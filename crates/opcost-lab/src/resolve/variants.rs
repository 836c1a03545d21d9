//! Resolves the work, folder, environment and name of each variant.

use super::{Surroundings, guest, scan, streams};
use anyhow::{Context, Result};
use opcost_base::exit::{Status, WithStatus, carry, fail};
use opcost_model::experiment::{Command, Experiment, Scalar, Variant};
use opcost_model::plan::{GuestPlan, VariantPlan, WorkPlan, shell_syntax};
use opcost_record::nearest::did_you_mean;
use opcost_record::printable::{printable, printable_bytes};
use opcost_record::program_region;
use opcost_sys::spawn::{FindError, find_program};
use opcost_work::WorkloadSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The largest number of variants; run numbers then fit 32 bits.
const VARIANTS_MAX: usize = 10_000;

pub(super) fn resolve_variants(
    experiment: &Experiment,
    surroundings: &dyn Surroundings,
    here: &Path,
) -> Result<Vec<VariantPlan>> {
    let experiment = &scan::spread(experiment)?;
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
        let given = variant.cwd.as_deref().or(experiment.cwd.as_deref());
        let cwd = match variant.root {
            // The folder is one of the root.
            Some(_) => folder_in_root(given).map(|()| here.to_path_buf()),
            None => resolve_folder("working directory", given.unwrap_or(here), here),
        };
        let cwd = cwd.with_context(|| format!("variant {which}"))?;
        let tree = variant.tree.as_deref().or(experiment.tree.as_deref());
        let tree = tree.map(|tree| resolve_folder("--tree: folder", tree, here)).transpose();
        let tree = tree.with_context(|| format!("variant {which}"))?;
        let work = resolve_work(variant, experiment.shell(), &cwd, surroundings)
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
        if experiment.regions {
            mark_regions(&work, &mut env)?;
        }
        let guest = guest::resolve_guest(experiment, variant, &work, surroundings)
            .with_context(|| format!("variant {which}"))?;
        let (input, output) =
            streams::resolve_streams(experiment, variant, (&work, guest.as_ref(), &cwd))
                .with_context(|| format!("variant {which}"))?;
        let ops = variant.ops.as_ref().or(experiment.ops.as_ref());
        if let (WorkPlan::Workload { name, .. }, Some(_)) = (&work, ops) {
            let why =
                format!("--ops: workload {name} counts its operations by itself; leave it out");
            return Err(fail(Status::Usage, why));
        }
        plans.push(VariantPlan {
            input,
            output,
            ops: ops.cloned(),
            name: printable(variant.name.as_deref().unwrap_or_default()),
            guest,
            work,
            env,
            revision: None,
            tree,
            scanned: variant.scanned.clone(),
            cwd: if variant.root.is_some() { given.map(Path::to_path_buf) } else { Some(cwd) },
            prepare: variant.prepare.as_ref().or(experiment.prepare.first()).cloned(),
            conclude: variant.conclude.clone(),
            setup: variant.setup.clone(),
            cleanup: variant.cleanup.clone(),
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
    let unnamed: Vec<bool> = plans.iter().map(|plan| plan.name.is_empty()).collect();
    name_variants(&mut plans);
    let mut taken = BTreeSet::new();
    for (plan, is_unnamed) in plans.iter_mut().zip(unnamed) {
        if is_unnamed {
            let name = plan.name.clone();
            let mut names =
                std::iter::once(name.clone()).chain((2..).map(|n| format!("{name} ({n})")));
            plan.name = names.find(|name| !taken.contains(name)).unwrap_or_default();
        }
        if !taken.insert(plan.name.clone()) {
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

/// Tells a command to mark its regions.
fn mark_regions(work: &WorkPlan, env: &mut Vec<(String, String)>) -> Result<()> {
    if let WorkPlan::Workload { name, .. } = work {
        return Err(fail(
            Status::Usage,
            format!(
                "--regions: workload {name} has no regions of its own besides its operations, which \
                 opcost counts by themselves already; leave it out"
            ),
        ));
    }
    env.retain(|(key, _)| key != program_region::VARIABLE);
    env.push((program_region::VARIABLE.into(), program_region::MARK.into()));
    Ok(())
}

/// Checks the working directory in a root.
fn folder_in_root(given: Option<&Path>) -> Result<()> {
    match given.filter(|folder| !folder.is_absolute() || folder.to_str().is_none()) {
        Some(folder) => {
            let why = format!("--cwd {}: give an absolute path in the root", folder.display());
            Err(fail(Status::Usage, why))
        }
        None => Ok(()),
    }
}

/// A folder as an absolute path.
///
/// `what`: the folder's name in errors.
fn resolve_folder(what: &str, given: &Path, here: &Path) -> Result<PathBuf> {
    // Removes `.` from the path.
    let dir: PathBuf = here.join(given).components().collect();
    if !dir.is_dir() {
        let why = format!("{what} '{}' is not a directory", dir.display());
        return Err(fail(Status::Usage, why));
    }
    // Plans are stored as JSON, whose strings are UTF-8.
    if dir.to_str().is_none() {
        let why = format!("the name of {what} '{}' is no UTF-8; use another", dir.display());
        return Err(fail(Status::Usage, why));
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
        (None, Some(text)) => {
            let (name, mut params) = split_workload(text)
                .map_err(|why| fail(Status::Usage, format!("workload {text}: {why}")))?;
            for (key, value) in &variant.params {
                if params.insert(key.clone(), value.clone()).is_some() {
                    let why = format!("workload {text}: {key} is also in params; keep one");
                    return Err(fail(Status::Usage, why));
                }
            }
            let spec = find_workload(&name)?;
            let given: Vec<(String, String)> =
                params.into_iter().map(|(key, value)| (key, value.text())).collect();
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
            if variant.root.is_some() {
                // It is looked for in the root.
                return Ok(WorkPlan::Command { program: name.into(), argv, line });
            }
            let program = find_program(name, surroundings.search_path().as_deref(), cwd).map_err(
                |error| {
                    let hint = shell_syntax::hint_in_line(&line).filter(|_| shell.is_none());
                    match (&error, hint) {
                        // A folder would not help a word that is a shell's.
                        (FindError::NotFound { name, path_env: Some(_) }, Some(hint)) => {
                            let why = format!("cannot find '{}' in PATH{hint}", name.display());
                            fail(Status::WorkFailed, why)
                        }
                        (_, hint) => {
                            let words = format!("{error}{}", hint.unwrap_or_default());
                            carry(Status::WorkFailed, anyhow::Error::new(error).context(words))
                        }
                    }
                },
            )?;
            // Removes the `.` of `./a.out`; the result is absolute because `cwd` is.
            let program = cwd.join(program).components().collect();
            Ok(WorkPlan::Command { program, argv, line })
        }
    }
}

/// Splits `NAME[:KEY=VALUE,...]`, as command lines and files name a workload. The error lacks the text.
pub fn split_workload(text: &str) -> Result<(String, BTreeMap<String, Scalar>), String> {
    let (name, given) = text.split_once(':').unwrap_or((text, ""));
    let mut params = BTreeMap::new();
    for param in given.split(',').filter(|param| !param.is_empty()) {
        let (key, value) =
            param.split_once('=').ok_or_else(|| format!("'{param}' is not KEY=VALUE"))?;
        if params.insert(key.to_string(), Scalar::Text(value.to_string())).is_some() {
            return Err(format!("{key} is given twice"));
        }
    }
    Ok((name.to_string(), params))
}

/// The error of a command that cannot be split.
pub fn unbalanced(line: &str) -> anyhow::Error {
    let why = format!("unbalanced quotes or a lone backslash in the command: {line}");
    fail(Status::Usage, why)
}

/// Finds a workload by name; the error suggests the nearest names.
pub fn find_workload(name: &str) -> Result<&'static WorkloadSpec> {
    WorkloadSpec::find(name).ok_or_else(|| {
        let known = opcost_work::WORKLOADS.iter().map(|spec| spec.name);
        let near = match name.parse::<u32>() {
            Ok(_) => "; warm-up runs are --warmup N".to_string(),
            Err(_) => did_you_mean(name, known),
        };
        fail(Status::Usage, format!("unknown workload '{name}'{near}; see opcost list workloads"))
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

/// Names the variants without a name. If all variants have the same work, differences of their machines or standard streams give
/// the name. Otherwise a command is named by itself, and a workload by its differing parameters.
fn name_variants(plans: &mut [VariantPlan]) {
    let works: Vec<WorkPlan> = plans.iter().map(|plan| plan.work.clone()).collect();
    let guests: Vec<Option<GuestPlan>> = plans.iter().map(|plan| plan.guest.clone()).collect();
    let alike = works.iter().all(|work| *work == works[0]);
    let all_streams: Vec<_> =
        plans.iter().map(|plan| (plan.input.clone(), plan.output.clone())).collect();
    for plan in plans.iter_mut().filter(|plan| plan.name.is_empty()) {
        if let Some(guest) = plan.guest.as_ref().filter(|_| alike)
            && let Some(name) = guest::name_by_machine(guest, &guests)
        {
            plan.name = name;
            continue;
        }
        if let Some(cwd) = plan.cwd.as_ref().filter(|_| alike)
            && let Some(name) =
                streams::name_by_streams((&plan.input, &plan.output), &all_streams, cwd)
        {
            plan.name = printable(&name);
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

pub(super) fn default_name(variants: &[VariantPlan]) -> String {
    match &variants[0].work {
        WorkPlan::Workload { name, .. } => name.clone(),
        WorkPlan::Command { argv, .. } => Path::new(&argv[0])
            .file_name()
            .map_or("command".into(), |name| printable_bytes(name.as_bytes())),
    }
}
