//! Names of the comparability ledger's rules, which a plan can waive.

use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_record::nearest::did_you_mean;

/// The rules, in the order of the ledger's table.
pub const NAMES: &[&str] = &[
    "invariants",
    "machine",
    "runs",
    "operations",
    "exit-status",
    "multiplexing",
    "environment",
    "steal",
    "layout",
    "program",
    "clock",
    "load",
    "pressure",
    "throttling",
    "frequency",
    "siblings",
    "migrations",
    "faults",
    "switches",
    "left-behind",
    "carry-over",
    "repeatable",
    "kernel-threads",
    "ticks",
    "import-order",
    "import-possible",
];

/// Checks the name of a rule to waive.
///
/// # Errors
/// A usage error that suggests the nearest names.
pub fn find_rule(name: &str) -> Result<()> {
    if NAMES.contains(&name) {
        return Ok(());
    }
    let near = did_you_mean(name, NAMES.iter().copied());
    let why = format!("--allow {name}: no such rule{near}; there are: {}", NAMES.join(", "));
    Err(fail(Status::Usage, why))
}
