//! How good a modelled core's cycles are, as it was found by holding them against a real core.

use serde::{Deserialize, Serialize};

/// The smallest change of modelled cycles that says in which direction the truth went, whatever a
/// validation found: below, a tenth of all claims were wrong (docs/cycles.md).
pub(crate) const DECIDES_FROM_RATIO_MIN: f64 = 0.10;

/// What a validation found.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Validation {
    /// The processor whose time was the truth, and the day.
    pub validated_on: String,
    /// Kernels that were run.
    pub kernels: usize,
    /// The smallest change that the model claimed whose direction was right in nine of ten pairs of builds;
    /// a ratio.
    pub decides_from_ratio: f64,
    /// Estimates of high confidence.
    pub high: Option<Accuracy>,
    /// Estimates of medium confidence.
    pub medium: Option<Accuracy>,
    /// Estimates of low confidence.
    pub low: Option<Accuracy>,
}

/// How far the estimates of one class were off.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Accuracy {
    /// The error that half of the estimates stayed below; a ratio of the truth.
    pub error_median: f64,
    /// The error that nine of ten stayed below.
    pub error_p90: f64,
    /// Kernels of the class.
    pub kernels: usize,
}

impl Validation {
    /// The smallest change that decides a direction: never below [`DECIDES_FROM_RATIO_MIN`].
    pub fn decides_from(&self) -> f64 {
        self.decides_from_ratio.max(DECIDES_FROM_RATIO_MIN)
    }
}
