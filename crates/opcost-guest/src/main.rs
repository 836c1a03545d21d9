//! The `/init` of opcost's emulated machines: sets up a bare Linux, does the one job asked for,
//! sends the results over its own channel and ends the machine.
//!
//! ```text
//! mounts → large files → disk → request → channel → variation → symbols | workload | service → command → power
//! ```
//!
//! Between the markers, no code of init runs: a workload is a process of its own, and a command's
//! output goes to files that init sends afterwards. For the same reason init does not reap orphans:
//! they remain until the machine ends.

#![forbid(unsafe_code)]

mod command;
mod disk;
mod error;
mod init;
mod kernel;
mod large_files;
mod log;
mod mounts;
mod power;
mod reply;
mod request;
mod service;
mod variation;
mod workload;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::process::id() == 1 {
        init::run();
    }
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [job, request, phase_seed @ ..] if job == workload::JOB && phase_seed.len() < 2 => {
            workload::serve(request.as_ref(), phase_seed.first().map(|seed| &**seed))
        }
        _ => {
            eprintln!("this is the /init of opcost's emulated machines; opcost starts it");
            ExitCode::from(2)
        }
    }
}
