//! The first screens: `opcost`, `opcost -h` and `opcost COMMAND -h` fit a terminal of 24 lines and 80 columns; on a narrower one some
//! lines are folded. `--help` shows everything.

use clap::{Arg, Command};

/// The groups of commands: a title, commands with a line each, and further commands by name.
const GROUPS: [(&str, &[&str], &[&str]); 4] = [
    (
        "Measure, compare, explain",
        &["compare", "measure", "diff", "profile"],
        &[
            "run",
            "plan",
            "resume",
            "show",
            "report",
            "history",
            "top",
            "size",
            "attach",
            "callgrind",
        ],
    ),
    ("Gate and search", &["gate", "series", "bisect"], &["bench"]),
    ("Machines and kernels", &["doctor", "kernel"], &["selftest", "submit", "gather"]),
    ("Files", &["list", "import", "export"], &["forget", "completions", "man"]),
];

/// Commands that no first screen names: opcost's own, and clap's.
const UNNAMED: [&str; 3] = ["help", "attach-guardian", "work-process"];

/// Whether a word is the name of a command.
pub(crate) fn is_command(word: &str) -> bool {
    let named = |(_, shown, further): &(&str, &[&str], &[&str])| {
        shown.contains(&word) || further.contains(&word)
    };
    GROUPS.iter().any(named) || UNNAMED.contains(&word)
}

/// The flags that people use of each command with many flags, in the order shown.
const FLAGS: [(&str, &[&str]); 9] = [
    ("compare", COMPARED),
    (
        "run",
        &[
            "set",
            "machine",
            "primary",
            "event",
            "pairs",
            "budget",
            "dry-run",
            "json",
            "export-html",
            "fail-on",
            "allow",
        ],
    ),
    (
        "measure",
        &[
            "workload",
            "machine",
            "kernel",
            "event",
            "pairs",
            "budget",
            "warmup",
            "cpu",
            "input",
            "prepare",
            "profile",
            "regions",
            "ops",
            "json",
            "export-html",
            "store",
        ],
    ),
    (
        "profile",
        &[
            "workload",
            "pid",
            "all",
            "input",
            "frequency",
            "call-graph",
            "duration",
            "callers",
            "function",
            "annotate",
            "event",
            "limit",
            "sort",
            "json",
            "export-flamegraph",
            "export-pprof",
        ],
    ),
    (
        "diff",
        &[
            "baseline",
            "variant",
            "function",
            "annotate",
            "limit",
            "match",
            "ops",
            "format",
            "json",
            "full-names",
            "allow",
        ],
    ),
    (
        "gate",
        &[
            "base", "tip", "worktree", "baseline", "update", "case", "soft", "format", "notes",
            "json",
        ],
    ),
    ("series", &["case", "format", "json"]),
    (
        "bisect",
        &[
            "good",
            "bad",
            "case",
            "metric",
            "function",
            "options",
            "build",
            "kernel-config",
            "checkout",
            "jobs",
            "format",
            "json",
        ],
    ),
    ("show", &["format", "json", "export-csv", "export-flamegraph", "fail-on", "sort", "variant"]),
];

const COMPARED: &[&str] = &[
    "workload",
    "variant",
    "machine",
    "kernel",
    "boot",
    "primary",
    "event",
    "pairs",
    "budget",
    "warmup",
    "prepare",
    "cpu",
    "input",
    "profile",
    "in-process",
    "ops",
    "pack-used",
    "json",
    "export-html",
    "fail-on",
];

/// Words for flags whose help does not begin with what they do.
const WORDS: [(&str, &str); 9] = [
    ("boot", "Options for the kernel's command line"),
    ("budget", "Stop when this much time is spent"),
    ("build", "How a revision is built"),
    ("duration", "Stop sampling after this time"),
    ("in-process", "Make all runs of a block in one process"),
    ("jobs", "Points that are built and counted at once"),
    ("ops", "Operations, read from a command's output"),
    ("pack-used", "Pack what a command opens here"),
    ("soft", "End with status 0 whatever was found"),
];

/// The most columns of a line; clap's own pages are as wide.
const COLUMNS_MAX: usize = 100;

/// A help text that is cut off before a clause has as many columns, or three fifths of the room; else it ends in an ellipsis.
const GIST_COLUMNS_MIN: usize = 24;

/// Words before which a help text may end.
const CLAUSES: [&str; 12] = [
    ", ",
    " that ",
    " for ",
    " in ",
    " as ",
    " before ",
    " outside ",
    " whose ",
    " although ",
    " of ",
    " what ",
    " from ",
];

/// The beginning of a help text, up to its first limit or reason, within `columns`.
fn gist(help: &str, columns: usize) -> String {
    let line = help.lines().next().unwrap_or_default();
    let ends = [": ", "; ", ". ", " (", " ["];
    let end = ends.iter().filter_map(|end| line.find(end)).min().unwrap_or(line.len());
    let gist = &line[..end];
    if gist.chars().count() <= columns {
        return gist.to_string();
    }
    let clauses = CLAUSES.iter().flat_map(|clause| gist.match_indices(clause));
    let fits = clauses.map(|(at, _)| at).filter(|at| gist[..*at].chars().count() <= columns);
    let mut short = gist[..fits.max().unwrap_or(0)].trim_end_matches(',');
    for word in [" and", " or", " from"] {
        short = short.trim_end_matches(word).trim_end_matches(',');
    }
    if short.chars().count() >= (columns * 3 / 5).min(GIST_COLUMNS_MIN) {
        return short.to_string();
    }
    let ends = gist.match_indices(' ').map(|(at, _)| at);
    let end = ends.filter(|at| gist[..*at].chars().count() < columns).max();
    format!("{}…", &gist[..end.unwrap_or(0)])
}

/// Words on lines of at most `columns`, the second line and all behind it indented.
fn folded(words: &str, columns: usize, indent: &str) -> String {
    let mut page = String::new();
    let mut line = String::new();
    for word in words.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > columns {
            page += &format!("{}\n", line.trim_end());
            line = indent.to_string();
        } else if !line.trim().is_empty() || word.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    format!("{page}{line}\n")
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// The first screen of opcost.
pub fn of_all(command: &Command, columns: usize) -> String {
    let columns = columns.min(COLUMNS_MAX);
    let mut page = format!("{}\n", gist(&about(command), columns));
    let usage = "Usage: opcost COMMAND …, or opcost 'PROGRAM …' 'PROGRAM …' to compare";
    page += &folded(usage, columns, "       ");
    for (title, shown, further) in GROUPS {
        page += &format!("{title}\n");
        for name in shown {
            let of = command.find_subcommand(name).map(about).unwrap_or_default();
            page += &format!("  {name:<9}{}\n", gist(&of, columns - 11));
        }
        if !further.is_empty() {
            page += &folded(&format!("  also: {}", further.join(", ")), columns, "        ");
        }
    }
    let more = "opcost COMMAND -h: its first screen; --help: everything; opcost man: the manual";
    page + &folded(more, columns, "  ")
}

fn flag(arg: &Arg) -> String {
    let short = arg.get_short().map_or("    ".into(), |short| format!("-{short}, "));
    let value = arg.get_value_names().filter(|_| arg.get_action().takes_values());
    let value =
        value.and_then(|names| names.first()).map_or(String::new(), |name| format!(" {name}"));
    format!("  {short}--{}{value}", arg.get_long().unwrap_or_default())
}

/// The first screen of a command with many flags; `None` for other commands.
pub fn of_command(command: &Command, name: &str, columns: usize) -> Option<String> {
    let columns = columns.min(COLUMNS_MAX);
    let (_, flags) = FLAGS.iter().find(|(command, _)| *command == name)?;
    let of = command.find_subcommand(name)?;
    let operand =
        of.get_positionals().next().and_then(|arg| arg.get_value_names()?.first().cloned());
    let operand = operand.map_or(String::new(), |name| format!(" {name} …"));
    let mut page =
        format!("{}\nUsage: opcost {name} [OPTION …]{operand}\n", gist(&about(of), columns));
    for long in *flags {
        let Some(arg) = of.get_arguments().find(|arg| arg.get_long() == Some(long)) else {
            continue;
        };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let left = flag(arg);
        let left = format!("{left:<30}");
        let words = WORDS.iter().find(|(known, _)| known == long).map(|(_, words)| *words);
        let words = gist(words.unwrap_or(&help), columns - left.chars().count() - 1);
        page += &format!("{left} {words}\n");
    }
    Some(page + &format!("opcost {name} --help: all options, with examples\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    /// The widths that are tried, and the most lines at each.
    const SIZES: [(usize, usize); 3] = [(60, 28), (80, 24), (200, 24)];

    fn fits(page: &str, (columns, lines): (usize, usize)) {
        assert!(page.lines().count() <= lines, "{} lines:\n{page}", page.lines().count());
        for line in page.lines() {
            assert!(line.chars().count() <= columns, "{} columns: {line}", line.chars().count());
            assert!(!line.ends_with(' '), "'{line}'");
        }
    }

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let mut named: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, shown, further)| shown.iter().chain(*further).copied())
            .collect();
        named.sort_unstable();
        let mut visible: Vec<&str> = command
            .get_subcommands()
            .filter(|of| !of.is_hide_set() && of.get_name() != "help")
            .map(Command::get_name)
            .collect();
        visible.sort_unstable();
        named.retain(|name| *name != "top" || visible.contains(&"top"));
        assert_eq!(named, visible);
        let mut all = command.clone();
        all.build();
        assert!(all.get_subcommands().all(|of| is_command(of.get_name())));
        for size in SIZES {
            let page = of_all(&command, size.0);
            fits(&page, size);
            for name in &visible {
                assert!(page.contains(name), "{name} is missing from\n{page}");
            }
        }
    }

    #[test]
    fn first_screens_fit_and_name_flags_that_exist() {
        let mut command = Cli::command();
        command.build();
        for (name, flags) in FLAGS {
            let of = command.find_subcommand(name).unwrap();
            for long in flags {
                assert!(
                    of.get_arguments().any(|arg| arg.get_long() == Some(long)),
                    "{name} --{long}"
                );
            }
            assert!(flags.len() <= 20, "{name} shows {} flags", flags.len());
            for size in SIZES {
                let page = of_command(&command, name, size.0).unwrap();
                fits(&page, size);
                for line in page.lines().filter(|line| line.contains("--")) {
                    assert!(line.trim_end().chars().count() > 32, "{name}: no words for {line}");
                }
            }
        }
        assert_eq!(of_command(&command, "list", 80), None);
    }
}
