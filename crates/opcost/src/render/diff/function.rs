//! One function with its callers and callees on both sides.

use super::super::Style;
use super::super::functions::signed_figure;
use super::super::markdown::escape;
use super::super::page::{BOLD, DIM, Page, fit};
use super::{cost, plain};
use crate::comparison::Sides;
use crate::comparison::difference::Difference;
use crate::comparison::function_context::{ContextRow, FunctionContext};
use serde_json::{Value, json};
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

/// Columns of a figure.
const FIGURE_WIDTH: usize = 10;

/// What is shown of one function: a heading, then rows of a name, calls and cost.
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
    format!(
        "{} {module}: {variant} against {baseline}, {}",
        context.function.symbol,
        difference.tree.unit()
    )
}

/// What the figures are of.
fn runs(difference: &Difference) -> String {
    let [one, two] = [0, 1].map(|side| &difference.tree.sides[side]);
    format!(
        "means of {} runs of {} (recording {}) and {} of {} ({})",
        one.runs, one.name, one.recording, two.runs, two.name, two.recording
    )
}

fn calls_heading(difference: &Difference) -> &'static str {
    if difference.tree.per_op { "calls/op" } else { "calls/run" }
}

/// A figure in its column.
fn figure(text: &str) -> String {
    format!(" {}", fit(text, FIGURE_WIDTH - 1, true))
}

/// The page of one function.
pub fn function_text(difference: &Difference, context: &FunctionContext, style: &Style) -> String {
    let mut page = Page::new(style);
    page.wrap(BOLD, "", &title(difference, context));
    page.wrap(DIM, "  ", &runs(difference));
    let name_width = page.width.saturating_sub(2 + 5 * FIGURE_WIDTH).clamp(16, 60);
    for section in sections(context) {
        page.line("");
        let wide = 2 * FIGURE_WIDTH;
        let head = format!(
            "  {}{}{}{}",
            fit(section.heading, name_width.max(section.heading.width()), false),
            fit(
                calls_heading(difference),
                wide - section.heading.width().saturating_sub(name_width),
                true
            ),
            fit("cost", wide, true),
            fit("change", FIGURE_WIDTH, true)
        );
        let head = page.paint(BOLD, &head);
        page.line(&head);
        let [baseline, variant] = difference.sides.each_ref().map(|side| figure(&side.name));
        page.line(&format!("  {}{baseline}{variant}{baseline}{variant}", " ".repeat(name_width)));
        for (name, calls, figures) in section.rows {
            let mut name = name.to_string();
            if name.width() > name_width {
                page.line(&format!("  {}", fit(&name, (page.width - 2).min(name.width()), false)));
                name.clear();
            }
            // Samples count no calls.
            let calls = calls.filter(|calls| calls.value_baseline > 0.0 || calls.value > 0.0);
            let calls = calls.map_or([String::new(), String::new()], |calls| {
                [cost(calls.value_baseline), cost(calls.value)]
            });
            let change = match figures.change {
                0.0 => "=".into(),
                change => signed_figure(change),
            };
            let [before, after] = [cost(figures.value_baseline), cost(figures.value)];
            page.line(&format!(
                "  {}{}{}{}{}{}",
                fit(&name, name_width, false),
                figure(&calls[0]),
                figure(&calls[1]),
                figure(&before),
                figure(&after),
                figure(&change)
            ));
        }
    }
    page.into_text()
}

/// The same as Markdown.
pub fn function_markdown(difference: &Difference, context: &FunctionContext) -> String {
    let mut text =
        format!("**{}**\n\n{}\n", escape(&title(difference, context)), escape(&runs(difference)));
    let [baseline, variant] = difference.sides.each_ref().map(|side| escape(&side.name));
    for section in sections(context) {
        let _ = writeln!(
            text,
            "\n| {} | calls, {baseline} | calls, {variant} | {baseline} | {variant} | change |",
            section.heading
        );
        text.push_str("|:---|---:|---:|---:|---:|---:|\n");
        for (name, calls, figures) in section.rows {
            let calls = calls.map_or([String::new(), String::new()], |calls| {
                [plain(calls.value_baseline), plain(calls.value)]
            });
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} |",
                escape(name),
                calls[0],
                calls[1],
                cost(figures.value_baseline),
                cost(figures.value),
                signed_figure(figures.change)
            );
        }
    }
    text
}

/// The same for programs.
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
        "metric": difference.tree.metric,
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
