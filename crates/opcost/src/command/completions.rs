//! `opcost completions`: completes words of the command line, and names that are known when a shell
//! asks.

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{CompleteEnv, Shells};
use opcost_analysis::comparison::ledger::RULES;
use opcost_base::exit::Status;
use opcost_command::globals;
use opcost_core_model::Core;
use opcost_import::import::FORMATS;
use opcost_lab::shipped::Shipped;
use opcost_record::METRICS;
use opcost_store::store::Store;
use opcost_work::{WORKLOADS, WorkloadSpec};
use std::ffi::OsStr;

/// The environment variable by which a shell's script asks for completions.
const ASKED: &str = "OPCOST_COMPLETE";

/// Prints the script that makes a shell ask opcost for completions.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(shell: Shell) -> Result<Status> {
    let shells = Shells::builtins();
    let completer =
        shells.completer(&shell.to_string()).context("no completions for this shell")?;
    let mut bytes = Vec::new();
    completer
        .write_registration(ASKED, "opcost", "opcost", "opcost", &mut bytes)
        .context("completions")?;
    opcost_command::output::print_bytes(&bytes)?;
    Ok(Status::Done)
}

/// Answers a shell that asks for completions of a command line. Returns whether a shell asked, so
/// that there is nothing else to do.
///
/// # Errors
/// The shell is unknown, or standard output cannot be written.
pub fn answer(declared: fn() -> Command) -> Result<bool> {
    if std::env::var_os(ASKED).is_none() {
        return Ok(false);
    }
    let folder = std::env::current_dir().ok();
    let asked = CompleteEnv::with_factory(|| completed(declared())).var(ASKED);
    asked.try_complete(std::env::args_os(), folder.as_deref()).context("completions")
}

/// The command line with completers for its values.
fn completed(mut command: Command) -> Command {
    command.build();
    with_values(command)
}

fn with_values(command: Command) -> Command {
    let of_recordings = RECORDINGS.contains(&command.get_name());
    let of_experiments = command.get_name() == "run";
    let command = command.mut_args(|arg| match (arg.get_id().as_str(), of_recordings) {
        ("workload", _) => arg.add(ArgValueCompleter::new(workloads)),
        ("events" | "primary" | "metric", _) => arg.add(ArgValueCompleter::new(metrics)),
        ("fail_on", _) => arg.add(ArgValueCompleter::new(watched)),
        ("allow", _) => arg.add(ArgValueCompleter::new(rules)),
        ("format", _) if arg.get_possible_values().is_empty() => {
            arg.add(ArgValueCompleter::new(formats))
        }
        ("id" | "ids" | "recording" | "other", true) => arg.add(ArgValueCompleter::new(recordings)),
        ("core", _) => arg.add(ArgValueCompleter::new(cores)),
        ("file", _) if of_experiments => arg.add(ArgValueCompleter::new(experiments)),
        _ => arg,
    });
    let names: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_string()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, with_values))
}

/// Cores that ship, and files.
fn cores(current: &OsStr) -> Vec<CompletionCandidate> {
    let names =
        Core::SHIPPED.iter().map(|(name, _)| (name.to_string(), "ships with opcost".into()));
    let mut found = beginning(current, names);
    found.extend(PathCompleter::file().complete(current));
    found
}

/// Commands that take a recording as an argument.
const RECORDINGS: [&str; 6] = ["show", "resume", "report", "diff", "forget", "export"];

fn candidate(value: impl Into<String>, help: impl Into<String>) -> CompletionCandidate {
    CompletionCandidate::new(value.into()).help(Some(help.into().into()))
}

/// The candidates that begin with the current word.
fn beginning(
    current: &OsStr,
    all: impl IntoIterator<Item = (String, String)>,
) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let known = all.into_iter().filter(|(value, _)| value.starts_with(current));
    known.map(|(value, help)| candidate(value, help)).collect()
}

/// Names of workloads, and behind `NAME:` the names of their parameters.
fn workloads(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_string_lossy();
    let Some((name, given)) = text.split_once(':') else {
        return beginning(
            current,
            WORKLOADS.iter().map(|row| (row.name.into(), row.summary.into())),
        );
    };
    let Some(spec) = WorkloadSpec::find(name) else { return Vec::new() };
    let before = given.rsplit_once(',').map_or("", |(before, _)| before);
    let comma = if before.is_empty() { "" } else { "," };
    let given: Vec<&str> = before.split(',').filter_map(|pair| pair.split('=').next()).collect();
    let mut values = Vec::new();
    for param in spec.all_params().iter().filter(|param| !given.contains(&param.name)) {
        let start = format!("{name}:{before}{comma}{}=", param.name);
        values.push((start.clone(), format!("{}: {}", param.help, param.values)));
        // Words are completed; numbers are left to the user.
        let words = param.values.split('|').filter(|value| (param.check)(value).is_some());
        if text.starts_with(&start) {
            values.extend(words.map(|value| (format!("{start}{value}"), param.help.into())));
        }
    }
    values.retain(|(value, _)| *value != text);
    beginning(current, values)
}

fn metrics(current: &OsStr) -> Vec<CompletionCandidate> {
    // Only the last item of a list with commas is completed.
    let text = current.to_string_lossy();
    let before = text.rfind(',').map_or("", |comma| &text[..=comma]);
    let known = METRICS.iter().map(|row| (format!("{before}{}", row.name), row.help.to_string()));
    beginning(current, known)
}

fn watched(current: &OsStr) -> Vec<CompletionCandidate> {
    let all =
        [("regression", "the primary metric is worse"), ("functions", "any function is dearer")];
    let mut found = beginning(current, all.map(|(word, help)| (word.into(), help.into())));
    found.extend(metrics(current));
    found
}

fn rules(current: &OsStr) -> Vec<CompletionCandidate> {
    beginning(current, RULES.iter().map(|rule| (rule.name.into(), rule.help.into())))
}

fn formats(current: &OsStr) -> Vec<CompletionCandidate> {
    beginning(current, FORMATS.iter().map(|row| (row.name.into(), row.help.into())))
}

/// Experiments that ship with opcost, then files.
fn experiments(current: &OsStr) -> Vec<CompletionCandidate> {
    let shipped = Shipped::here().experiments();
    let names = shipped.into_iter().map(|(name, _)| (name, "ships with opcost".to_string()));
    let mut found = beginning(current, names);
    found.extend(PathCompleter::file().complete(current));
    found
}

/// Recordings of the default store, newest first.
fn recordings(current: &OsStr) -> Vec<CompletionCandidate> {
    let path = globals::store_of_environment().or_else(globals::default_store_path);
    let listed =
        path.and_then(|path| Store::open_for_reading(&path).ok()?.list().ok()).unwrap_or_default();
    let named = listed.into_iter().rev().map(|head| (head.id, head.experiment));
    let last = [("last".to_string(), "the newest".to_string())];
    beginning(current, last.into_iter().chain(named))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn values(found: &[CompletionCandidate]) -> Vec<String> {
        found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn workloads_are_completed_with_their_parameters() {
        assert_eq!(values(&workloads(OsStr::new("sys"))), ["syscall"]);
        let keys = values(&workloads(OsStr::new("syscall:ops=10,sec")));
        assert_eq!(keys, ["syscall:ops=10,seccomp="]);
        let words = values(&workloads(OsStr::new("syscall:seccomp=o")));
        assert_eq!(words, ["syscall:seccomp=off", "syscall:seccomp=on"]);
        assert!(
            !values(&workloads(OsStr::new("syscall:ops=1,"))).iter().any(|v| v.ends_with("ops="))
        );
        assert!(workloads(OsStr::new("nothing:")).is_empty());
    }

    #[test]
    fn lists_of_metrics_are_completed_at_their_end() {
        let found = values(&metrics(OsStr::new("wall,branch-m")));
        assert_eq!(found, ["wall,branch-misses"]);
        assert_eq!(values(&watched(OsStr::new("regr"))), ["regression"]);
    }

    /// A renamed argument must not lose its completions unseen.
    #[test]
    fn every_argument_that_is_named_here_exists() {
        fn ids(command: &Command, found: &mut Vec<String>) {
            found.extend(command.get_arguments().map(|arg| arg.get_id().to_string()));
            command.get_subcommands().for_each(|sub| ids(sub, found));
        }
        let mut found = Vec::new();
        ids(&completed(crate::cli::Cli::command()), &mut found);
        for id in [
            "workload", "events", "primary", "metric", "fail_on", "allow", "format", "id", "ids",
            "file",
        ] {
            assert!(found.iter().any(|known| known == id), "no argument {id}");
        }
    }
}
