//! The groups in which `--help` and the manual pages list flags: one table for all commands, so a flag stands under the same heading
//! everywhere. Flags of an experiment have their heading where they are declared.

use clap::{Arg, Command};

/// A heading, and its flags: `FLAG` of any command, or `COMMAND FLAG`.
const GROUPS: [(&str, &[&str]); 12] = [
    ("Change", &["attach key", "to", "attach period", "attach keep"]),
    ("Schedule", &["attach pairs", "attach seed"]),
    ("Metrics", &["attach primary"]),
    ("Variants", &["workload", "variant", "param", "import baseline", "diff baseline"]),
    ("Experiment", &["name", "question", "label", "set", "save-experiment", "dry-run", "shards"]),
    (
        "Revisions and cases",
        &[
            "base", "tip", "worktree", "baseline", "update", "notes", "case", "suite", "good",
            "bad", "options", "checkout",
        ],
    ),
    ("Recordings", &["history folder", "history label", "list label", "last"]),
    (
        "Work without a suite",
        &[
            "bisect workload",
            "bisect kernel",
            "bisect cpu-model",
            "bisect ops",
            "build",
            "kernel-config",
            "kernel-source",
            "bisect metric",
            "bisect function",
        ],
    ),
    ("What is profiled", &["pid", "profile all", "duration", "shell", "show-output"]),
    (
        "Profiles in files",
        &["only", "kernel-symbols", "no-inlined", "event", "profile ops", "diff ops"],
    ),
    (
        "Output",
        &[
            "format",
            "json",
            "html",
            "badge",
            "share",
            "limit",
            "sort",
            "full-names",
            "callers",
            "function",
            "annotate",
            "source-root",
            "diff all",
        ],
    ),
    ("General", &["store", "quiet", "verbose", "read-limit", "no-color"]),
];

/// The heading of a command's flag.
fn heading(command: &str, flag: &str) -> Option<&'static str> {
    let named = |name: &str| GROUPS.iter().find(|(_, flags)| flags.contains(&name));
    named(&format!("{command} {flag}")).or_else(|| named(flag)).map(|(heading, _)| *heading)
}

/// The command line with each flag under its heading.
pub(crate) fn grouped(command: Command) -> Command {
    let name = command.get_name().to_string();
    let with_heading = |arg: Arg| {
        let found = arg.get_long().filter(|_| arg.get_help_heading().is_none());
        match found.and_then(|flag| heading(&name, flag)) {
            Some(heading) => arg.help_heading(heading),
            None => arg,
        }
    };
    command.mut_args(with_heading).mut_subcommands(grouped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;
    use std::collections::{BTreeMap, BTreeSet};

    /// Each command that is shown, by its whole name.
    fn shown(above: &str, command: &Command, found: &mut Vec<(String, Command)>) {
        for sub in
            command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
        {
            let name = format!("{above} {}", sub.get_name()).trim().to_string();
            if sub.has_subcommands() {
                shown(&name, sub, found);
            } else {
                found.push((name, sub.clone()));
            }
        }
    }

    fn commands() -> Vec<(String, Command)> {
        let mut command = cli::command();
        command.build();
        let mut found = Vec::new();
        shown("", &command, &mut found);
        found
    }

    #[test]
    fn a_command_with_many_flags_has_them_in_groups() {
        for (name, command) in commands() {
            let flags = || command.get_arguments().filter(|arg| arg.get_long().is_some());
            let alone = flags().filter(|arg| arg.get_help_heading().is_none());
            let alone: Vec<&str> = alone.filter_map(Arg::get_long).collect();
            assert!(flags().count() < 17 || alone.len() <= 6, "{name}: in no group: {alone:?}");
        }
    }

    #[test]
    fn every_flag_of_the_groups_exists() {
        let commands = commands();
        for name in GROUPS.iter().flat_map(|(_, flags)| flags.iter()) {
            let (command, flag) =
                name.split_once(' ').map_or((None, *name), |(command, flag)| (Some(command), flag));
            let is_there = |(name, one): &(String, Command)| {
                command.is_none_or(|command| command == name)
                    && one.get_arguments().any(|arg| arg.get_long() == Some(flag))
            };
            assert!(commands.iter().any(is_there), "there is no flag {name}");
        }
    }

    /// The sentence that a flag's help begins with, without examples, choices and defaults.
    fn sentence(help: &str) -> String {
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let ends = [". ", "; ", ": ", " (", " ["].map(|end| help.find(end).unwrap_or(help.len()));
        let end = ends.into_iter().min().unwrap_or(help.len());
        help[..end].split(", for example").next().unwrap_or_default().to_string()
    }

    /// What a flag means, as far as a test can tell: its letter, its value's name and its help.
    fn meaning(arg: &Arg) -> String {
        let values = arg.get_value_names().unwrap_or_default();
        let values: Vec<&str> = match arg.get_num_args().is_some_and(|number| number.takes_values())
        {
            true => values.iter().map(|name| name.as_str()).collect(),
            false => Vec::new(),
        };
        let letter = arg.get_short().map_or(String::new(), |letter| format!("-{letter} "));
        let help = arg.get_help().map_or(String::new(), ToString::to_string);
        format!("{letter}{}: {}", values.join(" "), sentence(&help))
    }

    /// Flags whose name has several meanings or sentences of help, and why.
    const SEVERAL: &[(&str, &str)] = &[
        ("all", "of profile the whole machine, as in perf; elsewhere every row"),
        ("architecture", "of kernel build the one to build for; elsewhere the machine's"),
        ("baseline", "a file of figures or profiles; of import one of the variants"),
        ("case", "of bisect the one that it searches; elsewhere a choice of cases"),
        ("core", "of doctor the one to validate or to begin with; elsewhere the modelled one"),
        ("cpu-model", "of bisect for work without a suite"),
        ("cpus", "how many CPUs a machine has; of doctor a look at each CPU"),
        ("dry-run", "of forget what would be deleted; elsewhere the plan"),
        ("event", "events to count; of profile and diff one event of a file"),
        ("experiment", "of import the name to give; elsewhere the one to find"),
        ("export-json", "of gate its answer; elsewhere a comparison"),
        ("export-markdown", "of gate its answer; elsewhere a comparison"),
        ("export-text", "of gate its answer; elsewhere a comparison"),
        ("fail-on", "of history a level; elsewhere a comparison"),
        ("folder", "of submit for shards, of history with recordings, of man for pages"),
        ("format", "of import that of the files; elsewhere that of the output"),
        ("function", "of bisect the one to search; elsewhere the one to show"),
        (
            "html",
            "of history charts; of report the page of a recording; elsewhere a function's lines",
        ),
        ("input", "of profile the file of a profile, as in perf; elsewhere standard input"),
        ("jobs", "of bisect points; elsewhere machines"),
        ("keep", "of attach the change; of forget the newest recordings"),
        ("kernel", "of bisect for work without a suite"),
        ("kernel-config", "of bisect for the kernel that each revision becomes"),
        ("label", "of history and list the one to find; elsewhere the one to give"),
        ("limit", "the rows of each command's table"),
        ("metric", "of bisect the one to search; of history the ones to show"),
        ("name", "of kernel build the kernel's; elsewhere the experiment's"),
        ("notes", "gate writes them, history reads them"),
        ("ops", "how many operations: read from the output, or given"),
        ("output", "where the output of commands goes; of export the file"),
        ("pairs", "of attach periods of a program; of selftest the runs of each of its reports"),
        ("pid", "profile samples it until its end, top looks at it"),
        ("seconds", "of doctor for each CPU; of selftest for all"),
        ("seed", "what is drawn: runs and work, periods, or the self-test's reports"),
        ("sort", "of profile a column; elsewhere the order of variants"),
        ("states", "kernel list lists them, kernel forget removes them"),
        ("steps", "show shows the operation that the others record"),
        ("variant", "of compare it makes a variant; elsewhere it chooses one"),
    ];

    #[test]
    fn a_flag_means_the_same_in_every_command() {
        let mut meanings: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (name, command) in commands() {
            for arg in command.get_arguments() {
                let Some(flag) = arg.get_long() else { continue };
                let of_flag = meanings.entry(flag.to_string()).or_default();
                of_flag.entry(meaning(arg)).or_default().insert(name.clone());
            }
        }
        let differing: Vec<_> = meanings
            .iter()
            .filter(|(flag, found)| {
                found.len() > 1 && !SEVERAL.iter().any(|(known, _)| known == flag)
            })
            .collect();
        assert!(differing.is_empty(), "{differing:#?}");
        for (flag, why) in SEVERAL {
            assert!(meanings[*flag].len() > 1, "--{flag} has one meaning now ({why})");
        }
    }
}
