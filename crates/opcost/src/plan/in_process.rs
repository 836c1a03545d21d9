//! Variants inside one process.

use serde::{Deserialize, Serialize};

/// Variants are code paths that are exchanged in a prepared, running process; the process then is
/// the unit of the test.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct InProcessPlan {
    /// Blocks that one process makes.
    pub blocks: u32,
}
