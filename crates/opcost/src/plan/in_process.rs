//! Variants inside one process: code paths that are exchanged in the prepared, running workload.

use super::{VariantPlan, WorkPlan};
use crate::exit::{Status, fail};
use crate::experiment::{Experiment, MachineKind};
use anyhow::Result;
use opcost_work::PATH;
use serde::{Deserialize, Serialize};

/// Variants are code paths that are exchanged in a prepared, running process; the process then is
/// the unit of the test.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct InProcessPlan {
    /// Blocks that one process makes.
    pub blocks: u32,
}

/// The most blocks of one process.
const BLOCKS_MAX: u32 = 1000;

/// Whether the runs of a block share a process, as the experiment asks for.
///
/// # Errors
/// Usage errors that name what cannot be had together with it, or in what else variants differ.
pub(super) fn resolve_in_process(
    experiment: &Experiment,
    variants: &[VariantPlan],
) -> Result<Option<InProcessPlan>> {
    if !experiment.in_process {
        return match experiment.blocks_per_process {
            Some(_) => Err(fail(
                Status::Usage,
                "--blocks-per-process says how many blocks share a process; add --in-process",
            )),
            None => Ok(None),
        };
    }
    let refuse = |why: String| Err(fail(Status::Usage, format!("--in-process: {why}")));
    if experiment.machine == Some(MachineKind::Emulated) {
        return refuse(
            "an emulated machine counts one run from boot to end, and its counts know no drift \
             that would have to cancel; leave --in-process out"
                .into(),
        );
    }
    if experiment.rebuild.is_some() {
        return refuse("one program has every code path; leave --rebuild out".into());
    }
    if experiment.conclude.is_some() || variants.iter().any(|variant| variant.prepare.is_some()) {
        return refuse(
            "nothing can be run between the runs of one process; use --setup and --cleanup in \
             place of --prepare and --conclude"
                .into(),
        );
    }
    let first = &variants[0];
    if first.work.path().is_none() {
        let offering: Vec<&str> = opcost_work::WORKLOADS
            .iter()
            .filter(|spec| spec.params.iter().any(|param| param.name == PATH))
            .map(|spec| spec.name)
            .collect();
        return refuse(format!(
            "{} has no code paths that opcost could exchange; workloads that have: {}",
            match &first.work {
                WorkPlan::Command { .. } => "a command",
                WorkPlan::Workload { name, .. } => name,
            },
            offering.join(", ")
        ));
    }
    for other in &variants[1..] {
        if let Some(what) = other_difference(first, other) {
            return refuse(format!(
                "variants in one process can differ in {PATH} only, but '{}' and '{}' differ in \
                 {what}",
                first.name, other.name
            ));
        }
    }
    let blocks = experiment.blocks_per_process.unwrap_or(1);
    if !(1..=BLOCKS_MAX).contains(&blocks) {
        let why = format!("--blocks-per-process {blocks}: give 1 to {BLOCKS_MAX}");
        return Err(fail(Status::Usage, why));
    }
    Ok(Some(InProcessPlan { blocks }))
}

/// The first thing in which two variants of a workload differ beside the code path.
fn other_difference(one: &VariantPlan, other: &VariantPlan) -> Option<String> {
    if let (WorkPlan::Workload { params: first, .. }, WorkPlan::Workload { params: second, .. }) =
        (&one.work, &other.work)
    {
        let differing =
            first.iter().zip(second).find(|((key, value), (_, also))| key != PATH && value != also);
        if let Some(((key, value), (_, also))) = differing {
            return Some(format!("{key} ({value}, {also})"));
        }
    }
    if one.env != other.env {
        return Some("their environment".into());
    }
    (one.cwd != other.cwd).then(|| "their working directory".into())
}
