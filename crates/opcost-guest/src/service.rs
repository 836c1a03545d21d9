//! The service beside a job: started and ready before the region, ended after it.
//!
//! ```text
//! start → ready → rest → (job) → SIGTERM → wait → SIGKILL
//! ```
//!
//! **Readiness is read, not tried.** A connection would be work for the service, so a port is ready when the kernel's list of sockets has
//! a listener. All this is before the start marker and after the stop marker.
//!
//! **As the first process, /init ends all others**, also daemons that left the service's process group.

use crate::error::JobError;
use crate::reply::{Channel, send};
use opcost_record::channel::FrameKind;
use opcost_record::service::{END_S_MAX, GuestService, GuestSystem, PATH, READY_S_MAX, Ready};
use opcost_sys::processes;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The file of what the service prints.
const OUTPUT: &str = "/opcost/service-output";

/// The lines of it that an error shows.
const LINES_SHOWN: usize = 10;

/// The waits between two looks of /init, each twice the one before.
const LOOKED_AFTER: Duration = Duration::from_millis(20);
const LOOKED_AFTER_MAX: Duration = Duration::from_millis(500);

/// The rest after a service is ready, in which it may finish its start. The clock of an idle machine skips it.
const REST: Duration = Duration::from_millis(500);

/// The lists of TCP sockets (`proc_net_tcp`, Documentation/networking), and the state of a listener.
const SOCKETS: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
const LISTENS: &str = "0A";

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// A service that runs.
pub(crate) struct Service {
    child: Child,
    /// How the started process ended, if it did: a daemon's does.
    ended: Option<ExitStatus>,
}

/// Does what the guest's description asks for before the job, if it has one.
pub(crate) fn set_up() -> Result<Option<Service>, JobError> {
    let system = match fs::read(PATH) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        system => GuestSystem::decode(&system.map_err(JobError::system(format!("read {PATH}")))?)?,
    };
    if let Some(name) = system.host_name {
        rustix::system::sethostname(name.as_bytes())
            .map_err(|error| JobError::system("set the host name")(error.into()))?;
    }
    system.service.map(|service| Service::start(&service)).transpose()
}

impl Service {
    /// Starts the service and waits until it is ready.
    fn start(of: &GuestService) -> Result<Service, JobError> {
        let output = File::create(OUTPUT).map_err(JobError::system(format!("write {OUTPUT}")))?;
        let copy = output.try_clone().map_err(JobError::system(format!("write {OUTPUT}")))?;
        let line = line(of);
        let started = Command::new(&of.program)
            .arg0(&of.argv[0])
            .args(&of.argv[1..])
            .env_clear()
            .envs(of.env.iter().cloned())
            .current_dir(&of.cwd)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(copy)
            .process_group(0)
            .spawn();
        let child = started.map_err(JobError::system(format!("start the service '{line}'")))?;
        let mut service = Service { child, ended: None };
        let (begun, mut pause) = (Instant::now(), LOOKED_AFTER);
        loop {
            if is_ready(of)? {
                break;
            }
            let ended = service.look();
            if let Some(status) = ended.filter(|status| !status.success()) {
                let how = in_words(status);
                return Err(failed(format!(
                    "the service '{line}' {how} before it was ready ({})",
                    of.ready
                )));
            }
            if begun.elapsed().as_secs() >= READY_S_MAX {
                let why = format!(
                    "the service '{line}' was not ready ({}) after {READY_S_MAX} s",
                    of.ready
                );
                return Err(failed(why));
            }
            sleep(pause);
            pause = (2 * pause).min(LOOKED_AFTER_MAX);
        }
        sleep(REST);
        match service.look().filter(|status| !status.success()) {
            Some(status) => Err(failed(format!(
                "the service '{line}' {} as soon as it was ready",
                in_words(status)
            ))),
            None => Ok(service),
        }
    }

    /// How the started process ended, if it has.
    fn look(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Ends all processes after the job.
    ///
    /// # Errors
    /// The service had ended by itself while the job ran.
    pub(crate) fn end(mut self, channel: &mut Channel) -> Result<(), JobError> {
        let was_running = self.ended.is_none();
        if let Some(status) = self.look().filter(|_| was_running) {
            return Err(failed(format!("the service {} while the command ran", in_words(status))));
        }
        let system = || JobError::system("end the service");
        processes::signal_all(SIGTERM).map_err(system())?;
        let begun = Instant::now();
        while self.remains() {
            if begun.elapsed().as_secs() >= END_S_MAX {
                processes::signal_all(SIGKILL).map_err(system())?;
                let note = format!(
                    "the service did not end within {END_S_MAX} s of SIGTERM, so SIGKILL ended it"
                );
                send(channel, FrameKind::Note, note.as_bytes())?;
                break;
            }
            sleep(LOOKED_AFTER);
        }
        match self
            .look()
            .filter(|status| was_running && !status.success() && status.signal() != Some(SIGTERM))
        {
            Some(status) => {
                let note = format!("the service {} after SIGTERM", in_words(status));
                send(channel, FrameKind::Note, note.as_bytes())
            }
            None => Ok(()),
        }
    }

    /// Whether any process is left.
    fn remains(&mut self) -> bool {
        // The status of the service itself is kept; reap() would drop it.
        self.look().is_none() || processes::reap()
    }
}

fn line(of: &GuestService) -> String {
    of.argv.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn is_ready(of: &GuestService) -> Result<bool, JobError> {
    match &of.ready {
        Ready::Port(port) => {
            // A kernel without TCP has no such list, and one without IPv6 no second.
            let texts: Vec<String> = SOCKETS.iter().flat_map(fs::read_to_string).collect();
            if texts.is_empty() {
                let why =
                    "no port is ever ready: the kernel has no TCP (CONFIG_INET); boot another";
                return Err(failed(why.into()));
            }
            Ok(texts.iter().any(|text| listens(text, *port)))
        }
        Ready::File(path) => Ok(fs::symlink_metadata(path).is_ok()),
        Ready::Command(words) => {
            let program = of.ready_program.as_deref().unwrap_or(words[0].as_ref());
            let ended = Command::new(program)
                .arg0(&words[0])
                .args(&words[1..])
                .env_clear()
                .envs(of.env.iter().cloned())
                .current_dir(&of.cwd)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            let ended = ended.map_err(JobError::system(format!("start '{}'", words.join(" "))))?;
            Ok(ended.success())
        }
    }
}

/// Whether a list of TCP sockets has a listener at a port: `sl local_address rem_address st …`, with hexadecimal ports.
fn listens(list: &str, port: u16) -> bool {
    list.lines().skip(1).any(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let local = words.get(1).and_then(|address| address.rsplit_once(':'));
        let found = local.and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        found == Some(port) && words.get(3) == Some(&LISTENS)
    })
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
    }
}

/// An error with the last that the service printed.
fn failed(why: String) -> JobError {
    let printed = fs::read(OUTPUT).unwrap_or_default();
    JobError::Work(match last_lines(&String::from_utf8_lossy(&printed)) {
        last if last.is_empty() => format!("{why}; it printed nothing"),
        last => format!("{why}; it printed last:\n{last}"),
    })
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_by_its_port_and_state() {
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n\
                    \x20  0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000\n\
                    \x20  1: 0100007F:0050 0100007F:18EC 01 00000000:00000000 00:00000000\n";
        assert!(listens(list, 6379));
        assert!(!listens(list, 80) && !listens(list, 6380) && !listens("", 1));
        let six = "sl\n 0: 00000000000000000000000000000000:18EB 0:0 0A\n";
        assert!(listens(six, 6379));
    }

    #[test]
    fn an_error_shows_the_last_lines() {
        let text: String = (0..20).map(|number| format!("line {number}\n")).collect();
        let last = last_lines(&text);
        assert!(last.starts_with("line 10\n") && last.ends_with("line 19"), "{last}");
        assert_eq!(last_lines(""), "");
    }
}
