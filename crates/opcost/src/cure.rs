//! The likeliest mistakes, answered with what was probably meant.

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use opcost_base::exit::cause;
use opcost_record::nearest::nearest;
use opcost_sys::spawn::FindError;
use std::path::Path;

/// Flags of other tools that opcost lacks, and what does the same.
const OTHER_TOOLS: [(&str, &str); 12] = [
    ("--export-asciidoc", "--export-markdown FILE, which pandoc converts"),
    ("--export-orgmode", "--export-markdown FILE, which pandoc converts"),
    ("--style", "--no-color; a bar is shown on a terminal only"),
    ("--color", "--no-color"),
    ("--time-unit", "nothing: each row has the unit that fits it; CSV and JSON are in ns and s"),
    ("--command-name", "--variant NAME=COMMAND"),
    ("--reference", "the first command, or --pairs-of-variants all"),
    ("--reference-name", "--variant NAME=COMMAND"),
    ("--repeat", "-n N"),
    ("--field-separator", "--export-csv FILE"),
    ("--no-aggr", "--cpu N, for one CPU"),
    ("--delta-test", "nothing: opcost compare tests every metric by itself"),
];

/// Commands of shells that are no programs.
const BUILT_IN: [&str; 12] = [
    "alias", "cd", "command", "eval", "exec", "export", "read", "set", "source", "ulimit", "unset",
    "wait",
];

/// Commands whose operands are whole commands.
const TAKE_COMMANDS: [&str; 3] = ["compare", "measure", "profile"];

/// The words behind a command that are no options, up to the first option that follows them.
fn bare<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let behind = arguments.iter().skip(2).skip_while(|word| word.starts_with('-'));
    behind.copied().collect()
}

fn quoted(words: &[&str]) -> String {
    format!("'{}'", words.join(" "))
}

/// The commands that these words probably are: one begins wherever the first word comes again.
fn commands(words: &[&str]) -> String {
    let mut found: Vec<Vec<&str>> = Vec::new();
    for word in words {
        match found.last_mut() {
            Some(last) if *word != words[0] => last.push(word),
            _ => found.push(vec![word]),
        }
    }
    found.iter().map(|words| quoted(words)).collect::<Vec<_>>().join(" ")
}

/// What to do instead of arguments that the command line does not take.
///
/// `error`: the parser's error; `arguments`: all words of the command line, the program first. The result is a message, or `None` if
/// the parser's own says it.
pub fn of_arguments(error: &clap::Error, arguments: &[&str]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let wrong = text(ContextKind::InvalidArg)?;
            let name = wrong.split(['=', ' ']).next().unwrap_or_default();
            if let Some((_, cure)) = OTHER_TOOLS.iter().find(|(flag, _)| *flag == name) {
                return Some(format!("there is no {name}; opcost has {cure}"));
            }
            let command = arguments.get(1).filter(|name| TAKE_COMMANDS.contains(name))?;
            let words = bare(arguments);
            let is_behind = words.iter().skip(1).any(|word| word.starts_with(name));
            is_behind.then(|| {
                format!("{name} is no option of opcost {command}; if it belongs to a command, quote the command: opcost {command} {}", commands(&words))
            })
        }
        ErrorKind::InvalidSubcommand => {
            let wrong = text(ContextKind::InvalidSubcommand)?;
            let cli = crate::cli::Cli::command();
            let names =
                cli.get_subcommands().filter(|of| !of.is_hide_set()).map(clap::Command::get_name);
            if let [near, ..] = nearest(&wrong, names).as_slice() {
                return Some(format!("there is no command '{wrong}'; did you mean opcost {near}?"));
            }
            let given = commands(&arguments[1..]);
            let verb = if arguments.len() > 2 { "compare" } else { "measure" };
            Some(format!(
                "there is no command '{wrong}'; to {verb} a program: opcost {verb} {given}"
            ))
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let (flag, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
            let is_number = error.to_string().contains("invalid digit found in string");
            let flag = flag.split(' ').next().unwrap_or_default().to_string();
            is_number.then(|| {
                format!("{flag} takes a whole number, for example {flag} 20, and '{value}' is none")
            })
        }
        _ => None,
    }
}

/// What may help against an error of the work, if a program was not found; `arguments` are the words of the command line.
pub fn of_error(error: &anyhow::Error, arguments: &[&str]) -> Option<String> {
    let command = arguments.get(1).filter(|name| TAKE_COMMANDS.contains(name))?;
    let Some(FindError::NotFound { name, path_env: Some(_) }) = cause(error) else { return None };
    let missing = name.to_str()?;
    if missing.ends_with(".toml") && Path::new(missing).exists() {
        return Some(format!("'{missing}' is an experiment's file: opcost run {missing}"));
    }
    if BUILT_IN.contains(&missing) {
        return Some(format!("'{missing}' is built into the shell: give --shell=/bin/sh"));
    }
    let words: Vec<&str> = bare(arguments);
    let unquoted = words.len() > 1 && words.iter().all(|word| !word.contains(' '));
    unquoted.then(|| {
        format!(
            "if these words are one command or two, quote each: opcost {command} {}",
            commands(&words)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn parse(line: &[&str]) -> Option<String> {
        let words: Vec<&str> = [&["opcost"], line].concat();
        let error = crate::cli::Cli::try_parse_from(&words).unwrap_err();
        of_arguments(&error, &words)
    }

    #[test]
    fn likely_mistakes_are_answered_with_the_cure() {
        let cures: [(&[&str], &str); 7] = [
            (&["measure", "gzip", "-9", "-c", "data"], "opcost measure 'gzip -9 -c data'"),
            (
                &["compare", "gzip", "-1", "f", "gzip", "-2", "f"],
                "opcost compare 'gzip -1 f' 'gzip -2 f'",
            ),
            (
                &["compare", "-n", "abc", "a", "b"],
                "--pairs takes a whole number, for example --pairs 20, and 'abc' is none",
            ),
            (&["comapre", "a", "b"], "did you mean opcost compare?"),
            (&["true a", "true b"], "opcost compare 'true a true b'"),
            (&["compare", "--export-asciidoc", "x", "a", "b"], "--export-markdown"),
            (&["compare", "--repeat", "3", "a", "b"], "-n N"),
        ];
        for (line, cure) in cures {
            let said = parse(line).unwrap_or_else(|| panic!("nothing for {line:?}"));
            assert!(said.contains(cure), "{line:?}: {said}");
        }
        assert_eq!(parse(&["compare", "--fial-on", "x"]), None);
    }

    #[test]
    fn a_program_that_is_not_there_may_be_something_else() {
        let missing = |name: &str| {
            let path_env = Some("/bin".into());
            anyhow::Error::new(FindError::NotFound { name: name.into(), path_env })
                .context("variant 2")
        };
        let words = ["opcost", "compare", "sleep", "0.01", "sleep", "0.02"];
        let said = of_error(&missing("0.01"), &words).unwrap();
        assert!(said.ends_with("opcost compare 'sleep 0.01' 'sleep 0.02'"), "{said}");
        let said = of_error(&missing("cd"), &["opcost", "compare", "cd /", "pwd"]).unwrap();
        assert!(said.contains("--shell=/bin/sh"), "{said}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.toml");
        std::fs::write(&file, "").unwrap();
        let file = file.to_str().unwrap();
        let said = of_error(&missing(file), &["opcost", "compare", file]).unwrap();
        assert!(said.ends_with(&format!("opcost run {file}")), "{said}");
        assert_eq!(
            of_error(&missing("nothing"), &["opcost", "compare", "nothing -x", "b c"]),
            None
        );
        assert_eq!(of_error(&anyhow::anyhow!("the disk is full"), &words), None);
    }
}
