//! The command line. Each command's own file declares its arguments; help text, man page and
//! completions derive from the declarations.

use crate::command::attach::{self, AttachArgs};
use crate::command::bench::{self, BenchArgs};
use crate::command::callgrind::CallgrindArgs;
use crate::command::compare::{self, CompareArgs};
use crate::command::diff::{self, DiffArgs};
use crate::command::doctor::DoctorArgs;
use crate::command::export::ExportArgs;
use crate::command::forget::ForgetArgs;
use crate::command::gather::{self, GatherArgs};
use crate::command::history::HistoryArgs;
use crate::command::import::{ImportArgs, formats_help};
use crate::command::kernel::KernelArgs;
use crate::command::list::ListArgs;
use crate::command::man;
use crate::command::measure::{self, MeasureArgs};
use crate::command::plan::{self, PlanOfArgs};
use crate::command::profile::{self, ProfileArgs};
use crate::command::report::ReportArgs;
use crate::command::resume::ResumeArgs;
use crate::command::run::{self, RunArgs};
use crate::command::selftest::{self, SelftestArgs};
use crate::command::show::ShowArgs;
use crate::command::size::{self, SizeArgs};
use crate::command::submit::{self, SubmitArgs};
use crate::command::top::TopArgs;
use crate::{cure, first_screen, groups};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use opcost_base::exit::Status;
use opcost_base::message;
use opcost_command::globals::{Globals, columns};
use opcost_model::experiment::NO_SHELL;
use opcost_record::printable::{Output, inert_text, printable, safe};
use opcost_revisions::bisect::{self, BisectArgs};
use opcost_revisions::gate::series::{self, SeriesArgs};
use opcost_revisions::gate::{self, GateArgs};
use opcost_sys::spawn::find_program;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Compares variants of a hot path on the same fixed work, and says which shifts are real.
#[derive(Debug, Parser)]
#[command(
    name = "opcost",
    version,
    max_term_width = 100,
    propagate_version = true,
    after_help = "Exit status: 0 done, 1 regression (with --fail-on), 2 usage, 3 not comparable, \
                        4 the work failed, 5 a tool or the environment is missing, 130 interrupted"
)]
pub struct Cli {
    #[command(subcommand)]
    /// The command.
    pub action: Action,

    /// The options that every command takes.
    #[command(flatten)]
    pub globals: Globals,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Compare commands or built-in workloads, interleaved on this machine
    #[command(after_help = compare::EXAMPLES)]
    Compare(CompareArgs),
    /// Measure one command or built-in workload: every metric with its spread
    #[command(after_help = measure::EXAMPLES)]
    Measure(MeasureArgs),
    /// Run an experiment, from a file or one that ships with opcost
    #[command(after_help = run::EXAMPLES)]
    Run(RunArgs),
    /// Show what an experiment will run, as a whole or in shards
    #[command(after_help = plan::EXAMPLES)]
    Plan(PlanOfArgs),
    /// Have Slurm make the shards of an experiment, and gather them
    #[command(after_help = submit::EXAMPLES)]
    Submit(SubmitArgs),
    /// Join the shards of a plan, made on several computers, into the recording that one computer makes
    #[command(after_help = gather::EXAMPLES)]
    Gather(GatherArgs),
    /// Answer whether a change may land: a revision against its base, or against committed figures
    #[command(after_help = gate::EXAMPLES)]
    Gate(GateArgs),
    /// Show what each commit of a series did to each case of the suite
    #[command(after_help = series::EXAMPLES)]
    Series(SeriesArgs),
    /// Find the commits, or the options, that made a count what it is
    #[command(after_help = bisect::EXAMPLES)]
    Bisect(BisectArgs),
    /// Resume an interrupted recording
    Resume(ResumeArgs),
    /// Show a recording again
    Show(ShowArgs),
    /// Write a recording as one HTML page with plots; the page needs no other file
    Report(ReportArgs),
    /// Sample a command, workload, process or the machine, or read a profile, and show it by function
    #[command(after_help = format!("{}\n\n{}", profile::EXAMPLES, profile::formats_help()))]
    Profile(ProfileArgs),
    /// Compare two profiles function by function: of one recording, of two, or of files
    #[command(after_help = format!("{}\n\n{}", diff::EXAMPLES, profile::formats_help()))]
    Diff(DiffArgs),
    /// Write a recording as one file, which opcost import reads into another store
    Export(ExportArgs),
    /// Read recordings of opcost export, or results of other tools, into the store
    #[command(after_help = formats_help())]
    Import(ImportArgs),
    /// Show the recordings of one experiment over time, and where they changed
    History(HistoryArgs),
    /// List workloads, events, recordings or the formats that can be imported
    List(ListArgs),
    /// Delete recordings, and return their disk space
    Forget(ForgetArgs),
    /// Build kernels for the emulated machine, or list them
    Kernel(KernelArgs),
    /// List the sites of a running program that uses patchpoint, or change one and compare, live
    #[command(after_help = attach::EXAMPLES)]
    Attach(AttachArgs),
    /// Compare the sizes of two programs, libraries, object files, archives or kernels
    #[command(after_help = size::EXAMPLES)]
    Size(SizeArgs),
    /// Count a program's functions and calls in place of Valgrind's callgrind: same options, requests and files
    #[command(after_help = opcost_callgrind::options::help())]
    Callgrind(CallgrindArgs),
    /// Count the benchmarks of a framework, unchanged: instructions of one iteration, with functions
    #[command(after_help = bench::help())]
    Bench(BenchArgs),
    /// Show what runs now, function by function, like perf top
    #[cfg_attr(feature = "top", command(after_help = opcost_top::screen::keys_help()))]
    #[cfg_attr(not(feature = "top"), command(hide = true, after_help = format!("Not here: {}", crate::command::top::LEFT_OUT)))]
    Top(TopArgs),
    /// Report what can be measured here, what cannot, why, and what would help
    Doctor(DoctorArgs),
    /// Compare work with itself and with a known change, and report how often a false alarm occurs
    /// here
    #[command(after_help = selftest::HELP)]
    Selftest(SelftestArgs),
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print a manual page: the overview, or a command's
    Man(man::ManArgs),
    /// Restore a program that opcost attach changed, if opcost dies (used by opcost itself)
    #[command(hide = true)]
    AttachGuardian,
    /// Perform one run of a workload (used by opcost itself)
    #[command(hide = true)]
    WorkProcess,
}

/// The command line, with flags in groups.
pub fn command() -> clap::Command {
    groups::grouped(Cli::command())
}

/// This process's arguments in the form that the command line declares.
pub fn arguments() -> Vec<OsString> {
    let search_path = std::env::var_os("PATH");
    let is_program =
        |name: &OsStr| find_program(name, search_path.as_deref(), Path::new(".")).is_ok();
    with_command(spelled_out(std::env::args_os()), &is_program)
}

/// The arguments as text; bytes that are no text are replaced.
pub fn words(arguments: &[OsString]) -> Vec<String> {
    arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// The first screen that `opcost`, `opcost -h` or `opcost COMMAND -h` asks for, if the command has one.
pub fn first_screen(words: &[&str]) -> Option<String> {
    match words {
        [_, "-h"] => Some(first_screen::of_all(&command(), columns())),
        [_, name, "-h"] => {
            let mut command = command();
            command.build();
            first_screen::of_command(&command, name, columns())
        }
        _ => None,
    }
}

/// Parses the arguments, of which `words` is the text; ends the program if they are wrong or ask for help.
pub fn parsed(arguments: Vec<OsString>, words: &[&str]) -> Cli {
    let plain = |argument: &OsString| {
        argument.to_str().is_some_and(|text| inert_text(&printable(text)) == text)
    };
    let all_plain = arguments.iter().all(plain);
    let mut declared = command();
    let found = declared.try_get_matches_from_mut(arguments);
    let cli = found.and_then(|found| {
        Cli::from_arg_matches(&found).map_err(|error| error.format(&mut declared))
    });
    cli.unwrap_or_else(|mut error| {
        if let Some(cure) = cure::of_arguments(&error, words) {
            message::write(format_args!("{cure}"));
            std::process::exit(Status::Usage as i32);
        }
        without_hidden(&mut error);
        make_harmless(&mut error);
        if error.use_stderr() && !all_plain {
            // A parser's own words may repeat an argument; clap's colours are not worth it.
            message::show(&safe(&error.to_string(), Output::Message));
            std::process::exit(error.exit_code());
        }
        error.exit()
    })
}

/// Makes the arguments in an error harmless: a script may have taken them from a file's name.
fn make_harmless(error: &mut clap::Error) {
    let texts = |(kind, value): (ContextKind, &ContextValue)| {
        let value = match value {
            ContextValue::String(text) => ContextValue::String(printable(text)),
            ContextValue::Strings(texts) => {
                ContextValue::Strings(texts.iter().map(|text| printable(text)).collect())
            }
            _ => return None,
        };
        Some((kind, value))
    };
    let values: Vec<_> = error.context().filter_map(texts).collect();
    for (kind, value) in values {
        error.insert(kind, value);
    }
}

/// Removes opcost's internal commands from an error's suggestions, where clap puts them.
fn without_hidden(error: &mut clap::Error) {
    let kind = ContextKind::SuggestedSubcommand;
    let Some(ContextValue::Strings(names)) = error.get(kind).cloned() else { return };
    let command = command();
    let is_shown =
        |name: &String| command.find_subcommand(name).is_none_or(|command| !command.is_hide_set());
    let shown: Vec<String> = names.into_iter().filter(is_shown).collect();
    if shown.is_empty() {
        error.remove(kind);
    } else {
        error.insert(kind, ContextValue::Strings(shown));
    }
}

/// The output of `opcost --version`, if the arguments ask for nothing else.
///
/// clap would declare the whole command line before it answers. This takes longer than all the rest
/// of such a start.
pub fn version(arguments: &[OsString]) -> Option<String> {
    let [_, asked] = arguments else { return None };
    let is_asked = asked == "--version" || asked == "-V";
    is_asked.then(|| concat!("opcost ", env!("CARGO_PKG_VERSION"), "\n").to_string())
}

/// The shells that may follow `--shell` as a word of their own, as hyperfine's users write it. A command of this name alone would be
/// a shell that reads nothing.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", NO_SHELL];

/// Inserts the command that a line without one means: `opcost 'a' 'b'` compares two programs, `opcost 'a'` and `opcost -- a` measure
/// one. A line whose words are no programs stays as it is, and its error says more.
fn with_command(arguments: Vec<OsString>, is_program: &dyn Fn(&OsStr) -> bool) -> Vec<OsString> {
    let first = arguments.get(1).and_then(|word| word.to_str());
    let asks = |word: &str| ["-h", "--help", "-V", "--version"].contains(&word);
    if first.is_some_and(|word| asks(word) || first_screen::is_command(word)) {
        return arguments;
    }
    let with = |name: &str| {
        let mut words = arguments.clone();
        words.insert(1, name.into());
        words
    };
    let parse = |words: &[OsString]| Cli::try_parse_from(words);
    // Options of every command may stand before it.
    let is_whole = |error: clap::Error| {
        !matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument)
    };
    if parse(&arguments).map_or_else(is_whole, |_| true) {
        return arguments;
    }
    if arguments.iter().any(|word| word == "--") && parse(&with("measure")).is_ok() {
        return with("measure");
    }
    let is_line = |word: &OsString| word.as_encoded_bytes().contains(&b' ') || is_program(word);
    let compared = with("compare");
    let Ok(Cli { action: Action::Compare(args), .. }) = parse(&compared) else {
        return if is_line(&arguments[1]) { compared } else { arguments };
    };
    let is_line = |word: &OsString| args.experiment.shell().is_some() || is_line(word);
    match &args.commands[..] {
        [] => arguments,
        commands if !commands.iter().all(is_line) => arguments,
        [_] if parse(&with("measure")).is_ok() => with("measure"),
        _ => compared,
    }
}

/// Spells arguments out: `--json -` becomes `--json`, `--shell bash` becomes `--shell=bash`. If `opcost diff` has a `--baseline`, each
/// option is repeated for each of several files behind it. Without arguments, `-h` is added.
///
/// If clap took several values for an option, it would also take what follows `--variant NAME`.
fn spelled_out(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut given: Vec<OsString> = given.collect();
    if given.len() == 1 {
        given.push("-h".into());
    }
    let of_files = given.iter().any(|argument| argument == "diff")
        && given.iter().any(|argument| argument == "--baseline");
    let mut arguments: Vec<OsString> = Vec::new();
    let mut listing: Option<&OsString> = None;
    for argument in &given {
        if argument == "-" && arguments.last().is_some_and(|last| last == "--json") {
            continue;
        }
        if arguments.last().is_some_and(|last| last == "--shell")
            && arguments.iter().all(|before| before != "--")
            && let Some(shell) = argument.to_str()
            && is_shell(shell)
        {
            arguments.pop();
            arguments.push(format!("--shell={shell}").into());
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

/// Whether a word is the name or path of a shell; a command such as `cat /bin/bash` is not.
fn is_shell(word: &str) -> bool {
    let is_of_path = |c: char| c.is_alphanumeric() || "/._+-".contains(c);
    word.chars().all(is_of_path) && SHELLS.contains(&word.rsplit('/').next().unwrap_or(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_ends_with_a_shells_name_is_no_shell() {
        for (word, expected) in
            [("bash", true), ("/bin/zsh", true), ("cat /bin/bash", false), ("cat</bin/sh", false)]
        {
            assert_eq!(is_shell(word), expected, "{word}");
        }
    }

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
    fn a_line_of_programs_alone_compares_or_measures_them() {
        let is_program = |name: &OsStr| ["true", "false"].iter().any(|known| name == *known);
        let with = |words: &[&str]| {
            let words = ["opcost"].iter().chain(words).map(OsString::from).collect();
            with_command(words, &is_program)[1].clone().into_string().unwrap()
        };
        for words in [
            &["true", "false"][..],
            &["sleep 1", "sleep 2"],
            &["--warmup", "3", "sleep 1", "sleep 2"],
            &["--store", "x", "-L", "n", "1,2", "sleep {n}"],
            &["true", "false", "--shell=bash"],
            &["cd", "pwd", "--shell=bash"],
            &["true", "false", "--unknown"],
        ] {
            assert_eq!(with(words), "compare", "{words:?}");
        }
        for words in [&["true"][..], &["-n", "3", "sleep 1"], &["-n", "3", "--", "sleep", "1"]] {
            assert_eq!(with(words), "measure", "{words:?}");
        }
        for words in [
            &["comapre", "sleep 1", "sleep 2"][..],
            &["sleep", "0.1"],
            &["show", "true"],
            &["--store", "x", "show"],
            &["--help"],
            &["help", "show"],
        ] {
            assert_eq!(with(words), words[0], "{words:?}");
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
        assert_eq!(
            spelled(
                "opcost compare --shell bash sleep --shell /bin/zsh --shell none -- x --shell sh"
            ),
            "opcost compare --shell=bash sleep --shell=/bin/zsh --shell=none -- x --shell sh"
        );
        for plain in ["opcost compare --shell bashful b", "opcost compare --shell=sh bash"] {
            assert_eq!(spelled(plain), plain);
        }
        // With recordings, a variant is one name, and an identifier may follow it.
        let of_recordings = "opcost diff --variant paravirt last --limit 3";
        assert_eq!(spelled(of_recordings), of_recordings);
    }
}
