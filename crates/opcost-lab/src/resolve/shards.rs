//! Checks whether an experiment can be cut into shards, and cuts its plan.

use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_model::experiment::{Experiment, Seed};
use opcost_model::plan::{Plan, Shard, ShardPlan};

/// The default seed of shards: every computer must draw the same order.
pub(super) const SEED: u64 = 1;

/// Refuses shards of an experiment that cannot be made in parts.
///
/// `on_host`: whether runs are made on the computers themselves, each of which then is a unit of the test; `alone`: whether there
/// is one variant.
///
/// # Errors
/// A usage error names the conflicting option.
pub(super) fn check(experiment: &Experiment, on_host: bool, alone: bool) -> Result<()> {
    let Some(shard) = experiment.shard else { return Ok(()) };
    let in_the_way = [
        (
            experiment.until_width.is_some(),
            "--until-width looks at all runs, and a shard sees its own",
        ),
        (experiment.until_settled, "--until-settled looks at all runs, and a shard sees its own"),
        (
            experiment.budget.is_some(),
            "--budget ends a recording anywhere, and each shard has its fixed runs",
        ),
        (
            experiment.warmup == Some(0),
            "every shard makes the warm-up runs, by which opcost gather sees whether \
          its computer counts as the others do; give --warmup 1 or more",
        ),
        (
            experiment.seed == Some(Seed::RANDOM),
            "--seed random draws another order for each shard; name a number",
        ),
        (
            on_host && experiment.rebuild.is_some(),
            "with --rebuild a build is the unit of the test, and on the host \
          a shard's computer is; leave one of both out",
        ),
        (
            on_host && experiment.in_process,
            "with --in-process a process is the unit of the test, and on the host \
          a shard's computer is; leave one of both out",
        ),
        (
            on_host && alone,
            "there is one variant, and on the host computers show a change \
          only as each runs all variants",
        ),
    ];
    match in_the_way.iter().find(|(is, _)| *is) {
        Some((_, why)) => Err(fail(Status::Usage, format!("--shard {shard}: {}", why))),
        None => Ok(()),
    }
}

/// Cuts a plan into shards and selects the shard to make.
///
/// # Errors
/// A usage error: the plan has fewer units than shards.
pub(super) fn cut(plan: Plan, shard: Option<Shard>, blocks: Option<u32>) -> Result<Plan> {
    let Some(shard) = shard else { return Ok(plan) };
    let units = (plan.blocks.len() as u32).div_ceil(plan.blocks_per_unit());
    let shards = ShardPlan { of: shard.of, index: Some(shard.index), blocks };
    if blocks.is_none() && units < shard.of {
        let (unit, several) = plan.unit_words();
        let word = if units == 1 { unit } else { several };
        let why = format!(
            "the plan has {units} {word}, so it has at most {units} shards, not {}; give fewer, or more --pairs",
            shard.of
        );
        return Err(fail(Status::Usage, why));
    }
    Ok(Plan { shards: Some(shards), ..plan })
}
