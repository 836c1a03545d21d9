//! `opcost compare`: commands or workloads, interleaved.

use anyhow::Result;
use clap::Args;
use opcost_base::exit::{Status, fail};
use opcost_command::globals::Globals;
use opcost_command::output::OutputArgs;
use opcost_command::record::{PlanArgs, carry_out, save};
use opcost_command::scan::ScanArgs;
use opcost_command::variant::{command_of, parse_workload, with_sets, with_variants};
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::resolve::resolve;
use opcost_model::experiment::{Experiment, Variant};
use opcost_record::printable::printable_bytes;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "Examples:
  opcost compare 'gzip -1 -c file' 'gzip -2 -c file'
  opcost compare -L level 1,6,9 'gzip -{level} -c file'
  opcost compare --workload syscall:seccomp=off --workload syscall:seccomp=on
  opcost compare --machine emulated --kernel debian:cloud -w mmap --boot mitigations=off --boot mitigations=auto
  opcost compare --variant old=./a.out --variant new=./b.out --primary task-clock -e instructions:u";

/// Arguments of `opcost compare`.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Commands to compare, each one argument, split like a shell does; the first is the baseline
    #[arg(value_name = "COMMAND")]
    pub commands: Vec<OsString>,

    /// Built-in workload with parameters, NAME[:KEY=VALUE,...]; may be repeated
    #[arg(long, short = 'w', value_name = "WORKLOAD")]
    pub workload: Vec<String>,

    /// A variant with a name of its own: NAME=COMMAND or NAME=workload:WORKLOAD[:KEY=VALUE,...]
    #[arg(long, value_name = "NAME=SPEC")]
    pub variant: Vec<OsString>,

    /// Set a field of the experiment, for example cwd=/tmp or variant.0.params.ops=1000; a flag for the
    /// same field wins
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub scan: ScanArgs,

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

impl CompareArgs {
    /// The experiment that these arguments are shorthand for.
    ///
    /// # Errors
    /// Usage errors that name the argument.
    pub fn to_experiment(&self) -> Result<Experiment> {
        let mut experiment = with_variants(&self.experiment, &self.commands, &self.workload)?;
        for text in &self.variant {
            let bytes = text.as_bytes();
            let end = bytes.iter().position(|byte| *byte == b'=');
            let (name, spec) = end
                .map(|end| (&bytes[..end], OsStr::from_bytes(&bytes[end + 1..])))
                .filter(|(name, spec)| !name.is_empty() && !spec.is_empty())
                .ok_or_else(|| {
                    let text = printable_bytes(bytes);
                    fail(Status::Usage, format!("--variant {text}: expected NAME=SPEC"))
                })?;
            let variant = match spec.to_str().and_then(|spec| spec.strip_prefix("workload:")) {
                Some(workload) => parse_workload(workload)?,
                None => Variant {
                    command: Some(command_of(spec, self.experiment.shell())?),
                    ..Variant::default()
                },
            };
            experiment.variants.push(Variant { name: Some(printable_bytes(name)), ..variant });
        }
        experiment.scan = self.scan.scans()?;
        with_sets(experiment, &self.set, &self.experiment)
    }
}

/// `opcost compare`.
pub fn compare(globals: &Globals, args: &CompareArgs) -> Result<Status> {
    let experiment = args.to_experiment()?;
    if experiment.variants.is_empty() {
        return Err(too_few_variants(0));
    }
    let plan = resolve(&experiment, &HostSurroundings)?;
    if plan.variants.len() < 2 {
        return Err(too_few_variants(plan.variants.len()));
    }
    if let Some(path) = &args.save_experiment {
        return save(&experiment, path);
    }
    carry_out(globals, plan, args.plan.dry_run, &args.output)
}

fn too_few_variants(given: usize) -> anyhow::Error {
    let why = format!(
        "a comparison needs two or more variants, {given} given; name two commands, repeat --workload \
         (or --kernel, --boot), or measure one by itself with opcost measure"
    );
    fail(Status::Usage, why)
}
