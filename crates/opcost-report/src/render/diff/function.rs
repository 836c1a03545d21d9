//! One function with its callers and callees on both sides.

use super::cost;
use crate::render::functions::{sensible, signed_figure};
use opcost_analysis::comparison::Sides;
use opcost_analysis::comparison::call_tree::{ContextRow, FunctionContext};
use opcost_analysis::comparison::recorded_profiles::Difference;
use opcost_analysis::split::calls_in_words;
use opcost_page::document::{Cell, Column, Document, Mark, Row as Line, Table};
use serde_json::{Value, json};

/// A table about one function: a heading, then rows of name, calls and cost.
struct Section<'a> {
    heading: &'static str,
    rows: Vec<Row<'a>>,
}

/// A row of a section: name, calls, cost.
type Row<'a> = (&'a str, Option<&'a Sides>, &'a Sides);

fn rows(rows: &[ContextRow]) -> Vec<Row<'_>> {
    rows.iter().map(|row| (row.symbol.as_str(), Some(&row.calls), &row.cost)).collect()
}

fn sections(context: &FunctionContext) -> [Section<'_>; 2] {
    let mut callers = rows(&context.callers);
    callers.push(("all: its own cost", Some(&context.calls), &context.own));
    let mut callees = vec![("itself", None, &context.own_outermost)];
    callees.extend(rows(&context.callees));
    callees.push(("all: with everything called", None, &context.inclusive));
    [
        Section { heading: "called from, with its own cost then", rows: callers },
        Section { heading: "calls, with everything these call", rows: callees },
    ]
}

fn title(difference: &Difference, context: &FunctionContext) -> String {
    let [baseline, variant] = difference.sides.each_ref().map(|side| &side.name);
    let module = match context.function.module.as_str() {
        kernel if kernel.starts_with('[') => kernel.to_string(),
        "" => String::new(),
        file => format!("({file})"),
    };
    let name = &context.function.symbol;
    format!("{name} {module}: {variant} against {baseline}, {}", difference.tree.unit())
}

/// The sentence on the runs that the figures are means of.
fn runs(difference: &Difference) -> String {
    let [one, two] = [0, 1].map(|side| &difference.tree.sides[side]);
    format!(
        "means of {} runs of {} (recording {}) and {} of {} ({})",
        one.runs, one.name, one.recording, two.runs, two.name, two.recording
    )
}

/// The report on one function.
pub fn function_document(difference: &Difference, context: &FunctionContext) -> Document {
    let mut document = Document::titled(title(difference, context));
    document.say(Mark::Note, runs(difference));
    let sampled = difference.functions.sampled.is_some();
    for section in sections(context) {
        document.gap();
        let [baseline, variant] = difference.sides.each_ref().map(|side| Column::named(&side.name));
        // Samples do not count calls.
        let calls = if difference.tree.per_op { "calls/op" } else { "calls/run" };
        let rows =
            section.rows.into_iter().map(|(name, calls, cost)| row(name, calls, cost, sampled));
        document.table(Table {
            caption: None,
            columns: vec![
                Column::fixed(section.heading),
                Column::fixed(calls),
                baseline,
                variant,
                Column::fixed("change"),
            ],
            rows: rows.collect(),
        });
    }
    document
}

/// Calls, cost on both sides, and the change of cost.
fn row(name: &str, calls: Option<&Sides>, figures: &Sides, sampled: bool) -> Line {
    let calls = calls.filter(|calls| calls.value_baseline > 0.0 || calls.value > 0.0);
    let calls = calls.map_or(String::new(), |calls| {
        let [before, after] = [calls.value_baseline, calls.value]
            .map(|calls| if calls == 0.0 { "–".into() } else { calls_in_words(calls) });
        if before == after { before } else { format!("{before} → {after}") }
    });
    let change = match figures.change {
        0.0 => "=".into(),
        change => signed_figure(sensible(change, sampled)),
    };
    let figures =
        [calls, cost(figures.value_baseline, sampled), cost(figures.value, sampled), change];
    let name = Cell::Name(name.to_string(), String::new());
    Line::of([name].into_iter().chain(figures.map(Cell::figure)).collect())
}

/// One function with its callers and callees, for programs.
pub fn function_json(difference: &Difference, context: &FunctionContext) -> Value {
    let rows = |rows: &[ContextRow]| -> Vec<Value> {
        rows.iter()
            .map(|row| {
                json!({
                    "symbol": row.symbol,
                    "module": row.module,
                    "calls": row.calls,
                    "cost": row.cost,
                })
            })
            .collect()
    };
    json!({
        "schema": 1,
        "symbol": context.function.symbol,
        "module": context.function.module,
        "metric": difference.tree.counted.words,
        "per_op": difference.tree.per_op,
        "sides": difference.tree.sides.iter().map(|side| json!({
            "recording": side.recording,
            "variant": side.name,
            "runs": side.runs,
        })).collect::<Vec<Value>>(),
        "calls": context.calls,
        "own": context.own,
        "own_outermost": context.own_outermost,
        "inclusive": context.inclusive,
        "callers": rows(&context.callers),
        "callees": rows(&context.callees),
    })
}
