//! The differences between two recordings other than their figures.

use crate::plan::{MachineKind, Plan, VariantPlan};
use crate::recording::Recording;

/// The differences of a recording from the one before.
pub(crate) struct Between {
    /// Changes of the environment: kernel, microcode, CPU, settings, opcost, the parameters of the variant.
    pub(crate) environment: Vec<String>,
    /// Changes of the work itself: rebuilt programs and kernels under test. A history exists to notice their effects, so they
    /// excuse no change of level.
    pub(crate) work: Vec<String>,
}

/// Compares the surroundings of one variant in two recordings that follow each other.
pub(crate) fn between(before: &Recording, after: &Recording, variant: &str) -> Between {
    let (mut environment, mut work) = (Vec::new(), Vec::new());
    if before.plan.machine() != after.plan.machine() {
        let kind = |plan: &Plan| match plan.machine() {
            MachineKind::Host => "measured",
            MachineKind::Attached => "measured while it ran",
            MachineKind::Emulated => "emulated",
            MachineKind::Imported => "imported",
        };
        environment.push(format!("figures: {} → {}", kind(&before.plan), kind(&after.plan)));
    }
    if let (Some(one), Some(two)) = (before.machine.first(), after.machine.first()) {
        let emulated = after.plan.machine() == MachineKind::Emulated;
        let differences =
            if emulated { one.differences_emulated(two) } else { one.differences(two) };
        let imported = [before, after].iter().any(|recording| recording.plan.imported().is_some());
        for difference in differences {
            // Little is known of an imported recording; a lack of knowledge is no change.
            if imported && (difference.contains("unknown") || difference.starts_with("opcost:")) {
                continue;
            }
            let of_work = ["the program ", "the kernel "];
            if of_work.iter().any(|begin| difference.starts_with(begin)) {
                work.push(difference);
            } else {
                environment.push(difference);
            }
        }
        if one.emulator_version != two.emulator_version && emulated {
            environment.push("the emulator is another".to_string());
        }
    }
    let core = |recording: &Recording| -> Option<String> {
        let emulation = recording.plan.emulation()?;
        let core = emulation.core.as_ref()?;
        let slices = emulation.cycles_one_in.map(|one_in| format!(", one slice in {one_in}"));
        Some(format!("{} ({}){}", core.name, core.fingerprint, slices.unwrap_or_default()))
    };
    if let (Some(one), Some(two)) = (core(before), core(after))
        && one != two
    {
        environment.push(format!("modelled core: {one} → {two}"));
    }
    let of = |recording: &Recording| -> Option<VariantPlan> {
        recording.plan.variants.iter().find(|known| known.name == variant).cloned()
    };
    if let (Some(one), Some(two)) = (of(before), of(after))
        && one.describe() != two.describe()
    {
        environment.push(format!("work: {} → {}", one.describe(), two.describe()));
    }
    Between { environment, work }
}
