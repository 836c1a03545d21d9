//! Where a program prints how many operations it did.

use opcost_record::printable::printable;
use regex::{Captures, Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The most lines of a program's output in an error.
const LINES_SHOWN: usize = 8;

/// The most characters of such a line.
const CHARS_SHOWN: usize = 120;

/// Below this number of operations, an operation that the end of the time cut off moves a figure by more than 0.1 %.
pub const OPERATIONS_MIN: u64 = 1000;

/// The characters that may stand between groups of three digits: `1,234`, `1_234`, `1'234`, and three kinds of spaces.
const SEPARATORS: [char; 6] = [',', '_', '\'', ' ', '\u{a0}', '\u{202f}'];

/// Letters that stand for thousands, millions and so on.
const MULTIPLES: [char; 5] = ['k', 'K', 'M', 'G', 'T'];

/// A regular expression that matches once in what a program prints, with one group: the number of its operations.
///
/// `^` and `$` match at the beginning and end of each line.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct OpsPattern(String);

impl OpsPattern {
    /// The expression as the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn compiled(text: &str) -> Result<Regex, String> {
        let built = RegexBuilder::new(text).multi_line(true).build();
        // The library's message has several lines; the last one says what is wrong.
        built.map_err(|error| {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.strip_prefix("error: ").unwrap_or(last).to_string()
        })
    }

    /// Reads the number of operations.
    ///
    /// `printed`: the texts of standard output and standard error, of which one has the match.
    ///
    /// # Errors
    /// There is not exactly one match, or its group is no whole number above 0; the error shows the first lines of the output.
    pub fn read(&self, printed: [&str; 2]) -> Result<u64, String> {
        let regex = OpsPattern::compiled(&self.0)?;
        let matches: Vec<Captures<'_>> =
            printed.iter().flat_map(|text| regex.captures_iter(text)).collect();
        let wrong = |why: String| format!("--ops '{}' {why}{}", printable(&self.0), shown(printed));
        let [captures] = &matches[..] else {
            let whole = |at: usize| matches.get(at).map(|found| quoted(&found[0]));
            return Err(wrong(match whole(0).zip(whole(1)) {
                None => "matches nothing that the program printed".into(),
                Some((first, second)) => format!(
                    "matches {} times: {first}, {second}{}; write more of the line that has the number",
                    matches.len(),
                    if matches.len() > 2 { ", …" } else { "" },
                ),
            }));
        };
        let Some(group) = captures.get(1) else {
            return Err(wrong(format!("matches {} without its group", quoted(&captures[0]))));
        };
        // Only one of the texts has the match, and a match is shorter than its text.
        let text = printed.into_iter().find(|text| regex.is_match(text)).unwrap_or_default();
        let (before, after) = (&text[..group.start()], &text[group.end()..]);
        number(group.as_str(), before, after).map_err(wrong)
    }
}

impl FromStr for OpsPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<OpsPattern, String> {
        let text = text.to_string();
        let regex = OpsPattern::compiled(&text)
            .map_err(|why| format!("'{}' is no regular expression: {why}", printable(&text)))?;
        match regex.captures_len() - 1 {
            1 => Ok(OpsPattern(text)),
            0 => Err(format!(
                "'{}' has no group: put the number in parentheses, for example 'total: ([0-9]+)'",
                printable(&text)
            )),
            groups => Err(format!(
                "'{}' has {groups} groups: keep the one around the number, and write (?:…) for the others",
                printable(&text)
            )),
        }
    }
}

impl fmt::Display for OpsPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads a whole number above 0, with or without separators of thousands.
///
/// `before`, `after`: the text on both sides, which must not go on with the number.
fn number(text: &str, before: &str, after: &str) -> Result<u64, String> {
    let text = text.trim();
    if let Some(whole) = cut_out(text, before, after) {
        return Err(format!(
            "takes {} out of {}; widen its group, for example to ([0-9,]+), or choose a whole number",
            quoted(text),
            quoted(&whole)
        ));
    }
    // Some programs print a count as 1234.00.
    let whole = match text.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.chars().all(|char| char == '0') => whole,
        _ => text,
    };
    let parts: Vec<&str> = whole.split(SEPARATORS).collect();
    let digits = |part: &&str| !part.is_empty() && part.chars().all(|char| char.is_ascii_digit());
    let grouped =
        parts.len() == 1 || (parts[0].len() <= 3 && parts[1..].iter().all(|part| part.len() == 3));
    if !grouped || !parts.iter().all(digits) {
        let starts_with_digit = text.starts_with(|char: char| char.is_ascii_digit());
        let why = match text.chars().last() {
            Some(last) if starts_with_digit && MULTIPLES.contains(&last) => {
                ", which is rounded; have the program print the whole number"
            }
            _ if starts_with_digit && text.contains(['.', 'e', 'E']) => {
                ", which is no whole number: take the count of the operations, not their rate"
            }
            _ => ", which is no number",
        };
        return Err(format!("finds {}{why}", quoted(text)));
    }
    match parts.concat().parse() {
        Ok(0) => Err("finds 0 operations, by which nothing can be divided".into()),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("finds {}, which is too large", quoted(text))),
    }
}

/// The number of which a group took only a part; `None` if it took the whole.
fn cut_out(text: &str, before: &str, after: &str) -> Option<String> {
    let is_part = |char: &char| char.is_ascii_digit() || [',', '.', '_', '\''].contains(char);
    let head: String = before.chars().rev().take_while(is_part).collect();
    let head: String = head.chars().rev().collect();
    let mut tail: String = after.chars().take_while(is_part).collect();
    // A point or comma behind a number ends a sentence.
    tail.truncate(tail.trim_end_matches(['.', ',', '_', '\'']).len());
    if tail.len() == after.chars().take_while(is_part).count() {
        tail.extend(after[tail.len()..].chars().next().filter(|char| MULTIPLES.contains(char)));
    }
    let head = head.trim_start_matches(['.', ',', '_', '\'']);
    let is_cut = |part: &str| part.chars().any(|char| char.is_alphanumeric());
    (is_cut(head) || is_cut(&tail)).then(|| format!("{head}{text}{tail}"))
}

fn quoted(text: &str) -> String {
    let start: String = text.trim().chars().take(CHARS_SHOWN).collect();
    format!("'{}'", printable(&start))
}

/// The first lines of what a program printed, for an error.
fn shown(printed: [&str; 2]) -> String {
    let lines: Vec<&str> = printed
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| !line.trim().is_empty())
        .collect();
    let first: Vec<String> = lines
        .iter()
        .take(LINES_SHOWN)
        .map(|line| printable(&line.chars().take(CHARS_SHOWN).collect::<String>()))
        .collect();
    match lines.len() {
        0 => "; it printed nothing".into(),
        count if count > LINES_SHOWN => {
            format!("; the first {LINES_SHOWN} of its {count} lines:\n  {}", first.join("\n  "))
        }
        _ => format!("; it printed:\n  {}", first.join("\n  ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pattern: &str, stdout: &str) -> Result<u64, String> {
        pattern.parse::<OpsPattern>().unwrap().read([stdout, ""])
    }

    #[test]
    fn real_programs_are_read() {
        let sysbench = "CPU speed:\n    events per second:   361.74\n\nGeneral statistics:\n    \
                        total time:                          1.0012s\n    \
                        total number of events:              364\n";
        assert_eq!(read(r"total number of events:\s+(\d+)", sysbench), Ok(364));
        let stress = "stress-ng: info:  [7] dispatching hogs: 1 get\nstress-ng: metrc: [7] stressor       \
                      bogo ops real time\nstress-ng: metrc: [7] get             20736      1.00      0.12\n";
        let pattern: OpsPattern = r"metrc: \[\d+\] get\s+(\d+)".parse().unwrap();
        assert_eq!(pattern.read(["", stress]), Ok(20_736));
        assert_eq!(read(r"^(\d+)$", "begin\n123400\nend\n"), Ok(123_400));
        let filebench = "IO Summary: 1,234,567 ops, 41152.1 ops/s";
        assert_eq!(read(r"Summary: ([\d,]+) ops", filebench), Ok(1_234_567));
        assert_eq!(read(r"n = (\S+)", "n = 5000.00\n"), Ok(5000));
    }

    #[test]
    fn what_is_no_count_is_named() {
        let check = |pattern: &str, output: &str, expected: &str| {
            let error = read(pattern, output).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(r"ops: (\d+)", "", "matches nothing that the program printed; it printed nothing");
        check(r"ops: (\d+)", "a\x1b[m\nb\n", "; it printed:\n  a\\u{1b}[m\n  b");
        check(r"(\d+)", "1\n2\n3\n", "matches 3 times: '1', '2', …; write more of the line");
        check(r"ops(?: (\d+))?", "ops", "matches 'ops' without its group");
        check(r"(\w+) ops", "many ops", "finds 'many', which is no number");
        check(r"(\S+) ops", "12k ops", "finds '12k', which is rounded");
        check(r"(\S+) ops", "1.5 ops", "finds '1.5', which is no whole number");
        check(r"(\S+) ops", "1e6 ops", "finds '1e6', which is no whole number");
        check(r"(\S+) ops", "0 ops", "finds 0 operations");
        check(r"(\S+) ops", "12,34 ops", "finds '12,34', which is no number");
        check(r"(\S+) ops", "99999999999999999999 ops", "too large");
        let many = "line\n".repeat(20);
        check("x(1)", &many, "; the first 8 of its 20 lines:\n  line");
    }

    #[test]
    fn a_part_of_a_number_is_refused() {
        let check = |pattern: &str, output: &str, expected: &str| {
            let error = read(pattern, output).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(r"total: (\d+)", "total: 1,234,567", "takes '1' out of '1,234,567'");
        check(r"total: (\d+)", "total: 12.5", "takes '12' out of '12.5'");
        check(r"total: (\d+)", "total: 12M", "takes '12' out of '12M'");
        check(r"\.(\d+) ops", "12.5 ops", "takes '5' out of '12.5'");
        assert_eq!(read(r"did (\d+)", "did 500."), Ok(500));
        assert_eq!(read(r"did (\d+)", "did 500, and more"), Ok(500));
        assert_eq!(read(r"min:1 max:(\d+)", "min:1 max:22 total:33"), Ok(22));
    }

    #[test]
    fn an_expression_has_one_group() {
        let refused = |text: &str| text.parse::<OpsPattern>().unwrap_err();
        assert!(refused("(").contains("'(' is no regular expression: unclosed group"));
        assert!(refused("total").contains("has no group"));
        assert!(refused("(a)(b)").contains("has 2 groups"));
        assert!("(?:a|b)(?P<ops>\\d+)".parse::<OpsPattern>().is_ok());
    }

    proptest! {
        #[test]
        fn every_number_is_read_whole(number in 1u64.., before in "[a-z ]{0,5}", after in "[a-j ]{0,5}\n?") {
            let output = format!("{before}{number}{after}");
            prop_assert_eq!(read(r"(\d+)", &output), Ok(number));
        }

        #[test]
        fn no_output_makes_it_panic(stdout in "\\PC*", stderr in "(?s).*") {
            let pattern: OpsPattern = r"(\S+)".parse().unwrap();
            let _ = pattern.read([&stdout, &stderr]);
        }
    }
}
