//! The text form of calls on performance counters and the kernel's answers. It allows tests against machines that are not at hand.
//!
//! ```text
//! opcost-perf 1
//! # Linux 6.12, AMD Zen 4, perf_event_paranoid 2, no privileges
//! open kind=0 config=0x0 exclude=k disabled inherit pid=self cpu=-1 leader=- -> 1
//! open kind=0 config=0x1 exclude=k pid=self cpu=-1 leader=1 -> EBUSY
//! enable 1 group -> ok
//! disable 1 group -> ok
//! read 1 -> value=9223372036854775807 enabled=1300 running=650
//! read 2 -> short=0
//! close 1 -> ok
//! ```
//!
//! The first line names the version. Every later line is blank, a comment (`#`), or one call with its answer after ` -> `:
//!
//! - `open` with fields in any order: `kind=` and `config=` (required), `config1=`, `config2=`,
//!   `config3=` (0 if absent), `exclude=` any of the letters `u`, `k`, `h` for user, kernel,
//!   hypervisor; the flags `inherit`, `enable_on_exec`, `disabled`, `pinned`; `pid=` `self` (the
//!   default), `any`, or `child` for any other process, whose number means nothing elsewhere;
//!   `cpu=` (-1, any, if absent); `leader=` the counter whose group it joins, or `-`. The answer is
//!   the new counter's number.
//! - `enable`, `disable`, `reset` with a counter and perhaps `group`; the answer is `ok`.
//! - `read` with a counter; the answer is `value=`, `enabled=`, `running=` (nanoseconds; running
//!   less than enabled means multiplexed), or `short=` with the number of bytes that came: 0 for a
//!   pinned counter that got no place.
//! - `close` with a counter; the answer is `ok`.
//!
//! The answer to every call but `close` may be an error instead: its name (`ENOENT`), or `errno=` and its number. Numbers are
//! decimal, or hexadecimal after `0x`.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "each of the programs that share this uses a part"
)]

mod recording;
mod replay;

pub use recording::RecordingPerf;
pub use replay::{ReplayError, ReplayPerf};

use opcost_sys::errno;
use opcost_sys::perf::{CounterId, CounterReading, EventAttr, ShortRead};
use std::fmt;
use std::io;
use std::str::FromStr;

/// First line of the format's current version.
pub const HEADER: &str = "opcost-perf 1";

/// The reason why a text is no transcript.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TranscriptError {
    /// The first line is not the header of this version.
    #[error("the transcript starts with '{0}', expected '{HEADER}'")]
    Version(String),
    /// A line has the wrong form.
    #[error("line {line} of the transcript: {what}: '{text}'")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// The fault of the line.
        what: &'static str,
        /// The line.
        text: String,
    },
}

/// The task to which a counter is attached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Target {
    /// The calling thread (pid 0).
    Caller,
    /// Everything that runs on a CPU (pid -1).
    Any,
    /// Another process.
    Child,
}

impl Target {
    /// Returns the target of a `pid` argument of `perf_event_open(2)`.
    pub fn from_pid(pid: i32) -> Self {
        match pid {
            0 => Target::Caller,
            -1 => Target::Any,
            _ => Target::Child,
        }
    }

    const WORDS: [(Target, &'static str); 3] =
        [(Target::Caller, "self"), (Target::Any, "any"), (Target::Child, "child")];
}

/// One call on a `PerfKernel`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs)] // the trait's methods and their arguments
pub enum Call {
    Open { attr: EventAttr, target: Target, cpu: i32, leader: Option<CounterId> },
    Enable { id: CounterId, whole_group: bool },
    Disable { id: CounterId, whole_group: bool },
    Reset { id: CounterId, whole_group: bool },
    Read { id: CounterId },
    Close { id: CounterId },
}

/// The kernel's answer to a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// The counter was opened.
    Opened(CounterId),
    /// The call succeeded.
    Done,
    /// The counter was read.
    Reading(CounterReading),
    /// The kernel returned fewer bytes than a reading has.
    Short(ShortRead),
    /// An error number.
    Errno(i32),
}

impl Answer {
    /// Returns the answer that an error stands for; `None` if the error did not come from a kernel.
    pub(super) fn from_error(error: &io::Error) -> Option<Answer> {
        let short = ShortRead::of(error).map(Answer::Short);
        short.or_else(|| error.raw_os_error().map(Answer::Errno))
    }

    /// Returns the error for this answer, if the answer is no success of `call`.
    pub(super) fn into_error(self, call: &Call) -> io::Error {
        match self {
            Answer::Errno(errno) => io::Error::from_raw_os_error(errno),
            Answer::Short(short) => short.into(),
            other => io::Error::new(
                io::ErrorKind::InvalidData,
                format!("'{other}' is no answer to '{call}'"),
            ),
        }
    }
}

/// One line after the first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Line {
    /// A blank line.
    Blank,
    /// A comment, without its `#` and one space.
    Note(String),
    /// A call and its answer.
    Exchange(Call, Answer),
}

/// A sequence of calls and answers with comments; `Display` and `FromStr` are its text.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Transcript {
    /// The lines after the first.
    pub lines: Vec<Line>,
}

impl Transcript {
    /// Returns the line number, from 1, of an element of `lines`.
    pub fn line_number(index: usize) -> usize {
        index + 2
    }

    /// Returns the first exchange at or after an index of `lines`, with its own index.
    pub(super) fn next_exchange(&self, from: usize) -> Option<(usize, &Call, &Answer)> {
        let numbered = self.lines.iter().enumerate().skip(from);
        numbered
            .filter_map(|(index, line)| match line {
                Line::Exchange(call, answer) => Some((index, call, answer)),
                Line::Blank | Line::Note(_) => None,
            })
            .next()
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        for line in &self.lines {
            match line {
                Line::Blank => writeln!(f)?,
                Line::Note(text) => writeln!(f, "{}", format!("# {text}").trim_end())?,
                Line::Exchange(call, answer) => writeln!(f, "{call} -> {answer}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, id, whole_group) = match *self {
            Call::Open { attr, target, cpu, leader } => {
                return write_open(f, &attr, target, cpu, leader);
            }
            Call::Enable { id, whole_group } => ("enable", id, whole_group),
            Call::Disable { id, whole_group } => ("disable", id, whole_group),
            Call::Reset { id, whole_group } => ("reset", id, whole_group),
            Call::Read { id } => ("read", id, false),
            Call::Close { id } => ("close", id, false),
        };
        write!(f, "{word} {id}{}", if whole_group { " group" } else { "" })
    }
}

fn write_open(
    f: &mut fmt::Formatter<'_>,
    attr: &EventAttr,
    target: Target,
    cpu: i32,
    leader: Option<CounterId>,
) -> fmt::Result {
    write!(f, "open kind={} config={:#x}", attr.kind, attr.config)?;
    let more = [("config1", attr.config1), ("config2", attr.config2), ("config3", attr.config3)];
    for (key, value) in more.into_iter().filter(|(_, value)| *value != 0) {
        write!(f, " {key}={value:#x}")?;
    }
    let excluded: String =
        [(attr.exclude_user, 'u'), (attr.exclude_kernel, 'k'), (attr.exclude_hv, 'h')]
            .into_iter()
            .filter_map(|(excluded, letter)| excluded.then_some(letter))
            .collect();
    if !excluded.is_empty() {
        write!(f, " exclude={excluded}")?;
    }
    let flags = [
        (attr.inherit, "inherit"),
        (attr.enable_on_exec, "enable_on_exec"),
        (attr.disabled, "disabled"),
        (attr.pinned, "pinned"),
    ];
    for (_, word) in flags.into_iter().filter(|(set, _)| *set) {
        write!(f, " {word}")?;
    }
    for (listed, word) in Target::WORDS {
        if listed == target {
            write!(f, " pid={word}")?;
        }
    }
    match leader {
        Some(leader) => write!(f, " cpu={cpu} leader={leader}"),
        None => write!(f, " cpu={cpu} leader=-"),
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Opened(id) => write!(f, "{id}"),
            Answer::Done => f.write_str("ok"),
            Answer::Reading(reading) => write!(
                f,
                "value={} enabled={} running={}",
                reading.value, reading.time_enabled_ns, reading.time_running_ns
            ),
            Answer::Short(short) => write!(f, "short={}", short.bytes),
            Answer::Errno(errno) => match errno::name(*errno) {
                Some(name) => f.write_str(name),
                None => write!(f, "errno={errno}"),
            },
        }
    }
}

impl FromStr for Transcript {
    type Err = TranscriptError;

    fn from_str(text: &str) -> Result<Self, TranscriptError> {
        let clip = |line: &str| line.chars().take(200).collect::<String>();
        let mut lines = text.lines();
        let first = lines.next().unwrap_or("");
        if first.trim_end() != HEADER {
            return Err(TranscriptError::Version(clip(first)));
        }
        let parsed: Result<Vec<Line>, _> = lines
            .enumerate()
            .map(|(index, text)| {
                parse_line(text.trim()).map_err(|what| TranscriptError::Line {
                    line: Transcript::line_number(index),
                    what,
                    text: clip(text),
                })
            })
            .collect();
        Ok(Transcript { lines: parsed? })
    }
}

/// The fault of a line.
type What = &'static str;

fn parse_line(text: &str) -> Result<Line, What> {
    if text.is_empty() {
        return Ok(Line::Blank);
    }
    if let Some(note) = text.strip_prefix('#') {
        return Ok(Line::Note(note.strip_prefix(' ').unwrap_or(note).to_string()));
    }
    let (call, answer) = text.split_once(" -> ").ok_or("no answer after ' -> '")?;
    let call = parse_call(call)?;
    Ok(Line::Exchange(call, parse_answer(&call, answer)?))
}

fn parse_call(text: &str) -> Result<Call, What> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    match fields.as_slice() {
        ["open", fields @ ..] => parse_open(fields),
        [word @ ("enable" | "disable" | "reset"), id, group @ ..] => {
            let id = parse_id(id)?;
            let whole_group = match group {
                [] => false,
                ["group"] => true,
                _ => return Err("only 'group' may follow the counter"),
            };
            Ok(match *word {
                "enable" => Call::Enable { id, whole_group },
                "disable" => Call::Disable { id, whole_group },
                _ => Call::Reset { id, whole_group },
            })
        }
        ["read", id] => Ok(Call::Read { id: parse_id(id)? }),
        ["close", id] => Ok(Call::Close { id: parse_id(id)? }),
        _ => Err("unknown call or wrong number of fields"),
    }
}

fn parse_open(fields: &[&str]) -> Result<Call, What> {
    let mut attr = EventAttr::default();
    let (mut target, mut cpu, mut leader) = (Target::Caller, -1, None);
    let mut seen: Vec<&str> = Vec::new();
    for field in fields {
        let (key, value) = field.split_once('=').unwrap_or((field, ""));
        if seen.contains(&key) {
            return Err("a field is given twice");
        }
        seen.push(key);
        match (key, field.contains('=')) {
            ("kind", true) => {
                attr.kind = u32::try_from(parse_u64(value)?).map_err(|_| "kind is too large")?;
            }
            ("config", true) => attr.config = parse_u64(value)?,
            ("config1", true) => attr.config1 = parse_u64(value)?,
            ("config2", true) => attr.config2 = parse_u64(value)?,
            ("config3", true) => attr.config3 = parse_u64(value)?,
            ("exclude", true) => {
                for letter in value.chars() {
                    match letter {
                        'u' => attr.exclude_user = true,
                        'k' => attr.exclude_kernel = true,
                        'h' => attr.exclude_hv = true,
                        _ => return Err("exclude takes the letters u, k and h"),
                    }
                }
            }
            ("inherit", false) => attr.inherit = true,
            ("enable_on_exec", false) => attr.enable_on_exec = true,
            ("disabled", false) => attr.disabled = true,
            ("pinned", false) => attr.pinned = true,
            ("pid", true) => {
                let words = Target::WORDS.iter().find(|(_, word)| *word == value);
                target = words.ok_or("pid is self, any or child")?.0;
            }
            ("cpu", true) => cpu = value.parse().map_err(|_| "cpu is not a number")?,
            ("leader", true) if value == "-" => leader = None,
            ("leader", true) => leader = Some(parse_id(value)?),
            _ => return Err("unknown field of open"),
        }
    }
    if !(seen.contains(&"kind") && seen.contains(&"config")) {
        return Err("open needs kind= and config=");
    }
    Ok(Call::Open { attr, target, cpu, leader })
}

fn parse_answer(call: &Call, text: &str) -> Result<Answer, What> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let field = |text: &str, key: &str| -> Result<u64, What> {
        let value = text.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        parse_u64(value.ok_or("a reading is value=, enabled=, running=")?)
    };
    match (call, fields.as_slice()) {
        (Call::Close { .. }, ["ok"]) => Ok(Answer::Done),
        (Call::Close { .. }, _) => Err("close is always answered by 'ok'"),
        (_, [name]) if numbered(name).is_some() => {
            Ok(Answer::Errno(numbered(name).unwrap_or_default()))
        }
        (_, [number]) if number.starts_with("errno=") => {
            match number["errno=".len()..].parse() {
                // The kernel's errors are 1 to MAX_ERRNO (include/linux/err.h).
                Ok(errno @ 1..=4095) => Ok(Answer::Errno(errno)),
                _ => Err("an error number is 1 to 4095"),
            }
        }
        (Call::Open { .. }, [id]) => Ok(Answer::Opened(parse_id(id)?)),
        (Call::Read { .. }, [short]) => {
            let bytes = field(short, "short").map_err(|_| "not an answer to read")?;
            match usize::try_from(bytes) {
                Ok(bytes) if bytes < ShortRead::WHOLE_BYTES => {
                    Ok(Answer::Short(ShortRead { bytes }))
                }
                _ => Err("a short read has fewer than 24 bytes"),
            }
        }
        (Call::Read { .. }, [value, enabled, running]) => Ok(Answer::Reading(CounterReading {
            value: field(value, "value")?,
            time_enabled_ns: field(enabled, "enabled")?,
            time_running_ns: field(running, "running")?,
        })),
        (Call::Enable { .. } | Call::Disable { .. } | Call::Reset { .. }, ["ok"]) => {
            Ok(Answer::Done)
        }
        _ => Err("not an answer to this call"),
    }
}

fn parse_id(text: &str) -> Result<CounterId, What> {
    let number = text.parse().map_err(|_| "a counter is a number");
    number.map(CounterId)
}

fn parse_u64(text: &str) -> Result<u64, What> {
    let number = match text.strip_prefix("0x") {
        // from_str_radix accepts a sign, a transcript does not.
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16),
        _ => text.parse(),
    };
    number.map_err(|_| "not a number of 64 bits")
}

/// Returns the error number of a name.
fn numbered(name: &str) -> Option<i32> {
    (1..4096).find(|errno| errno::name(*errno) == Some(name))
}
