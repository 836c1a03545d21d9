//! Pieces of a command that a shell would act on, where no shell runs it.

use super::WorkPlan;
use std::ffi::{OsStr, OsString};

/// The first piece of a command that is run directly and that a shell would act on: `|`, `$HOME`, `*`;
/// `None` for a command that has none, or that a shell runs.
pub fn in_work(work: &WorkPlan) -> Option<&str> {
    match work {
        // Through a shell the words are others than those of the line.
        WorkPlan::Command { argv, line, .. } if is_split(line, argv) => in_line(line),
        _ => None,
    }
}

/// Whether these words are those of a line.
pub(crate) fn is_split(line: &str, argv: &[OsString]) -> bool {
    shlex::split(line).is_some_and(|words| argv.iter().eq(words.iter().map(OsStr::new)))
}

/// What an error about a command with such a piece ends with.
pub fn hint(piece: &str) -> String {
    format!(
        "; no shell runs the command, so it gets {piece} as written: add --shell if one is to act on it"
    )
}

/// The first piece of a line that a shell would act on: a variable that is set for the command
/// (`LANG=C sort`), or a character. Quotes are those of a shell: within `'…'`
/// nothing is acted on, within `"…"` only `$` and backquotes.
pub fn in_line(line: &str) -> Option<&str> {
    if let Some(setting) = line.split_whitespace().next().filter(|word| sets_variable(word)) {
        return Some(setting);
    }
    let (mut quote, mut escaped, mut begins) = (None, false, true);
    for (at, char) in line.char_indices() {
        let rest = &line[at..];
        let word_begins = std::mem::replace(&mut begins, char.is_whitespace());
        match (quote, char) {
            _ if escaped => escaped = false,
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => escaped = true,
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

/// Whether a shell takes the first word of a line for a variable and its value.
fn sets_variable(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
    })
}

/// Where a variable or a substitution that begins with `$` ends, at the latest behind its bracket.
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
        ] {
            assert_eq!(in_line(line), piece, "{line}");
        }
    }
}
