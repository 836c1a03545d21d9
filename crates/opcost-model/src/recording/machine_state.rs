//! The state of a machine while a recording was made.

use super::settings::{self, Difference, Of};
use super::{GuestBuild, GuestState, KernelState};
use opcost_size::Totals;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The state of a machine; fields that the kernel does not report are empty.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct MachineState {
    /// Version of opcost.
    pub opcost_version: String,
    /// Kernel release (`uname -r`).
    pub kernel_release: Option<String>,
    /// Kernel build (`uname -v`).
    pub kernel_version: Option<String>,
    /// Identifier of the boot; changes with every boot.
    pub boot_id: Option<String>,
    /// Boot parameters.
    pub boot_parameters: Option<String>,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// Microcode revision.
    pub cpu_microcode: Option<String>,
    /// CPU features, as the kernel lists them.
    pub cpu_flags: Option<String>,
    /// CPUs that are online.
    pub cpus_online: Option<String>,
    /// Whether sibling threads share cores (`on`, `off`, `notsupported`, …).
    pub smt: Option<String>,
    /// Frequency governors in use.
    pub governor: Option<String>,
    /// Whether the CPU may exceed its base frequency.
    pub turbo: Option<bool>,
    /// Mitigation of each CPU vulnerability.
    pub mitigations: BTreeMap<String, String>,
    /// `kernel.randomize_va_space`.
    pub randomize_va_space: Option<String>,
    /// Setting of transparent huge pages, the chosen value in brackets.
    pub transparent_hugepage: Option<String>,
    /// Clock source of the kernel.
    pub clocksource: Option<String>,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<String>,
    /// Whether the NMI watchdog holds a counter.
    pub nmi_watchdog: Option<String>,
    /// Physical memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Load average of the last minute when the recording began.
    pub load_average: Option<String>,
    /// The programs that commands run, one for each variant that runs a command.
    pub programs: Vec<ProgramState>,
    /// Size of the environment of each variant, bytes, padding left out.
    pub environment_bytes: Vec<usize>,
    /// The variables that emulated runs inherit from the shell: how many, and a digest of them; absent if runs inherit none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherited_environment: Option<String>,
    /// The files, apart from programs and libraries, that emulated runs read: those that arguments name, the standard input, and
    /// what was packed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data: Vec<DataState>,
    /// Version of the emulator, if an emulator ran the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator_version: Option<String>,
    /// The shard that this computer made, if computers are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<u32>,
    /// The kernels that an emulated machine boots, one for each variant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelState>,
    /// The build of the guest's init, if a guest ran the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_build: Option<GuestBuild>,
    /// The machines of the guests, as their runs revealed them, one for each variant that boots a kernel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<GuestState>,
}

/// A program as it was when the recording began.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ProgramState {
    /// The executable.
    #[serde(with = "opcost_base::os_text::path")]
    pub path: PathBuf,
    /// The file's length, bytes.
    pub length_bytes: u64,
    /// SHA-256 of the file's contents, hexadecimal.
    pub sha256: String,
    /// Sizes in memory; absent for files that are not ELF, and in recordings of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Totals>,
}

/// A file, or a folder with all its files, as it was when the recording began.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DataState {
    /// The path.
    #[serde(with = "opcost_base::os_text::path")]
    pub path: PathBuf,
    /// SHA-256 of the contents, hexadecimal; of a folder, of its files' paths and contents.
    pub sha256: String,
}

impl MachineState {
    /// The differences between two states that make runs in them incomparable, in words.
    ///
    /// Emulated runs do not depend on the computer that emulates.
    pub fn differences(&self, other: &MachineState, emulated: bool) -> Vec<String> {
        let sides = [self, other].map(|state| Of { state: Some(state), ..Of::default() });
        let differences = settings::differences(sides, emulated);
        differences.iter().filter_map(Difference::change).collect()
    }

    /// Whether a later state differs in anything but the load, which changes all the time.
    pub fn has_become(&self, later: &MachineState) -> bool {
        let later = MachineState { load_average: self.load_average.clone(), ..later.clone() };
        *self != later
    }
}
