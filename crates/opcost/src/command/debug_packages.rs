//! Names the packages that would give the functions in a report their names.

use opcost_analysis::comparison::{Comparison, Warning};
use opcost_model::recording::Recording;
use opcost_symbols::debug_package::DebugPackage;
use std::collections::BTreeSet;

/// The most files that dpkg is asked about.
const FILES_MAX: usize = 3;
/// The rows of a comparison that are looked at, the largest changes.
const ROWS_MAX: usize = 10;

/// Warnings on functions without names in the table of a comparison that was recorded here.
pub(super) fn of_comparison(comparison: &Comparison, recording: &Recording) -> Vec<Warning> {
    if comparison.refused() || recording.arrived_unix_ns.is_some() {
        return Vec::new();
    }
    let rows = comparison.functions.iter().flat_map(|found| found.rows.iter().take(ROWS_MAX));
    let nameless = rows.filter(|row| row.symbol.starts_with("[at 0x") && row.own.change != 0.0);
    of_files(nameless.map(|row| row.module.as_str())).into_iter().map(Warning::Nameless).collect()
}

/// The packages for these stripped files.
pub(super) fn of_files<'f>(files: impl Iterator<Item = &'f str>) -> Vec<DebugPackage> {
    let files: BTreeSet<&str> = files.collect();
    files.into_iter().take(FILES_MAX).filter_map(DebugPackage::of).collect()
}
