//! Errors of a job.

use crate::disk::DiskError;
use crate::large_files::LargeFilesError;
use opcost_record::message::MessageError;
use opcost_sys::spawn::SpawnError;
use std::io;

/// Why a job was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    /// A system call or an access to a file failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The action that failed.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The request is not understood.
    #[error(transparent)]
    Request(#[from] MessageError),
    /// The files beside the initramfs cannot be written.
    #[error(transparent)]
    LargeFiles(#[from] LargeFilesError),
    /// The disk cannot be made ready.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The command could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The kernel did not start all CPUs.
    #[error(
        "the kernel started {started} of the machine's {wanted} CPUs: it needs CONFIG_SMP, \
         CONFIG_NR_CPUS of at least {wanted}, and neither nosmp nor maxcpus= on its command line; \
         lower --cpus, or boot another kernel"
    )]
    Cpus {
        /// The CPUs that the kernel started.
        started: usize,
        /// The CPUs that the machine has.
        wanted: u32,
    },
    /// The workload failed.
    #[error("{0}")]
    Work(String),
}

impl JobError {
    /// Adds the failed action to the system's error.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> JobError {
        let what = what.into();
        move |source| JobError::System { what, source }
    }
}
