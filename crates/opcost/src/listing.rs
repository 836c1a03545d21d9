//! `opcost list`.

use crate::action::{print, store_path};
use crate::cli::{Cli, ListArgs, Listing};
use crate::exit::{HasStatus, Status};
use crate::import::command::list_formats;
use crate::machine::host::HostSurroundings;
use crate::plan::{Revision, Surroundings};
use crate::render::Style;
use crate::render::page::{BOLD, DIM, PLAIN, Page};
use crate::source::perf_event::{self, syntax, sysfs};
use crate::store::{RecordingHead, Store, StoreError, StoreErrorKind};
use anyhow::{Context, Result};
use opcost_record::METRICS;
use opcost_record::metric::EMULATOR;
use opcost_sys::perf::Refusal;
use opcost_work::WORKLOADS;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Lists what was asked for.
pub fn list(cli: &Cli, args: &ListArgs) -> Result<Status> {
    let style = Style::detect(cli.no_color);
    let text = match (args.what, args.json) {
        (Listing::Workloads, false) => workloads_text(&style),
        (Listing::Workloads, true) => json_text(workloads_json())?,
        (Listing::Events, false) => events_text(&style),
        (Listing::Events, true) => json_text(events_json())?,
        (Listing::Formats, as_json) => return list_formats(as_json),
        (Listing::Recordings, as_json) => {
            let heads = match Store::open_for_reading(&store_path(cli)?) {
                Ok(store) => store.list().map_err(StoreError::carried)?,
                Err(error) if error.kind == StoreErrorKind::Absent && as_json => Vec::new(),
                Err(error) => return Err(error.carried()),
            };
            if as_json { json_text(recordings_json(&heads))? } else { recordings_text(&heads) }
        }
    };
    print(&text)?;
    Ok(Status::Done)
}

fn json_text(value: Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(&value).context("list to JSON")? + "\n")
}

/// Lists of values that are longer have spaces, at which lines can be broken.
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

/// Why what the emulator counts is not counted on the host.
fn emulated_only() -> Refusal {
    Refusal {
        reason: "counted on the emulated machine only".into(),
        remedy: "add --machine emulated".into(),
    }
}

/// One event or metric and whether it can be had here.
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
        METRICS.iter().filter(|row| crate::source::is_selectable(row)).map(|row| EventLine {
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
        let text = format!("not here: {}; {}", refusal.reason, refusal.remedy);
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

fn recordings_text(heads: &[RecordingHead]) -> String {
    let mut text = String::new();
    for head in heads {
        let _ = writeln!(
            text,
            "{:<14} {}  {}  {}: {}",
            head.id,
            date(head.created_unix_ns),
            match head.imported {
                true => format!("{:<26}", "imported"),
                false => format!("{:<14} {:>6} runs", head.state.word(), head.runs),
            },
            head.experiment,
            head.variants.join(" | ")
        );
        // On a line of its own, as variants may be long.
        let commits = head.revisions.iter().map(Revision::short).collect::<Vec<_>>().join(" ");
        let told = [head.label.clone().unwrap_or_default(), commits];
        let told: Vec<&str> =
            told.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        if !told.is_empty() {
            let _ = writeln!(text, "{:<14} {}", "", told.join("  "));
        }
    }
    if heads.is_empty() {
        text.push_str("no recordings yet; make one with opcost compare\n");
    }
    text
}

fn recordings_json(heads: &[RecordingHead]) -> Value {
    heads
        .iter()
        .map(|head| {
            json!({
                "id": head.id,
                "created_unix_ns": head.created_unix_ns,
                "experiment": head.experiment,
                "state": head.state.word(),
                "runs": head.runs,
                "imported": head.imported,
                "variants": head.variants,
                "label": head.label,
                "revisions": head.revisions,
            })
        })
        .collect()
}

/// A moment in UTC, to the minute.
pub(crate) fn date(unix_ns: u64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(unix_ns))
        .map_or_else(|_| "?".into(), |time| time.strftime("%Y-%m-%d %H:%M").to_string())
}
