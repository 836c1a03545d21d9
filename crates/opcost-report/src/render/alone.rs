//! One variant by itself: its metrics with their spread, and its most expensive functions.

use super::View;
use super::imported::unit_written;
use super::json::{add_accuracy, name_region};
use super::metrics::{heading, twin};
use opcost_analysis::comparison::{
    Comparison, FIGURE_LEVEL, Figures, FunctionCost, FunctionCosts, Row,
};
use opcost_base::number::{digits, figure, magnitude, scale};
use opcost_page::document::{Cell, Column, Document, Mark, Row as Line, Table};
use opcost_record::metric::{CYCLE_PARTS, CYCLES_FAR, MODEL_CYCLES};
use opcost_record::{Function, Unit};
use serde_json::{Value, json};

/// The most runs of a variant for which the JSON lists the figures of each: more would fill the document.
const VALUES_MAX: usize = 10_000;
/// Functions shown one by one.
const FUNCTIONS_SHOWN: usize = 20;

/// Adds the figures of a variant that is compared with no other, and the labels of the metrics that are 0 in every run; the primary
/// metric is always shown.
pub(super) fn figures(document: &mut Document, comparison: &Comparison) {
    let (mut rows, mut zeros) = (Vec::new(), Vec::new());
    for row in &comparison.rows {
        match &row.values[0] {
            Some(side) if side.max == Some(0.0) && !row.primary => zeros.push(row.label.as_str()),
            Some(side) => rows.push(line(row, side)),
            None => {}
        }
    }
    if let Some((twin, Some(value))) = twin(comparison).map(|twin| (twin, twin.values[0])) {
        let value = Cell::Figure(figure(value, twin.unit));
        let note = Cell::text(format!("included in {}", twin.label));
        let label = Cell::text("our own loop/op");
        rows.push(Line::of(vec![label, value, Cell::Empty, Cell::Empty, Cell::Empty, note]));
    }
    document.table(Table {
        caption: Some(format!("Metrics of {}", comparison.variants[0].name)),
        columns: vec![
            Column::fixed("metric"),
            Column::fixed("median"),
            Column::fixed("±"),
            Column::fixed("interval"),
            Column::optional("lowest … highest", 1),
            Column::note("note"),
        ],
        rows,
    });
    if !zeros.is_empty() {
        document.say(Mark::Note, format!("0 in every run: {}", zeros.join(", ")));
    }
    let note = format!(
        "±: standard deviation; interval: of the median, at {:.0} % confidence",
        100.0 * FIGURE_LEVEL
    );
    document.say(Mark::Note, note);
}

fn line(row: &Row, side: &Figures) -> Line {
    // All cells share the unit that suits the median, so that they compare at a glance. If the median
    // is 0, the unit suits the maximum.
    let largest = side.max.filter(|_| side.center() == 0.0).unwrap_or(side.center());
    let (one, symbol) = scale(&[largest], row.unit);
    let pair = |(low, high): (f64, f64)| format!("{} … {}", digits(low / one), digits(high / one));
    let range = side.min.zip(side.max);
    let (interval, range, note) = match (side.multiplexed, row.exact) {
        (0, true) => (String::new(), String::new(), "same in every run"),
        (0, false) => {
            (side.interval.map_or("–".into(), pair), range.map_or(String::new(), pair), "")
        }
        _ => (String::new(), String::new(), "multiplexed"),
    };
    let spread = side.sd.filter(|sd| *sd > 0.0 && side.center() != 0.0);
    let spread = spread.map_or(String::new(), |sd| format!("±{}", magnitude(sd / side.center())));
    Line::of(vec![
        Cell::text(heading(row).trim_start()),
        Cell::Figure(format!("{}{symbol}", digits(side.center() / one))),
        Cell::figure(spread),
        Cell::figure(interval),
        Cell::figure(range),
        Cell::text(note),
    ])
}

/// Adds the most expensive functions.
pub(super) fn functions(document: &mut Document, comparison: &Comparison) {
    for costs in comparison.function_costs.iter().chain(&comparison.cycle_costs) {
        let of = match &comparison.variants[..] {
            [_] => String::new(),
            several => format!("{}: ", several[costs.variant].name),
        };
        document.section(of + &title(costs));
        // For cycles, the causes matter more than the calls.
        let last = if costs.unit == MODEL_CYCLES { "spent on" } else { "calls" };
        document.table(Table {
            caption: None,
            columns: vec![
                Column::fixed("function"),
                Column::fixed("cost"),
                Column::fixed("share"),
                Column::note(last),
            ],
            rows: function_rows(costs),
        });
        if let Some(by) = &costs.sampled {
            document.say(Mark::Note, format!("estimated from {}", by.describe()));
        }
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

/// The functions that are shown, then the rest.
fn function_rows(costs: &FunctionCosts) -> Vec<Line> {
    let share = |cost: f64| match costs.total {
        total if total > 0.0 => format!("{:.2} %", 100.0 * cost / total),
        _ => "–".into(),
    };
    let (shown, others) = costs.rows.split_at(costs.rows.len().min(FUNCTIONS_SHOWN));
    let line = |name: Cell, own: f64, said: String| {
        Line::of(vec![
            name,
            Cell::Figure(cost(costs, own)),
            Cell::Figure(share(own)),
            Cell::text(said),
        ])
    };
    let row = |row: &FunctionCost| {
        let calls = row.calls.filter(|calls| *calls > 0.0);
        // The mean of equal integers is an integer: undo the rounding of the sum.
        let calls = calls.map(|calls| match calls.round() {
            whole if (calls - whole).abs() <= 1e-9 * whole => whole,
            _ => calls,
        });
        let calls = calls.map_or(String::new(), |calls| {
            format!("{} {}", digits(calls), if calls == 1.0 { "call" } else { "calls" })
        });
        let said = row.parts.as_deref().map(causes).unwrap_or(calls);
        let behind = super::sampled::behind(&Function::new(&*row.symbol, &*row.module));
        line(Cell::Name(row.symbol.clone(), behind), row.own, said)
    };
    let mut rows: Vec<Line> = shown.iter().map(row).collect();
    let mut rest = |name: String, own: f64| rows.push(line(Cell::Text(name), own, String::new()));
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

/// The figures of every variant, metric by metric.
pub(super) fn figures_json<'v>(view: &'v View<'_>) -> impl Iterator<Item = Value> + 'v {
    let comparison = view.comparison;
    comparison.rows.iter().flat_map(move |row| {
        comparison.variants.iter().zip(&row.values).filter_map(move |(variant, side)| {
            let side = side.as_ref()?;
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
            Some(figure)
        })
    })
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
pub(super) const NOTHING_TO_COMPARE: &str = "there is one variant, and nothing to compare it with";
