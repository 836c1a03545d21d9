//! Settings that only runs on this computer have: sampling, repeated builds, and the priority and CPU of runs.

use super::Surroundings;
use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_model::experiment::Experiment;
use opcost_model::plan::{BuildPlan, EventPlan, HostPlan, Priority};
use opcost_source::sampling::{self, SamplingPlan};
use opcost_sys::scheduling::NoRealTime;

/// Resolves the settings that only runs on this computer have.
///
/// # Errors
/// Options of sampling without sampling, options of builds without a build, or a number without a meaning.
pub(super) fn resolve_host(experiment: &Experiment, events: &[EventPlan]) -> Result<HostPlan> {
    Ok(HostPlan {
        build: resolve_build(experiment)?,
        sampling: resolve_sampling(experiment, events)?,
        priority: experiment.priority.unwrap_or_default(),
    })
}

/// The CPU to which every run is pinned: the one that the user names, else for real-time priority the last one, since devices
/// interrupt the first ones.
///
/// # Errors
/// Usage: the process may not run there. Missing: real-time priority is not possible here.
pub(super) fn resolve_cpu(
    experiment: &Experiment,
    surroundings: &dyn Surroundings,
) -> Result<Option<usize>> {
    let allowed = surroundings.allowed_cpus();
    if let Some(cpu) = experiment.cpu.filter(|cpu| !allowed.contains(cpu)) {
        let why = format!(
            "--cpu {cpu}: this process may run on CPUs {allowed:?} only; choose one of them"
        );
        return Err(fail(Status::Usage, why));
    }
    if experiment.priority != Some(Priority::RealTime) {
        return Ok(experiment.cpu);
    }
    if let Some((reason, remedy)) = surroundings.no_real_time().map(NoRealTime::in_words) {
        return Err(fail(Status::Missing, format!("--priority real-time: {reason}; {remedy}")));
    }
    Ok(experiment.cpu.or(allowed.last().copied()))
}

/// Whether the experiment has options of sampling.
pub(super) fn sets_sampling(experiment: &Experiment) -> bool {
    experiment.frequency.is_some()
        || experiment.call_graph.is_some()
        || experiment.stack_bytes.is_some()
}

fn resolve_sampling(experiment: &Experiment, events: &[EventPlan]) -> Result<Option<SamplingPlan>> {
    if !experiment.profile {
        return match sets_sampling(experiment) {
            true => Err(fail(
                Status::Usage,
                "--frequency, --call-graph and --stack-bytes: they say how to sample; add --profile",
            )),
            false => Ok(None),
        };
    }
    if !events.iter().any(|event| event.key == sampling::metric()) {
        return Err(fail(
            Status::Usage,
            "--profile: samples are explained as parts of task-clock; add -e task-clock",
        ));
    }
    SamplingPlan::new(experiment.frequency, experiment.call_graph, experiment.stack_bytes).map(Some)
}

fn resolve_build(experiment: &Experiment) -> Result<Option<BuildPlan>> {
    let Some(command) = &experiment.rebuild else {
        return match experiment.blocks_per_build {
            Some(_) => {
                Err(fail(Status::Usage, "--blocks-per-build says how often; add --rebuild COMMAND"))
            }
            None => Ok(None),
        };
    };
    let blocks = experiment.blocks_per_build.unwrap_or(1);
    if !(1..=1000).contains(&blocks) {
        return Err(fail(Status::Usage, format!("--blocks-per-build {blocks}: give 1 to 1000")));
    }
    Ok(Some(BuildPlan { command: command.clone(), blocks }))
}
