//! `opcost attach`: lists the sites of a running program, or changes some of them, live, and compares.
//!
//! ```text
//! PID → Process → Survey → list
//!                        → Change, Plan → Attached machine → periods as Records → Comparison
//! ```

mod keep;
mod listing;

use anyhow::{Context, Result};
use clap::Args;
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_base::failure;
use opcost_base::message::announce;
use opcost_base::time::TimeLimit;
use opcost_command::globals::Globals;
use opcost_command::output::{OutputArgs, present, print};
use opcost_lab::machine::attached::{Attached, carried};
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::machine::{Machine, read_state};
use opcost_lab::progress;
use opcost_lab::recording::make_runs;
use opcost_lab::resolve::{self, AttachedWork};
use opcost_lab::run::Ending;
use opcost_model::experiment::{Experiment, Seed};
use opcost_model::plan::{AttachmentPlan, OpsSource, Plan};
use opcost_page::writer;
use opcost_record::nearest::did_you_mean;
use opcost_report::render;
use opcost_store::store::StoreError;
use opcost_sys::clock::unix_ns;
use opcost_sys::interrupt::Interrupt;
use patchpoint_attach::change::Change;
use patchpoint_attach::guardian;
use patchpoint_attach::memory::Memory;
use patchpoint_attach::process::{Process, Purpose};
use patchpoint_attach::registry::{self, Registry};
use patchpoint_attach::survey::{self, Key, Kind, Survey};
use patchpoint_attach::symbol::{self, Function, Symbols};
use patchpoint_attach::target::Restored;
use patchpoint_attach::{ChangeError, State, body, value};
use std::path::Path;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "Examples:
  opcost attach 1234
  opcost attach 1234 --json
  opcost attach $(pidof server) --key tracing --to on
  opcost attach $(pidof server) --key tracing --to on --keep
  opcost attach 1234 --key limit --to 64 --pairs 200 --period 50ms
  opcost attach 1234 --key copy --to copy_sse2 --to copy_avx2
  opcost attach 1234 --key copy --to copy_avx2 -e task-clock,instructions:u";

/// The default period: long against a change (some 0.1 ms), short against other disturbances.
const PERIOD_MS: u64 = 20;
/// How long the program runs after a change before it is measured, so that its caches and branch
/// predictors meet the new code.
const SETTLE: Duration = Duration::from_millis(2);
/// How often, and how long each time, opcost watches a program that has not counted an operation yet.
const WATCHES: u32 = 10;
const WATCH: Duration = Duration::from_millis(50);

/// Arguments of `opcost attach`.
#[derive(Args, Debug)]
pub struct AttachArgs {
    /// The number of the running process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,

    /// The key whose sites are changed; KEY@FILE where files have keys of one name
    #[arg(long, value_name = "KEY", requires = "to")]
    pub key: Option<String>,

    /// What to compare its present value with: on or off, a number, a function or its address; may
    /// be repeated, or a list with commas
    #[arg(
        long,
        value_name = "VALUE",
        requires = "key",
        allow_hyphen_values = true,
        value_delimiter = ','
    )]
    pub to: Vec<String>,

    /// Periods of each side, in drawn order [default: 100, or what can decide every metric]
    #[arg(long, short = 'n', visible_alias = "runs", value_name = "N", requires = "key")]
    pub pairs: Option<u32>,

    /// How long each period is, for example 20ms or 1s [default: 20ms]
    #[arg(long, value_name = "TIME", requires = "key")]
    pub period: Option<TimeLimit>,

    /// Events to count, as for opcost compare; may be repeated
    #[arg(
        long = "event",
        short = 'e',
        visible_alias = "events",
        value_name = "EVENTS",
        requires = "key"
    )]
    pub events: Vec<String>,

    /// The metric that decides [default: task-clock]
    #[arg(long, value_name = "METRIC", requires = "key")]
    pub primary: Option<String>,

    /// Seed of the order of periods [default: drawn]
    #[arg(long, value_name = "N|random", requires = "key")]
    pub seed: Option<Seed>,

    /// Set the key and leave it set: nothing is measured
    #[arg(
        long,
        requires = "key",
        conflicts_with_all = ["pairs", "period", "events", "primary", "seed", "label", "dry_run"]
    )]
    pub keep: bool,

    /// What to call this recording in lists and histories, for example a version or a ticket
    #[arg(long, value_name = "TEXT", requires = "key")]
    pub label: Option<String>,

    /// Print the plan and stop; nothing is changed in the process
    #[arg(long, requires = "key")]
    pub dry_run: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: OutputArgs,
}

/// `opcost attach`.
pub fn attach(globals: &Globals, args: &AttachArgs) -> Result<Status> {
    let Some(name) = &args.key else {
        let process = Process::open(args.pid, Purpose::Look).map_err(carried)?;
        let survey = process.survey().map_err(carried)?;
        let functions = functions_called(&process, &survey)?;
        let listing =
            listing::Listing { process: &process, survey: &survey, functions: &functions };
        print(&match args.output.json {
            true => listing.json()?,
            false => writer::text::text(&listing.document(), &globals.style()),
        })?;
        return Ok(Status::Done);
    };
    let purpose = if args.dry_run { Purpose::Look } else { Purpose::Change };
    let process = Process::open(args.pid, purpose).map_err(carried)?;
    let survey = process.survey().map_err(carried)?;
    let key = find_key(&survey, name)?;
    let slots = asked_values(&process, key, &args.to)?;
    if args.keep {
        return set_and_keep(&process, &survey, key, &slots, args);
    }
    check_values(key, &slots, &args.to).map_err(|error| carried(error.into()))?;
    let asked: Vec<State> =
        slots.iter().map(|slot| body::state_with(&process, &survey, key, *slot)).collect();
    let planned = Change::plan(&survey, key, &asked);
    let change = planned.map_err(|error| carried(error.into()))?;
    let functions = functions_called(&process, &survey)?;
    let period = Duration::from_millis(args.period.map_or(PERIOD_MS, |period| period.limit_ms));
    let (ops, ops_address) = ops_source(&process, key, change.registry)?;
    let attachment = AttachmentPlan {
        pid: args.pid,
        key: key.name.clone(),
        period_ns: period.as_nanos() as u64,
        settle_ns: SETTLE.as_nanos() as u64,
        ops,
    };
    let shown = |slot| listing::shown(key, slot, &functions);
    let work = AttachedWork {
        program: process.program().unwrap_or_default(),
        name: process.name.clone(),
        values: std::iter::once(shown(key.state.value))
            .chain(slots.iter().zip(&args.to).map(|(slot, to)| match key.kind {
                // The user may have typed another name of the same function: show the user's.
                Kind::Call => to.clone(),
                Kind::Value | Kind::Branch | Kind::Switch => shown(*slot),
            }))
            .collect(),
    };
    let experiment = Experiment {
        pairs: args.pairs,
        seed: args.seed,
        events: args.events.clone(),
        primary: args.primary.clone(),
        label: args.label.clone(),
        ..Experiment::default()
    };
    let plan = resolve::resolve_attached(&experiment, attachment, work, &HostSurroundings)?;
    if args.dry_run {
        let json = args.output.json || args.output.format.as_deref() == Some("json");
        print(&match json {
            true => render::plan::json(&plan)?,
            false => writer::text::text(&render::plan::document(&plan), &globals.style()),
        })?;
        return Ok(Status::Done);
    }
    if change.sites.is_empty() {
        return Err(fail(Status::WorkFailed, format!("'{}' has no sites", key.name)));
    }
    let doubtful = change.code_writes > 0 && !body::agrees(&process, key);
    measure(globals, &args.output, &plan, Target { process, change, ops_address, doubtful })
}

/// Sets a key, and leaves the process running with the new value.
fn set_and_keep(
    process: &Process,
    survey: &Survey,
    key: &Key,
    slots: &[u64],
    args: &AttachArgs,
) -> Result<Status> {
    let (&[slot], [text]) = (slots, args.to.as_slice()) else {
        let message = format!("--keep with {} values of --to: give the one to keep", slots.len());
        return Err(fail(Status::Usage, message));
    };
    let functions = functions_called(process, survey)?;
    let before = listing::shown(key, key.state.value, &functions);
    let after = match key.kind {
        Kind::Call => text.clone(),
        Kind::Value | Kind::Branch | Kind::Switch => listing::shown(key, slot, &functions),
    };
    let kept = keep::Kept { key, name: qualified(survey, key), before, after };
    if slot == key.state.value {
        return keep::already(process, &kept, args.output.json);
    }
    let planned = Change::plan(survey, key, &[body::state_with(process, survey, key, slot)]);
    let change = planned.map_err(|error| carried(error.into()))?;
    keep::keep(process, &change, &kept, args.output.json)
}

/// A key's name as [`find_key`] takes it: with the file's name if several files have a key of this name.
fn qualified(survey: &Survey, key: &Key) -> String {
    match survey.keys.iter().filter(|other| other.name == key.name).count() {
        1 => key.name.clone(),
        _ => format!("{}@{}", key.name, listing::file_name(&key.path)),
    }
}

/// The process to measure, and the change to make in it.
struct Target {
    process: Process,
    change: Change,
    ops_address: Option<u64>,
    /// Whether sites call asked functions that the program's library might have inlined.
    doubtful: bool,
}

fn measure(globals: &Globals, output: &OutputArgs, plan: &Plan, target: Target) -> Result<Status> {
    output.check()?;
    let interrupt = Interrupt::install()
        .context("cannot install the signal handler")
        .status(Status::Missing)?;
    let state = read_state(Path::new("/"), plan, Vec::new());
    let store = globals.store_for_writing()?;
    let Target { process, change, ops_address, doubtful } = target;
    let (pid, key) = (process.pid, plan.attachment().map_or("", |of| of.key.as_str()));
    let mut machine = Attached::begin(process, change, plan, ops_address, &interrupt)?;
    let writer = store.begin(plan, &state, unix_ns()).map_err(StoreError::carried)?;
    let id = writer.id().to_string();
    let mut progress = progress::on_stderr(globals.quiet, progress::Who::Recorder);
    let on: (&mut dyn Machine, _, _) = (&mut machine, &state, &interrupt);
    let made = make_runs(plan, &[], on, writer, progress.as_mut());
    // Before anything else, restore the program, whatever happened.
    let restored = machine.end();
    let failed = !matches!(made, Ok((Ending::Complete | Ending::Interrupted, _)));
    if let (Err(error), true) = (&restored, failed) {
        // Another error follows below.
        announce!("{error}");
    }
    let (ending, recording) = made?;
    let status = match ending {
        Ending::Complete | Ending::Stopped(_) => present(globals, &recording, output)?,
        Ending::Interrupted => {
            if recording.records.iter().any(|record| record.block.is_some()) {
                present(globals, &recording, output)?;
            }
            Status::Interrupted
        }
        // A running program has no inputs that opcost knows.
        Ending::Failed { .. } | Ending::InputChanged(_) => Status::WorkFailed,
    };
    if let Ending::Failed { slot, failure, .. } = &ending {
        let what = failure::in_words(failure);
        return Err(fail(status, format!("period {slot} of recording {id}: {what}")));
    }
    let flips = restored.map_err(carried)?;
    if !globals.quiet {
        if doubtful {
            opcost_base::message::show(
                "note: the program's library made something else of the present function than this \
                 opcost would, which sees it from outside or is of another version; so every function that is asked for is called, \
                 also where a change by the program itself would put its body in the call's place",
            );
        }
        opcost_base::message::show(&flips.describe(key).to_string());
    }
    match ending {
        Ending::Interrupted => Err(fail(
            Status::Interrupted,
            format!(
                "interrupted after {} of {} periods; all are stored: opcost show {id}; process {pid} \
                 is as it was found",
                recording.records.len(),
                plan.slot_count()
            ),
        )),
        _ => Ok(status),
    }
}

/// Runs the guardian in this process.
pub fn guard() -> Result<Status> {
    // A terminal's Ctrl-C, or the end of its session, must not reach the guardian.
    opcost_sys::session::lead_new().context("cannot leave the session").status(Status::Missing)?;
    let served = guardian::serve(std::io::stdin().lock(), std::io::stdout().lock());
    match served.map_err(carried)? {
        Some(Restored::Done { .. }) => {
            announce!("its owner died; the process is as it was found");
        }
        Some(Restored::Gone) | None => {}
    }
    Ok(Status::Done)
}

/// The key that a user's words name.
fn find_key<'a>(survey: &'a Survey, text: &str) -> Result<&'a Key> {
    let (name, file) = text.split_once('@').map_or((text, None), |(name, file)| (name, Some(file)));
    let is_of = |key: &&Key| {
        file.is_none_or(|file| listing::file_name(&key.path) == file || key.path == file)
    };
    let named: Vec<&Key> = survey.keys.iter().filter(|key| key.name == name).collect();
    match named.iter().copied().filter(is_of).collect::<Vec<&Key>>().as_slice() {
        [one] => Ok(one),
        [] if named.is_empty() => {
            let names = survey.keys.iter().map(|key| key.name.as_str());
            let near = did_you_mean(name, names);
            Err(fail(
                Status::Usage,
                format!(
                    "--key {text}: the process has no key of that name{near}; opcost attach PID lists them"
                ),
            ))
        }
        _ => {
            let places: Vec<String> = named
                .iter()
                .map(|key| format!("{name}@{}", listing::file_name(&key.path)))
                .collect();
            Err(fail(
                Status::Usage,
                format!("--key {text}: there are {}; give one of them", places.join(", ")),
            ))
        }
    }
}

/// The bits that a user's words for values stand for.
fn asked_values(process: &Process, key: &Key, texts: &[String]) -> Result<Vec<u64>> {
    let read = match key.kind {
        Kind::Call => return asked_functions(process, key, texts),
        Kind::Value => value::number,
        Kind::Branch => value::truth,
        Kind::Switch => value::way,
    };
    texts.iter().map(|text| read(key, text).status(Status::Usage)).collect()
}

/// The addresses of the functions that a user names.
fn asked_functions(process: &Process, key: &Key, texts: &[String]) -> Result<Vec<u64>> {
    let mappings = process.mappings().map_err(carried)?;
    let Symbols { functions, unread } = symbol::functions(process, &mappings, |_| true);
    let is_code = |address: u64| {
        let code = mappings.iter().filter(|mapping| mapping.executable);
        code.clone().any(|mapping| (mapping.start..mapping.end).contains(&address))
    };
    let own = || functions.iter().filter(|function| function.path == key.path);
    let near = |name: &str| match unread.as_slice() {
        [] => did_you_mean(name, own().map(|function| function.name.as_str())),
        unread => format!(
            " (those of {} are not known, since the file is gone or another one is there now)",
            unread.join(", ")
        ),
    };
    let read = |text: &String| value::function(key, text, &functions, is_code, near);
    texts.iter().map(|text| read(text).status(Status::Usage)).collect()
}

/// Refuses values that leave nothing to compare, in the user's own words for them.
fn check_values(key: &Key, slots: &[u64], texts: &[String]) -> Result<(), ChangeError> {
    for (index, (slot, text)) in slots.iter().zip(texts).enumerate() {
        let (key_name, value) = (key.name.clone(), text.clone());
        if *slot == key.state.value {
            return Err(ChangeError::Same { key: key_name, value });
        }
        if slots[..index].contains(slot) {
            return Err(ChangeError::Twice { key: key_name, value });
        }
    }
    Ok(())
}

/// All functions of those files to which the present functions of call keys belong.
fn functions_called(process: &Process, survey: &Survey) -> Result<Vec<Function>> {
    let mappings = process.mappings().map_err(carried)?;
    let calls = survey.keys.iter().filter(|key| key.kind == Kind::Call);
    let slots: Vec<u64> = calls.map(|key| key.state.value).collect();
    let holds_one = |path: &str| {
        let of_file = mappings.iter().filter(|mapping| mapping.path == path);
        of_file.clone().any(|of| slots.iter().any(|slot| (of.start..of.end).contains(slot)))
    };
    Ok(symbol::functions(process, &mappings, |mapping| holds_one(&mapping.path)).functions)
}

/// The counter of the program's operations, and its address. If the program has counted none yet,
/// watches it for a moment.
fn ops_source(
    process: &Process,
    key: &Key,
    registry: u64,
) -> Result<(Option<OpsSource>, Option<u64>)> {
    let has_ops = Registry::read(process, registry).is_ok_and(|registry| registry.ops.is_some());
    let candidates = [
        (OpsSource::Program, has_ops.then(|| registry::ops_address(registry))),
        (OpsSource::Key, Some(survey::key_ops_address(key.address))),
    ];
    for _ in 0..WATCHES {
        let counts = |address: Option<u64>| {
            address.and_then(|address| process.number(address).ok()).is_some_and(|ops| ops > 0)
        };
        if let Some((source, address)) = candidates.iter().find(|(_, address)| counts(*address)) {
            return Ok((Some(*source), *address));
        }
        std::thread::sleep(WATCH);
    }
    if !process.is_alive() {
        return Err(carried(process.gone()));
    }
    Ok((None, None))
}
