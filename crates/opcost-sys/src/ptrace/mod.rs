//! Stops another process for a moment, and traces which files a command uses (`ptrace(2)`).
//!
//! To stop threads, this module seizes them (PTRACE_SEIZE) and then interrupts them. Seizing sends no signal and changes nothing
//! that the process can see. Threads are let go as they were: a signal that was about to be delivered is delivered, and a process
//! that job control had stopped stays stopped. If the tracer dies, the kernel lets the threads go.

mod call;
mod error;
mod stopped;
mod uses;

pub use error::StopError;
pub use stopped::Stopped;
pub use uses::{Uses, UsesError, files_used};
