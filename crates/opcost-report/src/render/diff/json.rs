//! The difference for programs.

use super::Shown;
use crate::render::json::{function, sites};
use opcost_analysis::comparison::UNATTRIBUTED;
use opcost_analysis::comparison::recorded_profiles::Difference;
use serde_json::{Value, json};

/// Every function, the largest change first, and the unattributed cost.
pub fn json(difference: &Difference) -> Value {
    let shown = Shown::of(difference, usize::MAX);
    let functions = &difference.functions;
    let names = difference.sides.each_ref().map(|side| &side.name);
    let share = |change: f64| match functions.total.change {
        0.0 => Value::Null,
        total => json!(change / total),
    };
    let rows = functions.rows.iter().map(|row| {
        let mut value = function(functions, row, names);
        let callees = shown.callees.get(&(row.symbol.as_str(), row.module.as_str()));
        let callees = callees.into_iter().flatten();
        value["share"] = share(row.own.change);
        value["files"] = json!(difference.owners.files(row));
        value["callees"] =
            callees.map(|(symbol, change)| json!({"symbol": symbol, "change": change})).collect();
        value
    });
    let rest = &functions.unattributed;
    let unattributed = json!({
        "symbol": UNATTRIBUTED,
        "module": null,
        "value_baseline": rest.value_baseline,
        "value": rest.value,
        "change": rest.change,
        "share": share(rest.change),
    });
    let sides = difference.sides.iter().map(|side| {
        json!({
            "recording": side.recording,
            "experiment": side.experiment,
            "variant": side.name,
            "work": side.work,
            "runs": side.runs,
            "machine": side.machine,
            "provenance": side.provenance,
            "invocation": side.invocation,
        })
    });
    json!({
        "schema": 1,
        "sides": sides.collect::<Vec<Value>>(),
        "metric": difference.tree.counted.words,
        "per_op": functions.per_op,
        "paired": difference.paired,
        "total": functions.total,
        "verdict": functions.verdict,
        "functions": rows.chain([unattributed]).collect::<Vec<Value>>(),
        "covered": {
            "functions": shown.leading,
            "share": functions.covered(shown.leading),
        },
        "modules_matched": functions.modules,
        "patch_sites": sites(&difference.patch_sites, |of| &*difference.sides[of].name),
        "owners_unknown": difference.owners.unknown(&functions.rows),
        "notes": difference.notes,
    })
}
