//! The standard streams of a command that opcost starts on this machine.

use crate::exit::{Status, fail};
use crate::plan::{OutputPlan, Plan, VariantPlan};
use anyhow::{Context, Result};
use opcost_sys::spawn::Output;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;

/// The standard streams of one run.
pub(super) struct Streams {
    /// Standard input; `None` is /dev/null.
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
}

impl Streams {
    /// Opens the streams of a variant's run.
    ///
    /// # Errors
    /// A file cannot be opened; the error has the status "work failed".
    pub(super) fn open(plan: &Plan, variant: &VariantPlan) -> Result<Streams> {
        let failed = |path: &std::path::Path, what, error: io::Error| {
            let why = format!(
                "variant '{}': cannot open '{}' as {what}: {error}",
                variant.name,
                path.display()
            );
            fail(Status::WorkFailed, why)
        };
        let stdin = match &variant.input {
            Some(path) => {
                let file =
                    File::open(path).map_err(|error| failed(path, "standard input", error))?;
                Some(file.into())
            }
            None => None,
        };
        let shown = if plan.show_output { OutputPlan::Inherit } else { OutputPlan::Null };
        let (stdout, stderr) = match variant.output.as_ref().unwrap_or(&shown) {
            OutputPlan::Null => (Output::Null, Output::Null),
            OutputPlan::Inherit => (Output::Inherit, Output::Inherit),
            OutputPlan::Pipe => (Output::File(forgotten()?), Output::Null),
            OutputPlan::File(path) => {
                let file =
                    File::create(path).map_err(|error| failed(path, "standard output", error))?;
                (Output::File(file.into()), Output::Null)
            }
        };
        Ok(Streams { stdin, stdout, stderr })
    }
}

/// A pipe; a thread reads and drops its contents until the returned end is closed everywhere.
fn forgotten() -> Result<OwnedFd> {
    let (mut reader, writer) = io::pipe().context("cannot make a pipe for standard output")?;
    let forget = move || io::copy(&mut reader, &mut io::sink());
    thread::Builder::new().spawn(forget).context("cannot start a thread that reads the output")?;
    Ok(writer.into())
}
