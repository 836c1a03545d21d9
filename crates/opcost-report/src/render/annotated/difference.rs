//! The difference of a function of two builds, line by line.

use super::json::{instruction, sources};
use super::{
    CONTEXT_LINES, INLINED_SHOWN, LINES_SHOWN, Texts, file, inlined, inlined_part, notes, text,
    titled,
};
use crate::render::functions::short;
use crate::render::sampled::difference::{changed, measured};
use opcost_analysis::annotation::{AnnotatedInstruction, Annotation};
use opcost_analysis::comparison::FunctionVerdict;
use opcost_analysis::comparison::annotated::{
    AnnotatedDifference, InlinedChange, LineChange, LineFigures, PairedBy,
};
use opcost_analysis::comparison::profile_files::{Judged, Measure};
use opcost_base::number::grouped;
use opcost_page::document::{Cell, Column, Document, Mark, Row, Table, Tone};
use opcost_page::names::cut;
use opcost_record::Unit;
use opcost_size::Aligned;
use serde_json::{Value, json as value};

/// Version of the document.
const SCHEMA: u32 = 1;
/// Columns of a side's name in a sentence.
const SIDE_NAME_WIDTH: usize = 40;
/// The most pairs of instructions that are shown below a line.
const PAIRS_SHOWN: usize = 12;

/// The difference, and how its costs were measured.
pub struct View<'a> {
    /// The event.
    pub event: &'a str,
    /// The unit of costs.
    pub unit: Unit,
    /// The difference.
    pub difference: &'a AnnotatedDifference,
}

impl View<'_> {
    fn figure(&self, value: f64) -> Cell {
        match value {
            0.0 => Cell::Empty,
            value => Cell::Figure(measured(self.difference.measure, self.unit, value)),
        }
    }

    fn change(&self, change: f64) -> Cell {
        match change {
            0.0 => Cell::Empty,
            change => Cell::Figure(changed(self.difference.measure, self.unit, change)),
        }
    }

    /// The verdict of a line in a word; nothing where nothing changed, and where all lines have the same.
    fn mark(&self, figures: &LineFigures) -> String {
        match (figures.verdict, figures.p_adjusted) {
            _ if self.difference.is_exact => String::new(),
            (verdict, Some(p)) if verdict.is_found() && p < 1e-4 => "p<.0001".into(),
            (verdict, Some(p)) if verdict.is_found() => format!("p {p:.4}"),
            (verdict, None) if verdict.is_found() => "exact".into(),
            _ if figures.own.change == 0.0 || self.difference.judged == Judged::Nothing => {
                String::new()
            }
            _ => "?".into(),
        }
    }

    /// A row: its line, figures, verdict and text.
    fn row(&self, first: String, figures: Option<&LineFigures>, mark: String, text: String) -> Row {
        let cells = match figures {
            Some(figures) => [
                self.figure(figures.own.value_baseline),
                self.figure(figures.own.value),
                self.change(figures.own.change),
                Cell::text(mark),
            ],
            None => [Cell::Empty, Cell::Empty, Cell::Empty, Cell::Empty],
        };
        let [old, new, change, mark] = cells;
        let tone = figures.map_or(Tone::Quiet, tone);
        let cells = vec![Cell::text(first), old, new, change, mark, Cell::Source(text)];
        Row { strong: figures.is_some(), ..Row::toned(tone, cells) }
    }
}

/// The mood of a line's figures.
fn tone(figures: &LineFigures) -> Tone {
    match figures.verdict {
        verdict if !verdict.is_found() => Tone::Plain,
        _ if figures.own.change > 0.0 => Tone::Worse,
        _ => Tone::Better,
    }
}

/// The report of `opcost diff --annotate`; `full_names`: whether the title has the function's whole name.
pub fn document(view: &View<'_>, full_names: bool) -> Document {
    let difference = view.difference;
    let [one, two] = &difference.names;
    let sides = difference.names.each_ref().map(|name| match full_names {
        true => name.clone(),
        false => cut(name, SIDE_NAME_WIDTH),
    });
    let functions = difference.sides.each_ref().map(|side| &side.function);
    let [old, new] = functions.map(|function| titled(&function.symbol, full_names));
    let title = match functions[0].symbol == functions[1].symbol {
        true => new,
        false => format!("{old} → {new}"),
    };
    let module = short(&functions[1].module);
    let mut document = Document::titled(format!(
        "{title} ({module}): {} against {}, {} by line",
        sides[1], sides[0], view.event
    ));
    let total = &difference.total;
    let figure = |value: f64| match value {
        0.0 => "0".to_string(),
        value => measured(difference.measure, view.unit, value),
    };
    let of = match difference.measure {
        Measure::Share => " of the profile",
        Measure::PerOp => " per op",
        Measure::Counted => "",
    };
    document.say(
        Mark::Item(0),
        format!(
            "{} → {}{of} ({}, {})",
            figure(total.own.value_baseline),
            figure(total.own.value),
            match total.own.change {
                0.0 => "no change".into(),
                change => changed(difference.measure, view.unit, change),
            },
            word(total.verdict, difference.judged),
        ),
    );
    document.say(Mark::Note, judged(difference));
    document.gap();
    let shown = shown(difference);
    let texts = difference.sides.each_ref().map(Texts::of);
    let mut rows = Vec::new();
    let mut before = None;
    for at in &shown {
        if before.is_some_and(|before: usize| before + 1 < *at) {
            rows.push(view.row("…".into(), None, String::new(), String::new()));
        }
        before = Some(*at);
        rows.extend(line(view, &texts, &difference.rows[*at]));
    }
    if let Some((number, pooled)) = &difference.pooled {
        let said = format!("{} lines of few samples, as one", grouped(*number as u64));
        rows.push(view.row(String::new(), Some(pooled), view.mark(pooled), said));
    }
    rows.push(view.row("all".into(), Some(total), view.mark(total), String::new()));
    document.table(Table {
        caption: None,
        columns: vec![
            Column::fixed("line"),
            Column { place: opcost_page::document::ColumnPlace::Optional(0), ..Column::named(one) },
            Column { place: opcost_page::document::ColumnPlace::Optional(1), ..Column::named(two) },
            Column::fixed("change"),
            Column::fixed(""),
            Column::fixed("source and instructions"),
        ],
        rows,
    });
    document.gap();
    let open = |row: &&LineChange| {
        let figures = row.figures.as_ref().filter(|_| !row.is_pooled);
        figures.is_some_and(|of| of.own.change != 0.0 && !of.verdict.is_found())
    };
    if difference.judged != Judged::Nothing && difference.rows.iter().any(|row| open(&row)) {
        document.say(Mark::Note, "?: so many samples more or less can be chance");
    }
    if difference.paired_by == PairedBy::Numbers
        && difference.sides.iter().all(|side| side.main.is_some())
    {
        let said = "without the text of both sources, lines are paired by their distance from the function's first line";
        document.say(Mark::Doubt, said);
    }
    notes(&mut document, difference.sides.each_ref(), Some(sides.each_ref().map(String::as_str)));
    let left = changes(difference).count()
        - shown.iter().filter(|at| is_change(&difference.rows[**at])).count();
    if left > 0 {
        let said = format!("{} further lines that differ are in --json", grouped(left as u64));
        document.say(Mark::Missing, said);
    }
    document
}

fn is_change(row: &LineChange) -> bool {
    let figures = row.figures.as_ref().filter(|_| !row.is_pooled);
    !row.is_same || figures.is_some_and(|figures| figures.own.change != 0.0)
}

fn changes(difference: &AnnotatedDifference) -> impl Iterator<Item = usize> {
    (0..difference.rows.len()).filter(|at| is_change(&difference.rows[*at]))
}

/// The rows to show, by number: those that differ, the largest changes first if they are many, and lines around them.
fn shown(difference: &AnnotatedDifference) -> Vec<usize> {
    let mut found: Vec<usize> = changes(difference).collect();
    let size =
        |at: &usize| difference.rows[*at].figures.as_ref().map_or(0.0, |of| of.own.change.abs());
    found.sort_by(|one, two| size(two).total_cmp(&size(one)).then(one.cmp(two)));
    found.truncate(LINES_SHOWN);
    let around = CONTEXT_LINES as usize / 2;
    let mut shown: Vec<usize> = found
        .into_iter()
        .flat_map(|at| at.saturating_sub(around)..=at + around)
        .filter(|at| *at < difference.rows.len())
        .collect();
    shown.sort_unstable();
    shown.dedup();
    shown
}

/// The rows of a line: one if the source is the same, otherwise one for each side.
fn line(view: &View<'_>, texts: &[Texts<'_>; 2], row: &LineChange) -> Vec<Row> {
    let difference = view.difference;
    let number = |side: usize| match row.numbers[side] {
        None => String::new(),
        Some(0) => "–".into(),
        Some(number) => number.to_string(),
    };
    let text = |side: usize| {
        let number = row.numbers[side].unwrap_or(0);
        let found = texts[side].line(row.sources[side], number);
        let is_main = row.sources[side] == difference.sides[side].main;
        match row.sources[side].filter(|_| found.is_empty() && !is_main) {
            Some(source) => format!("in {}", file(&difference.sides[side], source)),
            None if number == 0 => "instructions without a line".into(),
            None => found,
        }
    };
    let figures = row.figures.as_ref();
    let mark = match figures {
        _ if row.is_pooled => String::new(),
        Some(figures) => view.mark(figures),
        None => String::new(),
    };
    let mut rows = Vec::new();
    match (row.numbers, row.is_same) {
        ([Some(_), Some(_)], true) => {
            rows.push(view.row(number(1), figures, mark, format!("  {}", text(1))));
        }
        ([Some(_), Some(_)], false) => {
            rows.push(view.row(number(0), None, String::new(), format!("- {}", text(0))));
            rows.push(view.row(number(1), figures, mark, format!("+ {}", text(1))));
        }
        ([Some(_), None], is_same) => {
            let sign = if is_same { " " } else { "-" };
            rows.push(view.row(number(0), figures, mark, format!("{sign} {}", text(0))));
        }
        (_, is_same) => {
            let sign = if is_same { " " } else { "+" };
            rows.push(view.row(number(1), figures, mark, format!("{sign} {}", text(1))));
        }
    }
    if figures.is_some_and(|figures| figures.verdict.is_found()) {
        let scaled = Scaled::of(view, row);
        for (function, cost) in &row.parts {
            let line = row.inlined.iter().find(|one| one.function == *function);
            if cost[0] != cost[1] && line.is_none_or(|line| line.cost != *cost) {
                rows.push(scaled.row(*cost, inlined_part("    ", function)));
            }
        }
        let changed = row.inlined.iter().filter(|one| one.cost[0] != one.cost[1]);
        for InlinedChange { function, places, cost } in changed.take(INLINED_SHOWN) {
            let sign = match places {
                [Some(_), None] => '-',
                [None, Some(_)] => '+',
                _ => ' ',
            };
            let side = usize::from(places[1].is_some());
            let indent = format!("{sign}   ");
            let text = places[side]
                .map(|place| inlined(&indent, &difference.sides[side], function, place));
            rows.extend(text.map(|text| scaled.row(*cost, text)));
        }
        rows.extend(instructions(row, &scaled));
    }
    rows
}

/// Costs below a line, in the measure of the line.
struct Scaled<'a> {
    view: &'a View<'a>,
    /// The figure for each unit of cost, by side.
    factors: [f64; 2],
}

impl<'a> Scaled<'a> {
    fn of(view: &'a View<'a>, row: &LineChange) -> Scaled<'a> {
        let total = &view.difference.total;
        let factor = |value: f64, cost: u64| if cost == 0 { 0.0 } else { value / cost as f64 };
        let whole = [total.own.value_baseline, total.own.value];
        let of_line =
            row.figures.as_ref().map(|of| ([of.own.value_baseline, of.own.value], of.cost));
        let factors = [0, 1].map(|side: usize| {
            let of_line = of_line.map_or(0.0, |(values, cost)| factor(values[side], cost[side]));
            if of_line == 0.0 { factor(whole[side], total.cost[side]) } else { of_line }
        });
        Scaled { view, factors }
    }

    /// The figures of costs.
    fn values(&self, cost: [u64; 2]) -> [f64; 2] {
        [0, 1].map(|side: usize| cost[side] as f64 * self.factors[side])
    }

    fn row(&self, cost: [u64; 2], text: Cell) -> Row {
        let [old, new] = self.values(cost);
        let change =
            if cost[0] == cost[1] && self.factors[0] == self.factors[1] { 0.0 } else { new - old };
        let figures = [self.view.figure(old), self.view.figure(new), self.view.change(change)];
        let [old, new, change] = figures;
        Row::toned(Tone::Quiet, vec![Cell::Empty, old, new, change, Cell::Empty, text])
    }
}

/// The instructions of a line that differ, in text or in cost.
fn instructions(row: &LineChange, scaled: &Scaled<'_>) -> Vec<Row> {
    let difference = scaled.view.difference;
    let instruction = |side: usize, at: usize| -> Option<&AnnotatedInstruction> {
        difference.sides[side].lines[row.lines[side]?].instructions.get(at)
    };
    let pair = |aligned: &Aligned| {
        let (ats, is_same) = match *aligned {
            Aligned::Same(one, two) => ([Some(one), Some(two)], true),
            Aligned::Differs(one, two) => ([one, two], false),
        };
        let pair = [0, 1].map(|side: usize| ats[side].and_then(|at| instruction(side, at)));
        let cost = pair.map(|one| one.map_or(0, |one| Annotation::cost(&one.own)));
        let differs = if is_same { cost[0] != cost[1] } else { cost != [0, 0] };
        differs.then_some((pair, cost, is_same))
    };
    let pairs: Vec<_> = row.instructions.iter().filter_map(pair).collect();
    let size = |at: &usize| {
        let [old, new] = scaled.values(pairs[*at].1);
        (new - old).abs().max(if pairs[*at].2 { 0.0 } else { old.max(new) })
    };
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by(|one, two| size(two).total_cmp(&size(one)).then(one.cmp(two)));
    let left = order.len().saturating_sub(PAIRS_SHOWN);
    order.truncate(PAIRS_SHOWN);
    order.sort_unstable();
    let mut rows = Vec::new();
    // What is new stands behind all that it replaces.
    let mut added = Vec::new();
    for (pair, cost, is_same) in order.into_iter().map(|at| &pairs[at]) {
        match pair {
            [Some(_), Some(two)] if *is_same => {
                rows.append(&mut added);
                rows.push(scaled.row(*cost, text("    ", two)));
            }
            [one, two] => {
                let signed =
                    |sign: char, one: &AnnotatedInstruction| text(&format!("{sign}   "), one);
                // An instruction that no sample hit may have been executed.
                let one = one.filter(|_| cost[0] > 0);
                let two = two.filter(|_| cost[1] > 0);
                rows.extend(one.map(|one| scaled.row([cost[0], 0], signed('-', one))));
                added.extend(two.map(|two| scaled.row([0, cost[1]], signed('+', two))));
            }
        }
    }
    rows.append(&mut added);
    if left > 0 {
        rows.push(scaled.row([0, 0], Cell::Source(format!("    … {left} more that differ"))));
    }
    rows
}

fn word(verdict: FunctionVerdict, judged: Judged) -> &'static str {
    match (verdict, judged) {
        (FunctionVerdict::Changed, _) => "real",
        (FunctionVerdict::Differs, Judged::Exact) => "exact for these two",
        (FunctionVerdict::Differs, _) => "differs",
        (FunctionVerdict::Unchanged, Judged::Exact) => "exact for these two",
        (FunctionVerdict::Unchanged, _) => "no change found",
        (_, Judged::Sampling) => "within chance",
        _ => "not judged",
    }
}

fn judged(difference: &AnnotatedDifference) -> &'static str {
    match difference.judged {
        Judged::Files if difference.is_exact => {
            "counted: every run of a side executed each instruction equally often, so each difference is exact"
        }
        Judged::Files => {
            "lines are judged by runs; at most one in 20 of the lines called changed is expected to be false"
        }
        Judged::Sampling => {
            "p: lines that differ by more than sampling does (exact test of two Poisson counts, corrected for all lines)"
        }
        Judged::Exact => "counted, not sampled: each difference is exact for these two runs",
        Judged::Nothing => "the number of samples is not known, so no line is called different",
    }
}

/// The document that `opcost diff --annotate --json` prints: every line.
pub fn json(view: &View<'_>) -> Value {
    let difference = view.difference;
    let figures = |figures: &LineFigures| {
        value!({
            "cost_baseline": figures.cost[0],
            "cost": figures.cost[1],
            "value_baseline": figures.own.value_baseline,
            "value": figures.own.value,
            "change": figures.own.change,
            "p_adjusted": figures.p_adjusted,
            "verdict": figures.verdict,
        })
    };
    let row = |row: &LineChange| {
        let of = |side: usize| {
            row.numbers[side].map(|number| {
                let side = (&difference.sides[side], row.sources[side]);
                value!({"line": number, "source": side.1, "text": side.0.text(side.1, number)})
            })
        };
        let pairs = row.instructions.iter().map(|aligned| {
            let (ats, is_same) = match *aligned {
                Aligned::Same(one, two) => ([Some(one), Some(two)], true),
                Aligned::Differs(one, two) => ([one, two], false),
            };
            let of = |side: usize| {
                let line = &difference.sides[side].lines[row.lines[side]?];
                line.instructions.get(ats[side]?).map(instruction)
            };
            value!({"baseline": of(0), "variant": of(1), "same": is_same})
        });
        let mut made = row.figures.as_ref().map_or_else(|| value!({}), figures);
        made["baseline"] = of(0).unwrap_or_default();
        made["variant"] = of(1).unwrap_or_default();
        made["same"] = row.is_same.into();
        made["pooled"] = row.is_pooled.into();
        made["instructions"] = pairs.collect();
        let lines = row.inlined.iter().map(|one| {
            let [old, new] = one.places.map(|place| place.map(|(source, line)| value!({"source": source, "line": line})));
            value!({"function": one.function, "baseline": old, "variant": new, "cost_baseline": one.cost[0], "cost": one.cost[1]})
        });
        made["inlined_lines"] = lines.collect();
        made
    };
    let [one, two] = difference.sides.each_ref().map(sources);
    value!({
        "schema": SCHEMA,
        "event": view.event,
        "baseline": difference.names[0],
        "variant": difference.names[1],
        "symbol": difference.sides[1].function.symbol,
        "symbol_baseline": difference.sides[0].function.symbol,
        "module": difference.sides[1].function.module,
        "sources_baseline": one,
        "sources": two,
        "paired_by": if difference.paired_by == PairedBy::Sources { "sources" } else { "numbers" },
        "total": figures(&difference.total),
        "pooled": difference.pooled.as_ref().map(|(_, of)| figures(of)),
        "lines": difference.rows.iter().map(row).collect::<Vec<_>>(),
    })
}
