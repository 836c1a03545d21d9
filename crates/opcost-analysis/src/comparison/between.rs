//! The differences between two recordings other than their figures.

use opcost_model::plan::{MachineKind, Plan};
use opcost_model::recording::Recording;
use opcost_model::recording::settings::{self, Meaning, Of};

/// The differences of a recording from the one before.
pub struct Between {
    /// Changes of the environment: kernel, microcode, CPU, settings, opcost, the parameters of the variant.
    pub environment: Vec<String>,
    /// Changes of the work itself: rebuilt programs and kernels under test. A history exists to notice their effects, so they
    /// excuse no change of level.
    pub work: Vec<String>,
}

/// Compares the surroundings of one variant in two recordings that follow each other.
pub fn between(before: &Recording, after: &Recording, variant: &str) -> Between {
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
    let imported = [before, after].iter().any(|recording| recording.plan.imported().is_some());
    let place = |recording: &Recording| {
        recording.plan.variants.iter().position(|known| known.name == variant)
    };
    let sides = [before, after].map(|recording| {
        let of = Of::recording(recording, place(recording).unwrap_or_default());
        // A variant that only one recording has cannot differ.
        if place(before).and(place(after)).is_some() { of } else { Of { plan: None, ..of } }
    });
    for difference in settings::differences(sides, settings::is_emulated(&after.plan)) {
        // Little is known of an imported recording; a lack of knowledge is no change.
        let unknown = difference.values.iter().any(Option::is_none);
        if imported && (unknown || difference.setting.name == "version") {
            continue;
        }
        match difference.setting.difference {
            Meaning::Judged => (),
            Meaning::Work => work.extend(difference.change()),
            Meaning::Environment | Meaning::Refused(_) => environment.extend(difference.change()),
        }
    }
    Between { environment, work }
}
