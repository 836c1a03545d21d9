//! `opcost selftest`: how often this machine raises a false alarm, and which changes it would find.
//!
//! Reports are made like any user's (a plan, runs in drawn order, a store, a comparison). By turns
//! they compare work with the same work, and with the same work and a known amount more, until the
//! time is up.

mod page;
mod subject;

use anyhow::{Context, Result};
use clap::Args;
use opcost_analysis::comparison;
use opcost_analysis::selftest::{Tallied, Tally};
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_base::failure;
use opcost_base::phases::Phases;
use opcost_base::scratch::Scratch;
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_command::seconds::seconds;
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::progress::Silent;
use opcost_lab::recording::{machine_for, make_runs};
use opcost_lab::resolve::{Surroundings, resolve};
use opcost_lab::run::Ending;
use opcost_model::experiment::{Experiment, Seed};
use opcost_model::plan::MachineKind;
use opcost_model::recording::Recording;
use opcost_page::writer::text::text;
use opcost_stats::Random;
use opcost_store::store::{Store, StoreError};
use opcost_sys::clock::{monotonic_ns, unix_ns};
use opcost_sys::interrupt::Interrupt;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;
pub(crate) use subject::PLANTED_PERCENT;
use subject::Subject;

pub(crate) const HELP: &str = "Exit status: 0 if nothing speaks against a false-alarm rate of at most 5 % \
a report (the interval of the rate, exact, at 95 % confidence, reaches down to 5 %) and, on the emulated \
machine, every planted change was found; else 3";

/// Arguments of `opcost selftest`.
#[derive(Args, Debug)]
pub struct SelftestArgs {
    /// A command to compare with itself, split like a shell does [default: a built-in workload,
    /// which can also be given a known change]
    pub command: Option<String>,

    /// Make reports for this many seconds, and at least one report of each kind [default: a minute, and on
    /// until there are enough reports to answer, ten minutes at most]
    #[arg(long, value_name = "N", value_parser = seconds)]
    pub seconds: Option<f64>,

    /// Seed of the orders of runs and of the work [default: drawn]
    #[arg(long, value_name = "N|random")]
    pub seed: Option<Seed>,

    /// Runs of each side in a report [default: 100; on the emulated machine, the fewest that can
    /// decide every metric]
    #[arg(long, short = 'n', visible_alias = "runs", value_name = "N")]
    pub pairs: Option<u32>,

    /// Add this much work to one side of every second report; may be repeated [default: 1 and 5, on
    /// the emulated machine 0.01]
    #[arg(long, value_name = "PERCENT", conflicts_with = "command", value_parser = planted)]
    pub plant: Vec<f64>,

    /// Pin every run to this CPU [default: not pinned]
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<usize>,

    /// Where the work runs [default: host]
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<MachineKind>,

    /// Print JSON on standard output; --json - is the same
    #[arg(long)]
    pub json: bool,
}

/// Reads a change that can be planted, in percent.
fn planted(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if PLANTED_PERCENT.contains(&percent) => Ok(percent),
        _ => Err("give percent of the work, 0.01 to 100".into()),
    }
}

/// The findings of a self-test, in the form of the JSON output.
#[derive(Debug, Serialize)]
struct Outcome {
    /// Version of this form.
    schema: u32,
    machine: MachineKind,
    /// The work of each side, in words.
    work: String,
    seed: u64,
    /// Runs of each side in a report.
    pairs: u32,
    /// The time that the self-test took.
    seconds: f64,
    #[serde(flatten)]
    tallied: Tallied,
}

/// The length of a self-test without `--seconds`, at least and at most.
const LENGTH_MIN: Duration = Duration::from_secs(60);
const LENGTH_MAX: Duration = Duration::from_secs(600);

/// Runs the self-test.
///
/// # Errors
/// The work or the machine fails, or a signal interrupts.
pub fn selftest(globals: &Globals, args: &SelftestArgs) -> Result<Status> {
    let seed = args.seed.and_then(Seed::number).unwrap_or_else(|| HostSurroundings.draw_seed());
    let subject = Subject::new(args);
    let interrupt = Interrupt::install()
        .context("cannot install the signal handler")
        .status(Status::Missing)?;
    let folder = Scratch::new()
        .context("cannot make a folder for the recordings")
        .status(Status::Missing)?;
    let (asked, begun_ns) = (args.seconds.map(Duration::from_secs_f64), monotonic_ns());
    let elapsed = || Duration::from_nanos(monotonic_ns() - begun_ns);
    let mut phases = Phases::still(globals.quiet);
    let mut tally = Tally::new(subject.must_find(), &subject.planted);
    let (mut pairs, mut work, mut longest) = (0, String::new(), Duration::ZERO);
    for (number, planted) in subject.turns().enumerate() {
        let answers_after = tally.answers_after(elapsed());
        let budget = asked.unwrap_or(answers_after.clamp(LENGTH_MIN, LENGTH_MAX));
        // Each kind of report is made once, however little time there is.
        let is_over = match asked {
            Some(budget) => elapsed() + longest > budget,
            None => elapsed() + longest > LENGTH_MIN && tally.needed().is_none(),
        };
        if number >= subject.round() && (is_over || elapsed() + longest > LENGTH_MAX.max(budget)) {
            break;
        }
        let done = format!(
            "{number} made, {:.0} of {:.0} s",
            elapsed().as_secs_f64(),
            budget.as_secs_f64()
        );
        phases.report("making reports", Some(&done));
        let report_begun = elapsed();
        let drawn = Random::new(seed).fork(number as u64).next_u64() >> 32;
        let experiment = subject.experiment(planted, drawn);
        let recording = record(&experiment, &folder.path().join("store"), &interrupt)?;
        tally.add(planted, &comparison::compare(&recording).0);
        if number == 0 {
            (pairs, work) = (recording.plan.pairs, recording.plan.variants[0].work.describe());
        }
        longest = longest.max(elapsed() - report_begun);
    }
    phases.end();
    let outcome = Outcome {
        schema: 1,
        machine: subject.machine,
        work,
        seed,
        pairs,
        seconds: elapsed().as_secs_f64(),
        tallied: tally.finish(),
    };
    let text = if args.json {
        opcost_base::json::document(&outcome, "the outcome")?
    } else {
        text(&page::document(&outcome), &globals.style())
    };
    print(&text)?;
    Ok(if outcome.tallied.passed { Status::Done } else { Status::NotComparable })
}

/// Makes the runs of one report, in the store of the self-test.
fn record(experiment: &Experiment, store: &Path, interrupt: &Interrupt) -> Result<Recording> {
    let plan = resolve(experiment, &HostSurroundings)?;
    let (mut machine, state) = machine_for(true, &plan, interrupt)?;
    let writer = Store::open_for_writing(store)
        .and_then(|store| store.begin(&plan, &state, unix_ns()))
        .map_err(StoreError::carried)?;
    let (ending, recording) =
        make_runs(&plan, &[], (machine.as_mut(), &state, interrupt), writer, &mut Silent)?;
    match ending {
        Ending::Complete | Ending::Stopped(_) => Ok(recording),
        Ending::Interrupted => {
            Err(fail(Status::Interrupted, "interrupted; nothing is kept of a self-test"))
        }
        Ending::InputChanged(changed) => Err(fail(Status::NotComparable, changed.in_words())),
        Ending::Failed { variant, failure, .. } => Err(fail(
            Status::WorkFailed,
            format!(
                "{}: {}",
                plan.variants[usize::from(variant)].work.describe(),
                failure::in_words(&failure)
            ),
        )),
    }
}
