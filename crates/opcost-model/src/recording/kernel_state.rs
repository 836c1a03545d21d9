//! The state of an emulated machine: its kernels, and the files on which its counts depend.

use super::{MachineState, ProgramState};
use opcost_size::Totals;
use serde::{Deserialize, Serialize};

/// A kernel of the emulated machine, as it was when the recording began.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct KernelState {
    /// Index of the variant.
    pub variant: usize,
    /// The name or path, as the user gave it.
    pub name: String,
    /// The release (`uname -r`).
    pub release: String,
    /// SHA-256 of the image, hexadecimal.
    pub digest: String,
    /// Text of the `.config`, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Sizes in memory, if the kernel's vmlinux is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Totals>,
}

/// The number of tools that each recording of the emulated machine lists before the files of the work: QEMU, the plugin and the
/// guest's init.
const TOOLS: usize = 3;

impl MachineState {
    /// The programs that make emulated runs.
    pub fn tools(&self) -> impl Iterator<Item = &ProgramState> {
        self.programs.iter().take(TOOLS)
    }

    /// The guest's init, which contains the code of workloads.
    pub fn guest_init(&self) -> Option<&ProgramState> {
        self.programs.get(TOOLS - 1)
    }

    /// The files that the work uses on an emulated machine: programs, libraries, packed files.
    pub fn files_of_work(&self) -> impl Iterator<Item = &ProgramState> {
        self.programs.iter().skip(TOOLS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulated_runs_depend_on_programs_kernels_and_opcost_only() {
        let kernel = |digest: &str| KernelState {
            variant: 1,
            name: "small".into(),
            release: "6.1.0".into(),
            digest: digest.into(),
            config: Some("CONFIG_HZ=100\n".into()),
            sizes: Some(Totals { text_bytes: 3, data_bytes: 2, bss_bytes: 1 }),
        };
        let before = MachineState { kernels: vec![kernel("aa")], ..MachineState::default() };
        let elsewhere = MachineState {
            kernel_release: Some("6.2".into()),
            turbo: Some(true),
            ..before.clone()
        };
        assert!(before.differences(&elsewhere, true).is_empty());
        let after = MachineState {
            kernels: vec![kernel("bb")],
            opcost_version: "9".into(),
            ..before.clone()
        };
        let changes = ["opcost: none → 9", "the kernel small was changed"];
        assert_eq!(before.differences(&after, true), changes);
        let stored = serde_json::to_string(&after).unwrap();
        assert_eq!(serde_json::from_str::<MachineState>(&stored).unwrap(), after);
        let older = stored.replace(r#","sizes":{"text_bytes":3,"data_bytes":2,"bss_bytes":1}"#, "");
        let older: MachineState = serde_json::from_str(&older).unwrap();
        assert_eq!(older.kernels[0].sizes, None);
    }
}
