//! `opcost-gauge`: measures real cycles, against which opcost's cycle model is checked.
//!
//! ```text
//! opcost-gauge time [--repetitions N] [--only TEXT] [--cpu N]    cycles of each kernel on this CPU
//! opcost-gauge loops [--repetitions N] [--only TEXT] [--cpu N]   cycles of each instruction's latency and throughput
//! opcost-gauge mark [--only TEXT]                                each kernel in a region of its own, for `opcost --regions`
//! opcost-gauge program [--repetitions N] [--cpu N] -- COMMAND    cycles of a whole program on this CPU
//! opcost-gauge list                                              the kernels and the loops
//! ```
//!
//! `opcost doctor --validate` and `--calibrate-core` run it. It is a separate program so that a guest can run the very same machine
//! code.

#[cfg(has_kernels)]
mod clock;
#[cfg(has_kernels)]
mod command;
#[cfg(has_kernels)]
mod error;
#[cfg(has_kernels)]
mod kernel;
#[cfg(has_kernels)]
mod loops;
#[cfg(has_kernels)]
mod program;
#[cfg(has_kernels)]
mod sample;

#[cfg(has_kernels)]
use command::{Arguments, Job};
#[cfg(has_kernels)]
use opcost_record::gauge::GaugeReport;
use std::process::ExitCode;

/// The kernels and the modelled cores are x86-64 only.
#[cfg(not(has_kernels))]
fn main() -> ExitCode {
    eprintln!("opcost-gauge: measures x86-64 on Linux only");
    ExitCode::FAILURE
}

#[cfg(has_kernels)]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let arguments = match Arguments::parse(&words) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("opcost-gauge: {error}");
            return ExitCode::from(2);
        }
    };
    let done = match arguments.job {
        Job::Time => command::time(&arguments).map(|report| report.format()),
        Job::Loops => command::loops(&arguments).map(|report| report.format()),
        Job::Mark => command::mark(&arguments),
        Job::Program => command::program(&arguments),
        Job::List => Ok(command::list(&arguments)),
    };
    match done {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            // opcost reads the report; people read the message.
            if matches!(arguments.job, Job::Time | Job::Loops) {
                print!("{}", GaugeReport::format_error(&error.to_string()));
            }
            eprintln!("opcost-gauge: {error}");
            ExitCode::FAILURE
        }
    }
}
