//! JSON: hyperfine's `results`, for programs that read hyperfine's files, and the `opcost` block.

use super::{View, alone, annotated, imported, size};
use anyhow::Result;
use opcost_analysis::comparison::{
    Change, FunctionComparison, FunctionRow, ModelAccuracy, Row, SliceAccuracy, UNATTRIBUTED,
    Verdict,
};
use opcost_analysis::patch_sites::FoundSite;
use opcost_model::plan::Unavailable;
use opcost_record::Kind;
use opcost_record::metric::{CYCLE_PARTS, CYCLES_FAR};
use opcost_stats::growth::Growth;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

/// Version of the `opcost` block.
const SCHEMA: u32 = 1;

pub(super) fn render(view: &View<'_>) -> Result<String> {
    opcost_base::json::document(&Whole(view), "comparison")
}

/// A comparison as JSON. Its rows are made while they are written: rows of 10,000 variants as values would take gigabytes.
struct Whole<'a>(&'a View<'a>);

impl Serialize for Whole<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let view = self.0;
        let mut whole = serializer.serialize_map(Some(2))?;
        let results = || (0..view.comparison.variants.len()).map(|variant| result(view, variant));
        whole.serialize_entry("results", &Rows(results))?;
        whole.serialize_entry("opcost", &Block(view))?;
        whole.end()
    }
}

/// Rows that are made one by one while they are written.
struct Rows<F>(F);

impl<F: Fn() -> I, I: Iterator<Item: Serialize>> Serialize for Rows<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0())
    }
}

/// What hyperfine's files do not have.
struct Block<'a>(&'a View<'a>);

impl Serialize for Block<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let view = self.0;
        let comparison = view.comparison;
        let costs = &comparison.function_costs;
        let alone_costs = costs.first().filter(|_| comparison.variants.len() == 1);
        let name = |variant: usize| &*comparison.variants[variant].name;
        let warnings = || view.warnings.iter().map(ToString::to_string);
        let mut block = serializer.serialize_map(None)?;
        block.serialize_entry("schema", &SCHEMA)?;
        block.serialize_entry("recording", &comparison.recording)?;
        block.serialize_entry("experiment", &comparison.experiment)?;
        block.serialize_entry("question", &comparison.question)?;
        block.serialize_entry("state", view.recording.state.word())?;
        block.serialize_entry("created_unix_ns", &view.recording.created_unix_ns)?;
        block.serialize_entry("plan", &view.recording.plan)?;
        block.serialize_entry("machine", &view.recording.machine.first())?;
        block.serialize_entry("variants", &comparison.variants)?;
        block.serialize_entry("metrics", &Rows(|| metrics(view)))?;
        block.serialize_entry("figures", &Rows(|| alone::figures_json(view)))?;
        block.serialize_entry("functions", &Rows(|| functions(view, &comparison.functions)))?;
        block.serialize_entry("function_costs", &alone::functions_json(alone_costs))?;
        block.serialize_entry("differences", &Rows(|| differences(view)))?;
        block.serialize_entry("sizes", &size::rows_json(comparison))?;
        block.serialize_entry("empty_twin", &comparison.twin)?;
        block.serialize_entry("invariants", &comparison.invariants)?;
        block.serialize_entry("ledger", &comparison.ledger)?;
        block.serialize_entry("stopped", &comparison.stopped)?;
        block.serialize_entry("observations", &comparison.observations)?;
        block.serialize_entry("carry_over", &comparison.carry_over)?;
        block.serialize_entry("conclusions", &comparison.conclusions)?;
        block.serialize_entry("warnings", &Rows(warnings))?;
        if alone_costs.is_none() && !costs.is_empty() {
            let rows = costs.iter().map(|costs| {
                let mut of_variant = alone::functions_json(Some(costs));
                of_variant["variant"] = json!(name(costs.variant));
                of_variant
            });
            block.serialize_entry("function_costs_beside", &Rows(|| rows.clone()))?;
        }
        if let Some(costs) = &comparison.cycle_costs {
            block.serialize_entry("cycle_costs", &alone::functions_json(Some(costs)))?;
        }
        if !comparison.cycles.is_empty() {
            let rows = || functions(view, &comparison.cycles);
            block.serialize_entry("cycle_functions", &Rows(rows))?;
        }
        let parts = exact_parts(view);
        if !parts.is_empty() {
            block.serialize_entry("exact_parts", &parts)?;
        }
        if let Some(per_megabyte) = &comparison.per_megabyte {
            block.serialize_entry("per_megabyte", per_megabyte)?;
        }
        if !comparison.kernel_commits.is_empty() {
            let rows = comparison.kernel_commits.iter().map(|found| {
                let mut row = json!(found);
                row["baseline"] = json!(name(found.baseline));
                row["variant"] = json!(name(found.variant));
                row
            });
            block.serialize_entry("kernel_commits", &Rows(|| rows.clone()))?;
        }
        if !comparison.patch_sites.is_empty() {
            block.serialize_entry("patch_sites", &sites(&comparison.patch_sites, name))?;
        }
        if !comparison.steps.is_empty() {
            let steps: Vec<_> = comparison.steps.iter().map(opcost_steps::json).collect();
            block.serialize_entry("steps", &steps)?;
        }
        if let Some(scan) = comparison.ranking.as_ref().and_then(|ranking| ranking.scan.as_ref()) {
            let growth = json!({
                "parameter": scan.name,
                "decided": matches!(scan.growth, Some(Growth::Decided(_))),
                "fits": scan.growth.iter().flat_map(Growth::fits).map(|fit| json!({
                    "growth": fit.order.words(&scan.name),
                    "fixed": fit.fixed,
                    "slope": fit.slope,
                    "error": fit.error,
                })).collect::<Vec<_>>(),
            });
            block.serialize_entry("growth", &growth)?;
        }
        if let Some(import) = &comparison.imported {
            block.serialize_entry("imported", import)?;
        }
        block.end()
    }
}

/// The sites for patchpoint; `name`: of a variant.
pub(super) fn sites<'a>(found: &[FoundSite], name: impl Fn(usize) -> &'a str) -> Value {
    let row = |found: &FoundSite| {
        let mut row = annotated::site_json(&found.site);
        row["baseline"] = json!(name(found.sides[0]));
        row["variant"] = json!(name(found.sides[1]));
        row["of"] = json!(name(found.of));
        row["function"] = json!(found.function);
        row["file"] = json!(found.place.as_ref().map(|(file, _)| file));
        row["line"] = json!(found.place.as_ref().map(|(_, line)| line));
        row
    };
    found.iter().map(row).collect()
}

/// One of hyperfine's results: times in seconds, memory in bytes.
fn result(view: &View<'_>, variant: usize) -> Value {
    let comparison = view.comparison;
    let summary = &comparison.variants[variant];
    let figures = |name: &str| {
        let row = comparison.rows.iter().find(|row| row.key.name == name)?;
        let ops = if row.per_op { summary.ops.unwrap_or(1) as f64 } else { 1.0 };
        if let Some((_, total)) = summary.totals.iter().find(|(of, _)| of == name) {
            return Some((total, 1.0));
        }
        row.values[variant].as_ref().map(|figures| (figures, ops))
    };
    let seconds = |value: f64, ops: f64| value * ops / 1e9;
    let mut fields = Map::new();
    fields.insert("command".into(), json!(summary.name));
    if let Some((wall, ops)) = figures("wall") {
        fields.insert("mean".into(), json!(seconds(wall.mean, ops)));
        fields.insert("stddev".into(), json!(wall.sd.map(|sd| seconds(sd, ops))));
        fields.insert("median".into(), json!(wall.median.map(|value| seconds(value, ops))));
        fields.insert("min".into(), json!(wall.min.map(|value| seconds(value, ops))));
        fields.insert("max".into(), json!(wall.max.map(|value| seconds(value, ops))));
        let times: Vec<f64> = wall.values.iter().map(|value| seconds(*value, ops)).collect();
        fields.insert("times".into(), json!(times));
    }
    for (name, metric) in [("user", "user-time"), ("system", "system-time")] {
        if let Some((figures, ops)) = figures(metric) {
            fields.insert(name.into(), json!(seconds(figures.mean, ops)));
        }
    }
    if let Some((rss, _)) = figures("peak-rss") {
        fields.insert("memory_usage_byte".into(), json!(rss.values));
    }
    fields.insert("exit_codes".into(), json!(summary.exit_codes));
    let scanned = &view.recording.plan.variants[variant].scanned;
    if !scanned.is_empty() {
        fields.insert("parameters".into(), json!(scanned));
    }
    Value::Object(fields)
}

/// Every metric of every comparison.
fn metrics<'v>(view: &'v View<'_>) -> impl Iterator<Item = Value> + 'v {
    let comparison = view.comparison;
    comparison.comparisons.iter().enumerate().flat_map(move |(index, &(baseline, variant))| {
        let names = (&comparison.variants[baseline].name, &comparison.variants[variant].name);
        let rows = comparison.rows.iter().map(move |row| {
            let sides = [baseline, variant]
                .map(|side| row.values[side].as_ref().map(|figures| figures.center()));
            let mut metric = metric(row, &row.changes[index], names, sides);
            if let Some(unit) = imported::unit_written(view.recording, row) {
                metric["unit"] = json!(unit);
            }
            metric
        });
        rows.chain(comparison.unavailable.iter().map(move |missing| unavailable(missing, names)))
    })
}

/// A metric without figures.
fn unavailable(missing: &Unavailable, names: (&String, &String)) -> Value {
    json!({
        "metric": missing.key.name,
        "domain": missing.key.domain,
        "unit": missing.key.row().unit.symbol(),
        "per_op": missing.key.row().per_op,
        "source": missing.key.source,
        "kind": missing.key.row().kind,
        "family": missing.key.row().family,
        "primary": false,
        "exact": false,
        "baseline": names.0,
        "variant": names.1,
        "value_baseline": null,
        "value": null,
        "change_ratio": null,
        "change_ratio_low": null,
        "change_ratio_high": null,
        "change_ratio_paired": null,
        "ci_low": null,
        "ci_high": null,
        "ci_level": null,
        "p_adjusted": null,
        "mde_ratio": null,
        "mde_difference": null,
        "difference": null,
        "difference_low": null,
        "difference_high": null,
        "relevance_floor_ratio": null,
        "relevance_floor_layouts": null,
        "n_pairs": 0,
        "pairs_needed": null,
        "layouts": null,
        "change_ratio_min": null,
        "change_ratio_max": null,
        "verdict": Verdict::Unavailable,
        "reason": missing.reason,
        "remedy": missing.remedy,
    })
}

pub(super) fn metric(
    row: &Row,
    change: &Change,
    names: (&String, &String),
    sides: [Option<f64>; 2],
) -> Value {
    let mut metric = json!({
        "metric": row.key.name,
        "domain": row.key.domain,
        "unit": row.unit.symbol(),
        "per_op": row.per_op,
        "source": row.key.source,
        "kind": row.kind,
        "family": row.family,
        "primary": row.primary,
        "exact": row.exact,
        "baseline": names.0,
        "variant": names.1,
        "value_baseline": sides[0],
        "value": sides[1],
        "change_ratio": change.ratio_of_medians,
        "change_ratio_low": change.ratio_of_medians_ci.map(|(low, _)| low),
        "change_ratio_high": change.ratio_of_medians_ci.map(|(_, high)| high),
        "change_ratio_paired": change.change_ratio,
        "ci_low": change.ci.map(|(low, _)| low),
        "ci_high": change.ci.map(|(_, high)| high),
        "ci_level": change.ci.map(|_| change.ci_level),
        "p_adjusted": change.p_adjusted,
        "mde_ratio": change.mde_ratio,
        "mde_difference": change.mde_difference,
        "difference": change.difference,
        "difference_low": change.difference_ci.map(|(low, _)| low),
        "difference_high": change.difference_ci.map(|(_, high)| high),
        "relevance_floor_ratio": change.relevance_floor_ratio,
        "relevance_floor_layouts": change.relevance_floor_ratio.map(|_| change.relevance_floor_layouts),
        "n_pairs": change.n_pairs,
        "pairs_needed": change.pairs_needed,
        "layouts": change.layouts.map(|layouts| layouts.count),
        "change_ratio_min": change.layouts.and_then(|layouts| layouts.range).map(|(least, _)| least),
        "change_ratio_max": change.layouts.and_then(|layouts| layouts.range).map(|(_, most)| most),
        "verdict": change.verdict,
        "reason": change.reason,
    });
    name_region(row, &mut metric);
    add_accuracy(row, &mut metric);
    metric
}

/// Adds how far off modelled cycles may be.
pub(super) fn add_accuracy(row: &Row, shown: &mut Value) {
    if let Some(of_model) = &row.accuracy {
        let ModelAccuracy { core, confidence, accuracy, validated_on, decides_from_ratio, slices } =
            of_model;
        shown["core"] = json!(core);
        shown["confidence"] = json!(confidence.name());
        shown["error_median"] = json!(accuracy.map(|accuracy| accuracy.error_median));
        shown["error_p90"] = json!(accuracy.map(|accuracy| accuracy.error_p90));
        shown["validated_on"] = json!(validated_on);
        shown["decides_from_ratio"] = json!(decides_from_ratio);
        if let Some(SliceAccuracy { one_in, error_ratio }) = slices {
            shown["one_in"] = json!(one_in);
            shown["slice_error_ratio"] = json!(error_ratio);
        }
    }
}

/// Names the region of a row if the program marked it, and labels the row as `--fail-on` and a gate's suite do.
pub(super) fn name_region(row: &Row, shown: &mut Value) {
    if row.key.is_of_program_region() {
        shown["region"] = json!(row.key.region);
        shown["label"] = json!(row.label);
    }
}

/// Every function of every comparison, the largest change first; behind them the unattributed cost.
fn functions<'v>(
    view: &'v View<'_>,
    all: &'v [FunctionComparison],
) -> impl Iterator<Item = Value> + 'v {
    let variants = &view.comparison.variants;
    all.iter().flat_map(move |functions| {
        let names = [functions.baseline, functions.variant].map(|side| &variants[side].name);
        let rest = &functions.unattributed;
        let rest = json!({
            "baseline": names[0],
            "variant": names[1],
            "symbol": UNATTRIBUTED,
            "module": null,
            "per_op": functions.per_op,
            "kind": kind(functions),
            "value_baseline": rest.value_baseline,
            "value": rest.value,
            "change": rest.change,
            "callers": [],
        });
        functions.rows.iter().map(move |row| function(functions, row, names)).chain([rest])
    })
}

/// The part of each comparison's change that is the same in every layout, and the rest.
fn exact_parts(view: &View<'_>) -> Vec<Value> {
    let variants = &view.comparison.variants;
    let part = |functions: &FunctionComparison| {
        let part = functions.exact_part()?;
        Some(json!({
            "baseline": variants[functions.baseline].name,
            "variant": variants[functions.variant].name,
            "per_op": functions.per_op,
            "functions": part.functions,
            "change": part.change,
            "rest": part.rest,
            "layouts": part.layouts,
        }))
    };
    view.comparison.functions.iter().filter_map(part).collect()
}

fn kind(functions: &FunctionComparison) -> Kind {
    match (functions.modelled, &functions.sampled) {
        (true, _) => Kind::Modelled,
        (_, Some(_)) => Kind::Sampled,
        _ => Kind::Counted,
    }
}

/// One function, the same in every document.
pub(super) fn function(
    functions: &FunctionComparison,
    row: &FunctionRow,
    names: [&String; 2],
) -> Value {
    // Samples count no calls.
    let calls = |count: f64| functions.sampled.is_none().then_some(count);
    let callers = row.callers.iter().map(|caller| {
        json!({
            "symbol": caller.symbol,
            "module": caller.module,
            "value_baseline": caller.own.value_baseline,
            "value": caller.own.value,
            "change": caller.own.change,
            "calls_baseline": calls(caller.calls.value_baseline),
            "calls": calls(caller.calls.value),
        })
    });
    let split = row.split().filter(|_| functions.sampled.is_none());
    let mut function = json!({
        "baseline": names[0],
        "variant": names[1],
        "symbol": row.symbol,
        "module": row.module,
        "module_baseline": row.module_baseline.as_ref().unwrap_or(&row.module),
        "source": row.source,
        "by_name_only": row.by_name_only,
        "per_op": functions.per_op,
        "kind": kind(functions),
        "value_baseline": row.own.value_baseline,
        "value": row.own.value,
        "change": row.own.change,
        "calls_baseline": calls(row.calls.value_baseline),
        "calls": calls(row.calls.value),
        "change_from_calls": split.map(|split| split.from_calls),
        "change_from_price": split.map(|split| split.from_price),
        "appeared": row.appeared,
        "vanished": row.vanished,
        "exact": row.exact,
        "exact_in_layouts": row.exact_difference.map(|exact| exact.layouts),
        "change_per_call": row.exact_difference.and_then(|exact| exact.per_call),
        "ci_low": row.ci.map(|(low, _)| low),
        "ci_high": row.ci.map(|(_, high)| high),
        "ci_level": row.ci.map(|_| row.ci_level),
        "p_adjusted": row.p_adjusted,
        "verdict": row.verdict,
        "reason": row.reason,
        "callers": callers.collect::<Vec<Value>>(),
    });
    if let Some(parts) = &row.parts {
        let parts = CYCLE_PARTS.iter().chain([&CYCLES_FAR]).zip(parts);
        let parts = parts.map(|(name, sides)| (name.to_string(), json!(sides)));
        function["parts"] = Value::Object(parts.collect());
    }
    function
}

/// The differences between variants, line by line.
fn differences<'v>(view: &'v View<'_>) -> impl Iterator<Item = Value> + 'v {
    let variants = &view.comparison.variants;
    view.comparison.differences.iter().map(|difference| {
        json!({
            "baseline": variants[difference.baseline].name,
            "variant": variants[difference.variant].name,
            "what": difference.what,
            "lines": difference.lines,
        })
    })
}
