//! `opcost doctor --validate`: compares modelled cycles with this CPU's cycles.
//!
//! opcost-gauge times its kernels here, in several processes. Then the same program executes the same kernels
//! under emulation, each in a region of its own, and the modelled core gives the cycles of each.

mod page;

use super::gauge;
use anyhow::{Context, Result};
use opcost_base::exit::{HasStatus, Status, WithStatus, fail, status_of};
use opcost_base::failure;
use opcost_base::phases::Phases;
use opcost_base::scratch::Scratch;
use opcost_base::time::date;
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_core_model::{Cycles, confidence};
use opcost_lab::machine::emulated::{Emulator, Tools, default_kernel};
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::progress::Silent;
use opcost_lab::recording::{machine_for, make_runs};
use opcost_lab::resolve::resolve;
use opcost_lab::run::Ending;
use opcost_model::experiment::{Command, Experiment, Variant};
use opcost_model::plan::guest::NO_KERNEL;
use opcost_model::plan::{CorePlan, MachineKind};
use opcost_model::recording::Recording;
use opcost_model::validation::kept::{self, Kept};
use opcost_model::validation::truth::Truth;
use opcost_model::validation::{Case, Report, report};
use opcost_page::writer::text::text;
use opcost_record::Architecture;
use opcost_record::gauge::{GaugeReport, KernelName};
use opcost_record::metric::{CYCLE_PARTS, CYCLES_FAR, EMULATOR};
use opcost_record::{Domain, MetricKey, Outcome};
use opcost_store::store::{Store, StoreError};
use opcost_sys::clock::{monotonic_ns, unix_ns};
use opcost_sys::interrupt::Interrupt;
use serde::Serialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Processes that time the kernels. Each process places its memory differently.
const PROCESSES: usize = 5;

/// A kernel is left out if more than one in this many of its instructions belonged to a tick of the guest.
const INTERRUPTED_SHARE: u64 = 100;

/// The findings of a validation, in the form of the JSON output.
#[derive(Debug, Serialize)]
struct Found {
    /// Version of this form.
    schema: u32,
    /// The modelled core.
    core: String,
    /// How the core was named: a core that ships, or a file.
    given: String,
    fingerprint: String,
    /// This CPU, in words.
    cpu: String,
    /// The clock that counted this CPU's cycles.
    clock: &'static str,
    /// Kernels that were not judged, by reason.
    left_out: LeftOut,
    report: Report,
    /// The file where the result is kept for later estimates.
    kept: Option<PathBuf>,
    /// Whether the user chose some kernels, so that nothing is kept.
    chosen: bool,
    /// The time that the validation took.
    seconds: f64,
}

/// Kernels that were not judged.
#[derive(Debug, Default, Serialize)]
struct LeftOut {
    /// Kernels with too few quiet samples.
    noisy: usize,
    /// Kernels with instructions that this CPU lacks.
    not_here: usize,
    /// Kernels with instructions that the emulated CPU lacks, or with a tick of the guest.
    not_emulated: usize,
}

/// Validates a core.
///
/// `core`: a file or a name; `None`: the default core. `only`: text in the names of the kernels to
/// run; `None`: all kernels.
///
/// # Errors
/// The machine is too loaded, a tool is missing, or a signal interrupts.
pub(super) fn validate(
    globals: &Globals,
    core: Option<&str>,
    only: Option<&str>,
    json: bool,
) -> Result<Status> {
    let begun_ns = monotonic_ns();
    let interrupt = Interrupt::install().context("cannot catch signals").status(Status::Missing)?;
    let program = gauge::find()?;
    // Before anything is measured, find an emulator, of programs or of a machine.
    let architecture = Architecture::default();
    if Tools::find(Emulator::User, architecture).is_err() {
        Tools::find(Emulator::System, architecture).map_err(HasStatus::carried)?;
        default_kernel().map_err(HasStatus::carried)?;
    }
    // Before anything is measured, refuse a core that cannot be read.
    let chosen: Vec<&str> = only.into_iter().flat_map(|text| ["--only", text]).collect();
    let plan = resolve(&experiment(&program, core, &chosen, true), &HostSurroundings)?;
    let mut phases = Phases::still(globals.quiet);
    let mut reports = Vec::new();
    for process in 0..PROCESSES {
        phases
            .report("timing kernels on this CPU", Some(&format!("{} of {PROCESSES}", process + 1)));
        reports.push(gauge::run(&program, "time", &chosen, &interrupt)?);
    }
    let truth = Truth::of(&reports).map_err(|loaded| fail(Status::Missing, loaded))?;
    phases.report("running the kernels under emulation (a minute)", None);
    let recording = record(&plan, &interrupt).or_else(|error| {
        // In Debian 13, the QEMU for programs has no plugins, but the QEMU for machines has.
        if status_of(&error) != Some(Status::Missing) {
            return Err(error);
        }
        record(
            &resolve(&experiment(&program, core, &chosen, false), &HostSurroundings)?,
            &interrupt,
        )
    });
    phases.end();
    let recording = recording?;
    let Some(core) = plan.emulation().and_then(|emulation| emulation.core.clone()) else {
        return Err(fail(
            Status::Missing,
            "the plan has no modelled core; this is a fault of opcost",
        ));
    };
    let (cases, not_emulated) = cases(&truth, &recording);
    let Some(report) = report(&cases) else {
        return Err(fail(Status::Missing, "no kernel ran both on this CPU and under emulation"));
    };
    let first = &reports[0];
    let mut outcome = Found {
        schema: 1,
        core: core.name.clone(),
        given: core.given.clone(),
        fingerprint: core.fingerprint.clone(),
        cpu: first.cpu.to_string(),
        clock: first.clock.word(),
        left_out: LeftOut {
            noisy: truth.noisy.len(),
            not_here: truth.left_out.len(),
            not_emulated,
        },
        report,
        kept: None,
        chosen: only.is_some(),
        seconds: 0.0,
    };
    if only.is_none() {
        outcome.kept = keep(&outcome, &core, first)?;
    }
    outcome.seconds = (monotonic_ns() - begun_ns) as f64 / 1e9;
    let text = if json {
        opcost_base::json::document(&outcome, "the outcome")?
    } else {
        text(&page::document(&outcome), &globals.style())
    };
    print(&text)?;
    Ok(Status::Done)
}

/// The experiment that runs the marked kernels on the modelled core.
///
/// `chosen`: options that choose kernels; `alone`: whether to run without an operating system,
/// whose ticks fall into regions, instead of in a guest.
fn experiment(program: &Path, core: Option<&str>, chosen: &[&str], alone: bool) -> Experiment {
    let mut words: Vec<OsString> = vec![program.into(), "mark".into()];
    words.extend(chosen.iter().map(OsString::from));
    Experiment {
        name: Some("validation".into()),
        machine: Some(MachineKind::Emulated),
        kernel: alone.then(|| NO_KERNEL.into()).into_iter().collect(),
        pack_only: !alone,
        pairs: Some(1),
        regions: true,
        cycles: true,
        core: core.map(str::to_string),
        variants: vec![Variant {
            name: Some("kernels".into()),
            command: Some(Command::of_words(&words)),
            ..Variant::default()
        }],
        ..Experiment::default()
    }
}

/// Makes the only run, in a store of its own.
fn record(plan: &opcost_model::plan::Plan, interrupt: &Interrupt) -> Result<Recording> {
    let folder =
        Scratch::new().context("cannot make a folder for the recording").status(Status::Missing)?;
    let (mut machine, state) = machine_for(true, plan, interrupt)?;
    let writer = Store::open_for_writing(&folder.path().join("store"))
        .and_then(|store| store.begin(plan, &state, unix_ns()))
        .map_err(StoreError::carried)?;
    let (ending, recording) =
        make_runs(plan, &[], (machine.as_mut(), &state, interrupt), writer, &mut Silent)?;
    match ending {
        Ending::Complete | Ending::Stopped(_) => Ok(recording),
        Ending::Interrupted => Err(fail(
            Status::Interrupted,
            "interrupted; nothing is kept of a validation that did not end",
        )),
        Ending::InputChanged(changed) => Err(fail(Status::NotComparable, changed.in_words())),
        Ending::Failed { failure, .. } => Err(fail(
            Status::WorkFailed,
            format!("the kernels failed under emulation: {}", failure::in_words(&failure)),
        )),
    }
}

/// The kernels that have both figures, and the number of kernels that have only a true figure.
fn cases(truth: &Truth, recording: &Recording) -> (Vec<Case>, usize) {
    let run = recording
        .records
        .iter()
        .find(|run| run.outcome == Outcome::Finished && run.block.is_some());
    let in_domain = |name: &KernelName, metric: &str, domain: Domain| {
        let key = MetricKey { region: name.region(), ..MetricKey::new(metric, domain, EMULATOR) };
        Some(run?.sample(recording.dictionary.id(&key)?)?.value)
    };
    // A guest counts cycles of the user's and the kernel's instructions together.
    let figure = |name: &KernelName, metric: &str| {
        let own = in_domain(name, metric, Domain::User);
        own.or_else(|| in_domain(name, metric, Domain::All))
    };
    let interrupted = |name: &KernelName| {
        let kernel = in_domain(name, "instructions", Domain::Kernel).unwrap_or_default();
        kernel * INTERRUPTED_SHARE > figure(name, "instructions").unwrap_or_default()
    };
    let case = |(name, truth_milli): (&KernelName, &u64)| {
        if interrupted(name) {
            return None;
        }
        let mut cycles = Cycles::default();
        for (sum, part) in cycles.by_cause.iter_mut().zip(CYCLE_PARTS) {
            *sum = figure(name, part)?;
        }
        cycles.far = figure(name, CYCLES_FAR)?;
        Some(Case {
            name: name.clone(),
            truth: *truth_milli as f64 / 1000.0,
            modelled: cycles.total() as f64,
            instructions: figure(name, "instructions")? as f64,
            confidence: confidence(&cycles),
        })
    };
    let cases: Vec<Case> = truth.kernels.iter().filter_map(case).collect();
    let missing = truth.kernels.len() - cases.len();
    (cases, missing)
}

/// Keeps the result where later estimates look for it.
fn keep(outcome: &Found, core: &CorePlan, first: &GaugeReport) -> Result<Option<PathBuf>> {
    let Some(folder) = kept::folder() else { return Ok(None) };
    let now_ns = unix_ns();
    let day = date(now_ns);
    let on = format!("{}, {}", outcome.cpu, day.split(' ').next().unwrap_or_default());
    let kept = Kept::new(
        &core.name,
        &core.fingerprint,
        now_ns / 1_000_000_000,
        outcome.report.validation(on),
    );
    kept::keep(&folder, &kept, &first.cpu)
        .map(Some)
        .with_context(|| format!("cannot keep the result in {}", folder.display()))
        .status(Status::Missing)
}
