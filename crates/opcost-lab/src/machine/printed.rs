//! The output of a command in one run.

use super::RunEnd;
use opcost_model::plan::OpsPattern;
use opcost_record::channel::OUTPUT_BYTES_MAX;
use opcost_record::printable::printable;
use opcost_record::{Failure, Outcome};
use std::io::{self, Write};

/// The bytes that a command printed, up to [`OUTPUT_BYTES_MAX`] of each stream.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Printed {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl Printed {
    /// Prints it.
    pub(super) fn show(&self) {
        // It is no error of opcost if the reader has gone away.
        let _ = io::stdout().write_all(&self.stdout);
        let _ = io::stderr().write_all(&self.stderr);
    }

    /// Puts the last lines of standard error into a run that failed.
    pub(super) fn explain(&self, end: &mut RunEnd) {
        if let Outcome::Failed(failure) = &mut end.outcome
            && let Some(stderr) = failure.stderr_mut()
        {
            *stderr = Some(last_lines(&self.stderr));
        }
    }

    /// Puts the number of operations into a run that finished; the run fails if the number cannot be read.
    pub(super) fn count(&self, pattern: &OpsPattern, end: &mut RunEnd) {
        if end.outcome != Outcome::Finished {
            return;
        }
        match self.operations(pattern) {
            Ok(operations) => end.report.ops = Some(operations),
            Err(detail) => {
                end.outcome = Outcome::Failed(Failure::Operations { detail });
                end.report = Default::default();
                end.profile = None;
            }
        }
    }

    fn operations(&self, pattern: &OpsPattern) -> Result<u64, String> {
        let streams = [&self.stdout, &self.stderr];
        // Whether the expression matches once, only the whole output can tell.
        if streams.iter().any(|bytes| bytes.len() as u64 >= OUTPUT_BYTES_MAX) {
            return Err(format!(
                "the program printed {} MiB or more, where opcost reads less for --ops; have it print less, or \
                 send the rest elsewhere",
                OUTPUT_BYTES_MAX >> 20
            ));
        }
        let [stdout, stderr] = streams.map(|bytes| String::from_utf8_lossy(bytes));
        pattern.read([&stdout, &stderr])
    }
}

/// The last lines of a text, each without what would move or paint a terminal.
fn last_lines(bytes: &[u8]) -> String {
    const LINES_MAX: usize = 10;
    const CHARACTERS_MAX: usize = 200;
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LINES_MAX)..].iter();
    let shown = last.map(|line| match line.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => printable(&line[..end]) + "…",
        None => printable(line),
    });
    shown.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::Report;

    fn counted(stdout: &[u8], outcome: Outcome) -> RunEnd {
        let printed = Printed { stdout: stdout.into(), stderr: b"\xff done\n".into() };
        let report = Report::default();
        let mut end =
            RunEnd { started_unix_ns: 0, outcome, exit_code: Some(0), report, profile: None };
        printed.count(&"did (\\d+)".parse().unwrap(), &mut end);
        end
    }

    #[test]
    fn a_run_has_the_operations_that_it_printed() {
        assert_eq!(counted(b"did 70 \xff\n", Outcome::Finished).report.ops, Some(70));
        let failed = Outcome::Failed(Failure::ExitStatus { code: 1, stderr: None });
        let end = counted(b"", failed.clone());
        assert_eq!(end.outcome, failed, "why the program failed is more important");
    }

    #[test]
    fn a_run_that_failed_has_its_last_lines() {
        let failure = Failure::Signal { signal: 9, stderr: None };
        let mut end = RunEnd {
            started_unix_ns: 0,
            outcome: Outcome::Failed(failure),
            exit_code: None,
            report: Report::default(),
            profile: None,
        };
        let lines: String = (0..20).map(|line| format!("line {line}\n\n")).collect();
        let stderr = format!("{lines}\x1b[2J\r\n{}\n", "é".repeat(300)).into_bytes();
        Printed { stderr, ..Printed::default() }.explain(&mut end);
        let Outcome::Failed(failure) = &end.outcome else { panic!("{end:?}") };
        let told: Vec<&str> = failure.stderr().unwrap().lines().collect();
        assert_eq!((told.len(), told[0], told[8]), (10, "line 12", "\\u{1b}[2J"));
        assert_eq!(told[9], "é".repeat(200) + "…");
        end.outcome = Outcome::Finished;
        Printed::default().explain(&mut end);
        assert_eq!(end.outcome, Outcome::Finished);
    }

    #[test]
    fn without_its_operations_a_run_has_failed() {
        let why = |stdout: &[u8]| match counted(stdout, Outcome::Finished).outcome {
            Outcome::Failed(Failure::Operations { detail }) => detail,
            other => panic!("{other:?}"),
        };
        assert!(why(b"").contains("it printed:\n  \u{fffd} done"));
        assert!(why(&vec![b' '; OUTPUT_BYTES_MAX as usize]).contains("printed 1 MiB or more"));
    }
}
