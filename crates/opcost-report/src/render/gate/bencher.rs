//! Bencher's metric format: `{"CASE": {"METRIC": {"value": …}}}`, the tip's figures.

use super::GateView;
use anyhow::Result;
use serde_json::{Map, json};

pub(super) fn render(view: &GateView<'_>) -> Result<String> {
    let mut cases = Map::new();
    for case in &view.report.cases {
        let mut metrics = Map::new();
        for figure in case.figures.iter().filter(|figure| figure.over_commits.is_none()) {
            let Some(value) = figure.value else { continue };
            let mut metric = Map::from_iter([("value".to_string(), json!(value))]);
            if let Some(floor) = figure.floor {
                metric.insert("lower_value".into(), json!(value - floor.most as f64));
                metric.insert("upper_value".into(), json!(value + floor.most as f64));
            }
            metrics.insert(figure.metric.clone(), metric.into());
        }
        if !metrics.is_empty() {
            cases.insert(case.name.clone(), metrics.into());
        }
    }
    opcost_base::json::document(&cases, "the figures")
}
