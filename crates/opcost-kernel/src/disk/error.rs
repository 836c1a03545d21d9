//! Named errors of a guest's disk.

use super::spec::DiskSpec;

/// Why a guest cannot have a disk.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum DiskError {
    /// The `--disk` argument is malformed.
    #[error("--disk {text}: {what}")]
    Spec {
        /// The text.
        text: String,
        /// The mistake, and a correct example.
        what: String,
    },
    /// The disk is larger than the machine can hold.
    #[error(
        "a disk of {} MiB is more than half of the machine's {memory_mib} MiB, which have to hold \
         it and what the kernel keeps of it: make it smaller, or give --memory-mib {least_mib}",
        .spec.size_mib
    )]
    Memory {
        /// The disk.
        spec: DiskSpec,
        /// The machine's memory, MiB.
        memory_mib: u32,
        /// The least memory that suffices, MiB.
        least_mib: u32,
    },
    /// The kernel lacks options that the disk needs.
    #[error(
        "kernel {kernel} cannot have a disk with {file_system}: its configuration lacks {}; boot \
         one that has it, such as debian:cloud, or build one with kernels/disk.config \
         (docs/kernels.md)", .options.join(", ")
    )]
    Kernel {
        /// The kernel.
        kernel: String,
        /// The file system.
        file_system: String,
        /// The options, with `CONFIG_`.
        options: Vec<String>,
    },
    /// The disk needs modules whose files are not available.
    #[error(
        "kernel {kernel} has what a disk needs as modules ({}), and they are not at hand: build it \
         in (=y), or boot a kernel built with kernels/disk.config (docs/kernels.md)",
        .modules.join(", ")
    )]
    Modules {
        /// The kernel.
        kernel: String,
        /// The modules.
        modules: Vec<&'static str>,
    },
    /// The program mke2fs is missing.
    #[error(
        "making a disk needs the program mke2fs, which is neither in PATH nor in /usr/sbin or \
         /sbin; on Debian: apt-get install e2fsprogs"
    )]
    Tool,
    /// The program mke2fs fails.
    #[error("mke2fs cannot make the disk {spec}: {said}")]
    Make {
        /// The disk.
        spec: DiskSpec,
        /// The program's messages, or the system's error.
        said: String,
    },
}
