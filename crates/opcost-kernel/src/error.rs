//! Named errors of a kernel.

use std::path::{Path, PathBuf};

/// Why there is no kernel to boot.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A malformed `--kernel` argument, option of `kernel build` or fragment.
    #[error("{0}")]
    Usage(String),
    /// A file that is no kernel image for the emulated machine.
    #[error("'{}' is no bootable kernel image: {found}", .path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
        /// The kind of file that it is, and advice.
        found: String,
    },
    /// The cache has no kernel of this name.
    #[error(
        "no kernel '{name}' has been built{nearest}; build one with opcost kernel build --name {name} --config …, see opcost kernel list, or write a path with a slash in it"
    )]
    NotBuilt {
        /// The name as given.
        name: String,
        /// A hint at similar names.
        nearest: String,
    },
    /// Several kernels of the cache begin with the given word.
    #[error("'{name}' means {} kernels: {}; give one of these keys, or build one under a name of its own (opcost kernel build --name)", .kernels.len(), .kernels.join(", "))]
    Ambiguous {
        /// The word as given.
        name: String,
        /// Each kernel's key and name.
        kernels: Vec<String>,
    },
    /// A file that the user named cannot be read.
    #[error("cannot read the {what} '{}': {source}", .path.display())]
    Input {
        /// The purpose of the file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file or folder of the cache or the source cannot be read or written.
    #[error("cannot {doing} '{}': {source}", .path.display())]
    File {
        /// The action that failed, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Programs or headers that a build needs are missing.
    #[error("building a kernel needs what is missing here: {}; on Debian: apt-get install {}", .missing.join(", "), .packages.join(" "))]
    Tools {
        /// The programs and headers.
        missing: Vec<String>,
        /// The Debian packages that have them.
        packages: Vec<String>,
    },
    /// There is no kernel source to build from.
    #[error("no kernel source: there is no linux-source-*.tar.* in {}; on Debian: apt-get install linux-source, or give a source tree or a tarball with --source", .0.display())]
    NoSource(PathBuf),
    /// Options that were asked for did not take effect.
    #[error("the kernel cannot be configured as asked:{}", .0.iter().map(|option| format!("\n  {option}")).collect::<String>())]
    Options(Vec<String>),
    /// A program of a build failed.
    #[error("{what} failed: {}\n  the whole output is in {}", .lines.join("\n  "), .log.display())]
    Step {
        /// The step.
        what: String,
        /// The lines of its output that explain the failure.
        lines: Vec<String>,
        /// The whole output.
        log: PathBuf,
    },
    /// Debian's packages are not available here.
    #[error("{0}")]
    Debian(String),
    /// A needed module is missing.
    #[error("the kernel's module '{name}' is neither built in nor among its files in {}", .folder.display())]
    NoModule {
        /// The module.
        name: String,
        /// The folder that was searched.
        folder: PathBuf,
    },
    /// The user interrupted.
    #[error("interrupted; nothing half-built is kept, the unpacked source is")]
    Interrupted,
}

/// The name in [`KernelError::Input`] of a kernel to be booted.
pub const KERNEL: &str = "kernel";

impl KernelError {
    /// Turns the system's error for a file that the user named into a [`KernelError`].
    pub(super) fn input(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| KernelError::Input { what, path: path.to_path_buf(), source }
    }

    /// Turns the system's error for a file into a [`KernelError`].
    pub(super) fn file(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| KernelError::File { doing, path: path.to_path_buf(), source }
    }
}
