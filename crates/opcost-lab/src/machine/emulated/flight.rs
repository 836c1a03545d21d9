//! A process of the emulator, from its start to its end, and the files that it writes.

use super::seconds::Watch;
use crate::machine::streams::Kept;
use anyhow::{Context, Result};
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_sys::clock::unix_ns;
use opcost_sys::file_size;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::spawn::{EndedBy, Exit, Held, Output, Running, Spawn};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most bytes read from the end of a console or an error output.
const TAIL_BYTES: u64 = 1 << 18;

/// A folder for the files of one process.
pub(super) struct Files {
    folder: PathBuf,
}

impl Files {
    /// Makes the folder `name` in `parent`.
    pub(super) fn new(parent: &Path, name: &str) -> Result<Files> {
        let folder = parent.join(name);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make '{}'", folder.display()))
            .status(Status::Missing)?;
        Ok(Files { folder })
    }

    /// The path of a file of this name, which need not exist.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.path(name);
        fs::write(&path, bytes)
            .with_context(|| format!("cannot write '{}'", path.display()))
            .status(Status::Missing)?;
        Ok(path)
    }

    /// The end of a file as text; empty if the file cannot be read.
    pub(super) fn tail(&self, name: &str) -> String {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(self.path(name))?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
    }

    /// Removes the folder with all files.
    pub(super) fn remove(self) {
        // If this fails, the files are removed with the parent folder.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A running process of the emulator.
pub(super) struct Flight {
    running: Running,
    /// The process's files, `stderr` among them.
    pub(super) files: Files,
    /// The start, nanoseconds since 1970.
    pub(super) started_unix_ns: u64,
    /// Measures the phases of the guest, if asked for.
    pub(super) watch: Option<Watch>,
    /// The files with the output of a program without a kernel, if opcost reads it.
    pub(super) kept: Option<Kept>,
}

impl Flight {
    /// Starts the process; its standard error goes to a file.
    pub(super) fn launch(mut spawn: Spawn, files: Files) -> Result<Flight> {
        let stderr = files.write("stderr", b"")?;
        let file = File::options()
            .append(true)
            .open(&stderr)
            .with_context(|| format!("cannot write '{}'", stderr.display()))
            .status(Status::Missing)?;
        spawn.stderr = Output::File(file.into());
        let started_unix_ns = unix_ns();
        let running =
            spawn.hold().and_then(Held::release).map_err(|error| fail(Status::Missing, error))?;
        Ok(Flight { running, files, started_unix_ns, watch: None, kept: None })
    }

    /// Keeps the files with what the program prints.
    pub(super) fn keeping(self, kept: Option<Kept>) -> Flight {
        Flight { kept, ..self }
    }

    /// Measures the phases of the guest from now on.
    pub(super) fn watched(mut self) -> Flight {
        self.watch = Some(Watch::begin(self.running.pid(), self.files.path("channel")));
        self
    }

    /// Limits the files that the process writes: a guest's console and messages have no end of their own.
    pub(super) fn limited(self, file_bytes: u64) -> Flight {
        // Fails only if the process has ended, and then nothing is left to limit.
        let _ = file_size::limit(self.running.pid(), file_bytes);
        self
    }

    /// Notes that a phase of the guest ends.
    pub(super) fn mark(&mut self, what: &'static str) {
        if let Some(watch) = &mut self.watch {
            watch.mark(what);
        }
    }

    /// Waits for the end; `None` if a signal interrupted the wait.
    pub(super) fn wait(
        &mut self,
        limit: Option<Duration>,
        interrupt: &Interrupt,
    ) -> Result<Option<Exit>> {
        let exit = self.running.wait(limit, interrupt).context("cannot wait for the emulator")?;
        Ok((exit.ended_by != EndedBy::Interrupt).then_some(exit))
    }

    /// Waits for the end of a process that the first run depends on.
    ///
    /// # Errors
    /// A signal interrupted the wait.
    pub(super) fn wait_in_preparation(
        &mut self,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<Exit> {
        self.wait(Some(limit), interrupt)?
            .ok_or_else(|| fail(Status::Interrupted, "interrupted before the first run"))
    }
}
