//! A plan, as `--dry-run` prints it.

use anyhow::Result;
use opcost_analysis::comparison::by_reason;
use opcost_base::number::{grouped, magnitude};
use opcost_base::time::{about_in_words, time_in_words};
use opcost_model::plan::{Plan, Shard, StopPlan};
use opcost_page::document::{Cell, Column, Document, Mark, Row, Table};
use serde_json::json;
use std::ops::Range;

/// The plan as JSON, whole.
pub fn json(plan: &Plan) -> Result<String> {
    opcost_base::json::document(plan, "plan")
}

/// The work of one shard of a plan.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShardRow {
    /// The shard: which of how many.
    pub shard: Shard,
    /// The blocks of the shard, numbered from 0.
    pub blocks: Range<u32>,
    /// Runs that only this shard makes.
    pub runs: usize,
    /// Runs that every shard makes.
    pub common_runs: usize,
    /// The time of all these runs in nanoseconds, estimated from an earlier recording.
    pub estimated_ns: Option<u64>,
}

/// A plan and its shards as JSON.
pub fn shards_json(plan: &Plan, rows: &[ShardRow]) -> Result<String> {
    let shard = |row: &ShardRow| {
        json!({
            "shard": row.shard.to_string(),
            "blocks": [row.blocks.start, row.blocks.end],
            "runs": row.runs,
            "common_runs": row.common_runs,
            "estimated_seconds": row.estimated_ns.map(|ns| ns as f64 / 1e9),
        })
    };
    let document = json!({ "plan": plan, "shards": rows.iter().map(shard).collect::<Vec<_>>() });
    opcost_base::json::document(&document, "shards")
}

/// A plan and its shards for people.
///
/// `earlier`: the recording from which times were estimated.
pub fn shards_document(plan: &Plan, rows: &[ShardRow], earlier: Option<&str>) -> Document {
    let row = |row: &ShardRow| {
        let time = match row.estimated_ns {
            Some(ns) => format!("about {}", about_in_words(ns / 1_000_000)),
            None => "not known".into(),
        };
        let runs = format!("{} + {}", row.runs, row.common_runs);
        let figures = [blocks_in_words(&row.blocks), runs].map(Cell::Figure);
        let cells = [Cell::text(row.shard.to_string())].into_iter().chain(figures);
        Row::of(cells.chain([Cell::text(time)]).collect())
    };
    let mut document = document(plan);
    document.gap();
    document.table(Table {
        caption: None,
        columns: ["shard", "blocks", "runs", "time"].map(Column::fixed).to_vec(),
        rows: rows.iter().map(row).collect(),
    });
    let source = match earlier {
        Some(id) => format!("Times are those of the runs in recording {id}, on this computer."),
        None => "Times are known once the store has a recording of this experiment.".into(),
    };
    let common = "The runs behind the + are those that every shard makes, by which opcost gather sees whether \
                  the computers count alike.";
    document.say(Mark::Note, common);
    document.say(Mark::Note, source);
    document
}

/// Blocks shown one by one; further blocks are only counted.
const BLOCKS_SHOWN: usize = 8;

/// Variants shown one by one; of more, only the first and the last ones are shown.
const VARIANTS_SHOWN: usize = 24;

/// Runs shown of each block of so many variants.
const RUNS_SHOWN: usize = 6;

/// The plan for people.
pub fn document(plan: &Plan) -> Document {
    let mut rows = Vec::new();
    let mut line = |name: &str, value: &str| rows.push(vec![Cell::text(name), Cell::text(value)]);
    line("experiment", &plan.experiment);
    if let Some(question) = &plan.question {
        line("question", question);
    }
    if let Some(provenance) = plan.provenance() {
        line("of", &provenance);
    }
    let left_out = left_out(plan.variants.len(), VARIANTS_SHOWN);
    let runs_shown = if left_out.is_empty() { usize::MAX } else { RUNS_SHOWN };
    for (index, variant) in plan.variants.iter().enumerate() {
        if index == left_out.start && !left_out.is_empty() {
            line("", &format!("and {} more variants", grouped(left_out.len() as u64)));
        }
        if left_out.contains(&index) {
            continue;
        }
        let letter = letter(index as u16);
        line(&format!("variant {letter}"), &format!("{}: {}", variant.name, variant.describe()));
    }
    let if_busy = plan.primary_if_busy.as_ref().map_or(String::new(), |other| {
        format!(", or {} if the warm-up runs are disturbed", other.label())
    });
    line("primary", &format!("{}{if_busy}", plan.primary.label()));
    let events: Vec<String> = plan.events.iter().map(|event| event.key.label()).collect();
    match plan.emulation() {
        Some(_) => {
            let metrics: Vec<String> = plan.metrics().iter().map(|key| key.label()).collect();
            line("metrics", &metrics.join(", "));
        }
        None => line("events", &events.join(", ")),
    }
    let missing = plan.unavailable.iter().map(|event| (event.key.label(), event.reason.clone()));
    for (labels, reason) in by_reason(missing) {
        line("", &format!("not {}: {reason}", labels.join(", ")));
    }
    line("conditions", &conditions(plan));
    let runs = grouped(plan.pairs.into());
    let at_most = if plan.stop == StopPlan::default() { "" } else { "at most " };
    match plan.variants.len() {
        1 => line("runs", &format!("{at_most}{runs} (one variant: nothing is decided)")),
        _ => line(
            "pairs",
            &format!(
                "{at_most}{runs} ({} can decide every metric at its corrected level)",
                plan.fewest_pairs
            ),
        ),
    }
    let stop = [
        plan.stop.width_ratio.map(|ratio| {
            format!("the interval of {} is within {}", plan.primary.label(), magnitude(ratio))
        }),
        plan.stop.budget_ms.map(|budget_ms| match plan.stop.blocks_min {
            0 => format!("{} are spent", time_in_words(budget_ms)),
            least => {
                let least = grouped(plan.pairs_of_blocks(least).into());
                let what = if plan.variants.len() == 1 { "runs" } else { "pairs" };
                format!("{} are spent, and {least} {what} are made", time_in_words(budget_ms))
            }
        }),
    ];
    let settled = plan.stop.look_pairs.map(|look| {
        format!(
            "all counts of 2 pairs are the same on both sides, or {} of {look} pairs lies farther apart \
             than layouts shift it",
            plan.primary.label()
        )
    });
    let stop = stop.into_iter().chain([settled]);
    let stop: Vec<String> = stop.flatten().collect();
    if !stop.is_empty() {
        line("stop", &format!("earlier, after a whole block, if {}", stop.join(" or ")));
    }
    if let Some(runs) = plan.block {
        let text = format!(
            "{runs} runs of a variant behind one another, of which the first, not below, is left out"
        );
        line("block", &text);
    }
    if plan.repeats_last {
        line("block", "the last run of each is repeated, and the repeat, not below, is left out");
    }
    if let Some(build) = plan.build() {
        line(
            "unit",
            &format!("a build, for {} of the blocks below: {}", build.blocks, build.command),
        );
    }
    if let Some(process) = plan.in_process {
        let blocks = match process.blocks {
            1 => "each block is made in one process".to_string(),
            blocks => format!("{blocks} of the blocks below are made in one process"),
        };
        line("unit", &format!("a process: {blocks}, which exchanges its code path between runs"));
    }
    line(
        "warm-up",
        &match (plan.emulation(), plan.in_process) {
            (Some(_), Some(_)) => format!("{} × the whole first process", plan.warmup),
            _ => format!("{} of each variant", plan.warmup),
        },
    );
    if let Some(shard) = plan.shard() {
        line(
            "shard",
            &format!("{shard}: blocks {}", blocks_in_words(&plan.blocks_of_shard(shard))),
        );
    }
    if let Some(computers) = plan.computers() {
        line("unit", &format!("a computer, of {computers}"));
    }
    line("seed", &plan.seed.to_string());
    let blocks: Vec<String> = plan
        .blocks
        .iter()
        .take(BLOCKS_SHOWN)
        .map(|block| order(&block.order, runs_shown))
        .collect();
    let more = plan.blocks.len().saturating_sub(BLOCKS_SHOWN);
    let more = if more > 0 { format!(" and {more} more blocks") } else { String::new() };
    line("order", &format!("{}{more}", blocks.join(" ")));
    let most = if plan.may_end_early() { "at most " } else { "" };
    line("in all", &format!("{most}{} runs", grouped(plan.slot_count() as u64)));
    let mut document = Document::default();
    document.rows(rows);
    document
}

/// The range of many that is not shown: all but `shown`, the last one of which ends the list.
fn left_out(count: usize, shown: usize) -> Range<usize> {
    match count > shown {
        true => shown - 1..count - 1,
        false => 0..0,
    }
}

/// The runs of a block by their variants' letters.
fn order(of: &[u16], shown: usize) -> String {
    let left_out = left_out(of.len(), shown);
    let mut text = String::new();
    for (index, variant) in of.iter().enumerate() {
        if index == left_out.start && !left_out.is_empty() {
            text += "…";
        }
        if !left_out.contains(&index) {
            text += &letter(*variant);
        }
    }
    text
}

/// Blocks by number, from 1.
fn blocks_in_words(blocks: &Range<u32>) -> String {
    match blocks.len() {
        1 => blocks.end.to_string(),
        _ => format!("{}-{}", blocks.start + 1, blocks.end),
    }
}

fn conditions(plan: &Plan) -> String {
    let mut parts = vec![
        format!("address layout {}", word(&plan.aslr)),
        format!("environment {}", word(&plan.environment)),
    ];
    if let Some(emulation) = plan.emulation() {
        parts.push(format!("{} emulated machines at a time", emulation.jobs));
        if emulation.model {
            parts.push("with models of caches and branch predictor".into());
        }
    }
    if let Some(cpu) = plan.cpu {
        parts.push(format!("pinned to CPU {cpu}"));
    }
    if plan.real_time() {
        parts.push("with real-time priority".into());
    }
    if let Some(limit_ms) = plan.timeout_ms {
        parts.push(format!("at most {} a run", time_in_words(limit_ms)));
    }
    parts.join(", ")
}

/// The word that the command line uses for a choice.
fn word<T: clap::ValueEnum>(choice: &T) -> String {
    choice.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
}

/// A, B, C …; a number from the 27th variant on.
fn letter(variant: u16) -> String {
    match u8::try_from(variant) {
        Ok(small) if small < 26 => char::from(b'A' + small).to_string(),
        _ => format!("[{}]", variant + 1),
    }
}
