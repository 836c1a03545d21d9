//! The differences between what variants run: options of two kernels, and sizes of programs or kernels.

use super::VariantDifference;
use opcost_model::plan::WorkPlan;
use opcost_model::recording::{KernelState, MachineState, ProgramState, Recording};
use opcost_size::Totals;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The options of two `.config` texts that differ, by name: `CONFIG_PARAVIRT: not set → y`.
///
/// An option that a configuration does not mention is not set (`Documentation/kbuild/kconfig.rst`).
pub fn config_changes(baseline: &str, variant: &str) -> Vec<String> {
    let (one, two) = (options(baseline), options(variant));
    let mut names: Vec<&str> = one.keys().chain(two.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .map(|name| (name, value(&one, name), value(&two, name)))
        .filter(|(_, one, two)| one != two)
        .map(|(name, one, two)| format!("{name}: {one} → {two}"))
        .collect()
}

/// The value of one option.
fn value<'a>(options: &BTreeMap<&str, &'a str>, name: &str) -> &'a str {
    options.get(name).copied().unwrap_or("not set")
}

/// The options that are set, with their values. Comments set none, not even `# … is not set`.
fn options(config: &str) -> BTreeMap<&str, &str> {
    let lines = config.lines().map(str::trim).filter(|line| line.starts_with("CONFIG_"));
    lines.filter_map(|line| line.split_once('=')).filter(|(_, value)| *value != "n").collect()
}

/// The kernel options that differ within each comparison, if both configurations are known.
pub(super) fn kernel_differences(
    recording: &Recording,
    kernels: &[KernelState],
) -> Vec<VariantDifference> {
    let known: HashMap<usize, &KernelState> =
        kernels.iter().map(|kernel| (kernel.variant, kernel)).collect();
    let config = |variant: usize| known.get(&variant)?.config.as_deref();
    let between = |(baseline, variant): (usize, usize)| {
        if recording.plan.apart((baseline, variant)).is_some() {
            return None;
        }
        let lines = config_changes(config(baseline)?, config(variant)?);
        let what = "kernel config".to_string();
        (!lines.is_empty()).then_some(VariantDifference { baseline, variant, what, lines })
    };
    recording.comparisons().into_iter().filter_map(between).collect()
}

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
pub(super) fn size_rows(recording: &Recording, state: Option<&MachineState>) -> Vec<SizeRows> {
    let plan = &recording.plan;
    let Some(state) = state else { return Vec::new() };
    let programs: HashMap<&Path, &ProgramState> =
        state.programs.iter().map(|known| (known.path.as_path(), known)).collect();
    let kernels: HashMap<usize, &KernelState> =
        state.kernels.iter().map(|known| (known.variant, known)).collect();
    let program = |variant: usize| {
        let WorkPlan::Command { program, .. } = &plan.variants[variant].work else { return None };
        let known = programs.get(program.as_path())?;
        Some((known.sha256.as_str(), known.sizes?))
    };
    let kernel = |variant: usize| {
        let known = kernels.get(&variant)?;
        Some((known.digest.as_str(), known.sizes?))
    };
    let mut rows = Vec::new();
    let comparisons = recording.comparisons().into_iter();
    for (baseline, variant) in comparisons.filter(|sides| plan.apart(*sides).is_none()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn options_that_differ_are_named_with_both_values() {
        let one = "# Linux/x86 6.1 Kernel Configuration\n# CONFIG_PARAVIRT is not set\nCONFIG_HZ=100\n\
                   CONFIG_SLUB=y\nCONFIG_GONE=m\nCONFIG_NO=n\n";
        let two =
            "CONFIG_PARAVIRT=y\r\nCONFIG_HZ=250\nCONFIG_CMDLINE=\"a=b quiet\"\nCONFIG_SLUB=y\n";
        assert_eq!(
            config_changes(one, two),
            [
                "CONFIG_CMDLINE: not set → \"a=b quiet\"",
                "CONFIG_GONE: m → not set",
                "CONFIG_HZ: 100 → 250",
                "CONFIG_PARAVIRT: not set → y",
            ]
        );
    }

    proptest! {
        #[test]
        fn order_and_comments_make_no_difference(
            options in prop::collection::btree_map("CONFIG_[A-Z]{1,3}", "[ym]|[0-9]{1,3}", 0..12),
        ) {
            let lines: Vec<String> =
                options.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let forth = lines.join("\n");
            let back: Vec<String> = lines.into_iter().rev().collect();
            let back = format!("# a comment\n\n{}\n# CONFIG_OTHER is not set", back.join("\n"));
            prop_assert_eq!(config_changes(&forth, &back), Vec::<String>::new());
            prop_assert_eq!(config_changes("", &forth).len(), options.len());
        }
    }
}
