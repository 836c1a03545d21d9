//! One variant by itself: its metrics with their spread, and its most expensive functions.

use super::View;
use super::imported::unit_written;
use super::json::{add_accuracy, name_region};
use super::page::{BOLD, DIM, PLAIN, Page, align, fit};
use super::text::{heading, twin};
use opcost_analysis::comparison::{
    Comparison, FIGURE_LEVEL, Figures, FunctionCost, FunctionCosts, Row,
};
use opcost_base::number::{digits, figure, magnitude, scale};
use opcost_record::metric::{CYCLE_PARTS, CYCLES_FAR, MODEL_CYCLES};
use opcost_record::{Function, Unit};
use serde_json::{Value, json};
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

/// The most runs of a variant for which the JSON lists the figures of each: more would fill the document.
const VALUES_MAX: usize = 10_000;
/// Functions shown one by one.
const FUNCTIONS_SHOWN: usize = 20;
/// Minimum width of a metric's name, in columns.
const LABEL_WIDTH_MIN: usize = 15;
/// Columns of a row that are not the function's name.
const OTHER_COLUMNS: usize = 36;
/// Width of the gap in front of a column.
const GAP: usize = 2;

/// A row's figures as tables show them.
pub(super) struct Cells {
    pub(super) label: String,
    pub(super) median: String,
    pub(super) spread: String,
    pub(super) interval: String,
    pub(super) range: String,
}

/// The rows to show, and the labels of the rows that are 0 in every run; the primary metric is always shown.
pub(super) fn cells(comparison: &Comparison) -> (Vec<Cells>, Vec<&str>) {
    let (mut shown, mut zeros) = (Vec::new(), Vec::new());
    for row in &comparison.rows {
        match &row.values[0] {
            Some(side) if side.max == Some(0.0) && !row.primary => zeros.push(row.label.as_str()),
            Some(side) => shown.push(cells_of(row, side)),
            None => {}
        }
    }
    (shown, zeros)
}

fn cells_of(row: &Row, side: &Figures) -> Cells {
    // All cells share the unit that suits the median, so that they compare at a glance. If the median
    // is 0, the unit suits the maximum.
    let largest = side.max.filter(|_| side.center() == 0.0).unwrap_or(side.center());
    let (one, symbol) = scale(&[largest], row.unit);
    let pair = |(low, high): (f64, f64)| format!("{} … {}", digits(low / one), digits(high / one));
    let alike = "the same every run".to_string();
    let range = side.min.zip(side.max);
    let (interval, range) = match (side.multiplexed, row.exact) {
        (0, true) => (alike, String::new()),
        (0, false) => (side.interval.map_or("–".into(), pair), range.map_or(String::new(), pair)),
        _ => ("multiplexed".into(), String::new()),
    };
    let spread = side.sd.filter(|sd| *sd > 0.0 && side.center() != 0.0);
    Cells {
        label: heading(row),
        median: format!("{}{symbol}", digits(side.center() / one)),
        spread: spread.map_or(String::new(), |sd| format!("±{}", magnitude(sd / side.center()))),
        interval,
        range,
    }
}

/// The table for people.
pub(super) fn text(page: &mut Page, comparison: &Comparison) {
    let (rows, zeros) = cells(comparison);
    const HEADS: [&str; 4] = ["median", "±", "interval", "lowest … highest"];
    let columns =
        |row: &'_ Cells| [&row.median, &row.spread, &row.interval, &row.range].map(String::clone);
    // Each column is as wide as its widest cell, so that no number is cut.
    let mut widths = HEADS.map(UnicodeWidthStr::width);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(columns(row)) {
            *width = (*width).max(cell.width());
        }
    }
    let taken = |columns: usize| widths[..columns].iter().map(|width| GAP + width).sum::<usize>();
    let fits = |columns: usize| 2 + LABEL_WIDTH_MIN + taken(columns) <= page.width;
    let shown = if fits(4) { 4 } else { 3 };
    let room = page.width.saturating_sub(2 + taken(shown)).max(LABEL_WIDTH_MIN);
    let label_width = rows.iter().map(|row| row.label.width()).max().unwrap_or(0);
    let label_width = label_width.clamp(LABEL_WIDTH_MIN, room);
    let line = |label: &str, cells: &[String]| {
        let cells = cells.iter().zip(widths).take(shown);
        let cells: String = cells.map(|(cell, width)| align(cell, GAP + width)).collect();
        format!("  {}{cells}", fit(label, label_width)).trim_end().to_string()
    };
    let head = page.paint(BOLD, &line("", &HEADS.map(str::to_string)));
    page.line(&head);
    for row in &rows {
        let mut label = row.label.as_str();
        // Long labels stand on a line of their own.
        if label.width() > label_width {
            page.line(&format!("  {label}"));
            label = "";
        }
        page.line(&line(label, &columns(row)));
    }
    if let Some((twin, Some(value))) = twin(comparison).map(|twin| (twin, twin.values[0])) {
        let text = line("our own loop/op", &[figure(value, twin.unit)]);
        let text = page.paint(DIM, &format!("{text}  included in {}", twin.label));
        page.line(&text);
    }
    if !zeros.is_empty() {
        page.wrap(DIM, "  ", &format!("0 in every run: {}", zeros.join(", ")));
    }
    let note = format!(
        "±: standard deviation; interval: of the median, at {:.0} % confidence",
        100.0 * FIGURE_LEVEL
    );
    page.wrap(DIM, "  ", &note);
}

/// The most expensive functions, for people.
pub(super) fn functions_text(page: &mut Page, comparison: &Comparison) {
    for costs in comparison.function_costs.iter().chain(&comparison.cycle_costs) {
        costs_text(page, costs);
    }
}

fn costs_text(page: &mut Page, costs: &FunctionCosts) {
    page.line("");
    page.wrap(BOLD, "  ", &title(costs));
    let widest = page.width.saturating_sub(OTHER_COLUMNS);
    let rows = function_rows(costs, |row| page.name(&row.symbol, &behind(row), widest));
    let width = |of: fn(&[String; 4]) -> &String| rows.iter().map(move |row| of(row).width()).max();
    let name_width = width(|row| &row[0]).unwrap_or(0).clamp(16, page.room(widest));
    let widths = [width(|row| &row[1]).unwrap_or(0), width(|row| &row[2]).unwrap_or(0)];
    for [name, own, share, calls] in &rows {
        let (own, share) = (align(own, widths[0]), align(share, widths[1]));
        let line = format!("    {}  {own}  {share}  ", fit(name, name_width));
        // The last causes are dropped until the line fits; the first is the largest.
        let mut said = calls.as_str();
        while line.width() + said.width() > page.width
            && let Some((fewer, _)) = said.rsplit_once(", ")
        {
            said = fewer;
        }
        page.line(format!("{line}{said}").trim_end());
    }
    if let Some(by) = &costs.sampled {
        page.wrap(DIM, "    ", &format!("estimated from {}", by.describe()));
    }
}

fn title(costs: &FunctionCosts) -> String {
    let per = if costs.per_op { "an operation" } else { "a run" };
    match &costs.sampled {
        Some(_) => format!("where the task-clock of {per}, {}, is spent", cost(costs, costs.total)),
        None => format!("where the {} {} of {per} are spent", cost(costs, costs.total), costs.unit),
    }
}

fn cost(costs: &FunctionCosts, cost: f64) -> String {
    figure(cost, if costs.sampled.is_some() { Unit::Ns } else { Unit::Count })
}

/// Name, cost, share and calls of the functions that are shown, then of the rest.
///
/// `name` formats a function's name.
fn function_rows(
    costs: &FunctionCosts,
    mut name: impl FnMut(&FunctionCost) -> String,
) -> Vec<[String; 4]> {
    let share = |cost: f64| match costs.total {
        total if total > 0.0 => format!("{:.2} %", 100.0 * cost / total),
        _ => "–".into(),
    };
    let (shown, others) = costs.rows.split_at(costs.rows.len().min(FUNCTIONS_SHOWN));
    let mut row = |row: &FunctionCost| {
        let calls = row.calls.filter(|calls| *calls > 0.0);
        // The mean of equal integers is an integer: undo the rounding of the sum.
        let calls = calls.map(|calls| match calls.round() {
            whole if (calls - whole).abs() <= 1e-9 * whole => whole,
            _ => calls,
        });
        let calls = calls.map_or(String::new(), |calls| {
            format!("{} {}", digits(calls), if calls == 1.0 { "call" } else { "calls" })
        });
        // For cycles, the causes matter more than the calls.
        let said = row.parts.as_deref().map(causes).unwrap_or(calls);
        [name(row), cost(costs, row.own), share(row.own), said]
    };
    let mut rows: Vec<[String; 4]> = shown.iter().map(&mut row).collect();
    let mut rest = |name: String, own: f64| {
        rows.push([name, cost(costs, own), share(own), String::new()]);
    };
    if !others.is_empty() {
        let own = others.iter().map(|row| row.own).sum();
        rest(format!("{} other functions", others.len()), own);
    }
    if costs.unattributed > 0.0 {
        rest(opcost_analysis::comparison::UNATTRIBUTED.into(), costs.unattributed);
    }
    rows
}

/// The causes of a function's modelled cycles, largest first, without those below a tenth.
fn causes(parts: &[f64]) -> String {
    let names = CYCLE_PARTS.iter().map(|name| name.trim_start_matches("model-cycles-"));
    let mut causes: Vec<(&str, f64)> = names.zip(parts.iter().copied()).collect();
    let all: f64 = causes.iter().map(|(_, part)| part).sum();
    causes.retain(|(_, part)| *part >= 0.1 * all && *part > 0.0);
    causes.sort_by(|one, two| two.1.total_cmp(&one.1));
    let words = causes.iter().map(|(name, part)| format!("{name} {:.0} %", 100.0 * part / all));
    words.collect::<Vec<_>>().join(", ")
}

/// The text behind a function's name: its module, unless that is the kernel.
fn behind(cost: &FunctionCost) -> String {
    super::sampled::behind(&Function::new(&*cost.symbol, &*cost.module))
}

/// The tables of metrics and of functions, for a mail or a pull request.
pub(super) fn markdown(text: &mut String, comparison: &Comparison, escape: fn(&str) -> String) {
    let (rows, _) = cells(comparison);
    text.push_str("\n| metric | median | ± | interval | lowest … highest |\n");
    text.push_str("|:---|---:|---:|---:|---:|\n");
    for row in rows {
        let cells = [row.label, row.median, row.spread, row.interval, row.range];
        let _ = writeln!(text, "| {} |", cells.map(|cell| escape(&cell)).join(" | "));
    }
    for costs in comparison.function_costs.iter().chain(&comparison.cycle_costs) {
        let _ = writeln!(text, "\n{}:\n", escape(&title(costs)));
        let last = if costs.unit == MODEL_CYCLES { "spent on" } else { "calls" };
        let _ = writeln!(text, "| function | cost | share | {last} |\n|:---|---:|---:|---:|");
        for row in function_rows(costs, |row| format!("{}{}", row.symbol, behind(row))) {
            let _ = writeln!(text, "| {} |", row.map(|cell| escape(&cell)).join(" | "));
        }
    }
}

/// The figures of every variant, metric by metric.
pub(super) fn figures_json(view: &View<'_>) -> Vec<Value> {
    let comparison = view.comparison;
    let mut figures = Vec::new();
    for row in &comparison.rows {
        for (variant, side) in comparison.variants.iter().zip(&row.values) {
            let Some(side) = side else { continue };
            let mut figure = json!({
                "metric": row.key.name,
                "domain": row.key.domain,
                "unit": unit_written(view.recording, row).unwrap_or(row.unit.symbol()),
                "better": row.better,
                "per_op": row.per_op,
                "source": row.key.source,
                "kind": row.kind,
                "primary": row.primary,
                "exact": row.exact,
                "variant": variant.name,
                "n": side.n,
                "median": side.median,
                "mean": side.mean,
                "sd": side.sd,
                "min": side.min,
                "max": side.max,
                "ci_low": side.interval.map(|(low, _)| low),
                "ci_high": side.interval.map(|(_, high)| high),
                "ci_level": side.interval.map(|_| FIGURE_LEVEL),
                "multiplexed": side.multiplexed,
                "values": Some(&side.values).filter(|values| values.len() <= VALUES_MAX),
            });
            name_region(row, &mut figure);
            add_accuracy(row, &mut figure);
            figures.push(figure);
        }
    }
    figures
}

/// The functions of a variant that is compared with no other, with their costs.
pub(super) fn functions_json(costs: Option<&FunctionCosts>) -> Value {
    let Some(costs) = costs else { return Value::Null };
    let row = |row: &FunctionCost| {
        let mut shown = json!({"symbol": row.symbol, "module": row.module, "value": row.own, "calls": row.calls});
        if let Some(parts) = &row.parts {
            let parts = CYCLE_PARTS.iter().chain([&CYCLES_FAR]).zip(parts);
            shown["parts"] =
                Value::Object(parts.map(|(name, part)| (name.to_string(), json!(part))).collect());
        }
        shown
    };
    json!({
        "unit": costs.unit,
        "per_op": costs.per_op,
        "kind": match (&costs.sampled, costs.unit) {
            (Some(_), _) => "sampled",
            (None, MODEL_CYCLES) => "modelled",
            (None, _) => "counted",
        },
        "total": costs.total,
        "unattributed": costs.unattributed,
        "functions": costs.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

/// The message of formats that need two variants, if there is only one.
pub(super) fn nothing_to_compare(page: &mut Page) {
    page.wrap(PLAIN, "  ", "there is one variant, and nothing to compare it with");
}
