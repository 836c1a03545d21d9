//! A plan, as `--dry-run` prints it.

use crate::comparison::by_reason;
use crate::number::{grouped, magnitude};
use crate::plan::Plan;
use crate::render::Style;
use crate::render::page::{PLAIN, Page};
use crate::time::time_in_words;
use anyhow::{Context, Result};

/// The plan as JSON, whole.
pub fn json(plan: &Plan) -> Result<String> {
    let mut text = serde_json::to_string_pretty(plan).context("plan to JSON")?;
    text.push('\n');
    Ok(text)
}

/// Blocks shown before the rest is counted only.
const BLOCKS_SHOWN: usize = 8;

/// The plan for people.
pub fn text(plan: &Plan, style: &Style) -> String {
    let mut page = Page::new(style);
    let mut line = |name: &str, value: &str| page.wrap(PLAIN, &format!("{name:<12} "), value);
    line("experiment", &plan.experiment);
    if let Some(question) = &plan.question {
        line("question", question);
    }
    if let Some(provenance) = plan.provenance() {
        line("of", &provenance);
    }
    for (index, variant) in plan.variants.iter().enumerate() {
        let letter = letter(index as u16);
        line(&format!("variant {letter}"), &format!("{}: {}", variant.name, variant.describe()));
    }
    line("primary", &plan.primary.label());
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
    match plan.variants.len() {
        1 => line("runs", &format!("{runs} (one variant: nothing is decided)")),
        _ => line(
            "pairs",
            &format!(
                "{runs} ({} can decide every metric at its corrected level)",
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
                format!("{} are spent, and {least} runs are made", time_in_words(budget_ms))
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
    line("seed", &plan.seed.to_string());
    let blocks: Vec<String> = plan
        .blocks
        .iter()
        .take(BLOCKS_SHOWN)
        .map(|block| block.order.iter().map(|variant| letter(*variant)).collect())
        .collect();
    let more = plan.blocks.len().saturating_sub(BLOCKS_SHOWN);
    let more = if more > 0 { format!(" and {more} more blocks") } else { String::new() };
    line("order", &format!("{}{more}", blocks.join(" ")));
    line("in all", &format!("{} runs", grouped(plan.slot_count() as u64)));
    page.into_text()
}

fn conditions(plan: &Plan) -> String {
    let mut parts = vec![
        format!("address layout {}", word(&plan.aslr)),
        format!("environment {}", word(&plan.environment)),
    ];
    if let Some(emulation) = plan.emulation() {
        parts.push(format!("{} emulated machines at a time", emulation.jobs));
        if emulation.model.is_some() {
            parts.push("with models of caches and branch predictor".into());
        }
    }
    if let Some(cpu) = plan.cpu {
        parts.push(format!("pinned to CPU {cpu}"));
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
