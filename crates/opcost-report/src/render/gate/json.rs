//! Everything as JSON.

use super::GateView;
use anyhow::Result;
use opcost_gate::gate::key::KeyDifference;
use opcost_gate::gate::report::{Against, CaseReport, FigureReport, Outcome, RevisionSide};
use serde_json::{Value, json};

/// Version of the format.
const SCHEMA: u32 = 1;

pub(super) fn render(view: &GateView<'_>) -> Result<String> {
    let report = view.report;
    let (base, baseline) = match &report.against {
        Against::Base(base) => (Some(side(base)), None),
        Against::Baseline { path } => (None, Some(path)),
    };
    let value = json!({
        "schema": SCHEMA,
        "verdict": report.verdict().word(),
        "headline": report.headline(),
        "to_do": report.to_do(),
        "base": base,
        "baseline": baseline,
        "tip": side(&report.tip),
        "branch": report.branch.as_ref().map(|branch| json!({
            "left": branch.left,
            "head": side(&branch.head),
            "commits": branch.commits,
        })),
        "reproduction": report.reproduction(),
        "culprit": report.culprit().map(|(words, commands)| json!({
            "words": words,
            "commands": commands,
        })),
        "cases": report.cases.iter().map(case).collect::<Vec<_>>(),
        "suite_changes": report.suite_changes,
        "baseline_without_case": report.orphans,
        "accepted": report.accepted().iter().map(|one| json!({
            "commit": one.commit,
            "text": one.text,
        })).collect::<Vec<_>>(),
        "notes": report.notes,
        "updated": report.updated,
        "soft": view.soft,
    });
    opcost_base::json::document(&value, "the report")
}

fn side(side: &RevisionSide) -> Value {
    json!({ "name": side.name, "commit": side.commit, "subject": side.subject })
}

fn case(case: &CaseReport) -> Value {
    json!({
        "name": case.name,
        "verdict": case.verdict().word(),
        "work": case.work,
        "failure": case.failure_words(),
        "figures": case.figures.iter().map(figure).collect::<Vec<_>>(),
        "functions": case.functions.as_ref().map(|functions| json!({
            "unit": functions.unit(),
            "total": functions.total,
            "unattributed": functions.unattributed,
            "rows": functions.rows.iter().filter(|row| row.own.change != 0.0).map(|row| json!({
                "symbol": row.symbol,
                "module": row.module,
                "source": row.source,
                "own": row.own,
                "calls": row.calls,
                "change_from_calls": row.split().map(|split| split.from_calls),
                "change_from_price": row.split().map(|split| split.from_price),
                "callers": row.callers.iter().map(|caller| json!({
                    "symbol": caller.symbol,
                    "module": caller.module,
                    "own": caller.own,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })),
        "exact_functions": {
            "layouts_baseline": case.exact.1,
            "rows": case.exact.0.iter().map(|change| json!(change)).collect::<Vec<_>>(),
        },
        "functions_missing": case.functions_missing,
        "recounted": case.recounted.as_ref().map(|recount| json!({
            "written": side(&recount.written),
            "differences": parts(&recount.differences),
        })),
        "recordings": { "base": case.recordings[0], "tip": case.recordings[1] },
        "counted": case.counted,
        "place": case.place.as_ref().map(|place| json!({ "file": place.file, "line": place.line })),
        "key": case.key.parts().map(|(name, value)| (name.to_string(), json!(value)))
            .collect::<serde_json::Map<_, _>>(),
    })
}

fn parts(differences: &[KeyDifference]) -> Vec<Value> {
    let part =
        |one: &KeyDifference| json!({ "part": one.part, "baseline": one.baseline, "now": one.now });
    differences.iter().map(part).collect()
}

fn figure(figure: &FigureReport) -> Value {
    let differences = match &figure.outcome {
        Outcome::NotComparable(differences) => parts(differences),
        _ => Vec::new(),
    };
    json!({
        "metric": figure.metric,
        "unit": figure.unit.symbol(),
        "baseline": figure.baseline,
        "value": figure.value,
        "change": figure.change(),
        "change_ratio": figure.ratio(),
        "floor": figure.floor.map(|floor| floor.most as f64),
        "floor_layouts": figure.floor.and_then(|floor| floor.layouts),
        "exact_change": figure.exact,
        "change_layouts": figure.in_layouts.map(|in_layouts| in_layouts.layouts),
        "over_commits": figure.over_commits,
        "limit_ratio": figure.limit.and_then(|limit| limit.ratio),
        "limit_absolute": figure.limit.and_then(|limit| Some(limit.absolute?.value)),
        "outcome": figure.outcome.word(),
        "reason": figure.words(),
        "differences": differences,
    })
}
