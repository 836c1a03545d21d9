//! `opcost run`: runs an experiment, from a file or by the name of one that ships with opcost.

use anyhow::Result;
use clap::Args;
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_command::globals::Globals;
use opcost_command::output::OutputArgs;
use opcost_command::record::{PlanArgs, carry_out};
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::resolve::resolve;
use opcost_lab::shipped::Shipped;
use opcost_model::experiment::Experiment;
use opcost_model::plan::Shard;
use opcost_record::nearest::did_you_mean;
use opcost_record::printable::printable;
use opcost_sys::user::other_author;
use std::path::{Component, Path, PathBuf};

pub(crate) const EXAMPLES: &str = "Examples:
  opcost run mitigations                   one that ships with opcost (opcost list experiments)
  opcost run mitigations --pairs 5         flags go over the fields of the file
  opcost run my.toml --set variant.0.params.ops=1000";

/// Arguments of `opcost run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The experiment file (TOML), or the name of an experiment that ships with opcost; a file of that
    /// name in the current folder wins
    #[arg(value_name = "FILE|NAME")]
    pub file: Option<PathBuf>,

    /// Set a field of the experiment, for example cwd=/tmp or variant.0.params.ops=1000; it overrides the
    /// file, and a variant's name may take the place of its number
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Make one shard of the plan: I/N is the I-th of N parts, which different computers make; opcost gather
    /// joins them. A shard that was begun in the store is gone on with
    #[arg(long, value_name = "I/N", help_heading = "Schedule")]
    pub shard: Option<Shard>,

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
    let mut experiment = experiment_of(args.file.as_deref(), &args.set, &args.experiment)?;
    experiment.shard = args.shard;
    let plan = resolve(&experiment, &HostSurroundings)?;
    carry_out(globals, plan, args.plan.dry_run, &args.output)
}

/// The experiment of a file or name, with flags that override its fields.
///
/// # Errors
/// Usage: there is no such experiment, or a key or value is wrong.
pub(super) fn experiment_of(
    file: Option<&Path>,
    set: &[String],
    flags: &Experiment,
) -> Result<Experiment> {
    let file = file_of(file, &Shipped::here().experiments())?;
    Experiment::read(&file, set, flags).status(Status::Usage)
}

/// The file that the user means: the file of this path, else the shipped experiment of this name.
fn file_of(given: Option<&Path>, shipped: &[(String, PathBuf)]) -> Result<PathBuf> {
    let names = || shipped.iter().map(|(name, _)| name.as_str());
    let Some(given) = given else {
        let listed = match shipped {
            [] => "none came with this opcost".to_string(),
            _ => names().collect::<Vec<_>>().join(", "),
        };
        let why = format!(
            "run: name an experiment: a FILE (TOML), or one that ships with opcost: {listed}; \
             opcost list experiments says what they ask"
        );
        return Err(fail(Status::Usage, why));
    };
    // A folder with a shipped experiment's name is not an experiment.
    let is_here = given.exists() && !given.is_dir();
    let (false, Some(name)) = (is_here, name_of(given)) else {
        if is_here {
            check_author(given)?;
        }
        return Ok(given.to_path_buf());
    };
    let stem = name.strip_suffix(".toml").unwrap_or(name);
    match shipped.iter().find(|(known, _)| known == stem) {
        Some((_, file)) if stem == name => Ok(file.clone()),
        Some(_) => Err(fail(
            Status::Usage,
            format!(
                "there is no file '{name}' here; opcost run {stem} runs the one that ships with opcost"
            ),
        )),
        // A user who names a file gets an error about the file.
        None if stem != name => Ok(given.to_path_buf()),
        None => Err(fail(
            Status::Usage,
            format!(
                "there is no file '{shown}' here, and no experiment of that name ships with opcost{}; \
                 opcost list experiments shows those that do",
                did_you_mean(name, names()),
                shown = printable(name),
            ),
        )),
    }
}

/// Refuses a file that stands where an experiment's name was meant, if somebody else wrote it. A path, or a name with its suffix,
/// is a file that the user asks for.
///
/// # Errors
/// Usage: says whose file it is, and how to run it all the same.
fn check_author(given: &Path) -> Result<()> {
    let Some(name) = name_of(given).filter(|name| !name.ends_with(".toml")) else { return Ok(()) };
    let shown = printable(name);
    match other_author(given) {
        Ok(Some(author)) => Err(fail(
            Status::Usage,
            format!(
                "the file '{shown}' in the current folder {author}, who so chooses what would run; \
                 opcost plan ./{shown} shows that, and opcost run ./{shown} runs it"
            ),
        )),
        _ => Ok(()),
    }
}

/// The word, if it may name a shipped experiment: no path of several parts, not `.` or `..`.
fn name_of(given: &Path) -> Option<&str> {
    let mut parts = given.components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) if !given.to_str()?.contains('/') => name.to_str(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> Vec<(String, PathBuf)> {
        let named = |name: &str| (name.to_string(), Path::new("/share").join(name));
        ["mitigations", "seccomp"].into_iter().map(named).collect()
    }

    fn found(given: &str) -> Result<PathBuf, String> {
        file_of(Some(Path::new(given)), &shipped()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_is_a_shipped_experiment_and_a_path_a_file() {
        assert_eq!(found("mitigations").unwrap(), Path::new("/share/mitigations"));
        for path in ["./mitigations", "none/mitigations", ".", "..", "/mitigations", "mine.toml"] {
            assert_eq!(found(path).unwrap(), Path::new(path));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_are_near() {
        let error = found("mitigation").unwrap_err();
        assert!(error.contains("no file 'mitigation' here"), "{error}");
        assert!(error.contains("(did you mean mitigations?)"), "{error}");
        assert!(!found("entirely-other").unwrap_err().contains("did you mean"));
        let error = found("seccomp.toml").unwrap_err();
        assert!(error.contains("opcost run seccomp runs"), "{error}");
    }

    #[test]
    fn without_a_name_all_are_listed() {
        let error = |shipped: &[_]| file_of(None, shipped).unwrap_err().to_string();
        assert!(error(&shipped()).contains("mitigations, seccomp;"));
        assert!(error(&[]).contains("none came with this opcost"));
    }
}
