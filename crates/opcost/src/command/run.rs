//! `opcost run`: an experiment file.

use super::globals::Globals;
use super::output::OutputArgs;
use super::record::{PlanArgs, carry_out};
use crate::exit::{Status, WithStatus};
use crate::experiment::Experiment;
use crate::machine::host::HostSurroundings;
use crate::resolve::resolve;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// Arguments of `opcost run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The experiment file (TOML)
    pub file: PathBuf,

    /// Override a field of the file, for example pairs=10 or variant.NAME.params.ops=1000
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub experiment: Experiment,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub plan: PlanArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: OutputArgs,
}

/// `opcost run`.
pub fn run(globals: &Globals, args: &RunArgs) -> Result<Status> {
    let experiment =
        Experiment::read(&args.file, &args.set, &args.experiment).status(Status::Usage)?;
    let plan = resolve(&experiment, &HostSurroundings)?;
    carry_out(globals, plan, args.plan.dry_run, &args.output)
}
