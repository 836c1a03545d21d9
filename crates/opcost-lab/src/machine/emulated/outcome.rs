//! Turns the traces of a run on an emulated machine into a record, or into the cause of the run's
//! failure.

use crate::machine::RunEnd;
use crate::machine::printed::Printed;
use opcost_base::time::time_in_words;
use opcost_model::plan::IgnoredStatuses;
use opcost_model::recording::GuestState;
use opcost_record::channel::{self, ChannelError, Frame, FrameKind, GuestExit};
use opcost_record::emulation::{Emulation, RegionCost};
use opcost_record::message::{Fault, MessageError};
use opcost_record::metric::EMULATOR;
use opcost_record::{Failure, MetricKey, Outcome, Profile, Reading, Report, WORK};
use opcost_sys::file_size;
use opcost_sys::spawn::{EndedBy, Exit, Status};

/// The most lines of a console or an error output in an error.
const LINES_SHOWN: usize = 8;

/// QEMU's exit status if a guest ends it by writing 0 to `isa-debug-exit`.
const DEBUG_EXIT: i32 = 1;

/// The traces of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traces<'a> {
    /// The end of QEMU.
    pub(super) exit: &'a Exit,
    /// The limit of the run, milliseconds.
    pub(super) limit_ms: Option<u64>,
    /// Standard error of QEMU and the plugin; under user-mode emulation, also of the program.
    pub(super) stderr: &'a str,
    /// The guest's console; empty without a guest.
    pub(super) console: &'a str,
    /// The plugin's report; `None` if there is no such file.
    pub(super) plugin: Option<&'a [u8]>,
    /// The modules' addresses at the time of asking the kernel for its symbols; `None` if it loads
    /// no modules.
    pub(super) modules: Option<&'a str>,
}

/// The guest's console, in words.
pub(super) const CONSOLE: &str = "the guest's console";

/// A failure with its cause and the last lines of the most informative output.
fn failed(cause: impl std::fmt::Display, said_by: &str, said: &str) -> Failure {
    Failure::Work { detail: with_last_lines(cause, said_by, said) }
}

/// A cause with the last lines of the most informative output.
pub(super) fn with_last_lines(cause: impl std::fmt::Display, said_by: &str, said: &str) -> String {
    let lines: Vec<&str> =
        said.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
    let said = match last {
        [] if said_by == CONSOLE => format!(
            "; {said_by} said nothing: a kernel without the serial port's driver does not (CONFIG_SERIAL_8250_CONSOLE, \
             on arm64 CONFIG_SERIAL_AMBA_PL011_CONSOLE)"
        ),
        [] => format!("; {said_by} said nothing"),
        last => format!("; the last lines of {said_by}:\n  {}", last.join("\n  ")),
    };
    format!("{cause}{said}")
}

/// The frames that a guest sent, with or without the plugin.
///
/// # Errors
/// The guest failed; the error has the cause.
pub(super) fn guest_frames(traces: &Traces<'_>, channel: &[u8]) -> Result<Vec<Frame>, Failure> {
    let console = CONSOLE;
    if traces.exit.ended_by == EndedBy::Timeout {
        let limit_ms = traces.limit_ms.unwrap_or_default();
        let cause =
            format!("the guest did not end within {} and was stopped", time_in_words(limit_ms));
        return Err(failed(cause, console, traces.console));
    }
    match traces.exit.status {
        Status::Code(0 | DEBUG_EXIT) if traces.stderr.trim().is_empty() => {}
        Status::Code(0) => {}
        Status::Code(code) => {
            return Err(failed(
                format!("the emulator ended with status {code}"),
                "the emulator",
                traces.stderr,
            ));
        }
        Status::Signal(file_size::SIGNAL) => {
            return Err(failed(
                "the emulator's files grew past the limit that opcost sets for them (memory and disk \
                 of the guest and 1 GiB), or past the limit of the shell (ulimit -f): the guest's \
                 console, or what it sent, had no end",
                "the emulator",
                traces.stderr,
            ));
        }
        Status::Signal(signal) => {
            return Err(failed(
                format!("signal {signal} ended the emulator"),
                "the emulator",
                traces.stderr,
            ));
        }
    }
    let frames = channel::decode(channel);
    if let Some(panic) = panic(traces.console) {
        let cause = panic.split("Kernel panic").nth(1).map_or(panic, |rest| rest.trim());
        return Err(failed(
            format!("the guest's kernel panicked {cause}"),
            console,
            traces.console,
        ));
    }
    let frames = frames.map_err(|error| {
        let advice = match error {
            ChannelError::Empty => {
                "; is the image a Linux kernel with initramfs, ELF and, on arm64, PCI support?"
            }
            _ => "",
        };
        failed(format!("{error}{advice}"), console, traces.console)
    })?;
    if let Some(error) = frames.iter().find(|frame| frame.kind == FrameKind::Error) {
        let notes: Vec<String> = of_kind(&frames, FrameKind::Note).map(Frame::text).collect();
        let notes = if notes.is_empty() {
            String::new()
        } else {
            format!(" ({})", notes.join("; ").trim())
        };
        let text = error.text();
        return Err(Failure::Work { detail: format!("{}{notes}", text.trim_end()) });
    }
    Ok(frames)
}

/// The line of a console that reports a kernel panic.
fn panic(console: &str) -> Option<&str> {
    console.lines().find(|line| line.contains("Kernel panic - not syncing"))
}

/// Whether the machine or its kernel ended before the guest had sent everything.
pub(super) fn guest_died(traces: &Traces<'_>, channel: &[u8]) -> bool {
    let ended = matches!(traces.exit.status, Status::Code(0 | DEBUG_EXIT));
    let whole = ended && panic(traces.console).is_none() && channel::decode(channel).is_ok();
    traces.exit.ended_by == EndedBy::Itself && !whole
}

fn of_kind(frames: &[Frame], kind: FrameKind) -> impl Iterator<Item = &Frame> {
    frames.iter().filter(move |frame| frame.kind == kind)
}

/// The text of the first frame of a kind.
pub(super) fn text_of(frames: &[Frame], kind: FrameKind) -> Option<String> {
    of_kind(frames, kind).next().map(Frame::text)
}

/// The machine as a guest describes it; `None` if its channel is incomplete.
pub(super) fn guest_state(channel: &[u8]) -> Option<GuestState> {
    let frames = channel::decode(channel).ok()?;
    let text = |kind| text_of(&frames, kind);
    Some(GuestState::read(
        text(FrameKind::Cpuinfo).as_deref(),
        text(FrameKind::Vulnerabilities).as_deref(),
        text(FrameKind::Clocksource),
        text(FrameKind::UnknownOptions),
        text(FrameKind::Detected).as_deref(),
    ))
}

/// How many of the kernel's alternatives were in place, by the plugin's report.
pub(super) fn patched(report: Option<&[u8]>) -> Option<u64> {
    Emulation::decode(report?).ok()?.patched
}

/// Checks that modules are at the addresses that belong to the symbols; otherwise functions would
/// get wrong names.
fn same_modules(asked: Option<&str>, found: Option<&str>) -> Result<(), Failure> {
    if asked == found {
        return Ok(());
    }
    let list = |text: Option<&str>| text.unwrap_or("none").trim().replace('\n', ", ");
    let (asked, found) = (list(asked), list(found));
    Err(Failure::Work {
        detail: format!(
            "the kernel's modules are not where they were when it was asked for its symbols: {found} \
             instead of {asked}; the same boot options for all, or a kernel with the disk built in, \
             help"
        ),
    })
}

/// The reason why there are no costs.
enum NoCosts {
    /// The plugin reports why it did not count.
    Refused(Failure),
    /// The plugin's report is missing, cut short or empty.
    Missing(Failure),
}

impl From<NoCosts> for Failure {
    fn from(none: NoCosts) -> Failure {
        match none {
            NoCosts::Refused(failure) | NoCosts::Missing(failure) => failure,
        }
    }
}

/// Parses the plugin's counts.
fn costs(traces: &Traces<'_>) -> Result<Emulation, NoCosts> {
    let parsed = match traces.plugin {
        Some(report) => Emulation::decode(report),
        None => Err(Emulation::missing()),
    };
    let emulation = parsed.map_err(|error| match error {
        // The plugin's own text has cause and advice.
        MessageError { fault: Fault::Reported(text), .. } => {
            NoCosts::Refused(Failure::Work { detail: text })
        }
        error => NoCosts::Missing(failed(error, "the emulator", traces.stderr)),
    })?;
    let has_work = |run: &Vec<RegionCost>| run.iter().any(|region| region.region == WORK);
    if emulation.runs.is_empty() || !emulation.runs.iter().all(has_work) {
        let cause = "nothing was counted: no marker of the work was seen";
        return Err(NoCosts::Missing(failed(cause, "the emulator", traces.stderr)));
    }
    Ok(emulation)
}

/// The runs of a booted guest; if one part fails, all runs fail for the same cause.
///
/// `channel`: the bytes that the guest sent; `ignored`: the statuses that count as
/// finished; `runs`: the number of runs that the work should make.
pub(super) fn of_guest(
    traces: &Traces<'_>,
    channel: &[u8],
    ignored: &IgnoredStatuses,
    runs: usize,
    started_unix_ns: u64,
) -> Vec<RunEnd> {
    let judged = guest_frames(traces, channel).and_then(|frames| {
        same_modules(traces.modules, text_of(&frames, FrameKind::Modules).as_deref())?;
        let exit = frames.iter().find_map(|frame| match frame.kind {
            FrameKind::Exit(exit) => Some(exit),
            _ => None,
        });
        let fail = |cause: String| failed(cause, CONSOLE, traces.console);
        let sent = of_kind(&frames, FrameKind::Report).next();
        let reports = match sent.map(|frame| Report::decode_all(&frame.body)) {
            Some((_, Some(error))) => return Err(fail(error.to_string())),
            Some((reports, None)) => reports,
            None if exit.is_none() => {
                let cause = "the guest did neither report nor say how its program ended";
                return Err(fail(cause.into()));
            }
            // A command sends no report, and makes exactly one run.
            None => vec![Report::default(); usize::from(runs == 1)],
        };
        let (outcome, code) = match exit {
            Some(GuestExit::Code(code)) if !ignored.finishes(code) => {
                (Outcome::Failed(Failure::ExitStatus { code, stderr: None }), Some(code))
            }
            Some(GuestExit::Signal(signal)) => {
                (Outcome::Failed(Failure::Signal { signal, stderr: None }), None)
            }
            Some(GuestExit::Code(code)) => (Outcome::Finished, Some(code)),
            None => (Outcome::Finished, Some(0)),
        };
        if outcome == Outcome::Finished && reports.len() != runs {
            return Err(fail(format!("the guest reported {} of {runs} runs", reports.len())));
        }
        Ok((outcome, code, reports))
    });
    let none = |outcome, code| vec![without_figures(outcome, code, started_unix_ns); runs];
    match judged {
        Ok((Outcome::Finished, code, reports)) => match costs_of(traces, runs) {
            Ok(costs) => {
                let both = costs.into_iter().zip(reports);
                both.map(|(run, report)| counted(run, code, report, started_unix_ns)).collect()
            }
            Err(failure) => none(Outcome::Failed(failure), code),
        },
        Ok((outcome, code, _)) => none(outcome, code),
        Err(failure) => none(Outcome::Failed(failure), None),
    }
}

/// The plugin's counts for `runs` runs.
fn costs_of(traces: &Traces<'_>, runs: usize) -> Result<Vec<Vec<RegionCost>>, Failure> {
    let costs = costs(traces)?.runs;
    if costs.len() != runs {
        let cause = format!("the emulator counted {} of {runs} runs", costs.len());
        return Err(failed(cause, "the emulator", traces.stderr));
    }
    Ok(costs)
}

/// A run of one program under user-mode emulation, and the files whose code it mapped.
pub(super) fn of_program(
    traces: &Traces<'_>,
    ignored: &IgnoredStatuses,
    started_unix_ns: u64,
) -> (RunEnd, Vec<String>) {
    let failed_run = |failure, code| {
        (without_figures(Outcome::Failed(failure), code, started_unix_ns), Vec::new())
    };
    if traces.exit.ended_by == EndedBy::Timeout {
        let limit_ms = traces.limit_ms.unwrap_or_default();
        return failed_run(Failure::Timeout { limit_ms, stderr: None }, None);
    }
    let counts = costs(traces);
    // A refusal of the plugin says more than the program's exit status.
    if let Err(NoCosts::Refused(failure)) = counts {
        return failed_run(failure, None);
    }
    match traces.exit.status {
        Status::Code(code) if !ignored.finishes(code) => {
            let failure = match traces.plugin {
                Some(_) => Failure::ExitStatus { code, stderr: None },
                // Without a report, the program did not even start.
                None => failed(
                    format!("the emulator ended with status {code} and counted nothing"),
                    "the emulator",
                    traces.stderr,
                ),
            };
            failed_run(failure, Some(code))
        }
        Status::Signal(signal) => failed_run(Failure::Signal { signal, stderr: None }, None),
        Status::Code(code) => match counts {
            Ok(Emulation { mut runs, mapped, .. }) if runs.len() == 1 => {
                let run = runs.pop().unwrap_or_default();
                (counted(run, Some(code), Report::default(), started_unix_ns), mapped)
            }
            Ok(Emulation { runs, .. }) => {
                let cause = format!("the emulator counted {} runs of one program", runs.len());
                failed_run(failed(cause, "the emulator", traces.stderr), Some(code))
            }
            Err(none) => failed_run(none.into(), Some(code)),
        },
    }
}

/// A run that finished, with the costs of its regions.
fn counted(
    regions: Vec<RegionCost>,
    exit_code: Option<i32>,
    mut report: Report,
    started_unix_ns: u64,
) -> RunEnd {
    let mut profile: Option<Profile> = None;
    for region in regions {
        for (name, domain, value) in region.counts {
            let key = MetricKey {
                name,
                domain,
                source: EMULATOR.to_string(),
                region: region.region.clone(),
            };
            report.readings.push(Reading::plain(key, value));
        }
        if region.region == WORK && !region.profile.contexts.is_empty() {
            profile = Some(region.profile);
        }
    }
    RunEnd { started_unix_ns, outcome: Outcome::Finished, exit_code, report, profile }
}

/// A failed run; partial counts are dropped.
fn without_figures(outcome: Outcome, exit_code: Option<i32>, started_unix_ns: u64) -> RunEnd {
    let report = Report::default();
    RunEnd { started_unix_ns, outcome, exit_code, report, profile: None }
}

/// The guest's notes, a line each.
pub(super) fn notes(channel: &[u8]) -> String {
    let Ok(frames) = channel::decode(channel) else { return String::new() };
    let notes = of_kind(&frames, FrameKind::Note).map(|frame| frame.text() + "\n");
    notes.collect()
}

/// The output of a command in a guest; empty unless the guest was asked to send it.
pub(super) fn printed(channel: &[u8]) -> Printed {
    let Ok(frames) = channel::decode(channel) else { return Printed::default() };
    let all = |kind| of_kind(&frames, kind).flat_map(|frame| frame.body.clone()).collect();
    Printed { stdout: all(FrameKind::Stdout), stderr: all(FrameKind::Stderr) }
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
