//! The architectures of guests: one row each.
//!
//! A row has the names that QEMU, Debian, the kernel and compilers use, and the facts that programs on both sides of a guest share.
//! Code that differs between architectures (decoding, entries of the kernel) has a folder of the same name in its crate.
//! `#[cfg(target_arch)]` is for code that runs on the processor that it was compiled for.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The architecture of a guest's processor.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub enum Architecture {
    /// 64-bit x86.
    #[default]
    #[serde(rename = "x86-64")]
    X86_64,
    /// 64-bit Arm, little-endian.
    #[serde(rename = "arm64")]
    Aarch64,
}

/// The facts about an architecture.
#[derive(Debug)]
pub struct ArchitectureRow {
    /// The architecture.
    pub architecture: Architecture,
    /// The word in settings, reports and files.
    pub name: &'static str,
    /// The name in QEMU's programs (`qemu-system-NAME`, `qemu-NAME`), of `uname -m`, and of Rust's `target_arch`.
    pub machine: &'static str,
    /// The name of Debian's packages.
    pub debian: &'static str,
    /// `ARCH` of the kernel's build.
    pub kernel: &'static str,
    /// The kernel's image, below the build folder.
    pub image: &'static str,
    /// `e_machine` of ELF files (elf.h).
    pub elf: u16,
    /// GNU's name: in front of the cross compiler's tools, and of Debian's library folders.
    pub triple: &'static str,
    /// The target of Rust's compiler.
    pub rust_target: &'static str,
    /// The file name of the guest's `/init` among opcost's files.
    pub guest: &'static str,
    /// Debian's package of QEMU's `qemu-system-…`.
    pub qemu_package: &'static str,
    /// QEMU's machine, without its memory.
    pub machine_line: &'static str,
    /// The CPU model of a guest that names none.
    pub cpu_model: &'static str,
    /// The options that give a CPU with many faults.
    pub faulty_cpu: &'static str,
    /// Whether the kernel's list of vulnerabilities has all that the kernel does against faults of the CPU.
    pub lists_mitigations: bool,
    /// The kernel's console.
    pub console: &'static str,
    /// The kernel's options that every boot has, beside the console.
    pub boot: &'static str,
    /// QEMU's device that stops a guest whose state is kept.
    pub watchdog: &'static str,
    /// The folders where the dynamic loader looks without being told (ld.so(8)).
    pub library_folders: &'static [&'static str],
    /// The path of glibc's dynamic loader.
    pub loader: &'static str,
    /// The path of musl's dynamic loader.
    pub musl_loader: &'static str,
    /// Binary logarithm of the size of a kernel stack, which is aligned to its size.
    pub stack_shift: u32,
    /// The longest instruction, bytes.
    pub instruction_bytes_max: usize,
    /// QEMU's devices of a guest: the character device `channel`, and what ends QEMU for kernels that cannot.
    pub devices: &'static [&'static str],
    /// Properties of every CPU model.
    pub cpu_properties: &'static str,
    /// More properties of the CPU of a guest whose state is kept.
    pub kept_cpu_properties: &'static str,
}

/// All architectures, in the order of [`Architecture`].
pub static ARCHITECTURES: [ArchitectureRow; 2] = [
    ArchitectureRow {
        architecture: Architecture::X86_64,
        name: "x86-64",
        machine: "x86_64",
        debian: "amd64",
        kernel: "x86_64",
        image: "arch/x86/boot/bzImage",
        elf: 62,
        triple: "x86_64-linux-gnu",
        rust_target: "x86_64-unknown-linux-gnu",
        guest: "opcost-guest",
        qemu_package: "qemu-system-x86",
        machine_line: "pc",
        cpu_model: "EPYC-Rome-v2",
        faulty_cpu: "--like skylake",
        lists_mitigations: true,
        console: "ttyS0",
        // These options skip calibrations that only cost time.
        boot: "nolapic_timer no_timer_check",
        watchdog: "ib700",
        library_folders: &[
            "/lib/x86_64-linux-gnu",
            "/usr/lib/x86_64-linux-gnu",
            "/lib64",
            "/usr/lib64",
            "/lib",
            "/usr/lib",
        ],
        loader: "/lib64/ld-linux-x86-64.so.2",
        musl_loader: "/lib/ld-musl-x86_64.so.1",
        stack_shift: 14,
        instruction_bytes_max: 15,
        devices: &[
            "isa-debugcon,iobase=0xe9,chardev=channel",
            "isa-debug-exit,iobase=0x501,iosize=4",
        ],
        // QEMU warns about features that it leaves out. opcost asked for them before (`cpu.rs`), and a program's errors are no
        // place for warnings.
        cpu_properties: ",check=off",
        // The written state does not include the emulator's random number generator.
        kept_cpu_properties: ",rdrand=off,rdseed=off",
    },
    ArchitectureRow {
        architecture: Architecture::Aarch64,
        name: "arm64",
        machine: "aarch64",
        debian: "arm64",
        kernel: "arm64",
        image: "arch/arm64/boot/Image",
        elf: 183,
        triple: "aarch64-linux-gnu",
        rust_target: "aarch64-unknown-linux-gnu",
        guest: "opcost-guest-arm64",
        qemu_package: "qemu-system-arm",
        // Random numbers in the device tree would move counts.
        machine_line: "virt,dtb-randomness=off",
        cpu_model: "neoverse-n1",
        faulty_cpu: "--cpu-model cortex-a72",
        // Page tables are isolated also where the list says "meltdown: Not affected".
        lists_mitigations: false,
        console: "ttyAMA0",
        // The serial port of the channel is opcost's; the kernel does not touch it.
        boot: "8250.nr_uarts=0",
        watchdog: "i6300esb,addr=0x3",
        library_folders: &[
            "/lib/aarch64-linux-gnu",
            "/usr/lib/aarch64-linux-gnu",
            "/lib64",
            "/usr/lib64",
            "/lib",
            "/usr/lib",
        ],
        loader: "/lib/ld-linux-aarch64.so.1",
        musl_loader: "/lib/ld-musl-aarch64.so.1",
        stack_shift: 14,
        instruction_bytes_max: 4,
        devices: &["pci-serial,chardev=channel,addr=0x2"],
        cpu_properties: "",
        kept_cpu_properties: "",
    },
];

impl Architecture {
    /// The architecture's facts.
    pub fn row(self) -> &'static ArchitectureRow {
        &ARCHITECTURES[self as usize]
    }

    /// The architecture with this `e_machine` of ELF files.
    pub fn of_elf(machine: u16) -> Option<Architecture> {
        Self::find(|row| row.elf == machine)
    }

    /// The architecture with this name in QEMU, of `uname -m` and of Rust's `target_arch`.
    pub fn of_machine(machine: &str) -> Option<Architecture> {
        Self::find(|row| row.machine == machine)
    }

    fn find(is_it: impl Fn(&ArchitectureRow) -> bool) -> Option<Architecture> {
        ARCHITECTURES.iter().find(|row| is_it(row)).map(|row| row.architecture)
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

/// A word that names no architecture.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("'{0}' is no architecture of guests; give x86-64 or arm64")]
pub struct UnknownArchitecture(String);

impl FromStr for Architecture {
    type Err = UnknownArchitecture;

    fn from_str(text: &str) -> Result<Architecture, UnknownArchitecture> {
        Self::find(|row| row.name == text).ok_or_else(|| UnknownArchitecture(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{EXIT_PORT, PORT};

    #[test]
    fn every_row_is_found_by_each_of_its_names() {
        for (place, row) in ARCHITECTURES.iter().enumerate() {
            assert_eq!(row.architecture as usize, place);
            let found = [Architecture::of_elf(row.elf), Architecture::of_machine(row.machine)];
            assert_eq!(found, [Some(row.architecture); 2]);
            assert_eq!(row.name.parse(), Ok(row.architecture));
            let stored = serde_json::to_string(&row.architecture).unwrap();
            assert_eq!(stored, format!("\"{}\"", row.name));
        }
        let ports = Architecture::X86_64.row().devices.join(" ");
        for port in [PORT, EXIT_PORT] {
            assert!(ports.contains(&format!("iobase={port:#x},")), "{port:#x} in {ports}");
        }
        assert_eq!(Architecture::of_elf(0xf3), None);
        let told = "aarch64".parse::<Architecture>().unwrap_err().to_string();
        assert_eq!(told, "'aarch64' is no architecture of guests; give x86-64 or arm64");
    }
}
