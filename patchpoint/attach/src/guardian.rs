//! A separate process that restores a target if the process that changed the target dies.
//!
//! The guardian receives the change before the owner writes its first byte. It opens the target,
//! reports that it is ready, and waits for its input to end. The word `done` on the input means
//! that the owner restored everything itself. If the input ends without it, the owner is dead, by
//! whatever signal, and the guardian restores the target.
//!
//! **The guardian is a process of its own, with a pipe.** Handlers and exit hooks do not run on SIGKILL; the guardian sees
//! the pipe close whatever the cause.

use crate::change::Change;
use crate::error::AttachError;
use crate::process::{Process, Purpose};
use crate::target::Restored;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// The guardian's message that it can restore.
const READY: &str = "ready";
/// The owner's message that nothing is left to restore.
const DONE: &str = "done";
/// How long the guardian waits for a target that it cannot stop, for example because of a debugger.
const PATIENCE: Duration = Duration::from_secs(60);

/// The data needed to restore a target.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Undo {
    /// The target's process number.
    pub pid: i32,
    /// The start of the target, as [`Process::started_ticks`].
    pub started_ticks: u64,
    /// The name of the key, for messages.
    pub key: String,
    /// The change that was made.
    pub change: Change,
}

/// The owner's handle of a guardian.
#[derive(Debug)]
pub struct Guardian {
    child: Child,
    input: Option<ChildStdin>,
}

impl Guardian {
    /// Starts a guardian and waits until it is ready.
    ///
    /// `program` with `arguments` must call [`serve`].
    ///
    /// # Errors
    /// The guardian cannot be started, or cannot open the target.
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

    /// Whether the guardian is still there to restore the target.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Tells the guardian that nothing is left to restore, and waits for its end.
    pub fn stop(mut self) {
        if let Some(mut input) = self.input.take() {
            // If the guardian is gone, nobody reads this.
            let _ = writeln!(input, "{DONE}");
        }
        let _ = self.child.wait();
    }
}

/// Runs the guardian; `input` comes from its owner, `output` goes to its owner.
///
/// # Errors
/// The target could not be opened or restored; the text says which changes are left.
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
    // A read error counts as the end of the input: an unneeded check of the target does no harm.
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

/// Restores the target as soon as it can be stopped.
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
