//! One function with its callers and callees on both sides.

use super::{cost, count};
use crate::render::Style;
use crate::render::functions::{LISTED_NAME_WIDTH, sensible, signed_figure};
use crate::render::markdown::escape;
use crate::render::page::{BOLD, DIM, PLAIN, Page, align, column, fit};
use opcost_analysis::comparison::Sides;
use opcost_analysis::comparison::call_tree::{ContextRow, FunctionContext};
use opcost_analysis::comparison::recorded_profiles::Difference;
use serde_json::{Value, json};
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

/// Minimum width of a figure, in columns.
const FIGURE_WIDTH_MIN: usize = 10;

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

fn title(difference: &Difference, context: &FunctionContext, page: &mut Page) -> String {
    let [baseline, variant] = difference.sides.each_ref().map(|side| &side.name);
    let module = match context.function.module.as_str() {
        kernel if kernel.starts_with('[') => kernel.to_string(),
        "" => String::new(),
        file => format!("({file})"),
    };
    let name = page.name(&context.function.symbol, "", LISTED_NAME_WIDTH);
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

fn calls_heading(difference: &Difference) -> &'static str {
    if difference.tree.per_op { "calls/op" } else { "calls/run" }
}

/// The page of one function.
pub fn function_text(difference: &Difference, context: &FunctionContext, style: &Style) -> String {
    let mut page = Page::new(style);
    page.wrap(BOLD, "", &title(difference, context, &mut Page::new(style)));
    page.wrap(DIM, "  ", &runs(difference));
    let sections = sections(context);
    let sampled = difference.functions.sampled.is_some();
    let figures: Vec<Vec<[String; 5]>> = sections
        .iter()
        .map(|section| {
            section.rows.iter().map(|(_, calls, cost)| figures(*calls, cost, sampled)).collect()
        })
        .collect();
    let all = || figures.iter().flatten();
    // Samples do not count calls.
    let counted = all().any(|row| !row[0].is_empty());
    let width = |at: usize| match at < 2 && !counted {
        true => 0,
        false => column(all().map(|row| row[at].as_str()), FIGURE_WIDTH_MIN),
    };
    let widths = [0, 1, 2, 3, 4].map(width);
    let names = difference.sides.each_ref().map(|side| side.name.as_str());
    let long = names.iter().any(|name| name.width() >= widths[2].min(widths[3]));
    if long {
        page.wrap(PLAIN, "  ", &format!("A: {}; B: {}", names[0], names[1]));
    }
    let [baseline, variant] = if long { ["A", "B"] } else { names };
    let taken = 2 + widths.iter().sum::<usize>();
    let name_width = page.width.saturating_sub(taken).clamp(16, 60);
    let cells = |name: &str, figures: [&str; 5]| {
        let figures = figures.iter().zip(widths).filter(|(_, width)| *width > 0);
        let figures: String = figures.map(|(figure, width)| align(figure, width)).collect();
        format!("  {}{figures}", fit(name, name_width))
    };
    for (section, figures) in sections.iter().zip(&figures) {
        page.line("");
        // Each of these headings stands above two columns.
        let heading = section.heading;
        let calls = if counted { calls_heading(difference) } else { "" };
        let over = (name_width + widths[0] + widths[1]).saturating_sub(heading.width());
        let head = format!(
            "  {heading}{}{}{}",
            align(calls, over.max(calls.width() + usize::from(counted))),
            align("cost", widths[2] + widths[3]),
            align("change", widths[4])
        );
        let head = page.paint(BOLD, &head);
        page.line(&head);
        page.line(&cells("", [baseline, variant, baseline, variant, ""]));
        for ((name, ..), figures) in section.rows.iter().zip(figures) {
            let width = if name.width() > name_width { page.width - 2 } else { name_width };
            let mut name = page.name(name, "", width);
            if name.width() > name_width {
                page.line(&format!("  {name}"));
                name.clear();
            }
            page.line(&cells(&name, figures.each_ref().map(String::as_str)));
        }
    }
    page.into_text()
}

/// Calls and cost on both sides, and the change of cost.
fn figures(calls: Option<&Sides>, figures: &Sides, sampled: bool) -> [String; 5] {
    let calls = calls.filter(|calls| calls.value_baseline > 0.0 || calls.value > 0.0);
    let calls = calls.map_or([String::new(), String::new()], |calls| {
        [calls.value_baseline, calls.value]
            .map(|calls| if calls == 0.0 { "–".into() } else { count(calls) })
    });
    let change = match figures.change {
        0.0 => "=".into(),
        change => signed_figure(sensible(change, sampled)),
    };
    let [before, after] = calls;
    [before, after, cost(figures.value_baseline, sampled), cost(figures.value, sampled), change]
}

/// The page of one function as Markdown.
pub fn function_markdown(
    difference: &Difference,
    context: &FunctionContext,
    style: &Style,
) -> String {
    let sampled = difference.functions.sampled.is_some();
    let mut page = Page::new(style);
    let title = escape(&title(difference, context, &mut page));
    let mut text = format!("**{title}**\n\n{}\n", escape(&runs(difference)));
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
                [count(calls.value_baseline), count(calls.value)]
            });
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} |",
                escape(&page.name(name, "", LISTED_NAME_WIDTH)),
                calls[0],
                calls[1],
                cost(figures.value_baseline, sampled),
                cost(figures.value, sampled),
                signed_figure(sensible(figures.change, sampled))
            );
        }
    }
    text
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
