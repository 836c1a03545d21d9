//! `opcost list`.

use crate::command::globals::Globals;
use crate::command::import::list_formats;
use crate::command::output::print;
use anyhow::Result;
use clap::{Args, ValueEnum};
use opcost_base::exit::{HasStatus, Status, WithStatus};
use opcost_base::time::date;
use opcost_core_model::Core;
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::resolve::Surroundings;
use opcost_lab::shipped::Shipped;
use opcost_model::experiment::Experiment;
use opcost_model::plan::guest::CORE_DEFAULT;
use opcost_model::plan::{Revision, Validation};
use opcost_model::validation::kept;
use opcost_record::METRICS;
use opcost_record::metric::EMULATOR;
use opcost_record::printable::printable;
use opcost_report::render::Style;
use opcost_report::render::names::cut;
use opcost_report::render::page::{BOLD, DIM, PLAIN, Page, YELLOW};
use opcost_source::source::perf_event::{self, syntax, sysfs};
use opcost_store::store::{Listed, RecordingHead, Store, StoreError, StoreErrorKind};
use opcost_sys::perf::Refusal;
use opcost_work::WORKLOADS;
use serde_json::{Value, json};
use std::path::PathBuf;
use unicode_width::UnicodeWidthStr;

/// Arguments of `opcost list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// What to list
    pub what: Listing,

    /// Print JSON
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
pub fn list(globals: &Globals, args: &ListArgs) -> Result<Status> {
    let style = globals.style();
    let text = match (args.what, args.json) {
        (Listing::Workloads, false) => workloads_text(&style),
        (Listing::Workloads, true) => json_text(workloads_json())?,
        (Listing::Events, false) => events_text(&style),
        (Listing::Events, true) => json_text(events_json())?,
        (Listing::Formats, as_json) => return list_formats(as_json),
        (Listing::Experiments, false) => experiments_text(&style)?,
        (Listing::Experiments, true) => json_text(experiments_json()?)?,
        (Listing::Cores, false) => cores_text(&style),
        (Listing::Cores, true) => json_text(cores_json())?,
        (Listing::Recordings, as_json) => {
            let listed = match Store::open_for_reading(&globals.store_path()?) {
                Ok(store) => store.list_all().map_err(StoreError::carried)?,
                Err(error) if error.kind == StoreErrorKind::Absent && as_json => Listed::default(),
                Err(error) => return Err(error.carried()),
            };
            match as_json {
                true => json_text(recordings_json(&listed))?,
                false => recordings_text(&listed, &style),
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

fn workloads_text(style: &Style) -> String {
    let mut page = Page::new(style);
    for spec in WORKLOADS {
        page.wrap(BOLD, "", &format!("{}: {}", spec.name, spec.summary));
        page.wrap(PLAIN, "  ", &format!("one operation is {}", spec.operation));
        for param in spec.all_params() {
            let given = format!("{}={}", param.name, param.default);
            let long = param.values.len() > VALUES_WIDTH;
            let values = if long { param.values.replace('|', " | ") } else { param.values.into() };
            page.wrap(PLAIN, &format!("  {given:<17} "), &format!("{} [{values}]", param.help));
        }
        page.line("");
    }
    page.wrap(DIM, "", "Use: opcost compare -w NAME:KEY=VALUE,... -w NAME:KEY=VALUE,...");
    page.into_text()
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

fn experiments_text(style: &Style) -> Result<String> {
    let mut page = Page::new(style);
    let experiments = experiments()?;
    let width = experiments.iter().map(|(name, ..)| name.width()).max().unwrap_or_default();
    for (name, _, experiment) in &experiments {
        let question = experiment.question.as_deref().unwrap_or_default();
        page.wrap(PLAIN, &format!("{name:<width$}  "), question);
    }
    let end = match experiments.is_empty() {
        true => "no experiments came with this opcost: unpack or install all of its package",
        false => "Use: opcost run NAME",
    };
    page.wrap(DIM, "", end);
    Ok(page.into_text())
}

/// The cores that ship: name, whether the core is the default, and the core's validation.
fn cores() -> impl Iterator<Item = (&'static str, bool, Option<Validation>)> {
    Core::SHIPPED.iter().map(|(name, text)| {
        let core = Core::parse(text).ok();
        let validation = core.and_then(|core| kept::find(&core.fingerprint()));
        (*name, *name == CORE_DEFAULT, validation)
    })
}

fn cores_text(style: &Style) -> String {
    let mut page = Page::new(style);
    for (name, default, validation) in cores() {
        let said = match validation {
            Some(validation) => format!(
                "validated by {} kernels on {}",
                validation.kernels,
                printable(&validation.validated_on)
            ),
            None => "not validated (opcost doctor --validate --core NAME)".into(),
        };
        let default = if default { ", the default" } else { "" };
        page.wrap(PLAIN, &format!("{name:<6}  "), &format!("{said}{default}"));
    }
    page.wrap(
        DIM,
        "",
        "Use: --cycles --core NAME, or a file that opcost doctor --calibrate-core made",
    );
    page.into_text()
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

/// One event or metric, and whether it is available here.
struct EventLine {
    name: String,
    aliases: Vec<&'static str>,
    source: &'static str,
    help: &'static str,
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
                help: row.help,
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
        help: "named by the kernel",
        default: false,
        name,
    });
    listed.chain(named).collect()
}

fn events_text(style: &Style) -> String {
    let mut page = Page::new(style);
    let mut reasons: Vec<Refusal> = Vec::new();
    for line in event_lines() {
        let (mark, color) = match &line.refusal {
            None if line.default => ("*".to_string(), PLAIN),
            None => (String::new(), PLAIN),
            Some(refusal) => {
                let known =
                    reasons.iter().position(|reason| reason == refusal).unwrap_or_else(|| {
                        reasons.push(refusal.clone());
                        reasons.len() - 1
                    });
                (format!("–[{}]", known + 1), DIM)
            }
        };
        page.wrap(color, &format!("{mark:<5}{:<24} {:<10} ", line.name, line.source), line.help);
    }
    page.line("");
    page.wrap(PLAIN, "*    ", "read by default");
    page.wrap(
        PLAIN,
        "     ",
        "also: rNNNN (raw code), pmu/term=value/, system:tracepoint, {a,b} (group); \
         :u user only, :k kernel only, :D always on the hardware",
    );
    for (index, refusal) in reasons.iter().enumerate() {
        let text = match refusal.remedy.as_str() {
            "" => format!("not here: {}", refusal.reason),
            remedy => format!("not here: {}; {remedy}", refusal.reason),
        };
        page.wrap(PLAIN, &format!("–[{}] ", index + 1), &text);
    }
    page.into_text()
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

/// Columns that a variant's line is indented by, and the least width of a recording's name.
const INDENT: usize = 15;
/// The most variants of a recording that are listed one by one.
const VARIANTS_LISTED: usize = 6;

fn recordings_text(listed: &Listed, style: &Style) -> String {
    let mut page = Page::new(style);
    for head in &listed.heads {
        recording_lines(&mut page, head);
    }
    if listed.heads.is_empty() && listed.damaged.is_empty() {
        page.wrap(PLAIN, "", "no recordings yet; make one with opcost compare");
    }
    for damaged in &listed.damaged {
        let text = format!("recording {} is damaged and left out: {}", damaged.name, damaged.why);
        page.wrap(YELLOW, "! ", &text);
    }
    page.into_text()
}

/// Writes a recording as one line, or if names are long, as a line for each variant, shortened in the middle.
fn recording_lines(page: &mut Page, head: &RecordingHead) {
    let made = match head.imported {
        true => format!("{:<26}", "imported"),
        false => format!("{:<14} {:>6} runs", head.state.word(), head.runs),
    };
    let begin = format!("{:<14} {}  {made}  ", head.id, date(head.created_unix_ns));
    let name = printable(&head.experiment);
    let variants: Vec<String> = head.variants.iter().map(|name| printable(name)).collect();
    let all = format!("{begin}{name}: {}", variants.join(" | "));
    if all.width() <= page.width {
        page.line(&all);
    } else {
        let room = page.width.saturating_sub(begin.width()).max(INDENT);
        page.line(&format!("{begin}{}", cut(&name, room)));
        let own = page.width.saturating_sub(INDENT);
        let shown = match variants.len() {
            few if few <= VARIANTS_LISTED => few,
            _ => VARIANTS_LISTED - 1,
        };
        for variant in &variants[..shown] {
            page.line(&format!("{:INDENT$}{}", "", cut(variant, own)));
        }
        if shown < variants.len() {
            page.line(&format!("{:INDENT$}… and {} more", "", variants.len() - shown));
        }
    }
    let commits = head.revisions.iter().map(Revision::short).collect::<Vec<_>>().join(" ");
    let arrived =
        head.arrived_unix_ns.map_or(String::new(), |ns| format!("arrived in a file {}", date(ns)));
    let told = [head.label.clone().unwrap_or_default(), commits, arrived];
    let told: Vec<&str> = told.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    if !told.is_empty() {
        page.wrap(PLAIN, &" ".repeat(INDENT), &told.join("  "));
    }
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
