//! The machine of a guest, as its kernel and the emulator describe it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The code that a kernel replaces by the CPU's features and faults.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Alternatives {
    /// The number of places in the kernel's image.
    pub all: u64,
    /// How many of these places had other code than the image when the work began.
    pub patched: u64,
}

/// The machine of a variant's guest. A fact that nobody says is absent.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct GuestState {
    /// Index of the variant.
    pub variant: usize,
    /// The CPU, by the emulator's name.
    pub cpu_model: String,
    /// The features of that CPU that the emulator leaves out, by its names.
    pub left_out: Vec<String>,
    /// The CPU, by the kernel's name.
    pub cpu_name: Option<String>,
    /// The CPU's features that the kernel found and may use.
    pub cpu_flags: Option<String>,
    /// The state of each vulnerability, by name; `None` if the kernel has no list.
    pub mitigations: Option<BTreeMap<String, String>>,
    /// Levels of page tables.
    pub page_table_levels: Option<u8>,
    /// The kernel's clock source.
    pub clocksource: Option<String>,
    /// The boot options that the kernel does not know.
    pub unknown_options: Option<String>,
    /// The CPU's features and faults for which the kernel has code of its own, in the words of its log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub detected: Vec<String>,
    /// The code that the kernel replaced; `None` if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternatives: Option<Alternatives>,
    /// The landmarks that the kernel's symbols do not name, by their words in the list of symbols.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unnamed: Vec<String>,
}

impl GuestState {
    /// Reads what a guest sent about itself.
    ///
    /// `cpuinfo`: lines of /proc/cpuinfo; `vulnerabilities`: lines `NAME: STATE`; `detected`: a feature or fault a line.
    pub fn read(
        cpuinfo: Option<&str>,
        vulnerabilities: Option<&str>,
        clocksource: Option<String>,
        unknown_options: Option<String>,
        detected: Option<&str>,
    ) -> GuestState {
        let field = |name: &str| {
            let fields = cpuinfo.into_iter().flat_map(str::lines);
            let mut fields = fields.filter_map(|line| line.split_once(':'));
            fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_string())
        };
        let x86_flags = field("flags");
        // Linux lists la57 only if it uses five levels (arch/x86/kernel/cpu/common.c).
        let has_la57 = |flags: &String| flags.split_whitespace().any(|flag| flag == "la57");
        let page_table_levels = x86_flags.as_ref().map(|flags| if has_la57(flags) { 5 } else { 4 });
        // An arm64 kernel knows a CPU's numbers, and no name (arch/arm64/kernel/cpuinfo.c).
        let numbers = || {
            let [implementer, part] = ["CPU implementer", "CPU part"].map(field);
            let [variant, revision] = ["CPU variant", "CPU revision"].map(field);
            let variant = variant?.strip_prefix("0x")?.to_string();
            Some(format!("implementer {} part {} r{variant}p{}", implementer?, part?, revision?))
        };
        let mitigations = vulnerabilities.map(|text| {
            let lines = text.lines().filter_map(|line| line.split_once(": "));
            lines.map(|(name, state)| (name.to_string(), state.to_string())).collect()
        });
        GuestState {
            cpu_name: field("model name").or_else(numbers),
            page_table_levels,
            cpu_flags: x86_flags.or_else(|| field("Features")),
            mitigations,
            clocksource,
            unknown_options,
            detected: detected.into_iter().flat_map(str::lines).map(str::to_string).collect(),
            ..GuestState::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_sends_is_read_and_what_it_lacks_is_absent() {
        let cpuinfo =
            "vendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC-Rome: x\nflags\t\t: fpu la57x smap";
        let faults = "l1tf: Not affected\nspectre_v2: Mitigation: Retpolines; STIBP: disabled\nodd";
        let state = GuestState::read(Some(cpuinfo), Some(faults), Some("tsc".into()), None, None);
        assert_eq!(state.cpu_name.as_deref(), Some("AMD EPYC-Rome: x"));
        assert_eq!((state.page_table_levels, state.clocksource.as_deref()), (Some(4), Some("tsc")));
        let mitigations = state.mitigations.clone().unwrap();
        assert_eq!(mitigations["spectre_v2"], "Mitigation: Retpolines; STIBP: disabled");
        assert_eq!(mitigations.len(), 2);
        let five = GuestState::read(Some("flags: fpu la57"), None, None, None, None);
        assert_eq!((five.page_table_levels, five.mitigations), (Some(5), None));
        let arm = "Features\t: fp atomics\nCPU implementer\t: 0x41\nCPU variant\t: 0x4\nCPU part\t: 0xd0c\nCPU revision\t: 1";
        let arm =
            GuestState::read(Some(arm), None, None, None, Some("Spectre-v4\nCommon not Private"));
        assert_eq!(arm.detected, ["Spectre-v4", "Common not Private"]);
        assert_eq!(arm.cpu_name.as_deref(), Some("implementer 0x41 part 0xd0c r4p1"));
        assert_eq!((arm.cpu_flags.as_deref(), arm.page_table_levels), (Some("fp atomics"), None));
        assert_eq!(GuestState::read(None, None, None, None, None), GuestState::default());
        let stored = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<GuestState>(&stored).unwrap(), state);
        assert_eq!(serde_json::from_str::<GuestState>("{}").unwrap(), GuestState::default());
    }
}
