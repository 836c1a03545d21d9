//! Figures measured by others, as a recording stores them.

use opcost_record::{Better, Family, MetricKey, Unit};
use serde::{Deserialize, Serialize};

/// The source of every imported metric.
pub const IMPORT: &str = "import";

/// The figures that were imported instead of measured.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ImportPlan {
    /// The files.
    pub sources: Vec<ImportSource>,
    /// The figures, metric by metric, in the order of the files.
    pub metrics: Vec<ImportedMetric>,
    /// Number of threads of the work, if known; it limits the CPU time.
    pub threads: Option<u32>,
    /// Contents of the files that were not taken over.
    pub omitted: Vec<Omission>,
    /// Published claims about the figures.
    pub claims: Vec<Claim>,
    /// Formulas published for figures that follow from others.
    pub formulas: Vec<Formula>,
}

/// A part that a file has, or should have, and that was not taken over.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Omission {
    /// The part.
    pub what: String,
    /// The reason.
    pub why: String,
}

impl Omission {
    /// An omission in words.
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Omission {
        Omission { what: what.into(), why: why.into() }
    }
}

/// A file from which figures were read.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ImportSource {
    /// The file, as it was given.
    pub file: String,
    /// The file's format: a name of the table of formats.
    pub format: String,
    /// The tool that made the file, if it is not the format's.
    pub tool: Option<String>,
    /// The version of the tool.
    pub version: Option<String>,
    /// The time when the figures were made, as the file gives it.
    pub date: Option<String>,
}

/// The figures of one metric.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ImportedMetric {
    /// The metric, with the source [`IMPORT`].
    pub key: MetricKey,
    /// The unit of the figures.
    pub unit: Unit,
    /// The unit as the file writes it, if opcost does not know it.
    pub unit_written: Option<String>,
    /// The factor from the file's unit to [`ImportedMetric::unit`].
    pub factor: f64,
    /// The direction that is better.
    pub better: Better,
    /// The family in the error budget.
    pub family: Family,
    /// Whether the figures are per operation.
    pub per_op: bool,
    /// Weight of the last digit given, in opcost's unit: the effect of rounding.
    pub resolution: f64,
    /// The figures of each variant; `None` if a variant has none.
    pub figures: Vec<Option<ImportedFigures>>,
}

impl ImportedMetric {
    /// The name with its domain, and the unit if opcost does not know it: `putc [K/s]`.
    pub fn label(&self) -> String {
        match &self.unit_written {
            Some(unit) => format!("{} [{unit}]", self.key.label()),
            None => self.key.label(),
        }
    }
}

/// The figures of one metric and one variant, in the metric's unit.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ImportedFigures {
    /// Single runs.
    Runs {
        /// The figures, in the order of the file.
        values: Vec<f64>,
        /// The block of each run; empty if unknown.
        blocks: Vec<u32>,
    },
    /// A mean without its runs.
    Mean {
        /// The arithmetic mean.
        mean: f64,
        /// Standard deviation of the runs; `None` if unknown.
        sd: Option<f64>,
        /// Number of runs; `None` if unknown.
        n: Option<u64>,
    },
}

/// A published change.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Claim {
    /// The metric.
    pub metric: String,
    /// The variant, compared with the baseline.
    pub variant: String,
    /// The change, percent of the baseline.
    pub percent: f64,
    /// Number of decimals published.
    pub decimals: usize,
}

/// A published formula for a figure that follows from others: `factor · over… / under…`, in the units of the file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Formula {
    /// The metric that follows from the others.
    pub metric: String,
    /// A constant.
    pub factor: f64,
    /// The metrics to multiply.
    pub over: Vec<String>,
    /// The metrics to divide by.
    pub under: Vec<String>,
}
