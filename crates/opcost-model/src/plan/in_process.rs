//! Variants inside one process.

use serde::{Deserialize, Serialize};

/// Variants that are code paths, exchanged in a prepared, running process. The process then is the unit of the test.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct InProcessPlan {
    /// Number of blocks that one process makes.
    pub blocks: u32,
}
