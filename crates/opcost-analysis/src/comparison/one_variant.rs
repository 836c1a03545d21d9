//! One variant by itself: its figures with their intervals, and the costs of its functions.

use super::function_changes::summed;
use super::{Comparison, Figures, Row};
use opcost_attribution::function_costs::{Attribution, Charged, SampledBy};
use opcost_base::number::{figure, figures, grouped};
use opcost_model::recording::Recording;
use opcost_record::metric::{CYCLE_PARTS, MODEL_CYCLES};
use opcost_stats::sign;
use opcost_stats::welch::{Group, mean_interval};
use std::collections::BTreeMap;

/// Confidence level of the interval of a figure.
pub const FIGURE_LEVEL: f64 = 0.95;

/// The interval of a median at [`FIGURE_LEVEL`], or of a mean whose single runs are unknown; `None` if there are too few runs.
///
/// The interval treats the runs as independent. It does not include effects that shift all runs alike, such as another layout or
/// another day.
pub fn interval(figures: &Figures) -> Option<(f64, f64)> {
    match figures.median {
        Some(_) => sign::interval(&figures.values, FIGURE_LEVEL),
        None => {
            let group = Group { mean: figures.mean, sd: figures.sd?, n: figures.n as u64 };
            mean_interval(group, FIGURE_LEVEL)
        }
    }
}

/// The costs of one variant's functions, as means over its runs.
#[derive(Clone, Debug)]
pub struct FunctionCosts {
    /// Index of the variant.
    pub variant: usize,
    /// The unit of the figures: `instructions`, `ns of sampled task-clock`.
    pub unit: &'static str,
    /// Whether the figures are per operation; else they are per run.
    pub per_op: bool,
    /// The samples from which the figures are estimated; `None` if every instruction was counted.
    pub sampled: Option<SampledBy>,
    /// The whole cost.
    pub total: f64,
    /// The functions, the most expensive first.
    pub rows: Vec<FunctionCost>,
    /// The cost that no function is charged with.
    pub unattributed: f64,
}

/// One function of one variant.
#[derive(Clone, Debug)]
pub struct FunctionCost {
    /// The symbol, without the suffixes that compilers append to parts and copies.
    pub symbol: String,
    /// The file that contains the function, or `[kernel]`.
    pub module: String,
    /// Distinguishes the function from other local functions of the same name.
    pub source: Option<String>,
    /// For modelled cycles: the cycles of each cause, then the memory cycles that waited far away.
    pub parts: Option<Vec<f64>>,
    /// Its own cost, callees left out.
    pub own: f64,
    /// The number of calls; `None` if the costs are from samples.
    pub calls: Option<f64>,
}

/// The functions of each variant that is compared with no other, by the metric of its profiles; none without profiles.
pub(super) fn function_costs(recording: &Recording) -> Vec<FunctionCosts> {
    let plan = &recording.plan;
    let compared: Vec<usize> = plan
        .comparisons()
        .into_iter()
        .filter(|sides| plan.apart(*sides).is_none())
        .flat_map(|(one, other)| [one, other])
        .collect();
    let alone = (0..plan.variants.len()).filter(|variant| !compared.contains(variant));
    alone.filter_map(|variant| charged_costs(recording, Charged::Profiled, variant)).collect()
}

/// The functions of a recording's only variant, by modelled cycles and their causes; `None` without a modelled core.
pub(super) fn cycle_costs(recording: &Recording) -> Option<FunctionCosts> {
    let mut costs = charged_costs(recording, Charged::Cycles, 0)?;
    costs.unit = MODEL_CYCLES;
    let parts = (0..=CYCLE_PARTS.len()).map(|part| {
        let of_part = charged_costs(recording, Charged::CyclePart(part), 0);
        let of_part = of_part.into_iter().flat_map(|costs| costs.rows);
        of_part.map(|row| ((row.symbol, row.module, row.source), row.own)).collect()
    });
    let parts: Vec<BTreeMap<_, f64>> = parts.collect();
    for row in &mut costs.rows {
        let key = (row.symbol.clone(), row.module.clone(), row.source.clone());
        row.parts = Some(parts.iter().map(|of| of.get(&key).copied().unwrap_or(0.0)).collect());
    }
    Some(costs)
}

fn charged_costs(recording: &Recording, charged: Charged, variant: usize) -> Option<FunctionCosts> {
    let attribution = Attribution::of_charged(recording, charged);
    let own = attribution.runs.iter().filter(|run| run.side == variant);
    let runs: Vec<_> = own.map(|run| vec![run]).collect();
    if runs.is_empty() {
        return None;
    }
    let mut made = summed(&attribution.matching, [variant; 2], [runs, Vec::new()]);
    let sampled = SampledBy::of(recording, &[variant]);
    if let Some(by) = sampled {
        made.mark_sampled(by);
    }
    let rows = made.rows.iter().map(|row| FunctionCost {
        symbol: row.symbol.clone(),
        module: row.module.clone(),
        source: row.source.clone(),
        parts: None,
        own: row.own.value_baseline,
        calls: sampled.is_none().then_some(row.calls.value_baseline),
    });
    Some(FunctionCosts {
        variant,
        unit: made.unit(),
        per_op: recording.records.iter().any(|record| record.ops.is_some()),
        sampled,
        total: made.total.value_baseline,
        rows: rows.collect(),
        unattributed: made.unattributed.value_baseline,
    })
}

/// The answer about a variant that is compared with no other: its primary figure.
pub(super) fn conclusion(comparison: &Comparison) -> Option<String> {
    let row = comparison.rows.iter().find(|row| row.primary)?;
    let side = row.values[0].as_ref()?;
    let name = &comparison.variants[0].name;
    let runs = match side.n {
        1 => "1 run".to_string(),
        n => format!("{} runs", grouped(n as u64)),
    };
    Some(format!("{name}: {} {}; {runs}", row.label, figure_in_words(row, side)))
}

/// A figure with its interval, or with the note that it is exact or multiplexed.
fn figure_in_words(row: &Row, side: &Figures) -> String {
    let median = figure(side.center(), row.unit);
    if side.multiplexed > 0 {
        return format!("{median}, multiplexed in {} runs, so not a full count", side.multiplexed);
    }
    match side.interval {
        _ if row.exact => format!("{median}, the same in every run"),
        Some((low, high)) => {
            let ends = figures(&[side.center(), low, high], row.unit);
            format!("{} ({} … {} at 95 % confidence)", ends[0], ends[1], ends[2])
        }
        None => format!("{median}, too few runs for an interval"),
    }
}
