//! Counts regions that a program on this computer marks itself.
//!
//! The program sends a message over a socket at each begin and end, and waits for the answer.
//! opcost reads the counters of the whole program when it accepts the connection, and again right
//! before it answers. A message ends with a byte 0; the answer is one byte.
//!
//! **A program on the host waits at each mark of a region.** The program could open counters of its own, but these would miss
//! threads that already run, and every language would need code for it. opcost's counters are open from the first instruction
//! on, and a mark is a connection, a write and a read in any language. The price is some 50 µs per entry.
//!
//! **Regions need `--regions`.** The variable that a marking program looks for is part of its environment and affects its
//! counts; without the flag, counts stay as they are.

use super::RunEnd;
use anyhow::{Context, Result, bail};
use opcost_base::exit::{Status, WithStatus};
use opcost_base::scratch::Scratch;
use opcost_record::metric::{ENTRIES, OPERATIONS};
use opcost_record::program_region::{Amounts, Message, ProgramRegions, RegionSum, VARIABLE};
use opcost_record::{CountingTime, Domain, Failure, MetricKey, Outcome, Reading};
use opcost_source::source::Source;
use opcost_sys::spawn::Aside;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

/// How long a program may take to send a message.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of a message; the sender shortens longer names.
const MESSAGE_BYTES_MAX: u64 = 4096;
/// The most bytes of a socket's path, with the final 0 (unix(7), sun_path).
const PATH_BYTES_MAX: usize = 108;

/// The socket on which programs mark regions.
pub(super) struct Socket {
    listener: UnixListener,
    path: PathBuf,
    _folder: Scratch,
}

impl Socket {
    /// Opens a socket that programs of this user can reach.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub(super) fn open() -> Result<Socket> {
        let folder = Scratch::new().context("cannot make a folder for a socket");
        let folder = folder.status(Status::Missing)?;
        let path = folder.path().join("regions");
        let length = path.as_os_str().len();
        let bound = || {
            if length >= PATH_BYTES_MAX {
                bail!(
                    "its path has {length} bytes, and {PATH_BYTES_MAX} are too many; set TMPDIR to a shorter one"
                );
            }
            let listener = UnixListener::bind(&path)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = bound()
            .with_context(|| format!("cannot make the socket '{}' for --regions", path.display()))
            .status(Status::Missing)?;
        Ok(Socket { listener, path, _folder: folder })
    }

    /// Puts the socket's path into a program's environment.
    pub(super) fn name_in(&self, env: &mut [(OsString, OsString)]) {
        if let Some((_, value)) = env.iter_mut().find(|(key, _)| key == VARIABLE) {
            *value = self.path.clone().into();
        }
    }
}

/// Readings of sums that grow while the program runs.
#[derive(Default)]
struct Sums(Vec<Option<Reading>>);

impl Amounts for Sums {
    fn add_between(&mut self, from: &Sums, to: &Sums) {
        if self.0.is_empty() {
            let nothing = |reading: &Reading| Reading {
                value: 0,
                time: reading.time.map(|_| CountingTime { enabled_ns: 0, running_ns: 0 }),
                key: reading.key.clone(),
            };
            self.0 = to.0.iter().map(|reading| reading.as_ref().map(nothing)).collect();
        }
        for ((sum, from), to) in self.0.iter_mut().zip(&from.0).zip(&to.0) {
            let difference = from.as_ref().zip(to.as_ref()).and_then(|(from, to)| since(from, to));
            // If a sum was not counted all the time, its value is unknown.
            *sum = sum.take().zip(difference).map(|(sum, (value, time))| Reading {
                value: sum.value.wrapping_add(value),
                time: sum.time.zip(time).map(|(one, other)| CountingTime {
                    enabled_ns: one.enabled_ns.wrapping_add(other.enabled_ns),
                    running_ns: one.running_ns.wrapping_add(other.running_ns),
                }),
                key: sum.key,
            });
        }
    }
}

/// The growth of a sum between two readings; `None` if the sum decreased.
fn since(from: &Reading, to: &Reading) -> Option<(u64, Option<CountingTime>)> {
    let less = |from: u64, to: u64| {
        Some(to.wrapping_sub(from)).filter(|difference| *difference <= i64::MAX as u64)
    };
    let time = match (from.time, to.time) {
        (Some(from), Some(to)) => Some(CountingTime {
            enabled_ns: less(from.enabled_ns, to.enabled_ns)?,
            running_ns: less(from.running_ns, to.running_ns)?,
        }),
        _ => None,
    };
    Some((less(from.value, to.value)?, time))
}

/// Counts the regions of a run.
pub(super) struct Serving<'a> {
    socket: &'a Socket,
    sources: &'a [Box<dyn Source>],
    regions: ProgramRegions<Sums>,
    /// The first failure that makes the counts useless.
    failure: Option<String>,
}

impl<'a> Serving<'a> {
    /// Begins to count; `sources` have counted since before the program started.
    pub(super) fn new(socket: &'a Socket, sources: &'a [Box<dyn Source>]) -> Serving<'a> {
        Serving { socket, sources, regions: ProgramRegions::default(), failure: None }
    }

    /// The costs of the regions.
    ///
    /// # Errors
    /// The text explains what is wrong with the program's marks.
    pub(super) fn end(self) -> Result<Vec<Reading>, String> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.regions.check_end().map_err(|error| error.to_string())?;
        Ok(self.regions.sums().iter().flat_map(readings).collect())
    }

    fn now(&self) -> Result<Sums> {
        let mut sums = Vec::new();
        self.sources.iter().try_for_each(|source| source.now(&mut sums))?;
        Ok(Sums(sums))
    }

    fn serve(&mut self, mut stream: UnixStream) -> Result<()> {
        let now = self.now()?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let message =
            receive(&stream).context("cannot read what the program says of its regions")?;
        self.regions.pause(|| now);
        match Message::parse(&message) {
            Some(Message::Begin(name)) => self.regions.begin(name)?,
            Some(Message::End(name, operations)) => self.regions.end(name, operations)?,
            None => {
                let shown = message.escape_ascii();
                bail!(
                    "the program said '{shown}' of a region, which this opcost does not understand; \
                     build it with this version's opcost.h or crate"
                );
            }
        }
        let now = self.now()?;
        self.regions.resume(|| now);
        // A program that is gone needs no answer.
        let _ = stream.write_all(b"\n");
        Ok(())
    }
}

impl Aside for Serving<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.listener.as_fd()
    }

    fn attend(&mut self) -> io::Result<()> {
        let stream = match self.socket.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
                return match error.kind() {
                    WouldBlock | Interrupted | ConnectionAborted => Ok(()),
                    _ => Err(error),
                };
            }
        };
        if let Err(error) = self.serve(stream) {
            self.failure.get_or_insert(format!("{error:#}"));
        }
        Ok(())
    }
}

/// Receives a message and removes its last byte.
fn receive(stream: &UnixStream) -> io::Result<Vec<u8>> {
    let mut message = Vec::new();
    let mut chunk = [0; 512];
    let mut limited = stream.take(MESSAGE_BYTES_MAX);
    loop {
        let length = limited.read(&mut chunk)?;
        message.extend(&chunk[..length]);
        if message.last() == Some(&0) {
            message.pop();
            return Ok(message);
        }
        if length == 0 {
            return Ok(message);
        }
    }
}

/// The readings of one region.
fn readings(sum: &RegionSum<Sums>) -> Vec<Reading> {
    let key = |key: &MetricKey| MetricKey { region: sum.name.clone(), ..key.clone() };
    let read = sum.amounts.0.iter().flatten();
    // An event that was never on the hardware is not counted; this differs from zero.
    let counted = read.filter(|reading| reading.time.is_none_or(|time| time.running_ns > 0));
    let mut all: Vec<Reading> =
        counted.map(|reading| Reading { key: key(&reading.key), ..reading.clone() }).collect();
    let told = [(ENTRIES, Some(sum.entries)), (OPERATIONS, sum.operations)];
    all.extend(told.into_iter().filter_map(|(name, value)| {
        let told = MetricKey::new(name, Domain::All, "regions");
        Some(Reading::plain(key(&told), value?))
    }));
    all
}

/// Makes a run fail that should have marked a region but did not.
pub(super) fn require(end: &mut RunEnd) {
    let marked = end.report.readings.iter().any(|reading| reading.key.is_of_program_region());
    if end.outcome == Outcome::Finished && !marked {
        let detail = "the program marked no region; mark one with opcost.h or the crate opcost-region, \
                      and let the program have the variable OPCOST_REGIONS, or leave --regions out";
        end.outcome = Outcome::Failed(Failure::Work { detail: detail.into() });
    }
}

#[cfg(test)]
#[path = "program_regions_tests.rs"]
mod tests;
