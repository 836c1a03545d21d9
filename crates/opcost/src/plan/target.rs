//! Where the runs of a plan are made, with what only such a place has.

use super::{AttachmentPlan, BuildPlan, EmulationPlan, ImportPlan, MachineKind, Plan};
use crate::sampling::SamplingPlan;
use serde::{Deserialize, Serialize};

/// Where the runs are made.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "StoredTarget", into = "StoredTarget")]
pub enum Target {
    /// This computer.
    Host(HostPlan),
    /// Emulated machines, with what all of them have in common.
    Emulated(EmulationPlan),
    /// A running program, whose periods the runs are.
    Attached(AttachmentPlan),
    /// Nowhere: another tool's figures stand in place of runs.
    Imported(ImportPlan),
}

/// What only runs on this computer have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostPlan {
    /// What is built anew as the runs go on; the builds then are the units of the test.
    pub build: Option<BuildPlan>,
    /// How the runs are sampled; `None` where they are not.
    pub sampling: Option<SamplingPlan>,
}

/// A target as recordings have it: the kind, and a field for each kind's own.
#[derive(Deserialize, Serialize)]
struct StoredTarget {
    machine: MachineKind,
    #[serde(default)]
    build: Option<BuildPlan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sampling: Option<SamplingPlan>,
    #[serde(default)]
    emulation: Option<EmulationPlan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    imported: Option<ImportPlan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attachment: Option<AttachmentPlan>,
}

impl TryFrom<StoredTarget> for Target {
    type Error = String;

    fn try_from(stored: StoredTarget) -> Result<Target, String> {
        let StoredTarget { machine, build, sampling, emulation, imported, attachment } = stored;
        let target = match machine {
            MachineKind::Host => Some(Target::Host(HostPlan { build, sampling })),
            MachineKind::Emulated => emulation.map(Target::Emulated),
            MachineKind::Attached => attachment.map(Target::Attached),
            MachineKind::Imported => imported.map(Target::Imported),
        };
        target.ok_or_else(|| format!("the plan says nothing of its machine, {}", machine.words()))
    }
}

impl From<Target> for StoredTarget {
    fn from(target: Target) -> StoredTarget {
        let mut stored = StoredTarget {
            machine: target.kind(),
            build: None,
            sampling: None,
            emulation: None,
            imported: None,
            attachment: None,
        };
        match target {
            Target::Host(HostPlan { build, sampling }) => {
                (stored.build, stored.sampling) = (build, sampling);
            }
            Target::Emulated(emulation) => stored.emulation = Some(emulation),
            Target::Attached(attachment) => stored.attachment = Some(attachment),
            Target::Imported(imported) => stored.imported = Some(imported),
        }
        stored
    }
}

impl Target {
    /// Its kind.
    pub fn kind(&self) -> MachineKind {
        match self {
            Target::Host(_) => MachineKind::Host,
            Target::Emulated(_) => MachineKind::Emulated,
            Target::Attached(_) => MachineKind::Attached,
            Target::Imported(_) => MachineKind::Imported,
        }
    }
}

impl Plan {
    /// The kind of machine that makes the runs.
    pub fn machine(&self) -> MachineKind {
        self.target.kind()
    }

    /// What is built anew as the runs go on, if anything is.
    pub fn build(&self) -> Option<&BuildPlan> {
        match &self.target {
            Target::Host(host) => host.build.as_ref(),
            _ => None,
        }
    }

    /// How the runs are sampled; `None` where they are not, and on machines that count.
    pub fn sampling(&self) -> Option<SamplingPlan> {
        match &self.target {
            Target::Host(host) => host.sampling,
            _ => None,
        }
    }

    /// What the emulated machines have in common; `None` on another machine.
    pub fn emulation(&self) -> Option<&EmulationPlan> {
        match &self.target {
            Target::Emulated(emulation) => Some(emulation),
            _ => None,
        }
    }

    /// The running program whose periods the runs are; `None` where programs are started.
    pub fn attachment(&self) -> Option<&AttachmentPlan> {
        match &self.target {
            Target::Attached(attachment) => Some(attachment),
            _ => None,
        }
    }

    /// Figures that were imported instead of measured; such a plan has no runs.
    pub fn imported(&self) -> Option<&ImportPlan> {
        match &self.target {
            Target::Imported(imported) => Some(imported),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_stored_target_has_what_its_machine_needs() {
        let read = |text| serde_json::from_value::<Target>(text);
        let host = json!({"machine": "host", "build": null, "emulation": null});
        let target = read(host.clone()).unwrap();
        assert_eq!(target, Target::Host(HostPlan::default()));
        assert_eq!(serde_json::to_value(&target).unwrap(), host);
        // A field of another machine has no meaning.
        let odd = json!({"machine": "host", "imported": {"sources": []}});
        assert_eq!(read(odd).map_err(|_| ()).unwrap_or(target.clone()), target);
        for machine in ["emulated", "attached", "imported"] {
            let error = read(json!({ "machine": machine })).unwrap_err().to_string();
            assert!(error.contains("the plan says nothing of its machine"), "{error}");
        }
    }
}
