//! The report's file.

use crate::refusal;
use opcost_record::emulation::{Emulation, RegionCost, ReportWriter};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The report so far. Each run is written when it ends, so a program may make any number of runs.
#[derive(Default)]
pub(crate) struct Reports {
    writer: Option<ReportWriter<File>>,
}

impl Reports {
    /// Whether a run has ended.
    pub(crate) fn any(&self) -> bool {
        self.writer.is_some()
    }

    /// Adds a run to the report that will be at `out`.
    ///
    /// # Errors
    /// The report cannot be written.
    pub(crate) fn add(&mut self, out: &Path, regions: &[RegionCost]) -> Result<(), String> {
        // A child's runs are no part of its parent's report.
        if !refusal::is_first_process() {
            return Ok(());
        }
        let mut write = || {
            let writer = match &mut self.writer {
                Some(writer) => writer,
                none => none.insert(ReportWriter::start(File::create(fresh(out))?)),
            };
            writer.run(regions)
        };
        write().map_err(|error| format!("cannot write the report {}: {error}", out.display()))
    }

    /// Ends the report, which names the `mapped` files and the number of `patched` alternatives, and moves it to `out`.
    pub(crate) fn put(&mut self, out: &Path, mapped: &[String], patched: Option<u64>) {
        put(out, self.writer.take().map_or(Ok(()), |writer| writer.end(mapped, patched)));
    }
}

/// Writes the reason why there is no report.
pub(crate) fn write_error(out: &Path, message: &str) {
    put(out, fs::write(fresh(out), Emulation::encode_error(message)));
}

/// Returns the path of the report while it is incomplete.
fn fresh(out: &Path) -> PathBuf {
    let mut fresh = out.as_os_str().to_owned();
    fresh.push(".tmp");
    fresh.into()
}

/// Moves the written report to its place.
fn put(out: &Path, written: io::Result<()>) {
    if let Err(error) = written.and_then(|()| fs::rename(fresh(out), out)) {
        eprintln!("opcost-emu: cannot write the report {}: {error}", out.display());
    }
}
