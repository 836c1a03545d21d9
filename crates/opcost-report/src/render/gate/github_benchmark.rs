//! The JSON of github-action-benchmark's `customSmallerIsBetter`: the tip's figures for which lower is better.

use super::GateView;
use anyhow::Result;
use opcost_record::{Better, Unit};
use serde_json::{Value, json};

pub(super) fn render(view: &GateView<'_>) -> Result<String> {
    let figures = view.report.figures_of_tip().filter(|(_, figure)| figure.better == Better::Lower);
    let rows = figures.filter_map(|(case, figure)| {
        let unit = match figure.unit {
            Unit::Count => figure.metric.as_str(),
            other => other.symbol(),
        };
        let mut row = json!({
            "name": format!("{} {}", case.name, figure.metric),
            "unit": unit,
            "value": figure.value?,
            "extra": figure.words(),
        });
        if let (Some(floor), Value::Object(row)) = (figure.floor, &mut row) {
            row.insert("range".into(), json!(format!("± {}", floor.most)));
        }
        Some(row)
    });
    let rows: Vec<Value> = rows.collect();
    opcost_base::json::document(&rows, "the figures")
}
