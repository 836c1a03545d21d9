//! OpenMetrics: one gauge with labels for all figures of the tip.

use super::GateView;
use opcost_record::printable::{Output, safe};
use std::fmt::Write as _;

pub(super) fn render(view: &GateView<'_>) -> String {
    let mut text = String::from("# HELP opcost_figure A figure of the revision that is to land\n");
    text.push_str("# TYPE opcost_figure gauge\n");
    for (case, figure) in view.report.figures_of_tip() {
        if let Some(value) = figure.value {
            let (name, metric) = (label(&case.name), label(&figure.metric));
            let unit = figure.unit.symbol();
            let _ = writeln!(
                text,
                "opcost_figure{{case=\"{name}\",metric=\"{metric}\",unit=\"{unit}\"}} {value}"
            );
        }
    }
    text.push_str("# EOF\n");
    text
}

/// The value of a label.
fn label(text: &str) -> String {
    safe(text, Output::OpenMetricsLabel)
}
