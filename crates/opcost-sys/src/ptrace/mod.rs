//! Traces which files a command uses (`ptrace(2)`).

mod call;
mod uses;

pub use uses::{Uses, UsesError, files_used};
