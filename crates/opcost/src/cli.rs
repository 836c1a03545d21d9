//! The command line: every flag is declared once, here and in [`Experiment`]; help text, man page
//! and completions derive from it.

use crate::attach::AttachArgs;
use crate::comparison::limit::FailOn;
use crate::diff::DiffArgs;
use crate::exit::{Status, fail};
use crate::experiment::{Command as CommandText, Experiment, Scalar, Variant};
use crate::forget::ForgetArgs;
use crate::history::command::HistoryArgs;
use crate::import::command::{ImportArgs, formats_help};
use crate::kernel::KernelArgs;
use crate::plan::{MachineKind, SameFile};
use crate::profile::{ProfileArgs, formats_help as profile_formats_help};
use crate::render::Exports;
use crate::render::profile::ProfileExports;
use crate::report::ReportArgs;
use crate::resolve;
use crate::selftest::PLANTED_PERCENT;
use crate::size::SizeArgs;
use crate::top::TopArgs;
use anyhow::Result;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use opcost_record::printable::printable_bytes;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Compares variants of a hot path on the same fixed work, and says which shifts are real.
#[derive(Debug, Parser)]
#[command(
    name = "opcost",
    version,
    max_term_width = 100,
    propagate_version = true,
    after_help = "Exit status: 0 done, 1 regression (with --fail-on), 2 usage, 3 not comparable, \
                        4 the work failed, 5 something of the environment is missing, 130 interrupted"
)]
pub struct Cli {
    #[command(subcommand)]
    /// What to do.
    pub action: Action,

    /// File that recordings are stored in [default: recordings.sqlite in the XDG data directory]
    #[arg(long, value_name = "PATH", env = "OPCOST_STORE", global = true, hide_env_values = true)]
    pub store: Option<PathBuf>,

    /// Print results and errors only
    #[arg(long, short = 'q', global = true)]
    pub quiet: bool,

    /// Never use colour (the environment variable NO_COLOR does the same)
    #[arg(long, global = true)]
    pub no_color: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Compare commands or built-in workloads, interleaved on this machine
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArgs),
    /// Measure one command or built-in workload: every metric with its spread
    #[command(after_help = MEASURE_EXAMPLES)]
    Measure(MeasureArgs),
    /// Run an experiment file
    Run(RunArgs),
    /// Go on with a recording that was interrupted
    Resume(ResumeArgs),
    /// Show a recording again
    Show(ShowArgs),
    /// Write a recording as one page for a browser, with plots, that needs no other file
    Report(ReportArgs),
    /// Sample a command, workload, process or the machine, or read a profile, and show it by function
    #[command(after_help = format!("{PROFILE_EXAMPLES}\n\n{}", profile_formats_help()))]
    Profile(ProfileArgs),
    /// Compare two profiles function by function: of one recording, of two, or of files
    #[command(after_help = format!("{DIFF_EXAMPLES}\n\n{}", profile_formats_help()))]
    Diff(DiffArgs),
    /// Read the results of other tools into the store and compare them
    #[command(after_help = formats_help())]
    Import(ImportArgs),
    /// Show the recordings of one experiment over time, and where they changed
    History(HistoryArgs),
    /// List workloads, events, recordings or the formats that can be imported
    List(ListArgs),
    /// Delete recordings, and give back the room that they took
    Forget(ForgetArgs),
    /// Build kernels for the emulated machine, or list them
    Kernel(KernelArgs),
    /// List the sites of a running program that uses patchpoint, or change one and compare, live
    #[command(after_help = ATTACH_EXAMPLES)]
    Attach(AttachArgs),
    /// Compare the sizes of two programs, libraries, object files, archives or kernels
    #[command(after_help = SIZE_EXAMPLES)]
    Size(SizeArgs),
    /// Show what runs at this moment, function by function, in the manner of perf top
    #[command(after_help = crate::top::screen::keys_help())]
    Top(TopArgs),
    /// Say what can be measured here, what cannot, why, and what would help
    Doctor(DoctorArgs),
    /// Compare work with itself and with a known change: how often is there a false alarm here?
    #[command(after_help = SELFTEST_HELP)]
    Selftest(SelftestArgs),
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// Restore a program that opcost attach changed, if opcost dies (used by opcost itself)
    #[command(hide = true)]
    AttachGuardian,
    /// Perform one run of a workload (used by opcost itself)
    #[command(hide = true)]
    WorkProcess,
}

const SELFTEST_HELP: &str = "Exit status: 0 if nothing speaks against a false-alarm rate of at most 5 % \
a report (the interval of the rate, exact, at 95 % confidence, reaches down to 5 %) and, on the emulated \
machine, every planted change was found; else 3";

const COMPARE_EXAMPLES: &str = "Examples:
  opcost compare 'gzip -1 -c file' 'gzip -2 -c file'
  opcost compare --workload syscall:seccomp=off --workload syscall:seccomp=on
  opcost compare --machine emulated --kernel debian:cloud -w mmap --boot mitigations=off --boot mitigations=auto
  opcost compare --variant old=./a.out --variant new=./b.out --primary task-clock -e instructions:u";

const MEASURE_EXAMPLES: &str = "Examples:
  opcost measure 'gzip -9 -c file'
  opcost measure -n 50 --profile 'sort -n data'
  opcost measure --machine emulated 'gzip -9 -c file'
  opcost measure -w mmap:ops=100000
  opcost diff 261121-69 last        # against another recording of the same work";

const DIFF_EXAMPLES: &str = "Examples:
  opcost diff
  opcost diff last --variant native --variant paravirt --format mail
  opcost diff 261121-69 261122-7d --variant paravirt
  opcost diff --function copy_page_range
  opcost diff old/perf.data new/perf.data --ops 100000
  opcost diff --baseline old/*.data --variant new/*.data";

const PROFILE_EXAMPLES: &str = "Examples:
  opcost profile 'gzip -9 -c data'
  opcost profile --call-graph dwarf --callers './prog --fast'
  opcost profile -w mmap:ops=100000
  opcost profile -a --duration 10s --export-flamegraph machine.svg
  opcost profile --input perf.data
  opcost profile --input perf.data --callers --limit 5
  opcost profile --input callgrind.out.4711 --function memcpy
  opcost profile --input cpu.pb.gz --event cpu
  opcost profile --input perf.data --export-flamegraph profile.svg";

const ATTACH_EXAMPLES: &str = "Examples:
  opcost attach 1234
  opcost attach 1234 --json
  opcost attach $(pidof server) --key tracing --to on
  opcost attach $(pidof server) --key tracing --to on --keep
  opcost attach 1234 --key limit --to 64 --pairs 200 --period 50ms
  opcost attach 1234 --key copy --to copy_sse2 --to copy_avx2
  opcost attach 1234 --key copy --to copy_avx2 -e task-clock,instructions:u";

const SIZE_EXAMPLES: &str = "Examples:
  opcost size prog
  opcost size old/prog new/prog
  opcost size libold.a libnew.a --limit 50
  opcost size native paravirt
  opcost size ~/linux-a ~/linux-b --function copy_page_range";

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

/// Arguments of `opcost measure`.
#[derive(Args, Debug)]
pub struct MeasureArgs {
    /// The command, one argument, split like a shell does
    #[arg(value_name = "COMMAND")]
    pub command: Vec<OsString>,

    /// A built-in workload instead, with parameters, NAME[:KEY=VALUE,...]
    #[arg(long, short = 'w', value_name = "WORKLOAD")]
    pub workload: Vec<String>,

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

/// Arguments of the commands that make runs.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// Print the plan and stop
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of the commands that print a comparison.
#[derive(Args, Debug)]
pub struct OutputArgs {
    /// What to print on standard output [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = "Output", value_parser = crate::render::format_names())]
    pub format: Option<String>,

    /// Print JSON on standard output; --json - is the same
    #[arg(long, help_heading = "Output", conflicts_with = "format")]
    pub json: bool,

    /// Show names of functions whole; else names of C++ and Rust are shortened where there is no room:
    /// template arguments, parameters and namespaces are left out first
    #[arg(long, help_heading = "Output")]
    pub full_names: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub exports: Exports,

    /// End with status 1 if WHAT is significantly worse, and by more than LIMIT where that is given;
    /// may be repeated
    ///
    /// WHAT is regression (the primary metric), a metric as tables show it, or functions (each
    /// function of a profile, its limit a share of the whole). LIMIT is relative (0.5%), absolute
    /// (10000, 2ms, 4KiB; of an operation where the row is) or both ('0.5% or 10000': either is
    /// enough to allow a change).
    #[arg(long, value_name = "WHAT[=LIMIT]", help_heading = "Output")]
    pub fail_on: Vec<FailOn>,
}

impl OutputArgs {
    /// Fails early if a file could not be written later, or standard output would get two formats.
    ///
    /// # Errors
    /// Names the option.
    pub fn check(&self) -> Result<()> {
        self.exports.check()?;
        let other = match (&self.format, self.json) {
            (Some(format), _) => format!("--format {format}"),
            (None, true) => "--json".to_string(),
            (None, false) => return Ok(()),
        };
        match self.exports.printed() {
            None => Ok(()),
            Some(name) => Err(fail(
                Status::Usage,
                format!(
                    "--export-{name} - and {other}: standard output takes one of them; give --export-{name} a file"
                ),
            )),
        }
    }
}

/// Arguments of `opcost resume`.
#[derive(Args, Debug)]
pub struct ResumeArgs {
    /// The recording: its identifier, the beginning of it, or last
    #[arg(default_value = "last")]
    pub id: String,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: OutputArgs,
}

/// Arguments of `opcost show`.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// The recording: its identifier, the beginning of it, or last
    #[arg(default_value = "last")]
    pub id: String,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub profiles: ProfileExports,

    /// Whose profile to export, by name or position; may be repeated [default: all variants]
    #[arg(long, value_name = "NAME", help_heading = "Profiles")]
    pub variant: Vec<String>,

    /// Waive a rule of the comparability ledger; the waiver is printed; may be repeated
    #[arg(long, value_name = "RULE")]
    pub allow: Vec<String>,

    /// Take two files for the same where functions are compared, by path or name: one of the
    /// baseline, one of the variant; may be repeated [default: files of one path, name or role]
    #[arg(long = "match", value_name = "OLD=NEW")]
    pub matches: Vec<SameFile>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: OutputArgs,
}

/// Arguments of `opcost list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// What to list
    pub what: Listing,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Listing {
    /// Built-in workloads with their parameters.
    Workloads,
    /// Events and metrics, with whether they can be counted here.
    Events,
    /// Recordings in the store.
    Recordings,
    /// Formats of other tools that can be imported.
    Formats,
}

/// Arguments of `opcost doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Listen to each CPU in turn instead: which is the quietest, what disturbs the others
    #[arg(long)]
    pub cpus: bool,

    /// How long to listen to each CPU
    #[arg(long, value_name = "N", default_value = "1", requires = "cpus", value_parser = seconds)]
    pub seconds: f64,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `opcost selftest`.
#[derive(Args, Debug)]
pub struct SelftestArgs {
    /// A command to compare with itself, split like a shell does [default: a built-in workload,
    /// which can also be given a known change]
    pub command: Option<String>,

    /// Make reports for so many seconds; each kind is made at least once
    #[arg(long, value_name = "N", default_value = "60", value_parser = seconds)]
    pub seconds: f64,

    /// Seed of the orders of runs and of the work [default: drawn]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,

    /// Runs of each side in a report [default: 100; on the emulated machine the fewest that can
    /// decide every metric]
    #[arg(long, short = 'n', visible_alias = "runs", value_name = "N")]
    pub pairs: Option<u32>,

    /// Plant so much more work in every second report; may be repeated [default: 1 and 5, on the
    /// emulated machine 0.01]
    #[arg(long, value_name = "PERCENT", conflicts_with = "command", value_parser = planted)]
    pub plant: Vec<f64>,

    /// Pin every run to this CPU [default: not pinned]
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<usize>,

    /// Where the work runs [default: host]
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<MachineKind>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A change that can be planted.
fn planted(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if PLANTED_PERCENT.contains(&percent) => Ok(percent),
        _ => Err("give percent of the work, 0.01 to 100".into()),
    }
}

/// A number of seconds that is some time and less than a month.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=2.6e6).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds, 0.001 to 2,600,000".into()),
    }
}

/// The arguments of this process, as the command line is declared.
pub fn arguments() -> Vec<OsString> {
    spelled_out(std::env::args_os())
}

/// The command line that these arguments are; ends the program where they are none, or ask for help.
pub fn parsed(arguments: Vec<OsString>) -> Cli {
    Cli::try_parse_from(arguments).unwrap_or_else(|mut error| {
        without_hidden(&mut error);
        error.exit()
    })
}

/// Takes commands that opcost uses itself out of an error's suggestions, where clap puts them.
fn without_hidden(error: &mut clap::Error) {
    let kind = ContextKind::SuggestedSubcommand;
    let Some(ContextValue::Strings(names)) = error.get(kind).cloned() else { return };
    let command = Cli::command();
    let is_shown =
        |name: &String| command.find_subcommand(name).is_none_or(|command| !command.is_hide_set());
    let shown: Vec<String> = names.into_iter().filter(is_shown).collect();
    if shown.is_empty() {
        error.remove(kind);
    } else {
        error.insert(kind, ContextValue::Strings(shown));
    }
}

/// What `opcost --version` prints, if that is all that is asked.
///
/// Declaring the whole command line, which clap does before it answers, takes longer than all the
/// rest of such a start.
pub fn version(arguments: &[OsString]) -> Option<String> {
    let [_, asked] = arguments else { return None };
    let is_asked = asked == "--version" || asked == "-V";
    is_asked.then(|| concat!("opcost ", env!("CARGO_PKG_VERSION"), "\n").to_string())
}

/// Arguments with `--json -` written as `--json`, and where `opcost diff` is given a `--baseline`,
/// with the option repeated for each of several files behind it.
///
/// An option declared with several values would take what follows `--variant NAME` for one.
fn spelled_out(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let given: Vec<OsString> = given.collect();
    let of_files = given.iter().any(|argument| argument == "diff")
        && given.iter().any(|argument| argument == "--baseline");
    let mut arguments: Vec<OsString> = Vec::new();
    let mut listing: Option<&OsString> = None;
    for argument in &given {
        if argument == "-" && arguments.last().is_some_and(|last| last == "--json") {
            continue;
        }
        if argument.as_encoded_bytes().starts_with(b"-") {
            let lists = of_files && (argument == "--baseline" || argument == "--variant");
            listing = Some(argument).filter(|_| lists);
        } else if let Some(option) = listing
            && arguments.last() != Some(option)
        {
            arguments.push(option.clone());
        }
        arguments.push(argument.clone());
    }
    arguments
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
                    command: Some(command_of(spec, self.experiment.shell.as_deref())?),
                    ..Variant::default()
                },
            };
            experiment.variants.push(Variant { name: Some(printable_bytes(name)), ..variant });
        }
        Ok(experiment)
    }
}

impl MeasureArgs {
    /// The experiment that these arguments are shorthand for.
    ///
    /// # Errors
    /// Usage errors that name the argument.
    pub fn to_experiment(&self) -> Result<Experiment> {
        with_variants(&self.experiment, &self.command, &self.workload)
    }
}

/// An experiment with a variant for each command and each workload.
fn with_variants(
    experiment: &Experiment,
    commands: &[OsString],
    workloads: &[String],
) -> Result<Experiment> {
    let mut experiment = experiment.clone();
    for line in commands {
        let command = Some(command_of(line, experiment.shell.as_deref())?);
        experiment.variants.push(Variant { command, ..Variant::default() });
    }
    for workload in workloads {
        experiment.variants.push(parse_workload(workload)?);
    }
    Ok(experiment)
}

/// A command as it was given; one that is no UTF-8 is split here, as neither JSON nor TOML has its line.
pub(crate) fn command_of(line: &OsStr, shell: Option<&str>) -> Result<CommandText> {
    if let Some(text) = line.to_str() {
        return Ok(CommandText::Line(text.to_string()));
    }
    if let Some(shell) = shell {
        return Ok(CommandText::Words(vec![shell.into(), "-c".into(), line.to_os_string()]));
    }
    let words = shlex::bytes::split(line.as_bytes())
        .ok_or_else(|| resolve::unbalanced(&printable_bytes(line.as_bytes())))?;
    Ok(CommandText::Words(words.into_iter().map(OsString::from_vec).collect()))
}

/// Reads `NAME[:KEY=VALUE,...]`.
pub(crate) fn parse_workload(text: &str) -> Result<Variant> {
    let (name, params) = text.split_once(':').unwrap_or((text, ""));
    let mut variant = Variant { workload: Some(name.to_string()), ..Variant::default() };
    for param in params.split(',').filter(|param| !param.is_empty()) {
        let (key, value) = param.split_once('=').ok_or_else(|| {
            fail(Status::Usage, format!("--workload {text}: '{param}' is not KEY=VALUE"))
        })?;
        if variant.params.insert(key.to_string(), Scalar::Text(value.to_string())).is_some() {
            return Err(fail(Status::Usage, format!("--workload {text}: {key} is given twice")));
        }
    }
    Ok(variant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_what_clap_would_print() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for asked in ["opcost --version", "opcost -V"] {
            let declared = Cli::try_parse_from(words(asked)).unwrap_err().to_string();
            assert_eq!(version(&words(asked)), Some(declared));
        }
        for other in ["opcost", "opcost show", "opcost show --version", "opcost -V --help"] {
            assert_eq!(version(&words(other)), None, "{other}");
        }
    }

    #[test]
    fn several_files_may_follow_a_side() {
        let spelled = |line: &str| {
            let given = line.split(' ').map(OsString::from);
            let words = spelled_out(given).into_iter().map(|word| word.into_string().unwrap());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            spelled("opcost diff --baseline a b --variant c d e --ops 5"),
            "opcost diff --baseline a --baseline b --variant c --variant d --variant e --ops 5"
        );
        assert_eq!(
            spelled("opcost diff --variant c --json - --baseline a"),
            "opcost diff --variant c --json --baseline a"
        );
        // Of recordings a variant is one name, and an identifier may follow it.
        let of_recordings = "opcost diff --variant paravirt last --limit 3";
        assert_eq!(spelled(of_recordings), of_recordings);
    }
}
