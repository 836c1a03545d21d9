//! What the commands do: each is the flow from an experiment or a recording to bytes.

use crate::cli::{Cli, CompareArgs, MeasureArgs, OutputArgs, ResumeArgs, RunArgs, ShowArgs};
use crate::comparison;
use crate::comparison::limit::{self, FailOn, Watched};
use crate::exit::{HasStatus, Status, WithStatus, fail};
use crate::experiment::{Experiment, MachineKind, SameFile};
use crate::machine::emulated::Emulated;
use crate::machine::host::{Host, HostSurroundings};
use crate::machine::revision::Revisions;
use crate::machine::{Machine, MachineState, read_state};
use crate::nearest::nearest;
use crate::plan::{self, Plan, VariantPlan, WorkPlan};
use crate::progress::{self, Phases, Progress};
use crate::render;
use crate::run::{self, Ending};
use crate::scratch;
use crate::store::{Recording, RecordingWriter, Store, StoreError};
use crate::xdg;
use anyhow::{Context, Result};
use opcost_record::printable::printable;
use opcost_record::{Failure, MetricKey, MetricRow, Record, WORKLOAD};
use opcost_sys::clock::unix_ns;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::perf::LivePerf;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What an error about a command that failed in a guest ends with.
const PACKING_HINT: &str = "; the guest has only the files that were packed for it: --pack PATH adds \
     one, --pack-used all that the command uses in a run on this machine";

/// `opcost compare`.
pub fn compare(cli: &Cli, args: &CompareArgs) -> Result<Status> {
    let experiment = args.to_experiment()?;
    if experiment.variants.is_empty() {
        return Err(too_few_variants(0));
    }
    let plan = plan::resolve(&experiment, &HostSurroundings)?;
    if plan.variants.len() < 2 {
        return Err(too_few_variants(plan.variants.len()));
    }
    if let Some(path) = &args.save_experiment {
        return save(&experiment, path);
    }
    carry_out(cli, plan, args.plan.dry_run, &args.output)
}

fn too_few_variants(given: usize) -> anyhow::Error {
    let why = format!(
        "a comparison needs two or more variants, {given} given; name two commands, repeat --workload \
         (or --kernel, --boot), or measure one by itself with opcost measure"
    );
    fail(Status::Usage, why)
}

/// `opcost measure`.
pub fn measure(cli: &Cli, args: &MeasureArgs) -> Result<Status> {
    let experiment = args.to_experiment()?;
    let plan = plan::resolve(&experiment, &HostSurroundings)?;
    if plan.variants.len() > 1 {
        let names: Vec<&str> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
        let why = format!(
            "opcost measure measures one variant, and these are {}: {}; compare them with opcost compare",
            names.len(),
            names.join(", ")
        );
        return Err(fail(Status::Usage, why));
    }
    if !args.output.fail_on.is_empty() {
        let why = "--fail-on: one variant has nothing to be worse than; see opcost history --fail-on \
                   or opcost compare --fail-on";
        return Err(fail(Status::Usage, why));
    }
    if let Some(path) = &args.save_experiment {
        return save(&experiment, path);
    }
    carry_out(cli, plan, args.plan.dry_run, &args.output)
}

/// Writes an experiment that has a plan: what could not run is not worth a file.
fn save(experiment: &Experiment, path: &Path) -> Result<Status> {
    std::fs::write(path, experiment.to_toml()?)
        .with_context(|| format!("cannot write '{}'", path.display()))
        .status(Status::Missing)?;
    Ok(Status::Done)
}

/// `opcost run`.
pub fn run(cli: &Cli, args: &RunArgs) -> Result<Status> {
    let experiment =
        Experiment::read(&args.file, &args.set, &args.experiment).status(Status::Usage)?;
    let plan = plan::resolve(&experiment, &HostSurroundings)?;
    carry_out(cli, plan, args.plan.dry_run, &args.output)
}

/// Makes the runs of a plan and shows them.
fn carry_out(cli: &Cli, mut plan: Plan, dry_run: bool, output: &OutputArgs) -> Result<Status> {
    let revisions = Revisions::begin(&plan);
    if dry_run {
        revisions.note(&mut plan);
        let text = if output.json || output.format.as_deref() == Some("json") {
            render::plan::json(&plan)?
        } else {
            render::plan::text(&plan, &render::Style::detect(cli.no_color))
        };
        print(&text)?;
        return Ok(Status::Done);
    }
    output.check()?;
    check_limits(&plan, &output.fail_on)?;
    plan.invocation = Some(invocation(&plan));
    let interrupt = Interrupt::install()
        .context("cannot install the signal handler")
        .status(Status::Missing)?;
    let (mut machine, state) = machine_for(cli.quiet, &plan, &interrupt)?;
    let store = store_for_writing(cli)?;
    // What git does must be over before the first run.
    revisions.note(&mut plan);
    let writer = store.begin(&plan, &state, unix_ns()).map_err(StoreError::carried)?;
    record(cli, &plan, &[], (machine.as_mut(), &state), writer, output)
}

/// The command that this process was given, with the seed if that was drawn.
fn invocation(plan: &Plan) -> String {
    let mut words = vec!["opcost".to_string()];
    words.extend(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()));
    if !words.iter().any(|word| word == "--seed" || word.starts_with("--seed=")) {
        words.extend(["--seed".to_string(), plan.seed.to_string()]);
    }
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

/// `opcost resume`.
pub fn resume(cli: &Cli, args: &ResumeArgs) -> Result<Status> {
    args.output.check()?;
    let path = store_path(cli)?;
    let recording = Store::open_for_reading(&path)
        .and_then(|store| store.read(&args.id))
        .map_err(StoreError::carried)?;
    let plan = recording.plan.clone();
    let interrupt = Interrupt::install()
        .context("cannot install the signal handler")
        .status(Status::Missing)?;
    let (mut machine, state) = machine_for(cli.quiet, &plan, &interrupt)?;
    let (writer, recording) = Store::open_for_writing(&path)
        .and_then(|store| store.resume(&recording.id, &state))
        .map_err(StoreError::carried)?;
    // A run that failed is made again only if it was not stored; what is stored stays.
    let earlier = &recording.records;
    record(cli, &plan, earlier, (machine.as_mut(), &state), writer, &args.output)
}

/// The machine that a plan runs on, ready to run it, and its state.
pub(crate) fn machine_for<'a>(
    quiet: bool,
    plan: &Plan,
    interrupt: &'a Interrupt,
) -> Result<(Box<dyn Machine + 'a>, MachineState)> {
    match plan.machine {
        MachineKind::Host => {
            let host = Host::new(plan, Rc::new(LivePerf::default()), interrupt)?;
            let state = read_state(Path::new("/"), plan, host.environment_bytes());
            Ok((Box::new(host), state))
        }
        MachineKind::Imported => Err(fail(
            Status::Usage,
            "these figures were imported, so there is nothing to run; look at them with opcost show",
        )),
        MachineKind::Attached => Err(fail(
            Status::Usage,
            "these runs were periods of a running program, to which nothing is attached any more; \
             begin anew with opcost attach PID",
        )),
        MachineKind::Emulated => {
            let mut phases = Phases::new(quiet);
            let emulated = Emulated::new(plan, interrupt, &mut |text| phases.tell(text));
            phases.end();
            let emulated = emulated?;
            let state = emulated.state();
            Ok((Box::new(emulated), state))
        }
    }
}

/// Makes the missing runs, then shows the recording.
fn record(
    cli: &Cli,
    plan: &Plan,
    earlier: &[Record],
    machine: (&mut dyn Machine, &MachineState),
    writer: RecordingWriter,
    output: &OutputArgs,
) -> Result<Status> {
    let mut progress = progress::for_terminal(cli.quiet);
    let (ending, recording) = make_runs(plan, earlier, machine, writer, progress.as_mut())?;
    let id = &recording.id;
    match ending {
        Ending::Complete | Ending::Stopped(_) => present(cli, &recording, output),
        Ending::Interrupted => {
            if recording.records.iter().any(|record| record.block.is_some()) {
                present(cli, &recording, output)?;
            }
            Err(fail(
                Status::Interrupted,
                format!(
                    "interrupted after {} of {} runs; all are stored: opcost show {id}, opcost resume {id}",
                    recording.records.len(),
                    plan.slot_count()
                ),
            ))
        }
        Ending::Failed { slot, variant, failure } => {
            let VariantPlan { name, work, guest, .. } = &plan.variants[usize::from(variant)];
            let what = render::failure(&failure);
            let mut hint =
                plan::shell_syntax::in_work(work).map_or(String::new(), plan::shell_syntax::hint);
            let boots = guest.as_ref().is_some_and(|guest| guest.kernel.is_some());
            let is_lean = plan.emulation.as_ref().is_some_and(|emulation| !emulation.pack_used);
            if let (WorkPlan::Command { .. }, Failure::ExitStatus { .. }, true, true) =
                (work, &failure, boots, is_lean)
            {
                hint += PACKING_HINT;
            }
            Err(fail(
                Status::WorkFailed,
                format!("variant '{name}', run {slot} of recording {id}: {what}{hint}"),
            ))
        }
    }
}

/// Makes the missing runs and reads the recording back, as it is stored.
///
/// `machine`: where, and its state when it was made ready.
pub(crate) fn make_runs(
    plan: &Plan,
    earlier: &[Record],
    (machine, state_before): (&mut dyn Machine, &MachineState),
    mut writer: RecordingWriter,
    progress: &mut dyn Progress,
) -> Result<(Ending, Recording)> {
    scratch::sweep();
    let id = writer.id().to_string();
    let ending = run::run(plan, earlier, machine, &mut writer, progress);
    let state_after = match plan.machine {
        MachineKind::Host => {
            let environment_bytes = state_before.environment_bytes.clone();
            Some(read_state(Path::new("/"), plan, environment_bytes))
        }
        _ => machine.state_now(),
    };
    if let Some(state_after) = state_after.filter(|after| state_before.has_become(after)) {
        writer.note_machine(&state_after).map_err(StoreError::carried)?;
    }
    let state = ending.as_ref().map_or(crate::store::State::Failed, Ending::state);
    let store = writer.end(state).map_err(StoreError::carried);
    let ending = ending.with_context(|| format!("recording {id}")).status(Status::Missing)?;
    let recording = store?.read(&id).map_err(StoreError::carried)?;
    Ok((ending, recording))
}

/// `opcost show`.
pub fn show(cli: &Cli, args: &ShowArgs) -> Result<Status> {
    for rule in &args.allow {
        comparison::ledger::find_rule(rule)?;
    }
    args.output.check()?;
    args.profiles.check()?;
    if args.profiles.is_empty() && !args.variant.is_empty() {
        return Err(fail(
            Status::Usage,
            "--variant says whose profile to export, and there is no file to export it to: give \
             --export-flamegraph FILE or another of the formats in opcost show --help",
        ));
    }
    let mut recording = Store::open_for_reading(&store_path(cli)?)
        .and_then(|store| store.read(&args.id))
        .map_err(StoreError::carried)?;
    recording.plan.allow.extend(args.allow.iter().cloned());
    take_matches(&mut recording, &args.matches)?;
    args.profiles.write(&recording, &args.variant)?;
    let presented = present(cli, &recording, &args.output);
    // The process ends: the memory of 100,000 runs goes back at once, and not piece by piece.
    std::mem::forget(recording);
    presented
}

/// Takes files for the same in a recording, of which both must be there.
///
/// # Errors
/// The first that is not.
pub(crate) fn take_matches(recording: &mut Recording, matches: &[SameFile]) -> Result<()> {
    let stored = std::mem::replace(&mut recording.plan.matches, matches.to_vec());
    comparison::check_matches(recording).map_err(HasStatus::carried)?;
    recording.plan.matches.extend(stored);
    Ok(())
}

/// Compares and prints.
pub(crate) fn present(cli: &Cli, recording: &Recording, output: &OutputArgs) -> Result<Status> {
    let (comparison, warnings) = comparison::compare(recording);
    let style = render::Style::detect(cli.no_color).with_full_names(output.full_names);
    let format = if output.json { "json" } else { output.format.as_deref().unwrap_or("text") };
    let view =
        render::View { recording, comparison: &comparison, warnings: &warnings, style: &style };
    if output.exports.printed().is_none() {
        print(&render::render(format, &view)?)?;
    }
    output.exports.write(&view)?;
    if comparison.refused() {
        return Ok(Status::NotComparable);
    }
    let found = limit::exceeded(&comparison, &output.fail_on).status(Status::Usage)?;
    for what in &found.exceeded {
        eprintln!("opcost: worse: {}", printable(what));
    }
    for what in &found.undecided {
        eprintln!("opcost: {}", printable(what));
    }
    Ok(if found.exceeded.is_empty() { Status::Done } else { Status::Regression })
}

/// Refuses limits of what the runs of a plan will not have, before any is made.
fn check_limits(plan: &Plan, limits: &[FailOn]) -> Result<()> {
    for fail_on in limits {
        let Watched::Metric(name) = &fail_on.what else { continue };
        let is = |key: &MetricKey| key.label() == *name || key.name == *name;
        if let Some(missing) = plan.unavailable.iter().find(|missing| is(&missing.key)) {
            let why = format!(
                "--fail-on {name}: it cannot be counted here: {}; {}",
                missing.reason, missing.remedy
            );
            return Err(fail(Status::Missing, why));
        }
        let metrics = plan.metrics();
        // What a workload reports of its own work is no part of the plan.
        let reported = MetricRow::find(name).is_some_and(|row| row.source == WORKLOAD);
        if !reported && !metrics.iter().any(is) {
            let known: Vec<String> = metrics.iter().map(MetricKey::label).collect();
            let near = nearest(name, known.iter().map(String::as_str));
            let why = format!(
                "--fail-on {name}: the runs have no such metric{near}; give regression, functions, or one of {}",
                known.join(", ")
            );
            return Err(fail(Status::Usage, why));
        }
    }
    Ok(())
}

/// The store's file.
pub(crate) fn store_path(cli: &Cli) -> Result<PathBuf> {
    if let Some(path) = &cli.store {
        return Ok(path.clone());
    }
    default_store_path().ok_or_else(|| {
        fail(
            Status::Missing,
            "neither XDG_DATA_HOME nor HOME says where recordings go; give --store PATH",
        )
    })
}

/// The store's file where none is named; `None` where nothing says where a user's files are.
pub(crate) fn default_store_path() -> Option<PathBuf> {
    let data = xdg::base_folder("XDG_DATA_HOME", ".local/share");
    data.map(|data| data.join("opcost/recordings.sqlite"))
}

/// Prints which version this is.
///
/// # Errors
/// Standard output cannot be written.
pub fn show_version(text: &str) -> Result<Status> {
    print(text).map(|()| Status::Done)
}

/// The store, opened to add to it. Its folder is made where it is the default one; another may be a typo.
pub(crate) fn store_for_writing(cli: &Cli) -> Result<Store> {
    let path = store_path(cli)?;
    if let (None, Some(folder)) = (&cli.store, path.parent()) {
        std::fs::create_dir_all(folder)
            .with_context(|| {
                format!("cannot make the folder '{}' for recordings", folder.display())
            })
            .status(Status::Missing)?;
    }
    Store::open_for_writing(&path).map_err(StoreError::carried)
}

/// Writes to standard output; a reader that has gone away is no error.
pub(crate) fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output").status(Status::Missing)
        }
        _ => Ok(()),
    }
}
