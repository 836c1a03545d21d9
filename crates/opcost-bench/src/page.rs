//! The benchmarks as a report and as JSON.

use crate::compare::{Change, Limit};
use crate::line::{FunctionShare, Slope};
use crate::{Benchmark, Measured};
use opcost_base::number::{digits, grouped, percent};
use opcost_page::document::{Cell, Column, Document, Mark, Row, Table, Tone};
use serde::{Deserialize, Serialize};

/// The version of the JSON.
const SCHEMA: u32 = 1;
/// Functions below each benchmark.
const FUNCTIONS_SHOWN: usize = 3;

/// A number of instructions: whole, or with as many digits as people read.
fn figure(value: f64) -> String {
    let whole = value.round();
    // Beyond that, not every whole number is a double.
    let is_whole = whole == value && (0.0..9e15).contains(&value);
    if is_whole { grouped(whole as u64) } else { digits(value) }
}

fn signed(value: f64) -> String {
    let sign = if value < 0.0 { '−' } else { '+' };
    format!("{sign}{}", figure(value.abs()))
}

/// The names of benchmarks and their frameworks.
pub fn list(benchmarks: &[Benchmark]) -> Document {
    let rows = benchmarks.iter().map(|benchmark| {
        let version = benchmark.version().map_or(String::new(), |version| format!(" {version}"));
        Row::of(vec![
            Cell::text(&benchmark.name),
            Cell::text(format!("{}{version}", benchmark.framework())),
        ])
    });
    let mut document = Document::titled(counted(benchmarks.len()));
    document.table(Table {
        columns: vec![Column::fixed("benchmark"), Column::note("framework")],
        rows: rows.collect(),
        ..Table::default()
    });
    document
}

fn counted(number: usize) -> String {
    format!("{number} benchmark{}", if number == 1 { "" } else { "s" })
}

/// What a reader should know; benchmarks of which the same is to be said share a line.
fn notes(document: &mut Document, all: &[Measured]) {
    for one in all {
        let Ok(slope) = &one.cost else { continue };
        let points: Vec<String> = slope
            .points
            .iter()
            .map(|(iterations, cost)| format!("{} for {}", grouped(*cost), grouped(*iterations)))
            .collect();
        let points = points.join(", ");
        match slope.is_line {
            Some(true) => {}
            Some(false) => document
                .say(Mark::Note, format!("{}: not linear in iterations: {points}", one.name)),
            None => document.say(
                Mark::Note,
                format!("{}: two numbers of iterations only, as one is dear: {points}", one.name),
            ),
        }
    }
    let mut said: Vec<&String> = Vec::new();
    for one in all {
        for note in &one.notes {
            if said.contains(&note) {
                continue;
            }
            said.push(note);
            let others = all.iter().filter(|other| other.notes.contains(note)).count();
            let who = if others > 1 { counted(others) } else { one.name.clone() };
            document.say(Mark::Note, format!("{who}: {note}"));
        }
    }
}

/// The cost of each benchmark, with its dearest functions.
///
/// `title`: the command; `functions`: how many functions each benchmark shows; `None` means a few.
pub fn document(title: &str, all: &[Measured], functions: Option<usize>) -> Document {
    let mut document = Document::titled(format!("{title} · {}", counted(all.len())));
    let mut rows = Vec::new();
    for one in all {
        match &one.cost {
            Err(why) => {
                let verdict = Cell::verdict("", "not counted", Tone::Quiet);
                rows.push(Row::of(vec![
                    Cell::text(&one.name),
                    verdict,
                    Cell::Empty,
                    Cell::text(why),
                ]));
            }
            Ok(slope) => {
                let word = if slope.is_line == Some(false) { "not linear" } else { "" };
                rows.push(Row {
                    strong: true,
                    ..Row::of(vec![
                        Cell::text(&one.name),
                        Cell::figure(figure(slope.instructions)),
                        Cell::Empty,
                        Cell::text(word),
                    ])
                });
                for share in slope.functions.iter().take(functions.unwrap_or(FUNCTIONS_SHOWN)) {
                    let calls = if share.calls == 0.0 {
                        Cell::Empty
                    } else {
                        Cell::figure(digits(share.calls))
                    };
                    rows.push(Row {
                        depth: 1,
                        ..Row::of(vec![
                            Cell::Name(share.symbol.clone(), String::new()),
                            Cell::figure(figure(share.instructions)),
                            calls,
                            Cell::Empty,
                        ])
                    });
                }
            }
        }
    }
    document.table(Table {
        columns: vec![
            Column::fixed("an iteration"),
            Column::fixed("instructions"),
            Column::optional("calls", 1),
            Column::note(""),
        ],
        rows,
        ..Table::default()
    });
    document.gap();
    notes(&mut document, all);
    document
}

/// The benchmarks of two builds.
pub fn comparison(
    title: &str,
    changes: &[Change],
    now: &[Measured],
    limit: Option<Limit>,
) -> Document {
    let mut document = Document::titled(format!("{title} · {}", counted(changes.len())));
    let mut rows = Vec::new();
    for change in changes {
        let side =
            |side: Option<f64>| side.map_or(Cell::text("–"), |value| Cell::figure(figure(value)));
        let [before, after] = change.sides;
        let verdict = match (change.ratio(), &change.why) {
            (None, why) => Cell::text(why.clone().unwrap_or_default()),
            (Some(_), _) if limit.is_some_and(|limit| change.exceeds(limit)) => {
                Cell::verdict("▲", "exceeds the limit", Tone::Worse)
            }
            (Some(0.0), _) => Cell::verdict("", "the same", Tone::Quiet),
            (Some(ratio), _) if ratio > 0.0 => Cell::verdict("▲", "dearer", Tone::Plain),
            _ => Cell::verdict("▼", "cheaper", Tone::Better),
        };
        let ratio = change.ratio().map_or(Cell::Empty, |ratio| {
            Cell::figure(if ratio == 0.0 { "=".into() } else { percent(ratio) })
        });
        rows.push(Row {
            strong: true,
            ..Row::of(vec![Cell::text(&change.name), side(before), side(after), ratio, verdict])
        });
        for (function, instructions, calls) in change.functions.iter().take(FUNCTIONS_SHOWN) {
            let calls = if *calls == 0.0 {
                Cell::Empty
            } else {
                Cell::text(format!("{} calls", signed(*calls)))
            };
            rows.push(Row {
                depth: 1,
                ..Row::of(vec![
                    Cell::Name(function.symbol.clone(), String::new()),
                    Cell::Empty,
                    Cell::Empty,
                    Cell::figure(signed(*instructions)),
                    calls,
                ])
            });
        }
    }
    document.table(Table {
        columns: vec![
            Column::fixed("instructions of an iteration"),
            Column::fixed("before"),
            Column::fixed("now"),
            Column::fixed("change"),
            Column::note(""),
        ],
        rows,
        ..Table::default()
    });
    document.gap();
    notes(&mut document, now);
    document
}

/// The whole result.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
struct Results {
    schema: u32,
    benchmarks: Vec<OneResult>,
}

#[derive(Debug, Deserialize, Serialize)]
struct OneResult {
    name: String,
    framework: String,
    /// Instructions an iteration; absent if there is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    is_linear: Option<bool>,
    #[serde(default)]
    points: Vec<PointResult>,
    #[serde(default)]
    functions: Vec<FunctionResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default)]
    notes: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct PointResult {
    iterations: u64,
    instructions: u64,
}

#[derive(Debug, Deserialize, Serialize)]
struct FunctionResult {
    symbol: String,
    module: String,
    instructions: f64,
    calls: f64,
}

/// The benchmarks as JSON.
///
/// # Errors
/// A figure has no form in JSON.
pub fn json(all: &[Measured]) -> anyhow::Result<String> {
    let one = |one: &Measured| {
        let cost = one.cost.as_ref().ok();
        OneResult {
            name: one.name.clone(),
            framework: one.framework.clone(),
            instructions: cost.map(|slope| slope.instructions),
            is_linear: cost.and_then(|slope| slope.is_line),
            points: cost.map_or(Vec::new(), |slope| {
                slope
                    .points
                    .iter()
                    .map(|(iterations, instructions)| PointResult {
                        iterations: *iterations,
                        instructions: *instructions,
                    })
                    .collect()
            }),
            functions: cost
                .map_or(Vec::new(), |slope| slope.functions.iter().map(function).collect()),
            error: one.cost.as_ref().err().cloned(),
            notes: one.notes.clone(),
        }
    };
    let results = Results { schema: SCHEMA, benchmarks: all.iter().map(one).collect() };
    opcost_base::json::document(&results, "benchmarks")
}

fn function(share: &FunctionShare) -> FunctionResult {
    let FunctionShare { symbol, module, instructions, calls } = share.clone();
    FunctionResult { symbol, module, instructions, calls }
}

/// Reads what [`json`] wrote.
///
/// # Errors
/// The text says what is wrong with it.
pub fn read(text: &str) -> Result<Vec<Measured>, String> {
    let results: Results = serde_json::from_str(text)
        .map_err(|error| format!("it is no result of opcost bench --json: {error}"))?;
    if results.schema != SCHEMA {
        return Err(format!(
            "it has schema {}, and this opcost reads {SCHEMA}; use the opcost that wrote it",
            results.schema
        ));
    }
    let one = |one: OneResult| {
        let slope = |instructions| Slope {
            instructions,
            points: one.points.iter().map(|point| (point.iterations, point.instructions)).collect(),
            is_line: one.is_linear,
            functions: one
                .functions
                .iter()
                .map(|FunctionResult { symbol, module, instructions, calls }| FunctionShare {
                    symbol: symbol.clone(),
                    module: module.clone(),
                    instructions: *instructions,
                    calls: *calls,
                })
                .collect(),
        };
        let cost = one
            .instructions
            .map(slope)
            .ok_or_else(|| one.error.clone().unwrap_or_else(|| "no figure".into()));
        Measured { name: one.name, framework: one.framework, cost, notes: one.notes }
    };
    Ok(results.benchmarks.into_iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_back_as_they_were() {
        let share = FunctionShare {
            symbol: "work".into(),
            module: "suite".into(),
            instructions: 7.25,
            calls: 1.0,
        };
        let slope = Slope {
            instructions: 7.25,
            points: vec![(10, 80), (14, 109)],
            is_line: None,
            functions: vec![share],
        };
        let good = Measured {
            name: "a".into(),
            framework: "f 1".into(),
            cost: Ok(slope),
            notes: vec!["n".into()],
        };
        let bad = Measured {
            name: "b".into(),
            framework: "f 1".into(),
            cost: Err("why".into()),
            notes: Vec::new(),
        };
        let all = read(&json(&[good.clone(), bad.clone()]).unwrap()).unwrap();
        assert_eq!((&all[0].cost, &all[0].notes), (&good.cost, &good.notes));
        assert_eq!(all[1].cost, bad.cost);
        assert!(read("{}").unwrap_err().contains("opcost bench --json"));
        assert!(read("{\"schema\": 2, \"benchmarks\": []}").unwrap_err().contains("schema 2"));
        assert_eq!(
            (figure(1234.0), figure(0.5), signed(-2.0)),
            ("1,234".into(), "0.5000".into(), "−2".into())
        );
    }
}
