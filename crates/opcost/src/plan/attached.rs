//! The running program whose periods the runs of a plan are.

use serde::{Deserialize, Serialize};

/// A program that runs already; each run of the plan is a period of its life.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AttachmentPlan {
    /// Its process.
    pub pid: i32,
    /// The key whose sites are changed.
    pub key: String,
    /// How long each period is, nanoseconds.
    pub period_ns: u64,
    /// How long the program runs between a change and the next period, nanoseconds.
    pub settle_ns: u64,
    /// Who counts operations; `None`: nobody, and figures are per second.
    pub ops: Option<OpsSource>,
}

/// Who counts a program's operations.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OpsSource {
    /// The program: `patchpoint_ops_add`.
    Program,
    /// The key's sites, compiled with `PATCHPOINT_OPS`: an operation is an execution of a site.
    Key,
}

impl AttachmentPlan {
    /// What an operation is, for people.
    pub fn words(&self) -> &'static str {
        match self.ops {
            Some(OpsSource::Program) => "operations as the program counts them",
            Some(OpsSource::Key) => "an operation is an execution of a site of the key",
            None => "no operations are counted, so figures are per second",
        }
    }
}
