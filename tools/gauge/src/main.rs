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
#[cfg(has_kernels)]
use std::io::Write;
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
        Job::Time => command::time(&arguments).map(|report| report.encode()),
        Job::Loops => command::loops(&arguments).map(|report| report.encode()),
        Job::Mark => command::mark(&arguments).map(String::into_bytes),
        Job::Program => command::program(&arguments).map(String::into_bytes),
        Job::List => Ok(command::list(&arguments).into_bytes()),
    };
    let print = |bytes: &[u8]| {
        let mut stdout = std::io::stdout();
        stdout.write_all(bytes).and_then(|()| stdout.flush())
    };
    match done {
        Ok(bytes) => match print(&bytes) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("opcost-gauge: cannot write to standard output: {error}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            // opcost reads the report; people read the message.
            if matches!(arguments.job, Job::Time | Job::Loops) {
                // If this fails, opcost still has the exit status.
                let _ = print(&GaugeReport::encode_error(&error.to_string()));
            }
            eprintln!("opcost-gauge: {error}");
            ExitCode::FAILURE
        }
    }
}
