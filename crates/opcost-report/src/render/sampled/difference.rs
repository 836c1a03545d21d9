//! The difference of two profiles in files, for people and for programs.

use super::counted;
use crate::render::functions::{matching, row_name, signed_figure, tone};
use opcost_analysis::comparison::profile_files::{FALSE_SHARE, Judged, Measure, ProfileDifference};
use opcost_analysis::comparison::{FunctionRow, FunctionVerdict, Sides};
use opcost_base::number::{figure, grouped, percent};
use opcost_page::document::{Cell, Column, Document, MailHead, Mark, Row as Line, Table};
use opcost_record::Unit;
use serde_json::{Value, json as value};

/// Version of the document.
const SCHEMA: u32 = 1;

/// The report of `opcost diff` on two files; `limit`: functions shown one by one.
pub fn document(difference: &ProfileDifference, limit: usize) -> Document {
    let [one, two] = &difference.names;
    let mut document =
        Document::titled(format!("{two} against {one}: {} by function", difference.event));
    let totals = totals(difference);
    document.mail = Some(MailHead {
        subject: format!("{}: {totals} ({two} against {one})", difference.event),
        ..MailHead::default()
    });
    document.say(Mark::Item(0), totals);
    document.say(Mark::Note, judged(difference));
    document.gap();
    let figures = Figures(difference);
    let [shown, others, unchanged] = difference.functions.shown(limit);
    let mut rows: Vec<Line> = shown.iter().map(|row| figures.row(row)).collect();
    for (group, what) in [(others, "other function"), (unchanged, "unchanged function")] {
        if !group.is_empty() {
            let sum = |side: fn(&Sides) -> f64| group.iter().map(|row| side(&row.own)).sum();
            let sums = [sum(|own| own.value_baseline), sum(|own| own.value)];
            rows.push(figures.sums(&counted(group.len() as u64, what), sums));
        }
    }
    let own = |row: &FunctionRow| [row.own.value_baseline, row.own.value];
    if let Some(row) = &difference.unattributed {
        rows.push(figures.sums(&row.symbol, own(row)));
    }
    rows.push(Line { strong: true, ..figures.sums("total", own(&difference.total)) });
    document.table(Table {
        caption: None,
        columns: vec![
            Column::fixed("function"),
            Column::named(one),
            Column::named(two),
            Column::fixed("change"),
            Column::fixed(""),
            Column::below("called from"),
        ],
        rows,
    });
    footnotes(&mut document, difference, shown);
    for note in &difference.notes {
        document.say(Mark::Doubt, note);
    }
    document
}

/// Both totals in words.
fn totals(difference: &ProfileDifference) -> String {
    let side = |at: usize| {
        let cost = figure(difference.total_cost[at] as f64, difference.unit);
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
            let ratio = percent(total.own.change / total.own.value_baseline);
            let said = match (total.verdict, difference.judged) {
                (FunctionVerdict::Changed, _) => ", real".to_string(),
                (FunctionVerdict::Differs, Judged::Exact) => ", exact for these two".to_string(),
                (FunctionVerdict::Differs, _) => ", differs".to_string(),
                (FunctionVerdict::Unchanged, _) => ", no change found".to_string(),
                (FunctionVerdict::Inconclusive, Judged::Sampling) => ", within chance".to_string(),
                (
                    FunctionVerdict::FewLayouts
                    | FunctionVerdict::Estimated
                    | FunctionVerdict::Inconclusive
                    | FunctionVerdict::NotComparable,
                    _,
                ) => {
                    format!(", {}", total.reason)
                }
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
            let test = match difference.measure {
                Measure::Share => "Fisher's exact test of two shares of all samples",
                Measure::PerOp | Measure::Counted => "exact test of two Poisson counts",
            };
            format!("differs: by more than sampling does ({test}, corrected for all functions)")
        }
        Judged::Exact => "counted, not sampled: each difference is exact for these two runs".into(),
        Judged::Nothing => {
            "these files have costs and no number of samples, so no function is called different"
                .into()
        }
    }
}

/// Adds the meaning of the marks that occur, and how files were matched.
fn footnotes(document: &mut Document, difference: &ProfileDifference, shown: &[FunctionRow]) {
    let open = |row: &&FunctionRow| !row.verdict.is_found() && row.own.change != 0.0;
    if let Some(first) = shown.iter().find(open) {
        document.gap();
        document.say(Mark::Note, not_real(difference, first, shown));
    }
    let sides = difference.names.each_ref().map(String::as_str);
    matching(document, &difference.functions, shown, sides);
}

/// The meaning of `?`; `first`: the first row with this mark.
fn not_real(difference: &ProfileDifference, first: &FunctionRow, shown: &[FunctionRow]) -> String {
    if difference.judged == Judged::Nothing {
        return "?: cannot be told".into();
    }
    if difference.judged != Judged::Files {
        return "?: so many samples more or less can be chance".into();
    }
    let mut text = "?: not shown to be real".to_string();
    let needed = shown.iter().find_map(|row| row.in_files?.files_needed);
    if let Some(files) = needed.filter(|_| first.verdict == FunctionVerdict::Inconclusive) {
        text += &format!("; with so many functions a verdict needs {files} files a side");
    }
    text
}

/// The figures of a difference in its measure.
struct Figures<'a>(&'a ProfileDifference);

impl Figures<'_> {
    fn row(&self, row: &FunctionRow) -> Line {
        let callers = row.callers.iter().filter(|_| row.verdict.is_found());
        let callers = callers.map(|caller| (caller.symbol.clone(), self.change(caller.own.change)));
        let cells = [row_name(row)].into_iter().chain(self.of(&row.own).map(Cell::Figure));
        let cells = cells.chain([Cell::text(mark(row)), Cell::List("←", callers.collect())]);
        Line::toned(tone(row), cells.collect())
    }

    /// A row for several functions, or for all.
    fn sums(&self, name: &str, sums: [f64; 2]) -> Line {
        let cells = [Cell::text(name)].into_iter().chain(self.of_sums(sums).map(Cell::Figure));
        Line::of(cells.chain([Cell::Empty, Cell::Empty]).collect())
    }

    fn of(&self, own: &Sides) -> [String; 3] {
        [self.figure(own.value_baseline), self.figure(own.value), self.change(own.change)]
    }

    fn of_sums(&self, [value_baseline, value]: [f64; 2]) -> [String; 3] {
        // Rounding leaves a remainder of numbers that cancel.
        let largest = value_baseline.abs().max(value.abs());
        let change = value - value_baseline;
        let change = if change.abs() < 1e-9 * largest { 0.0 } else { change };
        self.of(&Sides { value_baseline, value, change })
    }

    fn figure(&self, value: f64) -> String {
        measured(self.0.measure, self.0.unit, value)
    }

    fn change(&self, change: f64) -> String {
        changed(self.0.measure, self.0.unit, change)
    }
}

/// A figure in its measure; `unit`: of costs.
pub(in crate::render) fn measured(measure: Measure, unit: Unit, value: f64) -> String {
    if value == 0.0 {
        return "–".into();
    }
    match measure {
        Measure::Share => format!("{:.2} %", 100.0 * value),
        _ => figure(value, unit),
    }
}

/// A change in its measure.
pub(in crate::render) fn changed(measure: Measure, unit: Unit, change: f64) -> String {
    let sign = if change < 0.0 { "−" } else { "+" };
    match measure {
        Measure::Share => format!("{sign}{:.2} pp", 100.0 * change.abs()),
        _ if unit == Unit::Count => signed_figure(change),
        _ => format!("{sign}{}", figure(change.abs(), unit)),
    }
}

/// The marks of a function, in a word or two.
fn mark(row: &FunctionRow) -> String {
    let mut marks = Vec::new();
    match (row.appeared, row.vanished) {
        (true, _) => marks.push("new".to_string()),
        (_, true) => marks.push("gone".to_string()),
        _ => {}
    }
    if row.by_name_only {
        marks.push("≈".into());
    }
    match (row.verdict, row.p_adjusted) {
        (FunctionVerdict::Changed, Some(p)) if p < 1e-4 => marks.push("p < 0.0001".into()),
        (FunctionVerdict::Changed, Some(p)) => marks.push(format!("p {p:.4}")),
        (FunctionVerdict::Changed, None) => marks.push("exact".into()),
        (FunctionVerdict::Differs, _) => marks.push("differs".into()),
        _ if row.own.change != 0.0 => marks.push("?".into()),
        _ => {}
    }
    marks.join(" ")
}

/// The document that `opcost diff --json` prints for two files: every function.
pub fn json(difference: &ProfileDifference) -> Value {
    let measure = match difference.measure {
        Measure::PerOp => "cost per op",
        Measure::Share => "share",
        Measure::Counted => "cost",
    };
    let tested = match (difference.judged, difference.measure) {
        (Judged::Files, _) => measure,
        (_, Measure::Share) => "share of samples",
        _ => "samples per op",
    };
    let row = |row: &FunctionRow| {
        let in_files = row.in_files.unwrap_or_default();
        let callers = row.callers.iter();
        let callers =
            callers.map(|caller| value!({"symbol": caller.symbol, "change": caller.own.change}));
        value!({
            "symbol": row.symbol,
            "module": row.module,
            "module_baseline": row.module_baseline.as_ref().unwrap_or(&row.module),
            "by_name_only": row.by_name_only,
            "cost_baseline": in_files.cost[0],
            "cost": in_files.cost[1],
            "samples_baseline": in_files.samples.map(|samples| samples[0]),
            "samples": in_files.samples.map(|samples| samples[1]),
            "value_baseline": row.own.value_baseline,
            "value": row.own.value,
            "change": row.own.change,
            "tested": row.p_adjusted.map(|_| tested),
            "p_adjusted": row.p_adjusted,
            "ci_low": row.ci.map(|(low, _)| low),
            "ci_high": row.ci.map(|(_, high)| high),
            "verdict": row.verdict,
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
        "unit": difference.unit.symbol(),
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
        "functions": difference.functions.rows.iter().map(row).collect::<Vec<_>>(),
        "modules_matched": difference.functions.modules,
        "notes": difference.notes,
    })
}
