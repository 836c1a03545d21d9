//! `opcost measure`: one command or workload by itself.

use anyhow::Result;
use clap::Args;
use opcost_base::exit::{Status, fail};
use opcost_command::globals::Globals;
use opcost_command::output::OutputArgs;
use opcost_command::record::{PlanArgs, carry_out, save};
use opcost_command::variant::{with_sets, with_variants};
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::resolve::resolve;
use opcost_model::experiment::{Command, Experiment, Variant};
use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "Examples:
  opcost measure 'gzip -9 -c file'
  opcost measure -n 50 -- gzip -9 -c file
  opcost measure -n 50 --profile 'sort -n data'
  opcost measure --machine emulated 'gzip -9 -c file'
  opcost measure -w mmap:ops=100000
  opcost diff 261121-69 last        # against another recording of the same work";

/// Arguments of `opcost measure`.
#[derive(Args, Debug)]
pub struct MeasureArgs {
    /// The command, one argument, split like a shell does
    #[arg(value_name = "COMMAND")]
    pub command: Vec<OsString>,

    /// The command as words behind --, which nothing splits again
    #[arg(last = true, value_name = "WORD", conflicts_with = "command")]
    pub words: Vec<OsString>,

    /// Built-in workload with parameters, NAME[:KEY=VALUE,...]; in place of a command
    #[arg(long, short = 'w', value_name = "WORKLOAD")]
    pub workload: Vec<String>,

    /// Set a field of the experiment, for example cwd=/tmp or variant.0.params.ops=1000; a flag for the
    /// same field wins
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub experiment: Experiment,

    /// Write the experiment as a file for opcost run and stop
    #[arg(long, value_name = "FILE")]
    pub save_experiment: Option<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub plan: PlanArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: OutputArgs,
}

impl MeasureArgs {
    /// The experiment that these arguments are shorthand for.
    ///
    /// # Errors
    /// Usage errors that name the argument.
    pub fn to_experiment(&self) -> Result<Experiment> {
        let lines =
            if let [line] = &self.words[..] { std::slice::from_ref(line) } else { &self.command };
        let mut experiment = with_variants(&self.experiment, lines, &self.workload)?;
        if self.words.len() > 1 {
            if experiment.shell().is_some() {
                let why = "a shell takes one line: quote the command, or leave --shell out";
                return Err(fail(Status::Usage, why));
            }
            let command = Some(Command::of_words(&self.words));
            experiment.variants.push(Variant { command, ..Variant::default() });
        }
        with_sets(experiment, &self.set, &self.experiment)
    }
}

/// `opcost measure`.
pub fn measure(globals: &Globals, args: &MeasureArgs) -> Result<Status> {
    let experiment = args.to_experiment()?;
    let plan = resolve(&experiment, &HostSurroundings)?;
    if plan.variants.len() > 1 {
        let names: Vec<&str> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
        let why = format!(
            "opcost measure measures one variant, and these are {}: {}; compare them with opcost compare",
            names.len(),
            names.join(", ")
        );
        return Err(fail(Status::Usage, why));
    }
    if !args.output.fail_on.is_empty() {
        let why = "--fail-on: one variant has nothing to be worse than; see opcost history --fail-on \
                   or opcost compare --fail-on";
        return Err(fail(Status::Usage, why));
    }
    if let Some(path) = &args.save_experiment {
        return save(&experiment, path);
    }
    carry_out(globals, plan, args.plan.dry_run, &args.output)
}
