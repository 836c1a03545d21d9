//! The build of the guest's init. Its code is part of the counts of workloads.

use super::MachineState;
use serde::{Deserialize, Serialize};

/// The build of the guest's init, as its file shows it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct GuestBuild {
    /// Whether the file lies where a package was installed or unpacked.
    pub packaged: bool,
    /// Version of the Rust compiler, if the file names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rustc: Option<String>,
    /// Version of the C library, if the file names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
}

/// The words before a version in the file: rustc writes them into the section .comment, glibc into its banner.
const MARKS: [(&[u8], &[u8]); 2] = [(b"rustc version ", b" \0"), (b"GNU C Library (", b")")];

impl GuestBuild {
    /// Reads the versions from a file's bytes; `packaged`: whether the file belongs to a package.
    pub fn read(file: &[u8], packaged: bool) -> GuestBuild {
        let [rustc, glibc] = MARKS.map(|(mark, ends)| {
            let at = file.windows(mark.len()).position(|place| place == mark)? + mark.len();
            let rest = &file[at..file.len().min(at + 100)];
            let end = rest.iter().position(|byte| ends.contains(byte))?;
            let text = String::from_utf8_lossy(&rest[..end]);
            // Debian writes `Debian GLIBC 2.36-9`.
            let text = text.rsplit(' ').next().unwrap_or_default();
            text.starts_with(|c: char| c.is_ascii_digit()).then(|| text.to_string())
        });
        GuestBuild { packaged, rustc, glibc }
    }

    /// The build in words.
    fn words(&self) -> String {
        let by = |what: &str, version: &Option<String>| {
            format!(", {what} {}", version.as_deref().unwrap_or("unknown"))
        };
        let of = if self.packaged { "package" } else { "own build" };
        format!("{of}{}{}", by("rustc", &self.rustc), by("glibc", &self.glibc))
    }
}

impl MachineState {
    /// The kernels, the emulator and the guest's build, on which the counts of an emulated machine depend, in words.
    ///
    /// `None`: no emulated machine made the runs.
    pub fn emulated_words(&self) -> Option<String> {
        let emulator = self.emulator_version.as_ref()?;
        // Debian's version stands behind QEMU's own.
        let emulator = emulator.split(' ').next().unwrap_or(emulator);
        let mut parts: Vec<String> = Vec::new();
        for kernel in &self.kernels {
            let words = match kernel.release.as_str() {
                "" => kernel.name.clone(),
                release => format!("Linux {release} ({})", kernel.name),
            };
            if !parts.contains(&words) {
                parts.push(words);
            }
        }
        parts.push(format!("QEMU {emulator}"));
        if let Some(build) = &self.guest_build {
            parts.push(format!("opcost {} ({})", self.opcost_version, build.words()));
        }
        Some(format!("counted with {}", parts.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::KernelState;

    #[test]
    fn the_compilers_are_read_from_the_file() {
        let file = b"\x7fELF..GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.\0..\
                     rustc version 1.95.0 (59807616e 2026-04-14)\0GCC: 12";
        let build = GuestBuild::read(file, false);
        assert_eq!(build.words(), "own build, rustc 1.95.0, glibc 2.36-9+deb12u14");
        let other = GuestBuild::read(b"rustc version \0GNU C Library (", true);
        assert_eq!(other, GuestBuild { packaged: true, rustc: None, glibc: None });
        assert_eq!(other.words(), "package, rustc unknown, glibc unknown");
    }

    #[test]
    fn kernels_emulator_and_build_are_named_once() {
        let kernel = |variant, name: &str, release: &str| KernelState {
            variant,
            name: name.into(),
            release: release.into(),
            digest: String::new(),
            config: None,
            sizes: None,
        };
        assert_eq!(MachineState::default().emulated_words(), None);
        let mut state = MachineState {
            opcost_version: "0.1.0".into(),
            emulator_version: Some("7.2.22 (Debian 1:7.2+dfsg-7)".into()),
            kernels: vec![kernel(0, "command", "6.1.192"), kernel(1, "command", "6.1.192")],
            ..MachineState::default()
        };
        let words = "counted with Linux 6.1.192 (command), QEMU 7.2.22";
        assert_eq!(state.emulated_words().unwrap(), words);
        state.kernels[1] = kernel(1, "/boot/mine", "");
        state.guest_build = Some(GuestBuild::read(b"rustc version 1.96.0\0", true));
        assert_eq!(
            state.emulated_words().unwrap(),
            "counted with Linux 6.1.192 (command), /boot/mine, QEMU 7.2.22, \
             opcost 0.1.0 (package, rustc 1.96.0, glibc unknown)"
        );
    }
}
