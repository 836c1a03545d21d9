//! Settings that only runs on this computer have: sampling and repeated builds.

use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_model::experiment::Experiment;
use opcost_model::plan::{BuildPlan, EventPlan, HostPlan};
use opcost_source::sampling::{self, SamplingPlan};

/// Resolves the settings that only runs on this computer have.
///
/// # Errors
/// Options of sampling without sampling, options of builds without a build, or a number without a meaning.
pub(super) fn resolve_host(experiment: &Experiment, events: &[EventPlan]) -> Result<HostPlan> {
    Ok(HostPlan {
        build: resolve_build(experiment)?,
        sampling: resolve_sampling(experiment, events)?,
    })
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
