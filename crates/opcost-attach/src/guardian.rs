//! A process of its own that puts a target back when the one that changed it dies.
//!
//! The guardian gets the change before the first byte of it is written, opens the target, and says
//! that it is ready. From then on it waits for its input to end. A word before that says that
//! everything is put back already; an end without it means that its owner is dead, by whatever
//! signal, and then it restores the target.

use crate::change::Change;
use crate::error::AttachError;
use crate::process::{Process, Purpose};
use crate::target::Restored;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// What the guardian says when it can restore.
const READY: &str = "ready";
/// What it is told when there is nothing left to restore.
const DONE: &str = "done";
/// How long a target that cannot be stopped, for example because a debugger has it, is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// What has to be known to restore a target.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Undo {
    /// The target.
    pub pid: i32,
    /// When it began, as [`Process::started_ticks`].
    pub started_ticks: u64,
    /// The name of the key, for messages.
    pub key: String,
    /// What was changed.
    pub change: Change,
}

/// A guardian, from its owner's side.
#[derive(Debug)]
pub struct Guardian {
    child: Child,
    input: Option<ChildStdin>,
}

impl Guardian {
    /// Starts one and waits until it is ready.
    ///
    /// `program` with `arguments` calls [`serve`].
    ///
    /// # Errors
    /// It cannot be started, or cannot open the target.
    pub fn start(program: &Path, arguments: &[&str], undo: &Undo) -> Result<Guardian, AttachError> {
        let failed = |what: &str| {
            let what = what.to_string();
            move |error: io::Error| AttachError::Guardian { what: format!("{what}: {error}") }
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed("cannot be started"))?;
        let mut guardian = Guardian { input: child.stdin.take(), child };
        let mut text =
            serde_json::to_string(undo).map_err(io::Error::from).map_err(failed("fails"))?;
        text.push('\n');
        let sent = guardian.input.as_mut().map(|input| input.write_all(text.as_bytes()));
        sent.unwrap_or(Ok(())).map_err(failed("does not listen"))?;
        let mut answer = String::new();
        if let Some(output) = guardian.child.stdout.take() {
            BufReader::new(output).read_line(&mut answer).map_err(failed("does not answer"))?;
        }
        match answer.trim() {
            READY => Ok(guardian),
            "" => Err(AttachError::Guardian { what: "ended before it was ready".into() }),
            said => Err(AttachError::Guardian { what: format!("is not ready: {said}") }),
        }
    }

    /// Whether it is still there to restore the target.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Tells it that nothing is left to restore, and waits for its end.
    pub fn dismiss(mut self) {
        if let Some(mut input) = self.input.take() {
            // If it is gone there is nobody to tell.
            let _ = writeln!(input, "{DONE}");
        }
        let _ = self.child.wait();
    }
}

/// The guardian's life: `input` and `output` are its owner's.
///
/// # Errors
/// The target could not be opened, or could not be restored: then the text says what is left.
pub fn serve(input: impl Read, mut output: impl Write) -> Result<Option<Restored>, AttachError> {
    let fails = |error: io::Error| AttachError::Guardian { what: format!("fails: {error}") };
    let mut input = BufReader::new(input);
    let mut line = String::new();
    input.read_line(&mut line).map_err(fails)?;
    let undo: Undo = serde_json::from_str(&line).map_err(io::Error::from).map_err(fails)?;
    let process = match open(&undo) {
        Ok(process) => process,
        Err(error) => {
            let _ = writeln!(output, "{error}");
            return Err(error);
        }
    };
    writeln!(output, "{READY}").and_then(|()| output.flush()).map_err(fails)?;
    let mut word = String::new();
    // An error is taken for the end: better to look once too often.
    let _ = input.read_line(&mut word);
    if word.trim() == DONE {
        return Ok(None);
    }
    restore(&process, &undo.change).map(Some)
}

fn open(undo: &Undo) -> Result<Process, AttachError> {
    let process = Process::open(undo.pid, Purpose::Change)?;
    if process.started_ticks == undo.started_ticks { Ok(process) } else { Err(process.gone()) }
}

/// Restores as soon as the target can be stopped.
fn restore(process: &Process, change: &Change) -> Result<Restored, AttachError> {
    let begun = Instant::now();
    loop {
        match process.restore(change) {
            Err(AttachError::Stop(_) | AttachError::Busy { .. }) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(50));
            }
            done => return done,
        }
    }
}
