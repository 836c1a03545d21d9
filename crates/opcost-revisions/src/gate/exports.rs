//! Files that a gate's report is written to.

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use opcost_command::exports::{ExportFiles, FormatTable};
use opcost_report::render::Style;
use opcost_report::render::gate::{GATE_FORMATS, GateView, render};

/// Files that a gate's report is written to.
pub(super) type GateExports = ExportFiles<Reports>;

/// The formats of a gate's report.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports;

impl FormatTable for Reports {
    const HEADING: &'static str = "Output";

    fn rows() -> Vec<(&'static str, String)> {
        let help = |help| format!("Write {help} to FILE; - prints it in place of the text");
        GATE_FORMATS.iter().map(|format| (format.name, help(format.help))).collect()
    }
}

/// The names of the formats, for `--format`.
pub(super) fn format_names() -> PossibleValuesParser {
    PossibleValuesParser::new(GATE_FORMATS.iter().map(|format| format.name))
}

/// Writes every file.
pub(super) fn write(exports: &GateExports, view: &GateView<'_>) -> Result<()> {
    let style = Style::plain();
    let plain = GateView { style: &style, ..*view };
    exports.write_each(|name| render(name, &plain).map(String::into_bytes))
}
