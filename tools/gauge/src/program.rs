//! Measures the cycles of a whole program: its CPU time, converted by the speed of chains of multiplications that run just before
//! and just after it.

use crate::clock::multiply_chain;
use crate::error::GaugeError;
use crate::sample::{Sample, measured};
use opcost_record::gauge::Measured;
use opcost_sys::clock::process_cpu_ns;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::spawn::{Spawn, Status, find_program};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Multiplications of a calibration beside a program: about a millisecond, so that the clock's own cost is negligible.
const CHAIN_LENGTH: u64 = 1_000_000;
/// Cycles of one such calibration, 3 for each multiplication (see `clock`).
const CHAIN_CYCLES: u64 = 3 * CHAIN_LENGTH;

/// Runs a command `repetitions` times, after one unmeasured run.
///
/// # Errors
/// The command cannot be run, or it fails.
pub(crate) fn program(words: &[String], repetitions: u64) -> Result<Measured, GaugeError> {
    let failed = |what: String| GaugeError::Program { command: words.join(" "), what };
    let name = OsStr::new(words.first().ok_or_else(|| failed("no command is given".into()))?);
    let path = std::env::var_os("PATH");
    let program = find_program(name, path.as_deref(), Path::new("."))
        .map_err(|error| failed(error.to_string()))?;
    let interrupt = Interrupt::install().map_err(|error| failed(error.to_string()))?;
    let mut samples = Vec::new();
    for _ in 0..=repetitions {
        let before = chain_ns();
        let argv = words.iter().map(OsString::from);
        let held = Spawn::new(&program, argv).hold().map_err(|error| failed(error.to_string()))?;
        let mut running = held.release().map_err(|error| failed(error.to_string()))?;
        let exit = running.wait(None, &interrupt).map_err(|error| failed(error.to_string()))?;
        let after = chain_ns();
        match exit.status {
            Status::Code(0) => {}
            Status::Code(code) => return Err(failed(format!("it ended with status {code}"))),
            Status::Signal(signal) => return Err(failed(format!("signal {signal} ended it"))),
        }
        let ticks = exit.rusage.user_ns + exit.rusage.system_ns;
        samples.push(Sample { ticks, calibration: before.zip(after) });
    }
    // The first run brings the program's files into memory.
    Ok(measured(&samples[1..], CHAIN_CYCLES))
}

/// The CPU time of one chain; `None` if this process's clock cannot be read.
fn chain_ns() -> Option<u64> {
    let own = i32::try_from(std::process::id()).ok()?;
    let from = process_cpu_ns(own)?;
    multiply_chain(CHAIN_LENGTH);
    Some(process_cpu_ns(own)? - from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn a_program_has_cycles_and_a_failure_its_reason() {
        let measured = program(&words("true"), 3).unwrap();
        assert_eq!(measured.taken, 3);
        let message = |line: &str| program(&words(line), 1).unwrap_err().to_string();
        assert!(message("false").contains("'false'") && message("false").contains("status 1"));
        assert!(message("no-such-program-here").contains("no-such-program-here"));
        assert!(message("").contains("no command is given"));
    }
}
