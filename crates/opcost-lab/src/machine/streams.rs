//! The standard streams of a command that opcost starts on this machine.
//!
//! **Files of standard streams go to the spawner as descriptors.** opcost opens them before the run and sends them with the
//! order (SCM_RIGHTS), so a command with `--input` has the same measured start as one without, and its peak memory stays its
//! own.
//!
//! **Runs that are compared have no file for standard error.** A write to a file costs more than one to /dev/null. Warm-up runs
//! have one, and a compared run that fails is made again with one.

use crate::machine::printed::Printed;
use anyhow::{Context, Result};
use opcost_base::exit::{Status, fail};
use opcost_model::plan::{OutputPlan, Plan, VariantPlan};
use opcost_record::channel::OUTPUT_BYTES_MAX;
use opcost_sys::scheduling::without_preempting;
use opcost_sys::spawn::Output;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::thread;

/// The standard streams of one run.
pub(super) struct Streams {
    /// Standard input; `None` is /dev/null.
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
    /// The files that opcost reads after the run; `None` if it reads nothing.
    pub(super) kept: Option<Kept>,
}

/// The files with what a command prints.
pub(super) struct Kept {
    /// `None` if standard output goes to /dev/null.
    stdout: Option<File>,
    stderr: File,
}

impl Streams {
    /// Opens the streams of a variant's run. `keeps_stderr`: standard error goes to a file where it would be discarded.
    ///
    /// # Errors
    /// A file cannot be opened; the error has the status "work failed".
    pub(super) fn open(plan: &Plan, variant: &VariantPlan, keeps_stderr: bool) -> Result<Streams> {
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
        let keeps = variant.ops.is_some();
        let shown = if plan.shows_output(variant) { OutputPlan::Inherit } else { OutputPlan::Null };
        let (stdout, stderr, file) = match variant.output.as_ref().unwrap_or(&shown) {
            // Programs that recognise /dev/null print nothing there, so only who asks for it gets it.
            OutputPlan::Null if !keeps => (Output::Null, Output::Null, None),
            OutputPlan::Null if variant.output.is_some() => (Output::Null, Output::Null, None),
            OutputPlan::Inherit if !keeps => (Output::Inherit, Output::Inherit, None),
            OutputPlan::Null | OutputPlan::Inherit => {
                let file = own_file()?;
                (Output::File(copy(&file)?.into()), Output::Null, Some(file))
            }
            OutputPlan::Pipe => (Output::File(forgotten()?), Output::Null, None),
            OutputPlan::File(path) => {
                let mut options = File::options();
                options.write(true).read(keeps).create(true).truncate(true);
                let file =
                    options.open(path).map_err(|error| failed(path, "standard output", error))?;
                (Output::File(copy(&file)?.into()), Output::Null, Some(file))
            }
        };
        let is_read = keeps || keeps_stderr && matches!(stderr, Output::Null);
        if !is_read {
            return Ok(Streams { stdin, stdout, stderr, kept: None });
        }
        let errors = own_file()?;
        let stderr = Output::File(copy(&errors)?.into());
        Ok(Streams { stdin, stdout, stderr, kept: Some(Kept { stdout: file, stderr: errors }) })
    }
}

impl Kept {
    /// The command's output, up to the limit of each stream; empty where a file cannot be read.
    pub(super) fn read(&self) -> Printed {
        Printed {
            stdout: self.stdout.as_ref().map(start_of).unwrap_or_default(),
            stderr: start_of(&self.stderr),
        }
    }
}

/// The first bytes of a file, wherever its offset is.
fn start_of(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; OUTPUT_BYTES_MAX as usize];
    let mut length = 0;
    while let Ok(read @ 1..) = file.read_at(&mut bytes[length..], length as u64) {
        length += read;
    }
    bytes.truncate(length);
    bytes
}

fn own_file() -> Result<File> {
    tempfile::tempfile().context("cannot make a file for what the command prints")
}

fn copy(file: &File) -> Result<File> {
    file.try_clone().context("cannot copy the descriptor of an output file")
}

/// A pipe; a thread reads and drops its contents until the returned end is closed everywhere.
fn forgotten() -> Result<OwnedFd> {
    let (mut reader, writer) = io::pipe().context("cannot make a pipe for standard output")?;
    let forget = move || {
        // Each write of the command wakes this thread.
        let _waits = without_preempting();
        io::copy(&mut reader, &mut io::sink())
    };
    thread::Builder::new().spawn(forget).context("cannot start a thread that reads the output")?;
    Ok(writer.into())
}
