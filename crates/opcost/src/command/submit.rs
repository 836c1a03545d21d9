//! `opcost submit`: submits the shards of an experiment as a job array of Slurm, with a job that gathers them.

use super::gather::parts_of;
use super::plan::sharded;
use super::run::experiment_of;
use anyhow::{Context, Result};
use clap::Args;
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_base::message::announce;
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_model::experiment::Experiment;
use opcost_model::plan::Plan;
use opcost_model::recording::State;
use opcost_record::printable::printable;
use opcost_store::gather::ranges;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) const EXAMPLES: &str = "Examples:
  opcost submit mitigations --slurm --shards 8
  opcost submit my.toml --slurm --shards 64 --sbatch=--partition=short --sbatch=--time=30
  opcost submit my.toml --slurm --shards 64 --print      the scripts, and nothing submitted

The same command again submits what is missing: shards whose tasks failed or were cancelled.";

/// Arguments of `opcost submit`.
#[derive(Args, Debug)]
pub struct SubmitArgs {
    /// The experiment file (TOML), or the name of an experiment that ships with opcost
    #[arg(value_name = "FILE|NAME")]
    pub file: Option<PathBuf>,

    /// Submit to Slurm: a job array with a task for each shard, and a job behind it that gathers them
    #[arg(long, required = true)]
    pub slurm: bool,

    /// How many shards to cut the plan into; opcost plan shows what each makes
    #[arg(long, value_name = "N")]
    pub shards: u32,

    /// Folder for the scripts, the shards and their logs, which every node sees
    /// [default: NAME-shards here]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Option for sbatch, for example --sbatch=--partition=short; may be repeated
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub sbatch: Vec<String>,

    /// Print the scripts and how they would be submitted, and do nothing
    #[arg(long)]
    pub print: bool,

    /// Set a field of the experiment, for example cwd=/tmp or variant.0.params.ops=1000; it overrides the
    /// file, and a variant's name may take the place of its number
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub experiment: Experiment,
}

/// The name of the experiment's file in the folder.
const EXPERIMENT: &str = "experiment.toml";
/// The script of a task, which makes a shard.
const TASK: &str = "shard.sh";
/// The script of the job that gathers.
const GATHER: &str = "gather.sh";
/// The store with the gathered recording.
const GATHERED: &str = "gathered.sqlite";
/// The option that ends the gathering job once a task has failed; otherwise the job would wait for ever.
const NO_DEPENDENCY: &str = "--kill-on-invalid-dep=yes";
/// The file with the numbers of the last jobs.
const JOBS: &str = "jobs";

/// Submits the shards of an experiment that are not made yet.
///
/// # Errors
/// Usage: as `opcost run`; the folder belongs to another experiment; its last jobs are not over.
/// Missing: Slurm is not here, or refuses the job; the folder cannot be written.
pub fn submit(globals: &Globals, args: &SubmitArgs) -> Result<Status> {
    let experiment = experiment_of(args.file.as_deref(), &args.set, &args.experiment)?;
    let plan = sharded(&experiment, args.shards)?;
    let job = Job::of(&experiment, &plan, args)?;
    if args.print {
        print(&job.text()?)?;
        return Ok(Status::Done);
    }
    job.check_over()?;
    job.write()?;
    let left = job.left(globals.read_limit_bytes())?;
    let mut said = String::new();
    let mut jobs = Vec::new();
    if !left.is_empty() {
        let made = sbatch(
            &job.options(),
            &[&format!("--array={}", ranges(&left))],
            &job.folder.join(TASK),
        )?;
        let _ = write!(said, "job {made} makes shards {} of {}; ", ranges(&left), job.of);
        jobs.push(made);
    }
    if left.is_empty() && job.folder.join(GATHERED).exists() {
        let shown = job.shown();
        announce!("all {} shards are made and gathered: {shown}", job.of);
        return Ok(Status::Done);
    }
    let behind = jobs.first().map(|made| format!("--dependency=afterok:{made}"));
    let behind = behind.iter().map(String::as_str).chain([NO_DEPENDENCY]);
    let gathers = sbatch(&job.options(), &behind.collect::<Vec<_>>(), &job.folder.join(GATHER));
    let gathers = gathers.inspect_err(|_| {
        // Nothing would gather the shards, so do not make them.
        let _ = Command::new("scancel").args(&jobs).output();
    })?;
    let _ = write!(said, "job {gathers} gathers all {}", job.of);
    jobs.push(gathers);
    job.put(JOBS, &(jobs.join("\n") + "\n"))?;
    if !globals.quiet {
        announce!(
            "{said}; progress: squeue --jobs={}; afterwards: {}",
            jobs.join(","),
            job.shown()
        );
    }
    Ok(Status::Done)
}

/// The jobs of an experiment.
struct Job<'a> {
    args: &'a SubmitArgs,
    /// The folder's absolute path: tasks begin in another folder.
    folder: PathBuf,
    /// The folder where the experiment's own paths begin.
    here: PathBuf,
    opcost: PathBuf,
    name: String,
    of: u32,
    experiment: String,
}

impl<'a> Job<'a> {
    fn of(experiment: &Experiment, plan: &Plan, args: &'a SubmitArgs) -> Result<Job<'a>> {
        let missing = |what| move || format!("cannot read {what}");
        let here = std::env::current_dir().with_context(missing("the working directory"));
        let here = here.status(Status::Missing)?;
        let opcost = std::env::current_exe().with_context(missing("opcost's own path"));
        let name = plan.experiment.clone();
        // An experiment's name may be any text; a folder's name may not.
        let plain =
            |char: char| if char.is_alphanumeric() || "-_.".contains(char) { char } else { '-' };
        let folder = args.folder.clone();
        let folder = folder.unwrap_or_else(|| {
            format!("{}-shards", name.chars().map(plain).collect::<String>()).into()
        });
        let folder = here.join(folder);
        if folder.to_str().is_none_or(|path| path.contains(['%', '\\', '"', '\n'])) {
            let why = format!(
                "--folder {}: sbatch reads %, \\ and quotes in the names of logs in its own way; choose another folder",
                folder.display()
            );
            return Err(fail(Status::Usage, why));
        }
        Ok(Job {
            args,
            folder,
            opcost: opcost.status(Status::Missing)?,
            name: printable(&name),
            of: args.shards,
            experiment: experiment.to_toml_anywhere(&here)?,
            here,
        })
    }

    /// The options of both jobs.
    fn options(&self) -> Vec<String> {
        let chdir = format!("--chdir={}", self.here.display());
        [vec![chdir, "--parsable".into()], self.args.sbatch.clone()].concat()
    }

    /// The script of a task.
    fn task(&self) -> Result<String> {
        let (opcost, folder) = (quoted(&self.opcost)?, quoted(&self.folder)?);
        Ok(format!(
            "#!/bin/sh\n# Makes one shard of {of} of the experiment {name}; written by opcost submit.\n\
             #SBATCH --job-name=opcost-shard\n\
             #SBATCH --output=\"{output}/shard-%a.log\"\n\
             #SBATCH --open-mode=append\n\
             folder={folder}\n\
             exec {opcost} run \"$folder/{EXPERIMENT}\" --shard \"$SLURM_ARRAY_TASK_ID/{of}\" \\\n    \
             --store \"$folder/shard-$SLURM_ARRAY_TASK_ID.sqlite\"\n",
            of = self.of,
            name = self.name,
            output = self.folder.display(),
        ))
    }

    /// The script of the job that gathers.
    fn gather(&self) -> Result<String> {
        let (opcost, folder) = (quoted(&self.opcost)?, quoted(&self.folder)?);
        Ok(format!(
            "#!/bin/sh\n# Gathers the {of} shards of the experiment {name}; written by opcost submit.\n\
             #SBATCH --job-name=opcost-gather\n\
             #SBATCH --output=\"{output}/gather.log\"\n\
             folder={folder}\n\
             exec {opcost} gather \"$folder\"/shard-*.sqlite --store \"$folder/{GATHERED}\"\n",
            of = self.of,
            name = self.name,
            output = self.folder.display(),
        ))
    }

    /// The scripts, and the commands that submit them.
    fn text(&self) -> Result<String> {
        let options = self.options();
        let options = shlex::try_join(options.iter().map(String::as_str));
        let options = options.context("an option with a NUL").status(Status::Usage)?;
        let script = |name: &str| self.folder.join(name);
        let (task, gather) = (script(TASK), script(GATHER));
        Ok(format!(
            "# {task_name}\n{}\n# {gather_name}\n{}\n# submitted by\n\
             job=$(sbatch {options} --array=1-{} {})\n\
             sbatch {options} --dependency=\"afterok:$job\" {NO_DEPENDENCY} {}\n",
            self.task()?,
            self.gather()?,
            self.of,
            quoted(&task)?,
            quoted(&gather)?,
            task_name = task.display(),
            gather_name = gather.display(),
        ))
    }

    /// Refuses to submit while earlier jobs of the folder are not over.
    fn check_over(&self) -> Result<()> {
        let Ok(text) = fs::read_to_string(self.folder.join(JOBS)) else { return Ok(()) };
        let jobs = text.split_whitespace().collect::<Vec<_>>().join(",");
        // A job that Slurm has forgotten is over; squeue then prints an error only.
        let output = slurm("squeue", &["--noheader", "--format=%i %T", &format!("--jobs={jobs}")])?;
        let queued = String::from_utf8_lossy(&output.stdout).trim().replace('\n', ", ");
        if queued.is_empty() {
            return Ok(());
        }
        let why = format!(
            "the jobs in '{}' are not over ({queued}); wait for them (squeue --jobs={jobs}), or end them: scancel \
             {}",
            self.folder.display(),
            jobs.replace(',', " ")
        );
        Err(fail(Status::Usage, why))
    }

    /// Writes the folder, unless it belongs to another experiment.
    fn write(&self) -> Result<()> {
        let path = self.folder.join(EXPERIMENT);
        let text = format!("# {} shards; written by opcost submit.\n{}", self.of, self.experiment);
        match fs::read_to_string(&path) {
            Ok(known) if known != text => {
                let why = format!(
                    "'{}' has shards of another experiment, or another number of them; choose another --folder, \
                     or remove it",
                    self.folder.display()
                );
                return Err(fail(Status::Usage, why));
            }
            _ => {}
        }
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make the folder '{}'", self.folder.display()))
            .status(Status::Missing)?;
        self.put(EXPERIMENT, &text)?;
        self.put(TASK, &self.task()?)?;
        self.put(GATHER, &self.gather()?)
    }

    fn put(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text)
            .with_context(|| format!("cannot write '{}'", path.display()))
            .status(Status::Missing)
    }

    /// Shards that are not complete.
    fn left(&self, limit_bytes: u64) -> Result<Vec<u32>> {
        let mut left = Vec::new();
        for shard in 1..=self.of {
            let store = self.folder.join(format!("shard-{shard}.sqlite"));
            // A store that cannot be read has no shard: the log of its task says why.
            let is_made = store.exists()
                && parts_of(&store, limit_bytes).is_ok_and(|parts| {
                    parts.iter().any(|part| part.recording.state == State::Finished)
                });
            if !is_made {
                left.push(shard);
            }
        }
        Ok(left)
    }

    /// The command that shows the gathered recording.
    fn shown(&self) -> String {
        format!("opcost show --store {}", self.folder.join(GATHERED).display())
    }
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> Result<String> {
    let path = path.to_str().context("a path that is no UTF-8").status(Status::Usage)?;
    Ok(shlex::try_quote(path).context("a path with a NUL").status(Status::Usage)?.into_owned())
}

/// Submits a script; returns the job's number.
fn sbatch(options: &[String], more: &[&str], script: &Path) -> Result<String> {
    let script = script.display().to_string();
    let options =
        options.iter().map(String::as_str).chain(more.iter().copied()).chain([script.as_str()]);
    let output = slurm("sbatch", &options.collect::<Vec<_>>())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // With several clusters, a cluster's name follows the number.
    let number = said.trim().split(';').next().unwrap_or_default();
    if output.status.success() && !number.is_empty() {
        return Ok(number.to_string());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().replace("sbatch: error: ", "");
    let why = format!(
        "sbatch refused the job: {}; give its options with --sbatch=OPTION (sinfo lists partitions)",
        printable(&why.replace('\n', "; "))
    );
    Err(fail(Status::Missing, why))
}

/// Runs a command of Slurm; returns its output.
fn slurm(program: &str, arguments: &[&str]) -> Result<Output> {
    Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| {
            format!(
                "cannot start {program}: submit where Slurm's commands are (apt install slurm-client), or give \
                 --print for the scripts"
            )
        })
        .status(Status::Missing)
}
