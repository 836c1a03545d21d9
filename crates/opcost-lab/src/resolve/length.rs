//! The number of runs of a plan, and the rules by which it may stop early.

use super::measured::fewest_blocks;
use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_model::experiment::Experiment;
use opcost_model::plan::{StopPlan, schedule};
use opcost_record::MetricKey;
use opcost_stats::early;

/// The largest number of runs of a variant, and of warm-up runs.
const PAIRS_MAX: u32 = 1_000_000;
/// The largest number of pairs if a width or a budget ends the recording.
const PAIRS_UNTIL_STOPPED: u32 = 2_000;
/// By default, runs on this host continue until each variant had this much time, up to this many runs of each.
const TIME_EACH_MS: u64 = 3_000;
const RUNS_MAX: u32 = 1_000;
/// The fewest runs of a single variant, which show its spread but decide nothing; on the emulated machine, the number of seeds.
const RUNS_ALONE_MIN: u32 = 10;
const RUNS_ALONE_EMULATED: u32 = 6;

/// The properties of a plan that decide how many runs it needs.
pub(super) struct Shape<'a> {
    /// The number of variants; a single variant decides nothing.
    pub(super) variants: usize,
    pub(super) emulated: bool,
    pub(super) in_process: bool,
    /// Blocks of a build or a process, if that is the unit of the test.
    pub(super) blocks_per_unit: Option<u32>,
    /// Compared runs of each variant behind one another in a block, if they do not take turns run by run.
    pub(super) runs_behind_own: Option<u32>,
    /// The number of computers, which share the runs equally, if a computer is the unit of the test.
    pub(super) computers: Option<u32>,
    pub(super) comparisons: usize,
    pub(super) metrics: Vec<MetricKey>,
    pub(super) primary: &'a MetricKey,
}

/// The resolved number of runs.
pub(super) struct Length {
    pub(super) stop: StopPlan,
    pub(super) pairs: u32,
    pub(super) fewest_pairs: u32,
    /// Number of pairs that are blocks of their own.
    pub(super) singles: u32,
    /// Number of blocks of each computer, if a computer is the unit of the test.
    pub(super) blocks_per_computer: Option<u32>,
    pub(super) warmup: u32,
}

/// Resolves the number of runs.
///
/// # Errors
/// A number has no meaning, or a width is given without a comparison.
pub(super) fn resolve_length(experiment: &Experiment, shape: &Shape<'_>) -> Result<Length> {
    let alone = shape.variants == 1;
    let mut stop = StopPlan {
        width_ratio: experiment.until_width.map(|width| width.ratio),
        budget_ms: experiment.budget.map(|budget| budget.limit_ms),
        blocks_min: 0,
        look_pairs: None,
    };
    // On the emulated machine one run a side gives repeatable counts, unless one process makes several runs in an order that
    // matters.
    let counts_exactly = shape.emulated && !shape.in_process;
    if experiment.until_settled {
        refuse_settling(experiment, shape)?;
    }
    // A shard does not see the runs of the others, so it makes all its runs.
    let usual_length =
        experiment.pairs.is_none() && experiment.shard.is_none() && stop == StopPlan::default();
    if experiment.until_settled || (usual_length && counts_exactly && !alone) {
        stop.look_pairs = Some(early::pairs(shape.comparisons));
    }
    if alone {
        refuse_comparing(experiment)?;
    }
    // The emulated machine makes exactly the number of runs that decides; their time has no influence.
    let by_time = usual_length && !shape.emulated;
    if by_time {
        stop.budget_ms = Some(TIME_EACH_MS * shape.variants as u64);
    }
    let units_needed = match alone {
        true => 1,
        false => {
            fewest_blocks(&shape.metrics, shape.primary, shape.comparisons, &stop.error_budget())
        }
    };
    let pairs_per_block = shape.runs_behind_own.unwrap_or(1);
    let fewest_pairs = units_needed
        .saturating_mul(shape.blocks_per_unit.unwrap_or(1))
        .saturating_mul(pairs_per_block);
    let drifts = !shape.emulated || shape.in_process;
    // With the fewest pairs, a change of a varying figure is found only if almost every pair shows it.
    let usual = if drifts { 2 * fewest_pairs } else { fewest_pairs };
    let may_stop = stop.width_ratio.is_some() || stop.budget_ms.is_some();
    let most = match (may_stop, alone) {
        _ if by_time => RUNS_MAX,
        (true, true) => RUNS_MAX,
        (false, true) => RUNS_ALONE_EMULATED,
        (true, false) => PAIRS_UNTIL_STOPPED,
        (false, false) => 0,
    };
    let least = match experiment.min_runs {
        Some(runs) => runs,
        None if by_time && alone => RUNS_ALONE_MIN,
        None if by_time => usual,
        None => 0,
    };
    let pairs = experiment.pairs.unwrap_or(usual.max(most).max(least.min(PAIRS_MAX)));
    let warmup = experiment.warmup.unwrap_or(1);
    let pairs_min = if alone || counts_exactly { 1 } else { 2 };
    if !(pairs_min..=PAIRS_MAX).contains(&pairs) {
        let why = match alone {
            true => format!("--pairs {pairs}: give 1 to 1,000,000 runs"),
            false => format!(
                "--pairs {pairs}: give {pairs_min} to 1,000,000; {fewest_pairs} can decide every metric of \
                 this plan"
            ),
        };
        return Err(fail(Status::Usage, why));
    }
    if warmup > PAIRS_MAX {
        return Err(fail(Status::Usage, format!("--warmup {warmup}: give at most 1,000,000")));
    }
    if let Some(runs) = experiment.min_runs {
        check_min_runs(runs, pairs, may_stop)?;
    }
    if let Some(computers) = shape.computers {
        let OnComputers { pairs, singles, blocks } = on_computers(pairs, computers);
        let fewest_pairs = units_needed * pairs / computers;
        let blocks_per_computer = Some(blocks);
        return Ok(Length { stop, pairs, fewest_pairs, singles, blocks_per_computer, warmup });
    }
    if shape.runs_behind_own.is_some() {
        let pairs = pairs.div_ceil(pairs_per_block) * pairs_per_block;
        stop.blocks_min = least.div_ceil(pairs_per_block);
        let (singles, blocks_per_computer) = (0, None);
        return Ok(Length { stop, pairs, fewest_pairs, singles, blocks_per_computer, warmup });
    }
    let by_unit = shape.blocks_per_unit.is_some();
    let singles = match alone {
        true => pairs,
        false => schedule::single_pairs(pairs, fewest_pairs, by_unit, may_stop.then_some(least)),
    };
    stop.blocks_min = schedule::blocks_of_pairs(least, singles);
    Ok(Length { stop, pairs, fewest_pairs, singles, blocks_per_computer: None, warmup })
}

/// Pairs shared between computers, each of which is a unit of the test.
struct OnComputers {
    pairs: u32,
    singles: u32,
    /// Blocks of each computer.
    blocks: u32,
}

/// Gives each computer the same number of pairs, and at least `pairs` in all. A computer with more than one pair makes mirrored
/// blocks.
fn on_computers(pairs: u32, computers: u32) -> OnComputers {
    match pairs.div_ceil(computers) {
        1 => OnComputers { pairs: computers, singles: computers, blocks: 1 },
        each => {
            let blocks = each.div_ceil(2);
            OnComputers { pairs: 2 * blocks * computers, singles: 0, blocks }
        }
    }
}

/// Refuses a least number of runs if nothing ends the runs sooner, or if the number cannot be reached.
fn check_min_runs(runs: u32, pairs: u32, may_stop: bool) -> Result<()> {
    let why = match (may_stop, runs) {
        (false, _) => "all runs are made anyway; give their number with -n, or say with --budget or --until-width \
                       what ends them sooner"
            .to_string(),
        (true, 0) => "give 1 or more, or leave it out".to_string(),
        (true, _) if runs > pairs => format!("no more than {pairs} are made; give a larger -n, or less"),
        _ => return Ok(()),
    };
    Err(fail(Status::Usage, format!("--min-runs {runs}: {why}")))
}

/// Refuses to stop at exact counts if there are none, or if another rule ends the recording.
fn refuse_settling(experiment: &Experiment, shape: &Shape<'_>) -> Result<()> {
    let why = match shape {
        Shape { variants: 1, .. } => "there is one variant, so nothing to settle",
        Shape { emulated: false, .. } => {
            "counts of this host vary from run to run; use --until-width, or --machine emulated"
        }
        Shape { in_process: true, .. } => {
            "the runs of one process (--in-process) are not repeated one by one; leave one of both out"
        }
        _ if experiment.until_width.is_some() => {
            "--until-width looks at the interval itself; leave one of both out"
        }
        _ => return Ok(()),
    };
    Err(fail(Status::Usage, format!("--until-settled: {why}")))
}

/// Refuses options about a comparison if there is only one variant.
fn refuse_comparing(experiment: &Experiment) -> Result<()> {
    let refuse = |option: &str, why: &str| Err(fail(Status::Usage, format!("{option}: {why}")));
    if experiment.until_width.is_some() {
        return refuse(
            "--until-width",
            "the option limits the width of a change between variants, and there is one variant; limit the \
             runs with -n, or the time with --budget",
        );
    }
    if experiment.in_process {
        return refuse("--in-process", "there is one variant, so no code path to exchange");
    }
    Ok(())
}
