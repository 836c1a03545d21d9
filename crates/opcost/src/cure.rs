//! The likeliest mistakes, answered with what was probably meant.

use crate::other_tools;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use opcost_base::exit::cause;
use opcost_record::nearest::{did_you_mean, nearest};
use opcost_sys::spawn::FindError;
use std::path::Path;

/// Commands whose operands are whole commands.
const TAKE_COMMANDS: [&str; 3] = ["compare", "measure", "profile"];

/// The words behind a command without its options and their values: without all of them if the command line was `taken`, else
/// without those in front of the other words.
fn bare<'a>(arguments: &[&'a str], taken: bool) -> Vec<&'a str> {
    let mut cli = crate::cli::Cli::command();
    cli.build();
    let command = arguments.get(1).and_then(|name| cli.find_subcommand(name));
    let with_value = |word: &str| {
        let is_it = |of: &&clap::Arg| {
            let long = word.strip_prefix("--").is_some_and(|name| of.get_long() == Some(name));
            long || of.get_short().is_some_and(|name| word == format!("-{name}"))
        };
        let option = command.and_then(|command| command.get_arguments().find(is_it));
        option.is_some_and(|option| option.get_action().takes_values())
    };
    let mut words = Vec::new();
    let mut behind = arguments.iter().skip(2).copied();
    while let Some(word) = behind.next() {
        if !word.starts_with('-') || !(taken || words.is_empty()) {
            words.push(word);
        } else if with_value(word) {
            behind.next();
        }
    }
    words
}

fn quoted(words: &[&str]) -> String {
    format!("'{}'", words.join(" "))
}

/// The commands that these words probably are: one begins wherever the first word comes again. A single command is not compared.
fn as_given<'a>(verb: &'a str, words: &[&str]) -> (&'a str, String) {
    let mut found: Vec<Vec<&str>> = Vec::new();
    for word in words {
        match found.last_mut() {
            Some(last) if *word != words[0] && !word.contains(' ') && !last[0].contains(' ') => {
                last.push(word)
            }
            _ => found.push(vec![word]),
        }
    }
    let verb = match (verb, found.len()) {
        ("profile", _) => verb,
        (_, 1) => "measure",
        _ => "compare",
    };
    (verb, found.iter().map(|words| quoted(words)).collect::<Vec<_>>().join(" "))
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
    // The parser takes benchstat's `-alpha` for letters, the first of which may be an option.
    let single = |word: &&&str| word.starts_with('-') && !word.starts_with("--") && word.len() > 2;
    let own = arguments.iter().skip(1).take_while(|word| **word != "--").filter(single);
    for name in own.map(|word| other_tools::name(word)) {
        if let Some(answer) = other_tools::answer(name) {
            return Some(format!("there is no {name}; {answer}"));
        }
    }
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let wrong = text(ContextKind::InvalidArg)?;
            if let Some(said) = of_negative(&wrong, arguments) {
                return Some(said);
            }
            let name = other_tools::name(&wrong);
            let is_near = error.get(ContextKind::SuggestedArg).is_some();
            let answer = other_tools::answer(name)
                .map(|answer| format!("there is no {name}; {answer}"))
                .or_else(|| of_other_commands(name, arguments).filter(|_| !is_near));
            let Some(command) = arguments.get(1).filter(|name| TAKE_COMMANDS.contains(name)) else {
                return answer;
            };
            let words = bare(arguments, false);
            let place = words.iter().skip(1).position(|word| word.starts_with(name));
            // A command in front of the flag that has a blank is quoted already.
            let is_of_command =
                place.is_some_and(|place| !words[..=place].iter().any(|word| word.contains(' ')));
            let quote = is_of_command.then(|| {
                let (verb, given) = as_given(command, &words);
                format!("if it belongs to a command, quote the command: opcost {verb} {given}")
            });
            match (answer, quote) {
                (Some(answer), Some(quote)) => Some(format!("{answer}; {quote}")),
                (None, Some(quote)) => {
                    Some(format!("{name} is no option of opcost {command}; {quote}"))
                }
                (answer, None) => answer,
            }
        }
        ErrorKind::InvalidSubcommand => {
            let wrong = text(ContextKind::InvalidSubcommand)?;
            let cli = crate::cli::Cli::command();
            let of = arguments.get(1).and_then(|name| cli.find_subcommand(name)).unwrap_or(&cli);
            let shown = of.get_subcommands().filter(|of| !of.is_hide_set());
            let names: Vec<&str> = shown.map(clap::Command::get_name).collect();
            if of.get_name() != cli.get_name() {
                let near = did_you_mean(&wrong, names.iter().copied());
                let (of, all) = (of.get_name(), names.join(", "));
                return Some(format!("opcost {of} has no command '{wrong}'{near}; it has {all}"));
            }
            if let [near, ..] = nearest(&wrong, names).as_slice() {
                return Some(format!("there is no command '{wrong}'; did you mean opcost {near}?"));
            }
            let (verb, given) = as_given("compare", &arguments[1..]);
            Some(format!(
                "there is no command '{wrong}'; to {verb} a program: opcost {verb} {given}"
            ))
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let (flag, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
            let is_number = error.to_string().contains("invalid digit found in string");
            let flag = flag.split(' ').next().unwrap_or_default().to_string();
            let name = if flag == "--pairs" { "; a name is --variant NAME=COMMAND" } else { "" };
            is_number.then(|| {
                format!("{flag} takes a whole number, for example {flag} 20, and '{value}' is none{name}")
            })
        }
        _ => None,
    }
}

/// The answer to a number below 0 behind an option, which the parser takes for an option.
fn of_negative(wrong: &str, arguments: &[&str]) -> Option<String> {
    let is_number = wrong.strip_prefix('-')?.starts_with(|first: char| first.is_ascii_digit());
    let place = arguments.iter().position(|word| *word == wrong)?;
    let option = arguments[place - 1];
    (is_number && option.starts_with('-') && !option.contains('='))
        .then(|| format!("{option} {wrong}: a number below 0 is no value of {option}"))
}

/// The answer to an option that this command lacks and other commands have.
fn of_other_commands(name: &str, arguments: &[&str]) -> Option<String> {
    let cli = crate::cli::Cli::command();
    let own = cli.find_subcommand(arguments.get(1)?)?.get_name();
    let long = name.strip_prefix("--")?;
    let has =
        |command: &&clap::Command| command.get_arguments().any(|of| of.get_long() == Some(long));
    let shown = cli.get_subcommands().filter(|of| !of.is_hide_set());
    let names: Vec<&str> = shown.filter(has).map(clap::Command::get_name).collect();
    if own == "profile" && names.contains(&"measure") {
        return Some(format!(
            "opcost profile samples programs on this computer and has no {name}; opcost measure {name} … --profile has it"
        ));
    }
    let (last, others) = names.split_last()?;
    let and = if others.is_empty() { "" } else { " and " };
    Some(format!("opcost {own} has no {name}; it is of opcost {}{and}{last}", others.join(", ")))
}

/// What may help against an error of the work, if a program was not found; `arguments` are the words of the command line.
pub fn of_error(error: &anyhow::Error, arguments: &[&str]) -> Option<String> {
    let command = arguments.get(1).filter(|name| TAKE_COMMANDS.contains(name))?;
    let Some(FindError::NotFound { name, path_env: Some(_) }) = cause(error) else { return None };
    let missing = name.to_str()?;
    if missing.ends_with(".toml") && Path::new(missing).exists() {
        return Some(format!("'{missing}' is an experiment's file: opcost run {missing}"));
    }
    let words = bare(arguments, true);
    let unquoted = words.len() > 1 && words.iter().all(|word| !word.contains(' '));
    unquoted.then(|| {
        let (verb, given) = as_given(command, &words);
        format!("if these words are one command or two, quote each: opcost {verb} {given}")
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
        let cures: [(&[&str], &str); 15] = [
            (&["measure", "gzip", "-9", "-c", "data"], "opcost measure 'gzip -9 -c data'"),
            (
                &["compare", "gzip", "-1", "f", "gzip", "-2", "f"],
                "opcost compare 'gzip -1 f' 'gzip -2 f'",
            ),
            (
                &["compare", "-n", "abc", "a", "b"],
                "--pairs takes a whole number, for example --pairs 20, and 'abc' is none",
            ),
            (&["compare", "--runs", "-5", "a", "b"], "--runs -5: a number below 0 is no value"),
            (&["profile", "--machine", "emulated", "a"], "opcost measure --machine … --profile"),
            (&["show", "--warmup", "3"], "opcost show has no --warmup; it is of opcost compare, "),
            (&["comapre", "a", "b"], "did you mean opcost compare?"),
            (&["kernel", "biuld"], "opcost kernel has no command 'biuld' (did you mean build?)"),
            (&["true a", "true b"], "opcost compare 'true a' 'true b'"),
            (&["compare", "--export-asciidoc", "x", "a", "b"], "--export-markdown"),
            (&["compare", "--repeat", "3", "a", "b"], "-n N"),
            (&["compare", "-n", "fast", "a", "b"], "a name is --variant NAME=COMMAND"),
            (
                &["compare", "gzip", "-r", "f"],
                "-n N, the runs of each variant; if it belongs to a command, quote",
            ),
            (
                &["measure", "sleep 1", "-r", "3"],
                "there is no -r; give -n N, the runs of each variant",
            ),
            (
                &["compare", "a", "b", "-alpha", "0.01"],
                "there is no -alpha; leave it out: one error rate",
            ),
        ];
        for (line, cure) in cures {
            let said = parse(line).unwrap_or_else(|| panic!("nothing for {line:?}"));
            assert!(said.contains(cure), "{line:?}: {said}");
        }
        // The parser names the nearest option.
        assert_eq!(parse(&["compare", "--fial-on", "x"]), None);
        assert_eq!(parse(&["measure", "--pairs", "3", "--formt", "json", "true"]), None);
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
        let words = ["opcost", "compare", "-q", "nothing", "x", "-n", "2", "--label=a"];
        let said = of_error(&missing("nothing"), &words).unwrap();
        assert!(said.ends_with("opcost measure 'nothing x'"), "{said}");
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
