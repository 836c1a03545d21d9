//! Sizes of the programs or kernels that the variants of a comparison run.

use opcost_model::plan::{Plan, WorkPlan};
use opcost_model::recording::MachineState;
use opcost_size::Totals;
use serde::Serialize;

/// The sizes in memory of the programs or kernels of two variants.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct SizeRows {
    /// Index of the baseline.
    pub baseline: usize,
    /// Index of the variant.
    pub variant: usize,
    /// The object measured: `program` or `kernel`.
    pub what: &'static str,
    /// The baseline's bytes, then the variant's.
    pub totals: [Totals; 2],
}

/// The sizes within each comparison whose variants run different programs or kernels, if both sizes are known.
pub(super) fn rows(plan: &Plan, state: Option<&MachineState>) -> Vec<SizeRows> {
    let Some(state) = state else { return Vec::new() };
    let program = |variant: usize| {
        let WorkPlan::Command { program, .. } = &plan.variants[variant].work else { return None };
        let known = state.programs.iter().find(|known| known.path == *program)?;
        Some((known.sha256.as_str(), known.sizes?))
    };
    let kernel = |variant: usize| {
        let known = state.kernels.iter().find(|known| known.variant == variant)?;
        Some((known.digest.as_str(), known.sizes?))
    };
    let mut rows = Vec::new();
    for (baseline, variant) in plan.comparisons() {
        let sides = [baseline, variant];
        for (what, of) in [("program", sides.map(program)), ("kernel", sides.map(kernel))] {
            if let [Some((one, before)), Some((two, after))] = of
                && one != two
            {
                rows.push(SizeRows { baseline, variant, what, totals: [before, after] });
            }
        }
    }
    rows
}
