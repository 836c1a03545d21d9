//! Profiles in files: the sources of their names, and their errors.

use anyhow::Result;
use clap::Args;
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_command::globals::Globals;
use opcost_profile::read::{self, ReadProfile, Wanted};
use opcost_profile::symbolise::{KernelSource, Sources};
use opcost_symbols::debug_files::DebugFiles;
use opcost_sys::allocator::give_large_blocks_back;
use std::path::{Path, PathBuf};

/// How files with profiles are read.
#[derive(Args, Clone, Debug, Default)]
pub struct SourceArgs {
    /// Event whose cost to show, by name [default: the file's first that has samples]
    #[arg(long, value_name = "EVENT")]
    event: Option<String>,

    /// Samples to include: comm=NAME, pid=NUMBER, tid=NUMBER, dso=FILE of the interrupted code (a
    /// path or file name, [kernel]), or time=FROM..TO in seconds since the first sample; may be
    /// repeated: a sample must fit one filter of each kind
    #[allow(rustdoc::broken_intra_doc_links, reason = "a help text: [kernel] is what one types")]
    #[arg(long, value_name = "KEY=VALUE")]
    only: Vec<String>,

    /// System.map or vmlinux of the recorded kernel, or a copy of its /proc/kallsyms [default: the
    /// running kernel's symbols, or those that perf stored for another kernel]
    #[arg(long, value_name = "FILE")]
    kernel_symbols: Option<PathBuf>,

    /// Take names from files without a recorded build id even if they are another computer's or have
    /// changed since the recording
    #[arg(long)]
    trust_files: bool,

    /// Charge inlined functions to the functions that contain them
    #[arg(long)]
    no_inlined: bool,
}

impl SourceArgs {
    /// Where names come from.
    pub(crate) fn sources(&self, globals: &Globals) -> Sources {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        Sources {
            kernel: match &self.kernel_symbols {
                Some(path) => KernelSource::File(path.clone()),
                None => KernelSource::Running,
            },
            debug_files: DebugFiles::of_environment(Some(globals.announcer())),
            build_id_cache: home.map(|home| home.join(".debug")),
            inlined: !self.no_inlined,
            limit_bytes: globals.read_limit_bytes(),
        }
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// [`read::ReadError`], with its exit status.
    pub(crate) fn read(&self, globals: &Globals, path: &Path) -> Result<ReadProfile> {
        // Names are read from one large file after another.
        give_large_blocks_back();
        let mut wanted = Wanted {
            event: self.event.clone(),
            trust_files: self.trust_files,
            ..Wanted::default()
        };
        for text in &self.only {
            wanted
                .filter
                .add(text)
                .map_err(|error| fail(Status::Usage, format!("--only {error}")))?;
        }
        read::read(path, &wanted, &self.sources(globals)).status(Status::Usage)
    }
}
