//! Stopping another process for a moment, and seeing which files a command uses (`ptrace(2)`).
//!
//! To be stopped, threads are seized (PTRACE_SEIZE), which sends them no signal and changes nothing that the
//! process can see, then interrupted. They are let go as they were: a signal that was about to be
//! delivered is, and a process that job control had stopped stays stopped. When the tracer dies by
//! whatever cause, the kernel lets them go.

mod call;
mod error;
mod stopped;
mod uses;

pub use error::StopError;
pub use stopped::Stopped;
pub use uses::{Uses, UsesError, files_used};
