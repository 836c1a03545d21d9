//! Makes a recording from a plan, and shows it.

use crate::globals::Globals;
use crate::output::{OutputArgs, present, print};
use crate::shard;
use anyhow::{Context, Result};
use clap::Args;
use opcost_analysis::comparison::limit::{FailOn, Watched};
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_base::failure;
use opcost_base::message::announce;
use opcost_lab::load::Load;
use opcost_lab::machine::Machine;
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::machine::revision::Revisions;
use opcost_lab::progress::{self, Who};
use opcost_lab::recording::{machine_for, make_runs};
use opcost_lab::resolve::Surroundings;
use opcost_lab::run::Ending;
use opcost_model::experiment::Experiment;
use opcost_model::plan::{self, Plan, VariantPlan, WorkPlan};
use opcost_model::recording::{MachineState, Recording, State};
use opcost_page::writer;
use opcost_record::nearest::did_you_mean;
use opcost_record::{Failure, MetricKey, MetricRow, Outcome, Record, WORKLOAD};
use opcost_report::render;
use opcost_store::store::{RecordingWriter, StoreError};
use opcost_sys::clock::unix_ns;
use opcost_sys::interrupt::Interrupt;
use std::path::Path;

/// The end of an error about a command that failed in a guest.
const PACKING_HINT: &str = "; the guest has only the files that were packed for it: --pack PATH adds \
     one, --pack-used all that the command uses in a run on this machine";

/// Arguments of the commands that make runs.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// Print the plan and stop
    #[arg(long)]
    pub dry_run: bool,
}

/// Makes the runs of a plan and shows the recording.
pub fn carry_out(
    globals: &Globals,
    mut plan: Plan,
    dry_run: bool,
    output: &OutputArgs,
) -> Result<Status> {
    let revisions = Revisions::begin(&plan);
    if dry_run {
        revisions.note(&mut plan);
        let text = if output.json || output.format.as_deref() == Some("json") {
            render::plan::json(&plan)?
        } else {
            writer::text::text(&render::plan::document(&plan), &globals.style())
        };
        print(&text)?;
        return Ok(Status::Done);
    }
    output.check()?;
    check_limits(&plan, &output.fail_on)?;
    if let Some(shard) = plan.shard() {
        shard::check_output(shard, output)?;
    }
    plan.invocation = Some(invocation(&plan));
    let interrupt = Interrupt::install()
        .context("cannot install the signal handler")
        .status(Status::Missing)?;
    // If a scheduler starts a shard again, the shard goes on with its earlier runs.
    let earlier = match plan.shard() {
        Some(_) => shard::earlier(&globals.store_for_writing()?, &plan)?,
        None => None,
    };
    if let (Some(shard), Some(recording)) = (plan.shard(), &earlier)
        && recording.state == State::Finished
    {
        shard::report(globals, shard, recording, true);
        return Ok(Status::Done);
    }
    // Who has set the metric has decided how to judge on a busy machine.
    if !globals.quiet
        && HostSurroundings.primary().is_none()
        && let Some(advice) = Load::read(Path::new("/")).and_then(|load| load.advice(&plan))
    {
        announce!("{advice}");
    }
    let (mut machine, state) = machine_for(globals.quiet, &plan, &interrupt)?;
    let store = globals.store_for_writing()?;
    // git must be done before the first run.
    revisions.note(&mut plan);
    let (writer, made) = match earlier {
        None => (store.begin(&plan, &state, unix_ns()), Vec::new()),
        Some(earlier) => match store.resume(&earlier.id, &state) {
            Ok((writer, earlier)) => (Ok(writer), earlier.records),
            Err(error) => (Err(error), Vec::new()),
        },
    };
    let writer = writer.map_err(StoreError::carried)?;
    record(globals, &plan, &made, (machine.as_mut(), &state, &interrupt), writer, output)
}

/// Writes an experiment as a file. The experiment has a plan: one that cannot run is not worth a file.
pub fn save(experiment: &Experiment, path: &Path) -> Result<Status> {
    let here = std::env::current_dir().context("cannot read the working directory");
    std::fs::write(path, experiment.to_toml_anywhere(&here.status(Status::Missing)?)?)
        .with_context(|| format!("cannot write '{}'", path.display()))
        .status(Status::Missing)?;
    Ok(Status::Done)
}

/// The command that this process was given, with the seed if opcost drew it.
fn invocation(plan: &Plan) -> String {
    command_line(Some(plan.seed))
}

/// The command that this process was given, with `seed` unless the command names a number.
pub fn command_line(seed: Option<u64>) -> String {
    let mut words = vec!["opcost".to_string()];
    words.extend(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()));
    if let Some(seed) = seed {
        name_seed(&mut words, seed);
    }
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

/// Makes a command line name a seed, unless it names a number already.
fn name_seed(words: &mut Vec<String>, seed: u64) {
    const OPTION: &str = "--seed";
    let seed = seed.to_string();
    // Words behind `--` belong to the work.
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let named = |word: &String| word == OPTION || word.starts_with("--seed=");
    match words[..end].iter().position(named) {
        Some(at) if words[at] == "--seed=random" => words[at] = format!("{OPTION}={seed}"),
        Some(at) if words.get(at + 1).is_some_and(|word| word == "random") => words[at + 1] = seed,
        Some(_) => {}
        None => drop(words.splice(end..end, [OPTION.to_string(), seed])),
    }
}

/// Makes the missing runs, then shows the recording.
pub fn record(
    globals: &Globals,
    plan: &Plan,
    earlier: &[Record],
    on: (&mut dyn Machine, &MachineState, &Interrupt),
    writer: RecordingWriter,
    output: &OutputArgs,
) -> Result<Status> {
    let mut progress = progress::on_stderr(globals.quiet, Who::Recorder);
    let (machine, state, interrupt) = on;
    if globals.verbose {
        machine.keep_seconds();
    }
    let made =
        make_runs(plan, earlier, (&mut *machine, state, interrupt), writer, progress.as_mut());
    if globals.verbose {
        match machine.seconds() {
            Some(text) => opcost_base::message::show(&text),
            None => announce!("--verbose has nothing to add on this machine"),
        }
    }
    let (ending, recording) = made?;
    let id = &recording.id;
    match ending {
        Ending::Complete | Ending::Stopped(_) => match plan.shard() {
            Some(shard) => {
                shard::report(globals, shard, &recording, false);
                Ok(Status::Done)
            }
            None => {
                let presented = present(globals, &recording, output)?;
                match failed_variants(&recording) {
                    None => Ok(presented),
                    Some(why) => Err(fail(Status::WorkFailed, why)),
                }
            }
        },
        Ending::Interrupted => {
            let any = recording.records.iter().any(|record| record.block.is_some());
            if any && plan.shard().is_none() {
                present(globals, &recording, output)?;
            }
            Err(fail(
                Status::Interrupted,
                format!(
                    "interrupted after {}; all are stored: opcost show {id}, opcost resume {id}",
                    plan.runs_in_words(recording.records.len())
                ),
            ))
        }
        Ending::InputChanged(changed) => {
            let runs = recording.records.len();
            let why = format!(
                "{} (recording {id} has the {runs} runs until then, without a verdict)",
                changed.in_words()
            );
            Err(fail(Status::NotComparable, why))
        }
        Ending::Failed { slot, variant, failure } => {
            let why = failed_run(&recording, usize::from(variant), slot, &failure);
            Err(fail(Status::WorkFailed, why))
        }
    }
}

/// How a run failed, and what to do about it.
fn failed_run(recording: &Recording, variant: usize, slot: u32, failure: &Failure) -> String {
    let (plan, id) = (&recording.plan, &recording.id);
    let VariantPlan { name, work, guest, .. } = &plan.variants[variant];
    let (what, printed) = (failure::in_words(failure), failure::printed(failure));
    let mut hint =
        plan::shell_syntax::in_work(work).map_or(String::new(), plan::shell_syntax::hint);
    let boots = guest.as_ref().is_some_and(|guest| guest.kernel.is_some());
    let is_lean = plan.emulation().is_some_and(|emulation| !emulation.pack_used);
    if let (WorkPlan::Command { .. }, Failure::ExitStatus { .. }, true, true) =
        (work, failure, boots, is_lean)
    {
        hint += PACKING_HINT;
    }
    format!("variant '{name}', run {slot} of recording {id}: {what}{hint}{printed}")
}

/// The variants that failed while the others went on, in words; `None` if none did.
fn failed_variants(recording: &Recording) -> Option<String> {
    let failed = recording.failed_variants();
    let (variant, run) = failed.first_key_value()?;
    let Outcome::Failed(failure) = &run.outcome else { return None };
    let first = failed_run(recording, *variant, run.slot, failure);
    let others = match failed.len() - 1 {
        0 => String::new(),
        others => format!("; {others} more failed, which the report names"),
    };
    Some(format!("{first}{others}; the other variants were compared"))
}

/// Refuses limits for metrics that a plan's runs will not have, before any run is made.
fn check_limits(plan: &Plan, limits: &[FailOn]) -> Result<()> {
    let totals_only = plan.emulation().is_some_and(|emulation| emulation.no_functions);
    for fail_on in limits {
        if totals_only && matches!(fail_on.what, Watched::Functions) {
            let why =
                "--fail-on functions: --no-functions counts totals only; leave one of them out";
            return Err(fail(Status::Usage, why));
        }
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
        // The plan does not list the metrics that a workload reports of its own work.
        let reported = MetricRow::find(name).is_some_and(|row| row.source == WORKLOAD);
        // Only the runs show which regions a program has.
        let of_region = plan.regions() && name.ends_with(&format!("/{}", plan.primary.label()));
        if !reported && !of_region && !metrics.iter().any(is) {
            let known: Vec<String> = metrics.iter().map(MetricKey::label).collect();
            let near = did_you_mean(name, known.iter().map(String::as_str));
            let why = format!(
                "--fail-on {name}: the runs have no such metric{near}; give regression, functions, or one of {}",
                known.join(", ")
            );
            return Err(fail(Status::Usage, why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::name_seed;

    #[test]
    fn a_command_line_names_the_number_of_its_seed() {
        for (given, named) in [
            ("compare a b", "compare a b --seed 7"),
            ("compare --seed 5 a b", "compare --seed 5 a b"),
            ("compare --seed random a b", "compare --seed 7 a b"),
            ("compare --seed=random a b", "compare --seed=7 a b"),
            ("measure -- prog --seed 5", "measure --seed 7 -- prog --seed 5"),
        ] {
            let mut words: Vec<String> = given.split(' ').map(str::to_string).collect();
            name_seed(&mut words, 7);
            assert_eq!(words.join(" "), named);
        }
    }
}
