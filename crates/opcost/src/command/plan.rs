//! `opcost plan`: shows what an experiment will run, as a whole or in shards.

use super::run::experiment_of;
use anyhow::Result;
use clap::Args;
use opcost_base::exit::{HasStatus, Status, fail};
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::resolve::resolve;
use opcost_model::experiment::Experiment;
use opcost_model::plan::{Plan, Shard};
use opcost_model::recording::Recording;
use opcost_page::writer::text::text;
use opcost_report::render::plan::{ShardRow, document, json, shards_document, shards_json};
use opcost_store::store::{Store, StoreError, StoreErrorKind};
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "Examples:
  opcost plan mitigations                  what opcost run mitigations will do
  opcost plan mitigations --shards 8       what each of eight computers makes of it";

/// Arguments of `opcost plan`.
#[derive(Args, Debug)]
pub struct PlanOfArgs {
    /// The experiment file (TOML), or the name of an experiment that ships with opcost
    #[arg(value_name = "FILE|NAME")]
    pub file: Option<PathBuf>,

    /// Set a field of the experiment, for example cwd=/tmp or variant.0.params.ops=1000; it overrides the
    /// file, and a variant's name may take the place of its number
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// How many shards to cut the plan into; opcost shows what each makes, and how long that takes where the
    /// store has an earlier recording of the experiment
    #[arg(long, value_name = "N")]
    pub shards: Option<u32>,

    /// Print JSON on standard output; --json - is the same
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub experiment: Experiment,
}

/// Prints the plan of an experiment.
///
/// # Errors
/// Usage: as `opcost run`; more shards than the plan can be cut into.
pub fn plan(globals: &Globals, args: &PlanOfArgs) -> Result<Status> {
    let experiment = experiment_of(args.file.as_deref(), &args.set, &args.experiment)?;
    let Some(of) = args.shards else {
        let plan = resolve(&experiment, &HostSurroundings)?;
        print(&match args.json {
            true => json(&plan)?,
            false => text(&document(&plan), &globals.style()),
        })?;
        return Ok(Status::Done);
    };
    let plan = sharded(&experiment, of)?;
    let (earlier, run_ns) = earlier(globals, &plan)?.unzip();
    let rows: Vec<ShardRow> =
        (1..=of).map(|index| row(&plan, Shard { index, of }, run_ns)).collect();
    let whole = plan.with_shard(None);
    print(&match args.json {
        true => shards_json(&whole, &rows)?,
        false => text(&shards_document(&whole, &rows, earlier.as_deref()), &globals.style()),
    })?;
    Ok(Status::Done)
}

/// The plan of an experiment that is cut into `of` shards; this plan makes the first shard.
///
/// # Errors
/// Usage: the plan cannot be cut into this many shards.
pub(super) fn sharded(experiment: &Experiment, of: u32) -> Result<Plan> {
    let first = format!("1/{of}").parse::<Shard>();
    let first = first.map_err(|why| fail(Status::Usage, format!("--shards {of}: {why}")))?;
    resolve(&Experiment { shard: Some(first), ..experiment.clone() }, &HostSurroundings)
}

fn row(plan: &Plan, shard: Shard, run_ns: Option<u64>) -> ShardRow {
    let own = plan.with_shard(Some(shard.index));
    let (all, common_runs) = (own.slot_count(), own.warm_up_count());
    // The time that another computer takes to get ready is unknown, so it is left out.
    let estimated_ns = run_ns.map(|run_ns| run_ns * all as u64);
    ShardRow {
        shard,
        blocks: plan.blocks_of_shard(shard),
        runs: all - common_runs,
        common_runs,
        estimated_ns,
    }
}

/// The newest recording in the store of the same experiment, with the same variants and machine, whose runs are enough for an
/// estimate: its ID, and the time of a run in nanoseconds.
fn earlier(globals: &Globals, plan: &Plan) -> Result<Option<(String, u64)>> {
    let store = match Store::open_for_reading(&globals.store_path()?) {
        Ok(store) => store,
        Err(error) if error.kind == StoreErrorKind::Absent => return Ok(None),
        Err(error) => return Err(error.carried()),
    };
    let described = |plan: &Plan| -> Vec<String> {
        plan.variants.iter().map(|variant| variant.describe()).collect()
    };
    for head in store.list().map_err(StoreError::carried)?.into_iter().rev() {
        if head.experiment != plan.experiment || head.imported {
            continue;
        }
        let recording = store.read(&head.id).map_err(StoreError::carried)?;
        if described(&recording.plan) == described(plan)
            && recording.plan.machine() == plan.machine()
            && let Some(run_ns) = ns_of_a_run(&recording)
        {
            return Ok(Some((recording.id, run_ns)));
        }
    }
    Ok(None)
}

/// The time of a run with all that is around it: the typical time between the starts of two runs.
/// Several machines at a time make it shorter.
fn ns_of_a_run(recording: &Recording) -> Option<u64> {
    let mut starts: Vec<u64> =
        recording.records.iter().map(|record| record.started_unix_ns).collect();
    starts.sort_unstable();
    let jobs = recording.plan.emulation().map_or(1, |emulation| emulation.jobs.max(1));
    // The time from one group of simultaneous runs to the next.
    let mut gaps: Vec<u64> =
        starts.windows(jobs + 1).map(|window| window[jobs] - window[0]).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).map(|gap| gap / jobs as u64)
}
