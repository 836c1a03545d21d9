//! A profile for programs.

use super::{View, losses};
use opcost_profile::symbolise::{Sampled, Why, WithoutInlined};
use opcost_profile::table::{CallerTree, FunctionCost, FunctionTable, caller_tree};
use serde_json::{Value, json as value};

/// Version of the document.
const SCHEMA: u32 = 1;

/// The document that `opcost profile --json` prints: every function, or only `view.function`.
pub fn json(view: &View<'_>) -> Value {
    let about = &view.profile.about;
    let table = &view.profile.table;
    let sampled = view.profile.sampled.as_ref();
    let sampling = about.sampling.as_ref();
    let of_function = |(at, cost): (usize, &FunctionCost)| function(view, table, at, cost);
    let functions: Vec<Value> = match view.function {
        Some(at) => vec![of_function((at, &table.functions[at]))],
        None => view.order.iter().map(|at| of_function((*at, &table.functions[*at]))).collect(),
    };
    let distortions = view.distortions.iter().map(|distortion| {
        let functions = distortion.functions.iter().map(|(function, cost)| {
            let symbol = view.naming.symbol(function);
            value!({"symbol": symbol, "module": function.module, "cost": cost})
        });
        value!({
            "kind": distortion.kind.word(),
            "meaning": distortion.kind.meaning(),
            "cost": distortion.cost,
            "share": ratio(distortion.cost, table.total),
            "functions": functions.collect::<Vec<_>>(),
        })
    });
    value!({
        "schema": SCHEMA,
        "format": about.format,
        "event": about.event,
        "events": about.events,
        "unit": view.unit().symbol(),
        "kind": match sampled.map(Sampled::samples_known) {
            Some(Some(_)) => "sampled",
            Some(None) => "unknown",
            None if view.profile.is_counted() => "counted",
            None => "unknown",
        },
        "precise": sampling.and_then(|sampling| sampling.precise),
        "counted_with": sampling.and_then(|sampling| sampling.counted_with.as_ref()),
        "frequency_hz": sampling.and_then(|sampling| sampling.frequency_hz),
        "period": sampling.and_then(|sampling| sampling.period),
        "command": about.command,
        "files": about.files,
        "host": about.host,
        "kernel_release": about.kernel_release,
        "duration_ns": about.duration_ns,
        "cpu_ns": about.cpu_ns,
        "cpu_share_sampled": view.covered().map(|(share, _)| share),
        "ops": view.ops,
        "samples": sampled.and_then(Sampled::samples_known),
        "cost": table.total,
        "unattributed": table.unattributed,
        "functions": functions,
        "distortions": distortions.collect::<Vec<_>>(),
        "losses": sampled.map(lost),
        "unfinished": about.unfinished,
        "notes": losses::losses(view.profile),
    })
}

fn function(view: &View<'_>, table: &FunctionTable, at: usize, cost: &FunctionCost) -> Value {
    let callers = table.callers(at).map(|edge| {
        let caller = edge.caller.map(|caller| &table.functions[caller].function);
        value!({
            "symbol": caller.map(|caller| view.naming.symbol(caller)),
            "module": caller.map(|caller| &caller.module),
            "inclusive": edge.cost,
            "calls": edge.calls,
        })
    });
    let mut document = value!({
        "symbol": view.naming.symbol(&cost.function),
        "module": cost.function.module,
        "source": cost.function.source,
        "cost": cost.own,
        "share": ratio(cost.own, table.total),
        "inclusive": cost.inclusive,
        "inclusive_share": cost.inclusive.map(|inclusive| ratio(inclusive, table.total)),
        "samples": cost.samples,
        "inlined_samples": view.profile.sampled.as_ref().map(|_| cost.inlined_samples),
        "calls": cost.calls,
        "code_bytes": cost.bytes,
        "callers": callers.collect::<Vec<_>>(),
    });
    if let Some(sampled) = view.profile.sampled.as_ref()
        && (view.callers || view.function.is_some())
        && let Some(number) =
            sampled.profile.functions.iter().position(|function| *function == cost.function)
    {
        document["caller_tree"] =
            tree(sampled, &caller_tree(sampled, number as u32), CALLERS_DEEP_MAX);
    }
    document
}

/// The most levels of callers: each takes two levels of JSON, and common readers accept 128.
const CALLERS_DEEP_MAX: usize = 50;

fn tree(sampled: &Sampled, node: &CallerTree, deep: usize) -> Value {
    let function = &sampled.profile.functions[node.function as usize];
    let shown = if deep > 0 { &node.callers[..] } else { &[] };
    let mut document = value!({
        "symbol": function.symbol,
        "module": function.module,
        "cost": node.cost,
        "samples": node.samples,
        "callers": shown.iter().map(|caller| tree(sampled, caller, deep - 1)).collect::<Vec<_>>(),
    });
    if shown.len() < node.callers.len() {
        document["callers_left_out"] = true.into();
    }
    document
}

fn lost(sampled: &Sampled) -> Value {
    let losses = &sampled.losses;
    let unnamed = sampled.unnamed.iter().map(|unnamed| {
        let why = match &unnamed.why {
            Why::Gone => "gone",
            Why::OtherBuild => "other build",
            Why::Doubtful => "doubtful",
            Why::Unreadable(_) => "unreadable",
            Why::Hidden => "hidden",
            Why::Stripped => "no symbol",
            Why::NotLookedUp => "not looked up",
            Why::NoMap => "no map",
            Why::Unmapped => "unmapped",
        };
        value!({"module": unnamed.module, "why": why, "samples": unnamed.samples})
    });
    let frameless = sampled.frameless.iter().map(|(function, samples)| {
        let function = &sampled.profile.functions[*function as usize];
        value!({"symbol": function.symbol, "module": function.module, "samples": samples})
    });
    let without_inlined = sampled.without_inlined.iter().map(|(module, why)| {
        let why = match why {
            WithoutInlined::TooDeep => "too deep",
            WithoutInlined::Unreadable => "unreadable",
            WithoutInlined::TooLarge => "too large",
            WithoutInlined::Elsewhere => "elsewhere",
        };
        value!({"module": module, "why": why})
    });
    value!({
        "lost_events": losses.lost_events,
        "throttles": losses.throttles,
        "stacks_cut": losses.stacks_cut,
        "stacks_not_unwound": losses.stacks_not_unwound,
        "stacks_beyond_copy": losses.stacks_beyond_copy,
        "stacks_astray": losses.stacks_astray,
        "unmapped_samples": losses.unmapped_samples,
        "unmapped_callers": losses.unmapped_callers,
        "samples_alone": losses.samples_alone,
        "guest_samples": losses.guest_samples,
        "left_out": losses.left_out,
        "other_events": losses.other_events,
        "without_stack": losses.without_stack,
        "waiting": losses.waiting,
        "odd_lines": losses.odd_lines.lines,
        "first_odd_line": losses.odd_lines.first.as_ref().map(|(line, _)| line),
        "broken_records": losses.damage.records,
        "first_broken_at": losses.damage.first_at.map(|place| place.at),
        "first_broken_in": losses.damage.first_at.and_then(|place| place.file_name()),
        "unreadable_from": losses.damage.rest_from.map(|place| place.at),
        "unreadable_in": losses.damage.rest_from.and_then(|place| place.file_name()),
        "frameless": frameless.collect::<Vec<_>>(),
        "unnamed": unnamed.collect::<Vec<_>>(),
        "unchecked": sampled.unchecked,
        "without_inlined": without_inlined.collect::<Vec<_>>(),
    })
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
