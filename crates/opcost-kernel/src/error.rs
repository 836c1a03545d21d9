//! What can be wrong with a kernel, by its name.

use std::path::{Path, PathBuf};

/// Why there is no kernel to boot.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A `--kernel` argument, an option of `kernel build` or a fragment that cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// A file that is no kernel image for the emulated machine.
    #[error("'{}' is no bootable kernel image: {found}", .path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
        /// What it is instead, and what to give.
        found: String,
    },
    /// No kernel of this name is in the cache.
    #[error(
        "no kernel '{name}' has been built{nearest}; build one with opcost kernel build --name {name} --config …, see opcost kernel list, or write a path with a slash in it"
    )]
    NotBuilt {
        /// The name as given.
        name: String,
        /// Names that resemble it, as text.
        nearest: String,
    },
    /// A file that the user named cannot be read.
    #[error("cannot read the {what} '{}': {source}", .path.display())]
    Input {
        /// What it is for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file or folder of the cache or the source cannot be read or written.
    #[error("cannot {doing} '{}': {source}", .path.display())]
    File {
        /// What was being done, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Programs or headers that building needs are not here.
    #[error("building a kernel needs what is missing here: {}; on Debian: apt-get install {}", .missing.join(", "), .packages.join(" "))]
    Tools {
        /// The programs and headers.
        missing: Vec<String>,
        /// The Debian packages that have them.
        packages: Vec<String>,
    },
    /// There is no kernel source to build from.
    #[error("no kernel source: there is no linux-source-*.tar.* in {}; on Debian: apt-get install linux-source-6.1 (or your release's), or give a source tree with --source DIR", .0.display())]
    NoSource(PathBuf),
    /// Options that were asked for did not come about.
    #[error("the kernel cannot be configured as asked:{}", .0.iter().map(|option| format!("\n  {option}")).collect::<String>())]
    Options(Vec<String>),
    /// A step failed.
    #[error("{what} failed: {}\n  the whole output is in {}", .lines.join("\n  "), .log.display())]
    Step {
        /// The step.
        what: String,
        /// The lines of its output that say why.
        lines: Vec<String>,
        /// The whole output.
        log: PathBuf,
    },
    /// Debian's packages cannot be had here.
    #[error("{0}")]
    Debian(String),
    /// A module that something needs is not there.
    #[error("the kernel's module '{name}' is neither built in nor among its files in {}", .folder.display())]
    NoModule {
        /// The module.
        name: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// The user interrupted.
    #[error("interrupted; nothing half-built is kept, the unpacked source is")]
    Interrupted,
}

/// What [`KernelError::Input`] calls a kernel that was to be booted.
pub const KERNEL: &str = "kernel";

impl KernelError {
    /// What failed on a file that the user named.
    pub(super) fn input(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| KernelError::Input { what, path: path.to_path_buf(), source }
    }

    /// What failed on a file.
    pub(super) fn file(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| KernelError::File { doing, path: path.to_path_buf(), source }
    }
}
