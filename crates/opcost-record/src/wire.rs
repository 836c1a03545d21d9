//! The text that a measured program sends about one run: over a pipe on the host, over a channel
//! of its own from the guest.
//!
//! ```text
//! opcost-record 1
//! ops 1000000
//! reading wall all clock work 281934411
//! reading instructions kernel perf_event work 1957153827 1314782469 1314782469
//! invariant op-stream-hash 8c5e1d0a44f2b7c9
//! end 3
//! ```
//!
//! One item a line, fields separated by one space; a reading's last two fields are the enabled and
//! running times in nanoseconds, where the source has them. The last line counts the lines between
//! the first and itself, so that a text cut short is never taken for a whole one. A failing program
//! sends `error TEXT` in place of its items.

use crate::{CountingTime, Domain, Invariant, MetricKey, Reading, Report};
use std::fmt::Write as _;

/// First line of the format's current version.
pub const HEADER: &str = "opcost-record 1";

/// Why a text is not a report.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum WireError {
    /// Nothing came.
    #[error("the program sent no report; it ended before its work was done")]
    Empty,
    /// The first line is not this version's.
    #[error(
        "the report starts with '{0}', expected '{HEADER}': program and opcost are of different versions"
    )]
    Version(String),
    /// A line has the wrong form.
    #[error("line {line} of the report: {what}: '{text}'")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
        /// The line.
        text: String,
    },
    /// The last line is missing or counts other than what came.
    #[error("the report was cut short after {lines} lines; the program died while reporting")]
    CutShort {
        /// Lines that came after the first.
        lines: usize,
    },
    /// The program reported its own failure.
    #[error("{0}")]
    Reported(String),
}

/// Writes a report as text.
///
/// Names and values must hold no white space; [`parse`] would refuse them.
pub fn format(report: &Report) -> String {
    let mut text = format!("{HEADER}\n");
    let mut lines = 0;
    if let Some(ops) = report.ops {
        let _ = writeln!(text, "ops {ops}");
        lines += 1;
    }
    for Reading { key, value, time } in &report.readings {
        let domain = key.domain.word();
        let _ = write!(text, "reading {} {domain} {} {} {value}", key.name, key.source, key.region);
        if let Some(time) = time {
            let _ = write!(text, " {} {}", time.enabled_ns, time.running_ns);
        }
        text.push('\n');
        lines += 1;
    }
    for Invariant { name, value } in &report.invariants {
        let _ = writeln!(text, "invariant {name} {value}");
        lines += 1;
    }
    let _ = writeln!(text, "end {lines}");
    text
}

/// Writes a failure as text; line breaks in the message become spaces.
pub fn format_error(message: &str) -> String {
    format!("{HEADER}\nerror {}\nend 1\n", message.replace('\n', " "))
}

/// Reads the text of one report.
///
/// # Errors
/// [`WireError`] names the first thing that is wrong; a partial report is never returned.
pub fn parse(text: &str) -> Result<Report, WireError> {
    let mut lines = text.lines().enumerate();
    match lines.next() {
        None => return Err(WireError::Empty),
        Some((_, HEADER)) => {}
        Some((_, other)) => return Err(WireError::Version(other.chars().take(80).collect())),
    }
    let mut report = Report::default();
    for (index, text) in lines {
        let fail = |what| WireError::Line {
            line: index + 1,
            what,
            text: text.chars().take(200).collect(),
        };
        let number = |field: &str| -> Result<u64, WireError> {
            field.parse().map_err(|_| fail("not a number"))
        };
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let fields: Vec<&str> = rest.split(' ').collect();
        match (word, fields.as_slice()) {
            ("ops", [ops]) => report.ops = Some(number(ops)?),
            ("reading", [name, domain, source, region, value, time @ ..]) => {
                let time = match time {
                    [] => None,
                    [enabled, running] => Some(CountingTime {
                        enabled_ns: number(enabled)?,
                        running_ns: number(running)?,
                    }),
                    _ => return Err(fail("a reading has five or seven fields")),
                };
                report.readings.push(Reading {
                    key: MetricKey {
                        name: name.to_string(),
                        domain: Domain::from_word(domain).ok_or_else(|| fail("unknown domain"))?,
                        source: source.to_string(),
                        region: region.to_string(),
                    },
                    value: number(value)?,
                    time,
                });
            }
            ("invariant", [name, value]) => report
                .invariants
                .push(Invariant { name: name.to_string(), value: value.to_string() }),
            ("error", _) => return Err(WireError::Reported(rest.to_string())),
            ("end", [count]) => {
                let whole = number(count)? == (index - 1) as u64;
                return if whole {
                    Ok(report)
                } else {
                    Err(WireError::CutShort { lines: index - 1 })
                };
            }
            _ => return Err(fail("unknown item or wrong number of fields")),
        }
    }
    Err(WireError::CutShort { lines: text.lines().count() - 1 })
}

/// Reads the texts of several reports, one after the other, from a program that makes several runs.
///
/// Result: the reports that are whole, and what is wrong with the text behind them; `None` where
/// there is none.
pub fn parse_several(text: &str) -> (Vec<Report>, Option<WireError>) {
    let (mut reports, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        match parse(rest) {
            Ok(report) => reports.push(report),
            Err(error) => return (reports, Some(error)),
        }
        let mut lines = rest.split_inclusive('\n');
        let bytes = lines.by_ref().take_while(|line| !line.starts_with("end ")).map(str::len);
        let items: usize = bytes.sum();
        // `parse` found the last line.
        let last = rest[items..].find('\n').map_or(rest.len(), |at| items + at + 1);
        rest = &rest[last..];
    }
    (reports, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn word() -> impl Strategy<Value = String> {
        "[A-Za-z0-9_,/=:.-]{1,20}"
    }

    fn report() -> impl Strategy<Value = Report> {
        let reading =
            (word(), 0..3usize, word(), word(), any::<u64>(), any::<Option<(u64, u64)>>())
                .prop_map(|(name, domain, source, region, value, time)| Reading {
                    key: MetricKey { name, domain: Domain::NAMES[domain].0, source, region },
                    value,
                    time: time
                        .map(|(enabled_ns, running_ns)| CountingTime { enabled_ns, running_ns }),
                });
        let invariant = (word(), word()).prop_map(|(name, value)| Invariant { name, value });
        (
            any::<Option<u64>>(),
            prop::collection::vec(reading, 0..8),
            prop::collection::vec(invariant, 0..8),
        )
            .prop_map(|(ops, readings, invariants)| Report { ops, readings, invariants })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(report in report()) {
            prop_assert_eq!(parse(&format(&report)).unwrap(), report);
        }

        #[test]
        fn a_text_cut_anywhere_is_refused(report in report(), cut in any::<prop::sample::Index>()) {
            let text = format(&report);
            // The final line break carries no information.
            let end = cut.index(text.len() - 1);
            if let Ok(read) = parse(&text[..end]) {
                panic!("{} of {} bytes were taken for a report: {read:?}", end, text.len());
            }
        }

        #[test]
        fn several_reports_are_read_as_far_as_they_are_whole(
            reports in prop::collection::vec(report(), 0..4), cut in any::<prop::sample::Index>()
        ) {
            let texts: Vec<String> = reports.iter().map(format).collect();
            let text = texts.concat();
            prop_assert_eq!(parse_several(&text), (reports.clone(), None));
            let failed = text.clone() + &format_error("no room");
            let error = Some(WireError::Reported("no room".into()));
            prop_assert_eq!(parse_several(&failed), (reports.clone(), error));
            let end = if text.is_empty() { 0 } else { cut.index(text.len()) };
            let (read, error) = parse_several(&text[..end]);
            prop_assert_eq!(&read[..], &reports[..read.len()]);
            let whole: usize = texts[..read.len()].iter().map(String::len).sum();
            // The final line break carries no information.
            prop_assert_eq!(error.is_none(), whole == end || whole == end + 1);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}", lines in prop::collection::vec("(ops|reading|invariant|end|error) [a-z0-9 ]{0,30}", 0..6)) {
            let _ = parse_several(&text);
            let _ = parse(&format!("{HEADER}\n{}", lines.join("\n")));
        }
    }

    #[test]
    fn errors_name_the_line() {
        let error = parse("opcost-record 1\nreading wall all clock work x\nend 1\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2 of the report: not a number: 'reading wall all clock work x'"
        );
        assert_eq!(parse("").unwrap_err(), WireError::Empty);
        assert!(matches!(parse("hello"), Err(WireError::Version(_))));
        assert_eq!(
            parse(&format_error("no arena\nhere")).unwrap_err(),
            WireError::Reported("no arena here".into())
        );
    }
}
