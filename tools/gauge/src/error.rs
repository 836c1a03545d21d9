//! The program's errors.

use crate::clock;
use crate::kernel;
use crate::sample;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GaugeError {
    #[error(
        "{0}; usage: opcost-gauge time|loops|mark|list [--repetitions N] [--only TEXT] [--cpu N], or opcost-gauge program \
         [--repetitions N] [--cpu N] -- COMMAND"
    )]
    Usage(String),
    #[error("cannot run on CPU {cpu}: {error}; choose another with --cpu")]
    Cpu { cpu: usize, error: std::io::Error },
    #[error("no kernel or loop has '{0}' in its name; opcost-gauge list prints all")]
    Nothing(String),
    #[error("cannot measure '{command}': {what}")]
    Program { command: String, what: String },
    #[error("{0}")]
    Loaded(#[from] sample::Loaded),
    #[error("{0}")]
    CounterLost(#[from] clock::CounterLost),
    #[error("{0}")]
    Crowded(#[from] sample::Crowded),
    #[error("{0}")]
    Wrong(#[from] kernel::Wrong),
}
