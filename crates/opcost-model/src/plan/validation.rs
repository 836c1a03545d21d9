//! The errors of a modelled core's cycles, found by comparing them with a real core.

use serde::{Deserialize, Serialize};

/// The smallest change of modelled cycles that decides the direction of the true change, whatever a validation found. Below this
/// limit a tenth of all claims were wrong (docs/cycles.md).
pub const DECIDES_FROM_RATIO_MIN: f64 = 0.10;

/// The result of a validation.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Validation {
    /// The processor whose time was the truth, and the day.
    pub validated_on: String,
    /// Number of kernels run.
    pub kernels: usize,
    /// The smallest change claimed by the model whose direction was right in nine of ten pairs of builds; a ratio.
    pub decides_from_ratio: f64,
    /// Estimates of high confidence.
    pub high: Option<Accuracy>,
    /// Estimates of medium confidence.
    pub medium: Option<Accuracy>,
    /// Estimates of low confidence.
    pub low: Option<Accuracy>,
}

/// The errors of one class of estimates.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Accuracy {
    /// The error below which half of the estimates stayed; a ratio of the truth.
    pub error_median: f64,
    /// The error below which nine of ten estimates stayed.
    pub error_p90: f64,
    /// Number of kernels in the class.
    pub kernels: usize,
}

impl Validation {
    /// The smallest change that decides a direction: never below [`DECIDES_FROM_RATIO_MIN`].
    pub fn decides_from(&self) -> f64 {
        self.decides_from_ratio.max(DECIDES_FROM_RATIO_MIN)
    }
}
