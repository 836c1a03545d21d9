//! The running program whose periods are the runs of a plan.

use serde::{Deserialize, Serialize};

/// A program that already runs; each run of the plan is a period of its life.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct AttachmentPlan {
    /// The program's process.
    pub pid: i32,
    /// The key whose sites are patched.
    pub key: String,
    /// The length of each period, nanoseconds.
    pub period_ns: u64,
    /// The time between a change and the next period, nanoseconds.
    pub settle_ns: u64,
    /// The counter of operations; `None` counts none, and figures are per second.
    pub ops: Option<OpsSource>,
}

/// The counter of a program's operations.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OpsSource {
    /// The program itself, by `patchpoint_ops_add`.
    Program,
    /// The key's sites, compiled with `PATCHPOINT_OPS`: an operation is an execution of a site.
    Key,
}

impl AttachmentPlan {
    /// The meaning of an operation, for people.
    pub fn words(&self) -> &'static str {
        match self.ops {
            Some(OpsSource::Program) => "operations as the program counts them",
            Some(OpsSource::Key) => "an operation is an execution of a site of the key",
            None => "no operations are counted, so figures are per second",
        }
    }
}
