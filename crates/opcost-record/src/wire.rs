//! The text in which a measured program reports one run: over a pipe on the host, over a channel of
//! its own from the guest.
//!
//! ```text
//! opcost-record 1
//! ops 1000000
//! reading wall all clock work 281934411
//! reading instructions kernel perf_event work 1957153827 1314782469 1314782469
//! invariant op-stream-hash 8c5e1d0a44f2b7c9
//! end 4
//! ```
//!
//! [`framing`](crate::framing) describes the frame. Fields are separated by one space; a reading's
//! last two fields are the enabled and running times in nanoseconds, if the source has them.

use crate::framing::{Format, TextError, number, words};
use crate::{CountingTime, Domain, Invariant, MetricKey, Reading, Report};

/// The format.
pub static FORMAT: Format = Format {
    header: "opcost-record 1",
    name: "the report",
    peer: "program",
    empty: "the program sent no report; it ended before its work was done",
    cut_short: "; the program died while reporting",
    counted: true,
};

/// Writes a report as text.
///
/// Names and values must hold no white space; [`parse`] would refuse them.
pub fn format(report: &Report) -> String {
    let mut lines: Vec<String> = report.ops.iter().map(|ops| format!("ops {ops}")).collect();
    lines.extend(report.readings.iter().map(|Reading { key, value, time }| {
        let domain = key.domain.word();
        let times = time.map(|time| format!(" {} {}", time.enabled_ns, time.running_ns));
        let times = times.unwrap_or_default();
        format!("reading {} {domain} {} {} {value}{times}", key.name, key.source, key.region)
    }));
    let invariants = report.invariants.iter();
    lines.extend(invariants.map(|Invariant { name, value }| format!("invariant {name} {value}")));
    FORMAT.write(&lines)
}

/// Writes a failure as text; line breaks in the message become spaces.
pub fn format_error(message: &str) -> String {
    FORMAT.write_error(message)
}

/// Reads the text of one report.
///
/// # Errors
/// [`TextError`] names the first fault; a partial report is never returned.
pub fn parse(text: &str) -> Result<Report, TextError> {
    parse_first(text).map(|(report, _)| report)
}

/// Reads the reports of a program that makes several runs, one after the other.
///
/// Returns the whole reports, and the fault of the text behind them, if there is any.
pub fn parse_several(text: &str) -> (Vec<Report>, Option<TextError>) {
    let (mut reports, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        match parse_first(rest) {
            Ok((report, behind)) => {
                reports.push(report);
                rest = behind;
            }
            Err(error) => return (reports, Some(error)),
        }
    }
    (reports, None)
}

/// Reads a report, and returns it with the text behind it.
fn parse_first(text: &str) -> Result<(Report, &str), TextError> {
    let mut report = Report::default();
    let rest = FORMAT.read(text, |line| read_item(&mut report, line))?;
    Ok((report, rest))
}

fn read_item(report: &mut Report, line: &str) -> Result<(), &'static str> {
    let (word, rest) = words(line);
    let fields: Vec<&str> = rest.split(' ').collect();
    match (word, fields.as_slice()) {
        ("ops", [ops]) => report.ops = Some(number(ops)?),
        ("reading", [name, domain, source, region, value, time @ ..]) => {
            let time = match time {
                [] => None,
                [enabled, running] => {
                    let (enabled_ns, running_ns) = (number(enabled)?, number(running)?);
                    Some(CountingTime { enabled_ns, running_ns })
                }
                _ => return Err("a reading has five or seven fields"),
            };
            let key = MetricKey {
                name: name.to_string(),
                domain: Domain::from_word(domain).ok_or("unknown domain")?,
                source: source.to_string(),
                region: region.to_string(),
            };
            report.readings.push(Reading { key, value: number(value)?, time });
        }
        ("invariant", [name, value]) => {
            report.invariants.push(Invariant { name: name.to_string(), value: value.to_string() })
        }
        _ => return Err("unknown item or wrong number of fields"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Fault;
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
            let error = Some(FORMAT.error(Fault::Reported("no room".into())));
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
            let _ = parse(&format!("{}\n{}", FORMAT.header, lines.join("\n")));
        }
    }

    #[test]
    fn the_text_is_the_one_documented() {
        let reading = |name: &str, domain, source: &str, value, time: Option<(u64, u64)>| Reading {
            key: MetricKey {
                name: name.into(),
                domain,
                source: source.into(),
                region: "work".into(),
            },
            value,
            time: time.map(|(enabled_ns, running_ns)| CountingTime { enabled_ns, running_ns }),
        };
        let times = Some((1_314_782_469, 1_314_782_469));
        let report = Report {
            ops: Some(1_000_000),
            readings: vec![
                reading("wall", Domain::All, "clock", 281_934_411, None),
                reading("instructions", Domain::Kernel, "perf_event", 1_957_153_827, times),
            ],
            invariants: vec![Invariant {
                name: "op-stream-hash".into(),
                value: "8c5e1d0a44f2b7c9".into(),
            }],
        };
        let text = "opcost-record 1\nops 1000000\nreading wall all clock work 281934411\n\
                    reading instructions kernel perf_event work 1957153827 1314782469 1314782469\n\
                    invariant op-stream-hash 8c5e1d0a44f2b7c9\nend 4\n";
        assert_eq!(format(&report), text);
        assert_eq!(parse(text).unwrap(), report);
    }

    #[test]
    fn errors_name_the_line() {
        let error = parse("opcost-record 1\nreading wall all clock work x\nend 1\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2 of the report: not a number: 'reading wall all clock work x'"
        );
        let fault = |text: &str| parse(text).unwrap_err().fault;
        assert_eq!(fault(""), Fault::Empty);
        assert_eq!(fault("hello"), Fault::Version("hello".into()));
        let failed = format_error("no arena\nhere");
        assert_eq!(failed, "opcost-record 1\nerror no arena here\nend 1\n");
        assert_eq!(fault(&failed), Fault::Reported("no arena here".into()));
    }
}
