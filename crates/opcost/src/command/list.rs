//! `opcost list`.

use anyhow::Result;
use clap::{Args, ValueEnum};
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_base::time::date;
use opcost_command::chosen::{ChosenArgs, none_chosen};
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_core_model::Core;
use opcost_import::import::FORMATS;
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::resolve::Surroundings;
use opcost_lab::shipped::Shipped;
use opcost_model::experiment::Experiment;
use opcost_model::plan::guest::CORE_DEFAULT;
use opcost_model::plan::{Revision, Validation};
use opcost_model::validation::kept;
use opcost_page::document::{Cell, Column, Document, Mark, Row, Table, Tone};
use opcost_page::names::cut;
use opcost_page::writer::text::text;
use opcost_record::METRICS;
use opcost_record::event::{EVENTS, Event};
use opcost_record::metric::EMULATOR;
use opcost_record::printable::printable;
use opcost_source::source::perf_event::{self, syntax, sysfs};
use opcost_store::store::{Choice, Listed, RecordingHead, Store, StoreError, StoreErrorKind};
use opcost_sys::perf::Refusal;
use opcost_work::WORKLOADS;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Arguments of `opcost list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// What to list
    pub what: Listing,

    /// List only recordings of this experiment
    #[arg(long, value_name = "NAME")]
    pub experiment: Option<String>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub chosen: ChosenArgs,

    /// Print JSON on standard output; --json - is the same
    #[arg(long)]
    pub json: bool,
}

/// The things that opcost can list.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Listing {
    /// Built-in workloads with their parameters.
    Workloads,
    /// Events and metrics, with whether they can be counted here.
    Events,
    /// Recordings in the store.
    Recordings,
    /// Formats of other tools that can be imported.
    Formats,
    /// Experiments that ship with opcost, for `opcost run NAME`.
    Experiments,
    /// Cores whose cycles can be modelled, for `--core`.
    Cores,
}

/// Lists what was asked for.
///
/// # Errors
/// Usage: flags that choose recordings, and another list; no recording is chosen. Missing: the store cannot be read.
pub fn list(globals: &Globals, args: &ListArgs) -> Result<Status> {
    let shown = |document: &Document| text(document, &globals.style());
    let choice = args.chosen.choice(args.experiment.as_deref());
    if choice != Choice::default() && args.what != Listing::Recordings {
        let why = "--experiment, --label and --last choose recordings: opcost list recordings";
        return Err(fail(Status::Usage, why));
    }
    let text = match (args.what, args.json) {
        (Listing::Workloads, false) => shown(&workloads_document()),
        (Listing::Workloads, true) => json_text(workloads_json())?,
        (Listing::Events, false) => shown(&events_document()),
        (Listing::Events, true) => json_text(events_json())?,
        (Listing::Formats, false) => shown(&formats_document()),
        (Listing::Formats, true) => json_text(formats_json())?,
        (Listing::Experiments, false) => shown(&experiments_document()?),
        (Listing::Experiments, true) => json_text(experiments_json()?)?,
        (Listing::Cores, false) => shown(&cores_document()),
        (Listing::Cores, true) => json_text(cores_json())?,
        (Listing::Recordings, as_json) => {
            let listed = match Store::open_for_reading(&globals.store_path()?) {
                Ok(store) => {
                    let listed = store.list_chosen(&choice).map_err(StoreError::carried)?;
                    let names = choice.experiment.or(choice.label).is_some();
                    if names && listed.heads.is_empty() && listed.damaged.is_empty() {
                        return Err(none_chosen(&store, &choice)?);
                    }
                    listed
                }
                Err(error) if error.kind == StoreErrorKind::Absent && as_json => Listed::default(),
                Err(error) => return Err(error.carried()),
            };
            match as_json {
                true => json_text(recordings_json(&listed))?,
                false => shown(&recordings_document(&listed)),
            }
        }
    };
    print(&text)?;
    Ok(Status::Done)
}

fn json_text(value: Value) -> Result<String> {
    opcost_base::json::document(&value, "list")
}

/// Lists of values that are longer get spaces, at which lines can be broken.
const VALUES_WIDTH: usize = 50;

fn workloads_document() -> Document {
    let mut document = Document::default();
    for spec in WORKLOADS {
        document.section(format!("{}: {}", spec.name, spec.summary));
        document.say(Mark::None, format!("one operation is {}", spec.operation));
        document.rows(spec.all_params().into_iter().map(|param| {
            let given = format!("{}={}", param.name, param.default);
            let long = param.values.len() > VALUES_WIDTH;
            let values = if long { param.values.replace('|', " | ") } else { param.values.into() };
            vec![Cell::text(given), Cell::text(format!("{} [{values}]", param.help))]
        }));
    }
    document.gap();
    document.say(Mark::Note, "Use: opcost compare -w NAME:KEY=VALUE,... -w NAME:KEY=VALUE,...");
    document
}

/// The formats of other tools.
fn formats_document() -> Document {
    let mut document = Document::default();
    document.section("Formats:");
    document.rows(FORMATS.iter().map(|of| vec![Cell::text(of.name), Cell::text(of.help)]));
    document
}

fn formats_json() -> Value {
    FORMATS.iter().map(|format| json!({ "name": format.name, "help": format.help })).collect()
}

fn workloads_json() -> Value {
    let param = |param: &opcost_work::ParamSpec| json!({ "name": param.name, "default": param.default, "values": param.values, "help": param.help });
    WORKLOADS
        .iter()
        .map(|spec| {
            json!({
                "name": spec.name,
                "summary": spec.summary,
                "operation": spec.operation,
                "params": spec.all_params().iter().map(param).collect::<Vec<_>>(),
            })
        })
        .collect()
}

/// The experiments that ship with opcost: name, file and contents.
fn experiments() -> Result<Vec<(String, PathBuf, Experiment)>> {
    let read = |(name, path): (String, PathBuf)| {
        let experiment =
            Experiment::read(&path, &[], &Experiment::default()).status(Status::Missing)?;
        Ok((name, path, experiment))
    };
    Shipped::here().experiments().into_iter().map(read).collect()
}

fn experiments_document() -> Result<Document> {
    let experiments = experiments()?;
    let mut document = Document::default();
    document.rows(experiments.iter().map(|(name, _, experiment)| {
        let question = experiment.question.as_deref().unwrap_or_default();
        vec![Cell::text(name), Cell::text(question)]
    }));
    let end = match experiments.is_empty() {
        true => "no experiments came with this opcost: unpack or install all of its package",
        false => "Use: opcost run NAME",
    };
    document.say(Mark::Note, end);
    Ok(document)
}

/// The cores that ship: name, whether the core is the default, and the core's validation.
fn cores() -> impl Iterator<Item = (&'static str, bool, Option<Validation>)> {
    Core::SHIPPED.iter().map(|(name, text)| {
        let core = Core::parse(text).ok();
        let validation = core.and_then(|core| kept::find(&core.fingerprint()));
        (*name, *name == CORE_DEFAULT, validation)
    })
}

fn cores_document() -> Document {
    let mut document = Document::default();
    document.rows(cores().map(|(name, default, validation)| {
        let said = match validation {
            Some(validation) => format!(
                "validated by {} kernels on {}",
                validation.kernels, validation.validated_on
            ),
            None => "not validated (opcost doctor --validate --core NAME)".into(),
        };
        let default = if default { ", the default" } else { "" };
        vec![Cell::text(name), Cell::text(format!("{said}{default}"))]
    }));
    let usage = "Use: --cycles --core NAME, or a file that opcost doctor --calibrate-core made";
    document.say(Mark::Note, usage);
    document
}

fn cores_json() -> Value {
    let row = |(name, default, validation): (&str, bool, Option<Validation>)| json!({"name": name, "default": default, "validation": validation});
    cores().map(row).collect()
}

fn experiments_json() -> Result<Value> {
    let row = |(name, file, experiment): (String, PathBuf, Experiment)| {
        json!({
            "name": name,
            "question": experiment.question,
            "machine": experiment.machine.unwrap_or_default(),
            "file": file,
        })
    };
    Ok(experiments()?.into_iter().map(row).collect())
}

/// The refusal of a metric that only the emulator counts.
fn emulated_only() -> Refusal {
    Refusal {
        reason: "counted on the emulated machine only".into(),
        remedy: "add --machine emulated".into(),
    }
}

/// Whether a test holds an event's figures against others, and of which kernel or library.
fn checked(event: &Event) -> String {
    match event.checked.starts_with("not ") {
        true => event.checked.into(),
        false => format!("checked with {}", event.checked),
    }
}

fn exact_only() -> Refusal {
    Refusal {
        reason: "an exact event of the emulated machine".into(),
        remedy: "add --machine emulated --count EVENT, or the group in brackets, kernel or all; a checked \
                 event has a test against figures of others"
            .into(),
    }
}

/// One event or metric, and whether it is available here.
struct EventLine {
    name: String,
    aliases: Vec<&'static str>,
    source: &'static str,
    help: String,
    default: bool,
    refusal: Option<Refusal>,
}

fn event_lines() -> Vec<EventLine> {
    let here = HostSurroundings;
    let probe = |name: &str| match syntax::parse(&[name], &here.sysfs()) {
        Ok(events) => here.refusals(&events).into_iter().next().flatten(),
        Err(error) => Some(Refusal { reason: error.to_string(), remedy: String::new() }),
    };
    let is_default = |name: &str| {
        perf_event::DEFAULT_EVENTS.iter().any(|event| event.split(':').next() == Some(name))
    };
    let listed =
        METRICS.iter().filter(|row| opcost_source::source::is_selectable(row)).map(|row| {
            EventLine {
                name: row.name.to_string(),
                aliases: row.aliases.to_vec(),
                source: row.source,
                help: row.help.to_string(),
                default: match row.source {
                    perf_event::NAME => is_default(row.name),
                    source => source != EMULATOR,
                },
                refusal: match row.source {
                    perf_event::NAME => probe(row.name),
                    EMULATOR => Some(emulated_only()),
                    _ => None,
                },
            }
        });
    let named = sysfs::all_events(&here.sysfs()).into_iter().map(|name| EventLine {
        refusal: probe(&name),
        aliases: Vec::new(),
        source: perf_event::NAME,
        help: "named by the kernel".into(),
        default: false,
        name,
    });
    let exact = EVENTS.iter().map(|event| EventLine {
        name: event.metric.name.to_string(),
        aliases: Vec::new(),
        source: EMULATOR,
        help: format!("{} (--count {}; {})", event.metric.help, event.group, checked(event)),
        default: false,
        refusal: Some(exact_only()),
    });
    listed.chain(named).chain(exact).collect()
}

fn events_document() -> Document {
    let mut reasons: Vec<Refusal> = Vec::new();
    let row = |line: EventLine| {
        let (mark, tone) = match line.refusal {
            None if line.default => ("*".to_string(), Tone::Plain),
            None => (String::new(), Tone::Plain),
            Some(refusal) => {
                let known = reasons.iter().position(|reason| *reason == refusal);
                let number = known.unwrap_or_else(|| {
                    reasons.push(refusal);
                    reasons.len() - 1
                });
                (format!("–[{}]", number + 1), Tone::Unsure)
            }
        };
        let texts = [line.name.as_str(), line.source, &line.help].map(Cell::text);
        Row::of([Cell::verdict("", mark, tone)].into_iter().chain(texts).collect())
    };
    let rows = event_lines().into_iter().map(row).collect();
    let columns = ["", "event", "source", "counts"].map(Column::fixed).to_vec();
    let mut document = Document::default();
    document.table(Table { caption: None, columns, rows });
    document.gap();
    let legend = |mark: &str, text: String| vec![Cell::text(mark), Cell::text(text)];
    let others = "also: rNNNN (raw code), pmu/term=value/, system:tracepoint, {a,b} (group); \
                  :u user only, :k kernel only, :D always on the hardware";
    let fixed = [legend("*", "read by default".into()), legend("", others.into())];
    let refused = reasons.iter().enumerate().map(|(index, refusal)| {
        let remedy = match refusal.remedy.as_str() {
            "" => String::new(),
            remedy => format!("; {remedy}"),
        };
        legend(&format!("–[{}]", index + 1), format!("not here: {}{remedy}", refusal.reason))
    });
    document.rows(fixed.into_iter().chain(refused));
    document
}

fn events_json() -> Value {
    event_lines()
        .into_iter()
        .map(|line| {
            json!({
                "name": line.name,
                "aliases": line.aliases,
                "source": line.source,
                "help": line.help,
                "default": line.default,
                "available": line.refusal.is_none(),
                "reason": line.refusal.as_ref().map(|refusal| &refusal.reason),
                "remedy": line.refusal.as_ref().map(|refusal| &refusal.remedy),
            })
        })
        .collect()
}

/// The width that a variant's name has in the list, at most, in columns.
const NAME_WIDTH: usize = 60;
/// The most variants of a recording that are listed one by one.
const VARIANTS_LISTED: usize = 6;

fn recordings_document(listed: &Listed) -> Document {
    let mut document = Document::default();
    let heads = ["recording", "date (UTC)", "state", "runs", "experiment"].map(Column::fixed);
    let below = ["variants", "of"].map(Column::below);
    document.table(Table {
        caption: None,
        columns: heads.into_iter().chain(below).collect(),
        rows: listed.heads.iter().map(recording_row).collect(),
    });
    if listed.heads.is_empty() && listed.damaged.is_empty() {
        document.say(Mark::None, "no recordings yet; make one with opcost compare");
    }
    for damaged in &listed.damaged {
        let text = format!("recording {} is damaged and left out: {}", damaged.name, damaged.why);
        document.say(Mark::Doubt, text);
    }
    document
}

/// A recording; long names are shortened in the middle.
fn recording_row(head: &RecordingHead) -> Row {
    let (state, runs) = match head.imported {
        true => ("imported", String::new()),
        false => (head.state.word(), head.runs.to_string()),
    };
    let shown = match head.variants.len() {
        few if few <= VARIANTS_LISTED => few,
        _ => VARIANTS_LISTED - 1,
    };
    let mut variants: Vec<String> =
        head.variants[..shown].iter().map(|name| cut(&printable(name), NAME_WIDTH)).collect();
    if shown < head.variants.len() {
        variants.push(format!("… and {} more", head.variants.len() - shown));
    }
    let commits = head.revisions.iter().map(Revision::short).collect::<Vec<_>>().join(" ");
    let arrived =
        head.arrived_unix_ns.map_or(String::new(), |ns| format!("arrived in a file {}", date(ns)));
    let mut of = vec![head.label.clone().unwrap_or_default(), commits, arrived];
    of.retain(|text| !text.is_empty());
    Row::of(vec![
        Cell::text(&head.id),
        Cell::text(date(head.created_unix_ns)),
        Cell::text(state),
        Cell::figure(runs),
        Cell::text(cut(&printable(&head.experiment), NAME_WIDTH)),
        Cell::text(variants.join(" | ")),
        Cell::text(of.join("  ")),
    ])
}

fn recordings_json(listed: &Listed) -> Value {
    let damaged =
        listed.damaged.iter().map(|damaged| json!({ "id": damaged.id, "damaged": damaged.why }));
    listed
        .heads
        .iter()
        .map(|head| {
            json!({
                "id": head.id,
                "created_unix_ns": head.created_unix_ns,
                "arrived_unix_ns": head.arrived_unix_ns,
                "experiment": head.experiment,
                "state": head.state.word(),
                "runs": head.runs,
                "imported": head.imported,
                "variants": head.variants,
                "label": head.label,
                "revisions": head.revisions,
            })
        })
        .chain(damaged)
        .collect()
}
