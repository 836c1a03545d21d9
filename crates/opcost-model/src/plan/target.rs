//! The place where the runs of a plan are made, with the settings of such a place.

use super::{AttachmentPlan, BuildPlan, EmulationPlan, ImportPlan, MachineKind, Plan, Priority};
use opcost_source::sampling::SamplingPlan;
use serde::{Deserialize, Serialize};

/// The place where the runs are made.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "StoredTarget", into = "StoredTarget")]
pub enum Target {
    /// This computer.
    Host(HostPlan),
    /// Emulated machines, with the settings that they share.
    Emulated(Box<EmulationPlan>),
    /// A running program, whose periods are the runs.
    Attached(AttachmentPlan),
    /// No place: another tool's figures replace the runs.
    Imported(ImportPlan),
}

/// The settings that only runs on this computer have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostPlan {
    /// The build that is repeated between runs; each build then is a unit of the test.
    pub build: Option<BuildPlan>,
    /// The sampling of the runs; `None` if they are not sampled.
    pub sampling: Option<SamplingPlan>,
    /// The priority of the runs.
    pub priority: Priority,
}

/// A target as recordings store it: the kind, and one field for the settings of each kind.
#[derive(Deserialize, Serialize)]
struct StoredTarget {
    machine: MachineKind,
    #[serde(default)]
    build: Option<BuildPlan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sampling: Option<SamplingPlan>,
    #[serde(default, skip_serializing_if = "is_normal")]
    priority: Priority,
    #[serde(default)]
    emulation: Option<EmulationPlan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    imported: Option<ImportPlan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attachment: Option<AttachmentPlan>,
}

/// Recordings without a priority are of versions that had none.
fn is_normal(priority: &Priority) -> bool {
    *priority == Priority::Normal
}

impl TryFrom<StoredTarget> for Target {
    type Error = String;

    fn try_from(stored: StoredTarget) -> Result<Target, String> {
        let StoredTarget { machine, build, sampling, priority, emulation, imported, attachment } =
            stored;
        let target = match machine {
            MachineKind::Host => Some(Target::Host(HostPlan { build, sampling, priority })),
            MachineKind::Emulated => {
                emulation.map(|emulation| Target::Emulated(Box::new(emulation)))
            }
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
            priority: Priority::Normal,
            emulation: None,
            imported: None,
            attachment: None,
        };
        match target {
            Target::Host(HostPlan { build, sampling, priority }) => {
                (stored.build, stored.sampling, stored.priority) = (build, sampling, priority);
            }
            Target::Emulated(emulation) => stored.emulation = Some(*emulation),
            Target::Attached(attachment) => stored.attachment = Some(attachment),
            Target::Imported(imported) => stored.imported = Some(imported),
        }
        stored
    }
}

impl Target {
    /// The kind of the target.
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

    /// The build that is repeated between runs, if any.
    pub fn build(&self) -> Option<&BuildPlan> {
        match &self.target {
            Target::Host(host) => host.build.as_ref(),
            _ => None,
        }
    }

    /// The sampling of the runs; `None` if they are not sampled, or the machine counts.
    pub fn sampling(&self) -> Option<SamplingPlan> {
        match &self.target {
            Target::Host(host) => host.sampling,
            _ => None,
        }
    }

    /// Whether the runs have real-time priority.
    pub fn real_time(&self) -> bool {
        matches!(&self.target, Target::Host(host) if host.priority == Priority::RealTime)
    }

    /// The settings that the emulated machines share; `None` on another machine.
    pub fn emulation(&self) -> Option<&EmulationPlan> {
        match &self.target {
            Target::Emulated(emulation) => Some(emulation),
            _ => None,
        }
    }

    /// The running program whose periods are the runs; `None` if opcost starts the programs.
    pub fn attachment(&self) -> Option<&AttachmentPlan> {
        match &self.target {
            Target::Attached(attachment) => Some(attachment),
            _ => None,
        }
    }

    /// Figures imported instead of measured; such a plan has no runs.
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
        // A field of another machine is ignored.
        let odd = json!({"machine": "host", "imported": {"sources": []}});
        assert_eq!(read(odd).map_err(|_| ()).unwrap_or(target.clone()), target);
        for machine in ["emulated", "attached", "imported"] {
            let error = read(json!({ "machine": machine })).unwrap_err().to_string();
            assert!(error.contains("the plan says nothing of its machine"), "{error}");
        }
    }
}
