//! Pieces of a command that a shell would interpret, although no shell runs the command.

use super::WorkPlan;
use std::ffi::{OsStr, OsString};

/// The first piece of a directly executed command that a shell would interpret: `|`, `$HOME`, `*`. `None` if there is no such
/// piece, or a shell runs the command.
pub fn in_work(work: &WorkPlan) -> Option<&str> {
    match work {
        // The words of a command for a shell differ from the words of the line.
        WorkPlan::Command { argv, line, .. } if is_split(line, argv) => in_line(line),
        _ => None,
    }
}

/// Whether these words are the words of the line.
pub fn is_split(line: &str, argv: &[OsString]) -> bool {
    shlex::split(line).is_some_and(|words| argv.iter().eq(words.iter().map(OsStr::new)))
}

/// The end of an error about a command with such a piece.
pub fn hint(piece: &str) -> String {
    format!(
        "; no shell runs the command, so it gets {piece} as written: add --shell if one is to act on it"
    )
}

/// The first piece of a line that a shell would interpret: a variable set for the command (`LANG=C sort`), or a character. Quotes
/// have the meaning of a shell: within `'…'` nothing is interpreted, within `"…"` only `$` and backquotes. The script of a command
/// like `sh -c "$(…)"` is left out: the shell that the command names acts on it.
pub fn in_line(line: &str) -> Option<&str> {
    if let Some(setting) = line.split_whitespace().next().filter(|word| sets_variable(word)) {
        return Some(setting);
    }
    let script = script_of_a_shell(line);
    let (mut quote, mut escaped, mut begins) = (None, false, true);
    let mut words = 0;
    for (at, char) in line.char_indices() {
        let rest = &line[at..];
        let between = quote.is_none() && !escaped && char.is_whitespace();
        let word_begins = std::mem::replace(&mut begins, between) && !between;
        words += usize::from(word_begins);
        let in_script = script.is_some_and(|script| words == script + 1);
        match (quote, char) {
            _ if escaped => escaped = false,
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => escaped = true,
            (Some(_), '$' | '`') | (None, '$' | '`' | '|' | '&' | ';' | '<' | '>' | '*' | '~')
                if in_script => {}
            (_, '`') => return Some(&rest[..1]),
            (_, '$') => {
                if let Some(end) = variable_end(rest) {
                    return Some(&rest[..end]);
                }
            }
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(char),
            (None, '|' | '&' | ';' | '<' | '>' | '*') => {
                let doubled = rest[1..].starts_with(char) && char != '*';
                return Some(&rest[..if doubled { 2 } else { 1 }]);
            }
            (None, '~') if word_begins => {
                return rest[1..].starts_with('/').then_some("~/").or(Some("~"));
            }
            (None, '#') if word_begins => return Some("#"),
            (None, _) => {}
        }
    }
    None
}

/// The programs that act on the script behind their option `-c`.
const SHELLS: [&str; 10] =
    ["ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "mksh", "sh", "zsh"];

/// The place among a line's words of the script that a shell named in the line acts on: `sh -ec SCRIPT`, `nice bash -c SCRIPT`.
fn script_of_a_shell(line: &str) -> Option<usize> {
    let words = shlex::split(line)?;
    let name = |word: &str| word.rsplit('/').next().is_some_and(|name| SHELLS.contains(&name));
    let shell = words.iter().position(|word| name(word))?;
    let is_c =
        |word: &String| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    let option = words.iter().skip(shell).position(is_c)? + shell;
    // Options alone stand between the two; the first word of busybox is the shell's name.
    let is_option = |word: &String| word.starts_with('-') || name(word);
    words[shell + 1..option].iter().all(is_option).then_some(option + 1)
}

/// Words that a shell acts on by itself, so that no program has their name.
const BUILT_IN: [&str; 34] = [
    ".", ":", "[[", "alias", "bg", "builtin", "case", "cd", "command", "declare", "eval", "exec",
    "exit", "export", "fg", "for", "function", "hash", "if", "jobs", "let", "local", "popd",
    "pushd", "read", "set", "shopt", "source", "time", "trap", "ulimit", "unset", "wait", "while",
];

/// The end of an error about a command whose program was not found, if the command is one for a shell.
pub fn hint_in_line(line: &str) -> Option<String> {
    let first = line.split_whitespace().next().unwrap_or_default();
    match in_line(line) {
        Some(piece) => Some(hint(piece)),
        None => BUILT_IN.contains(&first).then(|| {
            format!("; {first} is built into shells, and no shell runs the command: add --shell")
        }),
    }
}

/// Whether a shell interprets the first word of a line as the setting of a variable.
fn sets_variable(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
    })
}

/// The end of a variable that begins with `$`, or of the opening bracket of a substitution.
fn variable_end(text: &str) -> Option<usize> {
    let name =
        text[1..].chars().take_while(|char| char.is_ascii_alphanumeric() || *char == '_').count();
    match text[1..].chars().next()? {
        '(' | '{' => Some(2),
        _ if name > 0 => Some(1 + name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_in_command_advises_a_shell() {
        assert!(hint_in_line("cd /").unwrap().contains("cd is built into shells"));
        assert!(hint_in_line("ulimit -n 5 && x").unwrap().contains("&&"));
        assert_eq!(hint_in_line("cdx /"), None);
    }

    #[test]
    fn what_a_shell_would_act_on_is_found_outside_quotes() {
        for (line, piece) in [
            ("cat a | wc", Some("|")),
            ("make && ./a", Some("&&")),
            ("sort >out", Some(">")),
            ("ls *.c", Some("*")),
            ("echo $HOME/x", Some("$HOME")),
            ("echo \"${A}\"", Some("${")),
            ("echo \"`date`\"", Some("`")),
            ("cat ~/x", Some("~/")),
            ("a; b", Some(";")),
            ("awk '{print $1 | x}' file", None),
            ("grep 'a*' \"b|c\" d\\*", None),
            ("find . -name x -exec rm {} \\;", None),
            ("echo 5$ a~b http://x/?y=1#z", None),
            ("perl -e '$x'", None),
            ("LANG=C sort -n", Some("LANG=C")),
            ("./a=b env LANG=C sort 1=2", None),
            ("sh -c \"ls /none $(date) `date` $HOME\"", None),
            ("nice /bin/bash --norc -ec \"echo  a $(date)\" $x", Some("$x")),
            ("sh -c \"a $x\" | wc", Some("|")),
            ("busybox sh -c echo\\ $HOME", None),
            ("sh ./script -c \"$x\"", Some("$x")),
            ("sh \"$x\"", Some("$x")),
        ] {
            assert_eq!(in_line(line), piece, "{line}");
        }
    }
}
