//! What can be wrong with a disk, by its name.

use super::spec::DiskSpec;

/// Why a guest cannot have a disk.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum DiskError {
    /// What `--disk` says cannot be meant.
    #[error("--disk {text}: {what}")]
    Spec {
        /// The text.
        text: String,
        /// What is wrong with it, and what to write.
        what: String,
    },
    /// It is larger than the machine can hold.
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
        /// The least that would do, MiB.
        least_mib: u32,
    },
    /// The kernel lacks what it needs.
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
    /// What it needs are modules, which are not at hand.
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
    /// The program that makes file systems is not there.
    #[error(
        "making a disk needs the program mke2fs, which is neither in PATH nor in /usr/sbin or \
         /sbin; on Debian: apt-get install e2fsprogs"
    )]
    Tool,
    /// The program that makes file systems fails.
    #[error("mke2fs cannot make the disk {spec}: {said}")]
    Make {
        /// The disk.
        spec: DiskSpec,
        /// Its words, or the system's error.
        said: String,
    },
}
