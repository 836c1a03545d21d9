//! The environment of the runs: the variants, and the machine's state as it is stored.

use crate::render::View;
use maud::{Markup, html};
use opcost_base::number::grouped;
use opcost_model::recording::{MachineState, ProgramState, settings};
use opcost_size::Totals;
use serde_json::Value;

/// Fields of the machine's state that are long and explain little.
const FOLDED: [&str; 6] = [
    "boot_id",
    "boot_parameters",
    "cpu_flags",
    "mitigations",
    "environment_bytes",
    "kernel_version",
];

pub(super) fn section(view: &View<'_>) -> Markup {
    let comparison = view.comparison;
    let states: Vec<Value> = view
        .recording
        .machine
        .iter()
        .filter_map(|state| serde_json::to_value(state).ok())
        .collect();
    let empty = serde_json::Map::new();
    let first = states.first().and_then(Value::as_object).unwrap_or(&empty);
    // Kernels, guests and the guest's build have rows of their own, programs a table, and data is many files.
    let apart =
        |name: &str| ["data", "guest_build", "guests", "kernels", "programs"].contains(&name);
    let known = |(name, value): &(&String, &Value)| !is_absent(value) && !apart(name);
    let is_folded = |name: &str| FOLDED.contains(&name);
    let (folded, open): (Vec<_>, Vec<_>) =
        first.iter().filter(known).partition(|(name, _)| is_folded(name));
    let absent: Vec<String> =
        first.iter().filter(|(_, value)| is_absent(value)).map(|(name, _)| words(name)).collect();
    html! {
        table class="stacks" {
            caption { "What was compared" }
            thead {
                tr {
                    th scope="col" { "variant" }
                    th scope="col" { "what it runs" }
                    th scope="col" class="number" { "runs" }
                    th scope="col" class="number" { "failed" }
                }
            }
            tbody {
                @for variant in &comparison.variants {
                    tr {
                        th scope="row" { (variant.name) }
                        td data-label="work" { code { (variant.work) } }
                        td class="number" data-label="runs" { (variant.runs_finished) }
                        td class=(if variant.runs_failed > 0 { "number worse" } else { "number" }) data-label="failed" {
                            (variant.runs_failed)
                        }
                    }
                }
            }
        }
        @for line in &comparison.guests { p { (line) } }
        @if let Some(provenance) = view.recording.plan.provenance() { p { (provenance) } }
        @if let Some(words) = view.recording.machine.first().and_then(MachineState::emulated_words) { p { (words) } }
        @if first.is_empty() {
            p { "The state of the machine was not recorded." }
        } @else {
            table class="stacks" {
                caption { "The machine when the recording was begun" }
                thead { tr { th scope="col" { "what" } th scope="col" { "state" } } }
                tbody {
                    @for (name, value) in open {
                        tr { th scope="row" { (words(name)) } td data-label="state" { (shown(value)) } }
                    }
                    @for kernel in &view.recording.machine[0].kernels {
                        tr {
                            th scope="row" { "kernel of variant " (comparison.variants.get(kernel.variant).map_or("?", |variant| &variant.name)) }
                            td data-label="state" { (kernel.name) ", release " (kernel.release) ", SHA-256 " code { (kernel.digest) } }
                        }
                    }
                }
            }
            (programs(&view.recording.machine[0].programs))
            @if !folded.is_empty() {
                @let names: Vec<String> = folded.iter().map(|(name, _)| words(name)).collect();
                details {
                    summary { "More of the machine: " (names.join(", ")) }
                    table class="stacks" {
                        caption { "More of the machine" }
                        thead { tr { th scope="col" { "what" } th scope="col" { "state" } } }
                        tbody {
                            @for (name, value) in folded {
                                tr { th scope="row" { (words(name)) } td data-label="state" { (shown(value)) } }
                            }
                        }
                    }
                }
            }
            // The computer that runs the emulator does not affect the counts.
            @if !absent.is_empty() && view.recording.plan.emulation().is_none() { p { "Not known: " (absent.join(", ")) "." } }
        }
        @for later in view.recording.machine.windows(2) {
            @let changes = changes(view, &later[0], &later[1]);
            @if !changes.is_empty() {
                h3 { "Changed while the recording was made" }
                ul { @for change in changes { li { (change) } } }
            }
        }
    }
}

/// A part of a program in memory: its name, and its size in bytes.
type Part = (&'static str, fn(&Totals) -> u64);
const PARTS: [Part; 3] = [
    ("text", |sizes| sizes.text_bytes),
    ("data", |sizes| sizes.data_bytes),
    ("bss", |sizes| sizes.bss_bytes),
];

/// The programs that were run; a program that several variants ran stands once.
fn programs(all: &[ProgramState]) -> Markup {
    let mut programs: Vec<&ProgramState> = Vec::new();
    for program in all {
        if !programs.contains(&program) {
            programs.push(program);
        }
    }
    let sized = programs.iter().any(|program| program.sizes.is_some());
    html! {
        @if !programs.is_empty() {
            details {
              summary { "Programs and files with their checksums (" (programs.len()) ")" }
            table class="stacks" {
                caption { "Programs" }
                thead {
                    tr {
                        th scope="col" { "program" }
                        th scope="col" class="number" { "bytes" }
                        @if sized { @for (name, _) in PARTS { th scope="col" class="number" { (name) } } }
                        th scope="col" { "SHA-256" }
                    }
                }
                tbody {
                    @for program in programs {
                        tr {
                            th scope="row" { code { (program.path.to_string_lossy()) } }
                            td class="number" data-label="bytes" { (grouped(program.length_bytes)) }
                            @if sized {
                                @for (name, part) in PARTS {
                                    td class="number" data-label=(name) {
                                        (program.sizes.as_ref().map_or("–".into(), |sizes| grouped(part(sizes))))
                                    }
                                }
                            }
                            td data-label="SHA-256" { code { (program.sha256) } }
                        }
                    }
                }
            }
            }
        }
    }
}

/// The changes made while the recording was made to the state that its figures depend on.
fn changes(view: &View<'_>, before: &MachineState, after: &MachineState) -> Vec<String> {
    before.differences(after, settings::is_emulated(&view.recording.plan))
}

fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The name of a field as words.
fn words(name: &str) -> String {
    name.replace('_', " ")
}

fn shown(value: &Value) -> Markup {
    html! {
        @match value {
            Value::String(text) => (text),
            Value::Bool(true) => "yes",
            Value::Bool(false) => "no",
            Value::Array(items) if items.iter().all(|item| !item.is_object()) => {
                @let items: Vec<String> = items.iter().map(plain).collect();
                (items.join(if items.iter().any(|item| item.contains(',')) { "; " } else { ", " }))
            }
            Value::Array(items) => { ul class="plain" { @for item in items { li { (shown(item)) } } } }
            Value::Object(fields) => {
                ul class="plain" {
                    @for (name, value) in fields.iter().filter(|(_, value)| !is_absent(value)) {
                        li { (words(name)) ": " (shown(value)) }
                    }
                }
            }
            other => (plain(other)),
        }
    }
}

fn plain(value: &Value) -> String {
    match (value.as_str(), value.as_u64()) {
        (Some(text), _) => text.to_string(),
        (None, Some(number)) => grouped(number),
        (None, None) => value.to_string(),
    }
}
