//! Figures that others measured, as a recording keeps them.

use opcost_record::{Better, Family, MetricKey, Unit};
use serde::{Deserialize, Serialize};

/// The source of every imported metric.
pub const IMPORT: &str = "import";

/// What was imported instead of run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ImportPlan {
    /// The files.
    pub sources: Vec<ImportSource>,
    /// The figures, metric by metric, in the order of the files.
    pub metrics: Vec<ImportedMetric>,
    /// Threads that the work ran on, where that is known: they bound its CPU time.
    pub threads: Option<u32>,
    /// What the files hold and was not taken over.
    pub omitted: Vec<Omission>,
    /// What was published about the figures.
    pub claims: Vec<Claim>,
    /// Figures that were published as following from others.
    pub formulas: Vec<Formula>,
}

/// Something that a file holds, or should, and that was not taken over.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Omission {
    /// What it is.
    pub what: String,
    /// Why.
    pub why: String,
}

impl Omission {
    /// An omission in words.
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Omission {
        Omission { what: what.into(), why: why.into() }
    }
}

/// A file that figures were read from.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ImportSource {
    /// The file, as it was given.
    pub file: String,
    /// The format it was read in: a name of the table of formats.
    pub format: String,
    /// The tool that made it, where that is not the format.
    pub tool: Option<String>,
    /// The version of the tool.
    pub version: Option<String>,
    /// When the figures were made, as the file says it.
    pub date: Option<String>,
}

/// The figures of one metric.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ImportedMetric {
    /// The metric, with the source [`IMPORT`].
    pub key: MetricKey,
    /// The unit of the figures.
    pub unit: Unit,
    /// The unit as the file writes it, where it is none of ours.
    pub unit_written: Option<String>,
    /// What one of the file's unit is in ours.
    pub factor: f64,
    /// Which direction is better.
    pub better: Better,
    /// The family in the error budget.
    pub family: Family,
    /// Whether the figures are of one operation.
    pub per_op: bool,
    /// Weight of the last digit given, in our unit: what rounding may have taken.
    pub resolution: f64,
    /// The figures of each variant; `None` where a variant has none.
    pub figures: Vec<Option<ImportedFigures>>,
}

impl ImportedMetric {
    /// The name with its domain, and its unit where that is none of ours: `putc [K/s]`.
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
        /// The block of each run; empty where nobody knows.
        blocks: Vec<u32>,
    },
    /// A mean without its runs.
    Mean {
        /// The arithmetic mean.
        mean: f64,
        /// Standard deviation of the runs; `None` where it is not known.
        sd: Option<f64>,
        /// Number of runs; `None` where it is not known.
        n: Option<u64>,
    },
}

/// A published change.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Claim {
    /// The metric.
    pub metric: String,
    /// The variant, against the baseline.
    pub variant: String,
    /// The change, percent of the baseline.
    pub percent: f64,
    /// Decimals it was published with.
    pub decimals: usize,
}

/// A figure published as following from others: `factor · over… / under…`, in the units of the file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Formula {
    /// The metric that follows.
    pub metric: String,
    /// A constant.
    pub factor: f64,
    /// Metrics multiplied.
    pub over: Vec<String>,
    /// Metrics divided by.
    pub under: Vec<String>,
}
