//! The difference of two profiles in files, for people and for programs.

use super::{behind, counted};
use crate::comparison::profile_difference::{
    FALSE_SHARE, Judged, Measure, ProfileDifference, ProfileRow, RowVerdict,
};
use crate::number::{figure, grouped, percent};
use crate::render::Style;
use crate::render::functions::{BY_NAME_ONLY, list, matching_notes, signed_figure};
use crate::render::page::{BOLD, DIM, GREEN, PLAIN, Page, RED, YELLOW, align, column, fit};
use opcost_record::Unit;
use serde_json::{Value, json as value};
use unicode_width::UnicodeWidthStr;

/// Version of the document.
const SCHEMA: u32 = 1;
/// Columns of a figure, at least, and of what stands behind them.
const FIGURE_WIDTH_MIN: usize = 12;
const MARK_WIDTH: usize = 18;

/// The page that `opcost diff` prints of two files; `limit`: functions shown one by one.
pub fn text(difference: &ProfileDifference, limit: usize, style: &Style) -> String {
    let mut page = Page::new(style);
    let [one, two] = &difference.names;
    page.wrap(BOLD, "", &format!("{two} against {one}: {} by function", difference.event));
    page.wrap(PLAIN, "  ", &totals(difference));
    page.wrap(DIM, "  ", &judged(difference));
    page.line("");
    let table = Table::of(difference, limit, page.width);
    let long = difference.names.iter().any(|name| name.width() >= table.figure_width);
    let names = if long { ["A", "B"] } else { [one.as_str(), two.as_str()] };
    if long {
        page.wrap(PLAIN, "  ", &format!("A: {one}"));
        page.wrap(PLAIN, "  ", &format!("B: {two}"));
    }
    let head = table.cells("function", [names[0], names[1], "change"], "");
    let head = page.paint(BOLD, &head);
    page.line(&head);
    let changed = difference.rows.partition_point(|row| row.change != 0.0);
    let (shown, rest) = difference.rows.split_at(limit.min(changed));
    let (other, unchanged) = rest.split_at(changed - shown.len());
    for row in shown {
        table.row(&mut page, row);
    }
    for (rows, what) in [(other, "other function"), (unchanged, "unchanged function")] {
        if !rows.is_empty() {
            let sum = |side: usize| rows.iter().map(|row| row.value[side]).sum::<f64>();
            let name = counted(rows.len() as u64, what);
            table.sums(&mut page, PLAIN, &name, [sum(0), sum(1)]);
        }
    }
    if let Some(row) = &difference.unattributed {
        table.sums(&mut page, PLAIN, &row.function.symbol, row.value);
    }
    table.sums(&mut page, BOLD, "total", difference.total.value);
    footnotes(&mut page, difference, shown);
    for note in &difference.notes {
        page.wrap(YELLOW, "! ", note);
    }
    page.into_text()
}

/// Both totals in words.
fn totals(difference: &ProfileDifference) -> String {
    let unit = if difference.clock { Unit::Ns } else { Unit::Count };
    let side = |at: usize| {
        let cost = figure(difference.total_cost[at] as f64, unit);
        let samples = difference
            .samples
            .map_or(String::new(), |samples| format!(" in {}", counted(samples[at], "sample")));
        let ops = difference.ops.map_or(String::new(), |ops| format!(", {} ops", grouped(ops[at])));
        format!("{cost}{samples}{ops}")
    };
    let total = &difference.total;
    let change = match difference.measure {
        Measure::Share => {
            "; shown are shares of each, as the work of neither is known (--ops)".into()
        }
        _ => {
            let ratio = percent(total.change / total.value[0]);
            let said = match (total.verdict, difference.judged) {
                (RowVerdict::Changed, _) => ", real".to_string(),
                (RowVerdict::Differs, Judged::Exact) => ", exact for these two".to_string(),
                (RowVerdict::Differs, _) => ", differs".to_string(),
                (RowVerdict::Unchanged, _) => ", no change found".to_string(),
                (RowVerdict::Inconclusive, Judged::Sampling) => ", within chance".to_string(),
                (RowVerdict::Inconclusive, _) => format!(", {}", total.reason),
            };
            format!(" ({ratio}{said})")
        }
    };
    format!("{} → {}{change}", side(0), side(1))
}

fn judged(difference: &ProfileDifference) -> String {
    let [one, two] = difference.files.each_ref().map(Vec::len);
    match difference.judged {
        Judged::Files => format!(
            "figures are means over {one} and {two} files, the units of the test (rank sums); at most \
             one in 20 of the functions called changed is expected to be false; an order of running \
             that favours a side looks like a change, so take the sides in turns"
        ),
        Judged::Sampling => {
            "differs: by more than sampling does (exact test of two Poisson counts, \
             corrected for all functions)"
                .into()
        }
        Judged::Exact => "counted, not sampled: each difference is exact for these two runs".into(),
        Judged::Nothing => {
            "these files have costs and no number of samples, so no function is called different"
                .into()
        }
    }
}

/// What the marks mean, where they occur, and how files were matched.
fn footnotes(page: &mut Page, difference: &ProfileDifference, shown: &[ProfileRow]) {
    let open = |row: &&ProfileRow| !row.verdict.is_found() && row.change != 0.0;
    if let Some(first) = shown.iter().find(open) {
        page.line("");
        page.wrap(DIM, "  ", &not_real(difference, first, shown));
    }
    if shown.iter().any(|row| row.by_name_only) {
        page.wrap(DIM, "  ", BY_NAME_ONLY);
    }
    page.note_shortened("  ");
    let sides = difference.names.each_ref().map(String::as_str);
    for note in matching_notes(&difference.modules, difference.unmatched.as_ref(), sides) {
        page.wrap(DIM, "  ", &note);
    }
}

/// What `?` means; `first`: the first row that has it.
fn not_real(difference: &ProfileDifference, first: &ProfileRow, shown: &[ProfileRow]) -> String {
    if difference.judged == Judged::Nothing {
        return "?: cannot be told".into();
    }
    if difference.judged != Judged::Files {
        return "?: so many samples more or less can be chance".into();
    }
    let mut text = "?: not shown to be real".to_string();
    let needs = shown.iter().find(|row| row.reason.starts_with("needs"));
    if let Some(needs) = needs.filter(|_| first.verdict == RowVerdict::Inconclusive) {
        text += &format!("; with so many functions a verdict {}", needs.reason);
    }
    text
}

struct Table<'a> {
    difference: &'a ProfileDifference,
    name_width: usize,
    figure_width: usize,
}

impl<'a> Table<'a> {
    fn of(difference: &'a ProfileDifference, limit: usize, width: usize) -> Table<'a> {
        let mut table = Table { difference, name_width: 0, figure_width: 0 };
        let rows = difference.rows.iter().take(limit).chain([&difference.total]);
        let figures: Vec<String> = rows
            .flat_map(|row| {
                [table.figure(row.value[0]), table.figure(row.value[1]), table.change(row.change)]
            })
            .collect();
        table.figure_width = column(figures.iter().map(String::as_str), FIGURE_WIDTH_MIN);
        let taken = 2 + 3 * table.figure_width + MARK_WIDTH;
        table.name_width = width.saturating_sub(taken).clamp(20, 60);
        table
    }

    fn figure(&self, value: f64) -> String {
        if value == 0.0 {
            return "–".into();
        }
        match self.difference.measure {
            Measure::Share => format!("{:.2} %", 100.0 * value),
            _ => figure(value, if self.difference.clock { Unit::Ns } else { Unit::Count }),
        }
    }

    fn change(&self, change: f64) -> String {
        let sign = if change < 0.0 { "−" } else { "+" };
        match self.difference.measure {
            Measure::Share => format!("{sign}{:.2} pp", 100.0 * change.abs()),
            _ if self.difference.clock => format!("{sign}{}", figure(change.abs(), Unit::Ns)),
            _ => signed_figure(change),
        }
    }

    fn cells(&self, name: &str, figures: [&str; 3], mark: &str) -> String {
        let figures: String = figures.iter().map(|text| align(text, self.figure_width)).collect();
        format!("  {}{figures}  {mark}", fit(name, self.name_width))
    }

    fn sums(&self, page: &mut Page, style: anstyle::Style, name: &str, value: [f64; 2]) {
        // What is left of numbers that cancel.
        let largest = value[0].abs().max(value[1].abs());
        let change = value[1] - value[0];
        let change = if change.abs() < 1e-9 * largest { 0.0 } else { change };
        let figures = [self.figure(value[0]), self.figure(value[1]), self.change(change)];
        let line = self.cells(name, figures.each_ref().map(String::as_str), "");
        let line = page.paint(style, &line);
        page.line(&line);
    }

    fn row(&self, page: &mut Page, row: &ProfileRow) {
        let behind = behind(&row.function);
        let width = match row.function.symbol.width() + behind.width() {
            short if short <= self.name_width => self.name_width,
            _ => page.width - 2,
        };
        let mut name = page.name(&row.function.symbol, &behind, width);
        // A long name stands on a line of its own.
        if name.width() > self.name_width {
            page.line(&format!("  {name}"));
            name.clear();
        }
        let figures =
            [self.figure(row.value[0]), self.figure(row.value[1]), self.change(row.change)];
        let mut marks = Vec::new();
        match row.cost {
            [0, _] => marks.push("new".to_string()),
            [_, 0] => marks.push("gone".to_string()),
            _ => {}
        }
        if row.by_name_only {
            marks.push("≈".into());
        }
        match (row.verdict, row.p_adjusted) {
            (RowVerdict::Changed, Some(p)) if p < 1e-4 => marks.push("p < 0.0001".into()),
            (RowVerdict::Changed, Some(p)) => marks.push(format!("p {p:.4}")),
            (RowVerdict::Changed, None) => marks.push("exact".into()),
            (RowVerdict::Differs, _) => marks.push("differs".into()),
            _ if row.change != 0.0 => marks.push("?".into()),
            _ => {}
        }
        let figures = figures.each_ref().map(String::as_str);
        let line = self.cells(&name, figures, &marks.join(" "));
        let color = match (row.verdict, row.change > 0.0) {
            (RowVerdict::Changed, true) => RED,
            (RowVerdict::Changed, false) => GREEN,
            (RowVerdict::Differs, _) => BOLD,
            _ => PLAIN,
        };
        let line = page.paint(color, &line);
        page.line(&line);
        if row.verdict.is_found() && !row.callers.is_empty() {
            let named: Vec<(&str, String)> = row
                .callers
                .iter()
                .map(|(caller, change)| (caller.as_str(), format!(" {}", self.change(*change))))
                .collect();
            let from = list(page, "← ", &named, page.width - 6);
            let line = page.paint(DIM, &format!("      {from}"));
            page.line(&line);
        }
    }
}

/// The document that `opcost diff --json` prints of two files: every function.
pub fn json(difference: &ProfileDifference) -> Value {
    let measure = match difference.measure {
        Measure::PerOp => "cost per op",
        Measure::Share => "share",
        Measure::Counted => "cost",
    };
    let row = |row: &ProfileRow| {
        let callers =
            row.callers.iter().map(|(symbol, change)| value!({"symbol": symbol, "change": change}));
        value!({
            "symbol": row.function.symbol,
            "module": row.function.module,
            "module_baseline": row.module_baseline.as_ref().unwrap_or(&row.function.module),
            "by_name_only": row.by_name_only,
            "cost_baseline": row.cost[0],
            "cost": row.cost[1],
            "samples_baseline": row.samples.map(|samples| samples[0]),
            "samples": row.samples.map(|samples| samples[1]),
            "value_baseline": row.value[0],
            "value": row.value[1],
            "change": row.change,
            "p_adjusted": row.p_adjusted,
            "ci_low": row.ci.map(|(low, _)| low),
            "ci_high": row.ci.map(|(_, high)| high),
            "verdict": row.verdict.word(),
            "reason": row.reason,
            "callers": callers.collect::<Vec<_>>(),
        })
    };
    value!({
        "schema": SCHEMA,
        "baseline": difference.names[0],
        "variant": difference.names[1],
        "files_baseline": difference.files[0],
        "files": difference.files[1],
        "judged_by": match difference.judged {
            Judged::Files => "files",
            Judged::Sampling => "sampling",
            Judged::Nothing => "nothing",
            Judged::Exact => "exact",
        },
        "event": difference.event,
        "unit": if difference.clock { "ns" } else { "1" },
        "measure": measure,
        "kind": match (difference.counted, difference.samples) {
            (true, _) => "counted",
            (false, Some(_)) => "sampled",
            (false, None) => "unknown",
        },
        "exact": difference.judged == Judged::Exact,
        "ci_level": difference.ci_level,
        "false_discovery_rate": (difference.judged == Judged::Files).then_some(FALSE_SHARE),
        "ops_baseline": difference.ops.map(|ops| ops[0]),
        "ops": difference.ops.map(|ops| ops[1]),
        "total": row(&difference.total),
        "unattributed": difference.unattributed.as_ref().map(row),
        "functions": difference.rows.iter().map(row).collect::<Vec<_>>(),
        "modules_matched": difference.modules,
        "notes": difference.notes,
    })
}
