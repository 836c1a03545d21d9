//! Controls a running QEMU by its machine protocol (docs/interop/qmp-spec): lines of JSON each way.

use opcost_sys::interrupt::Interrupt;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How often a wait checks for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Why QEMU did not execute a command.
#[derive(Debug, thiserror::Error)]
pub(super) enum MonitorError {
    /// QEMU has ended, or the socket broke.
    #[error("the emulator ended")]
    Gone,
    /// QEMU refused a command with a reason.
    #[error("the emulator refused {command}: {said}")]
    Refused {
        command: &'static str,
        /// QEMU's message.
        said: String,
    },
    /// QEMU did not answer in time.
    #[error("the emulator did not come to '{0}' in time")]
    Late(&'static str),
    /// A signal came.
    #[error("interrupted")]
    Interrupted,
}

/// A connection to one QEMU.
pub(super) struct Monitor<'a> {
    reader: BufReader<UnixStream>,
    /// The start of a line that is not complete yet.
    line: Vec<u8>,
    /// Messages that were skipped: an event may come before the answer to the command that caused it.
    passed: Vec<Value>,
    until: Instant,
    interrupt: &'a Interrupt,
}

impl<'a> Monitor<'a> {
    /// A connection that lasts at most `limit`, and QEMU's end of it.
    pub(super) fn pair(
        limit: Duration,
        interrupt: &'a Interrupt,
    ) -> io::Result<(Monitor<'a>, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(LOOK_EVERY))?;
        let reader = BufReader::new(ours);
        let until = Instant::now() + limit;
        Ok((
            Monitor { reader, line: Vec::new(), passed: Vec::new(), until, interrupt },
            theirs.into(),
        ))
    }

    /// Makes QEMU accept commands, and leave memory that has its own file out of its state.
    pub(super) fn begin(&mut self) -> Result<(), MonitorError> {
        self.wait("greeting", |said| said.get("QMP").is_some())?;
        self.execute("qmp_capabilities", Value::Null)?;
        let capability = |name: &str| json!({"capability": name, "state": true});
        let capabilities = [capability("x-ignore-shared"), capability("events")];
        self.execute("migrate-set-capabilities", json!({ "capabilities": capabilities }))
    }

    /// Sends a command and waits until QEMU has executed it.
    pub(super) fn execute(
        &mut self,
        command: &'static str,
        arguments: Value,
    ) -> Result<(), MonitorError> {
        let mut order = json!({ "execute": command });
        if !arguments.is_null() {
            order["arguments"] = arguments;
        }
        let sent = writeln!(self.reader.get_ref(), "{order}");
        sent.map_err(|_| MonitorError::Gone)?;
        let is_answer = |said: &Value| said.get("return").or(said.get("error")).is_some();
        let answer = self.wait(command, is_answer)?;
        match answer.pointer("/error/desc").and_then(Value::as_str) {
            Some(said) => Err(MonitorError::Refused { command, said: said.to_string() }),
            None => Ok(()),
        }
    }

    /// Waits for an event.
    pub(super) fn event(&mut self, name: &'static str) -> Result<(), MonitorError> {
        let is_it = |said: &Value| said.get("event").and_then(Value::as_str) == Some(name);
        self.wait(name, is_it).map(drop)
    }

    /// Waits until the state is written or read.
    pub(super) fn migrated(&mut self) -> Result<(), MonitorError> {
        let status = |said: &Value| Some(said.pointer("/data/status")?.as_str()?.to_string());
        let is_end = |said: &Value| {
            matches!(status(said).as_deref(), Some("completed" | "failed" | "cancelled"))
        };
        let end = self.wait("migration", is_end)?;
        match status(&end).as_deref() {
            Some("completed") => Ok(()),
            end => {
                let said = format!("it {}", end.unwrap_or("failed"));
                Err(MonitorError::Refused { command: "migrate", said })
            }
        }
    }

    /// Waits for a message; skipped messages count, too.
    fn wait(
        &mut self,
        what: &'static str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Value, MonitorError> {
        if let Some(place) = self.passed.iter().position(&is_it) {
            return Ok(self.passed.remove(place));
        }
        loop {
            match self.reader.read_until(b'\n', &mut self.line) {
                Ok(0) => return Err(MonitorError::Gone),
                Ok(_) if self.line.ends_with(b"\n") => {
                    let said = serde_json::from_slice::<Value>(&self.line).unwrap_or_default();
                    self.line.clear();
                    if is_it(&said) {
                        return Ok(said);
                    }
                    self.passed.push(said);
                }
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(MonitorError::Gone),
                },
            }
            if self.interrupt.is_set() {
                return Err(MonitorError::Interrupted);
            }
            if Instant::now() >= self.until {
                return Err(MonitorError::Late(what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// A connection whose other end sends `lines` at once and then closes.
    fn said(lines: &str, limit: Duration) -> Monitor<'static> {
        let interrupt = Box::leak(Box::new(Interrupt::none()));
        let (monitor, theirs) = Monitor::pair(limit, interrupt).unwrap();
        let mut theirs = UnixStream::from(theirs);
        theirs.write_all(lines.as_bytes()).unwrap();
        std::thread::spawn(move || {
            theirs.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = theirs.read_to_end(&mut Vec::new());
        });
        monitor
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn answers_are_told_from_events() {
        let lines = "{\"QMP\": {}}\n{\"return\": {}}\n{\"return\": {}}\n{\"event\": \"STOP\"}\n\
                     {\"data\": {\"status\": \"setup\"}}\n{\"data\": {\"status\": \"completed\"}}\n\
                     {\"return\": {}}\n";
        let mut monitor = said(lines, LONG);
        monitor.begin().unwrap();
        monitor.event("STOP").unwrap();
        monitor.execute("migrate", json!({"uri": "x"})).unwrap();
        monitor.migrated().unwrap();
        assert!(matches!(monitor.event("STOP"), Err(MonitorError::Gone)));
    }

    #[test]
    fn refusals_have_qemus_words() {
        let mut monitor = said("{\"error\": {\"desc\": \"no such file\"}}\n", LONG);
        let error = monitor.execute("migrate-incoming", Value::Null).unwrap_err().to_string();
        assert_eq!(error, "the emulator refused migrate-incoming: no such file");
        let mut monitor = said("{\"data\": {\"status\": \"failed\"}}\n", LONG);
        assert!(monitor.migrated().unwrap_err().to_string().contains("migrate: it failed"));
    }

    #[test]
    fn silence_ends_at_the_limit() {
        let interrupt = Interrupt::none();
        let (mut monitor, _theirs) = Monitor::pair(LOOK_EVERY, &interrupt).unwrap();
        assert!(matches!(monitor.event("STOP"), Err(MonitorError::Late("STOP"))));
    }
}
